"""Laws of weight, friction and stiffness: exact solutions, derivatives, limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from duotomo.errors import GeometryError
from duotomo.mechanics.balance import Squeeze
from duotomo.mechanics.breast_shape import BreastShape
from duotomo.mechanics.compression import compress
from duotomo.mechanics.forces import Forces
from duotomo.mechanics.mesh import half_ellipsoid
from duotomo.mechanics.plates import Paddle, Plates
from duotomo.mechanics.solver import Body, Equilibrium
from duotomo.mechanics.stiffness import GlandInFat, PectoralMuscle
from duotomo.mechanics.tissue import ElasticTissue
from tests.mechanics.blocks import block

SHAPE = BreastShape(center_mm=(3.0, 0.0, 30.0), radii_mm=(40.0, 38.0, 27.0))
# With this Poisson's ratio a pull along z moves nothing across; Young's modulus is twice the shear modulus.
ALONG = ElasticTissue(poisson_ratio=0.0)
YOUNG = 2.0


def everything(level: int = 1) -> tuple[Body, Plates]:
    """Return a body with tissue of several stiffnesses and weight, and tilted plates with friction on it."""
    center, shape = np.zeros(3), replace(SHAPE, center_mm=(0.0, 0.0, 0.0))
    mesh = half_ellipsoid(level, center_mm=center, axes_mm=np.diag(SHAPE.radii_mm))
    forces = Forces(gravity_per_mm=0.02, down=(1.0, 0.0, -1.0), friction=0.4)
    stiffness = GlandInFat.behind_nipple(shape, ratio=5.0) * PectoralMuscle.upper_outer(shape, outer=-1)
    squeeze = Squeeze(
        plates=Plates(middle_mm=0.0, half_gap_mm=23.0, paddle=Paddle(tilt_rad=0.1, at_y_mm=20.0)),
        middle_mm=center,
        body_mm=center,
        height_mm=54.0,
        forces=forces,
    )
    body = Body(
        mesh,
        ElasticTissue(),
        stiffness=stiffness(mesh.points_mm.reshape(-1, 3)).reshape(mesh.weights.shape),
        load=forces.weight_of(mesh),
    )
    # Skin met the plates half a mm from where it is at rest.
    return body, squeeze.contact(body.places(mesh.nodes_mm) + 0.5)


# ---- derivatives, with all of it on


def test_forces_are_the_slope_of_the_energy_and_the_rest_is_of_second_order() -> None:
    body, plates = everything()
    nodes = body.mesh.nodes_mm * [1.04, 1.0, 0.93]
    plates = plates.held(body.places(nodes))
    assert np.ptp(np.sign(plates.depth(body.places(nodes)))) == 2
    change = body.allowed(np.random.default_rng(0).normal(size=nodes.shape))
    slope = np.sum(body.forces(nodes, plates) * change)
    energy = body.energy(nodes, plates)
    lengths = np.array([1e-3, 1e-4])
    rests = [abs(body.energy(nodes + h * change, plates) - energy - h * slope) for h in lengths]
    assert rests[0] / rests[1] == pytest.approx(100, rel=0.1)
    assert rests[1] < 1e-2 * abs(lengths[1] * slope)


def test_stiffness_is_the_slope_of_the_forces_and_the_rest_is_of_second_order() -> None:
    body, plates = everything()
    nodes = body.mesh.nodes_mm * [1.04, 1.0, 0.93]

    def forces(places: np.ndarray) -> np.ndarray:
        return body.forces(places, plates.held(body.places(places)))

    change = body.allowed(np.random.default_rng(1).normal(size=nodes.shape))
    free = np.ones(nodes.shape, dtype=bool)
    free[np.abs(body.mesh.nodes_mm[:, 1]) < 1e-9, 1] = False
    bend = np.zeros_like(nodes)
    bend[free] = body.stiffness(nodes, plates.held(body.places(nodes))) @ change[free]
    bend = body.allowed(bend)
    rests = [np.linalg.norm(forces(nodes + h * change) - forces(nodes) - h * bend) for h in (2e-4, 2e-5)]
    assert rests[0] / rests[1] == pytest.approx(100, rel=0.2)
    assert rests[1] < 1e-3 * 2e-5 * np.linalg.norm(bend)


def test_convex_stiffness_is_that_of_a_sum_of_squares() -> None:
    body, plates = everything()
    nodes = body.mesh.nodes_mm * [1.04, 1.0, 0.7]
    matrix = body.stiffness(nodes, plates.held(body.places(nodes)), convex=True).toarray()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-9 * np.abs(matrix).max())
    assert np.linalg.eigvalsh(matrix).min() > -1e-9 * np.abs(matrix).max()


def test_tension_of_the_tissue_itself_changes_no_stiffness() -> None:
    tissue = ElasticTissue()
    gradients = np.eye(3) + 0.1 * np.random.default_rng(2).normal(size=(5, 3, 3))
    tension = tissue.tension(gradients, np.zeros_like(gradients))
    np.testing.assert_allclose(tissue.stiffness(gradients, tension=tension), tissue.stiffness(gradients))
    j, k = np.linalg.det(gradients), tissue.bulk_modulus
    np.testing.assert_allclose(tension, k * (j - 1 / j) / 2)


# ---- exact solutions


def test_column_under_its_own_weight() -> None:
    height_mm, pull = 8.0, 1e-5
    mesh = block((6.0, 6.0, height_mm))
    z = mesh.nodes_mm[:, 2]
    # Stress is -pull (height - z); the chest wall goes nowhere on the mean.
    sag = -pull / YOUNG * (height_mm * z - z**2 / 2 - height_mm**2 / 3)
    depth_mm = pull * height_mm / 100
    floor_mm = sag[z == 0][0] + depth_mm
    body = Body(mesh, ALONG, load=Forces(gravity_per_mm=pull).weight_of(mesh))
    plates = Plates(middle_mm=floor_mm + 50, half_gap_mm=50.0)
    settled = body.settle(mesh.nodes_mm, plates)
    assert settled.converged
    expected = mesh.nodes_mm + sag[:, None] * [0.0, 0.0, 1.0]
    np.testing.assert_allclose(settled.nodes_mm, expected, atol=2e-3 * np.ptp(sag))
    depth = plates.depth(body.places(settled.nodes_mm))
    assert -np.sum(mesh.skin.weights * depth) * 100 == pytest.approx(pull * 36 * height_mm, rel=1e-3)


def test_layers_in_series_share_the_stress() -> None:
    height_mm, ratio, squeeze_mm = 8.0, 4.0, 1e-4
    mesh = block((6.0, 6.0, height_mm))
    stiffness = np.where(mesh.points_mm[..., 2] < 4.0, 1.0, ratio)
    stress = squeeze_mm / (4.0 / YOUNG + 4.0 / (ratio * YOUNG) + 2 / 100)
    z = mesh.nodes_mm[:, 2]
    sag = -stress / YOUNG * (np.minimum(z, 4.0) + np.maximum(z - 4.0, 0.0) / ratio)
    sag += stress / YOUNG * (2.0 / height_mm * 4.0 + 4.0 / height_mm * (4.0 + 2.0 / ratio))
    low, high = sag[z == 0][0] + stress / 100, height_mm + sag[z == height_mm][0] - stress / 100
    plates = Plates(middle_mm=(low + high) / 2, half_gap_mm=(high - low) / 2)
    assert 2 * plates.half_gap_mm == pytest.approx(height_mm - squeeze_mm, abs=1e-9)
    settled = Body(mesh, ALONG, stiffness=stiffness).settle(mesh.nodes_mm, plates, tolerance=1e-8)
    assert settled.converged
    expected = mesh.nodes_mm + sag[:, None] * [0.0, 0.0, 1.0]
    np.testing.assert_allclose(settled.nodes_mm, expected, atol=2e-3 * squeeze_mm)


def test_only_ratios_of_stiffness_and_weight_count() -> None:
    body, plates = everything()
    plates = replace(plates, friction=None)
    start = body.mesh.nodes_mm * [1.05, 1.0, 0.85]
    mesh, load = body.mesh, Forces(gravity_per_mm=0.06, down=(1.0, 0.0, -1.0)).weight_of(body.mesh)
    one = Body(mesh, ElasticTissue(), load=load).settle(start, plates)
    other = Body(mesh, ElasticTissue(), stiffness=np.full(mesh.weights.shape, 3.0), load=3 * load)
    three = other.settle(start, replace(plates, stiffness=300.0))
    assert one.converged
    assert three.converged
    np.testing.assert_allclose(three.nodes_mm, one.nodes_mm, atol=1e-3)


# ---- weight


def test_weight_pulls_where_it_says() -> None:
    plain = compress(SHAPE, thickness_mm=40.0, refinements=1)
    for down in ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0)):
        heavy = compress(
            SHAPE, thickness_mm=40.0, refinements=1, forces=Forces(gravity_per_mm=0.02, down=down)
        )
        nipple = np.argmax(plain.rest_mm[:, 1])
        moved = heavy.moved_mm[nipple] - plain.moved_mm[nipple]
        assert moved @ down > 0.3
    total = Forces(gravity_per_mm=0.02).weight_of(everything()[0].mesh)
    assert total is not None
    np.testing.assert_allclose(total.sum(axis=0), [0, 0, -0.02 * SHAPE.volume_mm3], rtol=0.05, atol=1e-9)


def test_weight_of_a_patient_who_stands_turns_with_the_gantry() -> None:
    # Plates that hardly touch leave a breast that hangs as it would in its own frame.
    def sagged(roll: float) -> np.ndarray:
        down = (-math.sin(roll), 0.0, -math.cos(roll))
        height_mm = 2 * math.hypot(40 * math.sin(roll), 27 * math.cos(roll))
        pressed, heavy = (
            compress(SHAPE, thickness_mm=0.999 * height_mm, roll_rad=roll, refinements=1, forces=forces)
            for forces in (None, Forces(gravity_per_mm=1e-3, down=down))
        )
        nipple = np.argmax(pressed.rest_mm[:, 1])
        cos, sin = math.cos(roll), math.sin(roll)
        shift: np.ndarray = (heavy.moved_mm - pressed.moved_mm)[nipple]
        return np.array([cos * shift[0] - sin * shift[2], shift[1], sin * shift[0] + cos * shift[2]])

    for roll in (0.0, 0.8):
        x, _, z = sagged(roll)
        assert z < -0.02
        assert abs(x) < 0.5 * abs(z)


# ---- friction


def rolled(friction: float) -> tuple[Body, Squeeze]:
    """Return a body that is turned by 40 degrees, and plates that will turn it back if they are slippery."""
    roll, center = math.radians(40), np.zeros(3)
    turn = np.array([[math.cos(roll), 0, math.sin(roll)], [0, 1, 0], [-math.sin(roll), 0, math.cos(roll)]])
    axes = turn @ np.diag(SHAPE.radii_mm)
    height_mm = 2 * float(np.linalg.norm(axes[2]))
    squeeze = Squeeze(
        plates=Plates(middle_mm=0.0, half_gap_mm=0.3 * height_mm),
        middle_mm=center,
        body_mm=center,
        height_mm=height_mm,
        forces=Forces(friction=friction, creep_mm=0.2),
    )
    return Body(half_ellipsoid(1, center_mm=center, axes_mm=axes), ElasticTissue()), squeeze


@pytest.fixture(scope="module")
def slips() -> dict[float, np.ndarray]:
    """For each friction, how far points on the plates have slid since they met them, by their pressure."""
    lengths = {}
    for friction in (0.0, 0.1, 0.3, 30.0):
        body, squeeze = rolled(friction)
        settled, anchors = squeeze.closed(body, 6, 40)
        assert settled.converged
        places = body.places(settled.nodes_mm)
        depth = np.abs(squeeze.plates.depth(places))
        slip = np.linalg.norm((places - anchors)[..., :2], axis=-1)
        lengths[friction] = slip[depth > 0.2 * depth.max()]
    return lengths


def test_friction_makes_skin_on_the_plates_slide_less(slips: dict[float, np.ndarray]) -> None:
    lengths = [slip.mean() for slip in slips.values()]
    assert lengths[0] > 1
    for less, more in zip(lengths[1:], lengths[:-1], strict=True):
        assert less < 0.8 * more


def test_much_friction_sticks(slips: dict[float, np.ndarray]) -> None:
    assert slips[30.0].max() < 0.1


def test_volume_stays_with_friction() -> None:
    rough = compress(SHAPE, thickness_mm=38.0, roll_rad=0.7, refinements=2, forces=Forces(friction=0.6))
    assert abs(rough.volume_change) < 0.01
    assert rough.least_jacobian > 0.9


def test_friction_is_never_more_than_its_share_of_the_pressure() -> None:
    body, plates = everything()
    nodes = body.mesh.nodes_mm * [1.2, 1.0, 0.8]
    plates = replace(plates, half_gap_mm=20.0, paddle=Paddle())
    places = body.places(nodes)
    push = plates.held(places).push(places, np.ones(places.shape[:2]))
    along, across = np.linalg.norm(push[..., :2], axis=-1), np.abs(push[..., 2])
    assert (along <= 0.4 * across).all()
    assert along[across > 0].max() > 0.39 * across[across > 0].min()


def test_loads_one_after_the_other_come_to_the_same_on_slippery_plates() -> None:
    body, squeeze = rolled(0.0)
    one, three = (squeeze.closed(body, n, 40)[0] for n in (1, 3))
    assert one.converged
    assert three.converged
    np.testing.assert_allclose(three.nodes_mm, one.nodes_mm, atol=2e-3)


def test_more_loads_change_little_with_friction() -> None:
    body, squeeze = rolled(0.4)
    free, six, twelve = (
        s.closed(body, n, 40)[0].nodes_mm for s, n in ((rolled(0.0)[1], 1), (squeeze, 6), (squeeze, 12))
    )
    change = np.linalg.norm(six - twelve, axis=1).mean()
    assert change < 0.1 * np.linalg.norm(free - twelve, axis=1).mean()


def test_squeeze_that_is_too_much_for_the_coarse_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    body, squeeze = rolled(0.3)
    fails = Body.approach
    calls = []

    def approach(self: Body, start_mm: np.ndarray, plates: Plates, **options: int) -> Equilibrium:
        calls.append(plates.half_gap_mm)
        if len(calls) == 1:
            return Equilibrium(nodes_mm=start_mm * [1, 1, -1], converged=False, n_steps=0)
        return fails(self, start_mm, plates, **options)

    expected = squeeze.rested([body], 40)
    monkeypatch.setattr(Body, "approach", approach)
    np.testing.assert_array_equal(squeeze.rested([body], 40), expected)
    assert len(calls) == 7


# ---- all of it at once


def test_mirrored_problem_has_mirrored_solution() -> None:
    def solved(side: int) -> np.ndarray:
        shape = replace(SHAPE, center_mm=(0.0, 0.0, 30.0))
        compression = compress(
            shape,
            thickness_mm=40.0,
            roll_rad=side * math.radians(40),
            stiffness=GlandInFat.behind_nipple(shape, ratio=4.0),
            forces=Forces(gravity_per_mm=0.01, down=(side, 0.0, -1.0), friction=0.3),
            paddle=Paddle(tilt_rad=0.06, at_y_mm=20.0),
            slide_mm=(side * 2.0, 1.0, 3.0),
            refinements=2,
        )
        both = np.hstack([compression.rest_mm, compression.moved_mm]) * ([side, 1, 1] * 2)
        rounded = both[:, :3].round(3) + 0.0
        ordered: np.ndarray = both[np.lexsort(rounded.T)]
        return ordered

    np.testing.assert_allclose(solved(-1), solved(1), atol=0.02)


@pytest.mark.parametrize(
    ("name", "value"),
    [("gravity_per_mm", -0.1), ("gravity_per_mm", math.nan), ("friction", -1.0), ("friction", math.inf)],
)
def test_forces_that_cannot_be(name: str, value: float) -> None:
    with pytest.raises(GeometryError, match=f"expected {name} >= 0; got"):
        Forces(**{name: value})


def test_creep_without_length() -> None:
    with pytest.raises(GeometryError, match="expected creep_mm > 0; got 0"):
        Forces(creep_mm=0.0)


def test_no_direction_down() -> None:
    with pytest.raises(GeometryError, match="expected a direction down"):
        Forces(down=(0.0, 0.0, 0.0))
