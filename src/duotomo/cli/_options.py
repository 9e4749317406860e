"""Options that commands share: where to compute, what scans are, and what is said of the run."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._flatten import Fields
from duotomo.errors import shown
from duotomo.io.agreement import Allowed
from duotomo.io.scan_options import ScanOptions

if TYPE_CHECKING:
    from rich.console import Console

    from duotomo.io.dicom.deidentification import Pseudonyms


class Device(Enum):
    """Where to compute."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True, kw_only=True)
class Computing:
    """How to compute; `prepare` makes it so."""

    device: Annotated[Device, typer.Option(help="Where to compute.")] = Device.CPU
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of whatever is drawn at random.")] = 0
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads on the CPU. Unless given: one for each core.")
    ] = None

    def prepare(self, talk: Talk) -> None:
        """Set the threads and the seed, and say when loops are compiled; raise unless the device is there."""
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
        _announce_compiling(talk)


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


class _Compiling(logging.Handler):
    """Says that loops are compiled, before the first of them is."""

    def __init__(self, talk: Talk, *, said: bool) -> None:
        super().__init__(logging.INFO)
        self._talk, self.said = talk, said

    def emit(self, record: logging.LogRecord) -> None:
        if not self.said:
            self.said = True
            self._talk.progress("Compiling for this machine, once: about half a minute")


def _announce_compiling(talk: Talk) -> None:
    """Say once that loops are compiled, also where one command runs another."""
    logger = logging.getLogger("duotomo.kernels")
    before = [one for one in logger.handlers if isinstance(one, _Compiling)]
    for one in before:
        logger.removeHandler(one)
    logger.addHandler(_Compiling(talk, said=any(one.said for one in before)))
    logger.setLevel(logging.INFO)


GEOMETRY = (
    *("geometry", "machine", "pixel_spacing_mm", "source_to_detector_mm", "source_to_pivot_mm"),
    *("angles_deg", "variable", "values"),
)
PANELS = {"geometry": "Geometry", "values": "Line integrals", "voxel_mm": "Volume"}

Scans = Annotated[ScanOptions, Fields(panels=PANELS)]
"""All that can be said of scans, and of the grids that they are reconstructed on."""

FileScan = Annotated[ScanOptions, Fields(only=GEOMETRY, panels=PANELS)]
"""What can be said of a single file."""

_DIFFERENT = ("allow_different_patients", "allow_different_sides", "allow_different_views")
_VISITS = {_DIFFERENT[0]: "Visits that differ"}

Permissions = Annotated[Allowed, Fields(panels=_VISITS)]
"""What visits may be although they do not belong together."""

FilePermissions = Annotated[Allowed, Fields(only=_DIFFERENT, panels=_VISITS)]
"""In what a file may differ from those that say whose it is."""


@dataclass(frozen=True, kw_only=True)
class Deidentifying:
    """Whether DICOM files name the patient; `pseudonyms` says by what they name her otherwise."""

    deidentify: Annotated[
        bool,
        typer.Option("--deidentify", help="Write DICOM files by DICOM's basic confidentiality profile."),
    ] = False
    deidentify_key: Annotated[
        Path | None,
        typer.Option(help="A file with a secret, with which pseudonyms and UIDs can be repeated."),
    ] = None

    def pseudonyms(self) -> Pseudonyms | None:
        """Return what makes pseudonyms, None if patients are named."""
        from duotomo.errors import DuotomoError
        from duotomo.io.dicom.deidentification import Pseudonyms

        if self.deidentify_key is None:
            return Pseudonyms() if self.deidentify else None
        if not self.deidentify:
            raise DuotomoError(
                "expected --deidentify-key only with --deidentify; got it alone. Leave it out, or add that."
            )
        return Pseudonyms.of_file(self.deidentify_key)


VolumeVoxel = Annotated[
    tuple[float, float, float] | None,
    typer.Option("--voxel", help="FRAMES,ROWS,COLUMNS in mm, of a DICOM volume that does not say them."),
]


@dataclass(frozen=True, kw_only=True)
class Talk:
    """Says what a command does, and what came out: in words, or as one JSON object at the end."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")
    ] = False

    @functools.cached_property
    def console(self) -> Console:
        """Where progress is shown."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, soft_wrap=True, markup=False, quiet=self.quiet)

    def progress(self, text: str) -> None:
        """Say what is being done."""
        self.console.print(shown(text))

    def say(self, text: str) -> None:
        """Say what came out; with --json, beside the progress."""
        if self.as_json:
            self.progress(text)
        elif not self.quiet:
            typer.echo(shown(text))

    def show(self, drawn: Any) -> None:
        """Show what Rich draws, where `say` would say it."""
        from rich.console import Console

        if self.as_json:
            self.console.print(drawn)
        elif not self.quiet:
            Console(highlight=False, markup=False).print(drawn)

    def wrote(self, paths: Iterable[Path]) -> None:
        """Say which files were written."""
        self.say("Wrote")
        for path in paths:
            self.say(f"  {path}")

    def finish(self, content: Mapping[str, Any]) -> None:
        """End with what came out, as one JSON object if that was asked for."""
        if self.as_json:
            from duotomo.io.plain_json import json_text

            typer.echo(json_text(content))
