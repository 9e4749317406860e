"""One visit's term of the joint misfit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from duotomo.errors import GeometryError, ShapeError
from duotomo.geometry import VolumeGrid
from duotomo.objectives.nuisance import Nuisance
from duotomo.objectives.projection_misfit import ProjectionMisfit
from duotomo.operators import LinearOperator, Warp
from duotomo.transforms import Transform
from duotomo.transforms.linearised import Linearised


@dataclass(frozen=True, kw_only=True, eq=False)
class Term:
    """Term of one visit in the joint misfit, `1/2 sum over rays of w (A T(params) f - p)^2`.

    Parameters
    ----------
    projector : LinearOperator
        A, from (z, y, x) on the moving grid to (view, v, u).
    data : torch.Tensor
        p, line integrals, (view, v, u), without unit.
    weights : torch.Tensor, optional
        w, inverse variance of each ray, (view, v, u); 1 unless given.
    nuisance : Nuisance, optional
        Standard deviations of gain and offset of the views, which are minimised out; known unless given.
    transform : Transform, optional
        T, moving_to_reference; none for the visit in whose frame the volume is.
    grid : VolumeGrid, optional
        Moving grid, which the volume is resampled to; the reference grid unless given.
    cubic : bool
        Whether T interpolates by Keys' cubic convolution instead of linearly.
    """

    projector: LinearOperator
    data: torch.Tensor = field(repr=False)
    weights: torch.Tensor | None = field(default=None, repr=False)
    nuisance: Nuisance | None = None
    transform: Transform | None = None
    grid: VolumeGrid | None = None
    cubic: bool = False


class BoundTerm:
    """A term with a known grid of the volume: `misfit(T(params) f)` and its derivatives.

    Attributes
    ----------
    misfit : ProjectionMisfit
        Of the volume resampled to the visit's frame, (z, y, x) on the moving grid.
    """

    def __init__(self, term: Term, reference: VolumeGrid, central_step: float | None) -> None:
        moving = term.grid or reference
        if term.transform is None and moving != reference:
            raise GeometryError(
                f"JointMisfit: expected a visit without a transform on the reference grid, {reference}; got "
                f"{moving}. Give it a transform, or leave its grid out."
            )
        if term.projector.domain != moving.shape:
            raise ShapeError(
                f"JointMisfit: expected a projector of volumes (z, y, x) = {moving.shape}; got "
                f"{term.projector!r}. Build it for the visit's grid."
            )
        self.misfit = ProjectionMisfit(term.projector, term.data, term.weights, nuisance=term.nuisance)
        self.transform, self.reference, self.moving = term.transform, reference, moving
        self.central_step, self.cubic = central_step, term.cubic
        self.n_params = 0 if term.transform is None else term.transform.n_params

    def warp(self, params: torch.Tensor) -> Warp | None:
        """Return T, or None for a visit in the reference frame."""
        if self.transform is None:
            return None
        return self.transform.warp(params, self.reference, self.moving, cubic=self.cubic)

    @property
    def takes_pending(self) -> bool:
        """Whether parameters may lie on the GPU of the volumes."""
        if self.transform is None or self.central_step is not None:
            return False
        return self.transform.is_linear and self.transform.control_spacing_mm is not None

    def moved(self, params: torch.Tensor) -> MovedTerm:
        """Return this term at given parameters, (n_params,), float64."""
        return MovedTerm(self, params)

    def along(self, params: torch.Tensor, volume: torch.Tensor, d_params: torch.Tensor) -> torch.Tensor:
        """Return the derivative of `T(params) f` along `d_params`."""
        return self.known.jvp(
            params,
            volume,
            d_params,
            self.reference,
            self.moving,
            central_step=self.central_step,
            cubic=self.cubic,
        )

    def pulled_back(self, params: torch.Tensor, volume: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """Return the gradient in the parameters of `<T(params) f, image>`, float64 on the CPU."""
        return self.known.vjp(
            params,
            volume,
            image,
            self.reference,
            self.moving,
            central_step=self.central_step,
            cubic=self.cubic,
        )

    def derivative_images(self, params: torch.Tensor, volume: torch.Tensor) -> torch.Tensor:
        """Return the derivatives of `T(params) f` in every parameter, (parameter, z, y, x)."""
        return self.known.derivative_images(
            params, volume, self.reference, self.moving, central_step=self.central_step, cubic=self.cubic
        )

    @property
    def known(self) -> Transform:
        """The transform of a term that has one."""
        assert self.transform is not None
        return self.transform


class MovedTerm:
    """A term with a transform at given parameters: its warp, and what waits for the gradient in these."""

    def __init__(self, term: BoundTerm, params: torch.Tensor) -> None:
        self._term, self._params = term, params if params.is_cuda else term.known.check(params)
        grids = term.reference, term.moving
        self._linearised: Linearised | None = None
        if term.central_step is None:
            self._linearised = Linearised(term.known, self._params, *grids, cubic=term.cubic)
        self.warp = term.warp(params) if self._linearised is None else self._linearised.warp

    def along(self, volume: torch.Tensor, d_params: torch.Tensor) -> torch.Tensor:
        """Return the derivative of `T(params) f` along `d_params`, float64."""
        if self._linearised is None:
            return self._term.along(self._params, volume, d_params)
        return self._linearised.along(volume, d_params)

    def pulled_back(self, volume: torch.Tensor, image: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Begin with the gradient in the parameters of `<T(params) f, image>`; return what gives it."""
        if self._linearised is None:
            gradient = self._term.pulled_back(self._params, volume, image)
            return lambda: gradient
        return self._linearised.pull_back(volume, image)


def warped(warp: Warp | None, volume: torch.Tensor) -> torch.Tensor:
    """Return `T f`."""
    # Not through the operator's call: the projector looks for NaN in what comes out.
    return volume if warp is None else warp.forward(volume[None])[0]


def warped_adjoint(warp: Warp | None, image: torch.Tensor) -> torch.Tensor:
    """Return `T^T b`."""
    return image if warp is None else warp.transpose(image[None])[0]


def shown(basis: LinearOperator | None, coefficients: torch.Tensor) -> torch.Tensor:
    """Return the volume that coefficients stand for, `B f`."""
    return coefficients if basis is None else basis.forward(coefficients[None])[0]


def shown_adjoint(basis: LinearOperator | None, image: torch.Tensor) -> torch.Tensor:
    """Return `B^T b`."""
    return image if basis is None else basis.transpose(image[None])[0]
