"""What modes do to a compressed breast, against compressions computed for those modes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.mechanics import BetweenViews, Compression, HeldView
from duotomo.mechanics import response as computing
from duotomo.transforms.compressions import n_monomials
from duotomo.transforms.recompression import Recompression

RADII_MM = (42.0, 45.0, 38.0)
CC = HeldView(thickness_mm=46.0, support_mm=4.0, center_mm=(2.0, 0.0))
MLO = HeldView(thickness_mm=44.0, roll_deg=40.0, support_mm=4.0)
GRID = VolumeGrid.on_detector((11, 14, 26), (4.0, 4.0, 4.0), gap_mm=4.0)
MODEL = BetweenViews(radii_mm=RADII_MM, reference=CC, moving=MLO, refinements=1)


@pytest.fixture(scope="module")
def transform() -> Recompression:
    return MODEL(GRID)


def computed(view: HeldView, roll_deg: float, thickness_mm: float, radii_mm: list[float]) -> Compression:
    return view.compressed(radii_mm, roll_deg=roll_deg, thickness_mm=thickness_mm, refinements=1)


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_the_polynomials_follow_finite_elements(transform: Recompression, seed: int | None) -> None:
    modes = transform.compressions.modes
    drawn = np.zeros(11) if seed is None else np.random.default_rng(seed).uniform(-0.8, 0.8, 11)
    values = {mode.name: mode.expected + mode.reach * s for mode, s in zip(modes, drawn, strict=True)}
    roll_mlo, roll_cc, shift_x, shift_y, lean_x, lean_z, thin_mlo, thin_cc, *radii = values.values()
    mlo, cc = computed(MLO, roll_mlo, thin_mlo, radii), computed(CC, roll_cc, thin_cc, radii)
    at_rest = mlo.to_rest(mlo.moved_mm) - np.array(MLO.middle_mm)
    leaning = Rotation.from_euler("zx", [lean_z, lean_x], degrees=True).apply(at_rest)
    # The chest wall is shifted in the frame of the reference, after it was turned.
    rolled = Rotation.from_euler("y", roll_cc, degrees=True)
    shift = rolled.inv().apply([shift_x, shift_y, 0.0])
    expected = cc.from_rest(leaning + shift + np.array(CC.middle_mm))
    got = transform.points(transform.params(modes=values), torch.from_numpy(mlo.moved_mm)).numpy()
    missed = np.linalg.norm(got - expected, axis=1)
    assert np.linalg.norm(expected - mlo.moved_mm, axis=1).mean() > 8
    assert missed.mean() < 0.8
    assert missed.max() < 4


def test_a_model_is_computed_once_for_all_its_lattices(
    transform: Recompression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "compress", None)
    soft = BetweenViews(radii_mm=RADII_MM, reference=CC, moving=MLO, refinements=1, control_mm=20.0)(GRID)
    assert soft.compressions is transform.compressions
    assert soft.control_spacing_mm is not None
    assert max(soft.control_spacing_mm) <= 20.0


def test_compressions_that_find_no_balance_are_left_out_until_too_few_remain() -> None:
    lattice = VolumeGrid(shape=(4, 4, 4), spacing_mm=(8.0, 8.0, 8.0), center_mm=(0.0, 0.0, 0.0))
    values = computing._spread(2)
    good = [np.full((64, 3), float(k % 3)) for k in range(len(values))]
    found = computing._fitted(lattice, (0, 1), values, [None, *good[1:]])
    assert found.coefficients.shape == (n_monomials(2), 3, 4, 4, 4)
    with pytest.raises(DuotomoError, match="expected at least 8 compressions that find a balance; got 2 of"):
        computing._fitted(lattice, (0, 1), values, [*good[:2], *(None for _ in good[2:])])


def test_a_view_and_a_model_have_sizes() -> None:
    with pytest.raises(DuotomoError, match="HeldView: expected thickness_mm"):
        HeldView(thickness_mm=0.0)
    with pytest.raises(DuotomoError, match="BetweenViews: expected radii_mm"):
        BetweenViews(radii_mm=(1.0, -2.0, 3.0), reference=CC, moving=MLO)
