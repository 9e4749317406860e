"""The exceptions of duotomo, and the checks that raise them.

Every message says where it was raised, what was expected, what came, and what to do about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = [
    "DeviceError",
    "DtypeError",
    "DuotomoError",
    "GeometryError",
    "NonFiniteError",
    "ShapeError",
    "check_finite",
    "check_lengths",
    "check_same",
    "check_tensor",
    "finite_check",
    "shown",
]


def shown(text: str) -> str:
    """Return a text with everything escaped that a terminal would act on instead of showing it.

    Parameters
    ----------
    text : str
        Whatever a file may hold.

    Returns
    -------
    str
        The same, where it is printable; line breaks stay.

    Examples
    --------
    >>> print(shown("red: \\x1b[31m, back: \\u202e"))
    red: \\x1b[31m, back: \\u202e
    """
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)


class DuotomoError(ValueError):
    """Base of every error that duotomo raises on purpose.

    Its message may quote a file; what a terminal would act on is escaped.

    Examples
    --------
    >>> issubclass(GeometryError, DuotomoError) and issubclass(DuotomoError, ValueError)
    True
    """

    def __str__(self) -> str:
        return shown(super().__str__())


class GeometryError(DuotomoError):
    """A grid or an acquisition that cannot exist, or two that do not fit each other."""


class ShapeError(DuotomoError):
    """An array whose axes do not have the lengths that were expected."""


class DtypeError(DuotomoError):
    """Something that is not a floating-point tensor, or is one of another precision."""


class DeviceError(DuotomoError):
    """A tensor that lies on another device than the work to be done."""


class NonFiniteError(DuotomoError):
    """A tensor that holds NaN or infinity."""


def check_tensor(
    where: str,
    name: str,
    tensor: torch.Tensor,
    *,
    shape: Sequence[int],
    axes: Sequence[str],
    batch_ok: bool = True,
    finite: bool = True,
) -> None:
    """Raise unless a tensor is finite, floating-point, and has the shape expected.

    Parameters
    ----------
    where : str
        Function or class that checks, with which the message begins.
    name : str
        Name of the argument in the message.
    tensor : torch.Tensor
        The argument: `(..., *shape)` with `batch_ok`, exactly `shape` without it.
    shape : sequence of int
        Lengths of the trailing axes, one for each name in `axes`.
    axes : sequence of str
        Names of these axes in the message.
    batch_ok : bool
        Whether leading batch axes are allowed.
    finite : bool
        Whether values are checked for NaN and infinity as well.

    Raises
    ------
    DtypeError
        If this is no `torch.Tensor` of float32 or float64.
    ShapeError
        If an axis is missing, or has another length; or if there is a batch, and none is allowed.
    NonFiniteError
        If there is NaN or infinity, with `finite`.

    Examples
    --------
    >>> import torch
    >>> check_tensor("Projector", "volume", torch.zeros(2, 4, 5), shape=(4, 5), axes=("v", "u"))
    >>> check_tensor("Projector", "volume", torch.zeros(5, 4), shape=(4, 5), axes=("v", "u"))
    Traceback (most recent call last):
    duotomo.errors.ShapeError: Projector: expected volume (v, u) = (4, 5); got (5, 4). Axes reversed?
    """
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise DtypeError(
            f"{where}: expected {name} as a torch.Tensor; got {type(tensor).__name__}. "
            f"Convert it with torch.as_tensor(...)."
        )
    if tensor.dtype not in (torch.float32, torch.float64):
        raise DtypeError(
            f"{where}: expected {name} of torch.float32 or torch.float64; got {tensor.dtype}. "
            f"Convert it with .to(torch.float32)."
        )
    _check_shape(where, name, tuple(tensor.shape), tuple(shape), axes, batch_ok)
    if finite:
        check_finite(where, name, tensor)


def check_same(
    where: str, name: str, tensor: torch.Tensor, *, device: torch.device | str, dtype: torch.dtype
) -> None:
    """Raise unless a tensor has the device and the precision expected.

    Parameters
    ----------
    where, name : str
        As for `check_tensor`.
    tensor : torch.Tensor
        The argument, of any shape.
    device : torch.device or str
        Device expected; one without an index ("cuda") accepts every index.
    dtype : torch.dtype
        Precision expected.

    Raises
    ------
    DeviceError
        If the tensor lies on another device.
    DtypeError
        If it has another precision.

    Examples
    --------
    >>> import torch
    >>> check_same("Warp", "f", torch.zeros(3), device="cpu", dtype=torch.float64)
    Traceback (most recent call last):
    duotomo.errors.DtypeError: Warp: expected f of torch.float64; got torch.float32. Use .to(torch.float64).
    """
    import torch

    expected, got = torch.device(device), tensor.device
    if got.type != expected.type or (expected.index is not None and got.index != expected.index):
        raise DeviceError(
            f"{where}: expected {name} on device {str(expected)!r}; got {str(got)!r}. "
            f"Move it with .to({str(expected)!r})."
        )
    if tensor.dtype != dtype:
        raise DtypeError(f"{where}: expected {name} of {dtype}; got {tensor.dtype}. Use .to({dtype}).")


def _check_shape(
    where: str, name: str, got: tuple[int, ...], shape: tuple[int, ...], axes: Sequence[str], batch_ok: bool
) -> None:
    n_axes = len(shape)
    message = f"{where}: expected {name} ({', '.join(axes)}) = {shape}; got {got}."
    if len(got) < n_axes or (len(got) > n_axes and not batch_ok):
        needed = f"at least {n_axes}" if batch_ok else f"exactly {n_axes}"
        remedy = "Add the missing axes." if len(got) < n_axes else "Pass one item of the batch at a time."
        raise ShapeError(f"{message} Wrong number of axes: {len(got)}, needed {needed}. {remedy}")
    trailing = got[len(got) - n_axes :]
    if trailing == shape:
        return
    if trailing == shape[::-1]:
        remedy = "Axes reversed?"
    elif sorted(trailing) == sorted(shape):
        remedy = "Axes permuted?"
    else:
        remedy = f"Pass a {name} of that shape, or build {where} for this one."
    raise ShapeError(f"{message} {remedy}")


def check_finite(where: str, name: str, tensor: torch.Tensor) -> None:
    """Raise if a tensor holds NaN or infinity.

    Parameters
    ----------
    where, name, tensor
        As for `check_same`.

    Raises
    ------
    NonFiniteError
        If there is any; the message counts them, and gives the index of the first.

    Examples
    --------
    >>> import torch
    >>> check_finite("Projector", "volume", torch.tensor([0.0, 1.0]))
    """
    finite_check(where, name, tensor)()


def finite_check(where: str, name: str, tensor: torch.Tensor) -> Callable[[], None]:
    """Start to look for NaN and infinity, without waiting for the answer.

    On a GPU, kernels launched between this call and that of the function returned are not waited for.

    Parameters
    ----------
    where, name, tensor
        As for `check_same`.

    Returns
    -------
    callable
        Waits for the answer, and raises NonFiniteError if there is NaN or infinity.
    """
    import torch

    values = tensor.detach()
    # A NaN or an infinity always reaches the sum, which needs no mask as large as the tensor.
    # The converse fails: finite values can overflow the sum, so only the mask convicts.
    total = values.sum()
    if values.is_cuda:
        landed = torch.empty((), dtype=total.dtype, pin_memory=True)
        landed.copy_(total, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record(torch.cuda.current_stream(values.device))

    def finish() -> None:
        if values.is_cuda:
            arrived.synchronize()
        if math.isfinite((landed if values.is_cuda else total).item()):
            return
        bad = torch.nonzero(~torch.isfinite(values))
        if len(bad) == 0:
            return
        first = tuple(int(i) for i in bad[0])
        raise NonFiniteError(
            f"{where}: expected {name} to be finite; got {len(bad)} NaN or infinite of {values.numel()} "
            f"values, the first at index {first}. Mask or replace them, for example with "
            f"torch.nan_to_num(...)."
        )

    return finish


def check_lengths(owner: str, name: str, *lengths_mm: float) -> None:
    """Raise unless lengths are finite and positive.

    Parameters
    ----------
    owner, name : str
        Who asks, and what the lengths are.
    *lengths_mm : float
        One or more, in mm.

    Raises
    ------
    GeometryError
        If one is not finite and positive.
    """
    if not all(0 < length_mm < math.inf for length_mm in lengths_mm):
        came = lengths_mm if len(lengths_mm) > 1 else lengths_mm[0]
        raise GeometryError(f"{owner}: expected {name} > 0; got {came}. Give lengths in mm.")
