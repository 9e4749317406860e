"""The fused volume is that of both views where the motion is predicted to be right, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_centers_mm
from duotomo.methods import MotionUncertainty, Result, fused
from duotomo.methods.fused import FUSED
from duotomo.transforms import Affine, Motion
from tests.report.page_results import GRID, LANDMARK, MOVED, body, result

ALONE, BOTH = body(MOVED), body(LANDMARK)


def unsure(per_mm: float, grid: VolumeGrid = GRID) -> MotionUncertainty:
    """Return that of a motion whose error grows with the distance from x = 0, and is zero there."""
    transform = Affine(grid)
    motion = Motion(transform, transform.identity())
    matrix = torch.diag(torch.tensor([1.0 + 1e-3, 1.0, 1.0]).double())
    stretched = transform.params(matrix=matrix, translation_mm=(0.0, 0.0, 0.0))
    modes = 1e3 * per_mm * (stretched - transform.identity())[:, None]
    return MotionUncertainty(motion=motion, form="sandwich", modes=modes, core=torch.eye(1).double())


def made(known: MotionUncertainty | None) -> Result:
    found = result(volume=BOTH, others={"visit_1": ALONE})
    if known is None:
        return found
    return replace(found, motions=(known.motion,), uncertainties=(known,))


def test_both_views_are_used_where_the_error_is_small_and_the_reference_elsewhere() -> None:
    found = fused(made(unsure(0.1)), GRID, limit_mm=1.0)
    # The predicted error is 0.1 mm for each millimetre along x.
    x = GRID.low_mm[2] + (torch.arange(GRID.shape[2]) + 0.5) * GRID.spacing_mm[2]
    inside, outside = x.abs() < 8, x.abs() > 12
    assert bool(found.from_both[..., inside].all())
    assert not bool(found.from_both[..., outside].any())
    assert torch.equal(found.volume[..., inside], BOTH[..., inside])
    assert torch.equal(found.volume[..., outside], ALONE[..., outside])
    assert 0.3 < found.share < 0.7
    assert "from both views in" in found.words
    assert "right to 1 mm, and of visit 1 alone elsewhere" in found.words
    put = found.put(made(unsure(0.1)))
    assert torch.equal(put.others[FUSED], found.volume)
    assert put.fused_mask is not None
    assert float(fused(made(unsure(0.1)), GRID, limit_mm=2.0).share) > found.share


@pytest.mark.parametrize("n_x", [40, 41, 43])
def test_the_border_is_where_the_error_is_whatever_the_number_of_voxels(n_x: int) -> None:
    grid = VolumeGrid.on_detector((12, 30, n_x), (2.0, 1.5, 1.5))
    flat, known = torch.ones(grid.shape), unsure(0.1, grid)
    x = torch.from_numpy(voxel_centers_mm(grid))[..., 0]
    # Linear between points 6 mm apart, but at the middle, and beyond the outermost of them.
    amid = (x.abs() > 6) & (x.abs() < grid.size_mm[2] / 2 - 6)
    expected = 0.1 * x[amid].abs()
    torch.testing.assert_close(known.map_mm(grid)[0][amid].double(), expected, atol=2e-3, rtol=0)
    of = replace(made(known), grid=grid, volume=flat, others={"visit_1": flat})
    found = fused(of, VolumeGrid.on_detector((20, 50, 80), (2.0, 1.5, 1.5)), limit_mm=1.73)
    assert torch.equal(found.from_both[amid], expected < 1.73)


def test_where_the_other_view_has_no_data_the_reference_is_used() -> None:
    half = replace(GRID, shape=(GRID.shape[0], GRID.shape[1], GRID.shape[2] // 2))
    x_low = replace(half, center_mm=(*GRID.center_mm[:2], GRID.low_mm[2] + half.size_mm[2] / 2))
    found = fused(made(unsure(1e-6)), x_low)
    assert bool(found.from_both[..., : GRID.shape[2] // 2 - 3].all())
    assert not bool(found.from_both[..., GRID.shape[2] // 2 + 3 :].any())


@pytest.mark.parametrize(
    ("known", "trusted", "reason"),
    [
        (None, True, "How sure the motion is was not computed."),
        (unsure(1e-6), False, "The result is not trusted."),
        (unsure(100.0), True, "The motion is nowhere predicted to be right to 1 mm."),
        (
            MotionUncertainty.none(unsure(1.0).motion, "The run did not converge."),
            True,
            "How sure the motion is is not known: The run did not converge.",
        ),
    ],
)
def test_what_is_not_known_to_be_right_is_not_fused(
    known: MotionUncertainty | None, trusted: bool, reason: str
) -> None:
    found = fused(made(known), GRID, trusted=trusted)
    assert found.reason == reason
    assert found.share == 0
    assert found.words == f"the fused volume is that of visit 1 alone. {reason}"
    if reason.startswith(("How", "The result")):
        assert torch.equal(found.volume, ALONE)
        assert not bool(found.from_both.any())
    assert found.to_dict() == {"words": found.words, "share": 0.0, "limit_mm": 1.0, "reason": reason}


def test_there_is_a_reference_to_fall_back_on() -> None:
    lonely = replace(made(None), others={})
    with pytest.raises(DuotomoError, match="fused: expected a result of two views with visit_1"):
        fused(lonely, VolumeGrid.on_detector((2, 2, 2), (1.0, 1.0, 1.0)))
