"""Noisy projections that the FDA simulated, with a projector that shares no code with duotomo."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import ShapeError
from duotomo.geometry import Acquisition
from duotomo.reproduction.third_party.files import Origin, find, scipy_part

ORIGIN = Origin(
    source="github.com/DIDSR/ReconDBT, example_data/ (R. Zeng, FDA)",
    licence="public domain",
    making="Copy g_noi.mat.",
)

FILE = "fda_dbt_projections/g_noi.mat"

_N_VIEWS, _N_V, _N_U = 7, 170, 615
_PIXEL_MM = 0.4
_PIVOT_TO_SOURCE_MM, _PIVOT_HEIGHT_MM = 605.0, 45.0
_LESION_FROM_PIVOT_MM = (-0.2, 31.0, -21.4)


@dataclass(frozen=True, kw_only=True, eq=False)
class FdaScan:
    """Seven views of a breast with one bright lesion, and what is known of the lesion.

    projections: noisy line integrals, (view, v, u), float64. photons: per pixel and view without anything in
    the beam. lesion_center_mm, lesion_radii_mm: of an ellipsoid, (x, y, z) in the machine frame.
    lesion_per_mm: its attenuation, in the place of the breast's.
    """

    projections: NDArray[np.float64]
    acquisition: Acquisition
    photons: float
    lesion_center_mm: tuple[float, float, float]
    lesion_radii_mm: tuple[float, float, float]
    lesion_per_mm: float


def fda_projections(folder: str | os.PathLike[str]) -> FdaScan:
    """Return the example scan of ReconDBT in the machine frame; its own origin is the pivot.

    The breast is a voxel phantom of 20 keV tissues (Johns and Yaffe 1987) that is not in the data: what is
    known exactly is the lesion.

    folder: holds fda_dbt_projections/.
    """
    path = find(folder, FILE, how_to_get=ORIGIN)
    integrals = scipy_part("io").loadmat(path)["g_noi"]
    if integrals.shape != (_N_U, _N_V, _N_VIEWS):
        raise ShapeError(
            f"fda_projections: {path}: expected g_noi (s, t, view) = {(_N_U, _N_V, _N_VIEWS)}; got "
            f"{integrals.shape}. {ORIGIN}"
        )
    x_mm, y_mm, z_mm = _LESION_FROM_PIVOT_MM
    return FdaScan(
        # The file's s runs along x, its t along y.
        projections=np.ascontiguousarray(integrals.transpose(2, 1, 0), dtype=np.float64),
        acquisition=_acquisition(),
        photons=3e5 / _N_VIEWS,
        lesion_center_mm=(x_mm, y_mm, z_mm + _PIVOT_HEIGHT_MM),
        lesion_radii_mm=(3.2, 3.2, 1.6),
        lesion_per_mm=0.36,
    )


def _acquisition() -> Acquisition:
    """Seven views, theta from -15 to 15 degrees; positive theta is towards negative x."""
    theta = np.radians(-15.0 + 5.0 * np.arange(_N_VIEWS))
    source_mm = np.stack(
        [
            -_PIVOT_TO_SOURCE_MM * np.sin(theta),
            np.zeros(_N_VIEWS),
            _PIVOT_TO_SOURCE_MM * np.cos(theta) + _PIVOT_HEIGHT_MM,
        ],
        axis=1,
    )
    return Acquisition.from_vectors(
        source_mm=source_mm,
        detector_center_mm=np.tile((0.0, _N_V * _PIXEL_MM / 2, 0.0), (_N_VIEWS, 1)),
        u_mm=np.tile((_PIXEL_MM, 0.0, 0.0), (_N_VIEWS, 1)),
        v_mm=np.tile((0.0, _PIXEL_MM, 0.0), (_N_VIEWS, 1)),
        detector_shape=(_N_V, _N_U),
    )
