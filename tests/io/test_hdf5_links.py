"""Links of HDF5 stay in the file, and packed chunks are as large as their shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from duotomo.io import FileError
from duotomo.io.hdf5 import attribute, group_at, has, numbered, opened, part, stored_text
from duotomo.io.stacks.hdf5 import checked_read
from tests.fuzz.sizes import chunk_of


def put(path: Path, **links: Any) -> Path:
    """Write an array at /group/array, and links."""
    with h5py.File(path, "w") as file:
        file["group/array"] = np.arange(3.0)
        for name, link in links.items():
            file[name] = link
    return path


@pytest.mark.parametrize(
    ("links", "name"),
    [
        ({}, "group/array"),
        ({}, "/group//./array"),
        ({"a": h5py.SoftLink("/group/array")}, "a"),
        ({"a": h5py.SoftLink("group")}, "a/array"),
        ({"a": h5py.SoftLink("/b"), "b": h5py.SoftLink("group/array")}, "a"),
    ],
)
def test_links_within_the_file_are_followed(links: dict[str, Any], name: str, tmp_path: Path) -> None:
    with opened(put(tmp_path / "a.h5", **links)) as file:
        assert part(file, name)[:].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("links", "name", "message"),
    [
        ({"a": h5py.ExternalLink("b.h5", "/group/array")}, "a", "got a link to another file"),
        ({"a": h5py.ExternalLink("b.h5", "/group")}, "a/array", "got a link to another file"),
        ({"a": h5py.ExternalLink("b.h5", "/"), "b": h5py.SoftLink("a/group/array")}, "b", "to another file"),
        ({"a": h5py.SoftLink("/a")}, "a", "got links without end"),
        ({"a": h5py.SoftLink("b/b/b"), "b": h5py.SoftLink("a/a/a")}, "a", "got links without end"),
        ({"a": h5py.SoftLink("/nowhere")}, "a", r"expected /a in the file; got \['a', 'group'\]"),
        ({}, "group/array/more", r"expected /group/array/more in the file; got \['group'\]"),
    ],
)
def test_other_links_are_refused(links: dict[str, Any], name: str, message: str, tmp_path: Path) -> None:
    put(tmp_path / "b.h5")
    with opened(put(tmp_path / "a.h5", **links)) as file:
        assert has(file, name.partition("/")[0])
        with pytest.raises(FileError, match=message):
            part(file, name)


@pytest.mark.parametrize(
    ("value", "found"),
    [("a", "a"), (b"a", "a"), (np.array([b"a"]), "a"), (3, 3), ([[2.5]], 2.5)],
)
def test_attributes_are_one_value(value: Any, found: object, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["x"] = value
        assert attribute(file, "x") == found
        assert attribute(file, "y") is None


@pytest.mark.parametrize("value", [[], [1, 2], ["a", "b"]])
def test_attributes_of_several_values_are_refused(value: Any, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["x"] = value
        with pytest.raises(FileError, match=f"one value in the attribute 'x' of /; got {len(value)}"):
            attribute(file, "x")


def test_a_text_is_one_text(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one"], file["number"], file["two"] = ["text"], [1.0], ["a", "b"]
        assert stored_text(file, "one") == "text"
        for name in ("number", "two"):
            with pytest.raises(FileError, match=f"expected one text at /{name}; got something else"):
                stored_text(file, name)


def test_a_text_is_short_and_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"secret")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("long", shape=(), dtype=f"S{2**30}")
        file.create_dataset("out", shape=(1,), dtype="S6", external=[(str(tmp_path / "other"), 0, 6)])
        with pytest.raises(FileError, match="expected a text of at most 65536 bytes at /long; got room for"):
            stored_text(file, "long")
        with pytest.raises(FileError, match="expected the numbers of /out in the file; got a link to others"):
            stored_text(file, "out")


def test_an_array_is_not_searched_for_members(tmp_path: Path) -> None:
    """It may claim any number of rows, of which none was ever written."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("visits", shape=(2**40,), dtype="f4", chunks=(1024,))
        for look in (lambda: group_at(file, "visits"), lambda: numbered(file["visits"])):
            with pytest.raises(FileError, match="expected a group at /visits; got an array"):
                look()
        with pytest.raises(FileError, match="expected /visits/x in the file; got an array there"):
            part(file["visits"], "x")
        file["groups/1"] = 1.0
        with pytest.raises(FileError, match=r"members 0, 1, ... without a gap in /groups; got \['1'\]"):
            numbered(file["groups"])


FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"compression": "gzip"},
    {"compression": "gzip", "shuffle": True, "fletcher32": True},
    {"compression": "lzf"},
    {"compression": "lzf", "shuffle": True, "fletcher32": True},
    {"fletcher32": True},
)


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("kind", ["noise", "zeros", "whole"])
def test_chunks_of_every_filter_are_read(filters: dict[str, Any], kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    array = {
        "noise": rng.normal(size=(3, 33, 47)).astype("f4"),
        "zeros": np.zeros((3, 33, 47)),
        "whole": rng.integers(0, 3, (3, 33, 47)).astype(">i2"),
    }[kind]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("a", data=array, chunks=(2, 10, 10), **filters)
        assert (checked_read(data, "a", max_bytes=2**20) == array).all()


GZIP = {"compression": "gzip"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (chunk_of(b"x" * 70_000, **GZIP), r"at most 504 bytes in a chunk of projections; got 70000 packed"),
        (chunk_of(bytes(10), fletcher32=True), r"expected 508 bytes in a chunk of projections; got 10"),
        (chunk_of(b"\x00\x00", compression="lzf"), r"expected 504 bytes in a chunk of projections; got 1"),
        (chunk_of(b"\xe0\xff\x00" * 9, compression="lzf"), r"504 bytes in a chunk .*; got more"),
        (chunk_of(b"other", **GZIP), r"expected packed data in a chunk of projections; got: "),
        (chunk_of(bytes(9), scaleoffset=3), r"packed once, by gzip or LZF, .* got the filters 6"),
    ],
)
def test_other_chunks_are_refused(change: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["projections"] = np.zeros((3, 6, 7))
    change(path)
    with opened(path) as file, pytest.raises(FileError, match=message):
        checked_read(file["projections"], "projections", max_bytes=2**20)
