"""The scripts of the gallery run, and their numbers are what the page says of them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from PIL import Image

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SCRIPTS = sorted(path.stem for path in GALLERY.glob("*.py"))
NEEDS = {"with_scipy": "scipy", "five_women": "distributed"}


def draw(name: str, path: Path) -> dict[str, float]:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    return dict(importlib.import_module(f"docs.gallery.{name}").draw(path, quick=True))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, dict[str, float]]]:
    folder = tmp_path_factory.mktemp("gallery")
    return {name: (folder / f"{name}.png", draw(name, folder / f"{name}.png")) for name in SCRIPTS}


def test_there_are_scripts_and_the_page_shows_all_of_them() -> None:
    page = (GALLERY / "index.md").read_text()
    assert len(SCRIPTS) >= 5
    assert sorted(re.findall(r"\]\((\w+)\.png\)", page)) == SCRIPTS
    assert all(f"`docs/gallery/{name}.py`" in page for name in SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_script_draws(name: str, drawn: dict[str, tuple[Path, dict[str, float]]]) -> None:
    path, numbers = drawn[name]
    assert numbers
    for picture in (path, GALLERY / f"{name}.png"):
        with Image.open(picture) as image:
            assert image.format == "PNG"
            assert len(image.convert("RGB").getcolors(maxcolors=2**24)) > 40
    assert (GALLERY / f"{name}.png").stat().st_size < 300_000


def test_the_motion_is_found_and_helps(drawn: dict[str, tuple[Path, dict[str, float]]]) -> None:
    numbers = drawn["two_visits"][1]
    assert numbers["motion off by, mm"] < 0.5
    assert numbers["both visits"] < numbers["one visit"]


def test_the_deformation_does_not_fold(drawn: dict[str, tuple[Path, dict[str, float]]]) -> None:
    assert drawn["deformation"][1]["folded voxels"] == 0


def test_scipy_takes_the_same_steps(drawn: dict[str, tuple[Path, dict[str, float]]]) -> None:
    assert drawn["with_scipy"][1]["difference"] < 1e-9
