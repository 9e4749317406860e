"""The memory that is free, as the machine and a container say."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from duotomo.io import free_memory
from duotomo.io.free_memory import free_bytes


def test_the_system_says_how_much_memory_is_free() -> None:
    assert 2**20 < free_bytes() < 2**50


def test_a_container_leaves_less_memory_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_memory, "GROUP", tmp_path)
    assert free_bytes() > 2**20
    (tmp_path / "memory.max").write_text("1048576\n")
    (tmp_path / "memory.current").write_text("600000\n")
    (tmp_path / "memory.stat").write_text("anon 7\ninactive_file 100000\n")
    assert free_bytes() == 1048576 - 600000 + 100000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_bytes() > 2**20


def test_all_of_it_counts_where_the_system_does_not_say_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_memory, "GROUP", tmp_path)
    for text in ("Other: 1 kB", "MemAvailable: many kB"):
        monkeypatch.setattr(free_memory, "MEMINFO", tmp_path / "meminfo")
        (tmp_path / "meminfo").write_text(text)
        assert free_bytes() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.delattr(os, "sysconf")
    assert free_bytes() == sys.maxsize
