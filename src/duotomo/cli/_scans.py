"""What a person can say about scans on the command line: the fields of the library's `ScanOptions`."""

from __future__ import annotations

from typing import Annotated

import typer

from duotomo.cli._flatten import Fields
from duotomo.io.scan_options import ScanOptions

GEOMETRY = (
    *("geometry", "machine", "pixel_spacing_mm", "source_to_detector_mm", "source_to_pivot_mm"),
    *("angles_deg", "variable", "values"),
)
PANELS = {"geometry": "Geometry", "values": "Line integrals", "voxel_mm": "Volume"}

Scans = Annotated[ScanOptions, Fields(panels=PANELS)]
"""All that can be said of scans, and of the grids that they are reconstructed on."""

FileScan = Annotated[ScanOptions, Fields(only=GEOMETRY, panels=PANELS)]
"""What can be said of a single file."""

VolumeVoxel = Annotated[
    tuple[float, float, float] | None,
    typer.Option("--voxel", help="FRAMES,ROWS,COLUMNS in mm, of a DICOM volume that does not say them."),
]
