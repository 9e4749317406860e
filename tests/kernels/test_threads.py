"""Work is shared so that every task is done once, by whatever number of threads."""

from __future__ import annotations

import threading

import numba
import pytest

from duotomo.kernels.threads import share


@pytest.mark.parametrize("n_tasks", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("steps", [0.0, 1e9])
@pytest.mark.parametrize("parts", [1, 4])
def test_every_task_is_done_once(n_tasks: int, steps: float, parts: int) -> None:
    done: list[int] = []
    share(lambda begin, end: done.extend(range(begin, end)), n_tasks, steps=steps, parts=parts)
    assert sorted(done) == list(range(n_tasks))


def test_little_work_stays_in_the_thread_that_asks(two_threads: None) -> None:
    who: list[int] = []
    share(lambda begin, end: who.append(threading.get_ident()), 8, steps=100.0)
    assert who == [threading.get_ident()]


def test_much_work_is_done_by_two_at_once(two_threads: None) -> None:
    # Each of two parts waits for the other one.
    meeting = threading.Barrier(2, timeout=30)
    share(lambda begin, end: meeting.wait() and None, 2, steps=1e9, parts=1)
    assert not meeting.broken


def test_what_a_helper_raises_is_raised(two_threads: None) -> None:
    meeting = threading.Barrier(2, timeout=30)
    main = threading.get_ident()

    def work(begin: int, end: int) -> None:
        meeting.wait()
        if threading.get_ident() != main:
            raise ValueError("in a helper")

    with pytest.raises(ValueError, match="in a helper"):
        share(work, 2, steps=1e9, parts=1)


def test_all_threads_are_there_from_the_first_time_on(two_threads: None) -> None:
    share(lambda begin, end: None, 8, steps=1e9)
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("duotomo_")]
    assert len(names) == numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
