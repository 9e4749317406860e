"""Warps need little more than their input and their output: below a tenth of both.

What is measured, and how, stands in `benchmarks.warp_memory`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import warp_memory

SHAPE = (200, 320, 320)
"""80 MB in single precision."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("operation", warp_memory.OPERATIONS)
@pytest.mark.parametrize("transform", ["affine", "bspline"])
def test_warps_need_less_than_a_tenth_of_input_and_output(transform: str, operation: str) -> None:
    share = warp_memory.measure(
        transform, operation, shape=SHAPE, control_shape=(16, 16, 16), device="cpu", n_threads=2
    )
    print(f"{transform}, {operation}: {share:.1%} of input and output beyond them")
    assert share < 0.10
    # Far below zero, the output would not have been where the mark sees it.
    assert share > -0.01
