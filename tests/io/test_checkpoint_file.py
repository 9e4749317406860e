"""A state survives its file bit for bit, whenever the process that writes it is killed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch

from duotomo.io import CheckpointFile, FileError, fingerprint
from duotomo.io.iterate_file import IterateFile
from duotomo.io.run_fingerprint import RunFingerprint
from duotomo.io.versions import UNKNOWN
from duotomo.methods.settings import Settings
from duotomo.transforms import Affine
from tests.io.saved_helpers import (
    FINGERPRINT,
    GRID,
    KilledError,
    draw,
    edited,
    killed_at,
    python,
    same_state,
    state,
    study,
)


@pytest.fixture
def file(tmp_path: Path) -> CheckpointFile:
    return CheckpointFile(tmp_path / "checkpoint.h5", FINGERPRINT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_steps", [0, 1, 7])
def test_what_is_saved_is_loaded(dtype: torch.dtype, n_steps: int, tmp_path: Path) -> None:
    file = CheckpointFile(str(tmp_path / "c.h5"), FINGERPRINT)
    assert file.load() is None
    file.save(state(0, dtype, n_steps))
    file.save(state(1, dtype, n_steps))
    found = file.load()
    assert found is not None
    assert same_state(found, state(1, dtype, n_steps))
    assert os.listdir(tmp_path) == ["c.h5"]
    file.remove()
    file.remove()
    assert file.load() is None


def test_a_study_of_one_visit_has_no_params(file: CheckpointFile) -> None:
    alone = replace(state(), params=(), volumes={})
    file.save(alone)
    found = file.load()
    assert found is not None
    assert same_state(found, alone)


def test_special_values_survive(file: CheckpointFile) -> None:
    special = torch.tensor([[[0.0, -0.0, float("nan"), float("inf"), 1e-45]]])
    file.save(replace(state(), volumes={"volume": special}))
    found = file.load()
    assert found is not None
    assert torch.equal(found.volumes["volume"].view(torch.int32), special.view(torch.int32))


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_moment_leaves_the_old_state_or_the_new(
    after: bool, file: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = state(0), state(1)
    kept = []
    for call in range(1, 10):
        file.save(old)
        try:
            with killed_at(call, after=after, monkeypatch=monkeypatch) as calls:
                file.save(new)
        except KilledError:
            found = file.load()
            assert found is not None
            assert same_state(found, old) or same_state(found, new)
            kept.append(same_state(found, new))
        else:
            break
    # An older copy removed, written to the disk, renamed, looked for once more; then the folder's names.
    assert calls == ["unlink", "fsync", "replace", "unlink", "fsync"]
    assert kept == sorted(kept)
    assert {False, True} == set(kept)


def test_leftovers_of_a_kill_do_not_matter(
    file: CheckpointFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KilledError), killed_at(2, after=False, monkeypatch=monkeypatch):
        file.save(state(0))
    assert len(os.listdir(tmp_path)) == 1
    assert file.load() is None
    (leftover,) = tmp_path.iterdir()
    leftover.write_bytes(b"half of it")
    file.save(state(1))
    assert os.listdir(tmp_path) == ["checkpoint.h5"]


def test_processes_killed_while_they_save(tmp_path: Path) -> None:
    # Forked, because importing takes longer than all else.
    code = """
import os, random, signal, sys, time, warnings
warnings.simplefilter("ignore")
import torch
torch.set_num_threads(1)
from duotomo.io import CheckpointFile
from tests.io.saved_helpers import FINGERPRINT, same_state, state
file, states = CheckpointFile(sys.argv[1], FINGERPRINT), [state(0), state(1)]
file.save(states[0])
moments = random.Random(0)
for _ in range(25):
    child = os.fork()
    if child == 0:
        while True:
            for each in states:
                file.save(each)
    time.sleep(moments.uniform(0.01, 0.05))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    found = file.load()
    assert any(same_state(found, each) for each in states)
