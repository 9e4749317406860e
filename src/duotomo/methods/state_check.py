"""A state that was kept elsewhere, held against the computation that goes on from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import torch

from duotomo.errors import DuotomoError
from duotomo.methods.level import Factors
from duotomo.methods.state import State
from duotomo.solvers import Status
from duotomo.transforms import Transform


def check_state(
    where: str,
    state: State,
    *,
    n_stages: int,
    coarsens: Collection[Factors],
    shapes: Callable[[Factors], Mapping[str, tuple[int, ...]]],
    transforms: Callable[[str], Sequence[Transform]],
) -> None:
    """Raise unless a state can be one of this computation.

    Parameters
    ----------
    where : str
        The method that goes on from it.
    state : State
        Of a checkpoint, whoever wrote it.
    n_stages : int
        Stages of the schedule; the state after the last has this number.
    coarsens : collection of tuple of int
        The factors of the schedule.
    shapes : callable
        From factors to the shape (z, y, x) of each volume, by name.
    transforms : callable
        From the name of a model to the transform of each moving visit.

    Raises
    ------
    DuotomoError
        If its stage or its factors are not of the schedule, or its numbers have other shapes or are not
        finite.
    """
    if state.stage > n_stages:
        raise unfit(where, f"a stage up to {n_stages}", str(state.stage))
    if state.coarsen not in coarsens:
        raise unfit(where, f"voxels combined by one of {sorted(coarsens)}", str(state.coarsen))
    for name, shape in shapes(state.coarsen).items():
        check_kept(where, f"volume {name!r}", state.volumes.get(name), shape)
    models = transforms(state.model)
    if len(state.params) != len(models):
        raise unfit(where, f"parameters of {len(models)} moving visits", str(len(state.params)))
    for transform, params in zip(models, state.params, strict=True):
        check_kept(where, f"parameters of {state.model[:80]}", params, (transform.n_params,))


def check_starts(where: str, starts: Sequence[State]) -> Iterator[State]:
    """Give those of several starts that were run, and raise if one has neither steps nor diverged.

    A start from which the visits share no volume is not run: it has diverged, and has no volume.
    """
    for start in starts:
        if start.status is not Status.DIVERGED and not start.history:
            raise unfit(where, "steps of every start", "none of one of them")
        if start.volumes or start.status is not Status.DIVERGED:
            yield start


def check_kept(where: str, what: str, found: torch.Tensor | None, shape: tuple[int, ...]) -> None:
    """Raise unless a tensor of a checkpoint is there, of this shape, and finite."""
    if found is None or tuple(found.shape) != tuple(shape):
        came = "none" if found is None else f"the shape {tuple(found.shape)}"
        raise unfit(where, f"{what} of shape {tuple(shape)}", came)
    if not torch.isfinite(found).all():
        raise unfit(where, f"finite numbers as {what}", "NaN or infinity among them")


def unfit(where: str, expected: str, got: str) -> DuotomoError:
    """Return the error for a checkpoint that does not fit."""
    return DuotomoError(
        f"{where}: expected {expected} in the checkpoint; got {got}. It is not of this run: remove it to "
        f"begin anew."
    )
