"""What libraries say never reaches a user; --log has all that was said, and names no patient."""

from __future__ import annotations

import json
import logging
import os
import warnings
from pathlib import Path

import pytest

from duotomo import methods
from duotomo.cli import convert as convert_module
from duotomo.cli._compiling import WORDS
from duotomo.cli._log import HEAD, LOG
from duotomo.io.libraries import simpleitk
from tests.cli.commands import NOT_TRUSTED, duotomo, write_scans
from tests.cli.short_runs import shorten, trusting
from tests.io.saved_helpers import python

SECRET = "Roe^Janet"


def test_a_run_is_logged_without_its_patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, n_steps=2)
    monkeypatch.setattr(methods, "trust_of", trusting(False))
    folder, log = tmp_path / "Doe_Jane", tmp_path / "logs" / "run.log"
    folder.mkdir()
    one, two = write_scans(folder)
    out = tmp_path / "Doe_result"
    options = ("--transform", "translation", "--quiet", "--log", log, "--out", out)
    ran = duotomo("joint", one, two, *options)
    assert (ran.code, ran.out) == (NOT_TRUSTED, "")
    text = log.read_text()
    assert text.startswith(f"{HEAD}\n")
    assert log.stat().st_mode & 0o077 == 0
    for said in (
        "duotomo joint",
        "torch ",
        "transform = translation",
        "Memory: about",
        "translation at 3 mm",
    ):
        assert said in text
    for said in ("<out>/volume.nii.gz", "WARNING", "do not trust this result", "What to do:", "exit code 3"):
        assert said in text
    assert "Doe" not in text
    assert "Jane" not in text
    # It is a run's, not the result's.
    assert "log" not in (out / "settings.toml").read_text()
    assert '"log"' not in (out / "result.json").read_text()
    duotomo("joint", one, tmp_path / "Doe_missing.h5", *options)
    assert log.read_text().startswith(text)
    added = log.read_text()[len(text) :]
    assert "read_scan: expected a file or a folder at <inputs 2>" in added
    assert 'File "' in added
    assert "Doe" not in added


def test_what_libraries_say_is_logged_and_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(*_: object, **__: object) -> None:
        warnings.warn("torch.jit.script is deprecated", FutureWarning, stacklevel=1)
        logging.getLogger("matplotlib.font_manager").warning("building the font cache")
        logging.getLogger("pydicom").warning("Invalid value for VR PN: %s", SECRET)
        simpleitk().LogicError = None
        raise KeyError("unforeseen")

    monkeypatch.setattr("duotomo.io.convert", noisy)
    log = tmp_path / "a.log"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for options in ((), ("--log", log)):
            ran = duotomo("convert", tmp_path / "a.nii", tmp_path / "b.nii", *options)
            assert ran.code == 2
            assert ran.err.startswith("duotomo convert: unforeseen KeyError")
            assert ran.err.count("\n") == 1
    text = log.read_text()
    for said in (
        "torch.jit.script is deprecated",
        "building the font cache",
        "KeyError: 'unforeseen'",
        "noisy",
    ):
        assert said in text
    assert SECRET not in text
    assert "pydicom: (not written: it may name a patient)" in text
    # Nothing stays behind.
    assert LOG.level == logging.NOTSET
    assert not [one for one in logging.root.handlers if type(one).__module__.startswith("duotomo")]
    assert convert_module is not None


def test_what_dicom_libraries_raise_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: object, **__: object) -> None:
        code = compile(
            f"raise ValueError({SECRET!r})", f"{os.sep}x{os.sep}pydicom{os.sep}valuerep.py", "exec"
        )
        exec(code)

    monkeypatch.setattr("duotomo.io.convert", raising)
    log = tmp_path / "a.log"
    assert duotomo("convert", tmp_path / "a.nii", tmp_path / "b.nii", "--log", log).code == 2
    assert "ValueError: (not written" in log.read_text()
    assert SECRET not in log.read_text()


def test_another_file_is_not_taken_for_a_log(tmp_path: Path) -> None:
    scan, _ = write_scans(tmp_path)
    before = scan.read_bytes()
    ran = duotomo("info", scan, "--log", scan)
    assert ran.code == 2
    assert "expected a new file, or a log of duotomo, at" in ran.err
    assert "Choose another --log" in ran.err
    assert scan.read_bytes() == before
    ran = duotomo("info", scan, "--log", tmp_path, "--json")
    assert ran.code == 2
    assert "expected a file that can be written to at" in ran.err
    assert json.loads(ran.out)["status"] == "error"


def test_what_itk_says_goes_to_logging(tmp_path: Path) -> None:
    """In another process: ITK prints past Python."""
    script = """
import logging, struct, sys
from duotomo.io.libraries import simpleitk
sitk = simpleitk()
logging.basicConfig(stream=sys.stdout)
path = sys.argv[1]
sitk.WriteImage(sitk.Image(5, 4, 3, sitk.sitkFloat32), path)
content = bytearray(open(path, "rb").read())
struct.pack_into("<h", content, 254, 1)
struct.pack_into("<4f", content, 280, 1, 0.3, 0, 0)
open(path, "wb").write(content)
sitk.ReadImage(path)
"""
    done = python(script, str(tmp_path / "a.nii"))
    assert "WARNING:SimpleITK" in done.stdout
    assert "unexpected scales in sform" in done.stdout
    assert done.stderr == ""


def test_compiling_is_said_once(tmp_path: Path) -> None:
    """By a command in another process, whose cache of compiled loops is empty at first."""
    script = """
import sys
from typing import Annotated
import numba, numpy as np, typer
from duotomo.cli._compiling import WORDS, announce_compiling
from duotomo.cli._errors import guarded
from duotomo.cli._options import Talk
from duotomo.kernels.compiled import compiled

numba.config.CACHE_DIR = sys.argv[1]

def once(numbers):
    numbers[0] = 1

def twice(numbers):
    numbers[0] = 2

def command():
    announce_compiling(Talk())
    compiled(once)(np.zeros(1))
    compiled(twice)(np.zeros(1))

app = typer.Typer()
app.command()(guarded(command))
app([])
"""
    path = tmp_path / "loops.py"
    path.write_text(script)
    run = f"import runpy; runpy.run_path({str(path)!r})"
    first, second = (python(run, str(tmp_path / "kept")) for _ in range(2))
    assert (first.stdout, first.stderr) == ("", f"{WORDS}\n")
    # Found ready.
    assert (second.stdout, second.stderr) == ("", "")
