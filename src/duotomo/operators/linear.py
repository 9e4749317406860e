"""Linear operators that know their transpose, and the algebra that builds larger ones from them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, overload

import torch

from duotomo.errors import ShapeError, check_tensor, finite_check

Shape = tuple[int, ...]


class LinearOperator(ABC):
    """A linear map with its exact transpose.

    Inner products are Euclidean: `<A x, y> = <x, A.adjoint y>` to rounding. A new operator sets `domain` and
    `range`, with the names of their axes, and writes `forward` and `transpose` on (batch, *shape); calls
    accept any leading batch axes, check their input, and are differentiable to any order.
    """

    domain: Shape
    range: Shape
    domain_axes: tuple[str, ...]
    range_axes: tuple[str, ...]
    domain_name: str = "input"
    range_name: str = "output"

    @abstractmethod
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the operator: (batch, *domain), contiguous -> (batch, *range)."""

    @abstractmethod
    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        """Apply the transpose: (batch, *range), contiguous -> (batch, *domain)."""

    @property
    def adjoint(self) -> LinearOperator:
        """The transpose, as an operator."""
        return AdjointOperator(self)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        where = type(self).__name__
        check_tensor(where, self.domain_name, x, shape=self.domain, axes=self.domain_axes, finite=False)
        batch = x.shape[: x.ndim - len(self.domain)]
        flat = x.reshape(math.prod(batch), *self.domain)
        # Its answer is awaited last: meanwhile a GPU computes. Nothing is returned if it fails.
        check = finite_check(where, self.domain_name, x)
        tracked = torch.is_grad_enabled() and x.requires_grad
        result = _apply(flat, self) if tracked else self.forward(flat.contiguous())
        check()
        return result.reshape(*batch, *self.range)

    def to_scipy(self, *, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Any:
        """Return this as a `scipy.sparse.linalg.LinearOperator` on flat arrays, for SciPy's solvers.

        Its shape is (prod of range, prod of domain), in C order; `rmatvec` is the exact transpose. Each
        product copies its vector to `device`, computes there in `dtype`, and copies the result back.

        >>> from duotomo.operators import Weighting
        >>> W = Weighting(torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64))
        >>> W.to_scipy().matvec([1, 1, 1, 1]).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        from duotomo.operators.interop import to_scipy

        return to_scipy(self, dtype=dtype, device=device)

    def to_pylops(self, *, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Any:
        """Return this as a `pylops.LinearOperator`, for PyLops' solvers, priors and algebra.

        `dims` is the domain and `dimsd` the range; otherwise as `to_scipy`.
        """
        from duotomo.operators.interop import to_pylops

        return to_pylops(self, dtype=dtype, device=device)

    @overload
    def __matmul__(self, other: LinearOperator) -> LinearOperator: ...
    @overload
    def __matmul__(self, other: torch.Tensor) -> torch.Tensor: ...
    def __matmul__(self, other: LinearOperator | torch.Tensor) -> LinearOperator | torch.Tensor:
        if isinstance(other, LinearOperator):
            return ComposedOperator(self, other)
        return self(other)

    def __add__(self, other: LinearOperator) -> LinearOperator:
        return SumOperator(self, other) if isinstance(other, LinearOperator) else NotImplemented

    def __sub__(self, other: LinearOperator) -> LinearOperator:
        return SumOperator(self, -other) if isinstance(other, LinearOperator) else NotImplemented

    def __neg__(self) -> LinearOperator:
        return ScaledOperator(-1.0, self)

    def __rmul__(self, factor: float) -> LinearOperator:
        return ScaledOperator(float(factor), self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(domain={self.domain}, range={self.range})"


class _Apply(torch.autograd.Function):
    """`A x`, whose derivative is A and whose backward pass is therefore the transpose."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
        ctx.operator = operator
        return operator.forward(x.contiguous())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        # Through apply again, so that second derivatives exist.
        return _apply(gradients[0], ctx.operator.adjoint), None


def _apply(x: torch.Tensor, operator: LinearOperator) -> torch.Tensor:
    result: torch.Tensor = _Apply.apply(x, operator)  # type: ignore[no-untyped-call]
    return result


class AdjointOperator(LinearOperator):
    """The transpose of an operator; the transpose of that is the operator itself."""

    def __init__(self, operator: LinearOperator) -> None:
        self.operator = operator
        self.domain, self.range = operator.range, operator.domain
        self.domain_axes, self.range_axes = operator.range_axes, operator.domain_axes
        self.domain_name, self.range_name = operator.range_name, operator.domain_name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.operator.transpose(x)

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.operator.forward(y)

    @property
    def adjoint(self) -> LinearOperator:
        return self.operator


class ComposedOperator(LinearOperator):
    """`A B`."""

    def __init__(self, outer: LinearOperator, inner: LinearOperator) -> None:
        if outer.domain != inner.range:
            raise ShapeError(
                f"A @ B: expected the range of B to be the domain of A, {outer.domain}; got {inner.range} "
                f"from {inner!r}. Swap the operators, or build them for the same grids."
            )
        self.outer, self.inner = outer, inner
        self.domain, self.range = inner.domain, outer.range
        self.domain_axes, self.range_axes = inner.domain_axes, outer.range_axes
        self.domain_name, self.range_name = inner.domain_name, outer.range_name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer.forward(self.inner.forward(x).contiguous())

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        # (A B)^T = B^T A^T
        return self.inner.transpose(self.outer.transpose(y).contiguous())


class SumOperator(LinearOperator):
    """`A + B`."""

    def __init__(self, first: LinearOperator, second: LinearOperator) -> None:
        if (first.domain, first.range) != (second.domain, second.range):
            raise ShapeError(
                f"A + B: expected equal domains and ranges; got {first!r} and {second!r}. "
                f"Build both for the same grids."
            )
        self.first, self.second = first, second
        self.domain, self.range = first.domain, first.range
        self.domain_axes, self.range_axes = first.domain_axes, first.range_axes
        self.domain_name, self.range_name = first.domain_name, first.range_name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first.forward(x) + self.second.forward(x)

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.first.transpose(y) + self.second.transpose(y)


class ScaledOperator(LinearOperator):
    """`c A`."""

    def __init__(self, factor: float, operator: LinearOperator) -> None:
        self.factor, self.operator = factor, operator
        self.domain, self.range = operator.domain, operator.range
        self.domain_axes, self.range_axes = operator.domain_axes, operator.range_axes
        self.domain_name, self.range_name = operator.domain_name, operator.range_name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * self.operator.forward(x)

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.factor * self.operator.transpose(y)
