"""One name, one thing: no public name means two things."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import duotomo

PRIVATE = {"kernels", "cli"}
PACKAGES = [
    "duotomo",
    *(
        f"duotomo.{found.name}"
        for found in pkgutil.iter_modules([str(Path(duotomo.__file__).parent)])
        if found.name not in PRIVATE and not found.name.startswith("_")
    ),
]


def public() -> dict[str, dict[str, object]]:
    """Return what each package has in `__all__`, by name."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        found[package] = {name: getattr(module, name) for name in module.__all__}
    return found


def test_no_name_is_public_twice_with_different_meanings() -> None:
    meanings: dict[str, dict[int, list[str]]] = {}
    for package, names in public().items():
        for name, value in names.items():
            meanings.setdefault(name, {}).setdefault(id(value), []).append(package)
    twice = {name: list(places.values()) for name, places in meanings.items() if len(places) > 1}
    assert twice == {}


def test_every_package_says_what_is_public() -> None:
    assert len(PACKAGES) >= 12
    assert all(names for names in public().values())
