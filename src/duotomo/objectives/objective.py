"""Objective functions: value, gradient and curvature as functions of one tensor."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch

from duotomo.errors import DuotomoError, ShapeError, check_tensor
from duotomo.objectives.norms import Scalar
from duotomo.operators.counted import Counted

Product = Callable[[torch.Tensor], torch.Tensor]
"""A symmetric positive semidefinite matrix, as the function `d -> H d`."""


class Objective(ABC):
    """Function `F(x)` to minimise, with its gradient and, for most, a curvature.

    A new objective sets `shape`, and implements `value_and_gradient`; `value` where it is cheaper alone; and
    `curvature`. Objectives add, and a number times an objective is one: `misfit + 0.1 * prior`.

    A value may be infinite, where F is not defined: a line search then backs off. Gradients and curvature
    products are new tensors, which the caller may overwrite. Autograd does not record through them: pass x
    detached.

    Attributes
    ----------
    shape : tuple of int
        Shape of x.
    axes : tuple of str or None
        Names of the axes of x, for messages.
    operators : tuple of Counted
        Operators that count the cost; one that several objectives share counts once.

    Examples
    --------
    >>> class Parabola(Objective):
    ...     shape = (2,)
    ...     def value_and_gradient(self, x):
    ...         return 0.5 * float(x @ x), x.clone()
    >>> (Parabola() + 3.0 * Parabola()).value_and_gradient(torch.tensor([1.0, 2.0]))
    (10.0, tensor([4., 8.]))
    """

    shape: tuple[int, ...]
    axes: tuple[str, ...] | None = None
    operators: tuple[Counted, ...] = ()

    @abstractmethod
    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        """Return `F(x)` and its gradient.

        Parameters
        ----------
        x : torch.Tensor
            The argument, of `shape`, detached.

        Returns
        -------
        value : float
            `F(x)`; infinite where F is not defined.
        gradient : torch.Tensor
            A new tensor with the shape, precision and device of x.
        """

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        """Return what `value_and_gradient` does, without waiting for a GPU where that can be left to others.

        Parameters
        ----------
        x : torch.Tensor
            The argument, of `shape`, detached.

        Returns
        -------
        value : float or torch.Tensor
            `F(x)`; on a GPU perhaps a float64 tensor without axes.
        gradient : torch.Tensor
            A new tensor.
        """
        return self.value_and_gradient(x)

    def add_gradient(self, x: torch.Tensor, total: torch.Tensor, factor: float = 1.0) -> Scalar:
        """Add `factor` times the gradient to `total`, and return `F(x)` as `evaluate` does.

        Parameters
        ----------
        x : torch.Tensor
            The argument, of `shape`, detached.
        total : torch.Tensor
            Of `shape`, contiguous; what is added to.
        factor : float
            Of the gradient, not of the value.

        Returns
        -------
        float or torch.Tensor
            `F(x)`.
        """
        value, gradient = self.evaluate(x)
        total += gradient if factor == 1 else gradient.mul_(factor)
        return value

    def value(self, x: torch.Tensor) -> float:
        """Return `F(x)`.

        Parameters
        ----------
        x
            As for `value_and_gradient`.

        Returns
        -------
        float
            `F(x)`; infinite where F is not defined.
        """
        return self.value_and_gradient(x)[0]

    def curvature(self, x: torch.Tensor) -> Product:
        """Return the product with a symmetric positive semidefinite approximation H of the Hessian at x.

        Exact for quadratics, that of Gauss-Newton for least squares of nonlinear models, a majorant for total
        variation.

        Parameters
        ----------
        x : torch.Tensor
            Where it is taken, of `shape`, detached.

        Returns
        -------
        Product
            `d -> H d`, both of the shape of x.

        Raises
        ------
        DuotomoError
            If the objective has no curvature.
        """
        where = type(self).__name__
        raise DuotomoError(
            f"{where}: expected an objective with a curvature; got one that has values and gradients only. "
            f"Use a solver that needs no curvature, or write {where}.curvature."
        )

    @property
    def applications(self) -> int:
        """Projector applications so far: A or its adjoint, of one visit each."""
        return sum({id(operator): operator.applications for operator in self.operators}.values())

    def check(self, x: torch.Tensor, name: str = "x") -> None:
        """Raise unless x is a floating-point tensor of this objective's shape; its values are not checked.

        Parameters
        ----------
        x : torch.Tensor
            The argument, of `shape`.
        name : str
            Its name in the message.

        Raises
        ------
        ShapeError, DtypeError
            If x has another shape, or no floating-point numbers.
        """
        axes = self.axes or tuple(f"axis {i}" for i in range(len(self.shape)))
        where = type(self).__name__
        check_tensor(where, name, x, shape=self.shape, axes=axes, batch_ok=False, finite=False)

    def __add__(self, other: Objective) -> Objective:
        return Sum(self, other) if isinstance(other, Objective) else NotImplemented

    def __rmul__(self, factor: float) -> Objective:
        return Weighted(factor, self) if isinstance(factor, int | float) else NotImplemented

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"


class Pending(Objective):
    """An objective that writes `evaluate`, and whose values others may wait for later."""

    @abstractmethod
    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]: ...

    def value_and_gradient(self, x: torch.Tensor) -> tuple[float, torch.Tensor]:
        value, gradient = self.evaluate(x)
        return float(value), gradient


class Sum(Pending):
    """Sum of objectives, `F_1 + F_2 + ...`.

    Parameters
    ----------
    *objectives : Objective
        One or more, of one shape.

    Attributes
    ----------
    terms : sequence of Objective
        The objectives, with sums among them expanded.

    Raises
    ------
    ShapeError
        If there are none, or their shapes differ.
    """

    def __init__(self, *objectives: Objective) -> None:
        if not objectives:
            raise ShapeError("Sum: expected at least one objective; got none. Pass one or more.")
        self.terms: Sequence[Objective] = tuple(
            term for part in objectives for term in (part.terms if isinstance(part, Sum) else (part,))
        )
        shapes = [term.shape for term in self.terms]
        if any(shape != shapes[0] for shape in shapes):
            raise ShapeError(
                f"Sum: expected objectives of one shape; got {shapes}. Build all of them for the same x."
            )
        self.shape, self.axes = self.terms[0].shape, self.terms[0].axes
        self.operators = tuple(operator for term in self.terms for operator in term.operators)

    def value(self, x: torch.Tensor) -> float:
        return sum(term.value(x) for term in self.terms)

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        value, gradient = self.terms[0].evaluate(x)
        for term in self.terms[1:]:
            value = value + term.add_gradient(x, gradient)
        return value, gradient

    def add_gradient(self, x: torch.Tensor, total: torch.Tensor, factor: float = 1.0) -> Scalar:
        values = [term.add_gradient(x, total, factor) for term in self.terms]
        return sum(values[1:], start=values[0])

    def curvature(self, x: torch.Tensor) -> Product:
        products = [term.curvature(x) for term in self.terms]

        def product(d: torch.Tensor) -> torch.Tensor:
            total = products[0](d)
            for other in products[1:]:
                total += other(d)
            return total

        return product


class Weighted(Pending):
    """Objective times a number, `c F` with `c >= 0`.

    Parameters
    ----------
    factor : float
        c; not negative, which would turn a minimum into a maximum.
    objective : Objective
        F.

    Raises
    ------
    DuotomoError
        If the factor is negative or not finite.
    """

    def __init__(self, factor: float, objective: Objective) -> None:
        if not 0 <= factor < math.inf:
            raise DuotomoError(
                f"Weighted: expected a finite factor >= 0; got {factor}. "
                f"Objectives are minimised; write the sign into the objective."
            )
        self.factor, self.objective = float(factor), objective
        self.shape, self.axes, self.operators = objective.shape, objective.axes, objective.operators

    def value(self, x: torch.Tensor) -> float:
        return float(self._scaled(self.objective.value(x)))

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        value, gradient = self.objective.evaluate(x)
        return self._scaled(value), gradient.mul_(self.factor)

    def add_gradient(self, x: torch.Tensor, total: torch.Tensor, factor: float = 1.0) -> Scalar:
        return self._scaled(self.objective.add_gradient(x, total, factor * self.factor))

    def curvature(self, x: torch.Tensor) -> Product:
        product = self.objective.curvature(x)
        return lambda d: product(d).mul_(self.factor)

    def _scaled(self, value: Scalar) -> Scalar:
        # Zero times infinity is NaN, but F is as undefined there as before.
        return value if isinstance(value, float) and value == math.inf else self.factor * value
