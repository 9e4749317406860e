"""A nearly incompressible elastic body between two plates, by Newton's method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from duotomo.mechanics.mesh import BodyMesh, Floats, Ints, library
from duotomo.mechanics.plates import Plates
from duotomo.mechanics.tissue import ElasticTissue


@dataclass(frozen=True, kw_only=True, eq=False)
class Equilibrium:
    """Where the forces of a body between plates balance.

    nodes_mm: (node, xyz), moved. converged: whether the forces fell below the tolerance.
    """

    nodes_mm: Floats
    converged: bool
    n_steps: int


class Body:
    """The elastic energy of a body whose chest wall slides in its plane, and Newton's method on it.

    The chest wall keeps `u_y = 0`. Its mean displacement along x and z and its mean turn about y stay zero,
    too: nothing else stops the body from sliding and turning between slippery plates.

    stiffness: of the tissue at the points where the energy is summed, (element, point), in shear moduli.
    load: a force on each node that does not change, (node, xyz).
    """

    def __init__(
        self,
        mesh: BodyMesh,
        tissue: ElasticTissue,
        *,
        stiffness: Floats | None = None,
        load: Floats | None = None,
    ) -> None:
        self.mesh = mesh
        self.tissue = tissue
        self._load = load
        self._weights = mesh.weights if stiffness is None else mesh.weights * stiffness
        wall_nodes = np.unique(mesh.elements[mesh.wall.owners][np.abs(mesh.wall.shapes).max(axis=1) > 1e-9])
        self._free = np.ones(mesh.nodes_mm.size, dtype=bool)
        self._free[3 * wall_nodes + 1] = False
        self._rows = np.linalg.qr(_wall_means(mesh)[:, self._free].T)[0].T

    def energy(self, nodes_mm: Floats, plates: Plates) -> float:
        """Return the energy of tissue, plates and load; infinite if tissue is inside out."""
        tissue = np.sum(self._weights * self.tissue.energy(self.gradients(nodes_mm)))
        contact = plates.energy(self.places(nodes_mm), self.mesh.skin.weights)
        fall = 0.0 if self._load is None else np.sum(self._load * (nodes_mm - self.mesh.nodes_mm))
        return float(tissue + contact - fall)

    def forces(self, nodes_mm: Floats, plates: Plates) -> Floats:
        """Return the energy's derivative in the nodes, (node, xyz), less what the chest wall takes up."""
        mesh = self.mesh
        stress = self.tissue.stress(self.gradients(nodes_mm)) * self._weights[..., None, None]
        of_elements = np.einsum("eqaj,eqij->eai", mesh.slopes, stress)
        push = plates.push(self.places(nodes_mm), mesh.skin.weights)
        np.add.at(of_elements, mesh.skin.owners, np.einsum("fqi,fqa->fai", push, mesh.skin.shapes))
        forces = np.zeros_like(nodes_mm) if self._load is None else -self._load
        np.add.at(forces, mesh.elements, of_elements)
        return self.allowed(forces)

    def allowed(self, vectors: Floats) -> Floats:
        """Return the part of vectors at the nodes, (node, xyz), that the chest wall does not take up."""
        flat = np.where(self._free, vectors.reshape(-1), 0.0)
        flat[self._free] -= self._rows.T @ (self._rows @ flat[self._free])
        return flat.reshape(vectors.shape)

    def stiffness(
        self, nodes_mm: Floats, plates: Plates, *, convex: bool = False, tension: Floats | None = None
    ) -> Any:
        """Return the derivative of the forces in what is free to move, a sparse matrix.

        Friction follows the pressure, which makes it unsymmetric; if convex, the pressure is held.

        convex: leave out the directions in which the tissue's energy at a point is not convex.
        tension: as for `ElasticTissue.stiffness`, (element, point).
        """
        mesh = self.mesh
        of_points = self.tissue.stiffness(self.gradients(nodes_mm), tension=tension)
        if convex:
            values, vectors = np.linalg.eigh(of_points)
            of_points = (vectors * np.maximum(values, 0.0)[..., None, :]) @ vectors.swapaxes(-1, -2)
        of_points = of_points * self._weights[..., None, None]
        n_elements, n_points, n_local, _ = mesh.slopes.shape
        # Entry (9, 30): the derivative of F_ij in coordinate k of node a, which is slope_aj if k = i.
        change = np.einsum("eqaj,ik->eqijak", mesh.slopes, np.eye(3)).reshape(n_elements, n_points, 9, -1)
        blocks = np.sum(change.swapaxes(-1, -2) @ (of_points @ change), axis=1)
        blocks = blocks.reshape(n_elements, n_local, 3, n_local, 3)
        bend = plates.bend(self.places(nodes_mm), mesh.skin.weights, coupled=not convex)
        of_faces = np.einsum("fqij,fqa,fqb->faibj", bend, mesh.skin.shapes, mesh.skin.shapes)
        np.add.at(blocks, mesh.skin.owners, of_faces)
        return self._pattern.matrix(blocks.reshape(-1))

    def gradients(self, nodes_mm: Floats) -> Floats:
        """Return F at the points of the energy, (element, point, 3, 3)."""
        corners = nodes_mm[self.mesh.elements]
        gradients: Floats = np.einsum("eqaj,eai->eqij", self.mesh.slopes, corners)
        return gradients

    def places(self, nodes_mm: Floats) -> Floats:
        """Return where points of the skin are, (face, point, xyz)."""
        skin = self.mesh.skin
        corners = np.ascontiguousarray(nodes_mm[self.mesh.elements[skin.owners]].swapaxes(1, 2))
        places: Floats = np.einsum("fqa,fia->fqi", skin.shapes, corners)
        return places

    def approach(
        self, start_mm: Floats, plates: Plates, *, tolerance: float = 0.05, most_steps: int = 20
    ) -> Equilibrium:
        """Return about where the body comes to rest between the plates, from a start that may be far off.

        Newton's method where the tension that keeps volumes is an unknown of its own at each point: it
        follows from the step before, to first order. So volumes that are wrong for a moment do not bend the
        energy, and steps need not be short.
        """
        nodes = self.mesh.nodes_mm + self.allowed(start_mm - self.mesh.nodes_mm)
        tension = np.zeros(self.mesh.weights.shape)
        areas = self.mesh.skin.weights
        before = math.inf
        for step in range(most_steps if math.isfinite(self.energy(nodes, plates)) else 0):
            places = self.places(nodes)
            following = plates.held(places)
            forces = self.forces(nodes, following)
            size = float(np.linalg.norm(forces))
            push = plates.stiffness * np.sum(areas * np.abs(plates.depth(places)))
            if step > 0 and size <= tolerance * push:
                return Equilibrium(nodes_mm=nodes, converged=True, n_steps=step)
            # Pressure and friction that take turns in growing come to rest half way.
            plates = plates.held(places, share=0.5) if size > before else following
            forces = self.forces(nodes, plates)
            before = size
            direction = self._newton(nodes, plates, forces, convex=True, tension=tension)
            lengths = (2.0**-halvings for halvings in range(16))
            length = next(
                (a for a in lengths if math.isfinite(self.energy(nodes + a * direction, plates))), 0.0
            )
            if length == 0:
                return Equilibrium(nodes_mm=nodes, converged=False, n_steps=step)
            gradients = self.gradients(nodes)
            nodes = nodes + length * direction
            tension = self.tissue.tension(gradients, self.gradients(nodes) - gradients)
        return Equilibrium(nodes_mm=nodes, converged=False, n_steps=most_steps)

    def settle(
        self, start_mm: Floats, plates: Plates, *, tolerance: float = 1e-5, most_steps: int = 30
    ) -> Equilibrium:
        """Return where the body comes to rest between the plates, from `start_mm` on, (node, xyz).

        The end is reached when the forces are below `tolerance` times the plates' push, or cannot move
        anything worth the name: a shear modulus on a ten-millionth of the skin.
        """
        nodes = self.mesh.nodes_mm + self.allowed(start_mm - self.mesh.nodes_mm)
        energy = self.energy(nodes, plates)
        areas = self.mesh.skin.weights
        negligible = 1e-7 * areas.sum()
        for step in range(most_steps if math.isfinite(energy) else 0):
            if plates.friction is not None:
                plates = plates.held(self.places(nodes))
                energy = self.energy(nodes, plates)
            forces = self.forces(nodes, plates)
            push = plates.stiffness * np.sum(areas * np.abs(plates.depth(self.places(nodes))))
            if np.linalg.norm(forces) <= max(tolerance * push, negligible):
                return Equilibrium(nodes_mm=nodes, converged=True, n_steps=step)
            for convex in (False, True):
                direction = self._newton(nodes, plates, forces, convex=convex)
                length = self._step_length(nodes, plates, energy, forces, direction)
                if length < 1 and self._halves(nodes + direction, plates, forces):
                    length = 1.0
                # A short step says that the energy bends the wrong way; only then the dearer matrix is made.
                if length > 0.1:
                    break
            if length == 0:
                return Equilibrium(nodes_mm=nodes, converged=False, n_steps=step)
            nodes = nodes + length * direction
            energy = self.energy(nodes, plates)
        return Equilibrium(nodes_mm=nodes, converged=False, n_steps=most_steps)

    def _halves(self, nodes_mm: Floats, plates: Plates, forces: Floats) -> bool:
        """Return whether forces are half as large there; with friction, energies alone do not tell."""
        if plates.friction is None or not math.isfinite(self.energy(nodes_mm, plates)):
            return False
        there = self.forces(nodes_mm, plates.held(self.places(nodes_mm)))
        return bool(np.linalg.norm(there) <= 0.5 * np.linalg.norm(forces))

    def _step_length(
        self, nodes_mm: Floats, plates: Plates, energy: float, forces: Floats, direction: Floats
    ) -> float:
        """Return the first of 1, 1/2, 1/4, ... that lowers the energy enough; 0 if none does."""
        slope = float(np.sum(direction * forces))
        if slope >= 0:
            return 0.0
        lengths = (2.0**-halvings for halvings in range(16))
        enough = (
            length
            for length in lengths
            if self.energy(nodes_mm + length * direction, plates) <= energy + 1e-4 * length * slope
        )
        return next(enough, 0.0)

    def _newton(
        self,
        nodes_mm: Floats,
        plates: Plates,
        forces: Floats,
        *,
        convex: bool,
        tension: Floats | None = None,
    ) -> Floats:
        """Return `-(K^-1 - K^-1 R^T (R K^-1 R^T)^-1 R K^-1) f`, with R the motions that the wall forbids."""
        linalg = library("scipy.sparse.linalg")
        # The matrix is symmetric; these settings spare SuperLU the half of its work that is for others.
        factors = linalg.splu(
            self.stiffness(nodes_mm, plates, convex=convex, tension=tension) + self._anchor,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        step, *rows = (factors.solve(b) for b in (-forces.reshape(-1)[self._free], *self._rows))
        into = np.stack(rows, axis=1)
        step -= into @ np.linalg.solve(self._rows @ into, self._rows @ step)
        direction = np.zeros(nodes_mm.size)
        direction[self._free] = step
        return direction.reshape(nodes_mm.shape)

    @cached_property
    def _anchor(self) -> Any:
        """Springs on the chest wall, a millionth of the tissue's stiffness, so that K has an inverse.

        Before the plates touch, nothing else resists the motions that R forbids. Only steps are made with it.
        """
        on_wall = np.abs(self._rows).max(axis=0) > 1e-12
        return library("scipy.sparse").diags_array(1e-6 * on_wall, format="csc")

    @cached_property
    def _pattern(self) -> _Pattern:
        return _Pattern(3 * self.mesh.elements[..., None] + np.arange(3), self._free)


class _Pattern:
    """Where the blocks of the elements add up in the sparse matrix: found once, since it never changes."""

    def __init__(self, dofs: Ints, free: Any) -> None:
        number = np.cumsum(free) - 1
        flat = dofs.reshape(len(dofs), -1)
        rows, columns = (a.reshape(-1) for a in np.broadcast_arrays(flat[:, :, None], flat[:, None, :]))
        self._kept = np.flatnonzero(free[rows] & free[columns])
        self._n = int(free.sum())
        keys = number[columns[self._kept]] * self._n + number[rows[self._kept]]
        unique, self._slot = np.unique(keys, return_inverse=True)
        self._rows = unique % self._n
        self._starts = np.searchsorted(unique, np.arange(self._n + 1) * self._n)

    def matrix(self, entries: Floats) -> Any:
        sparse = library("scipy.sparse")
        values = np.bincount(self._slot, weights=entries[self._kept], minlength=len(self._rows))
        return sparse.csc_matrix((values, self._rows, self._starts), shape=(self._n, self._n))


def _wall_means(mesh: BodyMesh) -> Floats:
    """Return rows, (3, 3 nodes), that give the wall's mean motion along x and z, and its turn about y.

    The turn is `t . u` averaged, with `t = C^-1 (p - middle)` turned by a right angle and C the covariance of
    the wall: a displacement `S (p - middle)` with a symmetric S has none.
    """
    wall = mesh.wall
    elements = mesh.elements[wall.owners]
    area = wall.weights.sum()
    places = np.einsum("fqa,fai->fqi", wall.shapes, mesh.nodes_mm[elements])[..., [0, 2]]
    places = places - np.sum(wall.weights[..., None] * places, axis=(0, 1)) / area
    covariance = np.einsum("fq,fqi,fqj->ij", wall.weights, places, places) / area
    inverse = np.linalg.inv(covariance)
    across = np.einsum("fqi,ij->fqj", places, inverse) * np.sqrt(np.linalg.det(covariance)) ** 0.5
    directions = np.zeros((3, *wall.weights.shape, 3))
    directions[0, ..., 0] = 1
    directions[1, ..., 2] = 1
    directions[2, ..., 0] = across[..., 1]
    directions[2, ..., 2] = -across[..., 0]
    shares = np.einsum("fq,fqa,kfqi->kfai", wall.weights / area, wall.shapes, directions)
    rows = np.zeros((3, *mesh.nodes_mm.shape))
    for row, share in zip(rows, shares, strict=True):
        np.add.at(row, elements, share)
    return rows.reshape(3, -1)
