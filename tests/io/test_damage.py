"""No damage to a file that duotomo wrote goes unnoticed: seeded, of every kind, anywhere.

Fletcher-32, which HDF5 offers, cannot tell 0000 from FFFF; a kind of damage of its own is that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest
import torch

from duotomo.errors import DuotomoError
from duotomo.io import (
    CheckpointFile,
    read_change,
    read_result,
    read_scan,
    read_study,
    write_change,
    write_result,
    write_study,
)
from duotomo.io.scan import Scan, Values
from duotomo.io.scan_hdf5 import write_scan
from tests.io.change_helpers import a_change
from tests.io.saved_helpers import FINGERPRINT, SCAN, draw, result, state, study

FEW, MANY = 60, 1250
"""Damages of each kind of file: always, and with the mark `slow`."""

Damage = Callable[[bytes, Random], bytes]


def flip_bit(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def swap_word(data: bytes, random: Random) -> bytes:
    """Make 0000 FFFF, or FFFF 0000."""
    low, high = b"\0\0", b"\xff\xff"
    places = [at for at in range(0, len(data) - 1, 2) if data[at : at + 2] in (low, high)]
    if not places:
        return flip_bit(data, random)
    at = random.choice(places)
    return data[:at] + (high if data[at : at + 2] == low else low) + data[at + 2 :]


def fill(data: bytes, random: Random) -> bytes:
    """Put other bytes over a run of them: zeros, ones, or noise."""
    at, n = random.randrange(len(data)), random.randint(1, 64)
    run = random.choice((bytes(n), b"\xff" * n, random.randbytes(n)))[: len(data) - at]
    return data[:at] + run + data[at + len(run) :]


def cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def append(data: bytes, random: Random) -> bytes:
    return data + random.randbytes(random.randint(1, 64))


def insert(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data))
    return data[:at] + random.randbytes(random.randint(1, 8)) + data[at:]


def exchange(data: bytes, random: Random) -> bytes:
    """Exchange two runs, which leaves sums as they are."""
    n = random.randint(1, 32)
    low, high = sorted(random.randrange(max(1, len(data) - n)) for _ in range(2))
    high = min(max(high, low + n), len(data) - n)
    first, second = data[low : low + n], data[high : high + n]
    return data[:low] + second + data[low + n : high] + first + data[high + n :]


DAMAGES = (flip_bit, swap_word, fill, cut, append, insert, exchange)


def checkpoint(folder: Path) -> Callable[[], object]:
    kept = CheckpointFile(folder / "checkpoint.h5", FINGERPRINT)
    kept.save(state())
    return kept.load


def scan(folder: Path) -> Callable[[], object]:
    half = torch.where(draw(*SCAN.shape, seed=0) > 0.5, draw(*SCAN.shape, seed=1), 0.0)
    write_scan(folder / "scan.h5", Scan(projections=half, values=Values.LINE_INTEGRALS, acquisition=SCAN))
    return partial(read_scan, folder / "scan.h5")


def visits(folder: Path) -> Callable[[], object]:
    write_study(folder / "study.h5", study())
    return partial(read_study, folder / "study.h5")


def folder_of_result(folder: Path) -> Callable[[], object]:
    def beside(draft: Path) -> dict[str, str]:
        (draft / "report.html").write_text("<p>a page</p>")
        return {"report.html": "page"}

    write_result(folder, result(), study=study(), settings={}, beside=beside, change=a_change())
    return partial(read_result, folder)


def what_changed(folder: Path) -> Callable[[], object]:
    write_change(folder, a_change())
    return partial(read_change, folder)


def refusal(read: Callable[[], object]) -> str:
    """Return what is said of a file that is not read; nothing if it is read."""
    try:
        read()
    except DuotomoError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("n", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", [checkpoint, scan, visits, folder_of_result, what_changed])
def test_no_damage_goes_unnoticed(
    make: Callable[[Path], Callable[[], object]], n: int, tmp_path: Path
) -> None:
    read = make(tmp_path)
    read()
    random, done = Random(f"{make.__name__}/{n}"), 0
    while done < n:
        path = random.choice(sorted(tmp_path.iterdir()))
        whole, damage = path.read_bytes(), DAMAGES[done % len(DAMAGES)]
        changed = damage(whole, random)
        if changed == whole:
            continue
        path.write_bytes(changed)
        assert path.name in refusal(read), f"{damage.__name__} of {path.name}, number {done}"
        path.write_bytes(whole)
        done += 1
    read()
