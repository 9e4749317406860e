"""Runs that were stopped or that ended: what they left in the folder with which a command goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from duotomo.io.checkpoint_file import CheckpointFile
from duotomo.io.study_file import write_study
from duotomo.methods.state import State
from tests.cli.commands import duotomo
from tests.fuzz.samples import SAMPLES, Sample, Words, whole_study

_STUDY, _VOLUMES = ("{in}/study.h5",), ("{in}/v.nii.gz", "{in}/v.nii.gz", "--allow-same-scan")
RUNS: dict[str, Words] = {
    "joint": ("joint", *_STUDY, "--transform", "translation", "--steps", "1"),
    "change": ("change", *_STUDY, "--transform", "translation", "--steps", "1"),
    "register": ("register", *_VOLUMES, "--transform", "translation", "--steps", "1"),
    "reconstruct": ("reconstruct", *_STUDY, "--method", "tv", "--steps", "26"),
}
_QUICK: Words = ("reconstruct", *_STUDY, "--method", "bp")
_OUT = ("--out", "{out}")


def unfinished(command: str) -> Sample:
    """Return the inputs of a command, and a checkpoint from which it goes on into the folder `out`."""
    words = RUNS[command]
    return Sample(f"unfinished {command}", "checkpoint.h5", _stopped(words), ((*words, "--resume", *_OUT),))


def finished() -> Sample:
    """Return the inputs of a command, and its whole result, which it has to recognise in the folder `out`."""
    return Sample(
        "finished", "run/result.json", lambda folder: _run(folder, _QUICK), ((*_QUICK, "--resume", *_OUT),)
    )


def _stopped(words: Words) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        kept: list[bytes] = []
        save = CheckpointFile.save

        def saved(file: CheckpointFile, state: State) -> None:
            save(file, state)
            kept.append(Path(file.path).read_bytes())

        with patch.object(CheckpointFile, "save", saved):
            _run(folder, words)
        # One from the middle: after the last, nothing would be computed.
        (folder / "checkpoint.h5").write_bytes(kept[(len(kept) - 1) // 2])
        shutil.rmtree(folder / "run")

    return write


def _run(folder: Path, words: Words) -> None:
    if words[1:2] == _STUDY:
        write_study(folder / "study.h5", whole_study())
    else:
        SAMPLES["volume nifti"].put(folder)
    ran = duotomo(
        *(word.replace("{in}", str(folder)).replace("{out}", str(folder / "run")) for word in words + _OUT)
    )
    assert (folder / "run/result.json").exists(), ran
