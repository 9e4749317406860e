"""The transform of the page on adding one is a model for `duotomo joint`, once its package is installed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from duotomo.io import read_result, write_study
from tests.cli.commands import NOT_TRUSTED, duotomo
from tests.cli.tiny import tiny_study

PAGE = Path(__file__).parents[2] / "docs" / "adding_a_transform.md"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the package that the page describes: its first example, and its entry point."""
    text = PAGE.read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    declared = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]
    name, module, found = re.findall(r'(\w+) = "([\w.]+):(\w+)"', declared)[0]
    package = tmp_path.joinpath(*module.split("."))
    package.parent.mkdir()
    package.with_suffix(".py").write_text(code, encoding="utf-8")
    about = tmp_path / "my_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[duotomo.transforms]\n{name} = {module}:{found}\n")
    monkeypatch.syspath_prepend(tmp_path)
    for loaded in (module, module.partition(".")[0]):
        monkeypatch.delitem(sys.modules, loaded, raising=False)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("transform", ["scaling", "scaling+bspline:60mm"])
def test_the_transform_of_the_page_goes_through_joint(transform: str, tmp_path: Path) -> None:
    write_study(tmp_path / "study.h5", tiny_study())
    words = ("--transform", transform, "--steps", 3, "--out", tmp_path / "out", "--quiet")
    ran = duotomo("joint", tmp_path / "study.h5", *words)
    assert ran.code == NOT_TRUSTED, ran.err
    result = read_result(tmp_path / "out")
    estimated = [step.what for step in result.history if not step.what.startswith("volume")]
    assert estimated[-1] == f"{transform} at 3 mm"
