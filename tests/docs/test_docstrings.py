"""Public names are described as numpydoc asks: a summary, every parameter, and what is returned.

Docstrings are read as the site reads them, with griffe: overriding methods take from base classes what they
leave out. One package alone: `pytest tests/docs/test_docstrings.py -k geometry`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.extensions.inherited import merged

griffe = pytest.importorskip("griffe")

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PRIVATE = {"kernels", "cli", "_lazy", "notebook"}
"""Parts that users do not call: loops, commands (they have --help), imports, views in notebooks."""
MODULES = {path.stem for path in (SOURCE / "duotomo").glob("[a-z]*.py")}
FOLDERS = {path.parent.name for path in (SOURCE / "duotomo").glob("*/__init__.py")}
PACKAGES = sorted((MODULES | FOLDERS | {"io.dicom"}) - PRIVATE)
NOT_YET: set[str] = set()
"""Packages whose docstrings are not numpydoc yet; a package that is done is taken out, for good."""


@functools.cache
def library() -> Any:
    """Return duotomo as its source describes it."""
    extensions = griffe.load_extensions(str(ROOT / "docs" / "extensions" / "inherited.py"))
    return griffe.load("duotomo", search_paths=[str(SOURCE)], docstring_parser="numpy", extensions=extensions)


def public(package: str) -> dict[str, Any]:
    """Return what a package has in `__all__`, and `duotomo.errors`, which has none, defines."""
    module = library()[package]
    names = [str(name) for name in module.exports or ()] or [
        name for name, member in module.members.items() if not name.startswith("_") and not member.is_alias
    ]
    found = {name: module.members.get(name) for name in names}
    for name, member in found.items():
        # A module of the same name hides what it defines.
        if member is not None and member.is_module:
            found[name] = member.members.get(name)
    return found


def sections(docstring: Any) -> dict[str, list[Any]]:
    """Return the parts of a docstring by kind: text, parameters, returns and so on."""
    found: dict[str, list[Any]] = {}
    for section in docstring.parse("numpy", warnings=False):
        found.setdefault(section.kind.value, []).extend(
            [section.value] if isinstance(section.value, str) else section.value
        )
    return found


def faults_of_parameters(obj: Any, described: list[Any]) -> Iterator[str]:
    """Compare the parameters of a signature with those that the docstring has."""
    wanted = [f"{star(one)}{one.name}" for one in obj.parameters if one.name not in ("self", "cls")]
    given = [one.name for one in described]
    yield from (f"parameter {name} is not described" for name in wanted if name not in given)
    yield from (f"parameter {name} is not in the signature" for name in given if name not in wanted)
    yield from (
        f"parameter {one.name} has no description" for one in described if not one.description.strip()
    )
    if set(wanted) == set(given) and wanted != given:
        yield f"parameters are in another order than {', '.join(wanted)}"


def star(parameter: Any) -> str:
    """Return the stars of a parameter that takes several arguments."""
    return {"variadic positional": "*", "variadic keyword": "**"}.get(parameter.kind.value, "")


def faults_of_function(function: Any, parts: dict[str, list[Any]]) -> Iterator[str]:
    """Yield what is missing from the docstring of a function or a method."""
    yield from faults_of_parameters(function, parts.get("parameters", []))
    returned = parts.get("returns", []) + parts.get("yields", [])
    if str(function.returns) not in ("None", "NoReturn") and not returned:
        yield f"what is returned ({function.returns}) is not described"
    if any(not one.description.strip() for one in returned):
        yield "what is returned has no description"


def faults(obj: Any) -> Iterator[str]:
    """Yield what the docstring of an object, and of a class's public members, lacks."""
    docstring = obj.docstring
    # A figure that is written takes what the one that is drawn takes.
    drawn = obj.parent.members.get(f"draw_{obj.name}") if obj.is_attribute and obj.parent else None
    if docstring is None and drawn is not None:
        yield from faults(drawn)
        return
    if docstring is None:
        yield f"{obj.path}: no docstring"
        return
    parts = sections(docstring)
    found: list[str] = []
    summary = "".join(parts.get("text", [])).strip().partition("\n\n")[0]
    if not summary.endswith((".", ":", "?", "```")):
        found.append(f"no summary that ends with a full stop; got {summary!r}")
    if obj.is_function and "property" not in obj.labels:
        found += faults_of_function(obj, parts)
    elif obj.is_class:
        found += faults_of_parameters(obj, parts.get("parameters", [])) if has_parameters(obj) else []
    yield from (f"{obj.path}: {fault}" for fault in found)
    if obj.is_class:
        for name, member in obj.all_members.items():
            if not name.startswith("_") and (member.is_function or "property" in member.labels):
                yield from faults(member.final_target if member.is_alias else member)


def has_parameters(obj: Any) -> bool:
    """Return whether a class is made by a call that its docstring describes; members of an Enum are not."""
    bases = {str(base).rpartition(".")[2] for one in (obj, *obj.mro()) for base in one.bases}
    return not bases & {"Enum", "StrEnum", "IntEnum", "Protocol"} and "__init__" in obj.all_members


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_described(package: str) -> None:
    found = sorted(set(all_faults(package)))
    if package in NOT_YET:
        pytest.skip(f"its docstrings are not numpydoc yet: {len(found)} faults")
    assert not found, "\n".join(found)


def all_faults(package: str) -> Iterator[str]:
    """Yield what the docstrings of a package lack, a line for each fault."""
    module = library()[package]
    if module.docstring is None:
        yield f"{module.path}: no docstring"
    for name, member in public(package).items():
        if member is None:
            yield f"{module.path}.{name}: is in __all__, but not defined"
        else:
            yield from faults(member.final_target if member.is_alias else member)


def test_an_override_takes_what_it_leaves_out() -> None:
    above = "Add.\n\nParameters\n----------\nx : int\n    One.\n\nReturns\n-------\nint\n    Two."
    own = "Add fast.\n\nReturns\n-------\nint\n    Three.\n\nExamples\n--------\n>>> add(1)\n3"
    parameters = "Parameters\n----------\nx : int\n    One.\n\n"
    assert merged("Add fast.", above) == above.replace("Add.", "Add fast.")
    assert merged(own, above) == own.replace("Returns\n", f"{parameters}Returns\n")


def test_names_of_the_package_are_names_of_its_parts() -> None:
    names = {str(name) for name in library().exports} - {"__version__"}
    assert names <= {name for package in PACKAGES for name in public(package)}


def test_nothing_is_left_to_do() -> None:
    done = {package for package in NOT_YET if package in PACKAGES and not [*all_faults(package)]}
    assert done == set(), "these packages are numpydoc: take them out of NOT_YET"
