"""Whether two versions of the package compute the same, bit for bit.

    python -m benchmarks.same_bits record before.npz --scans out/same_bits    # in the one version
    python -m benchmarks.same_bits record after.npz --scans out/same_bits     # in the other
    python -m benchmarks.same_bits compare before.npz after.npz               # exit code 1 where they differ

Recorded are volumes and parameters of the demo, of three affine cases of the study set, of a B-spline, of the
sequential and the iterative method, and of a run that was stopped after some blocks and resumed from its
file. The demo's scans are kept in a folder and used again: finite elements are solved by a library that
rounds differently from run to run, and what is compared is what becomes of the scans.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.study_set import study
from duotomo.cli import main as duotomo
from duotomo.io import CheckpointFile, fingerprint, read_result
from duotomo.methods import Result, Settings, State, Study, iterative, sequential, simultaneous
from duotomo.transforms import Affine, BSpline

Arrays = dict[str, np.ndarray]

AFFINE_CASES = (0, 7, 20)
RESUMED_AFTER = 4


def arrays_of(result: Result) -> Arrays:
    """Return the volumes and parameters of a result."""
    volumes = {"volume": result.volume, **result.others}
    found = {name: volume.numpy() for name, volume in volumes.items()}
    return found | {f"params_{i}": motion.params.numpy() for i, motion in enumerate(result.motions)}


def demo(scans: Path) -> Arrays:
    """Return what `duotomo joint` makes of the demo's scans, which are made if they are not there yet."""
    current, prior = (scans / "demo" / name for name in ("current.h5", "prior.h5"))
    if not (current.exists() and prior.exists()):
        duotomo(["demo", "--out", str(scans / "demo"), "--quiet"], standalone_mode=False)
    with tempfile.TemporaryDirectory() as out:
        words = ["--transform", "bspline:4,4,6", "--voxel", "2,1,1", "--quiet"]
        duotomo(["joint", str(current), str(prior), *words, "--out", out], standalone_mode=False)
        saved = read_result(out)
    volumes = {"volume": saved.volume, **saved.others}
    found = {name: volume.numpy() for name, volume in volumes.items()}
    return found | {f"params_{i}": params.numpy() for i, params in enumerate(saved.params)}


class Stopped(Exception):
    """Raised in place of a kill."""


class Stopping(CheckpointFile):
    """A checkpoint file that stops its run after the fourth stage."""

    def save(self, state: State) -> None:
        super().save(state)
        if state.stage >= RESUMED_AFTER:
            raise Stopped


def resumed(visits: Study, settings: Settings) -> Arrays:
    """Return what comes of a run that was stopped, and went on from its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.h5"
        of = fingerprint(visits, method="simultaneous", settings=settings)
        try:
            simultaneous(visits, settings, checkpoint=Stopping(path, of))
        except Stopped:
            return arrays_of(simultaneous(visits, settings, checkpoint=CheckpointFile(path, of)))
    raise AssertionError("the run was expected to be stopped")


def recorded(scans: Path) -> Arrays:
    """Return the arrays of all computations, by `computation/array`."""
    affine = {case: study(case, "a") for case in AFFINE_CASES}
    runs: dict[str, Callable[[], Arrays]] = {"demo": lambda: demo(scans)}
    for case, visits in affine.items():
        settings = Settings.for_study(visits, Affine)
        runs[f"affine-{case}"] = lambda v=visits, s=settings: arrays_of(simultaneous(v, s))  # type: ignore[misc]
    visits = affine[7]
    spline, settings = BSpline.shaped((6, 6, 6)), Settings.for_study(visits, Affine)
    runs["bspline"] = lambda: arrays_of(simultaneous(visits, Settings.for_study(visits, spline)))
    runs["sequential"] = lambda: arrays_of(sequential(visits, settings))
    runs["iterative"] = lambda: arrays_of(iterative(visits, settings))
    runs["resumed"] = lambda: resumed(visits, settings)
    found: Arrays = {}
    for name, run in runs.items():
        arrays = run()
        print(f"{name}: {len(arrays)} arrays", flush=True)
        found |= {f"{name}/{part}": array for part, array in arrays.items()}
    return found


def differences(before: Arrays, after: Arrays) -> list[str]:
    """Return a line for each array that is not the same in both."""
    lines = []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            lines.append(f"{name}: only {'before' if name in before else 'after'}")
            continue
        one, other = before[name], after[name]
        if one.dtype != other.dtype or one.shape != other.shape:
            lines.append(f"{name}: {one.dtype} {one.shape} before, {other.dtype} {other.shape} after")
        elif one.tobytes() != other.tobytes():
            off = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max())
            lines.append(f"{name}: differs by up to {off:.3g}")
    return lines


def main(words: list[str] | None = None) -> int:
    """Record or compare; return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.same_bits", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="compute, and keep the arrays")
    record.add_argument("path", type=Path)
    record.add_argument("--scans", type=Path, required=True, help="folder that keeps the demo's scans")
    compare = commands.add_parser("compare", help="compare what two versions have recorded")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    chosen = parser.parse_args(words)
    if chosen.command == "record":
        torch.set_num_threads(2)
        np.savez_compressed(chosen.path, **recorded(chosen.scans))
        return 0
    with np.load(chosen.before) as before, np.load(chosen.after) as after:
        lines = differences(dict(before), dict(after))
        n_arrays = len(before.files)
    print("\n".join(lines) or f"The same bits: {n_arrays} arrays")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
