"""The numbers that figures are drawn from, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duotomo.errors import DuotomoError, ShapeError, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.report.style import Floats

if TYPE_CHECKING:
    import torch

Array: TypeAlias = "torch.Tensor | NDArray[Any]"
Item = TypeVar("Item")

AXES = ("z", "y", "x")


def floats(where: str, name: str, values: Array, *, shape: Sequence[int], axes: Sequence[str]) -> Floats:
    """Return a finite tensor or array of that shape as an array in memory, in its own precision.

    >>> floats("montage", "volume", np.zeros((2, 3)), shape=(2, 3), axes=("y", "x")).shape
    (2, 3)
    """
    import torch

    # A copy, since torch warns of an array that may not be written to.
    tensor = torch.from_numpy(np.array(values)) if isinstance(values, np.ndarray) else values
    check_tensor(where, name, tensor, shape=shape, axes=axes, batch_ok=False)
    array: Floats = tensor.detach().cpu().numpy()
    return array


def in_memory(values: Array) -> NDArray[Any]:
    """Return a tensor on any device, or an array, as an array."""
    return values if isinstance(values, np.ndarray) else np.asarray(values.detach().cpu())


def volumes(where: str, named: Mapping[str, Array], grid: VolumeGrid) -> dict[str, Floats]:
    """Return title -> array (z, y, x) of volumes on a grid."""
    return {
        title: floats(where, title, volume, shape=grid.shape, axes=AXES) for title, volume in named.items()
    }


def numbers(where: str, name: str, values: ArrayLike, *, n_axes: int, positive: bool = False) -> Floats:
    """Return finite numbers as an array of `n_axes` axes, none of them empty.

    positive: whether they will stand on a logarithmic axis.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != n_axes or array.size == 0:
        raise ShapeError(
            f"{where}: expected {name} with {n_axes} axes and at least one number; got shape {array.shape}. "
            f"Pass an array with {n_axes} axes."
        )
    if not np.isfinite(array).all():
        raise DuotomoError(
            f"{where}: expected {name} to be finite; got {int((~np.isfinite(array)).sum())} NaN or infinite "
            f"of {array.size}. Leave them out, and say so."
        )
    if positive and float(array.min()) <= 0:
        raise DuotomoError(
            f"{where}: expected {name} above 0 on a logarithmic axis; got {float(array.min())}. "
            f"Pass log_y=False, or leave it out."
        )
    return array


def some(where: str, what: str, named: Mapping[str, Item]) -> Mapping[str, Item]:
    """Return the mapping unless it is empty."""
    if not named:
        raise DuotomoError(f"{where}: expected at least one of {what}; got none. Pass title -> values.")
    return named


def window_of(where: str, window: tuple[float, float] | None, first: Floats) -> tuple[float, float]:
    """Return the values drawn black and white: those given, or else the least and largest of `first`."""
    if window is None:
        low, high = float(first.min()), float(first.max())
        return (low, high) if low < high else (low, low + 1.0)
    low, high = float(window[0]), float(window[1])
    if not (np.isfinite([low, high]).all() and low < high):
        raise DuotomoError(
            f"{where}: expected window (low, high) with low < high; got ({low}, {high}). "
            f"Give the values to draw black and white."
        )
    return low, high
