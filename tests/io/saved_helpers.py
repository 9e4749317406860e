"""A small study, states and results of random numbers, and a process that dies while it writes."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import duotomo
from duotomo.geometry import VolumeGrid
from duotomo.io import FileError, SavedResult, read_volume, write_volume
from duotomo.io.change_files import FINDINGS
from duotomo.io.result_index import INDEX
from duotomo.io.run_fingerprint import RunFingerprint
from duotomo.io.seal import is_sealed, seal
from duotomo.methods.result import Result
from duotomo.methods.state import State
from duotomo.methods.study import Study, Visit
from duotomo.solvers import Status, Step
from duotomo.transforms import Affine, BSpline, Motion, Transform
from tests.cases.scans import arc

GRID = VolumeGrid.on_detector((4, 6, 5), (1.1, 0.7, 0.3), gap_mm=3.0)
SEEN = VolumeGrid.on_detector((3, 6, 5), (1.5, 0.7, 0.3), gap_mm=2.5)
SCAN = arc((6, 7), (0.8, 0.6), n_views=3, degrees=math.degrees(0.5))
FINGERPRINT = RunFingerprint(study="1", method="simultaneous", settings="2", duotomo="3", commit="4")


def draw(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return random numbers between 0 and 1."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def study(dtype: torch.dtype = torch.float32) -> Study:
    """Return three visits: one as plain as can be, one with weights, one with its own grid."""
    visits = [Visit(projections=draw(*SCAN.shape, seed=i, dtype=dtype), acquisition=SCAN) for i in range(3)]
    visits[1] = replace(visits[1], weights=draw(*SCAN.shape, seed=5, dtype=dtype))
    visits[2] = replace(visits[2], grid=SEEN)
    return Study(grid=GRID, visits=tuple(visits))


def n_refused(path: Path, check: Callable[[str], None], *, every: int) -> int:
    """Damage one byte after the other, and return how many were noticed; check: what is read despite one."""
    whole, n = path.read_bytes(), 0
    for at in range(0, len(whole), every):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :])
        try:
            check(f"byte {at} of {len(whole)}")
        except FileError:
            n += 1
    return n


def converged(**fields: Any) -> Result:
    """Return a result that ended well, without history; fields: of its own."""
    known = {"method": "simultaneous", "status": Status.CONVERGED, "reason": "It was enough."}
    return Result(**known | {"applications": 7, "seconds": 1.5, "history": ()} | fields)


def written_and_read(folder: Path, name: str, dtype: torch.dtype) -> VolumeGrid:
    """Return the grid of a volume that was written and read again, bit for bit."""
    volume = draw(*GRID.shape, seed=0, dtype=dtype)
    write_volume(folder / name, volume, GRID)
    found, grid = read_volume(folder / name)
    assert os.listdir(folder) == [name]
    assert same(found, volume)
    return grid


def history(n_steps: int) -> tuple[Step, ...]:
    """Return steps whose numbers have no short decimals; the last is not finite."""
    values = np.random.default_rng(0).random((n_steps, 4)).tolist()
    steps = [
        Step(
            stage=i // 2,
            what=("translation at 4 mm", 'a "name", with commas', "größer")[i % 3],
            number=i + 1,
            objective=a * 1e9,
            gradient_norm=b if i < n_steps - 1 else float("inf"),
            step_size=c * 1e-12,
            applications=7 * i,
            seconds=d,
        )
        for i, (a, b, c, d) in enumerate(values)
    ]
    return tuple(steps)


def state(seed: int = 0, dtype: torch.dtype = torch.float32, n_steps: int = 5) -> State:
    """Return a state of two volumes and two moving visits."""
    return State(
        stage=2,
        block=seed,
        volumes={
            "volume": draw(4, 5, 6, seed=seed, dtype=dtype),
            "visit 2/3": draw(2, 3, 4, seed=1, dtype=dtype),
        },
        coarsen=(1, 2, 3),
        model="affine",
        params=(draw(12, seed=3, dtype=torch.float64), draw(3, seed=4, dtype=torch.float64)),
        status=Status.BREAKDOWN,
        reason="No step was found: größer.",
        applications=123,
        seconds=1 / 3,
        history=history(n_steps),
    )


def same_state(one: State, other: State) -> bool:
    """Return whether two states are equal bit for bit."""
    plain = ("stage", "block", "coarsen", "model", "status", "reason", "applications", "seconds", "history")
    return (
        all(getattr(one, name) == getattr(other, name) for name in plain)
        and list(one.volumes) == list(other.volumes)
        and all(same(a, b) for a, b in zip(one.volumes.values(), other.volumes.values(), strict=True))
        and len(one.params) == len(other.params)
        and all(same(a, b) for a, b in zip(one.params, other.params, strict=True))
        and len(one.starts) == len(other.starts)
        and all(map(same_state, one.starts, other.starts))
    )


def result(seed: int = 0, dtype: torch.dtype = torch.float32, transforms: Any = None) -> Result:
    """Return a result of two volumes, an affine motion and a B-spline."""
    affine, spline = Affine(GRID), BSpline.over(SEEN, (4, 5, 4))
    moved: tuple[Transform, ...] = transforms if transforms is not None else (affine, spline)
    return Result(
        method="simultaneous",
        grid=GRID,
        volume=draw(*GRID.shape, seed=seed, dtype=dtype),
        others={"visit_2": draw(*GRID.shape, seed=seed + 50, dtype=dtype)},
        motions=tuple(
            Motion(t, draw(t.n_params, seed=seed + t.n_params, dtype=torch.float64)) for t in moved
        ),
        status=Status.STEP_LIMIT,
        reason="The limit of 20 steps was reached.",
        applications=99 + seed,
        seconds=1 / 7,
        history=history(4 + seed),
    )


def same_result(saved: SavedResult, written: Result) -> bool:
    """Return whether a folder holds exactly what was written."""
    plain = ("method", "grid", "status", "reason", "applications", "seconds", "history")
    return (
        all(getattr(saved, name) == getattr(written, name) for name in plain)
        and same(saved.volume, written.volume)
        and list(saved.others) == list(written.others)
        and all(same(saved.others[name], volume) for name, volume in written.others.items())
        and saved.models == tuple(type(motion.transform).__name__ for motion in written.motions)
        and all(same(a, b.params) for a, b in zip(saved.params, written.motions, strict=True))
    )


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors are equal bit for bit, in precision and place too."""
    return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)


