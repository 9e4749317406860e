"""How a body comes to rest between plates: coarse mesh first, and by several loads if one is too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from duotomo.errors import DuotomoError
from duotomo.mechanics.forces import Forces
from duotomo.mechanics.mesh import Floats, library
from duotomo.mechanics.plates import Friction, Plates
from duotomo.mechanics.solver import Body, Equilibrium

_FEW = 400


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

    @property
    def n_loads(self) -> int:
        """In how many loads the plates close: friction depends on where skin first meets them."""
        return 1 if self.forces.friction == 0 else 6

    def contact(self, anchors_mm: Floats) -> Plates:
        """Return the plates, with friction if there is any, on skin with anchors, (face, point, xyz)."""
        if self.forces.friction == 0:
            return self.plates
        friction = Friction(
            coefficient=self.forces.friction,
            anchors_mm=anchors_mm,
            creep_mm=self.forces.creep_mm,
            depth_mm=np.zeros(anchors_mm.shape[:-1]),
        )
        return replace(self.plates, friction=friction)

    def rested(self, bodies: Sequence[Body], most_steps: int) -> Floats:
        """Return the nodes, (node, xyz), of the last body; each coarser one is the start of the next.

        Where that fails, the plates close on the last body itself, in more loads if need be.
        """
        finest = bodies[-1:]
        for tried, n_loads in (bodies, self.n_loads), (finest, self.n_loads), (finest, self.n_loads + 6):
            settled, anchors = self.closed(tried[0], n_loads, most_steps)
            for coarse, fine in pairwise(tried):
                start = fine.mesh.nodes_mm + carried(
                    coarse.mesh.nodes_mm, settled.nodes_mm - coarse.mesh.nodes_mm, fine.mesh.nodes_mm
                )
                if self.forces.friction > 0:
                    there, here = (body.places(body.mesh.nodes_mm) for body in (coarse, fine))
                    anchors = here + carried(there, anchors - there, here)
                settled = settle_from_afar(fine, start, self.contact(anchors), most_steps)
            if settled.converged:
                break
        return checked(settled, self.plates, most_steps)

    def closed(self, body: Body, n_loads: int, most_steps: int) -> tuple[Equilibrium, Floats]:
        """Return a body at rest, the plates having closed by equal factors, and its skin's anchors.

        The anchors, (face, point, xyz), are where points of the skin met the plates, on a straight way
        through each load; where they are, if they are free.
        """
        factor = (2 * self.plates.half_gap_mm / self.height_mm) ** (1 / n_loads)
        gaps_mm = [self.plates.half_gap_mm / factor**to_go for to_go in reversed(range(n_loads + 1))]
        parts = [replace(self, plates=replace(self.plates, half_gap_mm=gap_mm)) for gap_mm in gaps_mm]
        anchors = places = body.places(body.mesh.nodes_mm)
        met = np.zeros(places.shape[:-1], dtype=bool)
        start = parts[1].stretched(body.mesh.nodes_mm)
        for before, part in pairwise(parts):
            settled = settle_from_afar(body, start, part.contact(anchors), most_steps)
            if not settled.converged:
                break
            was, places = places, body.places(settled.nodes_mm)
            travel_mm = before.plates.half_gap_mm - part.plates.half_gap_mm
            free = np.clip(before.plates.room(was) / travel_mm, 0.0, 1.0)[..., None]
            touching = part.plates.depth(places) != 0
            newly = was + free * (places - was)
            anchors = np.where(touching[..., None], np.where(met[..., None], anchors, newly), places)
            met = touching
            start = _stretch(settled.nodes_mm, self.middle_mm, np.asarray(factor))
        return settled, anchors


def settle_from_afar(body: Body, start_mm: Floats, plates: Plates, most_steps: int) -> Equilibrium:
    """Return where a body comes to rest, from a start that may be far off."""
    near = body.approach(start_mm, plates, most_steps=most_steps)
    return body.settle(near.nodes_mm, plates, most_steps=most_steps)


def checked(settled: Equilibrium, plates: Plates, most_steps: int) -> Floats:
    """Return the nodes, (node, xyz), of a body at rest between the plates; raise if it is not."""
    if not settled.converged:
        raise DuotomoError(
            f"compress: expected forces that balance between plates {2 * plates.half_gap_mm:.6g} mm apart; "
            f"they did not after {settled.n_steps} of {most_steps} steps. Allow more most_steps, or compress "
            f"less."
        )
    return settled.nodes_mm


def carried(points_mm: Floats, values: Floats, others_mm: Floats) -> Floats:
    """Return values at points, both (..., xyz), at other points, (..., xyz), interpolated smoothly."""
    flat = points_mm.reshape(-1, 3)
    # Of few points, all are soon taken.
    neighbors = 60 if len(flat) > _FEW else None
    rbf = library("scipy.interpolate").RBFInterpolator(flat, values.reshape(-1, 3), neighbors=neighbors)
    carried: Floats = rbf(others_mm.reshape(-1, 3)).reshape(others_mm.shape)
    return carried


def _stretch(points_mm: Floats, about_mm: Floats, factor: Floats) -> Floats:
    """Return points, (..., xyz), nearer to a point along z by a factor, (...), and further from it across."""
    stretched: Floats = about_mm + (points_mm - about_mm) * factor[..., None] ** np.array([-0.5, -0.5, 1.0])
    return stretched
