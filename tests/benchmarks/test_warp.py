"""The benchmark of warps gives every time that it promises, and none where programs disagree."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import warp
from benchmarks.contest import Entrant
from benchmarks.peers import grid_sample, simpleitk
from benchmarks.peers.available import Available

# Raised while SimpleITK's extension module is loaded; as an error it would end the process.
pytestmark = pytest.mark.filterwarnings(
    "ignore:builtin type .* has no __module__ attribute:DeprecationWarning"
)

TINY = ["--shape", "12,14,16", "--control", "5,5,5", "--repeats", "1", "--threads", "1"]
PAIRS = {(t, o) for t in ("affine", "bspline") for o in ("forward", "adjoint", "parameter-gradient")}
needs_simpleitk = pytest.mark.skipif(
    not simpleitk.available(), reason="needs SimpleITK: pip install SimpleITK"
)


def rows_of(path: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = json.loads(path.read_text())["rows"]
    return {(row["case"], row["operation"], row["program"]): row for row in rows}


@needs_simpleitk
def test_every_promised_row_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n_threads = torch.get_num_threads()
    warp.main([*TINY, "--json", str(tmp_path / "rows.json")])
    rows = rows_of(tmp_path / "rows.json")
    assert set(rows) == (
        {(*pair, program) for pair in PAIRS for program in ("duotomo", "grid_sample")}
        | {(transform, "forward", "simpleitk") for transform in ("affine", "bspline")}
    )
    assert all(row["best_ms"] > 0 and row["error"] < 1e-4 for row in rows.values())
    assert all(row["gap"] < 1e-6 for (_, operation, _), row in rows.items() if operation == "adjoint")
    assert capsys.readouterr().out.count("than the fastest peer") == 6
    assert torch.get_num_threads() == n_threads


def test_without_simpleitk_the_others_are_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = Available("SimpleITK is not installed")
    monkeypatch.setattr(simpleitk, "available", lambda: missing)
    monkeypatch.setitem(warp.PROGRAMS, "simpleitk", Entrant(lambda device: missing, warp.SimpleItk))
    warp.main([*TINY, "--json", str(tmp_path / "rows.json")])
    assert {program for _, _, program in rows_of(tmp_path / "rows.json")} == {"duotomo", "grid_sample"}
    assert "SimpleITK is not installed, so it is left out" in capsys.readouterr().out


def failed(path: Path, transform: str, operation: str, program: str) -> str:
    """Run the benchmark, and return why a program has no time; nobody else may have failed at that."""
    warp.main([*TINY, "--json", str(path)])
    rows = rows_of(path)
    assert not rows[transform, operation, "duotomo"]["failed"]
    assert rows[transform, operation, program]["best_ms"] is None
    return str(rows[transform, operation, program]["failed"])


def elsewhere(places: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Move every place by a hundredth of the volume's half size."""
    return lambda self, weights: places(self, weights) + 0.01


@pytest.mark.parametrize("transform", ["affine", "bspline"])
def test_other_places_are_refused(transform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = {"affine": grid_sample.AffineGrid, "bspline": grid_sample.SplineGrid}[transform]
    monkeypatch.setattr(kind, "places", elsewhere(kind.places))
    assert "does not compute the same" in failed(tmp_path / "rows.json", transform, "forward", "grid_sample")


@needs_simpleitk
def test_another_image_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = simpleitk.SimpleItk.forward
    monkeypatch.setattr(simpleitk.SimpleItk, "forward", lambda self, image: forward(self, image) * 1.01)
    assert "does not compute the same" in failed(tmp_path / "rows.json", "affine", "forward", "simpleitk")


@pytest.mark.parametrize(
    ("method", "operation"), [("adjoint", "adjoint"), ("gradient", "parameter-gradient")]
)
def test_another_backward_pass_is_refused(
    method: str, operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = getattr(grid_sample.GridSample, method)

    def scaled(self: grid_sample.GridSample, *arguments: torch.Tensor) -> Callable[[], torch.Tensor]:
        call = make(self, *arguments)
        return lambda: 1.01 * call()

    monkeypatch.setattr(grid_sample.GridSample, method, scaled)
    assert "got 1.0e-02" in failed(tmp_path / "rows.json", "affine", operation, "grid_sample")


def test_results_that_are_not_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = grid_sample.GridSample.forward
    monkeypatch.setattr(
        grid_sample.GridSample, "forward", lambda self, volume: forward(self, volume) * torch.nan
    )
    assert "not finite" in failed(tmp_path / "rows.json", "affine", "forward", "grid_sample")


def test_peers_take_the_transforms_that_they_know() -> None:
    from duotomo.geometry import VolumeGrid
    from duotomo.transforms import Translation

    shift = Translation(VolumeGrid.on_detector((4, 4, 4), (1.0, 1.0, 1.0)))
    with pytest.raises(TypeError, match="grid_sample: expected an Affine or a BSpline; got Translation"):
        grid_sample.make(shift, shift.identity(), "cpu")
    with pytest.raises(TypeError, match="SimpleItk: expected an Affine or a BSpline; got Translation"):
        simpleitk.itk_transform(None, shift, shift.identity())