file.save(states[1])
print(sorted(os.listdir(os.path.dirname(sys.argv[1]))))
"""
    done = python(code, str(tmp_path / "c.h5"))
    assert done.stdout.strip() == "['c.h5']", done.stderr


def test_no_damaged_byte_goes_unnoticed(file: CheckpointFile) -> None:
    file.save(state())
    path = Path(file.path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x21]) + whole[at + 1 :])
        with pytest.raises(FileError):
            file.load()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_refused(share: float, file: CheckpointFile) -> None:
    file.save(state())
    path = Path(file.path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(FileError, match=r"CheckpointFile: .*: expected .*; got"):
        file.load()


@pytest.mark.parametrize(
    ("other", "names"),
    [
        ({"study": "9"}, "another study"),
        ({"method": "iterative", "settings": "7"}, "another method and another settings"),
        ({"duotomo": "4"}, "another duotomo"),
        ({"commit": "5", "torch": "6", "numba": "7"}, "another commit and another torch and another numba"),
    ],
)
def test_a_state_of_another_computation_is_refused(
    other: dict[str, str], names: str, file: CheckpointFile
) -> None:
    file.save(state())
    with pytest.raises(FileError, match=rf"expected the state of this computation; got .* {names}\. Choose"):
        replace(file, fingerprint=replace(FINGERPRINT, **other)).load()


def test_other_files_are_refused(file: CheckpointFile) -> None:
    with h5py.File(file.path, "w") as other:
        other.attrs["format"] = "duotomo study"
    with pytest.raises(
        FileError, match=r"expected a file of format 'duotomo checkpoint'; got 'duotomo study'"
    ):
        file.load()


def test_a_state_that_makes_no_sense_is_refused(file: CheckpointFile) -> None:
    file.save(state())
    with edited(Path(file.path)) as content:
        content.attrs["state"] = "{}"
    with pytest.raises(
        FileError, match=r"CheckpointFile: .*: expected JSON as it was written; got stage: Field required"
    ):
        file.load()


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"stage": -1}, "stage"),
        ({"stage": True}, "stage"),
        ({"coarsen": [1, 2]}, "coarsen"),
        ({"coarsen": [1, 2, 10**9]}, "coarsen.2"),
        ({"status": "well"}, "status"),
        ({"seconds": float("nan")}, "seconds"),
    ],
)
def test_numbers_that_no_state_has_are_refused(change: dict[str, Any], at: str, file: CheckpointFile) -> None:
    file.save(state())
    with edited(Path(file.path)) as content:
        content.attrs["state"] = json.dumps(json.loads(content.attrs["state"]) | change)
    with pytest.raises(FileError, match=rf"expected JSON as it was written; got {at}: "):
        file.load()


def test_starts_that_have_ended_are_kept(file: CheckpointFile) -> None:
    begun = replace(state(), volumes={}, params=(), starts=(state(1), state(2, n_steps=0)))
    file.save(begun)
    found = file.load()
    assert found is not None
    assert same_state(found, begun)
    assert not same_state(found, replace(begun, starts=(state(2), state(1))))


def test_files_of_version_3_have_no_starts(file: CheckpointFile) -> None:
    file.save(state())
    with edited(Path(file.path)) as content:
        content.attrs["version"] = 3
        del content["starts"]
    found = file.load()
    assert found is not None
    assert same_state(found, state())


def test_a_start_with_a_number_out_of_range_is_refused(file: CheckpointFile) -> None:
    file.save(replace(state(), starts=(state(1),)))
    with edited(Path(file.path)) as content:
        plain = json.loads(content["starts/0"].attrs["state"])
        content["starts/0"].attrs["state"] = json.dumps(plain | {"stage": -1})
    with pytest.raises(FileError, match=r"expected JSON as it was written; got stage: "):
        file.load()


def test_an_unknown_commit_is_no_other_one(file: CheckpointFile) -> None:
    file.save(state())
    assert replace(file, fingerprint=replace(FINGERPRINT, commit=UNKNOWN)).load() is not None


def test_a_file_that_another_program_has_changed_is_refused(file: CheckpointFile) -> None:
    file.save(state())
    with h5py.File(file.path, "r+") as content:
        content["volumes/0"][0, 0, 0] = 1.0
    with pytest.raises(FileError, match=r"expected the file as it was written; got another SHA-256"):
        file.load()
    whole = Path(file.path).read_bytes()
    for version in (4, 3):
        Path(file.path).write_bytes(whole[512:])
        with h5py.File(file.path, "r+") as content:
            content.attrs["version"] = version
        with pytest.raises(
            FileError, match=rf"expected a SHA-256 before the content, as version {version} has it; got none"
        ):
            file.load()
    Path(file.path).write_bytes(b"D" + whole[1:])
    with pytest.raises(FileError, match=r"expected the file as it was written; got another SHA-256"):
        file.load()


def test_a_full_disk_keeps_the_last_state(file: CheckpointFile) -> None:
    """In a process of its own, which a library that cannot close its file would end at exit."""
    code = """
