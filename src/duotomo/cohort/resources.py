"""Where the cases of a cohort run: how many at once, with how many threads and how much memory each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from duotomo.cohort.plan import Planned
from duotomo.errors import DeviceError, DuotomoError
from duotomo.io.free_memory import free_bytes

GB = 1e9
SPARE = 0.9
"""The share of the free memory that workers are given, unless it is said."""

DEVICES = ("auto", "cpu", "cuda")

HOST_BYTES = 4_000_000_000
"""Of memory for the program with CUDA, beside what is on the GPU."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Where cases run.

    Parameters
    ----------
    scheduler : str, optional
        The address of a Dask scheduler that is there, such as tcp://127.0.0.1:8786. Unless given, workers are
        started on this machine, and end with the cohort.
    n_workers : int, optional
        How many cases at once. Unless given: as many as cores, cases and memory allow, or on a GPU one.
    n_threads : int, optional
        On the CPU, for each case. Unless given: cores that are left, divided; with a scheduler, one.
    max_memory_gb : float, optional
        Most memory to use, of all cases together, in GB; nine tenths of what is free, unless given.
    device : str
        "cpu", "cuda", or "auto": CUDA, if it is there.
    per_gpu : int
        How many cases share a GPU.
    n_retries : int
        How often a case is gone on with after its process was killed.

    Raises
    ------
    DuotomoError
        If a number is below 1, or a scheduler is named whose workers are somebody else's to start.

    Examples
    --------
    >>> Resources(device="cuda", per_gpu=4).scheduler is None
    True
    """

    scheduler: str | None = None
    n_workers: int | None = None
    n_threads: int | None = None
    max_memory_gb: float | None = None
    device: str = "auto"
    per_gpu: int = 1
    n_retries: int = 3

    def __post_init__(self) -> None:
        for name in ("n_workers", "n_threads", "per_gpu"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise DuotomoError(f"Resources: expected `{name}` of 1 or more; got {value}. Leave it out.")
        if self.device not in DEVICES:
            raise DuotomoError(
                f"Resources: expected one of {', '.join(DEVICES)} for `device`; got {self.device!r}. Cases "
                f"are spread over all GPUs: set CUDA_VISIBLE_DEVICES to use some of them."
            )
        if self.scheduler is not None and (self.n_workers or self.max_memory_gb or self.per_gpu > 1):
            raise DuotomoError(
                "Resources: expected `scheduler` without `n_workers`, `max_memory_gb` and `per_gpu`; got "
                "both. Its workers say how many they are, and what each may take."
            )


@dataclass(frozen=True, kw_only=True)
class Allotment:
    """What each worker on this machine gets.

    Parameters
    ----------
    n_workers, n_threads : int
        Workers, and threads of each.
    share_bytes : int
        Of memory, for each.
    device_bytes : int, optional
        Of a GPU's, for each.
    gpus : tuple of int
        For each worker its GPU; empty on the CPU.
    """

    n_workers: int
    n_threads: int
    share_bytes: int
    device_bytes: int | None = None
    gpus: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """What a person reads.

        >>> Allotment(n_workers=2, n_threads=1, share_bytes=4 * 10**9, device_bytes=10**9).words
        '2 workers with 1 thread and 4 GB each, and 1 GB of a GPU'
        """
        n, threads = self.n_workers, self.n_threads
        share = f"{threads} thread{'s' * (threads > 1)} and {self.share_bytes / GB:.3g} GB each"
        gpu = "" if self.device_bytes is None else f", and {self.device_bytes / GB:.3g} GB of a GPU"
        return f"{n} worker{'s' * (n > 1)} with {share}{gpu}"


def allot(needs: Iterable[int], resources: Resources) -> Allotment:
    """Return what each worker gets, such that the largest case fits if any of them alone does.

    Parameters
    ----------
    needs : iterable of int
        Bytes of each case that is to run.
    resources : Resources
        What was asked for.

    Returns
    -------
    Allotment
        With at least one worker.

    Raises
    ------
    DeviceError
        If GPUs are asked for, and none is there.

    Examples
    --------
    >>> allot([10**9] * 40, Resources(n_workers=2, n_threads=1, max_memory_gb=8)).share_bytes
    4000000000
    """
    needed, cores = sorted(needs), len(os.sched_getaffinity(0))
    budget = int(SPARE * free_bytes() if resources.max_memory_gb is None else resources.max_memory_gb * GB)
    n_cases = max(1, len(needed))
    if _wants_gpus(resources):
        return _on_gpus(n_cases, budget, cores, resources)
    # One that is larger than all there is fails by itself, and holds nobody up.
    largest = max((need for need in needed if need <= budget), default=budget)
    fit = min(n_cases, max(1, cores // (resources.n_threads or 1)), max(1, budget // max(1, largest)))
    n_workers = resources.n_workers or fit
    return Allotment(
        n_workers=n_workers,
        n_threads=resources.n_threads or max(1, cores // n_workers),
        share_bytes=budget // n_workers,
    )


def _wants_gpus(resources: Resources) -> bool:
    if resources.device != "auto":
        return resources.device == "cuda"
    import torch

    return torch.cuda.is_available()


def _on_gpus(n_cases: int, budget: int, cores: int, resources: Resources) -> Allotment:
    import torch

    n_gpus = torch.cuda.device_count()
    if not n_gpus:
        raise DeviceError(
            "cohort: expected a CUDA device for `device='cuda'`; got none here. Use `device='cpu'`, or a "
            "`scheduler` whose workers have one."
        )
    n_workers = resources.n_workers or min(n_cases, n_gpus * resources.per_gpu)
    free = min(torch.cuda.mem_get_info(gpu)[0] for gpu in range(n_gpus))
    on_one = -(-n_workers // n_gpus)
    return Allotment(
        n_workers=n_workers,
        n_threads=resources.n_threads or max(1, cores // n_workers),
        share_bytes=max(budget // n_workers, min(budget, HOST_BYTES)),
        device_bytes=int(SPARE * free) // on_one,
        gpus=tuple(worker % n_gpus for worker in range(n_workers)),
    )


def too_large(planned: Planned, allotment: Allotment) -> str:
    """Return why a case does not fit into a worker's share, "" if it does."""
    most = allotment.device_bytes or allotment.share_bytes
    if planned.memory_bytes <= most:
        return ""
    return (
        f"{planned.case.place}: expected to need at most {most / GB:.3g} GB, the share of one of "
        f"{allotment.n_workers} workers; got about {planned.memory_bytes / GB:.3g} GB. Use larger voxels, "
        f"fewer workers (`n_workers=1`), or a larger machine."
    )


def seconds_left(seconds: Sequence[float], n_workers: int, *, factor: float = 1.0) -> float:
    """Return about how long cases take that no worker has begun: no less than the longest of them.

    seconds: of each on its own. factor: by which those that have ended took longer.

    >>> seconds_left([10.0, 10.0, 10.0, 50.0], 2)
    50.0
    """
    return factor * max([sum(seconds) / n_workers, *seconds], default=0.0)
