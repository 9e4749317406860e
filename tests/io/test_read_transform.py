"""Transforms that SimpleITK made and wrote move points here as they do there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from duotomo.io import FileError, read_transform
from duotomo.transforms import Affine, BSpline, Composition, DisplacementField, Translation
from tests.io.itk_helpers import (
    GRID,
    LPS,
    directions,
    is_aligned,
    moved_by_itk,
    moved_by_us,
    points_on,
    sitk,
    text_file,
)

CLOSE_MM = 1e-9
TURN = [0.1, -0.2, 0.15]
SHIFT_MM = [3.0, -1.5, 2.25]
CENTER_MM = [-4.1, 7.3, 10.7]

LINEAR = {
    "Translation": lambda: sitk.TranslationTransform(3, SHIFT_MM),
    "Scale": lambda: with_center(sitk.ScaleTransform(3, [1.2, 0.9, 1.1])),
    "Euler": lambda: with_center(sitk.Euler3DTransform(CENTER_MM, *TURN, SHIFT_MM)),
    "Euler in the order ZYX": lambda: order_zyx(sitk.Euler3DTransform(CENTER_MM, *TURN, SHIFT_MM)),
    "Versor": lambda: with_center(sitk.VersorTransform([1.0, 2.0, 3.0], 0.6)),
    "VersorRigid": lambda: with_params(sitk.VersorRigid3DTransform(), TURN + SHIFT_MM),
    "Similarity": lambda: with_params(sitk.Similarity3DTransform(), [*TURN, *SHIFT_MM, 1.3]),
    "ScaleVersor": lambda: with_params(sitk.ScaleVersor3DTransform(), [*TURN, *SHIFT_MM, 1.3, 0.8, 1.1]),
    "ScaleSkewVersor": lambda: with_params(
        sitk.ScaleSkewVersor3DTransform(), [*TURN, *SHIFT_MM, 1.3, 0.8, 1.1, 0.1, -0.1, 0.2, 0.05, 0.15, -0.2]
    ),
    "ComposeScaleSkewVersor": lambda: with_params(
        sitk.ComposeScaleSkewVersor3DTransform(), [*TURN, *SHIFT_MM, 1.3, 0.8, 1.1, 0.1, -0.1, 0.2]
    ),
    "Versor beyond a turn": lambda: with_params(sitk.VersorRigid3DTransform(), [0.9, 0.8, 0.1, *SHIFT_MM]),
    "Affine": lambda: with_params(
        sitk.AffineTransform(3), [1.1, 0.2, -0.1, 0.3, 0.9, 0.1, -0.2, 0.1, 1.2, *SHIFT_MM]
    ),
    "Identity": lambda: sitk.Transform(3, sitk.sitkIdentity),
}


def with_center(itk: Any) -> Any:
    itk.SetCenter(CENTER_MM)
    return itk


def with_params(itk: Any, params: list[float]) -> Any:
    with_center(itk).SetParameters(params)
    return itk


def order_zyx(itk: Any) -> Any:
    itk.SetComputeZYX(True)
    return itk


def spline(direction: NDArray[np.float64], *, order: int = 3, seed: int = 0) -> Any:
    """Return ITK's spline over a box of its own, with random coefficients."""
    rng = np.random.default_rng(seed)
    itk = sitk.BSplineTransform(3, order)
    itk.SetTransformDomainOrigin(rng.uniform(-20, 20, 3).tolist())
    itk.SetTransformDomainPhysicalDimensions(rng.uniform(10, 30, 3).tolist())
    itk.SetTransformDomainMeshSize([2, 3, 4])
    itk.SetTransformDomainDirection(direction.ravel().tolist())
    itk.SetParameters(rng.normal(size=len(itk.GetParameters())).tolist())
    return itk


def field(direction: NDArray[np.float64], *, seed: int = 0) -> Any:
    """Return ITK's displacement field with random vectors."""
    rng = np.random.default_rng(seed)
    image = sitk.GetImageFromArray(rng.normal(size=(4, 5, 6, 3)), isVector=True)
    image.SetOrigin(rng.uniform(-20, 20, 3).tolist())
    image.SetSpacing(rng.uniform(0.5, 3, 3).tolist())
    image.SetDirection(direction.ravel().tolist())
    return sitk.DisplacementFieldTransform(image)


