"""`duotomo observe` says what acquisitions can determine of a motion, as text, JSON and a picture."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from PIL import Image

from duotomo.io import write_study, write_volume
from duotomo.io.scan import Scan, Values
from duotomo.io.scan_hdf5 import write_scan
from duotomo.methods.observability import observability
from tests.cases.scans import arc
from tests.cli.commands import duotomo
from tests.cli.tiny import GRID, tiny_study

SCAN = arc((14, 16), 5.0, n_views=3, degrees=30.0)
# By its path: the package's name is that of the function.
MODULE = sys.modules["duotomo.methods.observability"]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try fewer protocols."""
    monkeypatch.setattr(MODULE, "observability", partial(observability, range_factors=(0.5,), n_views=(5,)))


def geometry(folder: Path) -> Path:
    path = folder / "protocol.json"
    path.write_text(SCAN.to_json())
    return path


def test_numbers_and_picture_are_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = duotomo("observe", geometry(tmp_path), "--thickness", 24, "--out", out)
    assert ran.code == 0, ran.err
    assert "depth / in plane" in ran.out
    assert "real errors are larger" in ran.out
    assert "1/3: 3 views over 30 degrees" in ran.err
    content = json.loads((out / "observe.json").read_text())
    assert content["status"] == content["given"]["status"] == "determined"
    assert content["given"]["deviation_mm"]["z"] > 0
    assert [one["ranges_deg"] for one in content["by_range"]] == [[15.0, 15.0], [30.0, 30.0]]
    assert [one["n_views"] for one in content["by_views"]] == [[3, 3], [5, 5]]
    with Image.open(out / "observe.png") as image:
        assert (image.format, image.width) == ("PNG", pytest.approx(1063, abs=1))
    assert sorted(path.name for path in out.iterdir()) == ["observe.json", "observe.png", "observe.svg"]


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "observability", partial(observability, range_factors=(), n_views=()))
    path = tmp_path / "study.h5"
    write_study(path, tiny_study())
    ran = duotomo("observe", path, "--json", "--thickness", 24)
    assert ran.code == 0, ran.err
    assert (ran.json["files"], ran.json["given"]["n_views"]) == ([], [7, 7])
    assert [one.name for one in tmp_path.iterdir()] == ["study.h5"]


def test_one_view_is_told_as_it_is(tmp_path: Path) -> None:
    path, out = tmp_path / "one.h5", tmp_path / "out"
    scan = Scan(projections=torch.ones(1, 14, 16), values=Values.LINE_INTEGRALS, acquisition=SCAN[1])
    write_scan(path, scan)
    ran = duotomo("observe", path, "--json", "--out", out)
    assert ran.code == 0, ran.err
    assert ran.json["status"] == "not determined"
    assert "Depth is not determined: visit 1 has one view" in ran.json["reason"]
    # There is nothing to draw.
    assert [one.name for one in out.iterdir()] == ["observe.json"]


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    path = geometry(tmp_path)
    volume = tmp_path / "volume.nii.gz"
    write_volume(volume, torch.rand(GRID.shape), GRID)
    for words, message in (
        ((), "expected scans, a study, or machines; got none. Name files, or --machine victre"),
        (("--machine", "toaster"), "expected a machine among paper"),
        ((path, path, path), "expected one acquisition, or two; got 3"),
        ((volume,), "expected scans, geometry JSON, or one study alone; got: volume"),
        ((tmp_path / "nothing.h5",), "got nothing there"),
        ((path, "--thickness", 900), "expected a thickness above 0"),
    ):
        ran = duotomo("observe", *words)
        assert (ran.code, ran.out) == (2, "")
        assert message in ran.err
