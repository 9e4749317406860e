"""Functions inside of loops: compiled with whatever calls them, and for nobody else."""

from __future__ import annotations

import gc
from typing import Any

import numba
import numpy as np
import pytest
from numba import types

from duotomo.kernels import compiled as module
from duotomo.kernels.compiled import compiled
from duotomo.kernels.inner import inner


@inner
def scaled(row: Any, factor: Any) -> Any:
    """Scale a row, and return its sum."""
    total = row.dtype.type(0)
    for i in range(len(row)):
        row[i] *= factor
        total += row[i]
    return total


@inner
def summed(rows: Any, factor: Any) -> Any:
    """Call another one for each row."""
    total = rows.dtype.type(0)
    for i in range(len(rows)):
        total += scaled(rows[i], factor)
    return total


def loop(rows: Any, out: Any) -> None:
    out[0] = summed(rows, 2.0) / np.float64(out[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loop_computes_what_its_parts_say(
    dtype: type, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    # Compiled, then found on disk.
    for expected in (1, 0):
        one = compiled(loop)
        rows, out = np.arange(6.0, dtype=dtype).reshape(2, 3), np.full(1, 4.0)
        one(rows, out)
        np.testing.assert_array_equal(rows, 2 * np.arange(6.0).reshape(2, 3))
        assert out[0] == 30.0 / 4.0
        assert sum(one.stats.cache_misses.values()) == expected


def test_a_part_divides_as_numpy_does() -> None:
    one, out = compiled(lambda out: ratio_into(out)), np.zeros(1)
    one(out)
    assert np.isinf(out[0])


@inner
def ratio_into(out: Any) -> None:
    out[0] = 1.0 / out[0]


def test_python_cannot_call_a_part() -> None:
    with pytest.raises(TypeError, match="scaled: expected to be called by a compiled loop; got Python"):
        scaled(np.ones(3), 2.0)


def test_a_part_has_no_machine_code() -> None:
    row = types.Array(types.float64, 1, "C")
    scaled.compile((row, types.float64))
    found = scaled.overloads[row, types.float64]
    assert not found.library._codegen._engine.is_symbol_defined(found.fndesc.llvm_func_name)


def test_a_part_is_a_plain_function_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    assert inner(loop) is loop


def test_garbage_waits_while_a_loop_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(self: Any, args: Any, return_type: Any) -> None:
        seen.append(gc.isenabled())
        raise RuntimeError("as if it could not be compiled")

    seen: list[bool] = []
    monkeypatch.setattr(module._FunctionCompiler, "_compile_core", look)
    with pytest.raises(RuntimeError, match="as if it could not be compiled"):
        compiled(loop)(np.ones((1, 1)), np.ones(1))
    assert seen == [False]
    assert gc.isenabled()
