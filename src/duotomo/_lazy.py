"""Packages whose names are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports its names when they are first used.

    Parameters
    ----------
    package : str
        Its `__name__`.
    names : mapping of str to sequence of str
        Module, with the package's name before it unless it has a dot, to the names that it defines. No name
        may be that of a module of the package, which would take its place once imported.

    Returns
    -------
    tuple of callable
        To be assigned to `__getattr__` and `__dir__` in the package's `__init__.py`.

    Examples
    --------
    >>> get, listed = lazy_names("duotomo.geometry", {"grid": ["VolumeGrid"]})
    >>> get("VolumeGrid").__name__, "VolumeGrid" in listed()
    ('VolumeGrid', True)
    """
    module_of = {
        name: module if "." in module else f"{package}.{module}"
        for module, defined in names.items()
        for name in defined
    }

    def get(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(module_of[name]), name)
        # Found at once from now on.
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, listed
