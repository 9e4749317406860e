"""Methods that override one of a base class take from its docstring what theirs leaves out."""

from __future__ import annotations

import re
from typing import Any

import griffe

HEADING = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$", flags=re.MULTILINE)
HANDED_DOWN = ("Parameters", "Returns", "Yields", "Raises")


class Inherited(griffe.Extension):
    """Completes the docstrings of a package's classes once all of it is loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Complete those of all modules."""
        complete_all(pkg)


def complete_all(scope: griffe.Module | griffe.Class) -> None:
    """Complete the docstrings of the classes in a module or a class, at any depth."""
    for member in scope.members.values():
        if member.is_alias:
            continue
        if isinstance(scope, griffe.Class) and (member.is_function or "property" in member.labels):
            complete(member, scope)
        elif member.is_module or member.is_class:
            complete_all(member)


def complete(member: Any, owner: griffe.Class) -> None:
    """Give one method the nearest docstring above it, or the parts of it that its own has not."""
    bases = (base.members.get(member.name) for base in owner.mro())
    above = next((one for one in bases if one is not None and one.docstring is not None), None)
    if above is None:
        return
    complete(above, above.parent)
    if member.docstring is None:
        taken = above.docstring
        member.docstring = griffe.Docstring(
            taken.value, parent=member, parser=taken.parser, parser_options=taken.parser_options
        )
    elif member.is_function and names(member) == names(above):
        member.docstring.value = merged(member.docstring.value, above.docstring.value)


def names(function: Any) -> list[str]:
    """Return the names of a function's parameters."""
    return [one.name for one in function.parameters] if function.is_function else []


def split(text: str) -> dict[str, str]:
    """Return the parts of a docstring by their headings; what stands before the first has none."""
    pieces = HEADING.split(text)
    return {"": pieces[0]} | dict(zip(pieces[1::2], pieces[2::2], strict=True))


def merged(own: str, above: str) -> str:
    """Return a docstring with the parts that are handed down and that it has not, in numpydoc's order."""
    mine, theirs = split(own), split(above)
    parts = {name: theirs[name] for name in HANDED_DOWN if name in theirs} | mine
    order = ["", *HANDED_DOWN, *(name for name in mine if name and name not in HANDED_DOWN)]
    blocks = (f"{name}\n{'-' * len(name)}\n{parts[name].strip()}" for name in order[1:] if name in parts)
    return "\n\n".join([parts[""].strip(), *blocks])
