"""Memory that one warp needs beyond its input and its output, as a share of both.

Measured in a process of its own, since a high-water mark never falls. The process first compiles and warms up
on a tiny volume, then allocates its input and writes to it; what is resident then is the level before. The
mark after the call (VmHWM; on a GPU, what PyTorch allocated at most), less that level and less the output, is
what the call needed. Something earlier that had reached higher could only add to that, never hide it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.cases import warp

ROOT = Path(__file__).parents[1]
OPERATIONS = ("forward", "adjoint", "parameter-gradient")
TINY = (6, 7, 8)

Shape = tuple[int, int, int]


def measure(
    name: str, operation: str, *, shape: Shape, control_shape: Shape, device: str, n_threads: int
) -> float:
    """Return the share that an operation needs, measured in a new process.

    name: of a transform, as in `benchmarks.cases`.
    """
    numbers = [str(n) for n in (*shape, *control_shape)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.warp_memory", name, operation, device, *numbers],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
            "NUMBA_NUM_THREADS": str(n_threads),
            "OMP_NUM_THREADS": str(n_threads),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout)


def measure_here(name: str, operation: str, *, shape: Shape, control_shape: Shape, device: str) -> float:
    """Return the share that an operation needs, measured in this process, which must be a new one."""
    prepare(name, operation, TINY, (4, 4, 4), device)[0]()
    call, n_bytes_in = prepare(name, operation, shape, control_shape, device)
    before = bytes_now(device)
    result = call()
    most = most_bytes(device)
    n_bytes_out = result.nbytes
    return (most - before - n_bytes_out) / (n_bytes_in + n_bytes_out)


def prepare(
    name: str, operation: str, shape: Shape, control_shape: Shape, device: str
) -> tuple[Callable[[], torch.Tensor], int]:
    """Return an operation on inputs of ones, and the bytes of the inputs."""
    transform, params = warp(name, shape, control_shape)
    volume = torch.ones(shape, device=device)
    if operation == "forward":
        return lambda: transform.warp(params)(volume), volume.nbytes
    if operation == "adjoint":
        return lambda: transform.warp(params).adjoint(volume), volume.nbytes
    image = torch.ones(shape, device=device)
    return lambda: transform.vjp(params, volume, image), volume.nbytes + image.nbytes


def bytes_now(device: str) -> int:
    """Return what is in use."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    return status_bytes("VmRSS")


def most_bytes(device: str) -> int:
    """Return the most that was ever in use."""
    if device == "cuda":
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
    return status_bytes("VmHWM")


def status_bytes(field: str) -> int:
    """Return an entry of Linux's account of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    n_z, n_y, n_x, k_z, k_y, k_x = (int(word) for word in sys.argv[4:])
    print(
        measure_here(
            sys.argv[1],
            sys.argv[2],
            shape=(n_z, n_y, n_x),
            control_shape=(k_z, k_y, k_x),
            device=sys.argv[3],
        )
    )
