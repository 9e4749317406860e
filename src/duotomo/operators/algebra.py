"""The algebra that builds larger operators from others: transposes, products, sums and multiples."""

from __future__ import annotations

import torch

from duotomo.errors import DuotomoError, ShapeError
from duotomo.operators.derivatives import Tensors
from duotomo.operators.linear import LinearOperator


class AdjointOperator(LinearOperator):
    """The transpose of an operator; the transpose of that is the operator itself."""

    def __init__(self, operator: LinearOperator) -> None:
        self.operator = operator
        self.domain, self.range = operator.range, operator.domain
        self.domain_axes, self.range_axes = operator.range_axes, operator.domain_axes
        self.domain_name, self.range_name = operator.range_name, operator.domain_name

    @property
    def tensors(self) -> Tensors:
        return self.operator.tensors

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.operator.transpose(x)

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.operator.forward(y)

    def tracked(self, x: torch.Tensor) -> torch.Tensor:
        return self.operator.tracked_transpose(x)

    def tracked_transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.operator.tracked(y)

    def pull_back(self, x: torch.Tensor, cotangent: torch.Tensor) -> Tensors:
        # <A^T x, c> = <A c, x>
        return self.operator.pull_back(cotangent, x)

    def along(self, x: torch.Tensor, tangents: Tensors) -> torch.Tensor:
        raise DuotomoError(
            f"{type(self.operator).__name__}: expected reverse mode for derivatives of the adjoint in the "
            f"parameters; got forward mode. Use backward(), torch.func.vjp or torch.func.jacrev."
        )

    @property
    def adjoint(self) -> LinearOperator:
        return self.operator


class _Composite(LinearOperator):
    """An operator made of others, whose derivatives are theirs."""

    def __init__(self, *parts: LinearOperator) -> None:
        inner, outer = parts[-1], parts[0]
        self._parts = parts
        self.domain, self.domain_axes, self.domain_name = inner.domain, inner.domain_axes, inner.domain_name
        self.range, self.range_axes, self.range_name = outer.range, outer.range_axes, outer.range_name

    @property
    def tensors(self) -> Tensors:
        return tuple(tensor for part in self._parts for tensor in part.tensors)


class ComposedOperator(_Composite):
    """`A B`."""

    def __init__(self, outer: LinearOperator, inner: LinearOperator) -> None:
        if outer.domain != inner.range:
            raise ShapeError(
                f"A @ B: expected the range of B to be the domain of A, {outer.domain}; got {inner.range} "
                f"from {inner!r}. Swap the operators, or build them for the same grids."
            )
        super().__init__(outer, inner)
        self.outer, self.inner = outer, inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer.forward(self.inner.forward(x).contiguous())

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        # (A B)^T = B^T A^T
        return self.inner.transpose(self.outer.transpose(y).contiguous())

    def tracked(self, x: torch.Tensor) -> torch.Tensor:
        return self.outer.tracked(self.inner.tracked(x))

    def tracked_transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.inner.tracked_transpose(self.outer.tracked_transpose(y))


class SumOperator(_Composite):
    """`A + B`."""

    def __init__(self, first: LinearOperator, second: LinearOperator) -> None:
        if (first.domain, first.range) != (second.domain, second.range):
            raise ShapeError(
                f"A + B: expected equal domains and ranges; got {first!r} and {second!r}. "
                f"Build both for the same grids."
            )
        super().__init__(first, second)
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first.forward(x) + self.second.forward(x)

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.first.transpose(y) + self.second.transpose(y)

    def tracked(self, x: torch.Tensor) -> torch.Tensor:
        return self.first.tracked(x) + self.second.tracked(x)

    def tracked_transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.first.tracked_transpose(y) + self.second.tracked_transpose(y)


class ScaledOperator(_Composite):
    """`c A`."""

    def __init__(self, factor: float, operator: LinearOperator) -> None:
        super().__init__(operator)
        self.factor, self.operator = factor, operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * self.operator.forward(x)

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.factor * self.operator.transpose(y)

    def tracked(self, x: torch.Tensor) -> torch.Tensor:
        return self.factor * self.operator.tracked(x)

    def tracked_transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.factor * self.operator.tracked_transpose(y)
