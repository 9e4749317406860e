"""Settings are written so that they are read back as they were, and read so that mistakes are seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotomo.cli._settings_file import MOST_BYTES, read_settings
from duotomo.io.paths import FileError
from duotomo.io.settings_text import settings_text
from tests.cli.commands import duotomo

PLAIN = (
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)


@given(st.dictionaries(st.sampled_from("abcde"), PLAIN | st.lists(PLAIN, max_size=3)))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, values: dict[str, object]) -> None:
    path = tmp_path_factory.mktemp("settings") / "settings.toml"
    path.write_text(settings_text("joint", values, remarks=["Once more."]), encoding="utf-8", newline="")
    assert read_settings(path, command="joint", known=list("abcde")) == values


def test_what_is_none_is_left_out_and_other_commands_are_too(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(settings_text("joint", {"a": None, "b": 1}) + settings_text("register", {"c": 2}))
    assert read_settings(path, command="joint", known=["a", "b"]) == {"b": 1}
    assert read_settings(path, command="reconstruct", known=[]) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[joint", "settings: expected TOML in .*; got: "),
        ("[joint]\nmethd = 'x'\n", "expected options of duotomo joint .*; got methd. Correct or remove"),
        ("method = 'iterative'\n", r"expected the table \[joint\] in .*; got \['method'\]"),
        ("joint = 3\n", r"expected the table \[joint\] in"),
        (
            "[joint.method]\na = 1\n",
            "expected a number of .* bits, a text, true, false or a list of them for method",
        ),
        (
            "[joint]\nmethod = [[1]]\n",
            "expected a number of .* bits, a text, true, false or a list of them for method",
        ),
        (f"[joint]\nsteps = {'1' * 5000}\n", "settings: expected TOML in .*; got: Exceeds the limit"),
        (f"[joint]\nsteps = {10**19}\n", "expected a number of at most 63 bits, .* for steps"),
        (f"[joint]\nvoxel = [0x{'f' * 5000}]\n", "expected a number of at most 63 bits, .* for voxel"),
        ("#" * (MOST_BYTES + 1), f"settings: expected at most {MOST_BYTES} bytes of TOML"),
        ("\x00\x01", "settings: expected TOML in"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(FileError, match=message):
        read_settings(path, command="joint", known=["method", "steps", "voxel"])
    ran = duotomo("joint", "a.h5", "b.h5", "--settings", path, "--out", tmp_path / "new")
    assert ran.code == 2
    assert "settings: expected" in ran.err
    assert not (tmp_path / "new").exists()


def test_files_that_are_not_text_or_not_there_are_explained(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"settings: expected TOML in .*; got: No such file"):
        read_settings(tmp_path / "none.toml", command="joint", known=[])
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match=r"settings: expected TOML in .*; got: .*decode"):
        read_settings(tmp_path / "bytes.toml", command="joint", known=[])


def test_a_value_of_the_wrong_kind_is_said_like_an_option(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("[joint]\nmethod = 'magic'\n")
    ran = duotomo("joint", "a.h5", "b.h5", "--settings", path, "--out", tmp_path / "new")
    assert ran.code == 2
    assert "magic" in ran.err
    path.write_text("[joint]\nvoxel = [1.0, 2.0]\n")
    ran = duotomo("joint", tmp_path, tmp_path, "--settings", path, "--out", tmp_path / "new")
    assert ran.code == 2
