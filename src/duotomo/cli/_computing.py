"""Where a command computes, on how many threads, and from which seed."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import typer


class Device(Enum):
    """Where to compute."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True, kw_only=True)
class Computing:
    """How to compute; `prepare` makes it so."""

    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.CPU
    seed: Annotated[int, typer.Option(min=0, help="Seed of whatever is drawn at random.")] = 0
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads on the CPU. Unless given: one for each core.")
    ] = None

    def prepare(self) -> None:
        """Set the threads and the seed; raise unless the device is there."""
        import torch

        from duotomo.errors import DeviceError

        if self.device is Device.CUDA and not torch.cuda.is_available():
            raise DeviceError(
                "expected a CUDA device for --device cuda; got: no CUDA device is available here. Use "
                "--device cpu."
            )
        torch.manual_seed(self.seed)
        if self.threads is not None:
            use_threads(self.threads)


def use_threads(n_threads: int) -> None:
    """Let PyTorch and the compiled loops use so many threads, but no more than there are cores."""
    import torch

    n_threads = min(n_threads, os.cpu_count() or 1)
    torch.set_num_threads(n_threads)
    # The compiler starts its threads when it is imported, and afterwards may only use fewer.
    if "numba" in sys.modules:
        import numba

        most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
        numba.set_num_threads(min(n_threads, most))
    else:
        os.environ["NUMBA_NUM_THREADS"] = str(n_threads)
