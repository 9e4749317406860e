"""Options that commands share: where to compute, what scans are, and what is said of the run."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotomo.cli._compiling import announce_compiling
from duotomo.cli._flatten import Fields
from duotomo.cli._log import LOG
from duotomo.errors import shown
from duotomo.io.agreement import Allowed
from duotomo.io.scan_options import ScanOptions

if TYPE_CHECKING:
    from rich.console import Console

    from duotomo.io.dicom.deidentification import Pseudonyms


AUTO = "auto"
"""The device that is chosen for a run: CUDA, if it is there and has enough memory, and else the CPU."""


@dataclass(frozen=True, kw_only=True)
class Computing:
    """How to compute; `prepare` makes it so."""

    device: Annotated[
        str,
        typer.Option(
            help="Where to compute: auto (CUDA, if there is one with enough memory), cpu, cuda or cuda:1.",
            metavar="DEVICE",
        ),
    ] = AUTO
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of whatever is drawn at random.")] = 0
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads on the CPU. Unless given: one for each core.")
    ] = None

    @property
    def drawn(self) -> str:
        """Where noise is drawn: on the CPU unless a device was named, to be the same on every machine."""
        return "cpu" if self.device == AUTO else self.device

    def prepare(self, talk: Talk) -> str:
        """Set the threads and the seed, and return the device; raise unless it is there.

        For auto it is "cuda", if there is one: whether its memory is enough, a run knows that later.
        """
        import torch

        found = _found_device(self.device)
        torch.manual_seed(self.seed)
        if self.threads is not None:
            use_threads(self.threads)
        announce_compiling(talk)
        if ":" in found:
            # Kernels are started on the current device.
            torch.cuda.set_device(found)
        return found


def _found_device(asked: str) -> str:
    """Return the device that is meant; raise unless it is there."""
    import torch

    from duotomo.errors import DeviceError

    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == AUTO:
        return "cuda" if n_devices else "cpu"
    kind, _, number = asked.partition(":")
    if (
        kind not in ("cpu", "cuda")
        or (number and not number.isdecimal())
        or asked in ("cuda:", f"cpu:{number}")
    ):
        raise DeviceError(
            f"expected auto, cpu, cuda or cuda:1 for --device; got {asked!r}. Choose one of them."
        )
    if kind == "cuda" and n_devices == 0:
        raise DeviceError(
            f"expected a CUDA device for --device {asked}; got: no CUDA device is available here. Use "
            f"--device cpu, or auto."
        )
    if number and int(number) >= n_devices:
        there = "cuda:0" if n_devices == 1 else f"cuda:0 to cuda:{n_devices - 1}"
        raise DeviceError(
            f"expected a CUDA device that is there, {there}, for --device; got {asked}. Choose one of them."
        )
    return asked


def use_threads(n_threads: int) -> None:
    """Let PyTorch and the compiled loops use so many threads, but no more than there are cores."""
    import torch

    n_threads = min(n_threads, os.cpu_count() or 1)
    # The compiler starts its threads when it is imported, and afterwards may only use fewer.
    if "numba" in sys.modules:
        import numba

        most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
        numba.set_num_threads(min(n_threads, most))
    else:
        os.environ["NUMBA_NUM_THREADS"] = str(n_threads)
    # At the end: the compiler's threads are OpenMP's, and starting them sets how many PyTorch uses, too.
    torch.set_num_threads(n_threads)


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
    typer.Option(
        "--voxel",
        help="FRAMES,ROWS,COLUMNS in mm, or one number, of a DICOM volume that does not say them.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Talk:
    """Says what a command does, and what came out: in words, or as one JSON object at the end."""

    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")
    ] = False
    log: Annotated[
        Path | None,
        typer.Option(
            help="Append all that is said, and what libraries warn of, to a file. It names no patient."
        ),
    ] = None

    @functools.cached_property
    def console(self) -> Console:
        """Where progress is shown."""
        from duotomo.cli._console import LoggedConsole

        return LoggedConsole(stderr=True, highlight=False, soft_wrap=True, markup=False, quiet=self.quiet)

    def progress(self, text: str) -> None:
        """Say what is being done."""
        self.console.print(shown(text))

    def say(self, text: str) -> None:
        """Say what came out; with --json, beside the progress."""
        if self.as_json:
            self.progress(text)
            return
        LOG.info(shown(text))
        if not self.quiet:
            typer.echo(shown(text))

    def warn(self, text: str, *, red: bool = False) -> None:
        """Say on standard error what nobody should miss, even with --quiet."""
        LOG.warning(shown(text))
        typer.secho(shown(text), err=True, fg=typer.colors.RED if red else None)

    def show(self, drawn: Any) -> None:
        """Show what Rich draws, where `say` would say it."""
        from rich.console import Console

        with Console(file=StringIO(), width=200, highlight=False, markup=False) as unseen:
            unseen.print(drawn)
            LOG.info(unseen.file.getvalue())  # type: ignore[attr-defined]
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
