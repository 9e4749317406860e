"""Which back end serves which device. A device without kernels is an error, never a slow detour."""

from __future__ import annotations

from types import ModuleType

import torch

from duotomo.errors import DeviceError


def project_kernels(device: torch.device) -> ModuleType:
    """Return the module of projector kernels for tensors on `device`."""
    if device.type == "cpu":
        from duotomo.kernels.project import cpu

        return cpu
    if device.type == "cuda":
        from duotomo.kernels.project import gpu

        return gpu
    raise _unknown("Projector", device)


def planar_kernels(device: torch.device) -> ModuleType:
    """Return the module of planar resampling kernels for tensors on `device`."""
    if device.type == "cpu":
        from duotomo.kernels.planar import cpu

        return cpu
    if device.type == "cuda":
        from duotomo.kernels.planar import gpu

        return gpu
    raise _unknown("Projector", device)


def warp_kernels(device: torch.device) -> ModuleType:
    """Return the module of warp kernels for tensors on `device`."""
    if device.type == "cpu":
        from duotomo.kernels.warp import cpu

        return cpu
    if device.type == "cuda":
        from duotomo.kernels.warp import gpu

        return gpu
    raise _unknown("Warp", device)


def _unknown(where: str, device: torch.device) -> DeviceError:
    return DeviceError(
        f"{where}: expected a tensor on 'cpu' or 'cuda'; got {str(device)!r}. "
        f"Move it with .to('cpu') or .to('cuda')."
    )
