"""Averaging neighbouring detector pixels, the data's side of `Acquisition.bin`."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from duotomo.errors import ShapeError
from duotomo.geometry._values import factors


class _Array(Protocol):
    """What numpy arrays and torch tensors share, as far as binning needs it."""

    @property
    def shape(self) -> Any: ...
    def __getitem__(self, index: Any, /) -> Any: ...


ArrayT = TypeVar("ArrayT", bound=_Array)


def binned_pixels(n_pixels: int, factor: int) -> tuple[int, int]:
    """Return how many pixels remain along an axis, and how many fine pixels each of them unites.

    A remainder at the high end is left out; an axis shorter than the factor becomes one pixel that unites
    all.

    >>> binned_pixels(7, 2), binned_pixels(3, 4)
    ((3, 2), (1, 3))
    """
    per_bin = min(factor, n_pixels)
    return n_pixels // per_bin, per_bin


def bin_projections(projections: ArrayT, factor: int | tuple[int, int]) -> ArrayT:
    """Average blocks of pixels: `q[..., i, j] = mean(p[..., i f:(i+1) f, j f:(j+1) f])`."""
    f_v, f_u = factors("bin_projections", factor, ("v", "u"))
    shape = tuple(projections.shape)
    if len(shape) < 2:
        raise ShapeError(
            f"bin_projections: expected projections (..., v, u); got shape {shape}. Add the missing axes."
        )
    *leading, n_v, n_u = shape
    n_v, f_v = binned_pixels(n_v, f_v)
    n_u, f_u = binned_pixels(n_u, f_u)
    blocks = projections[..., : n_v * f_v, : n_u * f_u].reshape((*leading, n_v, f_v, n_u, f_u))
    binned: ArrayT = blocks.mean((-3, -1))
    return binned
