"""`change` on two breasts that files do not tell apart: nothing is said of what changed, and why."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from duotomo.change.change import RESEARCH
from duotomo.geometry import VolumeGrid
from duotomo.io import read_change, write_study
from duotomo.methods import Study, Visit
from duotomo.operators import Projector
from duotomo.phantoms import Ellipsoid
from tests.cases.scans import arc
from tests.cli.commands import NOT_TRUSTED, duotomo

GRID = VolumeGrid.on_detector((11, 18, 21), (4.0, 4.0, 4.0), gap_mm=4.0)
SCAN = arc((22, 32), 4.0)


def breast(seed: int) -> Visit:
    """Return a visit of a breast with gland of its own, in one and the same outline."""
    rng = np.random.default_rng(seed)
    places = rng.uniform((-22, 5, 15), (22, 45, 37), (25, 3))
    parts = [
        Ellipsoid(center_mm=(x, y, z), radii_mm=(radius,) * 3, value=0.02)
        for (x, y, z), radius in zip(places, rng.uniform(3.0, 7.0, 25), strict=True)
    ]
    parts.append(Ellipsoid(center_mm=(0.0, 20.0, 26.0), radii_mm=(34.0, 38.0, 19.0), value=0.05))
    fine = GRID.refine(2)
    volume = torch.from_numpy(sum(part.voxels(fine) for part in parts)).float()
    views = Projector(grid=fine, acquisition=SCAN)(volume)
    noise = torch.randn(views.shape, generator=torch.Generator().manual_seed(seed))
    return Visit(projections=views + 0.003 * noise, acquisition=SCAN)


def test_nothing_is_said_and_why(tmp_path: Path) -> None:
    study = Study(grid=GRID, visits=(breast(1), breast(2)))
    write_study(tmp_path / "study.h5", study)
    out = tmp_path / "out"
    ran = duotomo(
        "change", tmp_path / "study.h5", "--transform", "translation", "--no-uncertainty", "--out", out
    )
    assert ran.code == NOT_TRUSTED, ran.err
    said, change = ran.out + ran.err, read_change(out)
    assert "Warning: nothing is said of what changed. The result is not to be trusted. " in said
    assert "the motion found does not explain them" in change.reason
    assert (change.findings, change.litres) == ((), 0.0)
    assert bool(change.z_map.isnan().all())
    assert RESEARCH in said
    assert {"findings.json", "findings.csv", "change_z.nii.gz", "current.nii.gz"} <= set(os.listdir(out))
