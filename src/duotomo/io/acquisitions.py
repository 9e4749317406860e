"""How scans were, or would be, taken: acquisitions from files and from machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from duotomo.errors import DuotomoError
from duotomo.geometry import MACHINES, Acquisition
from duotomo.io.file_kind import FileKind, recognise
from duotomo.io.paths import AnyPath, FileError, naming
from duotomo.io.scan_file import read_scan
from duotomo.io.scan_geometry import geometry_text
from duotomo.io.scan_options import ScanOptions
from duotomo.io.study_file import read_study

_WHERE = "read_acquisitions"


@dataclass(frozen=True, kw_only=True)
class Acquired:
    """How one visit was taken.

    Parameters
    ----------
    acquisition : Acquisition
        Its views.
    thickness_mm : float, optional
        Of the compressed breast, where the file says it.
    """

    acquisition: Acquisition
    thickness_mm: float | None = None


def read_acquisitions(paths: Sequence[AnyPath], options: ScanOptions | None = None) -> tuple[Acquired, ...]:
    """Return how visits were taken, whatever says so.

    Parameters
    ----------
    paths : sequence of str or path
        Scans or geometry JSON files, the reference first; or one study. None, with machines in the options.
    options : ScanOptions, optional
        What scans do not say. Without paths, the machines that are meant.

    Returns
    -------
    tuple of Acquired
        One for each visit.

    Raises
    ------
    FileError
        If a file cannot be read, is of another kind, or does not say enough.
    DuotomoError
        If nothing is named, or a machine is not known.
    """
    options, files = options or ScanOptions(), [Path(path) for path in paths]
    if not files:
        return _of_machines(options)
    found: list[Acquired] = []
    for number, path in enumerate(files, start=1):
        kind = recognise(path, with_geometry=options.has_geometry)
        if kind is FileKind.STUDY and len(files) == 1:
            found += [Acquired(acquisition=visit.acquisition) for visit in read_study(path).visits]
        elif kind is FileKind.GEOMETRY and path.suffix.lower() == ".json":
            with naming(_WHERE, path):
                found.append(Acquired(acquisition=Acquisition.from_json(geometry_text(path))))
        elif kind is FileKind.SCAN:
            scan = read_scan(path, options.of_visit(number, len(files)))
            found.append(Acquired(acquisition=scan.acquisition, thickness_mm=scan.thickness_mm))
        else:
            raise FileError(
                f"{_WHERE}: {path}: expected scans, geometry JSON, or one study alone; got: {kind.value}. "
                f"An image becomes a scan with `geometry` or `machine`."
            )
    return tuple(found)


def _of_machines(options: ScanOptions) -> tuple[Acquired, ...]:
    if not options.machine:
        raise DuotomoError(
            f"{_WHERE}: expected scans, a study, or machines; got none. Name files, or `machine='victre'`."
        )
    for name in options.machine:
        if name not in MACHINES:
            raise DuotomoError(
                f"{_WHERE}: expected a machine among {', '.join(MACHINES)}; got {name!r}. Choose one, or "
                f"write a geometry JSON."
            )
    return tuple(Acquired(acquisition=MACHINES[name]()) for name in options.machine)
