"""Unknown gain and offset of every view, minimised out of a least-squares misfit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from duotomo.errors import DuotomoError, ShapeError
from duotomo.operators import LinearOperator

_SAME = 1e-5
"""Share by which line integrals must vary in a view for its gain to be told from its offset."""

_RANK = 1e-10
"""Singular values below this share of the largest are zero: combinations that change no ray."""


@dataclass(frozen=True, kw_only=True)
class Nuisance:
    """Standard deviations of what is not known of the exposure of each view.

    The line integrals of view v are `(1 + a_v) p + b_v`, where p are the measured ones, a the gains (beam
    energy, scatter) and b the offsets (the logarithm of the exposure). Zero: known exactly. `math.inf`: free.

    The gains of all views together cannot be told from a factor of the volume. What varies between the
    views of a visit, `gain`, is therefore taken about their mean; `mean_gain` is that mean, and is zero for
    the visit that the volume takes its unit from: the reference, or a visit that is reconstructed by itself.
    Where it is not zero in any visit, noise and priors pull the volume to zero.

    Parameters
    ----------
    offset : float
        Standard deviation of each offset b, in line integrals, without unit: 0.02 is 2 % of exposure.
    gain : float
        Standard deviation of each gain a about the mean of its visit, relative.
    mean_gain : float
        Standard deviation of the mean gain of the visit, relative.
    noise : float
        Standard deviation of a ray of weight 1, in line integrals: 1 where the weights are inverse variances,
        and the noise of the projections where there are no weights. The misfit then is sigma^2 times a
        negative log likelihood, and the priors are multiplied alike: `sigma^2 a^2 / (2 gain^2)`.

    Raises
    ------
    DuotomoError
        If a standard deviation is negative or NaN, or the noise is not positive and finite.

    Examples
    --------
    >>> Nuisance(offset=0.02).is_known, Nuisance().is_known
    (False, True)
    """

    offset: float = 0.0
    gain: float = 0.0
    mean_gain: float = 0.0
    noise: float = 1.0

    def __post_init__(self) -> None:
        for name in ("offset", "gain", "mean_gain"):
            value = getattr(self, name)
            if not value >= 0:
                raise DuotomoError(
                    f"Nuisance: expected {name} >= 0; got {value}. Pass a standard deviation: zero where it "
                    f"is known exactly, math.inf where nothing is known."
                )
        if not 0 < self.noise < math.inf:
            raise DuotomoError(
                f"Nuisance: expected noise > 0 and finite; got {self.noise}. Pass 1 with weights that are "
                f"inverse variances, and the standard deviation of the line integrals without weights."
            )

    @property
    def is_known(self) -> bool:
        """Whether gains and offsets are known exactly, so that there is nothing to find."""
        return self.offset == self.gain == self.mean_gain == 0


@dataclass(frozen=True, kw_only=True, eq=False)
class ViewErrors:
    """Gains and offsets of the views of a visit, float64 on the CPU.

    Attributes
    ----------
    gains : torch.Tensor
        a, (view,), relative: what the measured line integrals lack; -0.02 if they are 2 % too large.
    offsets : torch.Tensor
        b, (view,), in line integrals, without unit.
    """

    gains: torch.Tensor = field(repr=False)
    offsets: torch.Tensor = field(repr=False)

    def corrected(self, projections: torch.Tensor) -> torch.Tensor:
        """Return line integrals as they would be without these errors.

        Parameters
        ----------
        projections : torch.Tensor
            p, (view, ...), as measured.

        Returns
        -------
        torch.Tensor
            `(1 + a) p + b`, (view, ...).

        Examples
        --------
        >>> two = torch.tensor([0.5, 0.0], dtype=torch.float64)
        >>> ViewErrors(gains=two, offsets=-two).corrected(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[1.0000, 2.5000],
                [3.0000, 4.0000]])
        """
        shape = (-1, *(1,) * (projections.ndim - 1))
        return projections * (1 + self.gains).to(projections).view(shape) + self.offsets.to(projections).view(
            shape
        )


class NuisanceFilter(LinearOperator):
    """Symmetric factor R of a misfit without its gains and offsets, `F = 1/2 |R sqrt(W) (A f - p)|^2`.

    With U the columns `sqrt(w)` and `sqrt(w) p` of each view, and S the covariance of offsets and gains,

    `min over b, a of 1/2 |r - U (b, a)|^2 + sigma^2/2 |(b, a)|_S^2 = 1/2 r^T (I - Q D Q^T) r = 1/2 |R r|^2`,

    where Q is an orthonormal basis of U, `D = L (L^T L + sigma^2 S^-1)^-1 L^T` with `U = Q L`, and
    `R = I - Q E Q^T` with `(I - E)^2 = I - D`. D and E are small, twice as many rows as views; R costs two
    inner products per view.

    Parameters
    ----------
    nuisance : Nuisance
        Standard deviations; not all zero.
    data : torch.Tensor
        p, (view, ...).
    roots : torch.Tensor, optional
        sqrt(w), of the shape of the data; 1 unless given.

    Raises
    ------
    ShapeError
        If the data have no axis besides that of the views.
    """

    def __init__(self, nuisance: Nuisance, data: torch.Tensor, roots: torch.Tensor | None) -> None:
        if data.ndim < 2:
            raise ShapeError(
                f"NuisanceFilter: expected data (view, ...), of several rays for each view; got "
                f"{tuple(data.shape)}. Leave the nuisance parameters out, or give the views an axis."
            )
        self.domain = self.range = tuple(data.shape)
        self.domain_axes = self.range_axes = ("view", *(f"axis {i}" for i in range(1, data.ndim)))
        one = torch.ones_like(data) if roots is None else roots
        columns = [one] if nuisance.offset > 0 else []
        if nuisance.gain > 0 or nuisance.mean_gain > 0:
            columns.append(one * data)
        self._basis, factor = _orthonormal([column.flatten(1) for column in columns])
        explained, self._solve = _solved(nuisance, factor.cpu())
        # (1 - e)^2 = 1 - d, written so that nothing cancels where d is small.
        shares, vectors = torch.linalg.eigh(explained)
        shares = shares.clamp(0, 1)
        half = (vectors * (shares / (1 + (1 - shares).sqrt()))) @ vectors.T
        self._half, self._whole = (part.to(data) for part in (half, explained))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.apply_(x.clone())

    def transpose(self, y: torch.Tensor) -> torch.Tensor:
        return self.forward(y)

    def apply_(self, rays: torch.Tensor, *, twice: bool = False) -> torch.Tensor:
        """Replace weighted residuals r by `R r`.

        Parameters
        ----------
        rays : torch.Tensor
            r, (..., view, ...) with any leading batch axes; overwritten.
        twice : bool
            Apply `R^T R` instead, in one pass.

        Returns
        -------
        torch.Tensor
            The same tensor.
        """
        n_views, _, n_rays = self._basis.shape
        rows = rays.view(-1, n_views, n_rays)
        coefficients = self._coefficients(rows) @ (self._whole if twice else self._half)
        by_view = coefficients.view(len(rows), n_views, -1).transpose(0, 1)
        rows.transpose(0, 1).baddbmm_(by_view, self._basis, alpha=-1)
        return rays

    def errors(self, rays: torch.Tensor) -> ViewErrors:
        """Return the gains and offsets that minimise the misfit.

        Parameters
        ----------
        rays : torch.Tensor
            Weighted residual `sqrt(w) (A f - p)`, (view, ...).

        Returns
        -------
        ViewErrors
            Zero for what is known, and where a view without any weight says nothing.
        """
        n_views = len(self._basis)
        row = self._coefficients(rays.reshape(1, n_views, -1))[0].to(device="cpu", dtype=torch.float64)
        offsets, gains = (self._solve @ row).view(2, n_views)
        return ViewErrors(gains=gains, offsets=offsets)

    def _coefficients(self, rows: torch.Tensor) -> torch.Tensor:
        """Return `Q^T r`, (batch, view and column)."""
        # (view, batch, ray) times (view, ray, column): strided views, nothing is copied.
        found = rows.transpose(0, 1) @ self._basis.transpose(1, 2)
        return found.transpose(0, 1).reshape(len(rows), -1)


def _orthonormal(columns: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return Q, (view, column, ray), and L, (view, column, column) in float64, with `U = Q L` in each view.

    A column that adds nothing to those before it has zeros in Q and in its row of L.
    """
    n_views, n_rays = columns[0].shape
    basis = columns[0].new_zeros(n_views, len(columns), n_rays)
    factor = torch.zeros(n_views, len(columns), len(columns), dtype=torch.float64, device=basis.device)
    for j, column in enumerate(columns):
        size = torch.linalg.vector_norm(column, dim=1, dtype=torch.float64)
        left = column.clone()
        # Twice is enough for orthogonality to rounding.
        for _ in range(2):
            for i in range(j):
                along = (basis[:, i] * left).sum(1, dtype=torch.float64)
                factor[:, i, j] += along
                left -= along.to(left)[:, None] * basis[:, i]
        length = torch.linalg.vector_norm(left, dim=1, dtype=torch.float64)
        counts = length > _SAME * size
        factor[:, j, j] = torch.where(counts, length, 0.0)
        basis[:, j] = left * torch.where(counts, 1 / length, 0.0).to(left)[:, None]
    return basis, factor


