"""Which kernels serve which device, and what is said where none can."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from duotomo.errors import DeviceError
from duotomo.kernels.dispatch import (
    fused_priors,
    planar_kernels,
    project_kernels,
    secant_kernels,
    spline_kernels,
    warp_kernels,
)

KINDS = (planar_kernels, project_kernels, secant_kernels, spline_kernels, warp_kernels)
GPU, CPU = torch.device("cuda"), torch.device("cpu")

each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@pytest.fixture
def without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Python find no Triton, and no module that has found it before."""
    monkeypatch.setitem(sys.modules, "triton", None)
    for name in list(sys.modules):
        if name.startswith("duotomo.kernels.") and name.split(".")[-1].startswith("gpu"):
            monkeypatch.delitem(sys.modules, name)


@each_kind
@pytest.mark.usefixtures("without_triton")
def test_without_triton_a_gpu_is_refused_and_a_cpu_is_not(kind: Callable[[torch.device], ModuleType]) -> None:
    with pytest.raises(DeviceError, match=r"expected Triton for a tensor on 'cuda'; it is not installed\."):
        kind(GPU)
    assert kind(CPU).__name__.endswith(".cpu")


@pytest.mark.usefixtures("without_triton")
def test_priors_in_one_pass_are_a_gpu_s() -> None:
    assert fused_priors(CPU) is None
    with pytest.raises(DeviceError, match="pip install triton, or move the tensor"):
        fused_priors(GPU)
