"""Operators as those of SciPy and PyLops: flat vectors of NumPy instead of tensors with axes."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import DtypeError, DuotomoError

if TYPE_CHECKING:
    from duotomo.operators.linear import LinearOperator

_DTYPES = {torch.float32: np.float32, torch.float64: np.float64}


def to_scipy(operator: LinearOperator, *, dtype: torch.dtype, device: torch.device | str) -> Any:
    """Return a `scipy.sparse.linalg.LinearOperator` of shape (prod of range, prod of domain).

    See `LinearOperator.to_scipy`.
    """
    linalg = _library("to_scipy", "scipy.sparse.linalg", "scipy")
    flat = _Flat("to_scipy", operator, dtype, device)
    return linalg.LinearOperator(
        shape=flat.shape,
        dtype=flat.dtype,
        matvec=flat.forward,
        rmatvec=flat.transpose,
        matmat=flat.forward,
        rmatmat=flat.transpose,
    )


def to_pylops(operator: LinearOperator, *, dtype: torch.dtype, device: torch.device | str) -> Any:
    """Return a `pylops.LinearOperator` whose `dims` and `dimsd` are the domain and the range.

    See `LinearOperator.to_pylops`.
    """
    pylops = _library("to_pylops", "pylops", "pylops")
    flat = _Flat("to_pylops", operator, dtype, device)

    class FromDuotomo(pylops.LinearOperator):  # type: ignore[misc, name-defined]
        """An operator of duotomo on flat vectors."""

        def _matvec(self, x: NDArray[Any]) -> NDArray[Any]:
            return flat.forward(x)

        def _rmatvec(self, x: NDArray[Any]) -> NDArray[Any]:
            return flat.transpose(x)

    name = type(operator).__name__
    return FromDuotomo(dtype=flat.dtype, dims=operator.domain, dimsd=operator.range, name=name)


class _Flat:
    """An operator between flat arrays, or between the columns of matrices."""

    def __init__(
        self, where: str, operator: LinearOperator, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        if dtype not in _DTYPES:
            raise DtypeError(
                f"{where}: expected dtype torch.float32 or torch.float64; got {dtype}. Choose one of them."
            )
        self._operator, self._torch_dtype, self._device = operator, dtype, torch.device(device)
        self.dtype = np.dtype(_DTYPES[dtype])
        self.shape = (math.prod(operator.range), math.prod(operator.domain))

    def forward(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return `A x`; x: (domain,) or (domain, column)."""
        return self._apply(self._operator, x)

    def transpose(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return `A^T y`; y: (range,) or (range, column)."""
        return self._apply(self._operator.adjoint, y)

    def _apply(self, operator: LinearOperator, x: NDArray[Any]) -> NDArray[Any]:
        # Columns become a batch. A copy, since the arrays of a library may be read-only, or of another type.
        values = torch.from_numpy(np.array(x.T, dtype=self.dtype, order="C")).to(self._device)
        batch = x.shape[1:]
        with torch.no_grad():
            result = operator(values.reshape(*batch, *operator.domain))
        array: NDArray[Any] = result.reshape(*batch, -1).cpu().numpy()
        return array.T


def _library(where: str, module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DuotomoError(
            f"{where}: expected {package} to be installed; got: {error}. Run pip install {package}."
        ) from error
