"""Linear operators that know their transpose."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, overload

import torch

from duotomo.errors import DuotomoError, ShapeError, check_tensor, finite_check
from duotomo.operators.derivatives import Tensors, apply, eagerly, is_tracked, plain

if TYPE_CHECKING:
    from duotomo.operators.module import OperatorModule

Shape = tuple[int, ...]


class LinearOperator(ABC):
    """A linear map with its exact transpose.

    Inner products are Euclidean: `<A x, y> = <x, A.adjoint y>` to rounding. A call accepts any leading batch
    axes, checks its input, works in the precision of its input, under `torch.autocast` too, and is
    differentiable to any order, in reverse and in forward mode, `torch.func` included.

    A new operator sets `domain` and `range`, with the names of their axes, and writes `forward` and
    `transpose` on (batch, *shape).

    Attributes
    ----------
    domain, range : tuple of int
        Shapes of x and of `A x`, without batch axes.
    domain_axes, range_axes : tuple of str
        Names of the axes, one for each length.
    domain_name, range_name : str
        What errors call x and `A x`.
    """

    domain: Shape
    range: Shape
    domain_axes: tuple[str, ...]
    range_axes: tuple[str, ...]
    domain_name: str = "input"
    range_name: str = "output"

    @abstractmethod
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the operator to a checked batch, without derivatives.

        Parameters
        ----------
        x : torch.Tensor
            (batch, *domain), contiguous.

        Returns
        -------
        torch.Tensor
            (batch, *range), a new tensor.
        """

    @abstractmethod
    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        """Apply the transpose to a checked batch, without derivatives.

        Parameters
        ----------
        y : torch.Tensor
            (batch, *range), contiguous.

        Returns
        -------
        torch.Tensor
            (batch, *domain), a new tensor.
        """

    @property
    def tensors(self) -> Tensors:
        """What the operator is made of and derivatives are asked for, such as the matrices of a warp.

        An operator that has any also writes `pull_back` and `along`.
        """
        return ()

    def pull_back(self, x: torch.Tensor, cotangent: torch.Tensor) -> Tensors:
        """Return the gradient of `<A x, cotangent>` in each of `tensors`.

        Parameters
        ----------
        x, cotangent : torch.Tensor
            (batch, *domain) and (batch, *range), contiguous.

        Returns
        -------
        tuple of torch.Tensor
            One of the shape of each tensor, summed over the batch.
        """
        raise NotImplementedError

    def along(self, x: torch.Tensor, tangents: Tensors) -> torch.Tensor:
        """Return the derivative of `A x` as `tensors` move along `tangents`.

        Parameters
        ----------
        x : torch.Tensor
            (batch, *domain), contiguous.
        tangents : tuple of torch.Tensor
            One of the shape of each tensor.

        Returns
        -------
        torch.Tensor
            (batch, *range).
        """
        raise NotImplementedError

    def tracked(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the operator to a checked batch, so that PyTorch knows the derivatives.

        Parameters
        ----------
        x : torch.Tensor
            (batch, *domain).

        Returns
        -------
        torch.Tensor
            (batch, *range).
        """
        return apply(self, x)

    def tracked_transpose(self, y: torch.Tensor) -> torch.Tensor:
        """Apply the transpose to a checked batch, so that PyTorch knows the derivatives.

        Parameters
        ----------
        y : torch.Tensor
            (batch, *range).

        Returns
        -------
        torch.Tensor
            (batch, *domain).
        """
        return apply(self.adjoint, y)

    @property
    def adjoint(self) -> LinearOperator:
        """The transpose, as an operator."""
        return AdjointOperator(self)

    @property
    def T(self) -> LinearOperator:
        """The same as `adjoint`."""
        return self.adjoint

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return eagerly(_checked)(self, x)

    def to_module(self) -> OperatorModule:
        """Return this as a `torch.nn.Module`, a layer without weights.

        Returns
        -------
        OperatorModule
            Its `adjoint` is the module of the transpose.

        Examples
        --------
        >>> from duotomo.operators import Weighting
        >>> layer = Weighting(torch.tensor([1.0, 2.0])).to_module()
        >>> torch.nn.Sequential(layer, torch.nn.ReLU())(torch.tensor([-1.0, 3.0]))
        tensor([0., 6.])
        """
        from duotomo.operators.module import OperatorModule

        return OperatorModule(self)

    def to_scipy(self, *, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Any:
        """Return this as a `scipy.sparse.linalg.LinearOperator` on flat arrays, for SciPy's solvers.

        Each product copies its vector to `device`, computes there in `dtype`, and copies the result back.

        Parameters
        ----------
        dtype : torch.dtype
            `torch.float32` or `torch.float64`.
        device : torch.device or str
            Where to compute.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator
            Of shape (prod of range, prod of domain), in C order; `rmatvec` is the exact transpose.

        Raises
        ------
        DtypeError
            If `dtype` is neither of the two.
        DuotomoError
            If SciPy is not installed.

        Examples
        --------
        >>> from duotomo.operators import Weighting
        >>> W = Weighting(torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64))
        >>> W.to_scipy().matvec([1, 1, 1, 1]).tolist()
        [1.0, 2.0, 3.0, 4.0]
        """
        from duotomo.operators.interop import to_scipy

        return to_scipy(self, dtype=dtype, device=device)

    def to_pylops(self, *, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Any:
        """Return this as a `pylops.LinearOperator`, for PyLops' solvers, priors and algebra.

        Parameters
        ----------
        dtype, device
            As in `to_scipy`.

        Returns
        -------
        pylops.LinearOperator
            `dims` is the domain and `dimsd` the range.

        Raises
        ------
        DtypeError, DuotomoError
            As in `to_scipy`.
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
        return self + -other if isinstance(other, LinearOperator) else NotImplemented

    def __neg__(self) -> LinearOperator:
        return -1.0 * self

    def __rmul__(self, factor: float) -> LinearOperator:
        return ScaledOperator(float(factor), self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(domain={self.domain}, range={self.range})"


def _checked(operator: LinearOperator, x: torch.Tensor) -> torch.Tensor:
    """Return `A x` for a tensor with any leading batch axes, once it is found fit."""
    where = type(operator).__name__
    check_tensor(
        where, operator.domain_name, x, shape=operator.domain, axes=operator.domain_axes, finite=False
    )
    batch = x.shape[: x.ndim - len(operator.domain)]
    # Its answer is awaited last: meanwhile a GPU computes. Nothing is returned if it fails.
    check = finite_check(where, operator.domain_name, plain(x))
    flat = x.reshape(math.prod(batch), *operator.domain)
    tracked = operator.tensors or is_tracked(x)
    result = operator.tracked(flat) if tracked else operator.forward(flat.contiguous())
    check()
    return result.reshape(*batch, *operator.range)


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
