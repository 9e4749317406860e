"""One volume and all deformations against the projections of all visits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import torch

from duotomo.errors import GeometryError, ShapeError, check_same, check_tensor
from duotomo.geometry import VolumeGrid
from duotomo.kernels.transfer import to_host
from duotomo.objectives.embedded import Embedded
from duotomo.objectives.image_misfit import checked_step
from duotomo.objectives.joint_parts import ParamsPart, VolumePart, added
from duotomo.objectives.norms import Scalar
from duotomo.objectives.objective import Objective, Pending, Product
from duotomo.objectives.term import BoundTerm, Term, shown, shown_adjoint, warped, warped_adjoint
from duotomo.operators import LinearOperator


class JointMisfit(Pending):
    """Joint misfit of one volume and the motions of all visits to the projections of all visits.

    `F(f, zeta_1, ..., zeta_K) = 1/2 sum over visits k of |sqrt(w_k) (A_k T_k(zeta_k) B f - p_k)|^2`.

    The argument is one vector `x = [f, zeta_1, ..., zeta_K]`, in the precision and on the device of the data;
    `join` makes it and `split` takes it apart. A visit without a transform has no zeta. Each visit costs one
    projector application for a value, two for a gradient, and two for a product with the curvature.

    Where a transform is not defined, because its matrix is singular or the grids do not overlap, the value is
    infinite and the gradient zero, so that a line search backs off; a curvature there is a GeometryError.

    Parameters
    ----------
    terms : sequence of Term
        The visits.
    grid : VolumeGrid
        Of the volume.
    basis : LinearOperator, optional
        B, from the volume's coefficients f to the volume, (z, y, x): the warps act on `B f`; on f itself
        unless given.
    central_step : float, optional
        Differentiate the warps by central differences of this step, in parameters; exactly unless given.

    Raises
    ------
    ShapeError
        If there are no visits, or a projector is not built for the grid of its visit.
    GeometryError
        If a visit without a transform has another grid, or `central_step` is not positive and finite.
    DtypeError, DeviceError
        If the data of the visits differ in precision or device.

    Examples
    --------
    >>> from duotomo.operators import Weighting
    >>> from duotomo.transforms import Translation
    >>> grid = VolumeGrid.on_detector((1, 1, 4), (1.0, 1.0, 1.0))
    >>> A, f = Weighting(torch.ones(1, 1, 4)), torch.tensor([[[0.0, 2.0, 4.0, 0.0]]])
    >>> moved = torch.tensor([[[2.0, 4.0, 0.0, 0.0]]])
    >>> visits = [Term(projector=A, data=f), Term(projector=A, data=moved, transform=Translation(grid))]
    >>> joint = JointMisfit(visits, grid)
    >>> zeta = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    >>> joint.value(joint.join(f, [zeta])), round(joint.value(joint.join(f, [0 * zeta])), 6)
    (0.0, 12.0)
    """

    axes = ("element",)

    def __init__(
        self,
        terms: Sequence[Term],
        grid: VolumeGrid,
        *,
        basis: LinearOperator | None = None,
        central_step: float | None = None,
    ) -> None:
        if not terms:
            raise ShapeError("JointMisfit: expected at least one visit; got none. Pass one Term per visit.")
        step = checked_step("JointMisfit", central_step)
        self.grid, self.terms, self.basis = grid, tuple(terms), basis
        self.visits = tuple(BoundTerm(term, grid, step) for term in terms)
        self._like = terms[0].data[:0]
        for term in terms[1:]:
            self._check_same("data", term.data)
        self.moving_visits = tuple(visit for visit in self.visits if visit.transform is not None)
        self.n_params = sum(visit.n_params for visit in self.visits)
        self.shape = (grid.n_voxels + self.n_params,)
        self.operators = tuple(visit.misfit.operator for visit in self.visits)

    def join(self, volume: torch.Tensor, params_list: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the joint argument, `x = [f, zeta_1, ..., zeta_K]`.

        Parameters
        ----------
        volume : torch.Tensor
            f, (z, y, x), in 1/mm.
        params_list : sequence of torch.Tensor
            zeta, (n_params,) for each visit with a transform, in order.

        Returns
        -------
        torch.Tensor
            x, (n_voxels + n_params,), in the precision and on the device of the data.

        Raises
        ------
        DuotomoError
            If volume or parameters do not fit the visits.
        """
        axes = ("z", "y", "x")
        check_tensor("JointMisfit.join", "volume", volume, shape=self.grid.shape, axes=axes, batch_ok=False)
        self._check_same("volume", volume)
        params = self.check_params(params_list)
        return torch.cat([volume.flatten(), *(row.to(self._like) for row in params)])

    def split(self, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the volume and the parameters of each visit.

        Parameters
        ----------
        x : torch.Tensor
            Joint argument, (n_voxels + n_params,).

        Returns
        -------
        volume : torch.Tensor
            f, (z, y, x), a view of x.
        params_list : list of torch.Tensor
            zeta, (n_params,) for each visit with a transform, float64 on the CPU.
        """
        self.check(x)
        self._check_same("x", x)
        n = self.grid.n_voxels
        # One transfer for all visits, if x lies on a GPU.
        params = x[n:].to(device="cpu", dtype=torch.float64)
        sizes = [visit.n_params for visit in self.moving_visits]
        return x[:n].reshape(self.grid.shape), list(params.split_with_sizes(sizes))

    def split_pending(self, x: torch.Tensor) -> tuple[torch.Tensor, list[Callable[[], torch.Tensor]]]:
        """Return the volume, and for each moving visit what waits for its parameters.

        Parameters
        ----------
        x : torch.Tensor
            Joint argument, (n_voxels + n_params,).

        Returns
        -------
        volume : torch.Tensor
            f, (z, y, x), a view of x.
        rows : list of callable
            Each returns zeta, (n_params,), float64: on the CPU, but for visits that take it from a GPU.
        """
        self.check(x)
        self._check_same("x", x)
        n = self.grid.n_voxels
        rows = x[n:].double().split_with_sizes([visit.n_params for visit in self.moving_visits])
        pairs = zip(self.moving_visits, rows, strict=True)
        return x[:n].reshape(self.grid.shape), [_later(row, visit.takes_pending) for visit, row in pairs]

    def value(self, x: torch.Tensor) -> float:
        volume, params = self.split(x)
        try:
            warps = [visit.warp(row) for visit, row in self._with_params(params)]
        except GeometryError:
            return math.inf
        visits, volume = zip(self.visits, warps, strict=True), shown(self.basis, volume)
        return sum(visit.misfit.value(warped(warp, volume)) for visit, warp in visits)

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        volume, rows = self.split_pending(x)
        params, total = iter(rows), cast(Scalar, 0.0)
        slopes: list[Callable[[], torch.Tensor]] = []
        by_volume, volume = None, shown(self.basis, volume)
        try:
            for visit in self.visits:
                # A visit without a transform keeps a GPU busy while the parameters of the others arrive.
                moved = None if visit.transform is None else visit.moved(next(params)())
                warp = None if moved is None else moved.warp
                value, image = visit.misfit.evaluate(warped(warp, volume))
                total = total + value
                if moved is not None:
                    slopes.append(moved.pulled_back(volume, image))
                by_volume = added(by_volume, warped_adjoint(warp, image))
        except GeometryError:
            return math.inf, torch.zeros_like(x)
        assert by_volume is not None
        of_volume = shown_adjoint(self.basis, by_volume).flatten()
        by_params = [slope().to(x.dtype).to(x.device, non_blocking=True) for slope in slopes]
        return total, torch.cat([of_volume, *by_params])

    def curvature(self, x: torch.Tensor) -> Product:
        """Return the Gauss-Newton product `d -> J^T w J d`, J the derivative of all `A_k T_k(zeta_k) f` in x.

        Raises
        ------
        GeometryError
            If a transform is not defined.
        """
        volume, params = self.split(x)
        visits = [(visit, row, visit.warp(row)) for visit, row in self._with_params(params)]
        volume = shown(self.basis, volume)

        def product(d: torch.Tensor) -> torch.Tensor:
            d_volume, d_params = self.split(d)
            result, slopes, rows = torch.zeros_like(d), [], iter(d_params)
            by_volume, d_volume = torch.zeros_like(volume), shown(self.basis, d_volume)
            for visit, row, warp in visits:
                image = warped(warp, d_volume)
                if warp is not None:
                    image += visit.along(row, volume, next(rows))
                image = visit.misfit.hessian_product(image)
                if warp is not None:
                    slopes.append(visit.pulled_back(row, volume, image))
                by_volume += warped_adjoint(warp, image)
            result[: self.grid.n_voxels] = shown_adjoint(self.basis, by_volume).flatten()
            self._write_params(result, slopes)
            return result

        return product

    def volume_part(self, params_list: Sequence[torch.Tensor]) -> VolumePart:
        """Return F as a function of the volume, for fixed parameters: a quadratic.

        Parameters
        ----------
        params_list : sequence of torch.Tensor
            zeta, (n_params,) for each visit with a transform, in order.

        Returns
        -------
        VolumePart
            Of f, (z, y, x).
        """
        params = self.check_params(params_list)
        visits = [(visit, visit.warp(row)) for visit, row in self._with_params(params)]
        return VolumePart(visits, self.grid, self.basis)

    def params_part(self, volume: torch.Tensor) -> ParamsPart:
        """Return the terms of F that depend on the parameters, as a function of these, for a fixed volume.

        Parameters
        ----------
        volume : torch.Tensor
            f, (z, y, x), in 1/mm.

        Returns
        -------
        ParamsPart
            Of all parameters, (n_params,).

        Raises
        ------
        ShapeError
            If no visit has a transform.
        """
        axes, where = ("z", "y", "x"), "JointMisfit.params_part"
        check_tensor(where, "volume", volume, shape=self.grid.shape, axes=axes, batch_ok=False)
        self._check_same("volume", volume)
        return ParamsPart(self.moving_visits, shown(self.basis, volume))

    def on_volume(self, objective: Objective) -> Embedded:
        """Return an objective of the volume, such as a prior, as a function of the joint argument.

        Parameters
        ----------
        objective : Objective
            Of f, (z, y, x).

        Returns
        -------
        Embedded
            Of x, (n_voxels + n_params,).
        """
        return Embedded(objective, length=self.shape[0], start=0)

    def on_params(self, index: int, objective: Objective) -> Embedded:
        """Return an objective of the parameters of one visit as a function of the joint argument.

        Parameters
        ----------
        index : int
            Of the visit among those with a transform, from 0.
        objective : Objective
            Of its parameters, (n_params,).

        Returns
        -------
        Embedded
            Of x, (n_voxels + n_params,).
        """
        sizes = [visit.n_params for visit in self.moving_visits]
        return Embedded(objective, length=self.shape[0], start=self.grid.n_voxels + sum(sizes[:index]))

    def check_params(self, params_list: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return valid parameters of each visit in float64.

        Parameters
        ----------
        params_list
            As for `join`.

        Returns
        -------
        list of torch.Tensor
            The same in float64.

        Raises
        ------
        DuotomoError
            If there are not as many as visits with a transform, or they are no parameters of these.
        """
        if len(params_list) != len(self.moving_visits):
            raise ShapeError(
                f"JointMisfit: expected parameters for {len(self.moving_visits)} visits; got "
                f"{len(params_list)}. Pass one row for each visit with a transform, in order."
            )
        pairs = zip(self.moving_visits, params_list, strict=True)
        return [visit.transform.check(row) for visit, row in pairs if visit.transform is not None]

    def _with_params(self, params: Sequence[torch.Tensor]) -> list[tuple[BoundTerm, torch.Tensor]]:
        rows, none = iter(params), torch.empty(0, dtype=torch.float64)
        return [(visit, none if visit.transform is None else next(rows)) for visit in self.visits]

    def _write_params(self, row: torch.Tensor, slopes: Sequence[torch.Tensor]) -> None:
        if slopes:
            row[self.grid.n_voxels :] = torch.cat(list(slopes)).to(row.dtype).to(row, non_blocking=True)

    def _check_same(self, name: str, tensor: torch.Tensor) -> None:
        check_same("JointMisfit", name, tensor, device=self._like.device, dtype=self._like.dtype)


def _later(row: torch.Tensor, stays: bool) -> Callable[[], torch.Tensor]:
    """Return what gives a row where it is if it stays there, and on the CPU otherwise."""
    arrive = (lambda: (row,)) if stays else to_host(row)
    return lambda: arrive()[0]
