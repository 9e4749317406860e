"""Filtered back projection: the scale of slabs and of details, views of unequal spacing, its windows."""

from __future__ import annotations

from math import radians

import numpy as np
import pytest
import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import Acquisition, VolumeGrid, hologic_dimensions, pixel_to_world
from duotomo.phantoms import EllipticCylinder
from duotomo.reconstruct import Algorithm, BackProjection, FilteredBackProjection, hann, ramp, reconstruct
from tests.reconstruct.visit import DATA, GRID, SCAN

FLAT = VolumeGrid.on_detector((10, 12, 40), (4.0, 4.0, 2.0))


def arc(n_views: int = 15, degrees: float = 50.0) -> Acquisition:
    return Acquisition.arc(
        n_views=n_views,
        angle_range_rad=radians(degrees),
        source_to_detector_mm=660.0,
        pivot_height_mm=0.0,
        detector_shape=(28, 90),
        pixel_spacing_mm=(2.0, 2.0),
    )


def endless_slab(acquisition: Acquisition, integral: float) -> torch.Tensor:
    """Return projections of a slab without sides whose integral along z is `integral`."""
    n_v, n_u = acquisition.detector_shape
    index = np.stack(np.meshgrid(np.arange(n_v), np.arange(n_u), indexing="ij"), axis=-1)
    rays = acquisition.sources_mm[:, None, None] - pixel_to_world(acquisition, index)
    return torch.from_numpy(integral * np.linalg.norm(rays, axis=-1) / rays[..., 2])


@pytest.mark.parametrize("window", [hann, ramp])
@pytest.mark.parametrize(
    "acquisition",
    [arc(), arc(degrees=15.0), arc(n_views=1), arc()[[0, 1, 2, 7, 14]], hologic_dimensions().bin(60)],
)
def test_wide_slab_has_its_mean_attenuation(acquisition: Acquisition, window: object) -> None:
    # A slab of 0.05/mm, 25 mm thick, in a grid 40 mm thick: 0.05 * 25 / 40 in every voxel.
    data = endless_slab(acquisition, 0.05 * 25)
    algorithm = FilteredBackProjection(window=window)  # type: ignore[arg-type]
    found = reconstruct(data, grid=FLAT, acquisition=acquisition, algorithm=algorithm).value
    seen = found != 0
    assert float(seen.double().mean()) > 0.9
    assert float(found[seen].mean()) == pytest.approx(0.05 * 25 / 40, rel=1e-3)
    assert float((found[seen] / (0.05 * 25 / 40) - 1).abs().max()) < 0.02


def test_object_that_the_detector_cuts_off_has_no_false_border() -> None:
    # A wedge, thin on the low side of u and thick on the high side: its sides are not seen, nor invented.
    data = endless_slab(arc(), 1.0) * torch.linspace(0.2, 1.8, 90, dtype=torch.float64)
    wide = VolumeGrid.on_detector((10, 8, 44), (4.0, 4.0, 4.0))
    algorithm = FilteredBackProjection(window=ramp)
    found = reconstruct(data, grid=wide, acquisition=arc(), algorithm=algorithm).value
    profile = found[0, 4] * wide.size_mm[0]
    expected = 1 + 1.6 / 180 * 4.0 * (torch.arange(44, dtype=torch.float64) - 21.5)
    assert float((profile - expected).abs().max()) < 0.03


def wall(half_mm: float) -> torch.Tensor:
    solid = EllipticCylinder(
        center_mm=(0.0, 24.0, 20.0), radii_mm=(half_mm, 60.0), height_mm=40.0, value=0.05
    )
    return torch.from_numpy(solid.line_integrals(arc(), oversample=2))


@pytest.mark.parametrize("half_mm", [4.0, 6.0, 12.0])
def test_upright_wall_has_its_full_contrast_where_back_projection_blurs_it(half_mm: float) -> None:
    # A wall through the whole thickness lies where the views look: the filter must give its attenuation.
    def inside_and_beside(algorithm: Algorithm) -> tuple[float, float]:
        volume = reconstruct(wall(half_mm), grid=FLAT, acquisition=arc(), algorithm=algorithm).value
        n_in, n_out = int(half_mm / 2 / 2), int(half_mm / 2) + 2
        columns = volume[3:7, 4:8].mean(dim=(0, 1))
        return float(columns[20 - n_in : 20 + n_in].mean()), float(columns[20 + n_out : 23 + n_out].mean())

    inside, beside = inside_and_beside(FilteredBackProjection(window=ramp))
    assert inside == pytest.approx(0.05, rel=0.04)
    assert beside == pytest.approx(0, abs=0.004)
    blurred_inside, blurred_beside = inside_and_beside(BackProjection())
    assert blurred_inside - blurred_beside < inside - beside


def test_views_crowded_on_one_side_count_less_each() -> None:
    # Doubling each of the views changes neither the range of slopes much nor the mean.
    twice = arc()[[i for i in range(15) for _ in (0, 1)]]
    data = wall(6.0)
    algorithm = FilteredBackProjection(window=ramp)
    once = reconstruct(data, grid=FLAT, acquisition=arc(), algorithm=algorithm).value
    both = reconstruct(
        data.repeat_interleave(2, dim=0), grid=FLAT, acquisition=twice, algorithm=algorithm
    ).value
    assert float((both - once).norm() / once.norm()) < 0.05


def test_hann_is_smoother_than_the_ramp() -> None:
    smooth, sharp = (
        reconstruct(DATA, grid=GRID, acquisition=SCAN, algorithm=FilteredBackProjection(window=window)).value
        for window in (hann, ramp)
    )
    assert float(smooth.diff(dim=2).norm()) < 0.95 * float(sharp.diff(dim=2).norm())


def test_start_and_weights_are_refused() -> None:
    algorithm = FilteredBackProjection()
    with pytest.raises(DuotomoError, match="FilteredBackProjection: expected no start; got one"):
        reconstruct(DATA, grid=GRID, acquisition=SCAN, algorithm=algorithm, start=torch.zeros(GRID.shape))
    with pytest.raises(DuotomoError, match="FilteredBackProjection: expected no weights; got some"):
        reconstruct(DATA, grid=GRID, acquisition=SCAN, algorithm=algorithm, weights=torch.ones_like(DATA))


def test_grid_beside_the_beam_is_refused() -> None:
    aside = VolumeGrid(shape=GRID.shape, spacing_mm=GRID.spacing_mm, center_mm=(20.0, 20.0, 2000.0))
    with pytest.raises(GeometryError, match="FilteredBackProjection: expected the grid's footprint"):
        reconstruct(DATA, grid=aside, acquisition=SCAN, algorithm=FilteredBackProjection())
