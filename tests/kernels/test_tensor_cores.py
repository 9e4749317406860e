"""How the CUDA C++ projector is set up: what can be checked without a GPU."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest
import torch

from duotomo.kernels.project import tensor_cores
from duotomo.kernels.project.footprint import COLUMNS, ROWS, Bands
from duotomo.kernels.project.reference import weights
from duotomo.operators import Projector
from tests.kernels.test_gpu import random_projector

SHARED_BYTES = 227 * 1024

each_case = pytest.mark.parametrize(
    ("seed", "transposed"), list(itertools.product(range(8), (False, True))), ids=str
)


def bands_of(projector: Projector, *, transposed: bool) -> tuple[Bands, tuple[int, int], np.ndarray]:
    """Return the bands, the shape of a target, and the footprints of all views."""
    part = projector._all
    assert part is not None
    bands = part.transposed_bands if transposed else part.forward_bands
    rows, columns = (projector.domain if transposed else projector.range)[-2:]
    return bands, (rows, columns), part._footprints


@each_case
def test_a_table_holds_the_weights_of_the_reference(seed: int, transposed: bool) -> None:
    projector = random_projector(seed, tilting=False)
    bands, shape, footprints = bands_of(projector, transposed=transposed)
    n_views, n_slices = footprints.shape[:2]
    for axis in (ROWS, COLUMNS):
        taps = bands.reach(axis, n_targets=shape[axis])
        first, parts = tensor_cores.table(bands, axis, shape[axis], taps, torch.device("cpu"))
        n_pixels, n_voxels = projector.range[1 + axis], projector.domain[1 + axis]
        for view, index in itertools.product(range(n_views), range(n_slices)):
            expected = weights(footprints[view, index, axis], n_pixels=n_pixels, n_voxels=n_voxels)
            at = (view, index) if transposed else (index, view)
            expected = expected.T if transposed else expected
            got = np.zeros_like(expected)
            for tap in range(taps):
                sample = first[at].numpy() + tap
                seen = (sample >= 0) & (sample < expected.shape[1])
                target = np.flatnonzero(seen)
                got[target, sample[seen]] += parts[at][seen, tap].double().sum(dim=-1).numpy()
            assert np.abs(got - expected).max() < 1.2e-7


@each_case
@pytest.mark.parametrize("shape", tensor_cores.SHAPES, ids=str)
def test_a_window_holds_all_that_its_tile_sees(seed: int, transposed: bool, shape: tuple[int, int]) -> None:
    bands, target_shape, _ = bands_of(random_projector(seed, tilting=False), transposed=transposed)
    found = tensor_cores.plan(bands, target_shape, shape, SHARED_BYTES)
    if found is None:
        pytest.skip("no block of this shape fits")
    assert found.blocks * (found.shared_bytes + tensor_cores.RESERVED_BYTES) <= SHARED_BYTES
    rows, _ = tensor_cores.table(bands, ROWS, target_shape[0], found.row_taps, torch.device("cpu"))
    columns, _ = tensor_cores.table(bands, COLUMNS, target_shape[1], found.column_taps, torch.device("cpu"))
    last_row_tap = bands.reach(ROWS, n_targets=target_shape[0]) - 1
    for first in range(0, target_shape[0], 8 * found.tiles):
        for tile in range(found.tiles):
            begin = first + 8 * tile
            if begin >= target_shape[0]:
                break
            window = rows[:, :, begin : begin + 8] - rows[:, :, first : first + 1]
            chunk = tile * found.row_step >> 5
            assert window.min() >= 16 * chunk
            assert window.max() + last_row_tap < 16 * (chunk + found.row_chunks)
            assert window.max() + last_row_tap < 16 * found.window_chunks
    last_column_tap = bands.reach(COLUMNS, n_targets=target_shape[1]) - 1
    for first in range(0, target_shape[1], 16 * found.warps):
        origin = columns[:, :, first : first + 1] & ~3
        for begin in range(first, min(first + 16 * found.warps, target_shape[1]), 16):
            sample = columns[:, :, begin : begin + 1] & ~3
            mine = columns[:, :, begin : begin + 16]
            assert (mine - sample).min() >= 0
            assert (mine - sample).max() + last_column_tap < 16 * found.steps
            assert (sample - origin).max() + 16 * found.steps <= found.window_stride


def test_the_source_compiles() -> None:
    core = pytest.importorskip("cuda.core", reason="needs the extra gpu")
    pathfinder = importlib.import_module("cuda.pathfinder")
    try:
        pathfinder.load_nvidia_dynamic_lib("nvrtc")
    except pathfinder.DynamicLibNotFoundError:
        pytest.skip("needs NVRTC, CUDA's compiler")
    macros = {"STEPS": 2, "WARPS": 8, "TILES": 7, "COLUMN_TAPS": 12, "ROW_TAPS": 4}
    macros |= {"ROW_CHUNKS": 2, "ROW_STEP": 14, "BLOCKS": 3}
    for arch in ("sm_80", "sm_90"):
        options = core.ProgramOptions(
            arch=arch, std="c++17", define_macro=[(key, str(value)) for key, value in macros.items()]
        )
        program = core.Program(tensor_cores.SOURCE.read_text(), "c++", options=options)
        assert program.compile("cubin").code
