"""Inputs made by hand: each lies about one thing, or tries to do one kind of harm."""

from __future__ import annotations

from collections.abc import Iterator

from tests.fuzz.escapes import escapes, pickles
from tests.fuzz.findings import findings
from tests.fuzz.geometries import geometries
from tests.fuzz.headers import HEADERS
from tests.fuzz.hostile import Hostile
from tests.fuzz.parts import dtypes, parts
from tests.fuzz.sizes import bombs, sizes
from tests.fuzz.texts import texts


def crafted() -> Iterator[Hostile]:
    """Give every input made by hand."""
    for make in (geometries, sizes, bombs, escapes, pickles, texts, parts, dtypes, findings, *HEADERS):
        yield from make()
