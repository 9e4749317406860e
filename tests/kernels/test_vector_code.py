"""The projector's inner loops are vector instructions, as wide as this processor has them."""

from __future__ import annotations

import re

import pytest
from llvmlite import binding
from numba import boolean, float32, float64, int64, njit, types

from duotomo.kernels.project.cpu import _accumulate
from duotomo.kernels.warp.cpu import _gather

FEATURES = binding.get_host_cpu_features()


def array(dtype: types.Type, n_axes: int) -> types.Type:
    return types.Array(dtype, n_axes, "C")


SIGNATURES = {
    _accumulate: (
        *(array(float32, 3), array(float32, 3), array(float64, 4), array(float32, 2), array(float32, 2)),
        *(int64, boolean, boolean, int64, int64, int64, int64, int64),
    ),
    _gather: (
        *(array(float32, 3), array(float32, 3), array(float64, 3), array(float32, 1), array(int64, 2)),
        *(boolean, array(types.uint32, 1), array(float32, 2), boolean, int64, int64),
    ),
}


@pytest.mark.slow
@pytest.mark.skipif(not FEATURES.get("avx2"), reason="this processor has no AVX2")
@pytest.mark.parametrize(
    ("loop", "instruction"),
    [(_accumulate, r"vfmadd\d+ps"), (_gather, r"v(p?gather\w+)")],
    ids=["projector: multiply and add", "warp: read eight neighbours"],
)
def test_the_inner_loop_is_of_vector_instructions(loop: object, instruction: str) -> None:
    # Compiled here: what comes from the disk cannot be looked at.
    fresh = njit(error_model="numpy", nogil=True)(loop.py_func)  # type: ignore[attr-defined]
    fresh.compile(SIGNATURES[loop])
    (assembly,) = fresh.inspect_asm().values()
    widest = r"%[yz]mm" if FEATURES.get("avx512f") else "%ymm"
    assert len(re.findall(rf"{instruction}\s.*{widest}", assembly)) > 4
