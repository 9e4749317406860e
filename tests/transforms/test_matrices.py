"""Translations, rigid and affine transforms: shifts, rotations and volumes as they must be."""

from __future__ import annotations

import math

import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.transforms import Affine, DisplacementField, Rigid, Transform, Translation
from tests.cases.transforms import MOVING, REFERENCE, draw_params, normal

EXACT = VolumeGrid(shape=(5, 6, 7), spacing_mm=(1.5, 1.0, 0.5), center_mm=(4.0, 3.0, -1.0))
"""Its numbers are exact in binary, and so are positions after whole-voxel shifts."""

each_interpolation = pytest.mark.parametrize("cubic", [False, True], ids=["linear", "cubic"])


def shifts(voxels_xyz: tuple[int, int, int]) -> list[tuple[Transform, torch.Tensor]]:
    """Return the translation by whole voxels, as every transform that can be one."""
    d_z, d_y, d_x = EXACT.spacing_mm
    shift_mm = [n * d for n, d in zip(voxels_xyz, (d_x, d_y, d_z), strict=True)]
    eye = torch.eye(3, dtype=torch.float64)
    field_mm = torch.tensor(shift_mm, dtype=torch.float64)[:, None, None, None].expand(3, *EXACT.shape)
    translation, rigid = Translation(EXACT), Rigid(EXACT)
    affine, field = Affine(EXACT), DisplacementField(EXACT)
    return [
        (translation, translation.params(translation_mm=shift_mm)),
        (rigid, rigid.params(rotation_deg=(0.0, 0.0, 0.0), translation_mm=shift_mm)),
        (affine, affine.params(matrix=eye, translation_mm=shift_mm)),
        (field, field.params(displacement_mm=field_mm)),
    ]


@each_interpolation
@pytest.mark.parametrize("voxels_xyz", [(1, 0, 0), (0, -2, 0), (0, 0, 3), (-3, 1, -1)])
def test_a_whole_voxel_shift_is_exact(voxels_xyz: tuple[int, int, int], cubic: bool) -> None:
    # (T f)(x) = f(x + t): a shift along +x brings values from higher x.
    volume = normal(EXACT.shape, seed=1)
    s_x, s_y, s_z = voxels_xyz
    n_z, n_y, n_x = EXACT.shape
    padded = torch.nn.functional.pad(volume, (4,) * 6)
    expected = padded[4 + s_z : 4 + s_z + n_z, 4 + s_y : 4 + s_y + n_y, 4 + s_x : 4 + s_x + n_x]
    for transform, params in shifts(voxels_xyz):
        assert torch.equal(transform.warp(params, cubic=cubic)(volume), expected)


@pytest.mark.parametrize("angle_deg", [0.0, 30.0, 90.0, 180.0, 350.0])
def test_a_rotation_is_one(angle_deg: float) -> None:
    axis = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    axis /= axis.norm()
    rigid = Rigid(REFERENCE)
    params = rigid.params(rotation_deg=(angle_deg * axis).tolist(), translation_mm=(1.0, 2.0, 3.0))
    rotation = rigid.jacobian(params, torch.zeros(3))
    assert float((rotation @ rotation.T - torch.eye(3)).abs().max()) < 1e-12
    assert abs(float(torch.linalg.det(rotation)) - 1) < 1e-12
    assert float((rotation @ axis - axis).abs().max()) < 1e-12
    # Its trace is 1 + 2 cos; its antisymmetric part says which way it turns.
    assert abs(float(rotation.trace()) - 1 - 2 * math.cos(math.radians(angle_deg))) < 1e-12
    turn = torch.stack([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0]])
    expected = 2 * math.sin(math.radians(angle_deg)) * axis[:2]
    assert float((turn - expected).abs().max()) < 1e-12


@pytest.mark.parametrize("axis", [0, 1, 2], ids="xyz")
def test_a_quarter_turn_is_right_handed_and_about_the_centre(axis: int) -> None:
    center_mm, unit = torch.tensor([1.0, -2.0, 5.0], dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    rigid = Rigid(REFERENCE, center_mm=center_mm.tolist())
    params = rigid.params(rotation_deg=(90.0 * unit[axis]).tolist(), translation_mm=(0.0, 0.0, 0.0))
    # x to y, y to z, z to x.
    first, second = unit[(axis + 1) % 3], unit[(axis + 2) % 3]
    torch.testing.assert_close(rigid.points(params, center_mm), center_mm)
    torch.testing.assert_close(rigid.points(params, center_mm + first), center_mm + second)
    torch.testing.assert_close(rigid.points(params, center_mm + second), center_mm - first)


@pytest.mark.parametrize("kind", [Rigid, Affine])
def test_the_centre_is_the_middle_of_the_grid(kind: type[Rigid] | type[Affine]) -> None:
    transform = kind(REFERENCE)
    params = draw_params(transform, seed=1, size_voxels=0.0)
    middle_mm = torch.tensor(REFERENCE.center_mm[::-1], dtype=torch.float64)
    torch.testing.assert_close(transform.points(params, middle_mm), middle_mm)
    assert torch.equal(transform.physical(params)["center_mm"], middle_mm)


def test_an_affine_matrix_means_what_it_says() -> None:
    matrix, shift_mm = torch.linalg.matrix_exp(0.3 * normal((3, 3), seed=1)), normal((3,), seed=2)
    xyz_mm = normal((10, 3), seed=3)
    plain = Affine(REFERENCE, center_mm=(0.0, 0.0, 0.0))
    params = plain.params(matrix=matrix, translation_mm=shift_mm.tolist())
    torch.testing.assert_close(plain.points(params, xyz_mm), xyz_mm @ matrix.T + shift_mm)


@pytest.mark.parametrize("grid", [REFERENCE, MOVING], ids=["its own grid", "another grid"])
@pytest.mark.parametrize("kind", [Translation, Rigid, Affine])
def test_the_determinant_of_a_matrix_is_constant(kind: type[Transform], grid: VolumeGrid) -> None:
    transform = kind(REFERENCE)
    params = draw_params(transform, seed=5, stretch=0.3)
    expected = torch.linalg.det(transform.jacobian(params, torch.zeros(3)))
    values = transform.determinants(params, grid)
    assert float((values - expected).abs().max()) < 1e-12
    if kind is not Affine:
        assert abs(float(expected) - 1) < 1e-12
    else:
        assert abs(float(expected) - 1) > 0.05
