"""How a body comes to rest between plates: coarse mesh first, and by several loads if one is too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from duotomo.errors import DuotomoError
from duotomo.mechanics.forces import Forces
from duotomo.mechanics.mesh import BodyMesh, Floats, library
from duotomo.mechanics.plates import Friction, Plates
from duotomo.mechanics.solver import Body, Equilibrium

_LOADS = (1, 4, 12)


@dataclass(frozen=True, kw_only=True, eq=False)
class Squeeze:
    """A body of some height between plates that come together about a point.

    middle_mm: (xyz,), on the chest wall, half way between the plates where their distance is meant.
    body_mm: (xyz,), the point that takes its place where the chest wall does not slide.
    """

    plates: Plates
    middle_mm: Floats
    body_mm: Floats
    height_mm: float
    forces: Forces = field(default_factory=Forces)

    @property
    def plain(self) -> bool:
        """Whether the plates are parallel and slippery, and nothing else pulls."""
        forces = self.forces
        return self.plates.paddle.tilt_rad == 0 and forces.friction == 0 and forces.gravity_per_mm == 0

    def stretched(self, nodes_mm: Floats) -> Floats:
        """Return nodes, (node, xyz), squeezed to lie between the plates, and wider to keep volumes."""
        paddle, gap_mm = self.plates.paddle, 2 * self.plates.half_gap_mm
        if paddle.tilt_rad == 0:
            return _stretch(nodes_mm, self.body_mm, np.asarray(gap_mm / self.height_mm))
        rise_mm = paddle.rise_mm(nodes_mm[:, 1])
        nodes = _stretch(nodes_mm, self.body_mm, (gap_mm + rise_mm) / self.height_mm)
        nodes[:, 2] += rise_mm / 2
        return nodes

    def contact(self, body: Body) -> Plates:
        """Return the plates, with friction on this body if there is any.

        A point of the skin is anchored where the stretch had it when the plates came to its height at rest.
        """
        if self.forces.friction == 0:
            return self.plates
        places = body.places(body.mesh.nodes_mm)
        heights = np.abs(places[..., 2] - self.body_mm[2]) / (self.height_mm / 2)
        met = np.clip(heights, min(2 * self.plates.half_gap_mm / self.height_mm, 1.0), 1.0)
        friction = Friction(
            coefficient=self.forces.friction,
            anchors_mm=_stretch(places, self.body_mm, met),
            creep_mm=self.forces.creep_mm,
            depth_mm=np.zeros(met.shape),
        )
        return replace(self.plates, friction=friction)

    def settled(self, body: Body, start_mm: Floats, most_steps: int) -> Equilibrium:
        """Return where a body comes to rest, from a start that may be far off."""
        plates = self.contact(body)
        near = body.approach(start_mm, plates, most_steps=most_steps)
        return body.settle(near.nodes_mm, plates, most_steps=most_steps)

    def rested(self, bodies: Sequence[Body], most_steps: int) -> Floats:
        """Return the nodes, (node, xyz), of the last body; each coarser one is the start of the next."""
        settled = self.in_loads(bodies[0], 1, most_steps)
        for coarse, fine in pairwise(bodies):
            shifts = carried(coarse.mesh, settled.nodes_mm - coarse.mesh.nodes_mm, fine.mesh)
            settled = self.settled(fine, fine.mesh.nodes_mm + shifts, most_steps)
        for n_loads in _LOADS:
            if settled.converged:
                break
            settled = self.in_loads(bodies[-1], n_loads, most_steps)
        return checked(settled, self.plates, most_steps)

    def in_loads(self, body: Body, n_loads: int, most_steps: int) -> Equilibrium:
        """Return where a body comes to rest when the plates close by equal factors, one after the other."""
        settled = Equilibrium(nodes_mm=body.mesh.nodes_mm, converged=False, n_steps=0)
        factor = (2 * self.plates.half_gap_mm / self.height_mm) ** (1 / n_loads)
        for load in range(1, n_loads + 1):
            half_gap_mm = self.plates.half_gap_mm / factor ** (n_loads - load)
            part = replace(self, plates=replace(self.plates, half_gap_mm=half_gap_mm))
            start = _stretch(settled.nodes_mm, self.middle_mm, np.asarray(factor))
            settled = part.settled(body, part.stretched(settled.nodes_mm) if load == 1 else start, most_steps)
            if not settled.converged:
                break
        return settled


def checked(settled: Equilibrium, plates: Plates, most_steps: int) -> Floats:
    """Return the nodes, (node, xyz), of a body at rest between the plates; raise if it is not."""
    if not settled.converged:
        raise DuotomoError(
            f"compress: expected forces that balance between plates {2 * plates.half_gap_mm:.6g} mm apart; "
            f"they did not after {settled.n_steps} of {most_steps} steps. Allow more most_steps, or compress "
            f"less."
        )
    return settled.nodes_mm


def carried(coarse: BodyMesh, displacements: Floats, fine: BodyMesh) -> Floats:
    """Return displacements, (node, xyz), at the nodes of a finer mesh, interpolated smoothly."""
    rbf = library("scipy.interpolate").RBFInterpolator(coarse.nodes_mm, displacements, neighbors=60)
    carried: Floats = rbf(fine.nodes_mm)
    return carried


def _stretch(points_mm: Floats, about_mm: Floats, factor: Floats) -> Floats:
    """Return points, (..., xyz), nearer to a point along z by a factor, (...), and further from it across."""
    stretched: Floats = about_mm + (points_mm - about_mm) * factor[..., None] ** np.array([-0.5, -0.5, 1.0])
    return stretched
