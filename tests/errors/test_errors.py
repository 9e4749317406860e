"""The checks pass what is right, and say what is wrong with the rest."""

import subprocess
import sys

import pytest
import torch

from duotomo import errors
from duotomo.errors import DeviceError, DtypeError, DuotomoError, GeometryError, NonFiniteError, ShapeError

SHAPE, AXES = (6, 14, 12), ("z", "y", "x")


def check_volume(tensor, *, batch_ok=True):
    errors.check_tensor("Projector", "volume", tensor, shape=SHAPE, axes=AXES, batch_ok=batch_ok)


@pytest.mark.parametrize("error", [GeometryError, ShapeError, DtypeError, DeviceError, NonFiniteError])
def test_every_error_is_a_duotomo_error_and_a_value_error(error):
    assert issubclass(error, DuotomoError)
    assert issubclass(error, ValueError)


def test_importing_the_errors_does_not_import_torch():
    # Read from its file: the package around it may import what it likes.
    code = f"import runpy, sys; runpy.run_path({errors.__file__!r}); raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [(), (1,), (2, 3)])
def test_a_right_tensor_passes_with_any_batch(batch, dtype):
    check_volume(torch.zeros(*batch, *SHAPE, dtype=dtype))


def test_a_tensor_that_needs_gradients_passes():
    check_volume(torch.zeros(SHAPE, requires_grad=True))


def test_something_else_than_a_tensor_is_refused():
    with pytest.raises(DtypeError, match=r"expected volume as a torch.Tensor; got list. .*torch.as_tensor"):
        check_volume([1.0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.bool, torch.complex64])
def test_another_dtype_is_refused(dtype):
    with pytest.raises(DtypeError, match=rf"got {dtype}. Convert it with .to\(torch.float32\)"):
        check_volume(torch.zeros(SHAPE, dtype=dtype))


@pytest.mark.parametrize(
    ("shape", "guess"),
    [
        ((12, 14, 6), r"Axes reversed\?"),
        ((14, 6, 12), r"Axes permuted\?"),
        ((6, 14, 13), "Pass a volume of that shape, or build Projector for this one"),
        ((2, 12, 14, 6), r"Axes reversed\?"),
    ],
)
def test_a_wrong_shape_is_refused_with_a_guess(shape, guess):
    got = r", ".join(map(str, shape))
    message = rf"Projector: expected volume \(z, y, x\) = \(6, 14, 12\); got \({got}\)\. {guess}"
    with pytest.raises(ShapeError, match=message):
        check_volume(torch.zeros(shape))


def test_too_few_axes_are_refused():
    with pytest.raises(ShapeError, match=r"Wrong number of axes: 2, needed at least 3\. Add the"):
        check_volume(torch.zeros(14, 12))


def test_a_batch_is_refused_where_none_is_taken():
    with pytest.raises(ShapeError, match=r"Wrong number of axes: 4, needed exactly 3\. Pass one item"):
        check_volume(torch.zeros(1, *SHAPE), batch_ok=False)


@pytest.mark.parametrize("values", [(float("nan"), 1.0), (float("inf"), 1.0), (float("inf"), -float("inf"))])
def test_a_value_that_is_not_finite_is_refused_and_found(values):
    volume = torch.zeros(SHAPE)
    volume[2, 3, 4], volume[5, 0, 1] = values
    n_bad = int((~torch.isfinite(volume)).sum())
    with pytest.raises(
        NonFiniteError, match=rf"got {n_bad} NaN .* of 1008 values, the first at index \(2, 3, 4\)"
    ):
        check_volume(volume)


def test_finite_values_whose_sum_overflows_pass():
    check_volume(torch.full(SHAPE, 3e38, dtype=torch.float32))


def test_the_same_device_and_dtype_pass():
    errors.check_same("Warp", "volume", torch.zeros(2), device="cpu", dtype=torch.float32)
    errors.check_same("Warp", "volume", torch.zeros(2), device=torch.device("cpu"), dtype=torch.float32)


@pytest.mark.parametrize("index", [0, 3])
def test_a_device_without_index_takes_every_index(index):
    class OnGpu:
        device = torch.device("cuda", index)
        dtype = torch.float32

    errors.check_same("Warp", "volume", OnGpu(), device="cuda", dtype=torch.float32)
    with pytest.raises(DeviceError, match=f"expected volume on device 'cuda:1'; got 'cuda:{index}'"):
        errors.check_same("Warp", "volume", OnGpu(), device="cuda:1", dtype=torch.float32)


def test_another_device_is_refused():
    with pytest.raises(
        DeviceError, match=r"Warp: expected volume on device 'meta'; got 'cpu'. Move it with .to\('meta'\)"
    ):
        errors.check_same("Warp", "volume", torch.zeros(2), device="meta", dtype=torch.float32)


def test_another_precision_is_refused():
    with pytest.raises(DtypeError, match=r"expected volume of torch.float64; got torch.float32. Use .to\("):
        errors.check_same("Warp", "volume", torch.zeros(2), device="cpu", dtype=torch.float64)
