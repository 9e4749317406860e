"""The reconstructions of the FDA's projections: their table, and slices through the lesion."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from duotomo.io import read_volume
from duotomo.report.slices import slices
from duotomo.reproduction.summary import digits
from duotomo.reproduction.table import TABLE, Row, TableHead, read_json

WINDOW_PER_MM = (0.0, 0.12)
"""Attenuation drawn black and white: of the breast's tissues, with room above."""


@dataclass(frozen=True, kw_only=True)
class FdaRow:
    """One algorithm: what `duotomo.reproduction.fda.measures` measured, and how long it took."""

    name: str
    label: str
    settings: str
    offset_mm: tuple[float, float, float]
    lesion_per_mm: float
    surroundings_per_mm: float
    contrast_per_mm: float
    noise_per_mm: float
    status: str
    reason: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class FdaTable(TableHead):
    """All algorithms on the FDA's projections.

    lesion_center_mm: xyz. true_contrast_per_mm: the least and largest that it can be, as the tissue around
    the lesion is not known.
    """

    lesion_center_mm: tuple[float, float, float]
    true_contrast_per_mm: tuple[float, float]
    rows: tuple[FdaRow, ...]


def read_fda(folder: Path) -> FdaTable:
    """Return the table in a folder that `reproduce_fda` wrote to; raise unless it is there and whole."""
    return read_json("read_fda", Path(folder) / TABLE, _table, writer="reproduce_fda")


def _table(plain: Row) -> FdaTable:
    rows = tuple(_row(row) for row in plain["rows"])
    x, y, z = map(float, plain["lesion_center_mm"])
    low, high = map(float, plain["true_contrast_per_mm"])
    given = {field.name: plain[field.name] for field in fields(FdaTable)}
    if not rows:
        raise ValueError("no rows")
    return FdaTable(
        **{**given, "rows": rows, "lesion_center_mm": (x, y, z), "true_contrast_per_mm": (low, high)}
    )


def _row(plain: dict[str, Any]) -> FdaRow:
    x, y, z = map(float, plain["offset_mm"])
    given = {field.name: plain[field.name] for field in fields(FdaRow)}
    return FdaRow(**{**given, "offset_mm": (x, y, z)})


def fda_lines(table: FdaTable) -> list[list[str]]:
    """Return the table as text: names of the columns, then one line for each algorithm."""
    truth = sum(table.true_contrast_per_mm) / 2
    header = ["algorithm", "x, mm", "y, mm", "z, mm", "contrast, 1/mm", "of the true", "noise, 1/mm"]
    header += ["contrast / noise", "seconds"]
    return [header] + [
        [
            row.label,
            *(f"{offset:+.2f}" for offset in row.offset_mm),
            digits(row.contrast_per_mm),
            f"{100 * row.contrast_per_mm / truth:.0f} %",
            digits(row.noise_per_mm),
            digits(row.contrast_per_mm / row.noise_per_mm) if row.noise_per_mm else "-",
            digits(row.seconds),
        ]
        for row in table.rows
    ]


def fda_remarks(table: FdaTable) -> list[str]:
    """Return what the columns mean, and what cannot be expected of them."""
    low, high = table.true_contrast_per_mm
    return [
        "x, y, z: from the true centre to the centroid of the spot above half of its height. z is the depth.",
        f"Contrast: the mean over the true lesion, less the median of the ring around it. The true one lies "
        f"between {digits(low)} and {digits(high)} 1/mm: the tissue in its place is not in the data.",
        "A lesion 3.2 mm thick is smeared over some 12 mm of depth by views over 30 degrees, so a linear "
        "method finds a small part of the contrast.",
        "Noise: the standard deviation in one calm square of 8 mm of the lesion's slice, which has some "
        "structure of its own. Total variation makes such places flat, and so its noise says less.",
    ]


def draw_fda(folder: Path) -> list[Path]:
    """Draw three slices through the lesion, of each algorithm and of all together, in `folder/figures`."""
    folder = Path(folder)
    table = read_fda(folder)
    read = {row: read_volume(folder / f"{row.name}.nii.gz") for row in table.rows}
    sheets = {row.name: {row.label: volume} for row, (volume, _) in read.items()}
    sheets["all"] = {row.label: volume for row, (volume, _) in read.items()}
    grid = next(iter(read.values()))[1]
    return [
        file
        for name, rows in sheets.items()
        for file in slices(
            folder / "figures" / f"slices-{name}",
            rows=rows,
            grid=grid,
            unit="1/mm",
            window=WINDOW_PER_MM,
            at_mm=table.lesion_center_mm,
        )
    ]
