"""One landmark, every format, every library: each finds it where it was meant to be, within 1e-3 mm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pydicom
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from duotomo.geometry import VolumeGrid, voxel_to_world, world_to_voxel
from duotomo.io import (
    read_displacement,
    read_transform,
    read_volume,
    write_displacement,
    write_transform,
    write_volume,
)
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.registration import write_deformable_registration, write_spatial_registration
from duotomo.io.dicom.tomosynthesis import read_tomosynthesis, write_tomosynthesis
from duotomo.transforms import Affine, Motion
from tests.io.itk_helpers import sitk

CLOSE_MM = 1e-3

GRID = VolumeGrid(shape=(7, 12, 10), spacing_mm=(1.0, 0.27, 0.19), center_mm=(23.7, 51.3, -17.9))
VOXEL = (5, 2, 7)
LANDMARK_MM = voxel_to_world(GRID, VOXEL)
"""(x, y, z) in the machine frame, which is (R, A, S); DICOM and ITK have (-x, -y, z), (L, P, S)."""

Point = NDArray[np.float64]


def lps(xyz: Point) -> Point:
    return np.array([-xyz[0], -xyz[1], xyz[2]])


def brightest(values: NDArray[np.generic]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(np.argmax(values), values.shape))


def by_duotomo(path: Path) -> Point:
    volume, grid = read_tomosynthesis(path) if path.suffix == ".dcm" else read_volume(path)
    return voxel_to_world(grid, brightest(volume.numpy()))


def by_nibabel(path: Path) -> Point:
    image = nibabel.load(path)
    return np.asarray(nibabel.affines.apply_affine(image.affine, brightest(image.get_fdata())))


def by_simpleitk(path: Path) -> Point:
    image = sitk.ReadImage(str(path))
    k, j, i = brightest(sitk.GetArrayFromImage(image))
    return lps(np.array(image.TransformIndexToPhysicalPoint((i, j, k))))


def by_pydicom(path: Path) -> Point:
    """By the equation of PS3.3, C.7.6.2.1.1, on the frame that holds the landmark."""
    dataset = pydicom.dcmread(path)
    frame, row, column = brightest(dataset.pixel_array)
    shared = dataset.SharedFunctionalGroupsSequence[0]
    own = dataset.PerFrameFunctionalGroupsSequence[frame]
    corner = np.array(own.PlanePositionSequence[0].ImagePositionPatient, dtype=float)
    cosines = np.array(shared.PlaneOrientationSequence[0].ImageOrientationPatient, dtype=float)
    d_row, d_column = (float(d) for d in shared.PixelMeasuresSequence[0].PixelSpacing)
    return lps(corner + cosines[:3] * d_column * column + cosines[3:] * d_row * row)


def by_highdicom(path: Path) -> Point:
    highdicom = pytest.importorskip("highdicom")
    volume = highdicom.imread(str(path)).get_volume()
    index = np.array([brightest(volume.array)])
    return lps(np.asarray(volume.map_indices_to_reference(index)[0]))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("v.nii.gz", by_duotomo),
        ("v.nii.gz", by_nibabel),
        ("v.nii.gz", by_simpleitk),
        ("v.nii", by_nibabel),
        ("v.nii", by_simpleitk),
        ("v.mha", by_duotomo),
        ("v.mha", by_simpleitk),
        ("v.nrrd", by_duotomo),
        ("v.nrrd", by_simpleitk),
        ("v.dcm", by_duotomo),
        ("v.dcm", by_simpleitk),
        ("v.dcm", by_pydicom),
        ("v.dcm", by_highdicom),
    ],
)
def test_a_bright_voxel_is_where_it_was_meant_to_be(
    name: str, read: Callable[[Path], Point], tmp_path: Path
) -> None:
    volume = torch.full(GRID.shape, 0.02)
    volume[VOXEL] = 0.09
    write = write_tomosynthesis if name.endswith(".dcm") else write_volume
    write(tmp_path / name, volume, GRID)
    np.testing.assert_allclose(read(tmp_path / name), LANDMARK_MM, rtol=0, atol=CLOSE_MM)


def test_libraries_read_the_same_attenuation(tmp_path: Path) -> None:
    highdicom = pytest.importorskip("highdicom")
    volume = torch.rand(GRID.shape, generator=torch.Generator().manual_seed(0))
    write_tomosynthesis(tmp_path / "v.dcm", volume, GRID)
    image = highdicom.imread(str(tmp_path / "v.dcm"))
    frames = image.get_frames(apply_real_world_transform=True)
    np.testing.assert_allclose(frames, volume, rtol=0, atol=1e-5)
    levels = sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / "v.dcm"))).astype(float)
    # SimpleITK does not know real-world values: it has the levels, in proportion.
    assert np.corrcoef(levels.ravel(), volume.ravel())[0, 1] > 1 - 1e-6


# A motion that every format can hold: it turns, stretches, shears and shifts.
AFFINE = Affine(GRID)
PARAMS = AFFINE.params(
    matrix=[[0.99, -0.06, 0.02], [0.05, 1.02, 0.01], [-0.01, 0.03, 0.97]], translation_mm=(0.31, -0.4, 0.6)
)
MOTION = Motion(AFFINE, PARAMS)
SEEN_MM = voxel_to_world(GRID, (2.3, 4.6, 4.1))
"""The landmark in the moving frame, between voxels; `MEANT_MM` is where the reference has it."""
MEANT_MM = MOTION.points(torch.from_numpy(SEEN_MM.copy())).numpy()

FIXED, MOVING = Identity.anonymous("fixed"), Identity.anonymous("moving")


def between(vectors: NDArray[np.floating], grid: VolumeGrid, xyz_mm: Point) -> Point:
    """Interpolate (z, y, x, xyz) vectors on a grid linearly."""
    at = world_to_voxel(grid, xyz_mm)[:, None]
    return np.array([map_coordinates(vectors[..., i].astype(float), at, order=1)[0] for i in range(3)])


def by_itk_transform(path: Path) -> Point:
    return lps(np.array(sitk.ReadTransform(str(path)).TransformPoint(lps(SEEN_MM).tolist())))


def by_our_transform(path: Path) -> Point:
    motion = read_transform(path, GRID)
    return motion.points(torch.from_numpy(SEEN_MM.copy())).numpy()


def by_itk_displacement(path: Path) -> Point:
    image = sitk.ReadImage(str(path), sitk.sitkVectorFloat64)
    return lps(np.array(sitk.DisplacementFieldTransform(image).TransformPoint(lps(SEEN_MM).tolist())))


def by_nibabel_displacement(path: Path) -> Point:
    image = nibabel.load(path)
    # (x, y, z, 1, component), along L, P, S: intent "vector".
    vectors = np.asarray(image.dataobj)[:, :, :, 0].transpose(2, 1, 0, 3)
    return lps(lps(SEEN_MM) + between(vectors, GRID, SEEN_MM))


def by_our_displacement(path: Path) -> Point:
    motion = read_displacement(path)
    return motion.points(torch.from_numpy(SEEN_MM.copy())).numpy()


def by_dicom_matrix(path: Path) -> Point:
    items = pydicom.dcmread(path).RegistrationSequence
    (item,) = (i for i in items if i.FrameOfReferenceUID == MOVING.frame_of_reference_uid)
    (step,) = item.MatrixRegistrationSequence[0].MatrixSequence
    matrix = np.array(step.FrameOfReferenceTransformationMatrix, dtype=float).reshape(4, 4)
    return lps((matrix @ [*lps(SEEN_MM), 1.0])[:3])


def by_dicom_vectors(path: Path) -> Point:
    """DICOM's vectors lead the other way, so the reference's landmark is asked where it is seen."""
    grid = pydicom.dcmread(path).DeformableRegistrationSequence[0].DeformableRegistrationGridSequence[0]
    vectors = np.frombuffer(grid.VectorGridData, dtype="<f4").reshape(*grid.GridDimensions[::-1], 3)
    seen = lps(lps(MEANT_MM) + between(vectors, GRID, MEANT_MM))
    return MEANT_MM + (seen - SEEN_MM)


def write_matrix(path: Path) -> None:
    write_spatial_registration(path, MOTION, fixed=FIXED, moving=MOVING)


def write_vectors(path: Path) -> None:
    write_deformable_registration(path, MOTION, GRID, fixed=FIXED, moving=MOVING)


def write_itk(path: Path) -> None:
    write_transform(path, MOTION)


def write_field(path: Path) -> None:
    write_displacement(path, MOTION, GRID)


@pytest.mark.parametrize(
    ("name", "write", "move"),
    [
        ("t.tfm", write_itk, by_itk_transform),
        ("t.tfm", write_itk, by_our_transform),
        ("t.h5", write_itk, by_itk_transform),
        ("t.h5", write_itk, by_our_transform),
        ("u.nii.gz", write_field, by_itk_displacement),
        ("u.nii.gz", write_field, by_nibabel_displacement),
        ("u.nii.gz", write_field, by_our_displacement),
        ("u.mha", write_field, by_itk_displacement),
        ("u.mha", write_field, by_our_displacement),
        ("matrix.dcm", write_matrix, by_dicom_matrix),
        ("vectors.dcm", write_vectors, by_dicom_vectors),
    ],
)
def test_a_landmark_moves_to_where_it_was_meant_to(
    name: str, write: Callable[[Path], None], move: Callable[[Path], Point], tmp_path: Path
) -> None:
    write(tmp_path / name)
    np.testing.assert_allclose(move(tmp_path / name), MEANT_MM, rtol=0, atol=CLOSE_MM)


def test_the_landmark_moves_at_all() -> None:
    assert np.abs(MEANT_MM - SEEN_MM).max() > 0.3
