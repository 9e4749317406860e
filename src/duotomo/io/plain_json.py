"""JSON as the standard has it, which knows no NaN and no infinity."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def json_text(
    content: object, *, indent: int | None = None, default: Callable[[Any], Any] | None = None
) -> str:
    """Return content as JSON, with null for numbers that are not finite: other programs refuse NaN.

    indent, default: as for `json.dumps`.

    >>> json_text({"noise": [0.5, float("nan")]})
    '{"noise": [0.5, null]}'
    """
    try:
        return json.dumps(content, indent=indent, default=default, allow_nan=False)
    except ValueError:
        plain = json.loads(json.dumps(content, default=default), parse_constant=lambda _: None)
        return json.dumps(plain, indent=indent)