def points_in(itk: Any, *, inset: float) -> NDArray[np.float64]:
    """Return random points, (n, xyz), in the machine frame, inside a lattice."""
    size, origin, spacing, direction = np.split(np.array(itk.GetFixedParameters()), [3, 6, 9])
    index = inset + np.random.default_rng(1).random((40, 3)) * (size - 1 - 2 * inset)
    return LPS * (origin + (index * spacing) @ direction.reshape(3, 3).T)


@pytest.mark.parametrize("suffix", [".tfm", ".txt", ".h5", ".mat"])
@pytest.mark.parametrize("kind", LINEAR)
def test_linear_transforms(kind: str, suffix: str, tmp_path: Path) -> None:
    itk = LINEAR[kind]()
    sitk.WriteTransform(itk, str(tmp_path / f"t{suffix}"))
    motion = read_transform(tmp_path / f"t{suffix}", GRID)
    xyz_mm = points_on(GRID)
    theirs = moved_by_itk(itk, xyz_mm)
    np.testing.assert_allclose(moved_by_us(motion, xyz_mm), theirs, rtol=0, atol=CLOSE_MM)
    assert type(motion.transform) is (Translation if kind == "Translation" else Affine)
    assert motion.grid == GRID
    if hasattr(itk, "GetCenter"):
        assert motion.transform.center_mm.tolist() == list(LPS * CENTER_MM)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("MatrixOffsetTransformBase_double_3_3", "1.5 0.3 0 0 1 0.5 -0.3 0 1 3 2 1"),
        ("AffineTransform_float_3_3", "1.5 0.3 0 0 1 0.5 -0.3 0 1 3 2 1"),
        ("QuaternionRigidTransform_double_3_3", "0 0 0.6 0.8 3 2 1"),
        ("QuaternionRigidTransform_double_3_3", "0.1 0.2 0.6 0.9 3 2 1"),
        ("ScaleLogarithmicTransform_double_3_3", "0.1 0.2 -0.3"),
    ],
)
def test_linear_transforms_that_simpleitk_cannot_make(kind: str, numbers: str, tmp_path: Path) -> None:
    path = text_file(tmp_path / "t.tfm", kind, numbers, "4.1 8.3 16.7")
    motion = read_transform(path, GRID)
    xyz_mm = points_on(GRID)
    theirs = moved_by_itk(sitk.ReadTransform(str(path)), xyz_mm)
    np.testing.assert_allclose(moved_by_us(motion, xyz_mm), theirs, rtol=0, atol=CLOSE_MM)


@pytest.mark.parametrize(
    ("make", "inset", "kind", "suffix"),
    [
        *((spline, 1.0, BSpline, suffix) for suffix in (".tfm", ".h5", ".mat")),
        *((field, 0.0, DisplacementField, suffix) for suffix in (".tfm", ".h5")),
    ],
)
@pytest.mark.parametrize("which", directions())
def test_splines_and_displacement_fields_in_any_direction(
    which: str, make: Callable[..., Any], inset: float, kind: type, suffix: str, tmp_path: Path
) -> None:
    itk = make(directions()[which])
    sitk.WriteTransform(itk, str(tmp_path / f"t{suffix}"))
    motion = read_transform(tmp_path / f"t{suffix}", GRID)
    xyz_mm = points_in(itk, inset=inset)
    theirs = moved_by_itk(itk, xyz_mm)
    np.testing.assert_allclose(moved_by_us(motion, xyz_mm), theirs, rtol=0, atol=CLOSE_MM)
    assert np.abs(theirs - xyz_mm).max() > 0.3
    assert isinstance(motion.transform, kind if is_aligned(directions()[which]) else Composition)


