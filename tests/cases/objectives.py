"""Every kind of objective, once. A new objective is one more line in `objectives`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from duotomo.objectives import (
    Bending,
    CrossCorrelation,
    ImageMisfit,
    JointMisfit,
    LocalCorrelation,
    Nonnegativity,
    Objective,
    ProjectionMisfit,
    Smoothness,
    SumOfSquares,
    Term,
    Tikhonov,
    TotalVariation,
)
from duotomo.objectives.priors.folding import FoldingPenalty
from duotomo.objectives.spline_misfit import SplineMisfit
from duotomo.operators import Projector, SplineBasis
from duotomo.transforms import Affine, BSpline, Rigid, Transform, Translation
from tests.cases.operators import sweep, turned_sweep
from tests.cases.transforms import MOVING, REFERENCE, draw_params, normal

Build = Callable[[torch.dtype, str], Objective]

DOUBLE = torch.float64
SPLINE = BSpline.over(REFERENCE, (4, 4, 5))


@dataclass(frozen=True, kw_only=True)
class ObjectiveCase:
    """An objective, and what is promised of it.

    build: from precision and device. at: where to look, float64; parameters stay in it whatever the
    precision of the volumes. quadratic: whether the curvature is the Hessian everywhere.
    """

    name: str
    build: Build
    at: torch.Tensor
    quadratic: bool = False
    of_params: bool = False

    def start(self, dtype: torch.dtype = DOUBLE, device: str = "cpu") -> torch.Tensor:
        """Return where to look, in the precision and on the device that the objective wants."""
        return self.at.clone() if self.of_params else self.at.to(device, dtype)


def volume(seed: int, shape: tuple[int, ...] = REFERENCE.shape) -> torch.Tensor:
    """Return a volume of signed normal numbers."""
    return normal(shape, seed=seed)


def visits(
    dtype: torch.dtype = DOUBLE,
    device: str = "cpu",
    *,
    truth: torch.Tensor | None = None,
    params: list[torch.Tensor] | None = None,
    second: Transform | None = None,
) -> list[Term]:
    """Return three visits of different acquisitions, the first of them the reference.

    The second has a moving grid of its own, the third is weighted. truth and params: what to make the data
    of; None for data that nothing explains.
    """
    first = Projector(grid=REFERENCE, acquisition=sweep())
    tilting = Projector(grid=MOVING, acquisition=sweep(n_views=2, tilt_rad=math.radians(10)))
    turned = Projector(grid=REFERENCE, acquisition=turned_sweep((0, 1, 0), (-1, 0, 0)))
    rigid = second or Rigid(REFERENCE)
    if truth is None or params is None:
        data = [normal(a.range, seed=50 + i) for i, a in enumerate((first, tilting, turned))]
    else:
        data = [
            first(truth),
            tilting(rigid.warp(params[0], REFERENCE, MOVING)(truth)),
            turned(SPLINE.warp(params[1])(truth)),
        ]
    weights = normal(turned.range, seed=60).square()
    p1, p2, p3, w = (values.to(device, dtype) for values in (*data, weights))
    return [
        Term(projector=first, data=p1),
        Term(projector=tilting, data=p2, transform=rigid, grid=MOVING),
        Term(projector=turned, data=p3, weights=w, transform=SPLINE),
    ]


def visit_params(seed: int = 7) -> list[torch.Tensor]:
    """Return parameters for the second and the third of the visits."""
    rigid = draw_params(Rigid(REFERENCE), seed=seed, size_voxels=0.7, turn_deg=20.0)
    return [rigid, draw_params(SPLINE, seed=seed + 1, size_voxels=0.5)]


def joint(dtype: torch.dtype = DOUBLE, device: str = "cpu") -> JointMisfit:
    """Return the joint misfit of three visits."""
    return JointMisfit(visits(dtype, device), REFERENCE)


def joint_of_spline(dtype: torch.dtype = DOUBLE, device: str = "cpu") -> JointMisfit:
    """Return the joint misfit of a volume of spline coefficients, with warps by cubic convolution."""
    terms = [replace(term, cubic=True) for term in visits(dtype, device)]
    return JointMisfit(terms, REFERENCE, basis=SplineBasis(REFERENCE))


def projection_misfit(*, weighted: bool) -> Build:
    """Return what builds the misfit of one visit."""

    def build(dtype: torch.dtype, device: str) -> Objective:
        projector = Projector(grid=REFERENCE, acquisition=sweep())
        weights = normal(projector.range, seed=2).square().to(device, dtype) if weighted else None
        return ProjectionMisfit(projector, normal(projector.range, seed=1).to(device, dtype), weights)

    return build


def image_misfit(
    kind: type[SumOfSquares] | type[CrossCorrelation],
    transform: Transform,
    *,
    masked: bool = False,
) -> Build:
    """Return what builds the misfit of a registration between two grids."""

    def build(dtype: torch.dtype, device: str) -> Objective:
        moving = [volume(seed, MOVING.shape).to(device, dtype) for seed in (4, 5)]
        return kind(
            transform,
            volume(3).to(device, dtype) + 0.5,
            moving[0],
            reference=REFERENCE,
            moving=MOVING,
            mask=moving[1].clamp(min=0) if masked else None,
        )

    return build


def by_axes(
    kind: type[SumOfSquares] | type[CrossCorrelation], spline: Transform, *, masked: bool = False
) -> Build:
    """Return what builds the misfit of a B-spline, differentiated axis by axis."""
    whole = image_misfit(kind, spline, masked=masked)

    def build(dtype: torch.dtype, device: str) -> Objective:
        misfit = whole(dtype, device)
        assert isinstance(misfit, ImageMisfit)
        return SplineMisfit(misfit)

    return build


def regularised(dtype: torch.dtype, device: str) -> Objective:
    """Return the joint misfit with priors on its parts."""
    misfit = joint(dtype, device)
    smooth = misfit.on_volume(TotalVariation(REFERENCE, smoothing=0.3))
    return misfit + 0.7 * smooth + 2.0 * misfit.on_params(1, Bending(SPLINE))


def objectives() -> list[ObjectiveCase]:
    """Return every case."""
    f, rows = volume(20), visit_params()
    spline, affine = draw_params(SPLINE, seed=5, size_voxels=0.5), Affine(REFERENCE)
    turn = draw_params(affine, seed=6, size_voxels=0.7, turn_deg=20.0)
    shift = 0.8 * normal((3,), seed=9)
    joint_row = torch.cat([f.flatten(), *rows])
    translation = Translation(REFERENCE)
    case = ObjectiveCase
    return [
        case(name="projections", build=projection_misfit(weighted=False), at=f, quadratic=True),
        case(name="weighted projections", build=projection_misfit(weighted=True), at=f, quadratic=True),
        case(name="squares, affine", build=image_misfit(SumOfSquares, affine), at=turn, of_params=True),
        case(
            name="squares, B-spline, masked",
            build=image_misfit(SumOfSquares, SPLINE, masked=True),
            at=spline,
            of_params=True,
        ),
        case(
            name="local correlation, B-spline",
            build=image_misfit(LocalCorrelation, SPLINE),
            at=spline,
            of_params=True,
        ),
        case(
            name="squares, B-spline by axes, masked",
            build=by_axes(SumOfSquares, SPLINE, masked=True),
            at=spline,
            of_params=True,
        ),
        case(
            name="correlation, B-spline by axes",
            build=by_axes(CrossCorrelation, SPLINE),
            at=spline,
            of_params=True,
        ),
        case(
            name="correlation, translation",
            build=image_misfit(CrossCorrelation, translation),
            at=shift,
            of_params=True,
        ),
        case(
            name="correlation, affine, masked",
            build=image_misfit(CrossCorrelation, affine, masked=True),
            at=turn,
            of_params=True,
        ),
        case(name="joint", build=joint, at=joint_row),
        case(
            name="joint, of the volume",
            build=lambda dtype, device: joint(dtype, device).volume_part(visit_params()),
            at=f,
            quadratic=True,
        ),
        case(
            name="joint, of the parameters",
            build=lambda dtype, device: joint(dtype, device).params_part(volume(20).to(device, dtype)),
            at=torch.cat(rows),
            of_params=True,
        ),
        case(name="joint, spline", build=joint_of_spline, at=joint_row),
        case(
            name="joint, spline, of the volume",
            build=lambda dtype, device: joint_of_spline(dtype, device).volume_part(visit_params()),
            at=f,
            quadratic=True,
        ),
        case(
            name="joint, spline, of the parameters",
            build=lambda dtype, device: joint_of_spline(dtype, device).params_part(
                volume(20).to(device, dtype)
            ),
            at=torch.cat(rows),
            of_params=True,
        ),
        case(name="joint with priors", build=regularised, at=joint_row),
        case(name="Tikhonov", build=lambda dtype, device: Tikhonov(REFERENCE), at=f, quadratic=True),
        case(
            name="Tikhonov about a volume",
            build=lambda dtype, device: Tikhonov(REFERENCE, volume(21).to(device, dtype)),
            at=f,
            quadratic=True,
        ),
        case(name="smoothness", build=lambda dtype, device: Smoothness(REFERENCE), at=f, quadratic=True),
        case(
            name="smoothness, depth weighted",
            build=lambda dtype, device: Smoothness(REFERENCE, depth_weight=0.4),
            at=f,
            quadratic=True,
        ),
        case(name="total variation", build=lambda dtype, device: TotalVariation(REFERENCE, 0.3), at=f),
        case(
            name="total variation, depth weighted",
            build=lambda dtype, device: TotalVariation(REFERENCE, 0.1, depth_weight=0.4),
            at=f,
        ),
        case(name="nonnegativity", build=lambda dtype, device: Nonnegativity(REFERENCE), at=f),
        case(
            # With so high a threshold, every point counts.
            name="folding",
            build=lambda dtype, device: FoldingPenalty(SPLINE, threshold=9.0),
            at=0.2 * spline,
            of_params=True,
        ),
        case(
            name="bending",
            build=lambda dtype, device: Bending(SPLINE),
            at=spline,
            quadratic=True,
            of_params=True,
        ),
        case(
            name="sum of weighted priors",
            build=lambda dtype, device: Tikhonov(REFERENCE) + 3.0 * Smoothness(REFERENCE),
            at=f,
            quadratic=True,
        ),
    ]
