"""One whole input of every format that a command reads, and the commands that read it."""

from __future__ import annotations

import atexit
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import torch

from duotomo.geometry import VolumeGrid
from duotomo.io import write_displacement, write_result, write_study, write_transform, write_volume
from duotomo.io.checkpoint_file import CheckpointFile
from duotomo.io.dicom.projections_writer import write_dicom_projections
from duotomo.io.dicom.registration import write_spatial_registration
from duotomo.io.dicom.tomosynthesis import write_tomosynthesis
from duotomo.io.scan import Scan, Values
from duotomo.io.scan_hdf5 import write_scan
from duotomo.methods.study import Study, Visit
from duotomo.transforms import Affine, BSpline, Motion
from tests.cases.scans import arc
from tests.io import saved_helpers
from tests.io.change_helpers import a_change
from tests.io.scan_helpers import WRITERS, write_itk
from tests.io.test_scan_rtk import PLAIN, write_stack

GEOMETRY = arc((6, 7), 8.0, n_views=3, degrees=28.6)
GRID = VolumeGrid.on_detector((4, 5, 6), (6.0, 6.0, 6.0), gap_mm=3.0)
VIEWS = np.random.default_rng(0).uniform(0.1, 2.0, GEOMETRY.shape).astype(np.float32)

Words = tuple[str, ...]

# {in}: the folder of the input; {out}: a folder that is not there yet, the only place to write to.
_COARSE = ("--voxel", "8,8,8", "--method", "bp", "--thickness", "24", "--json", "--out", "{out}")


def _twice(name: str) -> Words:
    """One input as both visits, which has to be allowed."""
    return f"{{in}}/{name}", f"{{in}}/{name}", "--allow-same-scan"


def scan_commands(name: str) -> tuple[Words, ...]:
    """Return the commands for a scan of this name."""
    return (
        ("info", f"{{in}}/{name}", "--thickness", "24", "--json"),
        ("convert", f"{{in}}/{name}", "{out}.h5", "--json"),
        ("reconstruct", f"{{in}}/{name}", *_COARSE),
        ("joint", *_twice(name), "--thickness", "24", "--steps", "1", "--out", "{out}"),
        ("change", *_twice(name), "--voxel", "6,6,6", "--thickness", "24", "--steps", "1", "--out", "{out}"),
    )


def volume_commands(name: str) -> tuple[Words, ...]:
    """Return the commands for a volume of this name."""
    return (
        ("info", f"{{in}}/{name}", "--json"),
        ("convert", f"{{in}}/{name}", "{out}.nrrd", "--json"),
        (
            "register",
            *_twice(name),
            "--transform",
            "translation",
            "--steps",
            "1",
            "--json",
            "--out",
            "{out}",
        ),
    )


def transform_commands(name: str, target: str = ".tfm") -> tuple[Words, ...]:
    """Return the commands for a transform of this name."""
    return (("info", f"{{in}}/{name}", "--json"), ("convert", f"{{in}}/{name}", f"{{out}}{target}", "--json"))


RESULT_COMMANDS: tuple[Words, ...] = (
    ("report", "{in}/result", "--out", "{out}.html"),
    ("view", "{in}/result", "--no-browser"),
    ("convert", "{in}/result", "{out}.nii.gz"),
)


@dataclass(frozen=True)
class Sample:
    """A whole input.

    name: for people. file: the one that is damaged, in the folder that `write` fills. commands: each reads
    it, the first without computing anything. summed: the file has checksums, so that damage is noticed or
    harmless. shut: even cut short, the file can be whole.
    """

    name: str
    file: str
    write: Callable[[Path], None]
    commands: tuple[Words, ...]
    summed: bool = False
    shut: bool = True

    def put(self, folder: Path) -> Path:
        """Write the input into a folder, and return the file to damage."""
        shutil.copytree(_written(self), folder, dirs_exist_ok=True)
        return folder / self.file


