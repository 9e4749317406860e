"""Workers get what the largest case needs, if there is as much."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from duotomo.cohort import Case, Planned, Resources
from duotomo.cohort.resources import allot, too_large
from duotomo.errors import DeviceError, DuotomoError

GB = 10**9


def on(monkeypatch: pytest.MonkeyPatch, n_cores: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(n_cores)))


@pytest.mark.parametrize(
    ("n_cases", "need", "n_workers", "n_threads"),
    [(40, GB, 8, 1), (3, GB, 3, 2), (40, 5 * GB, 3, 2), (1, GB, 1, 8)],
)
def test_workers_go_by_cores_cases_and_memory(
    n_cases: int, need: int, n_workers: int, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, 8)
    found = allot([need] * n_cases, Resources(max_memory_gb=16.0, device="cpu"))
    assert (found.n_workers, found.n_threads) == (n_workers, n_threads)
    assert found.share_bytes >= need
    assert found.n_workers * found.share_bytes <= 16 * GB


def test_a_case_that_is_larger_than_all_there_is_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, 4)
    found = allot([GB, GB, 100 * GB], Resources(max_memory_gb=8.0, device="cpu"))
    assert found.n_workers == 3
    case = Case(name="a", visits=(Path("x"),), where="row 4")
    said = too_large(Planned(case=case, memory_bytes=100 * GB), found)
    assert "row 4: expected to need at most" in said
    assert "got about 100 GB" in said
    assert too_large(Planned(case=case, memory_bytes=GB), found) == ""


def test_gpus_are_shared_as_they_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, 16)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (80 * GB, 80 * GB))
    found = allot([GB] * 17, Resources(device="cuda", per_gpu=4))
    assert (found.n_workers, found.n_threads, found.gpus) == (8, 2, (0, 1) * 4)
    assert found.device_bytes == 18 * GB
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(DeviceError, match=r"expected a CUDA device .*; got none here"):
        allot([GB], Resources(device="cuda"))


def test_numbers_are_checked() -> None:
    with pytest.raises(DuotomoError, match="expected `n_workers` of 1 or more; got 0"):
        Resources(n_workers=0)
    with pytest.raises(DuotomoError, match="expected `scheduler` without `n_workers`"):
        Resources(scheduler="tcp://127.0.0.1:1", n_workers=2)
