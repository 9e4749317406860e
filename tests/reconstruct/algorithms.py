"""Every algorithm once, with a bound on its error for the visit of the tests; a zero volume has 1."""

from __future__ import annotations

from duotomo.reconstruct import (
    Algorithm,
    BackProjection,
    FilteredBackProjection,
    LeastSquares,
    MlConvex,
    Sart,
    TvLeastSquares,
)

DIRECT: dict[str, tuple[Algorithm, float]] = {
    "back projection": (BackProjection(), 0.35),
    "filtered back projection": (FilteredBackProjection(), 0.3),
}
ITERATIVE: dict[str, tuple[Algorithm, float]] = {
    "SART": (Sart(n_sweeps=4), 0.15),
    "SART, unconstrained": (Sart(n_sweeps=3, relaxation=0.5, nonnegative=False), 0.2),
    "CGLS": (LeastSquares(n_steps=8), 0.2),
    "ML-convex": (MlConvex(n_steps=25), 0.2),
    "total variation": (TvLeastSquares(n_steps=80), 0.12),
}
EVERY = DIRECT | ITERATIVE
