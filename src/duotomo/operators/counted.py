"""An operator that counts how often it is applied."""

from __future__ import annotations

import torch

from duotomo.operators.derivatives import Tensors, apply
from duotomo.operators.linear import LinearOperator


class Counted(LinearOperator):
    """`A`, and how often it or its transpose was applied: the cost of a method, whatever machine runs it.

    Everything that is composed with this operator, its adjoint and backward passes included, counts here.

    Parameters
    ----------
    operator : LinearOperator
        `A`.

    Attributes
    ----------
    applications : int
        One per item of the batch, forward or transposed.

    Examples
    --------
    >>> from duotomo.operators import Weighting
    >>> A = Counted(Weighting(torch.ones(3)))
    >>> _ = A.adjoint(A(torch.zeros(3))), A(torch.zeros(5, 3))
    >>> A.applications
    7
    """

    def __init__(self, operator: LinearOperator) -> None:
        self.operator = operator
        self.applications = 0
        self.domain, self.range = operator.domain, operator.range
        self.domain_axes, self.range_axes = operator.domain_axes, operator.range_axes
        self.domain_name, self.range_name = operator.domain_name, operator.range_name

    @classmethod
    def of(cls, operator: LinearOperator) -> Counted:
        """Return the operator itself if it counts already, so that nothing is counted twice.

        Parameters
        ----------
        operator : LinearOperator
            Any operator.

        Returns
        -------
        Counted
            The operator, counted.
        """
        return operator if isinstance(operator, Counted) else cls(operator)

    @property
    def tensors(self) -> Tensors:
        return self.operator.tensors

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.applications += x.shape[0]
        return self.operator.forward(x)

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        self.applications += y.shape[0]
        return self.operator.transpose(y)

    def tracked(self, x: torch.Tensor) -> torch.Tensor:
        if not self.tensors:
            return super().tracked(x)
        return apply(_Tally(self, self.range), self.operator.tracked(x))

    def tracked_transpose(self, y: torch.Tensor) -> torch.Tensor:
        if not self.tensors:
            return super().tracked_transpose(y)
        return apply(_Tally(self, self.domain), self.operator.tracked_transpose(y))


class _Tally(LinearOperator):
    """The identity after a counted operator: what passes it, forward or backward, counts there."""

    def __init__(self, counted: Counted, shape: tuple[int, ...]) -> None:
        self.counted = counted
        self.domain = self.range = shape
        self.domain_axes = self.range_axes = tuple(f"axis {i}" for i in range(len(shape)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.counted.applications += x.shape[0]
        # Not x itself: whoever changes the result in place would not find the way back.
        return x.clone()

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.forward(y)