@cache
def _written(sample: Sample) -> Path:
    folder = Path(mkdtemp(prefix="duotomo-sample-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    sample.write(folder)
    return folder


def whole_scan(*, counts: bool = False) -> Scan:
    """Return the scan that all samples hold."""
    views = torch.from_numpy(VIEWS)
    if counts:
        return Scan(
            projections=(4000 * torch.exp(-views)).round(),
            values=Values.COUNTS,
            acquisition=GEOMETRY,
            flat_field=torch.tensor(4000.0),
            thickness_mm=24.0,
        )
    return Scan(projections=views, values=Values.LINE_INTEGRALS, acquisition=GEOMETRY, thickness_mm=24.0)


def whole_study() -> Study:
    """Return a study of two visits, which are not the same scan."""
    visits = [Visit(projections=torch.from_numpy(VIEWS) * dose, acquisition=GEOMETRY) for dose in (1.0, 1.01)]
    return Study(grid=GRID, visits=tuple(visits))


def _stack(kind: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        name, put = WRITERS[kind]
        put(folder / name, VIEWS)
        (folder / "s.json").write_text(GEOMETRY.to_json())

    return write


def _single_files(folder: Path) -> None:
    write_dicom_projections(folder / "views", whole_scan(counts=True), single_files=True)
    for number, file in enumerate(sorted((folder / "views").iterdir())):
        file.rename(file.with_name(f"{number}.dcm"))


def _volume(name: str) -> Callable[[Path], None]:
    return lambda folder: write_volume(folder / name, torch.rand(GRID.shape) + 0.1, GRID)


def _packed_volume(folder: Path) -> None:
    write_itk(folder / "v.mha", np.random.default_rng(1).random(GRID.shape, dtype=np.float32), packed=True)


def _tomosynthesis(folder: Path) -> None:
    write_tomosynthesis(folder / "v.dcm", torch.rand(GRID.shape) * 0.05 + 0.01, GRID)


def _stretch() -> Motion:
    affine = Affine(GRID)
    stretch = affine.params(matrix=np.diag([1.1, 0.9, 1.0]).tolist(), translation_mm=(1.0, 2.0, 3.0))
    return Motion(affine, stretch)


def _affine(name: str) -> Callable[[Path], None]:
    return lambda folder: write_transform(folder / name, _stretch())


def _spline(folder: Path) -> None:
    spline = BSpline.over(GRID, (4, 4, 4))
    params = torch.from_numpy(np.random.default_rng(2).normal(size=spline.n_params))
    write_transform(folder / "t.h5", Motion(spline, params), grid=GRID)


def _displacement(name: str) -> Callable[[Path], None]:
    return lambda folder: write_displacement(folder / name, _stretch(), GRID)


def _registration(folder: Path) -> None:
    affine = Affine(GRID)
    write_spatial_registration(folder / "r.dcm", Motion(affine, affine.identity()), fixed=None, moving=None)


def _rtk(folder: Path) -> None:
    write_stack(folder / "s.mha", VIEWS, first=(-24.0, -20.0), spacing=(8.0, 8.0))
    (folder / "s.xml").write_text(PLAIN)


def _settings(command: str, text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        write_scan(folder / "s.h5", whole_scan())
        _volume("v.nii.gz")(folder)
        (folder / "s.toml").write_text(f"[{command}]\n{text}")

    return write


def whole_result(folder: Path) -> None:
    """Write a result folder, with what changed."""
    (folder / "result").mkdir()
    write_result(
        folder / "result",
        saved_helpers.result(),
        study=saved_helpers.study(),
        settings={"method": "joint"},
        change=a_change(),
    )


def _checkpoint(folder: Path) -> None:
    write_study(folder / "study.h5", whole_study())
    (folder / "run").mkdir()
    CheckpointFile(folder / "run" / "checkpoint.h5", saved_helpers.FINGERPRINT).save(saved_helpers.state())


_STUDY_COMMANDS: tuple[Words, ...] = (
    ("info", "{in}/study.h5", "--json"),
    ("convert", "{in}/study.h5", "{out}.h5", "--what", "visit_1", "--json"),
    ("reconstruct", "{in}/study.h5", "--method", "bp", "--json", "--out", "{out}"),
    ("change", "{in}/study.h5", "--transform", "translation", "--steps", "1", "--json", "--out", "{out}"),
)
_SETTINGS_COMMANDS: dict[str, Words] = {
    "reconstruct": ("reconstruct", "{in}/s.h5", "--settings", "{in}/s.toml", "--json", "--out", "{out}"),
    # An empty file asks for a whole run. The sequential method has one model, and is done soon.
    "joint": (
        *("joint", *_twice("s.h5"), "--method", "sequential"),
        *("--settings", "{in}/s.toml", "--out", "{out}"),
    ),
    "register": ("register", *_twice("v.nii.gz"), "--settings", "{in}/s.toml", "--out", "{out}"),
    "change": (
        # Of change, too.
        *("change", *_twice("s.h5"), "--voxel", "6,6,6", "--transform", "translation", "--steps", "1"),
        *("--settings", "{in}/s.toml", "--out", "{out}"),
    ),
}
_PACKED = ("nifti packed", "mat packed")
# Of a packed MetaImage or NRRD, the header has no checksum.

STACKS = {
    kind: Sample(kind, name, _stack(kind), scan_commands(name), summed=kind in _PACKED)
    for kind, (name, _) in WRITERS.items()
}

SAMPLES: dict[str, Sample] = STACKS | {
    sample.name: sample
    for sample in (
        Sample("mhd's data", "s.raw", _stack("mhd"), scan_commands("s.mhd")),
        Sample(
            "dicom",
            "s.dcm",
            lambda f: write_dicom_projections(f / "s.dcm", whole_scan(counts=True)),
            scan_commands("s.dcm"),
        ),
        Sample("dicom views", "views/1.dcm", _single_files, scan_commands("views")),
        Sample(
            "scan", "s.h5", lambda f: write_scan(f / "s.h5", whole_scan()), scan_commands("s.h5"), summed=True
        ),
        Sample(
            "study",
            "study.h5",
            lambda f: write_study(f / "study.h5", whole_study()),
            _STUDY_COMMANDS,
            summed=True,
        ),
        Sample(
            "geometry",
            "s.json",
            _stack("npy"),
            (("info", "{in}/s.json", "--json"), *scan_commands("s.npy")[1:]),
        ),
        Sample("rtk", "s.xml", _rtk, (("info", "{in}/s.xml", "--json"), *scan_commands("s.mha")[1:])),
        Sample("volume nifti", "v.nii.gz", _volume("v.nii.gz"), volume_commands("v.nii.gz"), summed=True),
        Sample("volume mha", "v.mha", _volume("v.mha"), volume_commands("v.mha")),
        Sample("volume mha packed", "v.mha", _packed_volume, volume_commands("v.mha")),
        Sample("volume nrrd", "v.nrrd", _volume("v.nrrd"), volume_commands("v.nrrd")[:1]),
        Sample("volume dicom", "v.dcm", _tomosynthesis, volume_commands("v.dcm")),
        Sample("transform tfm", "t.tfm", _affine("t.tfm"), transform_commands("t.tfm", ".h5")),
        Sample("transform hdf5", "t.h5", _spline, transform_commands("t.h5")),
        Sample(
            "displacement nifti",
            "d.nii.gz",
            _displacement("d.nii.gz"),
            transform_commands("d.nii.gz", ".h5"),
            summed=True,
        ),
        Sample("displacement mha", "d.mha", _displacement("d.mha"), transform_commands("d.mha", ".h5")),
        Sample("registration", "r.dcm", _registration, (("info", "{in}/r.dcm", "--json"),), shut=False),
        Sample("result", "result/result.json", whole_result, RESULT_COMMANDS),
        Sample("result's volume", "result/volume.nii.gz", whole_result, RESULT_COMMANDS, summed=True),
        Sample("result's findings", "result/findings.json", whole_result, RESULT_COMMANDS[:2], summed=True),
        Sample("result's scores", "result/change_z.nii.gz", whole_result, RESULT_COMMANDS[:2], summed=True),
        Sample("result's history", "result/history.csv", whole_result, RESULT_COMMANDS[:2], summed=True),
        Sample(
            "result's motion",
            "result/visit_2_to_reference.tfm",
            whole_result,
            RESULT_COMMANDS[:2],
            summed=True,
        ),
        Sample(
            "checkpoint",
            "run/checkpoint.h5",
            _checkpoint,
            (("joint", "{in}/study.h5", "--resume", "--out", "{in}/run"),),
        ),
        *(
            Sample(f"settings {command}", "s.toml", _settings(command, text), (words,), shut=False)
            for (command, words), text in zip(
                _SETTINGS_COMMANDS.items(),
                (
                    'method = "bp"\nvoxel = [8.0, 8.0, 8.0]\n',
                    'transform = "rigid"\nsteps = 1\n',
                    'transform = "rigid"\nsteps = 1\n',
                    'transform = "rigid"\nsteps = 1\n',
                ),
                strict=True,
            )
        ),
    )
}
