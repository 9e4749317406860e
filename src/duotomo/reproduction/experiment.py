"""What an experiment is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from duotomo.errors import DuotomoError
from duotomo.experiments.case import CaseMaker
from duotomo.experiments.paper import Published
from duotomo.experiments.plan import Level, Plan
from duotomo.experiments.way import Way


@dataclass(frozen=True, kw_only=True)
class SetUp:
    """An experiment at one level and size.

    about: the set-up in words and numbers, for the table. make: returns case 1, 2, ... n_cases. shown: the
    case whose volumes are kept and drawn. ways: what is compared on each case, in this order.
    """

    about: dict[str, Any]
    n_cases: int
    make: CaseMaker
    shown: int
    ways: tuple[Way, ...]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One experiment of the paper. paper: its numbers, where it prints any."""

    name: str
    title: str
    paper: Published | None
    levels: tuple[Level, ...]
    at: Callable[[Plan], SetUp]

    def set_up(self, plan: Plan) -> SetUp:
        """Return the experiment as planned; raise if it has no such level."""
        if plan.level not in self.levels:
            raise DuotomoError(
                f"{self.name}: expected one of the levels {', '.join(one.value for one in self.levels)}; got "
                f"{plan.level.value}. Choose one of them."
            )
        return self.at(plan)
