"""Options of a command as TOML, as its file of settings has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def settings_text(command: str, values: Mapping[str, Any], *, remarks: Sequence[str] = ()) -> str:
    """Return the TOML of a command's file of settings; what is None is left out.

    remarks: lines of comment at the top.

    >>> print(settings_text("joint", {"method": "iterative", "thickness": None}, remarks=["Once more."]))
    # Once more.
    [joint]
    method = "iterative"
    <BLANKLINE>
    """
    lines = [f"# {remark}" for remark in remarks]
    lines += [f"[{command}]", *(f"{n} = {_toml(v)}" for n, v in values.items() if v is not None)]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    # A JSON string is a TOML string, but for the one control character that JSON lets stand.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
