"""The Triton kernels without a GPU: in Triton's interpreter, against the reference."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_cases(**environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", "tests.kernels.triton_cases"],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which is published for Linux only")
def test_the_kernels_match_the_reference_in_the_interpreter() -> None:
    # A process of its own, since Triton decides while it is imported whether to interpret.
    done = run_cases(TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^(\d+) passed$", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 190


def test_without_a_gpu_and_without_the_interpreter_there_is_no_pass() -> None:
    done = run_cases(CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2
    assert "no CUDA device" in done.stdout


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which is published for Linux only")
@pytest.mark.parametrize("transposed", [False, True], ids=["forward", "transposed"])
def test_the_projector_compiles_for_a_gpu_that_is_not_there(transposed: bool) -> None:
    # The interpreter accepts what the compiler refuses; the compiler needs no device.
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from duotomo.kernels.project import gpu

    constants = {
        "TRANSPOSED": transposed,
        "ADD": transposed,
        "SCALE": not transposed,
        "TAPS": 3,
        "TILE_ROWS": 16,
        "CHUNK": gpu.CHUNK,
        "SOURCE_CHUNKS": 2,
        "TILE_COLUMNS": gpu.TILE_COLUMNS,
        "SINGLE": True,
    }
    pointers = dict.fromkeys(("source", "target", "rows_sq", "columns_sq"), "*fp32") | {"lines": "*fp64"}
    types = {name: pointers.get(name, "i32") for name in gpu._accumulate.arg_names}
    source = ASTSource(
        fn=gpu._accumulate,
        signature=types | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
        attrs={},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert compiled.asm["cubin"]


WARP_POINTERS = {
    "matrices": "*fp64",
    "d_matrices": "*fp64",
    "scale": "*fp64",
    "layout": "*i32",
    "runs": "*i32",
    "rows": "*i32",
    "columns": "*i32",
} | dict.fromkeys(("volume", "image", "out", "lattices", "d_lattices"), "*fp32")


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which is published for Linux only")
@pytest.mark.parametrize(
    ("kernel", "constants"),
    [
        ("_gather", {"CUBIC": False}),
        ("_gather", {"CUBIC": True, "N": 2, "ALIGNED": False}),
        ("_spread_linear", {"FIXED": False}),
        ("_spread_cubic", {"FIXED": False}),
        ("_slopes", {"CUBIC": False}),
        ("differentiate_block", {"CUBIC": False, "MOVES_FIRST": True}),
        ("pull_matrix", {"CUBIC": False, "FROM": 0}),
        ("pull_lattice", {"CUBIC": False, "FROM": 0, "N": 2, "ALIGNED": False}),
        ("pull_cells", {"CUBIC": False, "BLOCK": 16}),
        ("_positions", {}),
        ("_determinants", {}),
    ],
)
def test_the_warps_compile_for_a_gpu_that_is_not_there(kernel: str, constants: dict[str, object]) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from duotomo.kernels.warp import gpu

    constants = {"N": 1, "ALIGNED": True, "WIDE": False, "BLOCK": gpu.BLOCK} | constants
    function = getattr(gpu, kernel)
    pointers = WARP_POINTERS | {"sums": "*fp64" if kernel == "pull_matrix" else "*i64"}
    types = {name: pointers.get(name, "i32") for name in function.arg_names}
    source = ASTSource(
        fn=function,
        signature=types | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
        attrs={},
    )
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]


VOLUME_POINTERS = {"numbers": "*fp64"} | dict.fromkeys(
    (
        "moved",
        "changed",
        "one",
        "other",
        "parts",
        "base",
        "factors",
        "total",
        "coefficients",
        "samples",
        "volume",
    ),
    "*fp32",
)


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton, which is published for Linux only")
@pytest.mark.parametrize(
    ("package", "kernel", "constants"),
    [
        ("secants", "_products", {}),
        ("secants", "_combine", {}),
        ("spline", "_sample", {"DEPTH": True, "RUN": 16}),
        ("spline", "_sample", {"DEPTH": False, "RUN": 16}),
        ("variation", "_total_variation", {}),
        ("variation", "_negative", {}),
    ],
)
def test_kernels_of_volumes_compile_for_a_gpu_that_is_not_there(
    package: str, kernel: str, constants: dict[str, object]
) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    gpu = import_module(f"duotomo.kernels.{package}.gpu")
    function, constants = getattr(gpu, kernel), {"BLOCK": gpu.BLOCK} | constants
    names = function.arg_names
    types = {name: VOLUME_POINTERS.get(name, "i32") for name in names}
    # As at run time: memory and rows begin at multiples of sixteen.
    even = [i for i, name in enumerate(names) if name in VOLUME_POINTERS or name == "stride"]
    source = ASTSource(
        fn=function,
        signature=types | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
        attrs={(i,): [["tt.divisibility", 16]] for i in even},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert compiled.asm["cubin"]
    if package == "secants":
        assert "ld.global.v4" in compiled.asm["ptx"]
