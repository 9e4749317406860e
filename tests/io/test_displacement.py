"""Images of displacements: written ones mean the same to SimpleITK and nibabel, and theirs are read."""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch
from hypothesis import given
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io import FileError, read_displacement, write_displacement
from duotomo.transforms import DisplacementField, Motion
from tests.cases.transforms import MOVING, REFERENCE, TransformCase, draw_params, transforms
from tests.io.itk_helpers import GRID, LPS, directions, is_aligned, moved_by_itk, moved_by_us, points_on, sitk
from tests.strategies import grids

SUFFIXES = (".nii", ".nii.gz", ".mha")

each = pytest.mark.parametrize("case", transforms(), ids=lambda case: case[0])
suffixes = pytest.mark.parametrize("suffix", SUFFIXES)


def voxel_centers(grid: VolumeGrid) -> NDArray[np.float64]:
    """Return the points of all voxels, (n, xyz)."""
    index = np.stack(np.meshgrid(*(np.arange(n) for n in grid.shape), indexing="ij"), axis=-1)
    return voxel_to_world(grid, index.reshape(-1, 3))


def random_field(grid: VolumeGrid, *, seed: int = 0) -> Motion:
    field = DisplacementField(grid)
    return Motion(field, draw_params(field, seed=seed))


def same_place(got: VolumeGrid, expected: VolumeGrid) -> None:
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.spacing_mm, expected.spacing_mm, rtol=1e-6)
    np.testing.assert_allclose(got.center_mm, expected.center_mm, rtol=1e-6, atol=1e-6)


@suffixes
@each
def test_itk_moves_voxels_where_the_transform_does(case: TransformCase, suffix: str, tmp_path: Path) -> None:
    transform = case[1](REFERENCE)
    motion, path = Motion(transform, draw_params(transform, seed=1)), tmp_path / f"u{suffix}"
    write_displacement(path, motion, MOVING)
    itk = sitk.DisplacementFieldTransform(sitk.ReadImage(str(path), sitk.sitkVectorFloat64))
    xyz_mm = voxel_centers(MOVING)
    ours = moved_by_us(motion, xyz_mm)
    # NIfTI keeps the grid in float32, so that ITK's voxels are off by 1e-7 of their places.
    close_mm = 1e-9 if suffix == ".mha" else 1e-5
    np.testing.assert_allclose(moved_by_itk(itk, xyz_mm), ours, rtol=0, atol=close_mm)
    values = sitk.GetArrayFromImage(itk.GetDisplacementField()).reshape(-1, 3) * LPS
    np.testing.assert_allclose(values, ours - xyz_mm, rtol=0, atol=1e-12)
    assert np.abs(ours - xyz_mm).max() > 0.5


@suffixes
def test_itk_moves_points_between_voxels_alike(suffix: str, tmp_path: Path) -> None:
    motion = random_field(GRID)
    write_displacement(tmp_path / f"u{suffix}", motion, GRID)
    image = sitk.ReadImage(str(tmp_path / f"u{suffix}"), sitk.sitkVectorFloat64)
    xyz_mm = points_on(GRID)
    theirs = moved_by_itk(sitk.DisplacementFieldTransform(image), xyz_mm)
    close_mm = 1e-9 if suffix == ".mha" else 1e-5
    np.testing.assert_allclose(theirs, moved_by_us(motion, xyz_mm), rtol=0, atol=close_mm)


