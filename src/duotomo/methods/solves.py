"""Solves for many directions, in batches, which a store keeps so that a run that is killed can go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import torch

from duotomo.methods.profiled_curvature import ProfiledCurvature

BATCH_BYTES, PER_SOLVE, MOST_AT_ONCE = 256 * 2**20, 12, 48
"""Memory of a batch of solves, about; volumes of each that count in it; and solves at most."""

EVERY_S = 20.0
"""Seconds from one time that batches are kept to the next: short ones wait for each other."""

Rows = Mapping[str, torch.Tensor]
"""What solves found, by name, (direction, ...)."""


class SolveStore(Protocol):
    """Storage of finished batches of solves, with which an interrupted computation can be resumed."""

    def load(self, name: str, key: str) -> Rows | None:
        """Return a batch that was saved.

        Parameters
        ----------
        name : str
            Of the batch: letters, digits and underscores.
        key : str
            SHA-256 of what it was solved for.

        Returns
        -------
        mapping of str to torch.Tensor, or None
            None if there is none with this key.
        """

    def save(self, name: str, key: str, rows: Rows) -> None:
        """Keep a batch, in place of another one of this name.

        Parameters
        ----------
        name, key
            As for `load`.
        rows : mapping of str to torch.Tensor
            What was found.
        """


def n_at_once(volume_bytes: int) -> int:
    """Return how many directions are solved for in one batch."""
    return max(1, min(MOST_AT_ONCE, BATCH_BYTES // (PER_SOLVE * volume_bytes)))


def solved_products(
    profiled: ProfiledCurvature,
    directions: torch.Tensor,
    *,
    store: SolveStore | None,
    on_part: Callable[[int], None] | None,
) -> torch.Tensor:
    """Return `S d` of directions, (direction, n_params), batch by batch; on_part: hears how many are done."""

    def solve(some: torch.Tensor) -> Rows:
        return {"products": profiled.products(some)}

    return _solved("products", solve, profiled, directions, store, on_part)["products"].cpu()


def solved_columns(
    profiled: ProfiledCurvature,
    directions: torch.Tensor,
    *,
    store: SolveStore | None,
    on_part: Callable[[int], None] | None,
) -> Rows:
    """Return the fields of `ProfiledColumns`, each (direction, number), batch by batch."""

    def solve(some: torch.Tensor) -> Rows:
        columns = profiled.columns(some)
        return {name: value.flatten(1) for name, value in vars(columns).items()}

    return _solved("columns", solve, profiled, directions, store, on_part)


def _solved(
    kind: str,
    solve: Callable[[torch.Tensor], Rows],
    profiled: ProfiledCurvature,
    directions: torch.Tensor,
    store: SolveStore | None,
    on_part: Callable[[int], None] | None,
) -> Rows:
    found: list[Rows] = []
    waiting: list[tuple[str, str, Rows]] = []
    kept_at = time.monotonic()
    for some in _batches(profiled, len(directions)):
        own, name = directions[some], f"{kind}_{some.start}"
        key = "" if store is None else profiled.key(own)
        rows = None if store is None else store.load(name, key)
        if rows is None:
            rows = solve(own)
            waiting.append((name, key, rows))
        found.append(rows)
        if store is not None and time.monotonic() - kept_at >= EVERY_S:
            for batch in waiting:
                store.save(*batch)
            waiting.clear()
            kept_at = time.monotonic()
        if on_part is not None:
            on_part(some.stop)
    return {part: torch.cat([rows[part] for rows in found]) for part in found[0]}


def _batches(profiled: ProfiledCurvature, n: int) -> Iterator[slice]:
    size = n_at_once(profiled.volume.numel() * profiled.volume.element_size())
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
