"""Few edges: the smoothed, isotropic total variation."""

from __future__ import annotations

import math

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.kernels.dispatch import fused_priors
from duotomo.objectives.norms import Scalar, scalar
from duotomo.objectives.objective import Pending, Product
from duotomo.operators import Gradient


class TotalVariation(Pending):
    """`F(f) = sum over voxels of (sqrt(|D f|^2 + e^2) - e)`, e being the smoothing.

    D f is the `Gradient` of the volume: differences to the next voxel along z, y and x, each times (smallest
    spacing / spacing), so that voxels of any form are weighed by their true slope; along z also times
    `depth_weight`. Far below e, F is quadratic; far above, the length of edges times their height. It counts
    voxels, not millimetres.

    The curvature is that of lagged diffusivity, `D^T diag(1 / sqrt(|D f|^2 + e^2)) D`: it makes a quadratic
    that touches F at f and nowhere lies below it.

    Parameters
    ----------
    grid : VolumeGrid
        Grid of the volume, f, (z, y, x).
    smoothing : float
        e, in 1/mm, as f. At zero, F has values but no gradient: for the solver `PrimalDual`.
    depth_weight : float
        Factor of the differences along z.

    Raises
    ------
    DuotomoError
        If the smoothing or the depth weight is negative or not finite.

    Examples
    --------
    >>> grid = VolumeGrid.on_detector((1, 1, 4), (1.0, 1.0, 1.0))
    >>> step = torch.tensor([[[0.0, 0.0, 3.0, 3.0]]])
    >>> TotalVariation(grid, smoothing=4.0).value(step), TotalVariation(grid).value(step)
    (1.0, 3.0)
    """

    axes = ("z", "y", "x")

    def __init__(self, grid: VolumeGrid, smoothing: float = 0.0, depth_weight: float = 1.0) -> None:
        if not 0 <= smoothing < math.inf:
            raise DuotomoError(
                f"TotalVariation: expected smoothing >= 0 and finite, in 1/mm; got {smoothing}. "
                f"A hundredth of the object's attenuation keeps its edges."
            )
        self.grid, self.smoothing, self.depth_weight, self.shape = grid, smoothing, depth_weight, grid.shape
        self.differences = Gradient(grid, depth_weight=depth_weight)

    def value(self, x: torch.Tensor) -> float:
        return float(self._total(self.denominator(x)))

    def evaluate(self, x: torch.Tensor) -> tuple[Scalar, torch.Tensor]:
        self.check(x)
        self._check_smooth()
        parts = self.differences.unweighted(x)
        lengths = self.differences.lengths(parts, self.smoothing)
        for part in parts:
            part /= lengths
        return self._total(lengths), self.differences.weighted_transpose(parts)

    def add_gradient(self, x: torch.Tensor, total: torch.Tensor, factor: float = 1.0) -> Scalar:
        kernels = fused_priors(x.device)
        if kernels is None:
            return super().add_gradient(x, total, factor)
        self.check(x)
        self._check_smooth()
        scales_sq = self.differences.scales_sq
        value: torch.Tensor = kernels.add_total_variation(
            x.contiguous(), total, scales_sq, self.smoothing, factor
        )
        return value

    def curvature(self, x: torch.Tensor) -> Product:
        self._check_smooth()
        diffusivity = self.denominator(x).reciprocal_()

        def product(d: torch.Tensor) -> torch.Tensor:
            self.check(d, "d")
            parts = self.differences.unweighted(d)
            for part in parts:
                part *= diffusivity
            return self.differences.weighted_transpose(parts)

        return product

    def denominator(self, x: torch.Tensor) -> torch.Tensor:
        """Return `sqrt(|D f|^2 + e^2)`.

        Parameters
        ----------
        x : torch.Tensor
            f, (z, y, x).

        Returns
        -------
        torch.Tensor
            (z, y, x).
        """
        self.check(x)
        return self.differences.lengths(self.differences.unweighted(x), self.smoothing)

    def _check_smooth(self) -> None:
        if self.smoothing == 0:
            raise DuotomoError(
                "TotalVariation: expected smoothing > 0, without which flat regions have no gradient; got 0. "
                "Smooth by a hundredth of the object's attenuation, or use the solver PrimalDual."
            )

    def _total(self, lengths: torch.Tensor) -> Scalar:
        # Less what a flat volume has, rounded alike: a constant then has no variation, in any precision.
        flat = float(torch.full((1,), self.smoothing**2, dtype=lengths.dtype).sqrt_())
        return scalar(lengths.sum(dtype=torch.float64)) - lengths.numel() * flat
