"""The folder of a small experiment, made of random numbers through the real writers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from duotomo.geometry import VolumeGrid
from duotomo.io import write_result, write_study, write_transform, write_volume
from duotomo.methods import Result
from duotomo.solvers import Status, Step
from duotomo.transforms import Affine, BSpline, Motion, Transform
from tests.cases.scans import arc
from tests.cases.studies import random_study

GRID = VolumeGrid.on_detector((8, 8, 8), (5.0, 5.0, 5.0), gap_mm=5.0)
THINNER = VolumeGrid.on_detector((7, 8, 8), (5.0, 5.0, 5.0), gap_mm=5.0)
SCAN = arc((9, 12), 5.0, n_views=3, degrees=30)
PAPER = {
    "better": "simultaneous",
    "ratio": 31.0,
    "relative_error": {"sequential": 0.0057, "simultaneous": 0.0002},
    "mse": {"sequential": 7460.0},
    "remark": "The paper contradicts itself.",
}


def method(name: str, family: str, origin: str = "ours", label: str | None = None) -> dict[str, Any]:
    """Return a method of a table."""
    return {"name": name, "label": label or name, "family": family, "origin": origin, "settings": {}}


METHODS = [
    method("sequential", "sequential"),
    method("iterative", "iterative"),
    method("simultaneous", "simultaneous"),
    method("known-motion", "known motion", label="known motion"),
]


def row(case: int, name: str, **numbers: Any) -> dict[str, Any]:
    """Return a row of a table; what is not given is plain."""
    return {
        "case": case,
        "method": name,
        "about": {},
        "start_tre_mm": 6.0,
        "relative_error": 0.1,
        "mse": 1e-5,
        "registered_relative_error": None,
        "registered_mse": None,
        "tre_mm": 0.5,
        "worst_tre_mm": 1.0,
        "edge_tre_mm": 0.5,
        "in_plane_mm": 0.3,
        "depth_mm": 0.3,
        "entries": None,
        "folded": 0,
        "status": "converged",
        "reason": "Done.",
        "applications": 100,
        "seconds": 2.0,
        **numbers,
    }


def table(methods: list[dict[str, Any]], rows: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Return a table as the runner writes it."""
    return {
        "experiment": "toroid-simultaneous",
        "title": "Toroid, random motions",
        "level": "honest",
        "quick": False,
        "device": "cpu",
        "about": {"grid": "8 x 8 x 8", "size_mm": [40.0, 40.0, 40.0], "n_views": 11},
        "paper": PAPER,
        "versions": {"duotomo": "0.1.0", "torch": "2.6"},
        "methods": methods,
        "shown": 1,
        "n_cases": len({one["case"] for one in rows}),
        "rows": rows,
        **changes,
    }


def write_table(folder: Path, content: dict[str, Any]) -> Path:
    """Write `table.json` of a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def write_folder(
    folder: Path,
    methods: list[dict[str, Any]],
    *,
    n_cases: int = 1,
    transform: Transform | None = None,
    moving: VolumeGrid = GRID,
    **changes: Any,
) -> Path:
    """Write the folder of an experiment with its shown case, and return it."""
    entries = [0.01 * number for number in range(1, 13)]
    rows = [
        row(
            case,
            one["name"],
            relative_error=0.1 * case,
            tre_mm=0.0 if one["family"] == "known motion" else 0.2 * case,
            entries=entries if transform is None and one["family"] != "known motion" else None,
            registered_relative_error=0.3 if one["family"] == "sequential" else None,
        )
        for case in range(1, n_cases + 1)
        for one in methods
    ]
    write_table(folder, table(methods, rows, **changes))
    home = folder / "case_01"
    home.mkdir()
    transform = transform or Affine(GRID)
    study = random_study(GRID, SCAN, moving_grid=moving)
    write_volume(home / "truth.nii.gz", _random(GRID, 5), GRID)
    write_volume(home / "moved.nii.gz", _random(moving, 6), moving)
    write_transform(home / "truth.tfm", _motion(transform, 1), grid=moving)
    write_study(home / "study.h5", study)
    for number, one in enumerate(methods):
        (home / one["name"]).mkdir()
        result = _result(one["family"], transform, number, moving)
        write_result(home / one["name"], result, study=study, settings={})
    return folder


def _random(grid: VolumeGrid, seed: int) -> torch.Tensor:
    return 0.05 * torch.rand(grid.shape, generator=torch.Generator().manual_seed(seed))


def _motion(transform: Transform, seed: int) -> Motion:
    shifts = torch.rand(transform.n_params, generator=torch.Generator().manual_seed(seed))
    return Motion(transform, 0.3 * (shifts.double() - 0.5))


def _result(family: str, transform: Transform, seed: int, moving: VolumeGrid) -> Result:
    others = {}
    if family in ("sequential", "iterative"):
        others = {"visit_2": _random(moving, 20 + seed), "visit_2_registered": _random(GRID, 30 + seed)}
    history = [
        Step(
            stage=step // 3,
            what="affine of visit 2 at 5 mm" if step == 2 else "volume at 5 mm",
            number=step + 1,
            objective=float("inf") if step == 5 else 10.0 / (step + 1),
            gradient_norm=1.0,
            step_size=1.0,
            applications=4 * step,
            seconds=0.1 * step,
        )
        for step in range(6)
    ]
    return Result(
        method=family.replace(" ", "_"),
        grid=GRID,
        volume=_random(GRID, 40 + seed),
        others=others,
        grids={"visit_2": moving} if others and moving != GRID else {},
        motions=(_motion(transform, seed),),
        status=Status.STEP_LIMIT,
        reason="The limit of 6 steps was reached.",
        applications=20,
        seconds=0.5,
        history=tuple(history),
    )


def spline() -> BSpline:
    """Return a deformation that no matrix describes."""
    return BSpline.over(GRID, (5, 5, 5))
