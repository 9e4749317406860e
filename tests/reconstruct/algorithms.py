"""Every algorithm once, with a bound on its error for the visit of the tests; a zero volume has 1."""

from __future__ import annotations

from duotomo.reconstruct import (
    Algorithm,
    BackProjection,
    Cgls,
    FilteredBackProjection,
    Mlem,
    Sart,
    TotalVariation,
)

DIRECT: dict[str, tuple[Algorithm, float]] = {
    "back projection": (BackProjection(), 0.35),
    "filtered back projection": (FilteredBackProjection(), 0.3),
}
ITERATIVE: dict[str, tuple[Algorithm, float]] = {
    "SART": (Sart(n_sweeps=4), 0.15),
    "SART, unconstrained": (Sart(n_sweeps=3, relaxation=0.5, nonnegative=False), 0.2),
    "CGLS": (Cgls(n_steps=8), 0.2),
    "MLEM": (Mlem(n_steps=25), 0.2),
    "total variation": (TotalVariation(n_steps=80), 0.12),
}
EVERY = DIRECT | ITERATIVE
