"""How well a volume explains the projections of one visit."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError, check_same, check_tensor
from duotomo.objectives.norms import Scalar, half_norm_sq, pending_half_norm_sq
from duotomo.objectives.nuisance import Nuisance, NuisanceFilter, ViewErrors
from duotomo.objectives.objective import Pending, Product
from duotomo.operators import LinearOperator, Weighting
from duotomo.operators.counted import Counted


class ProjectionMisfit(Pending):
    """`F(f) = 1/2 sum over rays of w (A f - p)^2`.

    With w the inverse variance of each ray, this is the negative log likelihood of Gaussian noise, but for a
    constant. A value costs one application of A, a gradient one more, a curvature product two.

    With `nuisance`, every view has an unknown gain a and offset b, over which F is minimised in closed form:
    `F(f) = min over a, b of 1/2 sum of w (A f - p - b_v - a_v p)^2 + their priors`, which is quadratic in f
    as well, `F(f) = 1/2 |R sqrt(w) (A f - p)|^2`. R is that of `NuisanceFilter`, and 1 otherwise.

    Parameters
    ----------
    operator : LinearOperator
        A, from (z, y, x) to (view, v, u), or any other.
    data : torch.Tensor
        p, (view, v, u): line integrals, of the operator's range.
    weights : torch.Tensor, optional
        w, of the shape of the data; 1 unless given. Zero leaves a ray out.
    nuisance : Nuisance, optional
        Standard deviations of gains and offsets of the views, the first axis of the data. Unless given, or if
        all are zero, the exposure of every view is known.

    Raises
    ------
    ShapeError, DtypeError, DeviceError, NonFiniteError
        If data or weights do not fit the operator or each other, or there are nuisance parameters and no
        axis besides that of the views.
    DuotomoError
        If a weight is negative.

    Examples
    --------
    >>> from duotomo.operators import Weighting
    >>> misfit = ProjectionMisfit(Weighting(torch.tensor([1.0, 2.0])), torch.tensor([1.0, 1.0]))
    >>> misfit.value_and_gradient(torch.tensor([1.0, 1.0])), misfit.applications
    ((0.5, tensor([0., 2.])), 2)
    """

    def __init__(
        self,
        operator: LinearOperator,
        data: torch.Tensor,
        weights: torch.Tensor | None = None,
        *,
        nuisance: Nuisance | None = None,
    ) -> None:
        self.operator = Counted.of(operator)
        self.data, self.weights = data, weights
        self.shape, self.axes, self.operators = operator.domain, operator.domain_axes, (self.operator,)
        where, shape, axes = type(self).__name__, operator.range, operator.range_axes
        check_tensor(where, "data", data, shape=shape, axes=axes, batch_ok=False)
        self._roots: torch.Tensor | None = None
        if weights is not None:
            check_tensor(where, "weights", weights, shape=shape, axes=axes, batch_ok=False)
            check_same(where, "weights", weights, device=data.device, dtype=data.dtype)
            check_not_negative(where, "weights", weights)
            self._roots = weights.sqrt()
        self.nuisance = None if nuisance is None or nuisance.is_known else nuisance
        self._filter = None if self.nuisance is None else NuisanceFilter(self.nuisance, data, self._roots)

    def check(self, x: torch.Tensor, name: str = "x") -> None:
        super().check(x, name)
        check_same(type(self).__name__, name, x, device=self.data.device, dtype=self.data.dtype)

    def residual(self, x: torch.Tensor) -> torch.Tensor:
        """Return what F sums the squares of.

        Parameters
        ----------
        x : torch.Tensor
            f, of the operator's domain.

        Returns
        -------
        torch.Tensor
            `R sqrt(w) (A x - p)`, of the operator's range.
        """
        residual = self._weighted_residual(x)
        return residual if self._filter is None else self._filter.apply_(residual)

    def columns(self, directions: torch.Tensor) -> torch.Tensor:
        """Return the derivatives of the residual along a batch of directions.

        Parameters
        ----------
        directions : torch.Tensor
            d, (..., *domain).

        Returns
        -------
        torch.Tensor
            `R sqrt(w) A d`, (..., *range).
        """
        images = self.operator(directions)
        if self._roots is not None:
            images *= self._roots
        return images if self._filter is None else self._filter.apply_(images)

    def columns_adjoint(self, rays: torch.Tensor) -> torch.Tensor:
        """Return the adjoint of `columns`.

        Parameters
        ----------
        rays : torch.Tensor
            b, (batch, *range); overwritten.

        Returns
        -------
        torch.Tensor
            `A^T sqrt(w) R^T b`, (batch, *domain).
        """
        if self._filter is not None:
            self._filter.apply_(rays)
        if self._roots is not None:
            rays *= self._roots
        return self.operator.transpose(rays)

    def view_errors(self, x: torch.Tensor) -> ViewErrors:
        """Return the gains and offsets of the views that explain the data best, given a volume.

        They are those over which F is minimised, their priors included, at one application of A.

        Parameters
        ----------
        x : torch.Tensor
            f, of the operator's domain.

        Returns
        -------
        ViewErrors
            Gains and offsets, (view,), such that `A x` is near `(1 + a) p + b`.

        Raises
        ------
        DuotomoError
            If there are no nuisance parameters.
        """
        if self._filter is None:
            raise DuotomoError(
                "ProjectionMisfit.view_errors: expected a misfit with nuisance parameters; got one whose "
                "views have known gains and offsets. Pass nuisance=Nuisance(offset=..., gain=...)."
            )
        return self._filter.errors(self._weighted_residual(x))

    def whitened(self) -> tuple[LinearOperator, torch.Tensor]:
        """Return F as a least-squares problem, `F(x) = 1/2 |B x - b|^2`.

        Returns
        -------
        operator : LinearOperator
            `B = R sqrt(W) A`, which counts its applications here.
        data : torch.Tensor
            `b = R sqrt(w) p`, of the shape of the data.
        """
        operator: LinearOperator = self.operator
        data = self.data
        if self._roots is not None:
            operator, data = Weighting(self._roots) @ operator, self._roots * data
        if self._filter is not None:
            operator, data = self._filter @ operator, self._filter(data)
        return operator, data

    def value(self, x: torch.Tensor) -> float:
        return half_norm_sq(self.residual(x))

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        residual = self.residual(x)
        value = pending_half_norm_sq(residual)
        if self._filter is not None:
            self._filter.apply_(residual)
        if self._roots is not None:
            residual *= self._roots
        return value, self._transposed(residual)

    def curvature(self, x: torch.Tensor) -> Product:
        """Return `hessian_product`, wherever x is."""
        return self.hessian_product

    def hessian_product(self, d: torch.Tensor) -> torch.Tensor:
        """Return the product of the Hessian, which is the same everywhere, with a direction.

        Parameters
        ----------
        d : torch.Tensor
            Of the operator's domain.

        Returns
        -------
        torch.Tensor
            `A^T w A d`, or `A^T sqrt(w) R^T R sqrt(w) A d`.
        """
        self.check(d, "d")
        image = self.operator(d)
        if self._filter is None:
            if self.weights is not None:
                image *= self.weights
            return self._transposed(image)
        if self._roots is not None:
            image *= self._roots
        self._filter.apply_(image, twice=True)
        if self._roots is not None:
            image *= self._roots
        return self._transposed(image)

    def _weighted_residual(self, x: torch.Tensor) -> torch.Tensor:
        """Return `sqrt(w) (A x - p)`, a new tensor."""
        self.check(x)
        residual = self.operator(x).sub_(self.data)
        return residual if self._roots is None else residual.mul_(self._roots)

    def _transposed(self, projections: torch.Tensor) -> torch.Tensor:
        # Not through the adjoint's call, which would look for NaN in what was made of checked numbers.
        return self.operator.transpose(projections[None])[0]


def check_not_negative(where: str, name: str, weights: torch.Tensor) -> None:
    """Raise if a weight is negative."""
    lowest = float(weights.min())
    if lowest < 0:
        raise DuotomoError(
            f"{where}: expected {name} >= 0; got {lowest:.6g} among them. Use zero to leave an element out."
        )


def photon_weights(projections: torch.Tensor, photons: float) -> torch.Tensor:
    """Return the inverse variance of each ray of `p = -log(n / photons)`, `w = photons exp(-p)`.

    n, the photons counted behind the object, has a Poisson distribution, so the variance of its logarithm is
    1 / n to first order.

    Parameters
    ----------
    projections : torch.Tensor
        p, (view, v, u), or any shape.
    photons : float
        That would reach a pixel in air.

    Returns
    -------
    torch.Tensor
        w, of the shape of the projections.

    Raises
    ------
    DuotomoError
        If `photons` is not positive, or infinite.

    Examples
    --------
    >>> photon_weights(torch.tensor([0.0, 0.6931472]), 1000.0)
    tensor([1000.,  500.])
    """
    if not 0 < photons < math.inf:
        raise DuotomoError(
            f"photon_weights: expected photons > 0 and finite; got {photons}. "
            f"Pass the mean count of a pixel that sees only air."
        )
    check_tensor("photon_weights", "projections", projections, shape=(), axes=())
    return torch.exp(-projections).mul_(photons)
