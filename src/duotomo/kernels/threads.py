"""Work shared among the cores: compiled loops that leave the interpreter's lock alone, in Python's threads.

Numba's own parallel loops are optimised and turned into machine code four times over, one in the other,
which is most of what a first run waits for. Their threads do not survive a fork, and share the work out
beforehand: one busy core keeps all others waiting.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numba

PARTS = 4
"""Parts of the work for each thread, where a part costs nothing by itself."""
SERIAL = 1 << 15
"""Steps, of about a nanosecond, that are done before another thread has woken up."""
START_S = 10.0
"""For all threads to be there: where one cannot be had, the others do not wait for it forever."""

_helpers: ThreadPoolExecutor | None = None


def share(work: Callable[[int, int], None], n_tasks: int, *, steps: float, parts: int = PARTS) -> None:
    """Call `work(begin, end)` for parts of range(n_tasks), from as many threads as Numba may use.

    What a task writes must not depend on who does it: then results are the same bits for any number of
    threads.

    Parameters
    ----------
    work : callable
        Compiled without the interpreter's lock; raises, if ever, what is raised here.
    n_tasks : int
        How many tasks there are.
    steps : float
        How long all tasks together take on one core, about, in ns: little work is not shared.
    parts : int
        Parts for each thread: who is done early takes another one.

    Examples
    --------
    >>> done = []
    >>> share(lambda begin, end: done.extend(range(begin, end)), 5, steps=1e9)
    >>> sorted(done)
    [0, 1, 2, 3, 4]
    """
    n_threads = min(numba.get_num_threads(), n_tasks)
    if n_threads < 2 or steps < SERIAL:
        work(0, n_tasks)
        return
    n_parts = min(n_tasks, parts * n_threads)
    # One iterator for all threads: its next part is given away under the interpreter's lock.
    left = iter(range(n_parts))

    def help() -> None:
        for part in left:
            work(part * n_tasks // n_parts, (part + 1) * n_tasks // n_parts)

    helping = [_pool().submit(help) for _ in range(n_threads - 1)]
    try:
        help()
    finally:
        # Who has not begun by now is not needed; who has is waited for, since it writes.
        running = [one for one in helping if not one.cancel()]
        errors = [one.exception() for one in running]
    for error in errors:
        if error is not None:
            raise error


def _pool() -> ThreadPoolExecutor:
    global _helpers
    if _helpers is None:
        n_threads: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
        _helpers = ThreadPoolExecutor(n_threads, "duotomo")
        # All are started now, each waiting for the last one. Left to itself the pool starts another one
        # whenever all are busy, so that it grows while a program runs.
        started = Barrier(n_threads, timeout=START_S)
        for _ in range(n_threads):
            _helpers.submit(started.wait)
    return _helpers


def _forget() -> None:
    """Start anew in a child: threads stay with the parent."""
    global _helpers
    _helpers = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
