"""Registrations that were written are read back, and files of others are read or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io import (
    FileError,
    convert,
    read_displacement,
    read_transform,
    write_displacement,
    write_transform,
)
from duotomo.io.dicom import read_registration, write_deformable_registration, write_spatial_registration
from duotomo.io.displacement import MOST_VECTORS, vector_grid
from duotomo.transforms import BSpline, DisplacementField, Motion, Rigid, invert
from tests.cases.transforms import centers_mm

GRID = VolumeGrid.on_detector((10, 12, 14), (3.0, 2.5, 2.0), gap_mm=5.0)
RIGID = Rigid(GRID)
TURN = Motion(RIGID, RIGID.params(rotation_deg=(3.0, 8.0, -2.0), translation_mm=(4.0, -2.0, 1.0)))


def bent(size_mm: float = 1.0) -> Motion:
    spline = BSpline.over(GRID, (5, 5, 5))
    draw = torch.Generator().manual_seed(3)
    coefficients = torch.rand((3, *spline.lattice.shape), generator=draw, dtype=torch.float64) - 0.5
    return Motion(spline, spline.params(coefficients_mm=2 * size_mm * coefficients))


def points() -> torch.Tensor:
    return torch.from_numpy(np.asarray(centers_mm(GRID), dtype=np.float64).reshape(-1, 3).copy())


def apart_mm(one: Motion, two: Motion) -> float:
    return float((one.points(points()) - two.points(points())).norm(dim=-1).max())


def test_a_matrix_comes_back(tmp_path: Path) -> None:
    write_spatial_registration(tmp_path / "a.dcm", TURN)
    found = read_registration(tmp_path / "a.dcm")
    assert not found.is_inverse
    assert apart_mm(found.motion, TURN) < 1e-6


def test_vectors_come_back_as_the_inverse(tmp_path: Path) -> None:
    motion = bent()
    write_deformable_registration(tmp_path / "a.dcm", motion, GRID)
    found = read_registration(tmp_path / "a.dcm")
    assert found.is_inverse
    assert found.motion.grid.shape == GRID.shape
    back = invert(motion, GRID, tolerance_mm=1e-9).motion
    assert apart_mm(found.motion, back) < 1e-6
    # There and back again: to the reference, at the points that the file has.
    assert float((motion.points(found.motion.points(points())) - points()).norm(dim=-1).max()) < 1e-6


def test_matrices_before_and_after_the_vectors_count(tmp_path: Path) -> None:
    path = tmp_path / "a.dcm"
    write_deformable_registration(path, bent(), GRID)
    plain = read_registration(path).motion
    dataset = pydicom.dcmread(path)
    (item,) = dataset.DeformableRegistrationSequence
    shift = np.eye(4)
    shift[:3, 3] = (-1.0, -2.0, 3.0)
    step = item.PostDeformationMatrixRegistrationSequence[0]
    step.FrameOfReferenceTransformationMatrix = shift.ravel().tolist()
    dataset.save_as(path)
    moved = read_registration(path).motion
    expected = plain.points(points()) + torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert float((moved.points(points()) - expected).norm(dim=-1).max()) < 1e-6


def change(keyword: str, value: Any) -> Callable[[Any], None]:
    def edit(dataset: Any) -> None:
        (item,) = dataset.DeformableRegistrationSequence
        setattr(item.DeformableRegistrationGridSequence[0], keyword, value)

    return edit


def without_frames(dataset: Any) -> None:
    dataset.RegistrationSequence = dataset.RegistrationSequence[:1]


def with_matrix(entry: int, value: float) -> Callable[[Any], None]:
    def edit(dataset: Any) -> None:
        (step,) = dataset.RegistrationSequence[1].MatrixRegistrationSequence[0].MatrixSequence
        matrix = list(step.FrameOfReferenceTransformationMatrix)
        matrix[entry] = value
        step.FrameOfReferenceTransformationMatrix = matrix

    return edit


def flat(dataset: Any) -> None:
    (step,) = dataset.RegistrationSequence[1].MatrixRegistrationSequence[0].MatrixSequence
    step.FrameOfReferenceTransformationMatrix = np.diag([1.0, 1.0, 0.0, 1.0]).ravel().tolist()


def of_another_kind(dataset: Any) -> None:
    dataset.SOPClassUID = "1.2.840.10008.5.1.4.1.1.66.4"


NAN, FAR = (np.full(3 * GRID.n_voxels, value, dtype="<f4").tobytes() for value in (np.nan, 1e7))


@pytest.mark.parametrize(
    ("bends", "edit", "message"),
    [
        (False, of_another_kind, "expected a Spatial Registration or a Deformable Spatial Registration; got"),
        (False, without_frames, "expected the registration of one other frame of reference; got 0"),
        (False, with_matrix(0, 1e4), "expected a matrix of factors up to 1000 and shifts up to 1e[+]06 mm"),
        (False, with_matrix(15, 2.0), "expected a matrix whose last row is 0, 0, 0, 1; got"),
        (False, flat, "expected a matrix with an inverse; got one without"),
        (True, change("VectorGridData", b"\0" * 12), "three numbers of 4 bytes for each point; got"),
        (True, change("VectorGridData", NAN), "that are not defined, for the transform folds there"),
        (True, change("VectorGridData", FAR), "expected vectors of up to 1e[+]06 mm; got others"),
        (
            True,
            change("GridResolution", [0.0, 1.0, 1.0]),
            "expected Grid Dimensions and Grid Resolution above 0",
        ),
        (True, change("ImagePositionPatient", [0.0, 1.0]), "expected 3 finite numbers; got 2"),
        (True, lambda one: setattr(one, "DeformableRegistrationSequence", []), "expected the vectors of one"),
        (
            True,
            lambda one: delattr(one, "DeformableRegistrationSequence"),
            "expected a DICOM file that can be",
        ),
    ],
)
def test_what_cannot_be_a_registration_is_refused(
    bends: bool, edit: Callable[[Any], None], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.dcm"
    if bends:
        write_deformable_registration(path, bent(), GRID)
    else:
        write_spatial_registration(path, TURN)
    dataset = pydicom.dcmread(path)
    edit(dataset)
    dataset.save_as(path)
    with pytest.raises(FileError, match=message) as caught:
        read_registration(path)
    assert str(path) in str(caught.value)


def test_a_registration_is_converted_and_an_inverse_is_exact(tmp_path: Path) -> None:
    notes: list[str] = []
    write_spatial_registration(tmp_path / "a.dcm", TURN)
    for inverse, expected in ((False, TURN), (True, invert(TURN).motion)):
        convert(tmp_path / "a.dcm", tmp_path / "a.tfm", inverse=inverse, on_note=notes.append)
        assert apart_mm(read_transform(tmp_path / "a.tfm", GRID), expected) < 1e-6
    assert notes == ["Inverse: in closed form"]


def test_a_deformable_registration_is_turned_round_with_its_error(tmp_path: Path) -> None:
    motion, notes = bent(), list[str]()
    write_deformable_registration(tmp_path / "a.dcm", motion, GRID)
    convert(tmp_path / "a.dcm", tmp_path / "there.mha", on_note=notes.append)
    convert(tmp_path / "a.dcm", tmp_path / "back.mha", inverse=True, on_note=notes.append)
    # What the file holds is the inverse, as it is.
    (note,) = notes
    assert note.startswith("Inverse: right to ")
    stored = read_registration(tmp_path / "a.dcm").motion
    assert apart_mm(read_displacement(tmp_path / "back.mha"), stored) < 1e-9
    # Its inverse is that of what stands between the points, linear: near the one it came from.
    inside = points()[(points() > points().amin(0) + 5).all(1) & (points() < points().amax(0) - 5).all(1)]
    there = read_displacement(tmp_path / "there.mha")
    assert float((there.points(inside) - motion.points(inside)).norm(dim=-1).max()) < 0.02


def test_displacements_that_end_with_their_lattice_have_an_inverse_up_to_its_border(tmp_path: Path) -> None:
    field, shift_mm = DisplacementField(GRID), torch.tensor([6.0, -3.0, 1.0], dtype=torch.float64)
    wide_mm = shift_mm[:, None, None, None].expand(3, *GRID.shape)
    write_displacement(tmp_path / "a.mha", Motion(field, field.params(displacement_mm=wide_mm)), GRID)
    convert(tmp_path / "a.mha", tmp_path / "b.mha", inverse=True)
    found = read_displacement(tmp_path / "b.mha").physical()["displacement_mm"]
    assert float((found + shift_mm[:, None, None, None]).abs().max()) < 1e-5


def test_an_inverse_says_where_there_is_none(tmp_path: Path) -> None:
    path, notes = tmp_path / "a.tfm", list[str]()
    write_transform(path, bent())
    with pytest.raises(FileError, match="expected a grid on which the inverse is given; got none"):
        convert(path, tmp_path / "b.tfm", inverse=True)
    write_transform(path, bent(40.0))
    (tmp_path / "grid.mha").write_bytes(volume(tmp_path))
    with pytest.raises(FileError, match="expected a transform that has an inverse everywhere on"):
        convert(path, tmp_path / "b.tfm", inverse=True, grid_from=tmp_path / "grid.mha")
    write_transform(path, bent())
    convert(path, tmp_path / "b.tfm", inverse=True, grid_from=tmp_path / "grid.mha", on_note=notes.append)
    again = read_transform(tmp_path / "b.tfm", GRID)
    assert float((bent().points(again.points(points())) - points()).norm(dim=-1).max()) < 1e-5
    assert f"at {GRID.n_voxels} points, and to" in notes[0]
    with pytest.raises(
        FileError, match=r"expected `inverse` for a transform, or that of a result; got a volume"
    ):
        convert(tmp_path / "grid.mha", tmp_path / "c.mha", inverse=True)


def volume(folder: Path) -> bytes:
    from duotomo.io import write_volume

    write_volume(folder / "v.mha", torch.zeros(GRID.shape), GRID)
    return (folder / "v.mha").read_bytes()


def test_large_grids_have_as_many_vectors_as_the_motion_needs() -> None:
    small = vector_grid(bent(), GRID)
    assert small == GRID
    clinical = VolumeGrid.on_detector((60, 1000, 2000), (1.0, 0.1, 0.1))
    spline = BSpline.spaced(22.0)(clinical)
    grid = vector_grid(Motion(spline, spline.identity()), clinical)
    assert grid.n_voxels <= MOST_VECTORS
    assert max(grid.spacing_mm) <= 22.0 / 16
    assert min(grid.spacing_mm) >= 0.9
