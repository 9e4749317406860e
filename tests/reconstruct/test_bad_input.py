"""What `reconstruct` refuses, before any algorithm sees it."""

from __future__ import annotations

import pytest
import torch

from duotomo.errors import DtypeError, DuotomoError, GeometryError, NonFiniteError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.objectives import ProjectionMisfit
from duotomo.operators import Weighting
from duotomo.reconstruct import (
    Algorithm,
    BackProjection,
    FilteredBackProjection,
    Sart,
    TvLeastSquares,
    reconstruct,
)
from duotomo.solvers import Solution
from tests.reconstruct.visit import DATA, GRID, SCAN


def ask(projections: torch.Tensor = DATA, **options: object) -> Solution:
    given = {"grid": GRID, "acquisition": SCAN, "algorithm": Sart(n_sweeps=1)} | options
    return reconstruct(projections, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["projections", "weights"])
def test_wrong_shapes_are_refused(name: str) -> None:
    def given(tensor: torch.Tensor) -> Solution:
        return ask(tensor) if name == "projections" else ask(weights=tensor)

    with pytest.raises(
        ShapeError, match=rf"reconstruct: expected {name} \(view, v, u\) = .* Axes reversed\?"
    ):
        given(DATA.permute(2, 1, 0))
    with pytest.raises(ShapeError, match=rf"reconstruct: expected {name} .* Wrong number of axes: 2"):
        given(DATA[0])
    with pytest.raises(ShapeError, match=rf"reconstruct: expected {name} .*; got \(0, 20, 32\)"):
        given(DATA[:0])
    with pytest.raises(ShapeError, match=r"needed exactly 3\. Pass one item of the batch at a time"):
        given(DATA[None])


def test_nan_and_integers_are_refused() -> None:
    spoilt = DATA.clone()
    spoilt[1, 2, 3] = float("nan")
    with pytest.raises(NonFiniteError, match=r"reconstruct: expected projections to be finite.*\(1, 2, 3\)"):
        ask(spoilt)
    with pytest.raises(NonFiniteError, match="reconstruct: expected weights to be finite"):
        ask(weights=spoilt)
    with pytest.raises(NonFiniteError, match="reconstruct: expected start to be finite"):
        ask(start=torch.full(GRID.shape, float("inf")))
    with pytest.raises(DtypeError, match=r"reconstruct: expected projections of torch.float32 or"):
        ask((1000 * DATA).int())


def test_empty_beam_is_refused() -> None:
    with pytest.raises(
        DuotomoError, match=r"reconstruct: expected projections of an object; .*nothing in the"
    ):
        ask(torch.zeros_like(DATA))


@pytest.mark.parametrize("weights", [torch.zeros_like(DATA), -torch.ones_like(DATA)])
def test_weights_that_are_no_inverse_variances_are_refused(weights: torch.Tensor) -> None:
    with pytest.raises(DuotomoError, match="reconstruct: expected weights >= 0, some of them positive; got"):
        ask(weights=weights)


def test_start_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"reconstruct: expected start \(z, y, x\) = .*Axes reversed\?"):
        ask(start=torch.zeros(GRID.shape[::-1]))
    with pytest.raises(DtypeError, match=r"reconstruct: expected start of torch.float32; got"):
        ask(start=torch.zeros(GRID.shape, dtype=torch.float64))
    with pytest.raises(DtypeError, match=r"reconstruct: expected weights of torch.float32; got"):
        ask(weights=torch.ones_like(DATA).double())


def test_grid_above_the_source_is_refused() -> None:
    high = VolumeGrid.on_detector(GRID.shape, GRID.spacing_mm, gap_mm=700.0)
    with pytest.raises(GeometryError, match="expected the source above the grid's top face"):
        ask(grid=high, algorithm=BackProjection())


@pytest.mark.parametrize(
    "algorithm",
    [FilteredBackProjection(), Sart(n_sweeps=1), TvLeastSquares()],
    ids=lambda one: type(one).__name__,
)
def test_an_operator_without_views(algorithm: Algorithm) -> None:
    misfit = ProjectionMisfit(Weighting(torch.ones(20, 20, 20)), torch.ones(20, 20, 20))
    name = type(algorithm).__name__
    with pytest.raises(DuotomoError, match=rf"{name}: expected the misfit of a Projector, .*; got Weighting"):
        algorithm.run(misfit)
