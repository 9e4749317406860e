"""An operator that counts how often it is applied."""

from __future__ import annotations

import torch

from duotomo.operators.linear import LinearOperator


class Counted(LinearOperator):
    """`A`, and how often it or its transpose was applied: the cost of a method, whatever machine runs it.

    Everything that is composed with this operator, its adjoint included, counts here.

    applications: one per item of the batch, forward or transposed.

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
        """Return the operator itself if it counts already, so that nothing is counted twice."""
        return operator if isinstance(operator, Counted) else cls(operator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.applications += x.shape[0]
        return self.operator.forward(x)

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        self.applications += y.shape[0]
        return self.operator.transpose(y)
