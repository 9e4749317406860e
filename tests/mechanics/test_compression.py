"""Laws of the compression: tissue keeps its volume, fits between the plates, and maps have inverses."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import VolumeGrid
from duotomo.geometry.frame import voxel_to_world
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.mechanics.compression import Compression, compress, motion_between
from duotomo.mechanics.mesh import half_ellipsoid, signed_volumes
from duotomo.mechanics.plates import Plates
from duotomo.mechanics.solver import Body
from duotomo.mechanics.tissue import ElasticTissue
from tests.mechanics.blocks import block

SHAPE = BreastShape(center_mm=(3.0, 0.0, 30.0), radii_mm=(40.0, 38.0, 27.0))
HEIGHT_MM = 54.0
GRID = VolumeGrid(shape=(5, 6, 7), spacing_mm=(6.0, 6.0, 10.0), center_mm=(20.0, 18.0, 3.0))
ROLL = math.radians(10)


@pytest.fixture(scope="module")
def squeezed() -> Compression:
    return compress(SHAPE, thickness_mm=40.0, refinements=2)


@pytest.fixture(scope="module")
def rolled() -> Compression:
    return compress(SHAPE, thickness_mm=37.0, roll_rad=ROLL, support_mm=5.0, refinements=2)


@pytest.fixture(params=["squeezed", "rolled"])
def either(request: pytest.FixtureRequest) -> Compression:
    compression: Compression = request.getfixturevalue(request.param)
    return compression


def points_in(nodes_mm: np.ndarray, *, share: float, n: int = 400) -> np.ndarray:
    """Return points about the middle of a body, or with a share above 1 also around it."""
    middle = nodes_mm.mean(axis=0)
    chosen = np.random.default_rng(1).choice(len(nodes_mm), n)
    return middle + share * (nodes_mm[chosen] - middle)


# ---- the body between the plates


def test_volume_stays(either: Compression) -> None:
    assert abs(either.volume_change) < 0.005


def test_nothing_is_inside_out(either: Compression) -> None:
    rest, moved = (signed_volumes(nodes, either.tetrahedra) for nodes in (either.rest_mm, either.moved_mm))
    assert either.least_jacobian > 0.95
    assert (rest > 0).all()
    assert (moved / rest).min() > 0.5


@pytest.mark.parametrize(("name", "support_mm"), [("squeezed", 0.0), ("rolled", 5.0)])
def test_plates_hold(name: str, support_mm: float, request: pytest.FixtureRequest) -> None:
    compression = request.getfixturevalue(name)
    z = compression.moved_mm[:, 2] - support_mm
    assert z.min() == pytest.approx(0.0, abs=0.05)
    assert z.max() == pytest.approx(compression.thickness_mm, abs=0.05)


def test_tissue_flows_to_the_sides_and_the_nipple(either: Compression) -> None:
    rest, moved = either.rest_mm.max(axis=0), either.moved_mm.max(axis=0)
    assert 1 < moved[0] - rest[0] < 6
    assert 1 < moved[1] - rest[1] < 6


def test_chest_wall_slides_in_its_plane(either: Compression) -> None:
    wall = np.abs(either.rest_mm[:, 1]) < 1e-9
    assert wall.sum() > 20
    np.testing.assert_allclose(either.moved_mm[wall, 1], 0.0, atol=1e-12)
    assert np.ptp(either.moved_mm[wall, 0]) > np.ptp(either.rest_mm[wall, 0]) + 2


def test_symmetric_problem_has_symmetric_solution(squeezed: Compression) -> None:
    points = points_in(squeezed.moved_mm, share=0.8)
    for axis, middle_mm in ((0, 3.0), (2, 20.0)):
        mirrored = points.copy()
        mirrored[:, axis] = 2 * middle_mm - points[:, axis]
        there = squeezed.to_rest(points)
        there[:, axis] = 2 * SHAPE.center_mm[axis] - there[:, axis]
        # The mesh is symmetric, the diagonals of its octahedra are not.
        np.testing.assert_allclose(squeezed.to_rest(mirrored), there, atol=0.2)


def test_nodes_are_symmetric(squeezed: Compression) -> None:
    def ordered(nodes: np.ndarray) -> np.ndarray:
        rounded = nodes.round(3) + 0.0
        return rounded[np.lexsort(rounded.T)]

    both = np.hstack([squeezed.rest_mm, squeezed.moved_mm]) - [3, 0, 30, 3, 0, 20]
    np.testing.assert_allclose(ordered(both * [-1, 1, 1, -1, 1, 1]), ordered(both), atol=0.01)
    np.testing.assert_allclose(ordered(both * [1, 1, -1, 1, 1, -1]), ordered(both), atol=0.01)


def test_opposite_roll_is_the_mirror_image(rolled: Compression) -> None:
    other = compress(SHAPE, thickness_mm=37.0, roll_rad=-ROLL, support_mm=5.0, refinements=2)
    points = points_in(rolled.moved_mm, share=0.8)
    mirrored = points * [-1, 1, 1] + [6, 0, 0]
    np.testing.assert_allclose(
        other.to_rest(mirrored), rolled.to_rest(points) * [-1, 1, 1] + [6, 0, 0], atol=0.3
    )


def test_no_compression_is_the_identity() -> None:
    compression = compress(SHAPE, thickness_mm=HEIGHT_MM * (1 - 1e-9), support_mm=3.0, refinements=1)
    points = points_in(compression.moved_mm, share=1.2)
    np.testing.assert_allclose(compression.to_rest(points), points, atol=1e-4)
    np.testing.assert_allclose(compression.from_rest(points), points, atol=1e-4)


def test_roll_turns_z_towards_x() -> None:
    height_mm = 2 * math.hypot(40 * math.sin(ROLL), 27 * math.cos(ROLL))
    compression = compress(SHAPE, thickness_mm=height_mm * 0.9999, roll_rad=ROLL, refinements=1)
    above = np.array([3.0, 10.0, 40.0])
    moved = compression.from_rest(above) - [3.0, 0.0, height_mm / 2]
    np.testing.assert_allclose(moved, [10 * math.sin(ROLL), 10.0, 10 * math.cos(ROLL)], atol=0.05)


def test_roll_is_not_lost_between_slippery_plates(rolled: Compression) -> None:
    rest, moved = (nodes - nodes.mean(axis=0) for nodes in (rolled.rest_mm, rolled.moved_mm))
    left, _, right = np.linalg.svd(np.linalg.lstsq(rest, moved, rcond=None)[0].T)
    turn = left @ right
    assert math.radians(7) < math.atan2(turn[0, 2], turn[2, 2]) < ROLL


def test_softer_bulk_loses_volume(squeezed: Compression) -> None:
    loose = compress(SHAPE, thickness_mm=40.0, refinements=2, tissue=ElasticTissue(poisson_ratio=0.4))
    assert loose.volume_change < squeezed.volume_change - 0.005


@pytest.mark.slow
@pytest.mark.parametrize(("thickness_mm", "roll_deg"), [(40.0, 0.0), (37.0, 10.0), (37.0, -10.0)])
def test_fine_mesh(thickness_mm: float, roll_deg: float) -> None:
    shape = replace(SHAPE, center_mm=(0.0, 0.0, 30.0))
    coarse, fine = (
        compress(shape, thickness_mm=thickness_mm, roll_rad=math.radians(roll_deg), refinements=n)
        for n in (2, 3)
    )
    rest, moved = (signed_volumes(nodes, fine.tetrahedra) for nodes in (fine.rest_mm, fine.moved_mm))
    assert abs(fine.volume_change) < 0.005
    assert fine.least_jacobian > 0.95
    assert (moved / rest).min() > 0.5
    assert abs(np.ptp(fine.moved_mm[:, 2]) - thickness_mm) < 0.05
    points = points_in(fine.moved_mm, share=0.9)
    assert np.linalg.norm(coarse.to_rest(points) - fine.to_rest(points), axis=1).mean() < 0.15


# ---- maps


def test_maps_are_inverse_in_the_body(either: Compression) -> None:
    points = points_in(either.moved_mm, share=0.95)
    np.testing.assert_allclose(either.from_rest(either.to_rest(points)), points, atol=1e-9)


def test_maps_are_inverse_around_the_body(either: Compression) -> None:
    points = points_in(either.rest_mm, share=1.25)
    np.testing.assert_allclose(either.to_rest(either.from_rest(points)), points, atol=1e-3)


def test_extension_is_continuous(either: Compression) -> None:
    away = points_in(either.moved_mm, share=1.3) - either.moved_mm.mean(axis=0)
    lengths = np.linspace(0.5, 1.3, 2001)[:, None, None]
    path = either.to_rest(either.moved_mm.mean(axis=0) + lengths * away[:20])
    steps = np.linalg.norm(np.diff(path, axis=0), axis=-1)
    straight = np.linalg.norm(away[:20], axis=1) * (lengths[1, 0, 0] - lengths[0, 0, 0])
    assert (steps / straight).max() < 2.5


def test_field_is_the_map_at_voxel_centres(either: Compression) -> None:
    points = voxel_to_world(GRID, np.stack(np.meshgrid(*map(np.arange, GRID.shape), indexing="ij"), axis=-1))
    field = either.field(GRID).numpy()
    np.testing.assert_allclose(np.moveaxis(field, 0, -1), either.to_rest(points) - points, atol=1e-12)


def test_field_of_a_fine_grid_is_interpolated(squeezed: Compression) -> None:
    fine = VolumeGrid(shape=(20, 16, 16), spacing_mm=(0.5, 0.5, 0.5), center_mm=(20.0, 18.0, 3.0))
    exact, quick = squeezed.field(fine, lattice_mm=0.5), squeezed.field(fine)
    assert (exact - quick).abs().max() < 0.1
    assert not torch.equal(exact, quick)


def test_motion_to_itself_is_none(squeezed: Compression) -> None:
    assert motion_between(squeezed, squeezed, GRID).displacement(GRID).abs().max() < 1e-3


def test_motion_is_by_way_of_rest(squeezed: Compression, rolled: Compression) -> None:
    motion = motion_between(squeezed, rolled, GRID, shift_mm=(1.0, 0.0, 2.0))
    # At the points of its lattice nothing is interpolated.
    index = np.stack(np.meshgrid(*map(np.arange, motion.grid.shape), indexing="ij"), axis=-1)
    points = voxel_to_world(motion.grid, index).reshape(-1, 3)
    expected = squeezed.from_rest(rolled.to_rest(points - np.array([1.0, 0.0, 2.0])))
    np.testing.assert_allclose(motion.points(torch.from_numpy(points.copy())), expected, atol=1e-9)
    assert np.abs(expected - points).max() > 3


# ---- the solver


@pytest.mark.parametrize("poisson_ratio", [0.3, 0.495])
def test_cube_between_slippery_plates_is_stretched_evenly(poisson_ratio: float) -> None:
    edge_mm, tissue = 8.0, ElasticTissue(poisson_ratio=poisson_ratio)
    mesh = block((edge_mm, edge_mm, edge_mm))
    plates = Plates(middle_mm=4.0, half_gap_mm=3.0)
    body = Body(mesh, tissue)
    start = 4 + (mesh.nodes_mm - 4) * [1.0, 1.0, 0.76]
    start[:, 1] = mesh.nodes_mm[:, 1]
    settled = body.settle(start, plates)
    assert settled.converged
    up = np.ptp(settled.nodes_mm[:, 2]) / edge_mm
    # Free sides bear no stress: the stretch across follows from that along z.
    low, high = 0.9, 1.3
    for _ in range(60):
        across = (low + high) / 2
        pull = tissue.stress(np.diag([across, across, up]))[0, 0]
        low, high = (low, across) if pull > 0 else (across, high)
    np.testing.assert_allclose(
        body.gradients(settled.nodes_mm),
        np.broadcast_to(np.diag([across, across, up]), (len(mesh.elements), 4, 3, 3)),
        atol=1e-5,
    )
    pressure = -tissue.stress(np.diag([across, across, up]))[2, 2]
    depth_mm = (up * edge_mm - 6.0) / 2
    assert plates.stiffness * depth_mm == pytest.approx(pressure, rel=1e-3)


def test_small_strain_is_that_of_linear_elasticity() -> None:
    tissue, strain = ElasticTissue(poisson_ratio=0.3), 1e-5
    stress = tissue.stress(np.eye(3) + np.diag([-0.3, -0.3, 1.0]) * strain)
    youngs_modulus = 2 * 1.3
    np.testing.assert_allclose(stress, np.diag([0, 0, youngs_modulus * strain]), atol=1e-8)


@given(seed=st.integers(0, 2**32 - 1))
def test_stress_and_stiffness_are_derivatives_of_the_energy(seed: int) -> None:
    rng, tissue, h = np.random.default_rng(seed), ElasticTissue(poisson_ratio=0.45), 1e-5
    gradient = np.eye(3) + 0.15 * rng.uniform(-1, 1, (3, 3))
    change = rng.normal(size=(3, 3))
    ahead, behind = gradient + h * change, gradient - h * change
    slope = (tissue.energy(ahead) - tissue.energy(behind)) / (2 * h)
    assert slope == pytest.approx(float(np.sum(tissue.stress(gradient) * change)), rel=1e-5, abs=1e-6)
    bend = (tissue.stress(ahead) - tissue.stress(behind)).reshape(-1) / (2 * h)
    np.testing.assert_allclose(tissue.stiffness(gradient) @ change.reshape(-1), bend, rtol=1e-4, atol=1e-5)


def test_energy_knows_no_rotation_and_no_inversion() -> None:
    tissue = ElasticTissue()
    turn = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    stretch = np.diag([1.1, 0.9, 1.0])
    assert tissue.energy(turn) == pytest.approx(0.0, abs=1e-12)
    assert tissue.energy(turn @ stretch) == pytest.approx(float(tissue.energy(stretch)))
    assert tissue.energy(np.diag([1.0, 1.0, -1.0])) == math.inf


def test_forces_and_stiffness_are_derivatives_of_the_body_energy() -> None:
    body = Body(
        half_ellipsoid(1, center_mm=np.zeros(3), axes_mm=np.diag([40.0, 38.0, 27.0])), ElasticTissue()
    )
    plates = Plates(middle_mm=0.0, half_gap_mm=25.0)
    nodes = body.mesh.nodes_mm * [1.02, 1.0, 0.97]
    change = body.allowed(np.random.default_rng(0).normal(size=nodes.shape))
    h = 1e-5
    ahead, behind = nodes + h * change, nodes - h * change
    slope = (body.energy(ahead, plates) - body.energy(behind, plates)) / (2 * h)
    assert slope == pytest.approx(float(np.sum(body.forces(nodes, plates) * change)), rel=1e-6)
    free = np.ones(nodes.shape, dtype=bool)
    free[np.abs(body.mesh.nodes_mm[:, 1]) < 1e-9, 1] = False
    bend = body.stiffness(nodes, plates) @ change[free]
    pushed = np.zeros_like(nodes)
    pushed[free] = bend
    expected = (body.forces(ahead, plates) - body.forces(behind, plates)) / (2 * h)
    np.testing.assert_allclose(body.allowed(pushed), expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("refinements", [1, 2])
def test_mesh_fills_the_half_ellipsoid(refinements: int) -> None:
    mesh = half_ellipsoid(refinements, center_mm=np.array(SHAPE.center_mm), axes_mm=np.diag(SHAPE.radii_mm))
    assert mesh.weights.sum() == pytest.approx(SHAPE.volume_mm3, rel=0.02)
    assert signed_volumes(mesh.nodes_mm, mesh.tetrahedra).min() > 0
    assert mesh.wall.weights.sum() == pytest.approx(math.pi * 40 * 27, rel=0.01)


# ---- what cannot be


@pytest.mark.parametrize("thickness_mm", [54.0, 60.0, 0.0, -5.0, math.nan])
def test_thickness_out_of_reach(thickness_mm: float) -> None:
    with pytest.raises(GeometryError, match=r"thickness_mm between 0 and the body's height, 54; got"):
        compress(SHAPE, thickness_mm=thickness_mm)


def test_no_refinement() -> None:
    with pytest.raises(GeometryError, match="expected refinements >= 1; got 0"):
        compress(SHAPE, thickness_mm=40.0, refinements=0)


def test_forces_that_do_not_balance() -> None:
    with pytest.raises(DuotomoError, match=r"did not after 1 of 1 steps\. Allow more most_steps"):
        compress(SHAPE, thickness_mm=40.0, refinements=1, most_steps=1)


def test_lattice_without_size(squeezed: Compression) -> None:
    with pytest.raises(GeometryError, match="expected lattice_mm > 0; got 0"):
        squeezed.field(GRID, lattice_mm=0.0)


@pytest.mark.parametrize("poisson_ratio", [0.5, -0.1, math.nan])
def test_impossible_tissue(poisson_ratio: float) -> None:
    with pytest.raises(GeometryError, match=r"expected 0 <= poisson_ratio < 0.5; got"):
        ElasticTissue(poisson_ratio=poisson_ratio)


def test_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skfem", None)
    with pytest.raises(DuotomoError, match=r"expected skfem to be installed .* pip install scikit-fem"):
        compress(SHAPE, thickness_mm=40.0)
