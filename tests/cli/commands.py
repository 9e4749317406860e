"""Runs commands as a shell would, and writes the scans they read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from duotomo.cli import main
from duotomo.cli._errors import NOT_TRUSTED as NOT_TRUSTED
from duotomo.io.scan import Scan, Values
from duotomo.io.scan_hdf5 import write_scan
from tests.cli.tiny import tiny_study

THICKNESS_MM = 48.0


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What --json wrote: one line, and nothing else."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


def duotomo(*words: object) -> Ran:
    """Run a command; exceptions that it does not handle are raised."""
    ran = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    return Ran(ran.exit_code, ran.stdout, ran.stderr)


def write_scans(folder: Path, *, thickness_mm: float | None = THICKNESS_MM) -> tuple[Path, Path]:
    """Write the visits of the tiny study as scans of their own."""
    paths = folder / "Doe_Jane_1.h5", folder / "Doe_Jane_2.h5"
    for path, visit in zip(paths, tiny_study().visits, strict=True):
        scan = Scan(
            projections=visit.projections,
            values=Values.LINE_INTEGRALS,
            acquisition=visit.acquisition,
            thickness_mm=thickness_mm,
        )
        write_scan(path, scan)
    return paths
