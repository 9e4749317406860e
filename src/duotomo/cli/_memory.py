"""How much memory a run needs, and how much a device has left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duotomo.methods import Settings, Study

MEMINFO = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")


VOLUMES, PROJECTIONS = 24, 8
"""Copies of the volume, and of the projections, that a step works with beside what the solver remembers."""

DENSE = 64
"""Models of more parameters have no derivative images."""


def needed_bytes(study: Study, settings: Settings) -> int:
    """Return about how many bytes of arrays a run holds at its fullest, in its finest stage.

    Each step that the solver remembers is two volumes; each parameter of a stiff model is an image of the
    derivative, its copy, and a projection. The solver that alternates has only one of the two at a time.
    """
    from duotomo.methods import Coupled

    n_voxels = max(study.grid.coarsen(stage.coarsen).n_voxels for stage in settings.stages)
    n_rays = sum(visit.projections.numel() for visit in study.visits)
    models = [stage.model.build(study.grid) for stage in settings.stages if stage.model is not None]
    n_images = max((model.n_params for model in models if model.n_params <= DENSE), default=0)
    steps, images = 2 * settings.solver.memory, 2 * n_images
    held = steps + images if isinstance(settings.solver, Coupled) else max(steps, images)
    numbers = (VOLUMES + held) * n_voxels + (PROJECTIONS + n_images) * n_rays
    return numbers * study.reference.projections.element_size()


def available_bytes(device: str) -> int:
    """Return the bytes that a computation on "cpu" or "cuda" may still take.

    On Linux, memory that only caches files counts as free, and the limit of a container is respected.

    >>> available_bytes("cpu") > 0
    True
    """
    if device == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info()
        return int(free)
    return min(_of_machine(), _of_group())


def _of_machine() -> int:
    if MEMINFO.exists():
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    # Elsewhere only all of it is known.
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_group() -> int:
    """Return what a control group, such as a container's, leaves; without one, all of the machine's."""
    everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        most = (GROUP / "memory.max").read_text().strip()
        used = int((GROUP / "memory.current").read_text())
        cached = dict(line.split() for line in (GROUP / "memory.stat").read_text().splitlines())
    except OSError:
        return everything
    if most == "max":
        return everything
    return max(0, int(most) - used + int(cached.get("inactive_file", 0)))
