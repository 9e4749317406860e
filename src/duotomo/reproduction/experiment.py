"""What an experiment is, and what the paper prints of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duotomo.errors import DuotomoError
from duotomo.reproduction.case import CaseMaker
from duotomo.reproduction.compared_method import ComparedMethod
from duotomo.reproduction.plan import DataLevel, Plan


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the paper says of one data set.

    relative_error, mse: by method; MSE in the units of its images. ratio: of the relative errors, or of the
    MSE where it gives no other, sequential over `better`.
    """

    better: str
    ratio: float
    relative_error: dict[str, float]
    mse: dict[str, float]
    remark: str = ""

    @classmethod
    def of(
        cls,
        ratio: float,
        relative_error: tuple[float, float, float],
        mse: tuple[float, float, float],
        remark: str = "",
    ) -> Published:
        """Return numbers of the initial volume, the sequential and the simultaneous method."""
        names = ("initial", "sequential", "simultaneous")
        errors, squares = (dict(zip(names, values, strict=True)) for values in (relative_error, mse))
        return cls(better=names[-1], ratio=ratio, relative_error=errors, mse=squares, remark=remark)


@dataclass(frozen=True, kw_only=True)
class SetUp:
    """An experiment at one level and size.

    Parameters
    ----------
    about : dict
        The set-up in words and numbers, for the table.
    n_cases : int
        Cases that it has.
    make : callable
        Returns case 1, 2, ... n_cases.
    shown : int
        The case whose volumes are kept and drawn.
    methods : tuple of ComparedMethod
        What is compared on each case, in this order.
    """

    about: dict[str, Any]
    n_cases: int
    make: CaseMaker
    shown: int
    methods: tuple[ComparedMethod, ...]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One experiment of the paper.

    Parameters
    ----------
    name : str
        Of its folder, and on the command line.
    title : str
        In tables and on the page.
    at : callable
        Returns its `SetUp` for a `Plan`.
    paper : Published, optional
        The paper's numbers, where it prints any.
    levels : tuple of DataLevel
        That it has.
    """

    name: str
    title: str
    at: Callable[[Plan], SetUp]
    paper: Published | None = None
    levels: tuple[DataLevel, ...] = tuple(DataLevel)

    def set_up(self, plan: Plan) -> SetUp:
        """Return the experiment as planned.

        Parameters
        ----------
        plan : Plan
            Level, size, device and data.

        Returns
        -------
        SetUp
            What to make, and what to compare.

        Raises
        ------
        DuotomoError
            If it has no such level, or data are missing.
        """
        if plan.level not in self.levels:
            raise DuotomoError(
                f"{self.name}: expected one of the levels {', '.join(one.value for one in self.levels)}; got "
                f"{plan.level.value}. Choose one of them."
            )
        return self.at(plan)
