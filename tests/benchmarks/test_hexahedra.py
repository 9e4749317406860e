"""The mesh of hexahedra: it fills the half ball, without gaps and without folds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.hexahedra import FACES, Hexahedra, half_ball
from duotomo.mechanics.mesh import signed_volumes


def ball(n_core: int = 4, n_layers: int = 2) -> Hexahedra:
    return half_ball(lambda q: q, n_core=n_core, n_layers=n_layers)


@pytest.mark.parametrize(("n_core", "n_layers", "within"), [(2, 1, 0.08), (4, 2, 0.02), (6, 3, 0.01)])
def test_its_tetrahedra_fill_the_half_ball(n_core: int, n_layers: int, within: float) -> None:
    mesh = ball(n_core, n_layers)
    volumes = signed_volumes(mesh.with_middles(mesh.nodes_mm), mesh.tetrahedra())
    assert volumes.min() > 0
    assert volumes.sum() == pytest.approx(2 / 3 * math.pi, rel=within)


def test_outer_faces_lie_on_the_skin_or_on_the_chest_wall() -> None:
    mesh = ball()
    faces = mesh.elements[:, FACES].reshape(-1, 4)
    _, counts = np.unique(np.sort(faces, axis=1), axis=0, return_counts=True)
    skin = mesh.elements[mesh.skin[:, 0]][
        np.arange(len(mesh.skin))[:, None], np.array(FACES)[mesh.skin[:, 1]]
    ]
    on_wall = np.isin(faces, mesh.wall).all(axis=1)
    assert set(counts) == {1, 2}
    assert (counts == 1).sum() == len(skin) + on_wall.sum()
    assert np.linalg.norm(mesh.nodes_mm[skin], axis=-1) == pytest.approx(1.0)
    assert np.abs(mesh.nodes_mm[mesh.wall, 1]).max() < 1e-12
    assert mesh.nodes_mm[:, 1].min() > -1e-12


def test_middles_move_as_an_affine_map_moves_them() -> None:
    mesh, turn = ball(2, 1), np.array([[2.0, 0.3, 0.0], [0.0, 1.0, -0.2], [0.5, 0.0, 1.5]])
    points = mesh.with_middles(mesh.nodes_mm)
    assert mesh.with_middles(mesh.nodes_mm @ turn.T + 7.0) == pytest.approx(points @ turn.T + 7.0)
    n_nodes = len(mesh.nodes_mm)
    assert points[n_nodes : n_nodes + len(mesh.elements)] == pytest.approx(mesh.middles_mm())
