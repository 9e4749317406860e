"""CUDA C++ kernels: compiled for the device at hand, kept on disk, run on PyTorch's stream."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

Macros = tuple[tuple[str, int], ...]

LEAST_CAPABILITY = (8, 0)
"""Of a device: it copies to shared memory in the background."""


@cache
def serves(device: torch.device) -> bool:
    """Return whether CUDA C++ can be compiled for a device: its compiler and `cuda.core` are there."""
    try:
        import_module("cuda.bindings.nvrtc")
        import_module("cuda.core")
    except ImportError:
        return False
    return torch.cuda.get_device_capability(device) >= LEAST_CAPABILITY


@cache
def kernel(source: Path, name: str, macros: Macros, device: torch.device) -> Any:
    """Compile one kernel of a file, with each macro a number; take it from the disk if it is there."""
    from cuda.bindings import driver
    from cuda.core import Device, Program, ProgramOptions
    from cuda.core.utils import FileStreamProgramCache

    Device(device.index).set_current()
    major, minor = torch.cuda.get_device_capability(device)
    options = ProgramOptions(
        arch=f"sm_{major}{minor}", std="c++17", define_macro=[(key, str(value)) for key, value in macros]
    )
    program = Program(source.read_text(), "c++", options=options)
    try:
        with FileStreamProgramCache() as kept:
            function = program.compile("cubin", cache=kept).get_kernel(name)
    except Exception as error:
        # A folder that cannot be written, or a broken file in it; if it is the source, this fails too.
        function = program.compile("cubin").get_kernel(name)
        warnings.warn(f"duotomo: compiled kernels are not kept on disk: {error}", stacklevel=2)
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (status,) = driver.cuKernelSetAttribute(attribute, shared_bytes(device), function.handle, device.index)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{shared_bytes(device)} bytes of shared memory were refused: {status}")
    return function


@cache
def shared_bytes(device: torch.device) -> int:
    """Return how much shared memory a block may have."""
    properties: Any = torch.cuda.get_device_properties(device)
    return int(properties.shared_memory_per_block_optin)


def launch(
    function: Any, grid: tuple[int, int, int], n_threads: int, n_bytes: int, *arguments: torch.Tensor | int
) -> None:
    """Run a kernel with so much shared memory for each block; tensors are pointers to it, numbers are int."""
    from cuda.core import LaunchConfig, Stream
    from cuda.core import launch as launch_kernel

    device = next(one.device for one in arguments if isinstance(one, torch.Tensor))
    stream = Stream.from_handle(torch.cuda.current_stream(device).cuda_stream)
    values = [one.data_ptr() if isinstance(one, torch.Tensor) else np.int32(one) for one in arguments]
    launch_kernel(stream, LaunchConfig(grid=grid, block=n_threads, shmem_size=n_bytes), function, *values)
