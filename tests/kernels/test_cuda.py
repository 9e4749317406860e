"""CUDA C++ where something is missing or broken: another path and a word about it, never another number."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from duotomo.kernels import cuda
from duotomo.kernels.project import tensor_cores
from tests.kernels.test_gpu import random_projector

DEVICE = torch.device("cuda:0")
SHARED_BYTES = 227 * 1024


class Program:
    """What `cuda.core` compiles with: `broken` says what it cannot do."""

    broken = ""

    def __init__(self, code: str, language: str, *, options: object) -> None:
        self._code = code

    def compile(self, target: str, cache: object = None) -> Any:
        if self.broken == "compiler" or (self.broken == "cache" and cache is not None):
            raise RuntimeError(f"the {self.broken} is broken")
        return SimpleNamespace(get_kernel=lambda name: SimpleNamespace(handle=(name, self._code)))


class Kept:
    """The folder of compiled kernels."""

    def __enter__(self) -> Kept:
        if Program.broken == "folder":
            raise PermissionError("the folder is broken")
        return self

    def __exit__(self, *reason: object) -> None:
        pass


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Stand in for the compiler and the driver of a GPU that is not there."""
    driver = SimpleNamespace(
        CUfunction_attribute=SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8),
        CUresult=SimpleNamespace(CUDA_SUCCESS=0),
        cuKernelSetAttribute=lambda *_: (0,),
    )
    core = {
        "Device": lambda index: SimpleNamespace(set_current=lambda: None),
        "Program": Program,
        "ProgramOptions": SimpleNamespace,
    }
    modules: dict[str, dict[str, Any]] = {
        "cuda": {},
        "cuda.bindings": {"driver": driver},
        "cuda.bindings.nvrtc": {},
        "cuda.core": core,
        "cuda.core.utils": {"FileStreamProgramCache": Kept},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda device: SimpleNamespace(shared_memory_per_block_optin=SHARED_BYTES),
    )
    forget()
    yield monkeypatch
    forget()


def forget() -> None:
    """What is known of a device is kept for as long as the process lives."""
    for known in (cuda.serves, cuda.kernel, cuda.shared_bytes):
        known.cache_clear()


def source(folder: Path) -> Path:
    path = folder / "kernel.cu"
    path.write_text("code")
    return path


def test_it_serves_where_a_compiler_and_a_recent_device_are(compiler: pytest.MonkeyPatch) -> None:
    assert cuda.serves(DEVICE)


def test_an_older_device_is_served_by_triton(compiler: pytest.MonkeyPatch) -> None:
    compiler.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert not cuda.serves(DEVICE)


@pytest.mark.parametrize("module", ["cuda.core", "cuda.bindings.nvrtc"])
def test_without_a_compiler_triton_serves(compiler: pytest.MonkeyPatch, module: str) -> None:
    compiler.setitem(sys.modules, module, None)
    assert not cuda.serves(DEVICE)


@pytest.mark.parametrize("broken", ["folder", "cache"])
def test_a_kernel_that_cannot_be_kept_is_compiled_all_the_same(
    compiler: pytest.MonkeyPatch, tmp_path: Path, broken: str
) -> None:
    compiler.setattr(Program, "broken", broken)
    with pytest.warns(UserWarning, match=f"compiled kernels are not kept on disk: the {broken} is broken"):
        function = cuda.kernel(source(tmp_path), "accumulate", (("STEPS", 2),), DEVICE)
    assert function.handle == ("accumulate", "code")


def test_shared_memory_that_is_refused_is_an_error(compiler: pytest.MonkeyPatch, tmp_path: Path) -> None:
    driver = vars(sys.modules["cuda.bindings"])["driver"]
    compiler.setattr(driver, "cuKernelSetAttribute", lambda *_: (1,))
    with pytest.raises(RuntimeError, match=f"{SHARED_BYTES} bytes of shared memory were refused"):
        cuda.kernel(source(tmp_path), "accumulate", (), DEVICE)


def test_what_does_not_compile_is_left_to_triton(compiler: pytest.MonkeyPatch) -> None:
    compiler.setattr(Program, "broken", "compiler")
    projector = random_projector(0, tilting=False)
    assert projector._all is not None
    bands = projector._all.forward_bands
    with pytest.warns(UserWarning, match=r"Triton serves, since accumulate\.cu does not compile"):
        found = tensor_cores.prepared(bands, projector.range[1:], DEVICE)
    assert found is None
    # Said once, not at every call.
    assert tensor_cores.prepared(bands, projector.range[1:], DEVICE) is None
