"""The memory that a computation needs, beside what is there."""

from __future__ import annotations

from duotomo.cli._options import Talk

GB = 1e9


def available_bytes(device: str) -> int:
    """Return the bytes that a computation on "cpu" or "cuda" may still take.

    >>> available_bytes("cpu") > 0
    True
    """
    if device == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info()
        return int(free)
    from duotomo.io.free_memory import free_bytes

    return free_bytes()


def fits(needed: int, *, device: str, most_gb: float | None) -> bool:
    """Return whether so many bytes are there, and allowed."""
    return needed <= available_bytes(device) and (most_gb is None or needed <= most_gb * GB)


def check_memory(needed: int, *, device: str, most_gb: float | None, remedy: str, talk: Talk) -> None:
    """Say how much memory is needed and there; raise if that is too little, or more than was allowed.

    most_gb: what --max-memory allows. remedy: how to need less.
    """
    from duotomo.errors import DuotomoError

    available = available_bytes(device)
    talk.progress(f"Memory: about {needed / GB:.3g} GB needed, {available / GB:.3g} GB available")
    if most_gb is not None and most_gb * GB < needed:
        raise DuotomoError(
            f"expected to need at most --max-memory {most_gb:g} GB; got about {needed / GB:.3g} GB. Allow "
            f"more, or {remedy}."
        )
    if available < needed:
        raise DuotomoError(
            f"expected {needed / GB:.3g} GB of memory on {device}; got {available / GB:.3g} GB. Free some, "
            f"or {remedy}."
        )
