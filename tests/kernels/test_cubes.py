"""Vector instructions on cubes of 64 voxels compute what loops over them compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from duotomo.kernels.warp.cubes import add_to_cube, keys_slopes, keys_weights, read_cube, read_cube_slopes

SHAPE = (6, 7, 9)
STEPS = (SHAPE[1] * SHAPE[2], SHAPE[2])
CORNER = (1, 2, 4)
START = CORNER[0] * STEPS[0] + CORNER[1] * STEPS[1] + CORNER[2]
CUBE = tuple(slice(at, at + 4) for at in CORNER)

each_kind = pytest.mark.parametrize(
    ("kind", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-15)], ids=["float32", "float64"]
)


def drawn(kind: Any, n_rows: int) -> tuple[NDArray[Any], list[tuple[Any, ...]]]:
    """Return a volume and rows of four weights."""
    draw = np.random.default_rng(0)
    volume = draw.standard_normal(SHAPE).astype(kind)
    return volume, [tuple(row) for row in draw.standard_normal((n_rows, 4)).astype(kind)]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function, in which alone the instructions exist."""
    return numba.njit(function)  # type: ignore[no-any-return]


@compiled
def weights_of(t: Any) -> Any:
    return keys_weights(t), keys_slopes(t)


@compiled
def read(volume: Any, start: int, step_z: int, step_y: int, w_z: Any, w_y: Any, w_x: Any) -> Any:
    return read_cube(volume, start, step_z, step_y, w_z, w_y, w_x)


@compiled
def read_slopes(volume: Any, start: int, step_z: int, step_y: int, w: Any, d: Any) -> Any:
    return read_cube_slopes(volume, start, step_z, step_y, w[0], w[1], w[2], d[0], d[1], d[2])


@compiled
def add(volume: Any, start: int, step_z: int, step_y: int, w_z: Any, w_y: Any, w_x: Any) -> None:
    add_to_cube(volume, start, step_z, step_y, w_z, w_y, w_x)


@compiled
def add_in_loops(volume: Any, corner: Any, w_z: Any, w_y: Any, w_x: Any) -> None:
    for i in range(4):
        for j in range(4):
            share = w_y[j] * w_z[i]
            for k in range(4):
                volume[corner[0] + i, corner[1] + j, corner[2] + k] += share * w_x[k]


@each_kind
def test_keys_weights_sum_to_one_and_reproduce_parabolas(kind: Any, tolerance: float) -> None:
    for t in np.linspace(0, 0.99, 12).astype(kind):
        weights, slopes = (np.array(row, dtype=np.float64) for row in weights_of(t))
        at = np.arange(-1.0, 3.0)
        for power in range(3):
            assert weights @ at**power == pytest.approx(float(t) ** power, abs=8 * tolerance)
            slope = power * float(t) ** max(power - 1, 0)
            assert slopes @ at**power == pytest.approx(slope, abs=32 * tolerance)


@each_kind
def test_a_cube_is_read_with_the_weights_of_its_three_axes(kind: Any, tolerance: float) -> None:
    volume, (w_z, w_y, w_x) = drawn(kind, 3)
    expected = np.einsum("zyx,z,y,x->", volume[CUBE].astype(np.float64), w_z, w_y, w_x)
    assert read(volume, START, *STEPS, w_z, w_y, w_x) == pytest.approx(expected, abs=64 * tolerance)


@each_kind
def test_slopes_are_read_with_the_slopes_of_one_axis_each(kind: Any, tolerance: float) -> None:
    volume, rows = drawn(kind, 6)
    weights, slopes = rows[:3], rows[3:]
    found = read_slopes(volume, START, *STEPS, tuple(weights), tuple(slopes))
    for axis in range(3):
        chosen = [*weights[:axis], slopes[axis], *weights[axis + 1 :]]
        expected = np.einsum("zyx,z,y,x->", volume[CUBE].astype(np.float64), *chosen)
        assert found[axis] == pytest.approx(expected, abs=64 * tolerance)


@each_kind
def test_adding_to_a_cube_is_the_same_bits_as_in_loops(kind: Any, tolerance: float) -> None:
    volume, (w_z, w_y, w_x) = drawn(kind, 3)
    looped = volume.copy()
    add(volume, START, *STEPS, w_z, w_y, w_x)
    add_in_loops(looped, CORNER, w_z, w_y, w_x)
    assert np.array_equal(volume, looped)
    outside = np.ones(SHAPE, bool)
    outside[CUBE] = False
    assert np.array_equal(volume[outside], drawn(kind, 3)[0][outside])
