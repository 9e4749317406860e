"""Packages import their names when they are first used."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

PACKAGES = ("duotomo", "duotomo.io", "duotomo.phantoms", "duotomo.reproduction", "duotomo.simulate")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_there_and_none_is_hidden_by_a_module(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)
    # An imported submodule becomes an attribute of its package.
    assert not {found.name for found in pkgutil.iter_modules(module.__path__)} & set(module.__all__)


def test_unknown_names_are_attribute_errors() -> None:
    simulate = importlib.import_module("duotomo.simulate")
    with pytest.raises(AttributeError, match=r"module 'duotomo\.simulate' has no attribute 'scanner'"):
        _ = simulate.scanner
