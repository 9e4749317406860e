"""Every instance that a battery of laws runs over, listed once."""

from tests.cases.operators import OperatorCase, operators

__all__ = ["OperatorCase", "operators"]
