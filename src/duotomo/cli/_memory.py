"""The memory that a computation needs, beside what is there."""

from __future__ import annotations

from duotomo.cli._options import Talk

GB = 1e9


def available_bytes(device: str) -> int:
    """Return the bytes that a computation on "cpu", "cuda" or "cuda:1" may still take.

    >>> available_bytes("cpu") > 0
    True
    """
    if device != "cpu":
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    from duotomo.io.free_memory import free_bytes

    return free_bytes()


def fits(needed: int, *, device: str, most_gb: float | None) -> bool:
    """Return whether so many bytes of arrays are there, and allowed."""
    return needed <= available_bytes(device) and (most_gb is None or needed <= most_gb * GB)


def check_memory(needed: int, *, device: str, most_gb: float | None, remedy: str, talk: Talk) -> None:
    """Say how much memory is needed and there; raise if that is too little, or more than was allowed.

    needed: by arrays. On the CPU the program itself takes of the same memory, some of it already. most_gb:
    what --max-memory allows. remedy: how to need less.
    """
    from duotomo.errors import DuotomoError
    from duotomo.io.free_memory import PROGRAM_BYTES, own_bytes

    program, own = (PROGRAM_BYTES, own_bytes()) if device == "cpu" else (0, 0)
    in_all, available = needed + program, available_bytes(device) + min(own, program)
    words = f"{in_all / GB:.3g} GB needed on {device}"
    if program:
        words += f", {program / GB:.2g} of them by the program itself"
    talk.progress(f"Memory: about {words}; {available / GB:.3g} GB available")
    if most_gb is not None and most_gb * GB < in_all:
        raise DuotomoError(
            f"expected to need at most --max-memory {most_gb:g} GB; got about {words}. Allow more, or "
            f"{remedy}."
        )
    if available < in_all:
        raise DuotomoError(
            f"expected {in_all / GB:.3g} GB of memory on {device}; got {available / GB:.3g} GB. Free some, "
            f"or {remedy}."
        )
