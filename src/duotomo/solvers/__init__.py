"""Solvers: frozen settings with a `minimise`, which returns a `Solution` whatever happened."""

from duotomo.solvers.cgls import Cgls
from duotomo.solvers.gauss_newton import GaussNewton
from duotomo.solvers.history import History
from duotomo.solvers.lbfgs import Lbfgs
from duotomo.solvers.levenberg_marquardt import LevenbergMarquardt
from duotomo.solvers.nonlinear_cg import NonlinearCg, hager_zhang, polak_ribiere
from duotomo.solvers.primal_dual import PrimalDual
from duotomo.solvers.solution import Solution, Status, Step
from duotomo.solvers.solver import Solver

__all__ = [
    "Cgls",
    "GaussNewton",
    "History",
    "Lbfgs",
    "LevenbergMarquardt",
    "NonlinearCg",
    "PrimalDual",
    "Solution",
    "Solver",
    "Status",
    "Step",
    "hager_zhang",
    "polak_ribiere",
]