@contextmanager
def edited(path: Path) -> Iterator[Any]:
    """Give an open HDF5 file of duotomo's, and seal it anew."""
    with h5py.File(path, "r+") as file:
        yield file
    reseal(path)


def edited_index(folder: Path, change: Callable[[Any], Any]) -> None:
    """Change the content of a result's index, and its digest with it."""
    content = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    last = {"sha256": content.pop("sha256")}
    changed = change(content) | last
    (folder / INDEX).write_text(json.dumps(changed, indent=1) + "\n", encoding="utf-8")
    reseal(folder / INDEX)


def reseal(path: Path) -> None:
    """Let a file that was changed have its own SHA-256: whoever means harm knows how that is made."""
    if path.is_symlink() or not path.is_file():
        return
    if path.name in (INDEX, FINDINGS):
        data = path.read_bytes()
        blank = re.sub(rb'[0-9a-f]{64}(?="\n}\n\Z)', b"0" * 64, data)
        digest = hashlib.sha256(blank).hexdigest().encode()
        path.write_bytes(re.sub(rb'[0-9a-f]{64}(?="\n}\n\Z)', digest, data))
    elif is_sealed(path):
        seal(path)


class KilledError(BaseException):
    """The process is gone."""


@contextmanager
def killed_at(call: int, *, after: bool, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let the process die before or after its n-th call that changes what is on disk; it does no more then.

    Gives the list of calls that were made.
    """
    calls: list[str] = []

    def dying(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            if len(calls) > call or (len(calls) == call and not after):
                raise KilledError
            done = original(*arguments, **options)
            if len(calls) == call:
                raise KilledError
            return done

        return run

    with monkeypatch.context() as patch:
        for owner, name in (
            (os, "replace"),
            (os, "fsync"),
            (Path, "unlink"),
            (Path, "mkdir"),
            (Path, "rmdir"),
        ):
            patch.setattr(owner, name, dying(name, getattr(owner, name)))
        yield calls


def python(code: str, *arguments: str, hashseed: str = "0") -> subprocess.CompletedProcess[str]:
    """Run code in another process, which finds duotomo and the tests."""
    source = Path(duotomo.__file__).parents[1]
    paths = os.pathsep.join([str(source), str(Path(__file__).parents[2])])
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": hashseed}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True
    )
