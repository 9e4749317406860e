"""Operators handed to SciPy and PyLops solve the same problems there."""

from __future__ import annotations

import os
import subprocess
import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest
import torch

import duotomo
from duotomo.errors import DtypeError, DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.objectives import ProjectionMisfit
from duotomo.operators import Projector
from duotomo.solvers import Cgls
from duotomo.transforms import Rigid
from tests.cases.scans import arc

linalg = pytest.importorskip("scipy.sparse.linalg")

GRID = VolumeGrid.on_detector((5, 6, 7), (2.0, 2.0, 2.0), gap_mm=4.0)
SCAN = arc((8, 14), 2.0, n_views=5, degrees=50, source_to_detector_mm=300.0)
A = Projector(grid=GRID, acquisition=SCAN)


def truth(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.rand(GRID.shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


def test_scipy_computes_what_the_operator_computes() -> None:
    flat = A.to_scipy()
    assert flat.shape == (prod(A.range), prod(A.domain))
    assert flat.dtype == np.float64
    volume, projections = truth(), A(truth())
    np.testing.assert_allclose(flat.matvec(volume.numpy().ravel()), projections.numpy().ravel(), rtol=1e-14)
    back = A.adjoint(projections).numpy().ravel()
    np.testing.assert_allclose(flat.rmatvec(projections.numpy().ravel()), back, rtol=1e-14)
    columns = np.stack([volume.numpy().ravel(), 2 * volume.numpy().ravel()], axis=1)
    np.testing.assert_allclose(flat @ columns, np.stack([flat @ c for c in columns.T], axis=1), rtol=1e-14)


def test_scipy_lsqr_finds_what_cgls_finds() -> None:
    data = A(truth())
    ours = Cgls(n_steps=12).minimise(ProjectionMisfit(A, data)).value.numpy().ravel()
    theirs = linalg.lsqr(A.to_scipy(), data.numpy().ravel(), iter_lim=12, atol=0, btol=0, conlim=0)[0]
    np.testing.assert_allclose(theirs, ours, atol=1e-8 * np.abs(ours).max())


def test_scipy_cg_solves_the_damped_normal_equations() -> None:
    flat, damping_sq = A.to_scipy(), 0.5
    normal = flat.H @ flat + damping_sq * linalg.aslinearoperator(np.eye(flat.shape[1]))
    right = flat.H @ A(truth()).numpy().ravel()
    found, failed = linalg.cg(normal, right, rtol=1e-12, maxiter=500)
    assert failed == 0
    volume = torch.from_numpy(found).reshape(GRID.shape)
    residual = A.adjoint(A(volume) - A(truth())) + damping_sq * volume
    assert float(residual.norm()) < 1e-10 * np.linalg.norm(right)


def test_single_precision_stays_single() -> None:
    flat = A.to_scipy(dtype=torch.float32)
    assert flat.dtype == np.float32
    found = flat.matvec(truth(torch.float32).numpy().ravel())
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, A(truth(torch.float32)).numpy().ravel())


def test_pylops_passes_its_own_test_of_the_adjoint() -> None:
    pylops = pytest.importorskip("pylops")
    rigid = Rigid(GRID)
    warp = rigid.warp(rigid.params(rotation_deg=(3.0, 8.0, -5.0), translation_mm=(1.0, 0.5, -1.0)))
    for operator in (A, warp, A @ warp):
        flat = operator.to_pylops()
        assert (tuple(flat.dims), tuple(flat.dimsd)) == (operator.domain, operator.range)
        assert pylops.utils.dottest(flat, *flat.shape, rtol=1e-11)


def test_pylops_cgls_finds_what_cgls_finds() -> None:
    pylops = pytest.importorskip("pylops")
    data = A(truth())
    ours = Cgls(n_steps=12).minimise(ProjectionMisfit(A, data)).value
    flat = A.to_pylops()
    theirs = pylops.optimization.basic.cgls(flat, data.numpy().ravel(), niter=12, tol=0.0)[0]
    np.testing.assert_allclose(theirs.reshape(GRID.shape), ours.numpy(), atol=1e-8 * float(ours.abs().max()))
    # Arrays with axes go in and come out.
    np.testing.assert_allclose(flat @ ours.numpy(), A(ours).numpy(), rtol=1e-13)


def test_pylops_algebra_composes_with_ours() -> None:
    pylops = pytest.importorskip("pylops")
    stacked = pylops.VStack([A.to_pylops(), 0.1 * pylops.Identity(prod(GRID.shape))])
    assert pylops.utils.dottest(stacked, *stacked.shape, rtol=1e-11)


@pytest.mark.parametrize("convert", [A.to_scipy, A.to_pylops])
def test_other_precisions_are_refused(convert: object) -> None:
    with pytest.raises(DtypeError, match=r"expected dtype torch.float32 or torch.float64; got torch.float16"):
        convert(dtype=torch.float16)  # type: ignore[operator]


@pytest.mark.parametrize(("method", "package"), [("to_scipy", "scipy"), ("to_pylops", "pylops")])
def test_a_missing_library_is_named(method: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, "scipy.sparse.linalg", None)
    with pytest.raises(DuotomoError, match=rf"{method}: expected {package} to be installed; got: .*pip"):
        getattr(A, method)()


def test_the_operators_themselves_load_neither() -> None:
    code = "import sys, duotomo.operators.linear; print('scipy' in sys.modules, 'pylops' in sys.modules)"
    env = os.environ | {"PYTHONPATH": str(Path(duotomo.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]
