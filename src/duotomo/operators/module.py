"""Operators as layers of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from duotomo.operators.linear import LinearOperator


class OperatorModule(torch.nn.Module):
    """A linear operator as a `torch.nn.Module`: a layer without weights, which networks can hold.

    Its `state_dict` is empty, so that it may come and go between checkpoints. The operator follows the device
    and the precision of its input, as all do.

    Parameters
    ----------
    operator : LinearOperator
        The operator; also made by `LinearOperator.to_module`.

    Examples
    --------
    >>> from duotomo.operators import Weighting
    >>> layer = OperatorModule(Weighting(torch.tensor([1.0, 2.0])))
    >>> layer(torch.tensor([3.0, 3.0])), layer.adjoint(torch.tensor([1.0, 1.0])), len(layer.state_dict())
    (tensor([3., 6.]), tensor([1., 2.]), 0)
    """

    def __init__(self, operator: LinearOperator) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `A x`.

        Parameters
        ----------
        x : torch.Tensor
            (..., *operator.domain).

        Returns
        -------
        torch.Tensor
            (..., *operator.range).
        """
        return self.operator(x)

    @property
    def adjoint(self) -> OperatorModule:
        """The module of the transpose."""
        return OperatorModule(self.operator.adjoint)

    def extra_repr(self) -> str:
        """Return what stands between the brackets of this module's `repr`.

        Returns
        -------
        str
            The operator, as it prints.
        """
        return repr(self.operator)
