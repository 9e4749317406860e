"""Which back end serves which device. A device without kernels is an error, never a slow detour."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from types import ModuleType

import torch

from duotomo.errors import DeviceError

_BACK_ENDS = {"cpu": "cpu", "cuda": "gpu"}
_forked_with_threads = False


def project_kernels(device: torch.device) -> ModuleType:
    """Return the module of projector kernels for tensors on `device`."""
    return _kernels("project", "Projector", device)


def planar_kernels(device: torch.device) -> ModuleType:
    """Return the module of planar resampling kernels for tensors on `device`."""
    return _kernels("planar", "Projector", device)


def warp_kernels(device: torch.device) -> ModuleType:
    """Return the module of warp kernels for tensors on `device`."""
    return _kernels("warp", "Warp", device)


def _kernels(package: str, where: str, device: torch.device) -> ModuleType:
    if device.type not in _BACK_ENDS:
        raise DeviceError(
            f"{where}: expected a tensor on 'cpu' or 'cuda'; got {str(device)!r}. "
            f"Move it with .to('cpu') or .to('cuda')."
        )
    if device.type == "cpu" and _forked_with_threads:
        raise DeviceError(
            f"{where}: expected a process with threads of its own; got a fork of one that has used the CPU "
            f"kernels, whose OpenMP threads do not survive a fork. Start workers with "
            f'multiprocessing_context="spawn" or "forkserver", or fork before the first use.'
        )
    return import_module(f"duotomo.kernels.{package}.{_BACK_ENDS[device.type]}")


def _note_fork() -> None:
    """Remember, in the child, that the threads of the CPU kernels were left behind in the parent."""
    global _forked_with_threads
    numba = sys.modules.get("numba")
    try:
        # GNU OpenMP ends a process that enters a parallel loop after such a fork; the other layers do not.
        _forked_with_threads = _forked_with_threads or (
            numba is not None and numba.threading_layer() == "omp"
        )
    except ValueError:
        # No threads were started so far.
        return


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
