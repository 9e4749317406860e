"""JSON whose last key is the SHA-256 of its own bytes, with zeros for these 64 digits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from duotomo.io.plain_json import json_text

_BLANK = "0" * 64
_END = re.compile(rb'"sha256": "([0-9a-f]{64})"\n}\n\Z')
"""How JSON with its own digest ends."""


def with_digest(content: Mapping[str, Any], *, default: Callable[[Any], Any] | None = None) -> str:
    """Return content as JSON that ends with its own digest; default: as for `json.dumps`.

    >>> text = with_digest({"n": 1})
    >>> check_digest(text.encode())
    >>> text[:10]
    '{\\n "n": 1,'
    """
    text = json_text({**content, "sha256": _BLANK}, indent=1, default=default) + "\n"
    start, _, end = text.rpartition(_BLANK)
    return start + hashlib.sha256(text.encode()).hexdigest() + end


def check_digest(data: bytes, *, needed: bool = True) -> None:
    """Raise ValueError unless JSON ends with its own digest; needed: or with none."""
    end = _END.search(data)
    if end is None:
        if needed:
            raise ValueError("no SHA-256 of itself at its end")
        return
    start, stop = end.span(1)
    blank = data[:start] + _BLANK.encode() + data[stop:]
    if hashlib.sha256(blank).hexdigest() != end[1].decode():
        raise ValueError("another SHA-256 than at its end")
