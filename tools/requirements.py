"""What the project asks for, the versions that are pinned, and what follows from both."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = tuple(re.findall(r"Python :: (3\.\d+)", "\n".join(PYPROJECT["project"]["classifiers"])))
"""The versions that are promised."""

MACHINES = ("x86_64", "aarch64")

ENVIRONMENTS = [
    {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": machine,
    }
    for python, machine in product(PYTHONS, MACHINES)
]
"""Where duotomo is installed: a requirement counts if it holds in one of them."""

Requires = Callable[[str], Iterable[Requirement]]
"""The requirements of a distribution, those of its extras with a marker that says so."""


def pins(path: Path = ROOT / "constraints.txt") -> dict[str, str]:
    """Return the version of every distribution that a file pins, by its normalised name."""
    found = re.findall(r"^([\w.-]+)==([\w.+!-]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def of_project() -> list[Requirement]:
    """Return the requirements of duotomo itself, as `Requires` does."""
    project = PYPROJECT["project"]
    found = [Requirement(text) for text in project["dependencies"]]
    for extra, texts in project["optional-dependencies"].items():
        for one in map(Requirement, texts):
            only = f"extra == '{extra}'"
            one.marker = Marker(only if one.marker is None else f"({one.marker}) and {only}")
            found.append(one)
    return found


def closure(wanted: Iterable[Requirement], requires: Requires) -> dict[str, list[Requirement]]:
    """Return the distributions that follow from some requirements, each with those that ask for it."""
    found: dict[str, list[Requirement]] = {}
    done: set[tuple[str, str]] = set()
    waiting = list(wanted)
    while waiting:
        asked = waiting.pop()
        name = canonicalize_name(asked.name)
        found.setdefault(name, []).append(asked)
        for extra in {"", *asked.extras} - {extra for one, extra in done if one == name}:
            done.add((name, extra))
            waiting += [one for one in requires(name) if _holds(one, extra)]
    return found


def _holds(requirement: Requirement, extra: str) -> bool:
    """Return whether an extra, or the distribution without one, brings a requirement somewhere."""
    if requirement.marker is None:
        return extra == ""
    return any(requirement.marker.evaluate({**one, "extra": extra}) for one in ENVIRONMENTS)
