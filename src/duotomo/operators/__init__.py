"""Linear operators: projector, warps, weightings, gradients, and the algebra that composes them."""

from duotomo.operators.adjoint_gap import adjoint_gap
from duotomo.operators.gradient import Gradient
from duotomo.operators.linear import LinearOperator
from duotomo.operators.module import OperatorModule
from duotomo.operators.projector import Projector
from duotomo.operators.spline_basis import SplineBasis
from duotomo.operators.warp import Warp
from duotomo.operators.weighting import Weighting

__all__ = [
    "Gradient",
    "LinearOperator",
    "OperatorModule",
    "Projector",
    "SplineBasis",
    "Warp",
    "Weighting",
    "adjoint_gap",
]
