"""What `make` installs is what constraints.txt names, each wheel by its hash."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

pytest.importorskip("packaging")

from packaging.requirements import Requirement

from tools.lock import CUDA, PARTS, TORCH_CPU
from tools.lock_file import FOLDER, Locked, read_lock, write_lock
from tools.requirements import ROOT, closure, of_project, pins

MAKEFILE = (ROOT / "Makefile").read_text()
LOCKS = {part: read_lock(FOLDER / f"{part}.txt") for part in (*PARTS, TORCH_CPU)}


def installed(name: str) -> list[Requirement]:
    """Return what a distribution asks for, CUDA apart; nothing of what is not installed here."""
    if name == "duotomo":
        return of_project()
    try:
        found = [Requirement(one) for one in importlib.metadata.requires(name) or ()]
    except importlib.metadata.PackageNotFoundError:
        return []
    return [one for one in found if not (name == "torch" and one.name.startswith(CUDA))]


def test_every_pin_is_locked_at_its_version_and_nothing_else_is() -> None:
    locked = {name: one.version for part in PARTS for name, one in LOCKS[part].items()}
    assert locked == pins()
    assert {name: one.version for name, one in LOCKS[TORCH_CPU].items()} == {
        "torch": f"{pins()['torch']}+cpu"
    }


@pytest.mark.parametrize("part", LOCKS)
def test_every_wheel_has_a_hash(part: str) -> None:
    assert LOCKS[part]
    for one in LOCKS[part].values():
        assert one.sha256, one.name
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in one.sha256)


@pytest.mark.parametrize("part", [part for part in PARTS if part != "cuda"])
def test_all_that_follows_is_locked(part: str) -> None:
    needed = {*closure(map(Requirement, PARTS[part][1]), installed)} - {"duotomo"}
    assert needed <= {*LOCKS["core"], *LOCKS[part]}


def test_versions_are_those_that_are_asked_for() -> None:
    versions = pins()
    for name, asked in closure([Requirement("duotomo[dev]")], installed).items():
        for one in asked:
            assert name == "duotomo" or one.specifier.contains(versions[name]), str(one)


def test_make_installs_nothing_without_a_hash() -> None:
    installs = re.findall(r"\$\(PIP\) install .*", MAKEFILE)
    assert len(installs) == 2
    for line in installs:
        # The project itself, built by what is locked, and all else.
        assert line.endswith("--no-deps --no-build-isolation -e .") or (
            "--require-hashes --no-deps --only-binary :all:" in line
        )
    assert "pip install" not in MAKEFILE.replace("$(PIP) install", "")


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    locked = [Locked(name=name, version="1.0+cpu", sha256=("a" * 64, "b" * 64)) for name in ("one", "two")]
    write_lock(tmp_path / "lock.txt", "Two.", locked)
    assert read_lock(tmp_path / "lock.txt") == {one.name: one for one in locked}
    assert read_lock(tmp_path / "none.txt") == {}


def test_extras_and_markers_are_followed() -> None:
    asks = {
        "a": ["b[fast]", "w; sys_platform == 'win32'", "old; python_version < '3.12'", "c; extra == 'x'"],
        "b": ["d; extra == 'fast'", "e; extra == 'slow'"],
    }
    found = closure([Requirement("A")], lambda name: [Requirement(one) for one in asks.get(name, [])])
    assert {*found} == {"a", "b", "d", "old"}
