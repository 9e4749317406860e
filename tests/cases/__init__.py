"""Every instance that a battery of laws runs over, listed once."""

from tests.cases.operators import OperatorCase, operators
from tests.cases.transforms import TransformCase, transforms

__all__ = ["OperatorCase", "TransformCase", "operators", "transforms"]
