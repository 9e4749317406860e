"""The inputs that are drawn: which file is changed how, how often, and for which command.

Every one has a name, `SEED/CHANGE/SAMPLE/NUMBER`, from which `drawn_input` makes it again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import torch

from duotomo.io.dicom.projections_writer import write_dicom_projections
from tests.cases.scans import arc
from tests.fuzz.drawn import binaries, dicoms, headers, members, results, unfinished
from tests.fuzz.drawn.headers import Mutation
from tests.fuzz.hostile import Category, Fate, Hostile
from tests.fuzz.samples import SAMPLES, Sample, Words, transform_commands, whole_scan
from tests.io.itk_helpers import sitk
from tests.io.saved_helpers import reseal

SEED = int(os.environ.get("DUOTOMO_FUZZ_SEED", "1"))

COMPUTING = ("joint", "reconstruct", "register", "change")
"""Commands that take longer, and are given fewer inputs."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A change, how many inputs of each sample it makes, and their samples."""

    change: Mutation
    times: int
    samples: tuple[Sample, ...]


def _packed(name: str, pack: Callable[[Path], None]) -> Sample:
    """Return a scan in DICOM, packed; of more pixels than the others, since wavelets need some."""
    whole = SAMPLES["dicom"]

    def write(folder: Path) -> None:
        scan = replace(whole_scan(counts=True), projections=_COUNTS, acquisition=_LARGER)
        write_dicom_projections(folder / whole.file, scan)
        pack(folder / whole.file)

    # Two visits of so many voxels would take long.
    return replace(whole, name=f"dicom {name}", write=write, commands=whole.commands[:3])


_LARGER = arc((40, 44), 1.2, n_views=3, degrees=28.6)
_COUNTS = (torch.rand(_LARGER.shape, generator=torch.Generator().manual_seed(0)) * 4000).round()


def _of(*names: str) -> tuple[Sample, ...]:
    return tuple(SAMPLES[name] for name in names)


_PACKED_DICOM = (
    *(_packed(name, lambda path, name=name: dicoms.packed(path, name)) for name in dicoms.SYNTAXES),
    _packed("deflated", dicoms.deflated),
)


def _itk_in_matlab(folder: Path) -> None:
    affine = sitk.AffineTransform(3)
    affine.SetTranslation((1.0, 2.0, 3.0))
    sitk.WriteTransform(affine, str(folder / "t.mat"))


_ITK_IN_MATLAB = Sample("transform mat", "t.mat", _itk_in_matlab, transform_commands("t.mat", ".h5"))
_RESULT = (replace(SAMPLES["result"], commands=results.COMMANDS),)
_SETTINGS = _of("settings reconstruct", "settings joint", "settings register")

PLANS: dict[str, Plan] = {
    "header": Plan(
        change=headers.image,
        times=95,
        samples=_of("mha", "mha packed", "mhd", "nrrd", "nrrd packed")
        + _of("volume mha", "volume mha packed", "volume nrrd", "displacement mha"),
    ),
    "text": Plan(change=headers.text, times=110, samples=_of("transform tfm", "rtk")),
    "settings": Plan(change=headers.text, times=60, samples=_SETTINGS),
    "kinds": Plan(change=headers.kinds, times=300, samples=_of("transform tfm")),
    "tree": Plan(change=headers.tree, times=220, samples=_of("geometry")),
    "nifti": Plan(
        change=binaries.nifti,
        times=60,
        samples=_of("nifti", "nifti packed", "nifti 2", "volume nifti", "displacement nifti"),
    ),
    "npy": Plan(change=binaries.npy, times=120, samples=_of("npy")),
    "mat": Plan(change=binaries.mat, times=80, samples=_of("mat", "mat packed")),
    "words": Plan(change=binaries.words, times=80, samples=(_ITK_IN_MATLAB,)),
    "tiff": Plan(change=binaries.tiff, times=100, samples=_of("tiff", "tiff packed")),
    "members": Plan(
        change=members.members,
        times=130,
        samples=_of("scan", "study", "hdf5", "mat 7.3", "transform hdf5")
        + tuple(unfinished.unfinished(command) for command in unfinished.RUNS),
    ),
    "attributes": Plan(
        change=dicoms.attributes,
        times=100,
        samples=_of("dicom", "dicom views", "volume dicom", "registration"),
    ),
    "frames": Plan(change=dicoms.frames, times=90, samples=_PACKED_DICOM),
    "index": Plan(change=results.index, times=220, samples=_RESULT),
    "file": Plan(change=results.file, times=150, samples=_RESULT),
    "finished": Plan(change=results.index, times=60, samples=(unfinished.finished(),)),
}


_SAYS = {"unfinished": "checkpoint", "finished": "/out"}
"""What a message names where the input is in the folder of the output."""


def drawn(seed: int = SEED) -> Iterator[Hostile]:
    """Give all inputs of a seed."""
    for kind, plan in PLANS.items():
        for sample in plan.samples:
            for number in range(plan.times):
                yield input_of(plan, sample, f"{seed}/{kind}/{sample.name}/{number}")


def drawn_input(name: str) -> Hostile:
    """Return the input of a name."""
    _, kind, sample_name, _ = name.split("/")
    plan = PLANS[kind]
    (sample,) = (one for one in plan.samples if one.name == sample_name)
    return input_of(plan, sample, name)


def input_of(plan: Plan, sample: Sample, name: str) -> Hostile:
    """Return the input that a plan makes of a sample."""
    goes_on = sample.name.split()[0] in _SAYS
    words = _words(sample, Random(f"words of {name}"))

    def make(folder: Path) -> None:
        path = sample.put(folder)
        plan.change(path, Random(name))
        reseal(path)
        if goes_on:
            # Where the command goes on with what it left.
            shutil.move(path.parent if sample.file.startswith("run/") else path, _out(folder, path, sample))

    return Hostile(
        name=name,
        category=Category.JUNK,
        words=words,
        make=make,
        fate=Fate.EITHER,
        says=_SAYS.get(sample.name.split()[0], ""),
    )


def _out(folder: Path, path: Path, sample: Sample) -> Path:
    if sample.file.startswith("run/"):
        return folder.parent / "out"
    (folder.parent / "out").mkdir()
    return folder.parent / "out" / path.name


def _words(sample: Sample, random: Random) -> Words:
    quick = [words for words in sample.commands if words[0] not in COMPUTING]
    return random.choice(quick if quick and random.random() < 0.8 else sample.commands)
