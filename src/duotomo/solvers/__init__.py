"""Solvers: frozen settings with a `solve`, which returns a `Solution` whatever happened."""

from duotomo.solvers.cgls import Cgls
from duotomo.solvers.solution import Solution, Status, Step

__all__ = ["Cgls", "Solution", "Status", "Step"]
