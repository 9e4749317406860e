"""What the package imports is what its installation brings."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = packages_distributions()
"""The distributions that bring a module, of all that are installed."""

OPTIONAL = {
    "triton": "a GPU's PyTorch brings it",
    "pylops": "the extra peers",
    "cuda": "the extra gpu",
    **dict.fromkeys(("bokeh", "dask", "distributed", "pyarrow"), "the extra cluster"),
}
"""Modules that the package does without, and says so where they are missing."""

NAMES_A_MODULE = {"import_module", "find_spec", "library", "_library", "scipy_part"}
"""Functions whose first text is the name of a module."""

NO_IMPORT = {"pylibjpeg", "pylibjpeg-openjpeg", "pyjpegls"}
"""Plug-ins that pydicom finds by itself."""


def normal(name: str) -> str:
    """Return a distribution's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required(group: list[str]) -> set[str]:
    """Return the distributions of a list of requirements."""
    return {normal(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]) for requirement in group}


def imported(path: Path) -> Iterator[str]:
    """Yield the modules that a file names: in imports, lazy ones too, and as text."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(level=0, module=str(name)):
                yield name
            case ast.Call(func=ast.Name(id=function) | ast.Attribute(attr=function)):
                # Not every text is a module's name.
                texts = (str(word.value) for word in node.args if isinstance(word, ast.Constant))
                if function in NAMES_A_MODULE:
                    yield from (
                        text for text in texts if text.partition(".")[0] in {*DISTRIBUTIONS, *OPTIONAL}
                    )


def third_party() -> dict[str, set[str]]:
    """Return the top-level modules of others that `src/duotomo` names, each with the files that do."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "src" / "duotomo").rglob("*.py")):
        for name in {module.partition(".")[0] for module in imported(path)} - {"duotomo"}:
            if name not in sys.stdlib_module_names:
                found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return found


def test_every_import_belongs_to_a_dependency() -> None:
    brought = required(PROJECT["dependencies"])
    modules = third_party()
    # The search sees plain imports, lazy ones, and names given as text.
    assert {"torch", "numpy", "h5py", "SimpleITK", "scipy", "skfem", "matplotlib", *OPTIONAL} <= {*modules}
    missing = {
        name: files
        for name, files in modules.items()
        if name not in OPTIONAL and not {normal(one) for one in DISTRIBUTIONS.get(name, ())} & brought
    }
    assert missing == {}


def test_every_dependency_is_used() -> None:
    used = {normal(one) for name in third_party() for one in DISTRIBUTIONS.get(name, ())}
    assert required(PROJECT["dependencies"]) - used - NO_IMPORT == set()


@pytest.mark.parametrize("group", ["dependencies", *PROJECT["optional-dependencies"]])
def test_every_requirement_is_pinned(group: str) -> None:
    pins = required((ROOT / "constraints.txt").read_text().split("\n"))
    wanted = PROJECT[group] if group == "dependencies" else PROJECT["optional-dependencies"][group]
    assert required(wanted) - pins - {"duotomo"} == set()
