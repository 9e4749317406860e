"""Curvature of the joint objective along the parameters of the motions, with the volume profiled out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

import torch

from duotomo.methods.problem import Problem
from duotomo.objectives.term import BoundTerm, shown, warped
from duotomo.operators import Warp
from duotomo.solvers.batched_cg import solve_batch

TOLERANCE, N_STEPS = 0.1, 30
"""Of the solves for the volume: how far a residual falls, and steps at most.

The form below is off by the square of what a solve leaves.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProfiledColumns:
    """What directions of the parameters change, once the volume has followed them as far as it can.

    Parameters
    ----------
    rays : torch.Tensor
        Change of the whitened residuals of all visits, (direction, ray).
    volumes : torch.Tensor
        Change of the volume, (direction, z, y, x).
    priors : torch.Tensor
        The curvature of the volume's priors times that change, (direction, z, y, x).
    """

    rays: torch.Tensor = field(repr=False)
    volumes: torch.Tensor = field(repr=False)
    priors: torch.Tensor = field(repr=False)


class ProfiledCurvature:
    """The Schur complement `S = H_zz - H_zf H_ff^-1 H_fz` of the volume in the joint curvature, matrix-free.

    H is the Gauss-Newton curvature of the misfit with that of the volume's priors. With `y = H_ff^-1 H_fz d`,
    found by conjugate gradients, `d^T S d` is the joint curvature of `(-y, d)`: a sum of squares, so that an
    inexact y makes S too large, by the square of its error, and never indefinite.

    Parameters
    ----------
    problem : Problem
        Of one level.
    volume : torch.Tensor
        f, (z, y, x), where the curvature is taken.
    params : sequence of torch.Tensor
        zeta of each moving visit.
    tolerance, n_steps
        Of the solves.
    """

    def __init__(
        self,
        problem: Problem,
        volume: torch.Tensor,
        params: Sequence[torch.Tensor],
        *,
        tolerance: float = TOLERANCE,
        n_steps: int = N_STEPS,
    ) -> None:
        misfit = problem.misfit
        self._basis, self._tolerance, self._n_steps = misfit.basis, tolerance, n_steps
        self.volume, self._shown = volume, shown(misfit.basis, volume)
        self.params = misfit.check_params(params)
        rows = iter(self.params)
        self._visits: list[tuple[BoundTerm, torch.Tensor | None, Warp | None]] = []
        for visit in misfit.visits:
            row = None if visit.transform is None else next(rows)
            self._visits.append((visit, row, None if row is None else visit.warp(row)))
        self._prior_products = [prior.curvature(volume) for prior in problem.volume_priors]
        self._precondition = problem.volume_preconditioner(volume, params)
        self.sizes = [len(row) for row in self.params]
        self.n_params = sum(self.sizes)

    def with_steps(self, n_steps: int) -> ProfiledCurvature:
        """Return the same with other steps of its solves; fewer make the curvature larger."""
        other = copy(self)
        other._n_steps = n_steps
        return other

    def key(self, directions: torch.Tensor) -> str:
        """Return the SHA-256 of all that solves for directions depend on beside the problem."""
        digest = hashlib.sha256(f"{self._tolerance!r} {self._n_steps}".encode())
        for values in (self.volume, *self.params, directions):
            array = values.detach().cpu().contiguous().numpy()
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(array.data)
        return digest.hexdigest()

    def columns(self, directions: torch.Tensor) -> ProfiledColumns:
        """Return what directions in all parameters, (direction, n_params), change."""
        images = self._images(directions)
        pull = self.volume.new_zeros(len(directions), *self.volume.shape)
        for (visit, _, warp), image in zip(self._visits, images, strict=True):
            if warp is not None and image is not None:
                pull += warp.transpose(visit.misfit.columns_adjoint(visit.misfit.columns(image)))
        change = -solve_batch(
            self._product,
            self._coefficients(pull),
            precondition=self._precondition,
            n_steps=self._n_steps,
            tolerance=self._tolerance,
        )
        rays = []
        for (visit, _, warp), image in zip(self._visits, images, strict=True):
            own = self._seen(change, warp)
            rays.append(visit.misfit.columns(own if image is None else own + image).flatten(1))
        return ProfiledColumns(rays=torch.cat(rays, dim=1), volumes=change, priors=self._of_priors(change))

    def _product(self, volumes: torch.Tensor) -> torch.Tensor:
        """Return `H_ff d` of a batch of volumes."""
        total = torch.zeros_like(volumes)
        for visit, _, warp in self._visits:
            image = visit.misfit.columns_adjoint(visit.misfit.columns(self._seen(volumes, warp)))
            total += image if warp is None else warp.transpose(image)
        return self._coefficients(total) + self._of_priors(volumes)

    def _of_priors(self, volumes: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(volumes)
        for product in self._prior_products:
            for one, row in zip(volumes, total, strict=True):
                row += product(one)
        return total

    def _seen(self, volumes: torch.Tensor, warp: Warp | None) -> torch.Tensor:
        """Return volumes of coefficients as a visit sees them."""
        values = volumes if self._basis is None else self._basis.forward(volumes)
        return values if warp is None else warp.forward(values)

    def _coefficients(self, images: torch.Tensor) -> torch.Tensor:
        return images if self._basis is None else self._basis.transpose(images)

    def products(self, directions: torch.Tensor) -> torch.Tensor:
        """Return `S d` of directions, (direction, n_params), float64 on the CPU."""
        rays = self.split(self.columns(directions).rays)
        parts = []
        for (visit, row, _), own in zip(self._visits, rays, strict=True):
            if row is not None:
                images = visit.misfit.columns_adjoint(own.clone())
                parts.append(torch.stack([visit.pulled_back(row, self._shown, image) for image in images]))
        return torch.cat(parts, dim=1).cpu()

    def residuals(self) -> torch.Tensor:
        """Return the whitened residuals of all visits, in a row."""
        rows = [visit.misfit.residual(warped(warp, self._shown)).flatten() for visit, _, warp in self._visits]
        return torch.cat(rows)

    def split(self, rays: torch.Tensor) -> list[torch.Tensor]:
        """Return rays in a row as those of each visit, (..., view, v, u)."""
        shapes = [visit.misfit.data.shape for visit, _, _ in self._visits]
        parts = rays.split_with_sizes([shape.numel() for shape in shapes], dim=-1)
        lead = rays.shape[:-1]
        return [part.reshape(*lead, *shape) for part, shape in zip(parts, shapes, strict=True)]

    def _images(self, directions: torch.Tensor) -> list[torch.Tensor | None]:
        """Return how the volume, as each visit sees it, moves along directions; None for the reference."""
        parts = iter(directions.double().cpu().split_with_sizes(self.sizes, dim=1))
        found: list[torch.Tensor | None] = []
        for visit, row, _ in self._visits:
            if row is None:
                found.append(None)
                continue
            found.append(torch.stack([visit.along(row, self._shown, along) for along in next(parts)]))
        return found
