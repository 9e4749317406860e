"""Runs a command on a hostile input, and looks at everything that it must not do."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NoReturn

import h5py
import numpy as np

from tests.cli.commands import NOT_TRUSTED, Ran, duotomo
from tests.fuzz.hostile import Fate, Hostile
from tests.fuzz.samples import SAMPLES

MOST_BYTES = 150 * 2**20
"""What a command may take for a tiny input, beyond what the process has; the bombs ask for more."""

MOST_WORDS = 3000
"""Characters of a message; an error does not repeat its input."""

COMPLETE = ("result.json", "report.html")

SECRET = "kept-71c0a9e2"
"""What files outside of the input hold, and nothing may say."""


def filled(words: tuple[str, ...], folder: Path) -> list[str]:
    """Return the words of a command, with the input and the output below a folder."""
    return [word.replace("{in}", str(folder / "in")).replace("{out}", str(folder / "out")) for word in words]


def snapshot(folder: Path) -> dict[str, str]:
    """Return what is below a folder, but for `work/out*`, where output belongs."""
    found: dict[str, str] = {}
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(root, name)
            relative = str(path.relative_to(folder))
            if relative.startswith("work/out"):
                continue
            if path.is_symlink():
                found[relative] = f"link to {path.readlink()}"
            elif path.is_file():
                found[relative] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                found[relative] = "folder"
    return found


@contextmanager
def little_memory(found: list[int]) -> Iterator[None]:
    """Append by how many bytes the process grew at most."""
    # On Linux this sets the peak back to what is used now.
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak_bytes()
    yield
    found.append(_peak_bytes() - before)


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(kilobytes) * 1024


def watched(hostile: Hostile, root: Path, around: AbstractContextManager[None]) -> tuple[Ran, int]:
    """Make the input in a folder of its own below `root`, and run the command within a context.

    Raise if it did what it must not do; return how it ended, and by how many bytes the process grew.
    """
    work, sentinel = root / "work", root / "sentinel"
    (work / "in").mkdir(parents=True)
    sentinel.mkdir()
    (sentinel / "kept.txt").write_text(SECRET)
    with h5py.File(sentinel / "kept.h5", "w") as file:
        file["projections"] = np.full((3, 6, 7), 7.1, "f4")
    hostile.make(work / "in")
    before, grown, there = snapshot(root), [], _complete(work)
    with little_memory(grown), around:
        ran = duotomo(*filled(hostile.words, work))
    judge(hostile, ran, work, there=there)
    assert SECRET not in ran.out + ran.err, "what lies outside was read"
    assert snapshot(root) == before, "something outside of the output was changed"
    assert grown[0] < MOST_BYTES, f"took {grown[0] / 2**20:.0f} MiB"
    if hostile.fate is Fate.HARMLESS and ran.code == 0:
        assert json.loads(ran.out) == _whole(hostile, root), "damage was taken for data"
    return ran, grown[0]


def _whole(hostile: Hostile, root: Path) -> object:
    """Return what the command says of the same input without the damage."""
    SAMPLES[hostile.name.split("/")[1]].put(root / "whole/in")
    return json.loads(duotomo(*filled(hostile.words, root / "whole")).out)


def _complete(work: Path) -> list[Path]:
    """Return what looks like a whole result, but for the input."""
    found = [path for path in work.rglob("*") if path.name in COMPLETE and path.parent != work / "in/result"]
    return [*found, *work.glob("out.*")]


def judge(hostile: Hostile, ran: Ran, work: Path, *, there: Sequence[Path] = ()) -> None:
    """Raise unless a command ended as it may. there: what looked like a result before."""
    said = ran.out + ran.err
    assert said.replace("\n", "").isprintable(), "control characters reach the terminal"
    assert "Traceback" not in said
    assert "unforeseen" not in said, ran.err
    if ran.code in (0, NOT_TRUSTED):
        _judge_done(hostile, ran)
        return
    assert ran.code == 2, (ran.code, said)
    assert "expected" in ran.err or "Invalid value" in ran.err, ran.err
    assert hostile.says in _joined(ran.err), ran.err
    assert hostile.says or _names_input(hostile, ran.err), ran.err
    assert len(ran.err) < MOST_WORDS, ran.err[:500]
    left = [path for path in _complete(work) if path not in there]
    assert not left, f"a result that looks complete: {left}"


def _judge_done(hostile: Hostile, ran: Ran) -> None:
    assert hostile.fate is not Fate.REFUSED, ran.out
    if "--json" in hostile.words:
        content = json.loads(ran.out, parse_constant=_not_finite)
        assert hostile.fate is not Fate.DESCRIBED or "missing" in content, ran.out


def _not_finite(word: str) -> NoReturn:
    raise AssertionError(f"{word} in what came out")


def _names_input(hostile: Hostile, text: str) -> bool:
    """Return whether a message names one of the files or folders that the command was given."""
    given = [Path(word).name for word in hostile.words if "{in}" in word]
    # A value of a settings file is said of the option that it stands for.
    options = ["--"] if "--settings" in hostile.words else []
    # Of the visits, the commands speak by number too.
    return any(name in _joined(text) for name in (*given, *options, "s.json", "s.xml", "visit 1"))


def _joined(text: str) -> str:
    """Return a message without the box and the line breaks that a wrong option's has."""
    return re.sub(r"[\s│]+", "", text) + text
