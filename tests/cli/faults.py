"""The commands that compute or write, and what is whole in their folders: a table for the tests of faults."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import duotomo.simulate
from duotomo import reproduction
from duotomo.change import detection
from duotomo.cli import simulate as simulate_command
from duotomo.io import (
    CheckpointFile,
    SavedResult,
    conversion,
    read_change,
    read_result,
    read_scan,
    write_study,
    write_volume,
)
from duotomo.io.dicom import projections_writer
from duotomo.io.durable import UNFINISHED
from duotomo.io.result_index import has_result
from duotomo.phantoms import compress
from duotomo.report import page
from duotomo.simulate import scene
from duotomo.transforms import Translation
from tests.cli.commands import NOT_TRUSTED, Ran
from tests.cli.commands import duotomo as run
from tests.cli.test_register import GRID, SHIFT_MM, blob
from tests.cli.test_reproduce import TINY
from tests.cli.tiny import tiny_study
from tests.report.page_results import result, save

Place = tuple[Any, str]
"""An object, and the name of a function that it has."""


def result_in(folder: Path) -> Any:
    """Return what tells results apart, None if there is none; raise unless it is whole."""
    return read_result(folder).volume.sum().item() if has_result(folder) else None


def files_in(folder: Path) -> dict[str, str]:
    """Return the digests of a set of files, of which some may still wait to be moved to their places."""
    decided = sorted(folder.glob(f"{UNFINISHED}*.files/*"))
    there = [path for path in sorted(folder.iterdir()) if not path.name.startswith(UNFINISHED)]
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in there if path.is_file()}
    return digests | {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in decided}


def views_in(folder: Path) -> float | None:
    """Return the sum of all views, None where there are none; each writing has UIDs of its own."""
    if not (names := files_in(folder)):
        return None
    with TemporaryDirectory() as whole:
        for name in names:
            waiting = next(iter(folder.glob(f"{UNFINISHED}*.files/{name}")), folder / name)
            shutil.copy(waiting, whole)
        return float(read_scan(Path(whole)).projections.double().sum())


def demo_in(folder: Path) -> Any:
    """Return the scans and the result of a demo."""
    scans = {name: digest for name, digest in files_in(folder).items() if name.endswith(".h5")}
    return scans, result_in(folder / "result")


def rows_in(folder: Path) -> dict[str, Any]:
    """Return the rows that an experiment has finished, without the seconds that they took."""
    rows = {}
    for path in folder.glob("*/*/case_*/*.json"):
        row = json.loads(path.read_text(encoding="utf-8"))
        rows[f"{row['case']} {row['method']}"] = {name: row[name] for name in row if name != "seconds"}
    for path in folder.glob("*/*/table.json"):
        rows["table"] = len(json.loads(path.read_text(encoding="utf-8"))["rows"])
    return rows


def page_in(folder: Path) -> Any:
    """Return the result in a folder and its page."""
    shown = folder / page.PAGE
    return result_in(folder), shown.read_text(encoding="utf-8") if shown.exists() else None


@dataclass(frozen=True, kw_only=True)
class Computation:
    """A command, where `{in}` is the folder of its inputs and `{out}` that of its outputs.

    words: of the command line. code: that it ends with. state: returns what is in the folder; raises unless
    that is whole. begins, midway: what it calls first of all that takes time, and once it has computed
    something. resume: options to go on with. older: options with which an older state is made. foreign: a
    file that it must not replace. copied: the folder of the inputs that lies in `{out}` before.
    """

    words: tuple[str, ...]
    code: int = 0
    state: Callable[[Path], Any]
    begins: Place = (CheckpointFile, "save")
    midway: Place = (CheckpointFile, "save")
    resume: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    foreign: str = ""
    copied: str = ""

    def given(self, inputs: Path, out: Path) -> list[str]:
        """Return the words of the command line, and make what has to be there."""
        if any("{out}/" in word for word in self.words):
            out.mkdir(parents=True, exist_ok=True)
        if self.copied and not out.exists():
            shutil.copytree(inputs / self.copied, out)
        return [word.replace("{in}", str(inputs)).replace("{out}", str(out)) for word in self.words]

    def __call__(self, inputs: Path, out: Path, *more: object) -> Ran:
        """Run the command."""
        return run(*self.given(inputs, out), *more)


def changed_in(folder: Path) -> Any:
    """Return what tells results that say what changed apart, None if there is none."""
    if (found := result_in(folder)) is None:
        return None
    change = read_change(folder)
    return found, change.reason, change.findings, change.z_map.nan_to_num().abs().sum().item()


def _result(*words: str, code: int = 0) -> Computation:
    return Computation(
        words=(*words, "--out", "{out}"),
        code=code,
        state=result_in,
        resume=("--resume",),
        foreign="README.txt",
    )


RESULTS = {
    "joint": _result(
        "joint", "{in}/study.h5", "--transform", "translation", "--steps", "3", code=NOT_TRUSTED
    ),
    "reconstruct": _result("reconstruct", "{in}/study.h5", "--steps", "60", code=NOT_TRUSTED),
    "register": _result(
        "register", "{in}/one.nii.gz", "{in}/two.nii.gz", "--transform", "rigid", "--steps", "5"
    ),
    # It has to converge: otherwise there is nothing to say, and nothing is computed.
    "change": replace(
        _result("change", "{in}/study.h5", "--transform", "translation", "--no-uncertainty"),
        state=changed_in,
        midway=(detection, "score_map"),
    ),
}
"""Commands that leave one result, and checkpoints while they run."""

CHECKPOINTED = {
    **RESULTS,
    "demo": Computation(
        words=("demo", "--voxel", "6", "--steps", "1", "--out", "{out}"),
        code=NOT_TRUSTED,
        state=demo_in,
        begins=(duotomo.simulate, "demo_pair"),
        resume=("--resume",),
        foreign="result/README.txt",
    ),
    "reproduce": Computation(
        words=("reproduce", "tiny", "--level", "honest", "--quick", "--no-figures", "--out", "{out}"),
        state=rows_in,
    ),
}
"""Commands that go on where they were killed."""

WRITERS = {
    "simulate": Computation(
        words=(
            *("simulate", "--views", "3", "--pixel", "8", "--radii", "30,26,20", "--second-visit", "--truth"),
            *("--out", "{out}"),
        ),
        state=files_in,
        begins=(duotomo.simulate, "make_visits"),
        midway=(simulate_command, "_write_scan"),
        older=("--seed", "1"),
    ),
    "convert to a stack": Computation(
        words=("convert", "{in}/study.h5", "{out}/scan.npy", "--what", "visit_1"),
        state=files_in,
        begins=(conversion, "_visit_of_study"),
        midway=(conversion, "_visit_of_study"),
        older=("--what", "visit_2"),
    ),
    "convert to views": Computation(
        words=("convert", "{in}/study.h5", "{out}", "--what", "visit_1"),
        state=views_in,
        begins=(projections_writer, "save"),
        midway=(projections_writer, "save"),
        older=("--what", "visit_2"),
    ),
    "report": Computation(
        words=("report", "{out}"),
        state=page_in,
        begins=(page, "page_of"),
        midway=(page, "page_of"),
        copied="result",
    ),
    "report elsewhere": Computation(
        words=("report", "{in}/result", "--out", "{out}/page.html"),
        state=files_in,
        begins=(page, "page_of"),
        midway=(page, "page_of"),
    ),
}
"""Commands that take seconds, and begin anew."""

COMPUTATIONS = CHECKPOINTED | WRITERS


def prepare(patch: Any) -> None:
    """Let the smallest experiment be known, and a breast be squeezed once only. patch: as setattr."""
    patch(reproduction, "EXPERIMENTS", {**reproduction.EXPERIMENTS, TINY.name: TINY})
    patch(scene, "compress", functools.cache(compress))


def write_inputs(folder: Path, factor: float = 1.0) -> None:
    """Write what the commands read. factor: of the values, to have other ones."""
    study = tiny_study()
    visits = tuple(replace(one, projections=factor * one.projections) for one in study.visits)
    write_study(folder / "study.h5", replace(study, visits=visits))
    shift = Translation(GRID)
    moved = shift.warp(shift.params(translation_mm=SHIFT_MM), GRID, GRID)(blob())
    write_volume(folder / "one.nii.gz", factor * blob(), GRID)
    write_volume(folder / "two.nii.gz", moved, GRID)
    save(folder / "result", result())


def same(one: SavedResult, other: SavedResult) -> bool:
    """Return whether two results are equal bit for bit, but for the seconds that they took."""
    steps = [[replace(step, seconds=0.0) for step in found.history] for found in (one, other)]
    return (
        torch.equal(one.volume, other.volume)
        and list(one.others) == list(other.others)
        and all(torch.equal(one.others[name], other.others[name]) for name in one.others)
        and all(torch.equal(a, b) for a, b in zip(one.params, other.params, strict=True))
        and steps[0] == steps[1]
        and (one.status, one.reason, one.applications) == (other.status, other.reason, other.applications)
    )
