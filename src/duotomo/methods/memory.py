"""Estimate of the memory that a method needs."""

from __future__ import annotations

from duotomo.methods.settings import Coupled, Settings
from duotomo.methods.study import Study
from duotomo.transforms.transform import FEW_PARAMS

VOLUMES, PROJECTIONS = 24, 8
"""Copies of the volume, and of the projections, that a step works with beside the solver's memory."""


def memory_bytes(study: Study, settings: Settings) -> int:
    """Estimate the peak memory of a method's arrays, in its finest stage.

    `b ((24 + h) N + (8 + m) R)`, with b the bytes of a number, N the voxels, R the rays of all visits, and m
    the parameters of the largest model that has derivative images. h volumes are held for the solver: two for
    each step that it remembers, and two for each of the m parameters, an image and its copy; the larger of
    the two if it alternates.

    Parameters
    ----------
    study : Study
        The visits, and the grid of the volume.
    settings : Settings
        Schedule and solver.

    Returns
    -------
    int
        Bytes.

    Examples
    --------
    >>> import torch
    >>> from duotomo.geometry import VolumeGrid, paper
    >>> from duotomo.methods import Visit
    >>> from duotomo.transforms import Affine
    >>> scan = paper()
    >>> visits = (Visit(projections=torch.ones(scan.shape), acquisition=scan),) * 2
    >>> study = Study(grid=VolumeGrid.on_detector((70, 70, 70), (1.0, 1.0, 1.0)), visits=visits)
    >>> memory_bytes(study, Settings.staged(study.grid, Affine)) < 150e6
    True
    """
    grids = [study.grid_of(visit) for visit in study.visits]
    n_voxels = max(grid.coarsen(stage.coarsen).n_voxels for grid in grids for stage in settings.stages)
    n_rays = sum(visit.projections.numel() for visit in study.visits)
    models = [stage.model(study.grid) for stage in settings.stages if stage.model is not None]
    n_images = max((model.n_params for model in models if model.n_params <= FEW_PARAMS), default=0)
    steps, images = 2 * settings.solver.memory, 2 * n_images
    held = steps + images if isinstance(settings.solver, Coupled) else max(steps, images)
    numbers = (VOLUMES + held) * n_voxels + (PROJECTIONS + n_images) * n_rays
    return numbers * study.reference.projections.element_size()