def _solved(nuisance: Nuisance, factor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return D, and the matrix that takes `Q^T r` to the offsets and gains of all views."""
    n_views, n_columns, _ = factor.shape
    has_offset = nuisance.offset > 0
    eye = torch.eye(n_views, dtype=torch.float64)
    none = torch.zeros_like(eye)
    # Unknowns, each a column of (offsets, gains) and a standard deviation.
    maps, deviations = [], []
    if has_offset:
        maps.append(torch.cat([eye, none]))
        deviations += [nuisance.offset] * n_views
    if n_columns > has_offset:
        # Views without an object say nothing of their gain, and must not take the mean upon them.
        alive = (torch.linalg.vector_norm(factor[:, :, -1], dim=1) > 0).double()
        mean = torch.outer(alive, alive) / alive.sum().clamp(min=1)
        if nuisance.gain > 0:
            maps.append(torch.cat([none, torch.diag(alive) - mean]))
            deviations += [nuisance.gain] * n_views
        if nuisance.mean_gain > 0:
            maps.append(torch.cat([none[:, 0], alive])[:, None])
            deviations += [nuisance.mean_gain]
    unknowns = torch.cat(maps, dim=1)
    # L of all views at once: from (offsets, gains) to the coefficients of (view, column).
    spread = torch.zeros(n_views, n_columns, 2, n_views, dtype=torch.float64)
    for j, kind in enumerate([0, 1] if n_columns == 2 else [0 if has_offset else 1]):
        spread[torch.arange(n_views), :, kind, torch.arange(n_views)] = factor[:, :, j]
    seen = spread.view(n_views * n_columns, 2 * n_views) @ unknowns
    prior = torch.diag(nuisance.noise / torch.tensor(deviations, dtype=torch.float64))
    stacked = torch.cat([seen, prior])
    scale = torch.linalg.vector_norm(stacked, dim=0)
    scale = torch.where(scale > 0, scale, 1.0)
    left, sizes, right = torch.linalg.svd(stacked / scale, full_matrices=False)
    rank = int((sizes > _RANK * sizes[0].clamp(min=torch.finfo(torch.float64).tiny)).sum())
    top = left[: len(seen), :rank]
    solve = unknowns @ ((right[:rank].T / sizes[:rank] / scale[:, None]) @ top.T)
    return top @ top.T, solve