@suffixes
@given(grid=grids())
def test_reading_gives_the_same_field_back(
    suffix: str, grid: VolumeGrid, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("field") / f"u{suffix}"
    motion = random_field(grid)
    write_displacement(path, motion, grid)
    again = read_displacement(path)
    same_place(again.grid, grid)
    torch.testing.assert_close(again.params, motion.params, rtol=1e-6, atol=0)


@suffixes
def test_decimals_survive(suffix: str, tmp_path: Path) -> None:
    grid = VolumeGrid.on_detector((3, 4, 5), (1.0, 0.1, 0.085), gap_mm=17.3)
    motion = random_field(grid)
    write_displacement(tmp_path / f"u{suffix}", motion, grid)
    again = read_displacement(tmp_path / f"u{suffix}")
    assert again.grid.spacing_mm == grid.spacing_mm
    np.testing.assert_allclose(again.grid.center_mm, grid.center_mm, rtol=0, atol=1e-12)
    torch.testing.assert_close(again.params, motion.params, rtol=0, atol=1e-12)


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
def test_nibabel_sees_the_grid_and_the_values(suffix: str, tmp_path: Path) -> None:
    motion = random_field(GRID)
    write_displacement(tmp_path / f"u{suffix}", motion, GRID)
    image = nibabel.load(tmp_path / f"u{suffix}")
    assert image.shape == (*GRID.shape[::-1], 1, 3)
    assert image.get_data_dtype() == np.float64
    assert image.header.get_intent()[0] == "vector"
    assert image.header.get_xyzt_units()[0] == "mm"
    assert image.header["sform_code"] == image.header["qform_code"] == 1
    for affine in (image.affine, image.get_sform(), image.get_qform()):
        corner_mm = affine @ (*(n - 1 for n in GRID.shape[::-1]), 1)
        np.testing.assert_allclose(affine[:3, 3], voxel_to_world(GRID, (0, 0, 0)), rtol=1e-6)
        np.testing.assert_allclose(corner_mm[:3], voxel_centers(GRID)[-1], rtol=1e-6)
    i, j, k = 2, 3, 1
    u_mm = motion.displacement()[:, k, j, i].numpy()
    np.testing.assert_allclose(image.get_fdata()[i, j, k, 0], LPS * u_mm, rtol=1e-12)


@suffixes
@pytest.mark.parametrize("which", [name for name, d in directions().items() if is_aligned(d)])
def test_images_that_simpleitk_wrote(which: str, suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    image = sitk.GetImageFromArray(rng.normal(size=(4, 5, 6, 3)), isVector=True)
    image.SetOrigin((-3.5, 12.25, 7.0))
    image.SetSpacing((0.5, 1.25, 2.0))
    image.SetDirection(directions()[which].ravel().tolist())
    sitk.WriteImage(image, str(tmp_path / f"u{suffix}"))
    motion = read_displacement(tmp_path / f"u{suffix}")
    itk = sitk.DisplacementFieldTransform(image)
    xyz_mm = points_on(motion.grid, inset=1e-6)
    theirs = moved_by_itk(itk, xyz_mm)
    np.testing.assert_allclose(moved_by_us(motion, xyz_mm), theirs, rtol=0, atol=1e-9)
    assert np.abs(theirs - xyz_mm).max() > 0.3


def nifti(path: Path, *, intent: int = 1007, shape: tuple[int, ...] = (3, 4, 5, 1, 3), code: int = 1) -> Path:
    """Write vectors that are the same everywhere, (1, 2, 3), with nibabel."""
    affine = np.diag([1.0, 2.0, 0.5, 1.0])
    image = nibabel.Nifti1Image(np.broadcast_to([1.0, 2.0, 3.0][: shape[-1]], shape), affine)
    image.set_sform(affine, code)
    image.set_qform(affine, code)
    image.header.set_intent(intent)
    image.to_filename(path)
    return path


@pytest.mark.parametrize(("intent", "expected"), [(1006, [1.0, 2.0, 3.0]), (1007, [-1.0, -2.0, 3.0])])
def test_intents_say_along_which_axes_vectors_are(intent: int, expected: list[float], tmp_path: Path) -> None:
    path = nifti(tmp_path / "u.nii", intent=intent)
    motion = read_displacement(path)
    assert motion.displacement()[:, 1, 1, 1].tolist() == expected
    # ITK agrees.
    image = sitk.ReadImage(str(path), sitk.sitkVectorFloat64)
    assert (LPS * image[1, 1, 1]).tolist() == expected


def test_a_quarter_turn_in_a_quaternion_is_not_oblique(tmp_path: Path) -> None:
    affine = np.array([[0.0, -0.7, 0, 1], [0.9, 0, 0, 2], [0, 0, 1.1, 3], [0, 0, 0, 1]])
    values = np.random.default_rng(0).normal(size=(3, 4, 5, 1, 3))
    image = nibabel.Nifti1Image(values, affine)
    image.set_sform(None, 0)
    image.set_qform(affine, 1)
    image.header.set_intent(1006)
    image.to_filename(tmp_path / "u.nii")
    motion = read_displacement(tmp_path / "u.nii")
    assert motion.grid.shape == (5, 3, 4)
    assert motion.grid.spacing_mm == (1.1, 0.9, 0.7)
    # Index (i, j, k) = (0, 3, 0) has the least x, and the least y.
    np.testing.assert_allclose(motion.displacement()[:, 0, 0, 0], values[0, 3, 0, 0], rtol=1e-12)


@suffixes
def test_oblique_images_are_refused(suffix: str, tmp_path: Path) -> None:
    image = sitk.GetImageFromArray(np.zeros((4, 5, 6, 3)), isVector=True)
    image.SetDirection(directions()["turned"].ravel().tolist())
    sitk.WriteImage(image, str(tmp_path / f"u{suffix}"))
    with pytest.raises(FileError, match=rf"u{suffix}: expected axes along the machine's; got the directions"):
        read_displacement(tmp_path / f"u{suffix}")


@suffixes
def test_images_cut_short_are_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"u{suffix}"
    write_displacement(path, random_field(GRID), GRID)
    data = path.read_bytes()
    for n in [*range(0, len(data), len(data) // 12), *range(len(data) - 12, len(data))]:
        path.write_bytes(data[:n])
        with pytest.raises(FileError, match=rf"u{suffix}: expected .*; got.*Check that the file is complete"):
            read_displacement(path)


@suffixes
def test_images_with_numbers_that_are_none_are_refused(suffix: str, tmp_path: Path) -> None:
    values = np.zeros((4, 5, 6, 3))
    values[1, 2, 3, 0] = np.nan
    sitk.WriteImage(sitk.GetImageFromArray(values, isVector=True), str(tmp_path / f"u{suffix}"))
    with pytest.raises(FileError, match=rf"u{suffix}: .* expected displacement_mm to be finite; got 1 NaN"):
        read_displacement(tmp_path / f"u{suffix}")


@pytest.mark.parametrize(
    ("shape", "match"),
    [((4, 5, 6), "3 components; got 3 and 1"), ((5, 6, 3), "got 2 and 3"), ((4, 5, 6, 2), "got 3 and 2")],
)
def test_other_images_are_refused(shape: tuple[int, ...], match: str, tmp_path: Path) -> None:
    vectors = shape[-1] in (2, 3)
    sitk.WriteImage(sitk.GetImageFromArray(np.zeros(shape), isVector=vectors), str(tmp_path / "u.mha"))
    with pytest.raises(FileError, match=match):
        read_displacement(tmp_path / "u.mha")


@pytest.mark.parametrize(
    ("intent", "shape"),
    [(0, (3, 4, 5, 1, 3)), (1007, (3, 4, 3)), (1007, (3, 4, 5, 3)), (1007, (3, 4, 5, 1, 2))],
)
def test_other_nifti_images_are_refused(intent: int, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = nifti(tmp_path / "u.nii", intent=intent, shape=shape)
    with pytest.raises(FileError, match=r"expected \(x, y, z, 1, 3\) values with intent .*; got \(3"):
        read_displacement(path)


def test_nifti_images_without_a_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="expected an sform or a qform; got neither"):
        read_displacement(nifti(tmp_path / "u.nii", code=0))


@pytest.mark.parametrize(
    ("column", "match"),
    [
        ((0.0, 0.0, 0.0), "expected finite voxels of some size; got the affine"),
        ((np.nan, 0.0, 0.0), "expected finite voxels of some size; got the affine"),
        ((0.0, 0.25, 0.0), "expected three axes that span space; got the directions"),
    ],
)
def test_nifti_images_in_no_place_are_refused(
    column: tuple[float, float, float], match: str, tmp_path: Path
) -> None:
    path = nifti(tmp_path / "u.nii")
    header = nibabel.load(path).header
    for row, value in zip(("srow_x", "srow_y", "srow_z"), column, strict=True):
        header[row][0] = value
    path.write_bytes(header.binaryblock + path.read_bytes()[len(header.binaryblock) :])
    with pytest.raises(FileError, match=match):
        read_displacement(path)
