"""Commands end with a message and an exit code, and say nothing where nothing was asked for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest
import torch
import typer
from typer.testing import CliRunner

import duotomo as package
from duotomo.cli import COMMANDS, main
from duotomo.cli._compiling import LOG, WORDS, announce_compiling, announcing
from duotomo.cli._errors import DEBUG, guarded, translated
from duotomo.cli._options import Computing, Talk, use_threads
from duotomo.errors import DeviceError, DuotomoError


def ended(error: BaseException, **options: object) -> typer.Exit:
    def command(as_json: bool = False) -> None:
        raise error

    with pytest.raises(typer.Exit) as caught:
        guarded(command)(**options)
    return caught.value


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (DuotomoError("expected this; got that."), 2, "duotomo command: expected this; got that."),
        (DuotomoError("command: expected this."), 2, "duotomo command: expected this."),
        (DuotomoError("read_scan: expected this."), 2, "duotomo command: read_scan: expected this."),
        (
            OSError(28, "No space left on device", "/disk"),
            2,
            "No space left on device (/disk). Check the disk",
        ),
        (MemoryError(), 2, "expected enough memory; got too little"),
        (RuntimeError("CUDA out of memory. Tried"), 2, "expected enough memory; got too little"),
        (KeyError("a"), 2, "unforeseen KeyError: 'a'. Run it again with DUOTOMO_DEBUG=1"),
        (KeyboardInterrupt(), 130, "Stopped."),
    ],
)
def test_every_failure_is_a_message_and_a_code(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(error).exit_code == code
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


def test_ctrl_c_that_a_library_makes_another_error_of_is_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10.0)
        except KeyboardInterrupt:
            raise RecursionError("maximum recursion depth exceeded") from None

    def outer() -> None:
        guarded(command)()

    with pytest.MonkeyPatch.context() as patch:
        # Whoever runs the tests in the background may have told their processes to ignore it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        patch.setenv(DEBUG, "1")
        for one in (command, outer):
            with pytest.raises(typer.Exit) as caught:
                guarded(one)()
            assert caught.value.exit_code == 130
            assert "Stopped." in capsys.readouterr().err
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, before)


def test_where_ctrl_c_is_ignored_it_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert guarded(lambda: signal.getsignal(signal.SIGINT))() is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_json_gets_the_message_too(capsys: pytest.CaptureFixture[str]) -> None:
    ended(DuotomoError("expected this"), as_json=True)
    said = capsys.readouterr()
    assert json.loads(said.out) == {"status": "error", "error": "duotomo command: expected this"}


def test_what_ends_on_purpose_and_what_is_debugged_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(typer.Exit(1)).exit_code == 1

    def wrong() -> None:
        raise typer.BadParameter("so")

    with pytest.raises(typer.BadParameter):
        guarded(wrong)()
    monkeypatch.setenv(DEBUG, "1")

    def command() -> None:
        raise KeyError("a")

    with pytest.raises(KeyError):
        guarded(command)()


OPTIONS = {"thickness": "--thickness", "machine": "--machine", "voxel": "--voxel", "formats": "--format"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pass `thickness_mm`.", "Pass --thickness."),
        ("Pass `machine='ge_senoclaire'`.", "Pass --machine ge_senoclaire."),
        ("Pass `voxel_mm=(1, 0.1, 0.1)`.", "Pass --voxel 1,0.1,0.1."),
        ('expected `formats` and `machine="a"`', "expected --format and --machine a"),
        ("Pass `thickness_mm=True`.", "Pass --thickness."),
        (
            "Run `duotomo reproduce all` first, `angles_deg`.",
            "Run `duotomo reproduce all` first, `angles_deg`.",
        ),
    ],
)
def test_parameters_are_told_as_options(text: str, expected: str) -> None:
    assert translated(text, OPTIONS) == expected


def test_the_version_is_told() -> None:
    ran = CliRunner().invoke(main, ["--version"])
    assert (ran.exit_code, ran.output) == (0, f"duotomo {package.__version__}\n")


def test_talk_goes_where_it_should(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, as_json, out, err in (
        (False, False, "found\n", "working\n"),
        (False, True, '{"a": 1}\n', "working\nfound\n"),
        (True, False, "", ""),
        (True, True, '{"a": 1}\n', ""),
    ):
        talk = Talk(quiet=quiet, as_json=as_json)
        talk.progress("working")
        talk.say("found")
        talk.finish({"a": 1})
        assert tuple(capsys.readouterr()) == (out, err)


@pytest.mark.parametrize(
    ("device", "n_devices", "message"),
    [
        ("cuda", 0, "expected a CUDA device for --device cuda; got: no CUDA device is available here"),
        ("cuda:1", 0, "expected a CUDA device for --device cuda:1; .* Use --device cpu, or auto"),
        ("cuda:1", 1, "expected a CUDA device that is there, cuda:0, for --device; got cuda:1"),
        ("cuda:4", 4, "expected a CUDA device that is there, cuda:0 to cuda:3, for --device; got cuda:4"),
        ("gpu", 1, "expected auto, cpu, cuda or cuda:1 for --device; got 'gpu'"),
        ("cpu:1", 1, "expected auto, cpu, cuda or cuda:1"),
        ("cuda:", 1, "expected auto, cpu, cuda or cuda:1"),
        ("cuda:-1", 1, "expected auto, cpu, cuda or cuda:1"),
    ],
)
def test_a_device_that_is_not_there_is_refused(
    device: str, n_devices: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)
    with pytest.raises(DeviceError, match=message):
        Computing(device=device).prepare(Talk())


@pytest.mark.parametrize(
    ("device", "found"), [("auto", "cuda"), ("cuda", "cuda"), ("cuda:1", "cuda:1"), ("cpu", "cpu")]
)
def test_a_device_that_is_there_is_taken(device: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    current: list[int | None] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    # PyTorch's own refuses a device without a number.
    monkeypatch.setattr(torch.cuda, "set_device", lambda one: current.append(torch.device(one).index))
    assert Computing(device=device).prepare(Talk()) == found
    assert current == ([1] if found == "cuda:1" else [])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:0"])
def test_the_device_of_this_machine_is_taken(device: str) -> None:
    assert Computing(device=device).prepare(Talk()).startswith("cuda")


def test_threads_and_seed_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    before, loops = torch.get_num_threads(), numba.get_num_threads()
    try:
        Computing(threads=1, seed=7).prepare(Talk())
        assert torch.get_num_threads() == 1
        assert torch.initial_seed() == 7
        monkeypatch.delitem(sys.modules, "numba", raising=False)
        monkeypatch.setenv("NUMBA_NUM_THREADS", "9")
        use_threads(1)
        assert os.environ["NUMBA_NUM_THREADS"] == "1"
    finally:
        numba.set_num_threads(loops)
        torch.set_num_threads(before)


def test_help_lists_every_command_and_each_has_an_example() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    for name in COMMANDS:
        assert f" {name} " in shown
    for name in COMMANDS:
        ran = CliRunner().invoke(main, [name, "--help"])
        assert ran.exit_code == 0
        assert f"duotomo {name} " in ran.output.split("Example:")[1]


def test_an_unknown_command_is_a_usage_error() -> None:
    ran = CliRunner().invoke(main, ["jiont"])
    assert ran.exit_code == 2
    assert "No such command 'jiont'" in ran.output


def test_help_needs_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from duotomo.cli import COMMANDS, main\n"
        "for words in (['--help'], *([name, '--help'] for name in COMMANDS)):\n"
        "    assert CliRunner().invoke(main, words).exit_code == 0\n"
        "heavy = {'torch', 'numba', 'matplotlib', 'h5py', 'nibabel', 'SimpleITK', 'pydicom'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    source = Path(package.__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "[]"


def test_compiling_is_said_once_and_by_commands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def compile_loops(talk: Talk) -> str:
        announce_compiling(talk)
        LOG.info("a loop is compiled")
        # As when one command runs another.
        announce_compiling(talk)
        LOG.info("another loop is compiled")
        return "".join(capsys.readouterr())

    before = list(LOG.handlers), LOG.level
    assert compile_loops(Talk()) == ""
    with announcing():
        assert compile_loops(Talk()) == f"{WORDS}\n"
    with announcing():
        assert compile_loops(Talk(quiet=True)) == ""
    assert (LOG.handlers, LOG.level) == before
