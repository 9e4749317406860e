"""`duotomo bench` times every program that is here, and they compute the same."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from duotomo.cli._peers import grid_sample_runs, rtk_runs, simpleitk_runs
from duotomo.cli.bench import Size, _measure
from duotomo.geometry import VolumeGrid, paper
from duotomo.operators import Projector
from duotomo.phantoms import Ellipsoid
from duotomo.transforms import Affine
from tests.cli.commands import duotomo

GRID = VolumeGrid.on_detector((16, 18, 20), (3.0, 3.0, 3.0), gap_mm=5.0)


def ball() -> torch.Tensor:
    solid = Ellipsoid(center_mm=(0.0, 27.0, 29.0), radii_mm=(20.0, 18.0, 16.0), value=0.05)
    return torch.from_numpy(solid.voxels(GRID, oversample=4)).float()


def params(affine: Affine) -> torch.Tensor:
    return 0.5 * torch.randn(affine.n_params, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_table_has_a_row_for_each_operation() -> None:
    ran = duotomo("bench", "--size", "tiny", "--repeats", 1, "--no-peers", "--json")
    assert ran.code == 0, ran.err
    rows = ran.json["rows"]
    assert [row["operation"] for row in rows] == [
        f"{what}, {way}"
        for what in ("project", "warp, Affine", "warp, BSpline")
        for way in ("forward", "adjoint")
    ]
    assert all(row["program"] == "duotomo" and row["seconds"] > 0 and row["rate"] > 0 for row in rows)
    table = duotomo("bench", "--size", "tiny", "--repeats", 1, "--no-peers")
    assert len(table.out.splitlines()) == 2 + len(rows)
    assert "voxel-views/s" in table.out


def test_peers_stand_beside_it() -> None:
    from duotomo.cli._common import Device

    rows = list(_measure(Size.TINY, device=Device.CPU, repeats=1, peers=True, seed=0))
    programs = {row.program for row in rows}
    assert {"duotomo", "grid_sample"} <= programs
    assert ("SimpleITK" in programs) == (find_spec("SimpleITK") is not None)


def test_grid_sample_and_simpleitk_warp_as_we_do() -> None:
    affine = Affine(GRID)
    expected = affine.warp(params(affine))(ball())
    inside = (slice(4, -4),) * 3
    sampled = grid_sample_runs(affine, params(affine), ball())
    torch.testing.assert_close(sampled["forward"](), expected, atol=1e-5, rtol=0)
    adjoint = affine.warp(params(affine)).adjoint(ball())
    torch.testing.assert_close(sampled["adjoint"](), adjoint, atol=1e-5, rtol=0)
    pytest.importorskip("SimpleITK")
    from duotomo.io.libraries import simpleitk

    resampled = simpleitk_runs(affine, params(affine), ball())["forward"]()
    values = torch.from_numpy(simpleitk().GetArrayFromImage(resampled))
    torch.testing.assert_close(values[inside], expected[inside], atol=1e-5, rtol=0)


def test_rtk_projects_as_we_do() -> None:
    scan = paper().bin(4)
    projections = Projector(grid=GRID, acquisition=scan)(ball())
    runs = rtk_runs(GRID, scan, ball(), projections)
    if not runs:
        pytest.skip("RTK is not installed")
    itk = importlib.import_module("itk")
    forward, adjoint = (itk.array_from_image(runs[way]()) for way in ("forward", "adjoint"))
    # Another projector: Joseph's interpolates along rays, ours averages over pixels.
    assert np.linalg.norm(forward - projections.numpy()) < 0.1 * float(projections.norm())
    # A matched pair: <A x, y> = <x, A^T y>.
    assert np.vdot(forward, projections.numpy()) == pytest.approx(np.vdot(ball().numpy(), adjoint), rel=1e-3)
