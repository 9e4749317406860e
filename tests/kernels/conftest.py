"""What tests of kernels share."""

from __future__ import annotations

from collections.abc import Iterator

import numba
import pytest


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Let a test choose between one thread and two."""
    before = numba.get_num_threads()
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("needs two threads; Numba was started with one")
    numba.set_num_threads(2)
    yield
    numba.set_num_threads(before)
