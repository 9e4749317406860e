"""What the page says of a deformation is true at every point of the reference frame."""

from __future__ import annotations

import gzip

import numpy as np
import torch

from duotomo.io import SavedUncertainty
from duotomo.methods import UncertaintySummary
from duotomo.report.page_deformation import PageDeformation, page_deformation, page_deviations
from duotomo.transforms import Affine, BSpline, Motion, Translation
from tests.report.page_results import GRID, spline


def points(found: PageDeformation) -> torch.Tensor:
    """Return the lattice's points, (z, y, x, xyz)."""
    along = [
        first + spacing * torch.arange(n, dtype=torch.float64)
        for n, spacing, first in zip(found.shape, found.spacing_mm, found.first_mm, strict=True)
    ]
    z, y, x = torch.meshgrid(*along[::-1], indexing="ij")
    return torch.stack([x, y, z], dim=-1)


def test_the_transform_takes_each_point_back() -> None:
    motion = spline()
    found = page_deformation(motion, GRID)
    before = torch.from_numpy(found.fields[:3]).double().movedim(0, -1)
    back = motion.points(before)
    assert float((back - points(found)).abs().max()) < 0.02
    # It is a deformation, so this is not the identity's doing.
    assert float((before - points(found)).norm(dim=-1).max()) > 1


def test_the_lattice_reaches_from_face_to_face() -> None:
    found = page_deformation(spline(), GRID)
    corners = points(found)
    assert torch.equal(corners[0, 0, 0], torch.tensor(GRID.low_mm[::-1], dtype=torch.float64))
    torch.testing.assert_close(corners[-1, -1, -1], torch.tensor(GRID.high_mm[::-1], dtype=torch.float64))


def test_tissue_that_doubles_from_the_visit_to_the_reference_has_a_change_of_one() -> None:
    transform = Affine(GRID)
    matrix = torch.diag(torch.tensor([2.0, 1.0, 1.0], dtype=torch.float64))
    doubling = Motion(transform, transform.params(matrix=matrix, translation_mm=(0.0, 0.0, 0.0)))
    found = page_deformation(doubling, GRID)
    np.testing.assert_allclose(found.fields[3], 1.0, atol=1e-6)


def test_places_without_an_inverse_are_blank() -> None:
    transform = BSpline.over(GRID, (5, 6, 6))
    generator = torch.Generator().manual_seed(0)
    params = 20 * torch.randn(transform.n_params, generator=generator, dtype=torch.float64)
    blank = np.isnan(page_deformation(Motion(transform, params), GRID).fields)
    assert blank.any()
    # All of a point or nothing.
    assert (blank == blank[0]).all()


def test_deviations_are_those_of_the_point_that_is_seen() -> None:
    shift = Translation(GRID)
    motion = Motion(shift, shift.params(translation_mm=(6.0, 0.0, 0.0)))
    found = page_deformation(motion, GRID)
    # A map that says where along x it was asked.
    x_mm = torch.linspace(GRID.low_mm[2], GRID.high_mm[2], 2 * GRID.shape[2] + 1)[1::2]
    map_mm = (x_mm + 100).expand(3, *GRID.shape).contiguous()
    few = {"model": "Translation", "form": "sandwich", "reason": "", "n_params": 3, "n_modes": 3}
    known = SavedUncertainty(summary=UncertaintySummary(**few), map_mm=map_mm, grid=GRID)
    packed = page_deviations(known, found)
    assert packed is not None
    values = np.frombuffer(gzip.decompress(packed), dtype="<f4").reshape(3, *found.shape[::-1])
    expected = (points(found)[..., 0] - 6.0).clamp(float(x_mm[0]), float(x_mm[-1])) + 100
    assert np.abs(values - expected.numpy()).max() <= 0.5 * GRID.spacing_mm[2] + 1e-3
    assert page_deviations(SavedUncertainty(summary=known.summary), found) is None
