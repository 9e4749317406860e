"""Estimate of the memory that a method needs."""

from __future__ import annotations

from duotomo.methods.schedule import Stage
from duotomo.methods.settings import Coupled, Settings
from duotomo.methods.study import Study
from duotomo.transforms.transform import FEW_PARAMS

VOLUMES, PROJECTIONS = 24, 8
"""Copies of the volume, and of the projections, that a step works with beside the solver's memory."""
PARAMETER_BYTES = 40
"""Of a parameter, beside its place in the solver's vectors: what is computed of it in float64."""
VISIT_BYTES = 80_000
"""Of a visit: objects, and arrays too small to count."""
BAND_BYTES, GAIN_BYTES, SOLVING_BYTES = 256, 64, 312
"""Of a view in a slice: the lines of its footprints. Of a pair of views of a visit: how residuals tell what
is not known of exposures, kept, and while it is computed."""


def memory_bytes(study: Study, settings: Settings) -> int:
    """Estimate the peak memory of a method's arrays.

    The larger, in the stage where it is largest, of what a step takes and what comes before the first one,

        b ((24 + h) (N + P) + (8 + m) R) + 40 P + T  and  8 b R + 312 V^2 + T,
        T = sum over visits of (80,000 + 256 V n_z + 64 V^2),

    with b the bytes of a number, N the voxels, P the parameters and R the rays of all visits, V the views of
    a visit (of the largest outside of the sum), n_z the slices, and m the parameters of a model that has
    derivative images. h vectors are held for the solver: two for each step that it remembers, and two for
    each of the m parameters, an image and its copy; the larger of the two if it alternates.

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
    >>> round(memory_bytes(study, Settings.staged(study.grid, Affine)) / 1e6)
    150
    """
    return max(_stage_bytes(study, settings, stage) for stage in (*settings.stages, *settings.stiffer))


def _stage_bytes(study: Study, settings: Settings, stage: Stage) -> int:
    number = study.reference.projections.element_size()
    grids = [study.grid_of(visit).coarsen(stage.coarsen) for visit in study.visits]
    n_voxels = max(grid.n_voxels for grid in grids)
    n_views = [visit.acquisition.n_views for visit in study.visits]
    n_rays = sum(visit.projections.numel() for visit in study.visits)
    model = stage.model
    n_params = [] if model is None else [model(study.grid_of(one)).n_params for one in study.moving]
    n_images = max((n for n in n_params if n <= FEW_PARAMS), default=0)
    steps, images = 2 * settings.solver.memory, 2 * n_images
    held = steps + images if isinstance(settings.solver, Coupled) else max(steps, images)
    numbers = (VOLUMES + held) * (n_voxels + sum(n_params)) + (PROJECTIONS + n_images) * n_rays
    tables = sum(
        VISIT_BYTES + BAND_BYTES * n * grid.shape[0] + GAIN_BYTES * n**2
        for n, grid in zip(n_views, grids, strict=True)
    )
    step = number * numbers + PARAMETER_BYTES * sum(n_params)
    before = number * PROJECTIONS * n_rays + SOLVING_BYTES * max(n_views) ** 2
    return max(step, before) + tables