import os, resource, sys
from duotomo.io import CheckpointFile, FileError
from tests.io.saved_helpers import FINGERPRINT, same_state, state
file = CheckpointFile(sys.argv[1], FINGERPRINT)
file.save(state(0))
size = os.path.getsize(sys.argv[1])
for most in [size * tenth // 10 for tenth in range(10)]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    try:
        file.save(state(1))
    except FileError as error:
        assert "File too large" in str(error), error
    else:
        raise SystemExit(f"{most} bytes were enough")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert same_state(file.load(), state(0))
file.save(state(1))
assert same_state(file.load(), state(1))
"""
    done = python(code, str(file.path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_files_are_for_their_owner_only(file: CheckpointFile) -> None:
    file.save(state())
    assert Path(file.path).stat().st_mode & 0o777 == 0o600


def test_the_fingerprint_is_that_of_all_that_matters() -> None:
    def of(**changes: object) -> RunFingerprint:
        return fingerprint(study(), **({"method": "simultaneous", "settings": (1, 2)} | changes))  # type: ignore[arg-type]

    base = of()
    assert of() == base
    assert of(method="iterative") != base
    assert of(settings=(1, 3)) != base
    reference = study().reference
    for changed in (
        replace(reference, projections=reference.projections.nextafter(torch.tensor(9.0))),
        replace(reference, projections=reference.projections.double()),
        replace(reference, weights=draw(*reference.acquisition.shape, seed=1)),
        replace(reference, acquisition=replace(reference.acquisition, pixel_spacing_mm=(0.8, 0.61))),
    ):
        alone = replace(study(), visits=(changed,))
        whole = replace(study(), visits=(reference,))
        assert fingerprint(alone, method="m", settings=0) != fingerprint(whole, method="m", settings=0)
    moved = replace(study(), visits=(reference, replace(reference, grid=study().visits[2].grid)))
    still = replace(study(), visits=(reference, reference))
    assert fingerprint(moved, method="m", settings=0) != fingerprint(still, method="m", settings=0)


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    code = """
from duotomo.io import fingerprint
from duotomo.methods.settings import Settings
from duotomo.transforms import Affine
from tests.io.saved_helpers import GRID, study
print(fingerprint(study(), method="m", settings=Settings.staged(GRID, Affine)))
"""
    here = fingerprint(study(), method="m", settings=Settings.staged(GRID, Affine))
    assert python(code, hashseed="1").stdout.strip() == str(here)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_volumes_are_restored_to_the_gpu(file: CheckpointFile) -> None:
    file.save(state())
    found = replace(file, device="cuda").load()
    assert found is not None
    assert all(volume.is_cuda for volume in found.volumes.values())
    assert not any(row.is_cuda for row in found.params)


@pytest.mark.parametrize(
    ("column", "values", "match"),
    [
        ("stage", [0.5] * 5, "one whole number for each step in the column stage; got float64"),
        ("objective", [1] * 5, "one number for each step in the column objective; got int64"),
        ("seconds", [[1.0]], r"in the column seconds; got float64 of shape \(1, 1\)"),
        ("what", [-1] * 5, "what of every step among 3 names; got -1 to -1"),
        ("what", [0, 1, 2, 3, 0], "what of every step among 3 names; got 0 to 3"),
    ],
)
def test_histories_of_other_numbers_are_refused(
    column: str, values: Any, match: str, file: CheckpointFile
) -> None:
    file.save(state())
    with edited(Path(file.path)) as content:
        names = dict(content[f"history/{column}"].attrs)
        del content[f"history/{column}"]
        content[f"history/{column}"] = values
        content[f"history/{column}"].attrs.update(names)
    with pytest.raises(FileError, match=match):
        file.load()


def test_what_differs_is_said_in_few_words(file: CheckpointFile) -> None:
    file.save(state())
    with edited(Path(file.path)) as content:
        content.attrs["fingerprint"] = " ".join(f"{'x' * 500}{n}=1" for n in range(90))
    with pytest.raises(FileError, match="got that of one with another") as raised:
        file.load()
    assert len(str(raised.value)) < 1200


def test_an_iterate_has_one_row_of_numbers(file: CheckpointFile) -> None:
    file.save(state())
    with pytest.raises(
        FileError, match=r"checkpoint\.h5: expected one row of numbers in the checkpoint; got 2"
    ):
        IterateFile(file).load()
