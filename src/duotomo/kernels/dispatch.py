"""Which back end serves which device. A device without kernels is an error, never a slow detour."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import torch

from duotomo.errors import DeviceError

_BACK_ENDS = {"cpu": "cpu", "cuda": "gpu"}


def project_kernels(device: torch.device) -> ModuleType:
    """Return the module of projector kernels for tensors on `device`."""
    return _kernels("project", "Projector", device)


def planar_kernels(device: torch.device) -> ModuleType:
    """Return the module of planar resampling kernels for tensors on `device`."""
    return _kernels("planar", "Projector", device)


def warp_kernels(device: torch.device) -> ModuleType:
    """Return the module of warp kernels for tensors on `device`."""
    return _kernels("warp", "Warp", device)


def spline_kernels(device: torch.device) -> ModuleType:
    """Return the module that samples cubic splines for tensors on `device`."""
    return _kernels("spline", "SplineBasis", device)


def secant_kernels(device: torch.device) -> ModuleType:
    """Return the module of a quasi-Newton method's rows for tensors on `device`."""
    return _kernels("secants", "Lbfgs", device)


def fused_priors(device: torch.device) -> ModuleType | None:
    """Return the module of priors in one pass each for tensors on `device`; None where PyTorch serves."""
    return _kernels("variation", "Objective", device) if device.type == "cuda" else None


def _kernels(package: str, where: str, device: torch.device) -> ModuleType:
    if device.type not in _BACK_ENDS:
        raise DeviceError(
            f"{where}: expected a tensor on 'cpu' or 'cuda'; got {str(device)!r}. "
            f"Move it with .to('cpu') or .to('cuda')."
        )
    try:
        return import_module(f"duotomo.kernels.{package}.{_BACK_ENDS[device.type]}")
    except ModuleNotFoundError as error:
        if error.name != "triton":
            raise
        raise DeviceError(
            f"{where}: expected Triton for a tensor on {str(device)!r}; it is not installed. Install it with "
            f"pip install triton, or move the tensor with .to('cpu')."
        ) from error
