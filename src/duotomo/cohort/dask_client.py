"""The connection to a Dask scheduler: checked before anything starts, watched while cases run."""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import duotomo
from duotomo.cohort.task import REFUSED, Outcome, Task, run_case
from duotomo.errors import DuotomoError

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_S, WORKERS_S, TICK_S = 15.0, 60.0, 0.5
SAME = ("python", "dask", "distributed")
"""What has to be of one version everywhere: tasks are pickled, and messages packed."""


class SchedulerLostError(DuotomoError):
    """The scheduler is not there any more: cases that have ended are kept, the others go on another time."""


def check_installed() -> None:
    """Raise unless Dask's scheduler is installed."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise DuotomoError(
            "cohort: expected Dask distributed; got no such package. Install it: pip install "
            "'duotomo[cluster]'."
        ) from error


@contextmanager
def connected(address: str, *, wait_s: float = CONNECT_S) -> Iterator[Client]:
    """Give a client of the scheduler at an address; raise if there is none, or one of another kind."""
    from distributed import Client

    client = None
    # Dask says in a log what is said here as an error.
    logs = [
        logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("distributed")
    ]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL + 1)
    try:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _ask(address, wait_s)
                client = Client(address, timeout=wait_s, set_as_default=False)
        except Exception as error:  # of the network, of Dask, or of whatever else listens there
            said = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise DuotomoError(
                f"cohort: expected a Dask scheduler of version {_own()['distributed']} at {address}; got: "
                f"{said[:300]}. Start one with dask scheduler, or check the address."
            ) from error
        yield client
    finally:
        if client is not None:
            client.close(timeout=5)
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _ask(address: str, wait_s: float) -> None:
    """Raise unless a scheduler answers: a client would wait for ever for one that says nothing."""
    from distributed.core import rpc

    async def identity() -> None:
        async with rpc(address, timeout=wait_s) as scheduler:
            await asyncio.wait_for(scheduler.identity(), wait_s)

    # A notebook has a loop of its own that runs.
    with ThreadPoolExecutor(1) as beside:
        beside.submit(asyncio.run, identity()).result()


def check_versions(client: Client, *, wait_s: float = WORKERS_S) -> None:
    """Raise unless there are workers, and all run what runs here."""
    try:
        client.wait_for_workers(1, timeout=wait_s)
    except TimeoutError as error:
        raise DuotomoError(
            f"cohort: expected workers of the Dask scheduler at {_address(client)}; got none within "
            f"{wait_s:.0f} s. Start some: dask worker {_address(client)}."
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = client.get_versions(check=False)
    everyone = {"the scheduler": found["scheduler"], **found["workers"]}
    own, others = _own(), client.run(own_version)
    told = {
        name: _versions(facts) | {"duotomo": others.get(name, own["duotomo"])}
        for name, facts in everyone.items()
    }
    wrong = differing(own, told)
    if wrong:
        raise DuotomoError(
            f"cohort: expected the Dask cluster at {_address(client)} to run what runs here; got "
            f"{'; '.join(wrong)}. Install the same versions everywhere."
        )


def differing(own: Mapping[str, str], told: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return in words what is of another version than here.

    >>> differing({"dask": "2"}, {"the scheduler": {"dask": "1"}, "tcp://a": {"dask": "2"}})
    ['dask 1 on the scheduler, 2 here']
    """
    return [
        f"{name} {versions.get(name)} on {place}, {version} here"
        for place, versions in told.items()
        for name, version in own.items()
        if versions.get(name) != version
    ]


def own_version() -> str:
    """Return the version of duotomo, asked of a worker."""
    return duotomo.__version__


def _own() -> dict[str, str]:
    import dask
    import distributed

    python = ".".join(map(str, sys.version_info[:2]))
    return {
        "python": python,
        "dask": dask.__version__,
        "distributed": distributed.__version__,
        "duotomo": duotomo.__version__,
    }


def _versions(facts: Mapping[str, Any]) -> dict[str, str]:
    packages = facts["packages"]
    python = ".".join(str(packages["python"]).split(".")[:2])
    return {"python": python, "dask": packages["dask"], "distributed": packages["distributed"]}


def _address(client: Client) -> str:
    return str(client.scheduler.address) if client.scheduler else ""


def run_tasks(
    client: Client,
    tasks: Sequence[Task],
    on_outcome: Callable[[Outcome], None],
    *,
    is_alive: Callable[[], bool],
    on_tick: Callable[[], None],
) -> None:
    """Run tasks, and hear of each as it ends; is_alive, on_tick: asked and called twice a second.

    Raises
    ------
    SchedulerLostError
        If the scheduler is gone.
    """
    ended: SimpleQueue[Future] = SimpleQueue()
    waiting: dict[str, tuple[Future, Task]] = {}

    def submit(some: Sequence[Task], attempt: int) -> None:
        keys = [f"{task.name}-{task.key}-{attempt}" for task in some]
        futures = client.map(run_case, list(some), key=keys, pure=False)
        waiting.update({one.key: (one, task) for one, task in zip(futures, some, strict=True)})
        for future in futures:
            future.add_done_callback(ended.put)

    submit(tasks, 0)
    lost: dict[str, int] = {}
    while waiting:
        try:
            future = ended.get(timeout=TICK_S)
        except Empty:
            future = None
        on_tick()
        if not is_alive() or client.status != "running":
            raise SchedulerLostError("cohort: expected the Dask scheduler to stay; got no answer any more.")
        if future is None or future.key not in waiting:
            continue
        if future.status == "finished":
            outcome = future.result()
        elif future.status == "error":
            _, task = waiting[future.key]
            outcome = _failed(task, future.exception())
            if outcome is None and lost.get(task.name, 0) < task.n_retries:
                # Its workers were lost, one after the other.
                lost[task.name] = lost.get(task.name, 0) + 1
                del waiting[future.key]
                submit([task], lost[task.name])
                continue
            outcome = outcome or _of_lost(task)
        else:
            raise SchedulerLostError(
                "cohort: expected the Dask scheduler to keep its tasks; got none of them."
            )
        del waiting[future.key]
        on_outcome(outcome)


def _failed(task: Task, error: BaseException | None) -> Outcome | None:
    """Return the outcome of a task that raised, None if it was its workers that were lost."""
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return None
    said = f"{type(error).__name__}: {error}"[:2000]
    return Outcome(name=task.name, code=REFUSED, error=said, attempts=1, wall_s=0.0)


def _of_lost(task: Task) -> Outcome:
    said = f"expected a worker that stays; lost those that ran it, {task.n_retries + 1} times over."
    return Outcome(name=task.name, code=REFUSED, error=said, attempts=task.n_retries + 1, wall_s=0.0)
