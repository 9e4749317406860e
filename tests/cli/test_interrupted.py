"""A run that is stopped from the keyboard leaves no result that looks whole, and goes on when asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import duotomo
from duotomo.io import read_result, write_study
from tests.cli.commands import duotomo as run
from tests.cli.tiny import tiny_study

# Whoever runs the tests in the background may have told their processes to ignore Ctrl-C.
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
MAIN = f"{HEED}from duotomo.cli import main; main()"


def test_ctrl_c_ends_with_its_code_and_without_a_result(tmp_path: Path) -> None:
    write_study(tmp_path / "study.h5", tiny_study())
    out = tmp_path / "out"
    words = ["joint", str(tmp_path / "study.h5"), "--out", str(out), "--transform", "rigid"]
    source = Path(duotomo.__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *words],
        env=os.environ | {"PYTHONPATH": str(source)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        # The first stage has ended, so its block is kept.
        for line in process.stderr:
            if "translation at" in line:
                process.send_signal(signal.SIGINT)
                break
        said_out, said_err = process.communicate(timeout=60)
    assert process.returncode == 130, said_err
    assert "Traceback" not in said_err + said_out
    assert "Go on with --resume" in said_out
    assert os.listdir(out) == ["checkpoint.h5"]
    ran = run(*words, "--resume")
    assert ran.code == 0, ran.err
    assert "Resuming in stage" in ran.err
    assert read_result(out).models == ("Rigid",)