@given(seed=st.integers(0, 2**32 - 1))
def test_random_splines_and_fields(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("random") / "t.h5"
    direction, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    for itk, inset in ((spline(direction, seed=seed), 1.0), (field(direction, seed=seed), 0.0)):
        sitk.WriteTransform(itk, str(path))
        motion = read_transform(path, GRID)
        # Rounding may take ITK out of the domain on its very border.
        xyz_mm = points_in(itk, inset=inset + 1e-9)
        theirs = moved_by_itk(itk, xyz_mm)
        np.testing.assert_allclose(moved_by_us(motion, xyz_mm), theirs, rtol=0, atol=CLOSE_MM)


@pytest.mark.parametrize("suffix", [".tfm", ".h5"])
def test_a_composite_applies_its_last_part_first(suffix: str, tmp_path: Path) -> None:
    turned = directions()["turned"]
    parts = [LINEAR["Affine"](), spline(turned), LINEAR["Euler"](), LINEAR["Translation"]()]
    itk = sitk.CompositeTransform(parts)
    sitk.WriteTransform(itk, str(tmp_path / f"t{suffix}"))
    motion = read_transform(tmp_path / f"t{suffix}", GRID)
    assert isinstance(motion.transform, Composition)
    assert [type(part) for part in motion.transform.parts] == [Translation, Affine, Composition, Affine]
    # Points that the first two take into the spline's domain.
    before = sitk.CompositeTransform(parts[2:]).GetInverse()
    xyz_mm = moved_by_itk(before, points_in(parts[1], inset=1.001))
    theirs = moved_by_itk(itk, xyz_mm)
    np.testing.assert_allclose(moved_by_us(motion, xyz_mm), theirs, rtol=0, atol=CLOSE_MM)


def test_a_wrapped_part_of_a_composite(tmp_path: Path) -> None:
    affine = "Parameters: 2 0 0 0 1 0 0 0 1 1 0 0\nFixedParameters: 0 0 0\n"
    (tmp_path / "t.tfm").write_text(
        "#Insight Transform File V1.0\nTransform: CompositeTransform_double_3_3\n"
        f"Transform: MatrixOffsetTransformBase_double_3_3\n{affine}"
        "Transform: TranslationTransform_double_3_3\nParameters: 0 0 5\nFixedParameters: \n"
    )
    motion = read_transform(tmp_path / "t.tfm", GRID)
    moved = motion.points(torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(moved, torch.tensor([1.0, 2.0, 8.0]).double())


@pytest.mark.parametrize("order", [0, 1, 2])
def test_splines_of_other_orders_are_refused(order: int, tmp_path: Path) -> None:
    sitk.WriteTransform(spline(np.eye(3), order=order), str(tmp_path / "t.tfm"))
    with pytest.raises(
        FileError, match=rf"t\.tfm: expected a B-spline transform of order 3; got order {order}"
    ):
        read_transform(tmp_path / "t.tfm", GRID)


def test_two_dimensions_are_refused(tmp_path: Path) -> None:
    sitk.WriteTransform(sitk.AffineTransform(2), str(tmp_path / "t.tfm"))
    with pytest.raises(FileError, match="expected a transform of 3-D space; got one of 2-D"):
        read_transform(tmp_path / "t.tfm", GRID)


@pytest.mark.parametrize(("scale", "kind"), [(-1.0, "reflects"), (0.0, "is singular")])
def test_matrices_without_a_proper_inverse_are_refused(scale: float, kind: str, tmp_path: Path) -> None:
    path = text_file(
        tmp_path / "t.tfm", "AffineTransform_double_3_3", f"{scale} 0 0 0 1 0 0 0 1 0 0 0", "0 0 0"
    )
    with pytest.raises(FileError, match=rf"t\.tfm: Affine: .* positive determinant; got .*{kind}"):
        read_transform(path, GRID)


@pytest.mark.parametrize("suffix", [".h5", ".mat"])
@pytest.mark.parametrize("at", [0, 9], ids=["matrix", "translation"])
def test_numbers_that_are_none_are_refused(at: int, suffix: str, tmp_path: Path) -> None:
    params = [1.0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    params[at] = float("nan")
    sitk.WriteTransform(with_params(sitk.AffineTransform(3), params), str(tmp_path / f"t{suffix}"))
    with pytest.raises(FileError, match=rf"t{suffix}: expected finite parameters up to 1e\+09"):
        read_transform(tmp_path / f"t{suffix}", GRID)


@pytest.mark.parametrize(
    "kind", ["AzimuthElevationToCartesianTransform", "ScalableAffineTransform", "MyTransform"]
)
def test_other_kinds_are_refused(kind: str, tmp_path: Path) -> None:
    path = text_file(tmp_path / "t.tfm", f"{kind}_double_3_3", "1 0 0 0 1 0 0 0 1 0 0 0", "0 0 0")
    with pytest.raises(FileError, match=rf"expected a linear, B-spline, .*; got {kind}"):
        read_transform(path, GRID)


def test_an_empty_composite_is_refused(tmp_path: Path) -> None:
    sitk.WriteTransform(sitk.CompositeTransform(3), str(tmp_path / "t.tfm"))
    with pytest.raises(FileError, match="expected a composite transform of one part or more; got none"):
        read_transform(tmp_path / "t.tfm", GRID)
