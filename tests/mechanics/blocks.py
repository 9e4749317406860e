"""Blocks between plates, whose exact solutions are known."""

from __future__ import annotations

import numpy as np

from duotomo.mechanics.mesh import BodyMesh, body_mesh, library


def block(size_mm: tuple[float, float, float], counts: tuple[int, int, int] = (2, 2, 2)) -> BodyMesh:
    """Return a block with one corner at the origin, (x, y, z); its chest wall is at y = 0."""
    fem = library("skfem")
    ticks = [np.linspace(0.0, size, count + 1) for size, count in zip(size_mm, counts, strict=True)]
    mesh = fem.MeshTet.init_tensor(*ticks)
    faces = mesh.boundary_facets()
    on_wall = np.abs(mesh.p[1, mesh.facets[:, faces]]).max(axis=0) < 1e-9
    return body_mesh(fem.MeshTet2.from_mesh(mesh), skin=faces[~on_wall], wall=faces[on_wall])
