"""One volume and the motion of all visits, from one objective."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from duotomo.methods.multi_start import multi_start
from duotomo.methods.runner import VOLUME, Runner
from duotomo.methods.settings import Settings
from duotomo.methods.state import Checkpoint, OnRecord, Result, State
from duotomo.methods.study import Study
from duotomo.transforms import Transform


def simultaneous(
    study: Study,
    settings: Settings,
    *,
    on_step: OnRecord | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Return the volume and the motion that together explain all visits best.

    `min over f, zeta of 1/2 |A_1 f - p_1|^2 + sum over moving visits k of 1/2 |A_k T(zeta_k) f - p_k|^2`,
    with the priors of the settings, stage by stage. on_step: called after every step. checkpoint: where the
    state after every block of steps is kept; a run that finds one there goes on from it, to the same result.
    """
    runner = Runner(study, settings, on_step=on_step, checkpoint=checkpoint)
    saved = checkpoint.load() if checkpoint else None
    state = runner.run(saved or multi_start(study, settings, on_step))
    return _result("simultaneous", study, runner.transforms(state.model), state)


def with_known_motion(
    study: Study,
    settings: Settings,
    motion: Sequence[tuple[Transform, torch.Tensor]],
    *,
    on_step: OnRecord | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Return the volume that explains all visits best, given how the breast moved between them.

    motion: transform and parameters, moving_to_reference, of each moving visit; none for a study of one
    visit. The stages and the priors are those of the settings.
    """
    fixed = settings.with_known_motion()
    runner = Runner(study, fixed, known=tuple(motion), on_step=on_step, checkpoint=checkpoint)
    state = runner.run((checkpoint.load() if checkpoint else None) or runner.first_state())
    return _result("known motion", study, tuple(transform for transform, _ in motion), state)


def _result(method: str, study: Study, transforms: tuple[Transform, ...], state: State) -> Result:
    return Result(
        method=method,
        grid=study.grid.coarsen(state.coarsen),
        volume=state.volumes[VOLUME],
        transforms=transforms,
        params=state.params,
        status=state.status,
        reason=state.reason,
        applications=state.applications,
        seconds=state.seconds,
        history=state.history,
    )
