"""What pulls at a breast beside the plates' push: its weight, and friction on the plates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from duotomo.errors import GeometryError
from duotomo.mechanics.mesh import BodyMesh, Floats


@dataclass(frozen=True, kw_only=True)
class Forces:
    """Gravity, and Coulomb's friction between skin and plates.

    Parameters
    ----------
    gravity_per_mm : float
        Weight per volume over the shear modulus of fat, `rho g / mu`: 9.8e-6 N/mm^3 over 1e-3 N/mm^2 is about
        0.01 / mm. The body at rest is that without weight.
    down : tuple of float
        Where weight pulls, (x, y, z) in the machine frame, of any length. Of a patient who stands upright, in
        a view for which the breast is turned by `roll_rad` a, it is `(-sin a, 0, -cos a)`.
    friction : float
        The coefficient: 0 is a slippery plate, and with a large one skin stays where it first met the plate.
        The plates close in six loads; between two of them skin goes a straight way.
    creep_mm : float
        Slip below which skin creeps rather than slides, `s / sqrt(s^2 + creep_mm^2)` of the full friction.

    Examples
    --------
    >>> Forces(gravity_per_mm=0.01, down=(1.0, 0.0, -1.0)).pull_per_mm.round(4).tolist()
    [0.0071, 0.0, -0.0071]
    """

    gravity_per_mm: float = 0.0
    down: tuple[float, float, float] = (0.0, 0.0, -1.0)
    friction: float = 0.0
    creep_mm: float = 0.5

    def __post_init__(self) -> None:
        for name in ("gravity_per_mm", "friction"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise GeometryError(f"Forces: expected {name} >= 0; got {value}. 0 leaves it out.")
        if not 0 < self.creep_mm < math.inf:
            raise GeometryError(f"Forces: expected creep_mm > 0; got {self.creep_mm}. 0.5 mm is usual.")
        if not 0 < math.hypot(*self.down) < math.inf:
            raise GeometryError(
                f"Forces: expected a direction down, (x, y, z); got {self.down}. (0, 0, -1) is towards the "
                f"detector."
            )

    @property
    def pull_per_mm(self) -> Floats:
        """The weight per volume, (xyz,), over the shear modulus of fat."""
        return self.gravity_per_mm * np.asarray(self.down, dtype=np.float64) / math.hypot(*self.down)

    def weight_of(self, mesh: BodyMesh, fill: Floats | None = None) -> Floats | None:
        """Return the weight at the nodes of a body.

        Parameters
        ----------
        mesh : BodyMesh
            In the machine frame.
        fill : numpy.ndarray, optional
            The share of tissue, (element, point), where not all is.

        Returns
        -------
        numpy.ndarray or None
            (node, xyz), in shear moduli of fat times mm^2; none without gravity.
        """
        if self.gravity_per_mm == 0:
            return None
        volumes = mesh.weights if fill is None else mesh.weights * fill
        at_nodes = np.bincount(
            mesh.elements.reshape(-1),
            weights=np.reshape(volumes @ mesh.shapes, -1),
            minlength=len(mesh.nodes_mm),
        )
        weight: Floats = at_nodes[:, None] * self.pull_per_mm
        return weight
