"""Wrong input to transforms: each is refused with a message that says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from duotomo import transforms as tf
from duotomo.errors import DeviceError, DtypeError, GeometryError, NonFiniteError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.kernels.dispatch import warp_kernels
from duotomo.transforms import Affine, BSpline, Motion, Rigid, Transform, Translation
from tests.cases.transforms import MOVING, REFERENCE, draw_params, transforms

RIGID = Rigid(REFERENCE)
SPLINE = BSpline.over(REFERENCE, (4, 4, 5))
VOLUME = torch.ones(REFERENCE.shape, dtype=torch.float64)
IMAGE = torch.ones(MOVING.shape, dtype=torch.float64)

each_transform = pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in transforms()])


def calls(params: torch.Tensor) -> list[Callable[[], object]]:
    """Return everything that takes the parameters of `RIGID`."""
    return [
        lambda: RIGID.warp(params),
        lambda: RIGID.points(params, torch.zeros(3)),
        lambda: RIGID.jacobian(params, torch.zeros(3)),
        lambda: RIGID.displacement(params),
        lambda: RIGID.determinants(params),
        lambda: RIGID.physical(params),
        lambda: RIGID.inverse(params),
        lambda: RIGID.jvp(params, VOLUME, RIGID.identity()),
        lambda: RIGID.jvp(RIGID.identity(), VOLUME, params),
        lambda: RIGID.vjp(params, VOLUME, VOLUME),
        lambda: RIGID.derivative_images(params, VOLUME),
        lambda: tf.invert_points(Motion(RIGID, params), torch.zeros(3)),
    ]


@pytest.mark.parametrize("number", range(len(calls(RIGID.identity()))))
def test_wrong_parameters(number: int) -> None:
    bad = [
        (torch.zeros(7), ShapeError, r"Rigid: expected .*params \(parameter\) = \(6,\); got \(7,\)"),
        (torch.zeros(2, 6), ShapeError, r"got \(2, 6\)\. Wrong number of axes: 2, needed exactly 1"),
        (torch.zeros(6, dtype=torch.int64), DtypeError, r"expected .*params of torch\.float32 or .*int64"),
        ([0.0] * 6, DtypeError, r"expected .*params as a torch\.Tensor; got list"),
        (
            torch.tensor([0, 0, 0, 0, math.nan, 0]),
            NonFiniteError,
            r"expected .*params to be finite; got 1 NaN",
        ),
    ]
    for params, error, message in bad:
        with pytest.raises(error, match=message):
            calls(params)[number]()


@each_transform
def test_parameters_of_another_transform(build: Callable[[VolumeGrid], Transform]) -> None:
    transform = build(REFERENCE)
    with pytest.raises(ShapeError, match=rf"{type(transform).__name__}: expected params \(parameter\) = "):
        transform.warp(torch.zeros(transform.n_params + 1))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (
            [[1, 0, 0], [0, 1, 0], [0, 0, -1]],
            r"positive determinant; got -1, which reflects\. Check the order",
        ),
        ([[0, 1, 0], [1, 0, 0], [0, 0, 1]], r"positive determinant; got -1, which reflects"),
        ([[1, 0, 0], [0, 1, 0], [1, 1, 0]], r"positive determinant; got .*, which is singular"),
        ([[0, 0, 0], [0, 0, 0], [0, 0, 0]], r"positive determinant; got 0, which is singular"),
    ],
)
def test_a_matrix_that_reflects_or_flattens(matrix: list[list[float]], message: str) -> None:
    affine = Affine(REFERENCE)
    params = affine.params(matrix=matrix, translation_mm=(0.0, 0.0, 0.0))
    uses = [
        lambda: affine.warp(params),
        lambda: affine.points(params, torch.zeros(3)),
        lambda: affine.inverse(params),
        lambda: tf.Composition(RIGID, affine).warp(torch.cat([RIGID.identity(), params])),
        lambda: tf.Composition(RIGID, affine).join(RIGID.identity(), params),
    ]
    for use in uses:
        with pytest.raises(GeometryError, match=r"Affine: expected a matrix with a " + message):
            use()


@pytest.mark.parametrize("shape", [(3, 5, 5), (5, 3, 5), (5, 5, 1)])
def test_too_few_control_points(shape: tuple[int, int, int]) -> None:
    lattice = VolumeGrid(shape=shape, spacing_mm=(1.0, 1.0, 1.0), center_mm=(0.0, 0.0, 0.0))
    message = r"expected at least 4 control points along each of \(z, y, x\); got \([135], [135], [135]\)\. A"
    for make in (
        lambda: BSpline(REFERENCE, lattice),
        lambda: BSpline.over(REFERENCE, shape),
        lambda: tf.Velocity.over(REFERENCE, shape),
    ):
        with pytest.raises(GeometryError, match=message):
            make()


def test_no_parts() -> None:
    with pytest.raises(ShapeError, match=r"Composition: expected at least one transform; got none"):
        tf.Composition()


@pytest.mark.parametrize(
    ("axis", "shift_mm"), [("x", (100.0, 0.0, 0.0)), ("y", (0.0, -50.0, 0.0)), ("z", (0.0, 0.0, 1e3))]
)
def test_grids_that_do_not_meet(axis: str, shift_mm: tuple[float, float, float]) -> None:
    shift = Translation(REFERENCE)
    params = shift.params(translation_mm=shift_mm)
    message = (
        rf"Translation: expected the moving grid to land on the reference grid; got voxels .* along {axis}"
    )
    for use in (
        lambda: shift.warp(params, REFERENCE, MOVING),
        lambda: shift.jvp(params, VOLUME, shift.identity(), REFERENCE, MOVING),
        lambda: shift.vjp(params, VOLUME, IMAGE, REFERENCE, MOVING),
        lambda: shift.derivative_images(params, VOLUME, REFERENCE, MOVING),
    ):
        with pytest.raises(GeometryError, match=message):
            use()
    far = VolumeGrid(shape=(2, 2, 2), spacing_mm=(1.0, 1.0, 1.0), center_mm=(500.0, 0.0, 0.0))
    with pytest.raises(GeometryError, match=r"along z, where the reference has 0 to 5\. Check the grids'"):
        shift.warp(shift.identity(), REFERENCE, far)


def test_grids_that_touch_meet() -> None:
    # The last column of voxels fades to zero within one voxel, and is read near the end of that.
    shift = Translation(REFERENCE)
    n_x = REFERENCE.shape[2]
    image = shift.warp(torch.tensor([n_x - 0.125, 0.0, 0.0]))(VOLUME)
    assert float(image[..., 0].max()) == pytest.approx(0.125)
    assert torch.count_nonzero(image[..., 1:]) == 0


def test_wrong_volumes() -> None:
    direction = RIGID.identity()
    bad = [
        (torch.ones(REFERENCE.shape[::-1]), ShapeError, r"Rigid: expected volume .*; got .* Axes reversed\?"),
        (
            torch.ones(MOVING.shape),
            ShapeError,
            r"Rigid: expected volume \(z, y, x\) = \(6, 7, 9\); got \(5, 6, 8",
        ),
        (torch.ones(7, 9), ShapeError, r"Wrong number of axes: 2, needed at least 3"),
        (
            torch.ones(REFERENCE.shape).int(),
            DtypeError,
            r"expected volume of torch\.float32 or torch\.float64",
        ),
        (np.ones(REFERENCE.shape), DtypeError, r"expected volume as a torch\.Tensor; got ndarray"),
        (
            torch.full(REFERENCE.shape, math.nan, dtype=torch.float64),
            NonFiniteError,
            r"expected volume to be finite",
        ),
    ]
    for volume, error, message in bad:
        for use in (
            lambda v=volume: RIGID.jvp(direction, v, direction),
            lambda v=volume: RIGID.jvp(direction, v, direction, central_step=0.1),
            lambda v=volume: RIGID.vjp(direction, v, VOLUME),
            lambda v=volume: RIGID.derivative_images(direction, v),
        ):
            with pytest.raises(error, match=message):
                use()


def test_a_wrong_volume_for_a_warp() -> None:
    warp = RIGID.warp(RIGID.identity(), REFERENCE, MOVING)
    with pytest.raises(ShapeError, match=r"Warp: expected volume \(z, y, x\) = \(6, 7, 9\); got \(5, 6, 8\)"):
        warp(IMAGE)
    with pytest.raises(
        ShapeError, match=r"expected warped volume \(z, y, x\) = \(5, 6, 8\); got \(6, 7, 9\)"
    ):
        warp.adjoint(VOLUME)
    with pytest.raises(NonFiniteError, match=r"Warp: expected volume to be finite; got 378 NaN"):
        warp(torch.full(REFERENCE.shape, math.nan))
    with pytest.raises(DeviceError, match=r"Warp: expected .*; got 'meta'"):
        warp(torch.ones(REFERENCE.shape, device="meta"))


def test_wrong_cotangents() -> None:
    params, volumes = RIGID.identity(), VOLUME.expand(2, *VOLUME.shape)
    grids = (REFERENCE, MOVING)
    bad = [
        (VOLUME, VOLUME, ShapeError, r"Rigid: expected cotangent \(z, y, x\) = \(5, 6, 8\); got \(6, 7, 9\)"),
        (volumes, IMAGE, ShapeError, r"cotangent \(batch 0, z, y, x\) = \(2, 5, 6, 8\); got \(5, 6, 8\)"),
        (VOLUME, IMAGE.expand(2, *MOVING.shape), ShapeError, r"Wrong number of axes: 4, needed exactly 3"),
        (VOLUME, IMAGE.float(), DtypeError, r"expected cotangent of torch\.float64; got torch\.float32"),
        (VOLUME, IMAGE * math.inf, NonFiniteError, r"expected cotangent to be finite"),
    ]
    for volume, image, error, message in bad:
        for step in (None, 0.1):
            with pytest.raises(error, match=message):
                RIGID.vjp(params, volume, image, *grids, central_step=step)


def test_too_many_parameters_for_images() -> None:
    message = (
        r"BSpline: expected at most 64 parameters for one derivative image each; got 240\. Use jvp and vjp"
    )
    with pytest.raises(ShapeError, match=message):
        SPLINE.derivative_images(SPLINE.identity(), VOLUME)
    with pytest.raises(ShapeError, match=message):
        SPLINE.vjp(SPLINE.identity(), VOLUME, VOLUME, central_step=0.1)


@each_transform
def test_wrong_points(build: Callable[[VolumeGrid], Transform]) -> None:
    transform = build(REFERENCE)
    params = draw_params(transform, seed=1)
    for use in (transform.points, transform.jacobian):
        with pytest.raises(ShapeError, match=r"expected xyz_mm \(xyz\) = \(3,\); got \(4, 2\)"):
            use(params, torch.zeros(4, 2))
        with pytest.raises(DtypeError, match=r"expected xyz_mm of torch\.float32 or torch\.float64"):
            use(params, torch.zeros(4, 3, dtype=torch.int64))
        with pytest.raises(NonFiniteError, match=r"expected xyz_mm to be finite"):
            use(params, torch.tensor([[0.0, 0.0, math.nan]]))


def test_wrong_points_to_invert() -> None:
    with pytest.raises(ShapeError, match=r"expected xyz_mm \(xyz\) = \(3,\); got \(4, 2\)"):
        tf.invert_points(Motion(RIGID, RIGID.identity()), torch.zeros(4, 2))
    with pytest.raises(NonFiniteError, match=r"expected xyz_mm to be finite"):
        tf.invert_points(Motion(SPLINE, SPLINE.identity()), torch.tensor([[0.0, 0.0, math.nan]]))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda values: SPLINE.params(coefficients_mm=values), "coefficients_mm"),
        (lambda values: tf.Velocity.over(REFERENCE, (4, 4, 5)).params(velocities_mm=values), "velocities_mm"),
        (
            lambda values: tf.DisplacementField(SPLINE.lattice).params(displacement_mm=values),
            "displacement_mm",
        ),
        (lambda values: SPLINE.fit(values, SPLINE.lattice), "displacement_mm"),
    ],
    ids=["B-spline", "velocity", "field", "fit"],
)
def test_wrong_lattices(make: Callable[[torch.Tensor], object], name: str) -> None:
    make(torch.zeros(3, 4, 4, 5))
    with pytest.raises(
        ShapeError, match=rf"expected {name} \(xyz, z, y, x\) = \(3, 4, 4, 5\); got \(3, 4, 4, 4\)"
    ):
        make(torch.zeros(3, 4, 4, 4))
    with pytest.raises(ShapeError, match=r"Wrong number of axes: 5, needed exactly 4"):
        make(torch.zeros(1, 3, 4, 4, 5))
    with pytest.raises(NonFiniteError, match=rf"expected {name} to be finite"):
        make(torch.full((3, 4, 4, 5), math.inf))


@pytest.mark.parametrize("measure", [tf.folding, tf.deformation_statistics])
def test_wrong_masks(measure: Callable[..., object]) -> None:
    params = RIGID.identity()
    bad = [
        (torch.ones(MOVING.shape).bool(), r"got \(5, 6, 8\) of torch\.bool with 240"),
        (torch.ones(REFERENCE.shape), r"got \(6, 7, 9\) of torch\.float32 with 378"),
        (torch.zeros(REFERENCE.shape).bool(), r"of torch\.bool with 0\. Make it on the same grid"),
    ]
    for mask, message in bad:
        with pytest.raises(
            ShapeError, match=rf"{measure.__name__}: expected a mask \(z, y, x\) = .*{message}"
        ):
            measure(Motion(RIGID, params), mask=mask)


def test_wrong_landmarks() -> None:
    params, here = RIGID.identity(), torch.zeros(5, 3)
    bad = [
        (
            here,
            torch.zeros(4, 3),
            ShapeError,
            r"expected as many landmarks in both frames; got \(5, 3\) moving",
        ),
        (torch.zeros(5, 2), here, ShapeError, r"expected moving_mm \(xyz\) = \(3,\); got \(5, 2\)"),
        (here, torch.zeros(5, 2), ShapeError, r"expected reference_mm \(xyz\) = \(3,\); got \(5, 2\)"),
        (here, here.double(), DtypeError, r"expected reference_mm of torch\.float32; got torch\.float64"),
    ]
    for moving_mm, reference_mm, error, message in bad:
        with pytest.raises(error, match=r"target_registration_error: " + message):
            tf.target_registration_error(Motion(RIGID, params), moving_mm, reference_mm)


def test_wrong_parameters_of_a_bending_energy() -> None:
    energy, good, bad = tf.BendingEnergy(SPLINE), SPLINE.identity(), torch.zeros(3)
    for use in (
        lambda: energy.value(bad),
        lambda: energy.gradient(bad),
        lambda: energy.hessian_vector(bad, good),
        lambda: energy.hessian_vector(good, bad),
    ):
        with pytest.raises(
            ShapeError, match=r"BSpline: expected params \(parameter\) = \(240,\); got \(3,\)"
        ):
            use()


def test_a_device_without_kernels() -> None:
    with pytest.raises(
        DeviceError, match=r"Warp: expected a tensor on 'cpu' or 'cuda'; got 'meta'\. Move it"
    ):
        warp_kernels(torch.device("meta"))


def test_a_centre_is_a_point() -> None:
    for kind in (Rigid, Affine):
        with pytest.raises(ShapeError, match=r"expected center_mm as \(x, y, z\)"):
            kind(REFERENCE, center_mm=(1.0, 2.0))


def test_a_central_step_is_positive() -> None:
    shift = Translation(REFERENCE)
    volume = torch.zeros(REFERENCE.shape)
    for step in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(GeometryError, match="expected a positive central_step"):
            shift.jvp(shift.identity(), volume, torch.ones(3), central_step=step)


def test_a_flow_needs_a_lattice_that_carries_it() -> None:
    with pytest.raises(GeometryError, match="Velocity: expected at least 4 control points"):
        tf.Velocity(REFERENCE, VolumeGrid(shape=(3, 5, 5), spacing_mm=(1, 1, 1), center_mm=(0, 0, 0)))
    with pytest.raises(GeometryError, match="expected finer to be a whole number"):
        tf.Velocity.over(REFERENCE, (4, 4, 4), finer=0)
