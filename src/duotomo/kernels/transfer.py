"""From a GPU to the CPU, while both go on working."""

from __future__ import annotations

from collections.abc import Callable

import torch


def to_host(*tensors: torch.Tensor) -> Callable[[], tuple[torch.Tensor, ...]]:
    """Start to copy tensors to the CPU; return what waits until they are there, and gives them.

    Kernels launched between this call and that of the function returned are not waited for. Tensors that are
    there already are given as they are.
    """
    on_gpu = [tensor for tensor in tensors if tensor.is_cuda]
    if not on_gpu:
        return lambda: tensors
    landed = tuple(
        torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)
        if tensor.is_cuda
        else tensor
        for tensor in tensors
    )
    arrived = torch.cuda.Event()
    arrived.record(torch.cuda.current_stream(on_gpu[0].device))

    def finish() -> tuple[torch.Tensor, ...]:
        arrived.synchronize()
        return landed

    return finish
