"""A landmark goes the way that DICOM defines: by the matrix to the reference, by the vectors from it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
import torch
from numpy.typing import NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io import FileError
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.registration import write_deformable_registration, write_spatial_registration
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.transforms import Affine, BSpline, Composition, DisplacementField, Motion, Rigid, Translation
from duotomo.transforms.transform import Transform
from tests.cases.transforms import MOVING, REFERENCE, TransformCase, centers_mm, draw_params, transforms
from tests.io.itk_helpers import LPS, moved_by_us, points_on

FIXED, OTHER = Identity.anonymous("fixed"), Identity.anonymous("moving")
LINEAR = ("translation", "rigid", "affine", "affine about the origin", "rigid after translation")

each = pytest.mark.parametrize("case", transforms(), ids=lambda case: case[0])
linear = pytest.mark.parametrize(
    "case", [case for case in transforms() if case[0] in LINEAR], ids=lambda case: case[0]
)


def by_matrix(path: Path, source: Identity, xyz_mm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move points (n, xyz) of a source frame to the registered one, as PS3.3, C.20.2.1.1 does."""
    dataset = pydicom.dcmread(path)
    (registered,) = (
        item
        for item in dataset.RegistrationSequence
        if item.FrameOfReferenceUID == source.frame_of_reference_uid
    )
    (step,) = registered.MatrixRegistrationSequence[0].MatrixSequence
    matrix = np.array(step.FrameOfReferenceTransformationMatrix, dtype=float).reshape(4, 4)
    homogeneous = np.concatenate([xyz_mm * LPS, np.ones((len(xyz_mm), 1))], axis=1)
    return (homogeneous @ matrix.T)[:, :3] * LPS


