"""The inputs that `make test` tries: every damage of every sample, and all that were made by hand."""

from __future__ import annotations

from functools import cache

from tests.fuzz.crafted import crafted
from tests.fuzz.damage import damaged
from tests.fuzz.drawn.inputs import SEED, drawn_input
from tests.fuzz.headers import crashes
from tests.fuzz.hostile import Hostile


@cache
def fixed() -> dict[str, Hostile]:
    """Return them by what `str` says of them."""
    return {str(one): one for one in (*damaged(SEED), *crafted(), *crashes())}


def named(name: str) -> Hostile:
    """Return the input of a name: one of these, or one that is drawn."""
    return fixed().get(name) or drawn_input(name)
