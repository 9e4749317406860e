"""What ITK does with a written transform is what the transform does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io import read_transform, write_transform
from duotomo.transforms import Affine, BSpline, Composition, DisplacementField, Motion, Rigid, Translation
from duotomo.transforms.maps import LatticeMap, MatrixMap
from duotomo.transforms.transform import Physical, Transform
from tests.cases.transforms import MOVING, REFERENCE, TransformCase, draw_params, transforms
from tests.io.itk_helpers import GRID, LPS, image_on, moved_by_itk, moved_by_us, points_on, sitk

CLOSE_MM = 1e-9

each = pytest.mark.parametrize("case", transforms(), ids=lambda case: case[0])
suffixes = pytest.mark.parametrize("suffix", [".tfm", ".h5"])


def in_all_domains(transform: Transform, params: torch.Tensor, xyz_mm: np.ndarray) -> np.ndarray:
    """Return which points, (n, xyz), meet every lattice where ITK knows it."""
    inside = np.ones(len(xyz_mm), dtype=bool)
    at = torch.from_numpy(xyz_mm.copy())
    for stage in transform.maps(params):
        if isinstance(stage, LatticeMap):
            n, spacing = np.array(stage.lattice.shape), np.array(stage.lattice.spacing_mm)
            half_mm = ((n - 1) / 2 - (1 if stage.degree == 3 else 0)) * spacing
            off_mm = np.abs(at.numpy()[:, ::-1] - stage.lattice.center_mm)
            inside &= (off_mm < half_mm).all(axis=1)
        at = stage.points(at)
    return inside


@suffixes
@each
@pytest.mark.parametrize("seed", [1, 2])
def test_itk_moves_the_points_of_a_grid_alike(
    case: TransformCase, suffix: str, seed: int, tmp_path: Path
) -> None:
    transform = case[1](REFERENCE)
    params, path = draw_params(transform, seed=seed), tmp_path / f"t{suffix}"
    write_transform(path, Motion(transform, params), grid=MOVING)
    xyz_mm = points_on(MOVING)
    ours = moved_by_us(Motion(transform, params), xyz_mm)
    np.testing.assert_allclose(
        moved_by_itk(sitk.ReadTransform(str(path)), xyz_mm), ours, rtol=0, atol=CLOSE_MM
    )
    assert np.abs(ours - xyz_mm).max() > 0.5


@suffixes
@each
def test_itk_moves_points_alike_in_its_domain(case: TransformCase, suffix: str, tmp_path: Path) -> None:
    transform = case[1](REFERENCE)
    params = draw_params(transform, seed=3, size_voxels=0.5, turn_deg=10, stretch=0.05)
    path = tmp_path / f"t{suffix}"
    write_transform(path, Motion(transform, params))
    xyz_mm = points_on(REFERENCE, n=100)
    xyz_mm = xyz_mm[in_all_domains(transform, params, xyz_mm)]
    assert len(xyz_mm) > 50
    theirs = moved_by_itk(sitk.ReadTransform(str(path)), xyz_mm)
    np.testing.assert_allclose(theirs, moved_by_us(Motion(transform, params), xyz_mm), rtol=0, atol=CLOSE_MM)


@suffixes
@each
def test_itk_resamples_to_our_warp(case: TransformCase, suffix: str, tmp_path: Path) -> None:
    # Half a voxel beyond the outermost centres ITK repeats the edge, where ours fades: zeros hide that.
    volume = torch.zeros(8, 9, 11, dtype=torch.float64)
    volume[1:-1, 1:-1, 1:-1] = torch.randn(6, 7, 9, generator=torch.Generator().manual_seed(0))
    reference = replace(REFERENCE, shape=(8, 9, 11))
    transform = case[1](REFERENCE)
    params = draw_params(transform, seed=4, size_voxels=1.0, turn_deg=40)
    ours = transform.warp(params, reference, MOVING)(volume)
    path = tmp_path / f"t{suffix}"
    write_transform(path, Motion(transform, params), grid=MOVING)
    theirs = sitk.Resample(
        image_on(reference, volume),
        image_on(MOVING, torch.zeros(MOVING.shape)),
        sitk.ReadTransform(str(path)),
        sitk.sitkLinear,
        0.0,
        sitk.sitkFloat64,
    )
    np.testing.assert_allclose(sitk.GetArrayFromImage(theirs), ours.numpy(), rtol=0, atol=1e-10)
    assert ours.abs().max() > 0.5


@each
def test_reading_gives_the_same_transform_back(case: TransformCase, tmp_path: Path) -> None:
    transform = case[1](REFERENCE)
    params = draw_params(transform, seed=5)
    write_transform(tmp_path / "t.h5", Motion(transform, params))
    again = read_transform(tmp_path / "t.h5", REFERENCE)
    xyz_mm = points_on(MOVING)
    np.testing.assert_allclose(
        moved_by_us(again, xyz_mm), moved_by_us(Motion(transform, params), xyz_mm), rtol=0, atol=CLOSE_MM
    )


@pytest.mark.parametrize(
    "transform",
    [
        Translation(GRID),
        Affine(GRID, center_mm=(1.0, 2.0, 3.0)),
        BSpline.over(GRID, (4, 5, 6)),
        DisplacementField(GRID),
        Composition(Affine(GRID), BSpline.over(GRID, (4, 4, 5))),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_reading_gives_the_same_parameters_back(transform: Transform, tmp_path: Path) -> None:
    params = draw_params(transform, seed=6)
    write_transform(tmp_path / "t.tfm", Motion(transform, params))
    again = read_transform(tmp_path / "t.tfm", GRID)
    assert type(again.transform) is type(transform)
    torch.testing.assert_close(again.params, params, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [Rigid, Affine])
def test_the_centre_is_kept(kind: type[Rigid] | type[Affine], tmp_path: Path) -> None:
    transform = kind(GRID, center_mm=(5.0, -7.0, 11.0))
    write_transform(tmp_path / "t.tfm", Motion(transform, draw_params(transform, seed=7)))
    assert sitk.ReadTransform(str(tmp_path / "t.tfm")).GetCenter() == (-5.0, 7.0, 11.0)
    again = read_transform(tmp_path / "t.tfm", GRID)
    assert again.transform.center_mm.tolist() == [5.0, -7.0, 11.0]


def test_beyond_a_spline_itk_moves_nothing_unless_a_grid_asks(tmp_path: Path) -> None:
    spline = BSpline.over(GRID, (4, 4, 4))
    params = draw_params(spline, seed=8)
    # Beyond the spline's box by a quarter of its spacing.
    outside_mm = np.array([[GRID.high_mm[2] + spline.lattice.spacing_mm[2] / 4, *GRID.center_mm[1::-1]]])
    ours = moved_by_us(Motion(spline, params), outside_mm)
    assert np.abs(ours - outside_mm).max() > 0.01
    write_transform(tmp_path / "as_it_is.tfm", Motion(spline, params))
    itk = sitk.ReadTransform(str(tmp_path / "as_it_is.tfm"))
    np.testing.assert_allclose(moved_by_itk(itk, outside_mm), outside_mm)
    wider = replace(GRID, shape=tuple(n + 4 for n in GRID.shape))
    write_transform(tmp_path / "continued.tfm", Motion(spline, params), grid=wider)
    itk = sitk.ReadTransform(str(tmp_path / "continued.tfm"))
    np.testing.assert_allclose(moved_by_itk(itk, outside_mm), ours, rtol=0, atol=CLOSE_MM)


@pytest.mark.parametrize(
    ("first", "params"),
    [
        (Translation(GRID), Translation(GRID).params(translation_mm=(1.0, 0.0, 0.0))),
        (Rigid(GRID), Rigid(GRID).params(rotation_deg=(0.0, 30.0, 0.0), translation_mm=(0.0, 0.0, 0.0))),
        (DisplacementField(GRID), draw_params(DisplacementField(GRID), seed=10)),
    ],
    ids=["translation", "rotation", "field"],
)
def test_points_that_leave_a_spline_on_their_way_move_alike(
    first: Transform, params: torch.Tensor, tmp_path: Path
) -> None:
    # The grid lies within the spline, but what the first part makes of it does not.
    spline = BSpline.over(GRID, (5, 5, 5))
    chain = Composition(first, spline)
    params = chain.join(params, draw_params(spline, seed=11))
    xyz_mm = points_on(GRID)
    assert not in_all_domains(chain, params, xyz_mm).all()
    write_transform(tmp_path / "t.h5", Motion(chain, params), grid=GRID)
    theirs = moved_by_itk(sitk.ReadTransform(str(tmp_path / "t.h5")), xyz_mm)
    np.testing.assert_allclose(theirs, moved_by_us(Motion(chain, params), xyz_mm), rtol=0, atol=CLOSE_MM)


def test_a_lattice_that_covers_the_grid_is_written_as_it_is(tmp_path: Path) -> None:
    for transform in (BSpline.over(GRID, (4, 5, 6)), DisplacementField(GRID)):
        write_transform(tmp_path / "t.h5", Motion(transform, transform.identity()), grid=GRID)
        assert read_transform(tmp_path / "t.h5", GRID).transform.n_params == transform.n_params


class Wave(Transform):
    """A transform that the writer has never heard of: a matrix without a centre, then a cubic lattice."""

    def __init__(self, lattice: VolumeGrid) -> None:
        self.grid, self.n_params, self.lattice = GRID, 1, lattice

    def maps(self, params: torch.Tensor) -> tuple[MatrixMap, LatticeMap]:
        matrix = torch.eye(3, 4, dtype=torch.float64)
        # About the grid's middle, so that points stay near the lattice.
        matrix[0, 2], matrix[0, 3] = params[0], -params[0] * GRID.center_mm[0]
        waves = torch.arange(3 * self.lattice.n_voxels).double().reshape(3, *self.lattice.shape).sin()
        return MatrixMap(matrix=matrix), LatticeMap(lattice=self.lattice, coefficients=params[0] * waves)

    def physical(self, params: torch.Tensor) -> Physical:
        return {"shear": params}


# ITK's splines need four control points along each axis.
@pytest.mark.parametrize(
    "shape", [(4, 5, 6), (1, 2, 3)], ids=["enough points", "fewer points than ITK needs"]
)
def test_any_transform_made_of_stages_is_written(shape: tuple[int, int, int], tmp_path: Path) -> None:
    wave, params = Wave(replace(GRID, shape=shape)), torch.tensor([0.7], dtype=torch.float64)
    write_transform(tmp_path / "t.h5", Motion(wave, params), grid=GRID if min(shape) >= 4 else None)
    xyz_mm = points_on(GRID)
    theirs = moved_by_itk(sitk.ReadTransform(str(tmp_path / "t.h5")), xyz_mm)
    np.testing.assert_allclose(theirs, moved_by_us(Motion(wave, params), xyz_mm), rtol=0, atol=CLOSE_MM)
    assert np.abs(theirs - xyz_mm)[:, 1:].max() > 0.1


def test_a_shift_is_a_shift_in_patient_coordinates(tmp_path: Path) -> None:
    shift = Translation(VolumeGrid.on_detector((2, 2, 2), (1.0, 1.0, 1.0)))
    write_transform(tmp_path / "t.tfm", Motion(shift, shift.params(translation_mm=(1.0, 2.0, 4.0))))
    itk = sitk.ReadTransform(str(tmp_path / "t.tfm"))
    assert itk.GetOffset() == tuple(LPS * (1.0, 2.0, 4.0)) == (-1.0, -2.0, 4.0)
