"""Back projection is a mean: it keeps even volumes, and stays within the range of its rays."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.operators import Projector
from duotomo.reconstruct import BackProjection, reconstruct
from tests.reconstruct.visit import DATA, GRID, SCAN
from tests.strategies import scans


@given(visit=scans(), value=st.floats(0.01, 1))
def test_even_volume_comes_back_where_rays_met_it(
    visit: tuple[VolumeGrid, Acquisition], value: float
) -> None:
    grid, acquisition = visit
    projector = Projector(grid=grid, acquisition=acquisition)
    data = projector(torch.full(grid.shape, value, dtype=torch.float64))
    if not data.any():
        return
    found = reconstruct(data, grid=grid, acquisition=acquisition, algorithm=BackProjection()).value
    seen = projector.adjoint((data > 0).double()) > 1e-9
    torch.testing.assert_close(found[seen], torch.full_like(found[seen], value), rtol=1e-6, atol=1e-12)


def test_weighted_rays_decide() -> None:
    # With all weight on one view, the others' errors are not seen.
    weights = torch.zeros_like(DATA)
    weights[4] = 1
    one = reconstruct(DATA, grid=GRID, acquisition=SCAN, algorithm=BackProjection(), weights=weights).value
    alone = reconstruct(DATA[4:5], grid=GRID, acquisition=SCAN[4], algorithm=BackProjection()).value
    torch.testing.assert_close(one, alone, rtol=1e-4, atol=1e-7)


def test_start_is_refused() -> None:
    with pytest.raises(DuotomoError, match="BackProjection: expected no start; got one"):
        reconstruct(
            DATA, grid=GRID, acquisition=SCAN, algorithm=BackProjection(), start=torch.zeros(GRID.shape)
        )


def test_grid_beside_the_beam_is_refused() -> None:
    aside = VolumeGrid(shape=GRID.shape, spacing_mm=GRID.spacing_mm, center_mm=(20.0, 20.0, 2000.0))
    with pytest.raises(GeometryError, match="BackProjection: expected the grid's footprint on the detector"):
        reconstruct(DATA, grid=aside, acquisition=SCAN, algorithm=BackProjection())
