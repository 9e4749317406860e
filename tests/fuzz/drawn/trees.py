"""JSON, changed node by node: other types, extreme numbers, parts missing, repeated or nested."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.fuzz.drawn.tokens import NUMBERS, PATHS, WORDS

_DIGITS = "@digits@"
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 0.5, -0.0, 2**31, 2**53 + 1, 2**63, 2**64, 10**400, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf"), _DIGITS, "", "x", "1", [], {}, [[]], [None], {"a": 1}),
    [0] * 1000,
)  # fmt: skip


def nodes(tree: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a tree."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else list(range(len(one))) if isinstance(one, list) else []
        found += [(one, key) for key in keys]
        waiting += [one[key] for key in keys]
    return found


def _value(random: Random) -> Any:
    return random.choice((random.choice(VALUES), random.choice((*WORDS, *PATHS, *NUMBERS))))


def change(tree: Any, random: Random) -> None:
    """Change one node of a tree in place."""
    found = nodes(tree)
    if not found:
        return
    # Few nodes near the root decide more than all the numbers below them.
    shallow = [pair for pair in found if pair[0] is tree]
    parent, key = random.choice(shallow if shallow and random.random() < 0.4 else found)
    what = random.randrange(8)
    if what < 4:
        parent[key] = _value(random)
    elif what == 4:
        del parent[key]
    elif what == 5:
        parent[key] = [parent[key]] * random.choice((1, 2, 3, 400))
    elif what == 6 and isinstance(parent, dict):
        parent[random.choice((*WORDS[2:8], *PATHS))] = parent.pop(key)
    else:
        other, place = random.choice(found)
        # A copy: a tree that holds itself has no JSON.
        parent[key] = json.loads(json.dumps(other[place])) if _still(other, place) else _value(random)


def _still(parent: Any, key: Any) -> bool:
    return key in parent if isinstance(parent, dict) else isinstance(key, int) and key < len(parent)


def written(tree: Any, *, indent: int | None = 1) -> str:
    """Return a tree as JSON, in which whole numbers may have 5,000 digits."""
    return json.dumps(tree, indent=indent).replace(json.dumps(_DIGITS), "1" * 5000)


def changed(text: str, random: Random) -> str:
    """Return JSON after one to three changes."""
    tree = json.loads(text)
    for _ in range(random.choice((1, 1, 2, 3))):
        change(tree, random)
    return written(tree)
