"""Where things are: volume grids, acquisitions, the machine frame and published machines.

Machine frame, millimetres: x along the tube's travel, y from chest wall to nipple, z from the detector up to
the source. The origin is on the detector's surface, at the chest-wall edge, under the middle of the sweep.
Volumes are (z, y, x), projections (view, v, u), points xyz.
"""

from duotomo.geometry.acquisition import Acquisition
from duotomo.geometry.field_of_view import grid_in_view
from duotomo.geometry.frame import pixel_to_world, voxel_to_world, world_to_pixel, world_to_voxel
from duotomo.geometry.grid import VolumeGrid
from duotomo.geometry.machines import (
    MACHINES,
    ge_senoclaire,
    hologic_dimensions,
    paper,
    siemens_inspiration,
    victre,
)

__all__ = [
    "MACHINES",
    "Acquisition",
    "VolumeGrid",
    "ge_senoclaire",
    "grid_in_view",
    "hologic_dimensions",
    "paper",
    "pixel_to_world",
    "siemens_inspiration",
    "victre",
    "voxel_to_world",
    "world_to_pixel",
    "world_to_voxel",
]
