"""Inputs drawn by a seed break no command either; what tries them would notice if one did."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.cli.commands import NOT_TRUSTED, duotomo
from tests.fuzz.drawn.inputs import PLANS, SEED, drawn, drawn_input, input_of
from tests.fuzz.drawn.pool import Ended, Worker, summary, tried
from tests.fuzz.samples import SAMPLES
from tests.fuzz.watch import filled

NAMES = [hostile.name for hostile in drawn()]
SAMPLE = Random(0).sample(NAMES, 60)
"""A few of them, for `make test`; `make evidence` tries all."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory from /proc")


def test_there_are_enough_of_them() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 4000
    kinds = Counter(name.split("/")[1] for name in NAMES)
    assert set(kinds) == set(PLANS)
    assert min(kinds.values()) >= 50


@pytest.mark.parametrize("kind", PLANS)
def test_a_name_makes_the_same_input_again(kind: str, tmp_path: Path) -> None:
    name = f"{SEED}/{kind}/{PLANS[kind].samples[0].name}/3"
    made = []
    for turn in ("1", "2"):
        hostile = drawn_input(name)
        (tmp_path / turn / "in").mkdir(parents=True)
        hostile.make(tmp_path / turn / "in")
        made.append((hostile.words, _content(tmp_path / turn)))
    assert made[0] == made[1]


def _content(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    # HDF5 and gzip write the time.
    plain = [path for path in files if path.suffix not in (".h5", ".gz", ".mat")]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in plain}


MORE = {
    one.name: (kind, one) for kind, plan in PLANS.items() for one in plan.samples if one.name not in SAMPLES
}


@pytest.mark.parametrize("name", MORE)
def test_whole_inputs_are_read(name: str, tmp_path: Path) -> None:
    """The samples are good before they are changed, as those of the fixed inputs are."""
    kind, sample = MORE[name]
    plan = replace(PLANS[kind], change=lambda path, random: None, samples=(sample,))
    hostile = input_of(plan, sample, f"{SEED}/{kind}/{name}/0")
    (tmp_path / "in").mkdir()
    hostile.make(tmp_path / "in")
    ran = duotomo(*filled(hostile.words, tmp_path))
    assert ran.code in (0, NOT_TRUSTED), ran.err


@pytest.mark.parametrize("tried_input", SAMPLE)
def test_drawn_inputs_do_no_harm(tried_input: str, ends: Mapping[str, Future[Ended]]) -> None:
    assert ends[tried_input].result().fault is None


@pytest.mark.slow
def test_none_of_them_does_harm(tmp_path: Path) -> None:
    begun = time.monotonic()
    ended = list(tried(NAMES, tmp_path))
    print(summary(ended, time.monotonic() - begun))
    assert not [one for one in ended if one.fault is not None]
    assert len(ended) == len(NAMES)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("dies", "the process ended with SIGSEGV"),
        ("exits", "the process ended with exit code 7"),
        ("waits", "took over 2 s"),
    ],
)
def test_a_process_that_is_gone_is_a_fault_of_its_input(name: str, fault: str, tmp_path: Path) -> None:
    worker = Worker(tmp_path / "worker", module="tests.fuzz.drawn.failing", longest_s=2)
    try:
        assert worker.run("well").fault is None
        assert worker.run(name).fault == fault
        assert worker.run("well").fault is None
    finally:
        worker.close()


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("open(root / 'work/in')", ""),
        ("open(root / 'sentinel/kept.txt').read()", "open"),
        ("h5py.File(root / 'sentinel/kept.h5')", "opened kept.h5 in sentinel"),
        ("open('/etc/passwd').read()", "open /etc/passwd"),
        ("open(root / 'work/link').read()", "open /etc/passwd"),
        ("(root.parent / 'beside').write_text('x')", "/beside"),
        ("socket.create_connection(('127.0.0.1', 9))", "socket.connect"),
        ("subprocess.run(['true'])", "subprocess.Popen"),
    ],
)
def test_what_goes_elsewhere_is_seen(code: str, seen: str, tmp_path: Path) -> None:
    """In a process of its own: Python's audit stays for ever."""
    root = tmp_path / "root"
    for folder in ("work", "sentinel"):
        (root / folder).mkdir(parents=True)
    (root / "work/in").write_text("x")
    (root / "work/link").symlink_to("/etc/passwd")
    (root / "sentinel/kept.txt").write_text("kept")
    program = f"""
import socket, subprocess, sys
from contextlib import suppress
from pathlib import Path
import h5py
from tests.fuzz.drawn.eyes import Eyes
root, found, eyes = Path({str(root)!r}), [], Eyes()
h5py.File(root / 'sentinel/kept.h5', 'w').close()
with eyes.watching(root, found), suppress(OSError):
    {code}
print(*found, sep='\\n')
"""
    paths = os.pathsep.join(str(Path(part).resolve()) for part in sys.path)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert seen in done.stdout
    assert bool(seen) == bool(done.stdout.strip())