def by_vectors(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the grid's points in the registered frame, and where they are in the source's.

    As in PS3.3, C.20.3.1.1: (n, xyz) each.
    """
    (registration,) = pydicom.dcmread(path).DeformableRegistrationSequence
    (grid,) = registration.DeformableRegistrationGridSequence
    n_x, n_y, n_z = grid.GridDimensions
    row, column = np.array(grid.ImageOrientationPatient, dtype=float).reshape(2, 3)
    axes = np.stack([row, column, np.cross(row, column)], axis=1) * np.array(grid.GridResolution)
    k, j, i = np.meshgrid(np.arange(n_z), np.arange(n_y), np.arange(n_x), indexing="ij")
    index = np.stack([i, j, k], axis=-1).reshape(-1, 3)
    registered = np.array(grid.ImagePositionPatient, dtype=float) + index @ axes.T
    vectors = np.frombuffer(grid.VectorGridData, dtype="<f4").reshape(-1, 3)
    for sequence in ("Pre", "Post"):
        (step,) = registration[f"{sequence}DeformationMatrixRegistrationSequence"]
        np.testing.assert_array_equal(
            np.reshape(step.FrameOfReferenceTransformationMatrix, (4, 4)), np.eye(4)
        )
    return registered * LPS, (registered + vectors) * LPS


@linear
def test_the_matrix_takes_moving_landmarks_to_the_reference(case: TransformCase, tmp_path: Path) -> None:
    transform = case[1](REFERENCE)
    params = draw_params(transform, seed=1)
    write_spatial_registration(tmp_path / "r.dcm", Motion(transform, params), fixed=FIXED, moving=OTHER)
    xyz_mm = points_on(MOVING)
    theirs = by_matrix(tmp_path / "r.dcm", OTHER, xyz_mm)
    np.testing.assert_allclose(theirs, moved_by_us(Motion(transform, params), xyz_mm), rtol=0, atol=1e-6)
    assert np.abs(theirs - xyz_mm).max() > 0.5
    np.testing.assert_array_equal(by_matrix(tmp_path / "r.dcm", FIXED, xyz_mm), xyz_mm)


@each
def test_the_vectors_take_reference_landmarks_to_the_moving_frame(
    case: TransformCase, tmp_path: Path
) -> None:
    transform = case[1](REFERENCE)
    params = draw_params(transform, seed=2, size_voxels=0.3, turn_deg=15, stretch=0.1)
    write_deformable_registration(
        tmp_path / "d.dcm", Motion(transform, params), REFERENCE, fixed=FIXED, moving=OTHER
    )
    in_reference, in_moving = by_vectors(tmp_path / "d.dcm")
    index = np.argwhere(np.ones(REFERENCE.shape))
    np.testing.assert_allclose(in_reference, voxel_to_world(REFERENCE, index), atol=1e-8)
    known = ~np.isnan(in_moving).any(axis=1)
    assert known.mean() > 0.9
    back = moved_by_us(Motion(transform, params), in_moving[known])
    np.testing.assert_allclose(back, in_reference[known], rtol=0, atol=2e-4)
    assert np.abs(in_moving[known] - in_reference[known]).max() > 0.1


def test_a_lesion_by_numbers(tmp_path: Path) -> None:
    # As in the page on conventions: T adds 5 mm along x, so the moving visit sees the lesion 5 mm lower.
    grid = VolumeGrid(shape=(1, 1, 1), spacing_mm=(1, 1, 1), center_mm=(30, 20, 10))
    shift = Translation(grid)
    params = shift.params(translation_mm=(5.0, 0.0, 0.0))
    write_spatial_registration(tmp_path / "r.dcm", Motion(shift, params), fixed=FIXED, moving=OTHER)
    seen = np.array([[5.0, 20.0, 30.0]])
    assert by_matrix(tmp_path / "r.dcm", OTHER, seen).tolist() == [[10.0, 20.0, 30.0]]
    write_deformable_registration(tmp_path / "d.dcm", Motion(shift, params), grid, fixed=FIXED, moving=OTHER)
    in_reference, in_moving = by_vectors(tmp_path / "d.dcm")
    assert in_reference.tolist() == [[10.0, 20.0, 30.0]]
    assert in_moving.tolist() == [[5.0, 20.0, 30.0]]


def test_the_frames_are_those_of_the_volumes(tmp_path: Path) -> None:
    shift = Translation(REFERENCE)
    volume = torch.ones(REFERENCE.shape)
    for name, visit in (("fixed", FIXED), ("moving", OTHER)):
        write_tomosynthesis(tmp_path / f"{name}.dcm", volume, REFERENCE, identity=visit)
    still = Motion(shift, shift.identity())
    write_spatial_registration(tmp_path / "r.dcm", still, fixed=FIXED, moving=OTHER)
    write_deformable_registration(tmp_path / "d.dcm", still, MOVING, fixed=FIXED, moving=OTHER)
    fixed, moving, matrix, vectors = (
        pydicom.dcmread(tmp_path / f"{name}.dcm") for name in ("fixed", "moving", "r", "d")
    )
    assert fixed.FrameOfReferenceUID != moving.FrameOfReferenceUID
    for registration in (matrix, vectors):
        assert registration.FrameOfReferenceUID == fixed.FrameOfReferenceUID
        assert registration.StudyInstanceUID == fixed.StudyInstanceUID
    assert matrix.RegistrationSequence[1].FrameOfReferenceUID == moving.FrameOfReferenceUID
    assert vectors.DeformableRegistrationSequence[0].SourceFrameOfReferenceUID == moving.FrameOfReferenceUID


@pytest.mark.parametrize(
    ("transform", "kind"),
    [(Translation(REFERENCE), "RIGID"), (Rigid(REFERENCE), "RIGID"), (Affine(REFERENCE), "AFFINE")],
)
def test_the_kind_of_matrix_is_said(transform: Transform, kind: str, tmp_path: Path) -> None:
    write_spatial_registration(tmp_path / "r.dcm", Motion(transform, draw_params(transform, seed=3)))
    step = pydicom.dcmread(tmp_path / "r.dcm").RegistrationSequence[1].MatrixRegistrationSequence[0]
    assert step.MatrixSequence[0].FrameOfReferenceTransformationMatrixType == kind


def test_where_it_folds_there_is_no_vector(tmp_path: Path) -> None:
    field = DisplacementField(REFERENCE)
    u = torch.zeros(3, *REFERENCE.shape, dtype=torch.float64)
    # Two neighbours change places.
    u[0, :, :, 4], u[0, :, :, 5] = 4.0, -4.0
    params = field.params(displacement_mm=u)
    write_deformable_registration(tmp_path / "d.dcm", Motion(field, params), REFERENCE)
    in_reference, in_moving = by_vectors(tmp_path / "d.dcm")
    known = ~np.isnan(in_moving).any(axis=1)
    np.testing.assert_allclose(
        moved_by_us(Motion(field, params), in_moving[known]), in_reference[known], rtol=0, atol=2e-4
    )
    assert known.any()
    determinants = torch.linalg.det(field.jacobian(params, torch.from_numpy(in_moving[known])))
    assert (determinants > -1e-6).all()


def test_wrong_arguments_write_nothing(tmp_path: Path) -> None:
    shift, spline = Translation(REFERENCE), BSpline.over(REFERENCE, (4, 4, 4))
    path = tmp_path / "r.dcm"
    chain = Composition(shift, spline)
    for bent in (spline, chain):
        with pytest.raises(
            GeometryError, match=r"write_spatial_registration: .*which bends. Use write_deform"
        ):
            write_spatial_registration(path, Motion(bent, bent.identity()))
    writers: list[Any] = [
        lambda **more: write_spatial_registration(path, Motion(shift, shift.identity()), **more),
        lambda **more: write_deformable_registration(path, Motion(shift, shift.identity()), MOVING, **more),
    ]
    for write in writers:
        with pytest.raises(GeometryError, match=r"expected two visits, .*; got the same identity"):
            write(fixed=FIXED, moving=Identity.anonymous("fixed"))
        with pytest.raises(FileError, match="expected a description of 1 to 64"):
            write(description="")
    huge = VolumeGrid(shape=(1000, 1000, 1000), spacing_mm=(1, 1, 1), center_mm=(0, 0, 0))
    with pytest.raises(FileError, match="expected a grid of at most 357913941 voxels"):
        write_deformable_registration(path, Motion(shift, shift.identity()), huge)
    with pytest.raises(FileError, match=r"expected a name that ends in .dcm; got 'r.tfm'"):
        write_spatial_registration(tmp_path / "r.tfm", Motion(shift, shift.identity()))
    assert os.listdir(tmp_path) == []


def test_a_transform_without_any_inverse_is_refused(tmp_path: Path) -> None:
    # Everything is turned inside out: T(x) = 2 c - x.
    field = DisplacementField(REFERENCE)
    at = centers_mm(REFERENCE)
    u = 2 * (torch.tensor(REFERENCE.center_mm[::-1]) - at)
    params = field.params(displacement_mm=u.movedim(-1, 0))
    inner = VolumeGrid(shape=(2, 2, 2), spacing_mm=(1, 1, 1), center_mm=REFERENCE.center_mm)
    with pytest.raises(GeometryError, match="expected a transform with an inverse somewhere on the grid"):
        write_deformable_registration(tmp_path / "d.dcm", Motion(field, params), inner)
