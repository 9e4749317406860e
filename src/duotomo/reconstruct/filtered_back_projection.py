"""Filtered back projection for a limited arc over a flat object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid, pixel_to_world
from duotomo.objectives import ProjectionMisfit
from duotomo.reconstruct._rays import check_seen, half_square, projector_of, quotient, refuse_start
from duotomo.reconstruct.algorithm import Algorithm
from duotomo.solvers import History, Solution, Status
from duotomo.solvers.history import OnStep
from duotomo.solvers.iterate import IterateStore

Floats = NDArray[np.float64]


def ramp(share: torch.Tensor) -> torch.Tensor:
    """Return ones: the ramp as it is, sharpest and noisiest.

    Parameters
    ----------
    share : torch.Tensor
        Frequencies as shares of the highest.

    Returns
    -------
    torch.Tensor
        Gain at each of them.

    Examples
    --------
    >>> ramp(torch.tensor([0.0, 0.5, 1.0]))
    tensor([1., 1., 1.])
    """
    return torch.ones_like(share)


def hann(share: torch.Tensor) -> torch.Tensor:
    """Return `cos^2(pi share / 2)`: half at half the highest frequency, nothing at the highest.

    Parameters
    ----------
    share
        As for `ramp`.

    Returns
    -------
    torch.Tensor
        As there.

    Examples
    --------
    >>> hann(torch.tensor([0.0, 0.5, 1.0])).round(decimals=6)
    tensor([1.0000, 0.5000, 0.0000])
    """
    return torch.cos(share * (torch.pi / 2)) ** 2


@dataclass(frozen=True, kw_only=True)
class FilteredBackProjection(Algorithm):
    """Weight by the cosine, filter along u in each view, and take the mean over the views.

    For rays of slope `t = dx/dz`, `p cos(gamma) = integral of f(x + t z, z) dz`, gamma the ray's angle with
    z. Its transform along x is F(k, -k t), so that over slopes of range T

        f = integral over t and k of |k| P(k, t) e^(2 pi i k (x - t z)) = T * mean over t of (|k| filtered P).

    At low k the views do not separate depths, and |k| would take the mean attenuation away. What does not
    change over the thickness D of the object is seen in its middle slice through the transfer

        H(k) = mean over t of D sinc(D k t),  which is D at k = 0 and tends to 1 / (T |k|) from 1 / (T D) on.

    So the filter is `window(k / highest k) / H(M k)`, with D the grid's thickness, k in cycles per mm on the
    detector and M the magnification at the grid's middle: the ramp of full-angle tomography with a floor of
    1 / D. A wide even slab of thickness d and attenuation a comes back as `a d / D`, whose sum over depth is
    right. Views count by their share of T. M changes with height, by a few percent from the middle to the
    top; that is left out. u must run along the tube's travel. Values may be negative.

    Parameters
    ----------
    window : callable
        `hann`, `ramp`, or any function of the share of the highest frequency.

    Examples
    --------
    >>> from duotomo.reconstruct import ramp
    >>> sharpest = FilteredBackProjection(window=ramp)
    """

    window: Callable[[torch.Tensor], torch.Tensor] = hann

    @torch.no_grad()
    def run(
        self,
        misfit: ProjectionMisfit,
        start: torch.Tensor | None = None,
        on_step: OnStep | None = None,
        store: IterateStore | None = None,
    ) -> Solution:
        """Filter and project back, in one step. A start and weights are refused.

        In the history, objective is `1/2 |A f - p|^2`.
        """
        where = "FilteredBackProjection"
        refuse_start(where, start)
        if misfit.weights is not None:
            raise DuotomoError(
                f"{where}: expected no weights; got some. A filter treats all rays alike: leave them out, "
                f"or choose an iterative algorithm."
            )
        projector, operator, projections = projector_of(where, misfit), misfit.operator, misfit.data
        history = History(lambda: misfit.applications, on_step)
        history.start(objective=half_square(projections, None))
        shares, slopes = _slope_shares(projector.grid, projector.acquisition)
        per_view = torch.as_tensor(shares).to(projections)[:, None, None]
        filtered = self._filter(projector.grid, projector.acquisition, projections, slopes).mul_(per_view)
        total = operator.adjoint(per_view.expand(projections.shape).contiguous())
        check_seen(where, total)
        volume = quotient(operator.adjoint(filtered), total)
        value = half_square(operator(volume).sub_(projections), None)
        history.add(objective=value, step_size=1.0)
        return history.solution(volume, Status.CONVERGED, "A direct method: there is nothing to repeat.")

    def _filter(
        self, grid: VolumeGrid, acquisition: Acquisition, projections: torch.Tensor, slopes: float
    ) -> torch.Tensor:
        """Return the projections, weighted by the cosine and filtered along u, (view, v, u)."""
        n_u, d_u = projections.shape[-1], acquisition.pixel_spacing_mm[1]
        # Edges are continued on both sides: a view that the detector cuts off has no false border.
        n_padded = 3 * n_u
        at = torch.arange(n_padded, device=projections.device).sub_(n_u).clamp_(0, n_u - 1)
        frequencies = torch.fft.rfftfreq(n_padded, d=d_u, dtype=torch.float64, device=projections.device)
        window = self.window(frequencies * (2 * d_u))
        middle_mm, thickness_mm = grid.center_mm[0], grid.size_mm[0]
        filtered = torch.empty_like(projections)
        for view, (image, out) in enumerate(zip(projections, filtered, strict=True)):
            one = acquisition[view]
            height_mm = one.sources_mm[0, 2]
            magnification = (height_mm - one.detector_centers_mm[0, 2]) / (height_mm - middle_mm)
            gain = window / _transfer(frequencies * magnification, slopes, thickness_mm)
            weighted = image * torch.as_tensor(_cosines(one)).to(image)
            spectrum = torch.fft.rfft(weighted[:, at], dim=-1) * gain.to(image)
            out[:] = torch.fft.irfft(spectrum, n=n_padded, dim=-1)[:, n_u : 2 * n_u]
        return filtered


def _transfer(frequencies: torch.Tensor, slopes: float, thickness_mm: float) -> torch.Tensor:
    """Return the mean of `D sinc(D k t)` over the slopes `-T / 2 <= t <= T / 2`, in mm, (frequency,)."""
    turns = frequencies * (slopes * thickness_mm / 2)
    n_points = 64 + 8 * int(turns.max())
    middles = (torch.arange(n_points, dtype=torch.float64, device=turns.device) + 0.5) / n_points
    return thickness_mm * torch.sinc(turns[:, None] * middles).mean(dim=1)


def _slope_shares(grid: VolumeGrid, acquisition: Acquisition) -> tuple[Floats, float]:
    """Return each view's share of the range of slopes at the grid's middle, (view,), and that range T.

    A view stands for the slopes half way to its neighbours; an outer one for as much on its outer side.
    """
    z_mm, _, x_mm = grid.center_mm
    sources_mm = acquisition.sources_mm
    slopes = (sources_mm[:, 0] - x_mm) / (sources_mm[:, 2] - z_mm)
    order = np.argsort(slopes, kind="stable")
    gaps = np.diff(slopes[order])
    if not gaps.sum() > 0:
        return np.full(len(slopes), 1 / len(slopes)), 0.0
    widths = np.empty(len(slopes))
    widths[order] = (np.append(gaps[0], gaps) + np.append(gaps, gaps[-1])) / 2
    return widths / widths.sum(), float(widths.sum())


def _cosines(one_view: Acquisition) -> Floats:
    """Return the cosine of the angle between each pixel's ray and z, (v, u)."""
    n_v, n_u = one_view.detector_shape
    index = np.stack(np.meshgrid(np.arange(n_v), np.arange(n_u), indexing="ij"), axis=-1)
    rays: Floats = one_view.sources_mm[0] - pixel_to_world(one_view, index)[0]
    cosines: Floats = rays[..., 2] / np.linalg.norm(rays, axis=-1)
    return cosines
