"""The FDA's projections: their table as text, their pictures, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io import write_volume
from duotomo.reproduction.fda import FDA_NAME
from duotomo.reproduction.fda_table import draw_fda, fda_lines, fda_remarks, read_fda
from duotomo.reproduction.results_page import write_results_page

GRID = VolumeGrid.on_detector((6, 8, 10), (5.0, 5.0, 5.0))


def fda_row(name: str, **changes: Any) -> dict[str, Any]:
    """Return a row of the table."""
    return {
        "name": name,
        "label": name.upper(),
        "settings": "Sart()",
        "offset_mm": [0.1, -0.2, 0.834],
        "lesion_per_mm": 0.09,
        "surroundings_per_mm": 0.06,
        "contrast_per_mm": 0.03,
        "noise_per_mm": 0.002,
        "status": "step limit",
        "reason": "All steps were done.",
        "seconds": 1.5,
        **changes,
    }


def fda_table(**changes: Any) -> dict[str, Any]:
    """Return a table as `reproduce_fda` writes it."""
    return {
        "experiment": FDA_NAME,
        "title": "Projections by others",
        "level": "real",
        "quick": False,
        "device": "cpu",
        "about": {"grid": repr(GRID)},
        "lesion_center_mm": [0.0, 20.0, 15.0],
        "true_contrast_per_mm": [0.28, 0.32],
        "versions": {"duotomo": "0.1.0"},
        "rows": [fda_row("sart"), fda_row("cgls", noise_per_mm=0.0)],
        **changes,
    }


def write_fda(root: Path, **changes: Any) -> Path:
    """Write the folder of a run, with its volumes, and return it."""
    folder = root / FDA_NAME / "real"
    folder.mkdir(parents=True)
    (folder / "table.json").write_text(json.dumps(fda_table(**changes)), encoding="utf-8")
    for name in ("sart", "cgls"):
        write_volume(folder / f"{name}.nii.gz", 0.1 * torch.rand(GRID.shape), GRID)
    return folder


def test_lines_are_the_numbers(tmp_path: Path) -> None:
    table = read_fda(write_fda(tmp_path))
    header, first, second = fda_lines(table)
    named = dict(zip(header, first, strict=True))
    assert [named[f"{axis}, mm"] for axis in "xyz"] == ["+0.10", "-0.20", "+0.83"]
    assert (named["contrast, 1/mm"], named["of the true"]) == ("0.0300", "10 %")
    assert named["contrast / noise"] == "15.0"
    assert dict(zip(header, second, strict=True))["contrast / noise"] == "-"
    assert any("between 0.280 and 0.320 1/mm" in line for line in fda_remarks(table))


def test_each_algorithm_has_slices_and_all_have_one_sheet(tmp_path: Path) -> None:
    folder = write_fda(tmp_path)
    names = {path.name for path in draw_fda(folder)}
    assert names == {f"slices-{one}.{kind}" for one in ("sart", "cgls", "all") for kind in ("png", "svg")}
    assert {path.name for path in (folder / "figures").iterdir()} == names


@pytest.mark.parametrize(
    ("changes", "came"),
    [
        ({"rows": []}, "no rows"),
        ({"rows": [{"name": "sart"}]}, "no 'offset_mm'"),
        ({"lesion_center_mm": [1.0]}, "not enough values"),
    ],
)
def test_a_table_of_another_make_is_refused(changes: dict[str, Any], came: str, tmp_path: Path) -> None:
    folder = write_fda(tmp_path, **changes)
    with pytest.raises(DuotomoError, match=f"read_fda: expected .*table.json as .*got: {came}.*Run it again"):
        read_fda(folder)


def test_the_page_has_a_section_of_its_own(tmp_path: Path) -> None:
    folder = write_fda(tmp_path / "out")
    docs = tmp_path / "docs"
    files = write_results_page(tmp_path / "out", docs / "results.md", figures=docs / "results")
    page = (docs / "results.md").read_text(encoding="utf-8")
    assert files == [docs / "results.md"]
    assert "## Projections by others\n\nExperiment `fda-projections`. Not in the paper" in page
    assert "| SART | +0.10 | -0.20 | +0.83 | 0.0300 | 10 % |" in page
    assert "At a glance" not in page
    (folder / "figures").mkdir()
    (folder / "figures" / "slices-all.png").write_bytes(b"")
    files = write_results_page(tmp_path / "out", docs / "results.md", figures=docs / "results")
    assert files[1:] == [docs / "results" / "fda-projections-real-slices-all.png"]
    page = (docs / "results.md").read_text(encoding="utf-8")
    assert "![Slices through the lesion](results/fda-projections-real-slices-all.png)" in page
