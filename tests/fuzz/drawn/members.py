"""Members of HDF5 files: other types and shapes, links, absurd sizes, damaged chunks; then sealed anew."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from tests.fuzz.drawn import tokens, trees
from tests.fuzz.drawn.streams import flipped

_OUT = "../../sentinel/kept.h5"
"""From the folder of an input, a file of HDF5 that no command has a reason to open."""

_CHUNK_BYTES = 2**12


def members(path: Path, random: Random) -> None:
    """Change one to three members or attributes of a file."""
    n_changes = random.choice((1, 1, 2, 3))
    while n_changes:
        before = path.read_bytes()
        try:
            with h5py.File(path, "r+", libver=("v110", "v110")) as file:
                _changed(file, random)
            n_changes -= 1
        # What HDF5 does not write, such as a link without a name, is not among the inputs.
        except (OSError, RuntimeError, LookupError, TypeError, ValueError):
            path.write_bytes(before)


def _changed(file: Any, random: Random) -> None:
    found: list[str] = []
    file.visit(found.append)
    if random.random() < 0.45 or not found:
        _attribute(file, ["/", *found], random)
    else:
        random.choice(_CHANGES)(file, random.choice(found), random)


def _values(like: Any, random: Random) -> Any:
    """Return an array, near to one that was there or far from it."""
    if random.random() < 0.5:
        near = np.array(like)
        if near.dtype.kind == "f" and near.size:
            flat = near.reshape(-1)
            extremes = (np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-30, 0.0, -1.0)
            flat[random.randrange(flat.size) if random.random() < 0.5 else slice(None)] = random.choice(
                extremes
            )
            return near
        if near.dtype.kind in "iu" and near.size:
            flat = near.reshape(-1)
            flat[random.randrange(flat.size)] = random.choice((-1, 2**31 - 1, -(2**31), 10**6, 0, 1))
            return near
    shape = random.choice(
        ((), (0,), (1,), (3,), (7, 6, 3), (3, 6, 7), (2, 0, 3), (1,) * 8, (3, 6), np.shape(like))
    )
    dtype = random.choice(("f4", "f8", ">f8", "f2", "i1", "u8", "i4", "c8", "?", "S5", "V4", "f4,i4"))
    with np.errstate(all="ignore"):
        return (
            np.ones(shape, "f8").astype(dtype)
            if "," not in dtype and dtype != "V4"
            else np.zeros(shape, dtype)
        )


def _another(file: Any, name: str, random: Random) -> None:
    like = file[name][()] if isinstance(file[name], h5py.Dataset) else 0.0
    del file[name]
    file[name] = _values(like, random)


def _gone(file: Any, name: str, random: Random) -> None:
    del file[name]


def _moved(file: Any, name: str, random: Random) -> None:
    file.move(name, random.choice(("x", f"{name}x", "9", "-1", "00", "a/b/c", "é")))


def _group(file: Any, name: str, random: Random) -> None:
    del file[name]
    file.create_group(name)


def _text(file: Any, name: str, random: Random) -> None:
    del file[name]
    word = random.choice((*tokens.WORDS, *tokens.NUMBERS)).replace("\0", "")
    file[name] = random.choice((word, [word, word], np.array(word.encode() or b"x")))


def _link(file: Any, name: str, random: Random) -> None:
    target = f"/{name}"
    kept = random.random() < 0.3
    if kept:
        file.copy(name, "kept")
    del file[name]
    file[name] = random.choice(
        (
            h5py.SoftLink(
                random.choice((target, "/", ".", "..", "/nowhere", "/kept", "kept" * 5000, f"{target}/x"))
            ),
            h5py.SoftLink("/kept") if kept else h5py.SoftLink("/a"),
            h5py.ExternalLink(random.choice((_OUT, "/etc/passwd", "", "s.h5", "nowhere.h5")), target),
        )
    )


def _loop(file: Any, name: str, random: Random) -> None:
    """Let a group be a member of itself, or an array have another name."""
    parent = file[name].parent
    parent[random.choice(("again", "1", "2"))] = random.choice((parent, file[name], file["/"]))


def _huge(file: Any, name: str, random: Random) -> None:
    shape = random.choice(((2**40,), (2**20,) * 3, (3, 6, 2**31), (2**62, 1, 1), (1, 1, 2**40)))
    del file[name]
    file.create_dataset(name, shape=shape, dtype=random.choice(("f4", "f8")), chunks=(1,) * len(shape))


def _packed(file: Any, name: str, random: Random) -> None:
    """Keep an array in a chunk that was packed, and then damaged."""
    values = file[name][()] if isinstance(file[name], h5py.Dataset) else np.ones((3, 6, 7), "f4")
    values = np.atleast_1d(values)
    if values.dtype.kind not in "fiu" or not values.size:
        values = np.ones((3, 6, 7), "f4")
    options = random.choice(
        (
            {"compression": "gzip"},
            {"compression": "lzf"},
            {"compression": "gzip", "shuffle": True, "fletcher32": True},
            {"compression": "lzf", "shuffle": True},
            {"fletcher32": True},
            {"scaleoffset": 3},
        )
    )
    plain = values.tobytes()
    zipped = zlib.compress(plain)
    longer, shorter = zlib.compress(plain + bytes(_CHUNK_BYTES)), zlib.compress(plain[:-1])
    chunk = random.choice(
        (flipped(zipped, random), zipped, longer, shorter, b"", plain, random.randbytes(50))
    )
    del file[name]
    data = file.create_dataset(name, shape=values.shape, dtype=values.dtype, chunks=values.shape, **options)
    data.id.write_direct_chunk((0,) * values.ndim, chunk, filter_mask=random.choice((0, 0, 0, 1, 2, 255)))


def _elsewhere(file: Any, name: str, random: Random) -> None:
    """Have the numbers of an array lie in another file."""
    del file[name]
    if random.random() < 0.5:
        place = random.choice(("../../sentinel/kept.txt", "/etc/passwd", "nowhere"))
        shape, dtype = random.choice((((3, 6, 7), "f4"), ((), "f4"), ((1,), "S4"), ((), "S4")))
        file.create_dataset(name, shape=shape, dtype=dtype, external=[(place, 0, h5py.h5f.UNLIMITED)])
        return
    layout = h5py.VirtualLayout(shape=(3, 6, 7), dtype="f4")
    layout[...] = h5py.VirtualSource(random.choice((_OUT, "nowhere.h5", ".")), "projections", shape=(3, 6, 7))
    file.create_virtual_dataset(name, layout)


def _typed(file: Any, name: str, random: Random) -> None:
    """Put types in place of an array that hold no plain numbers."""
    del file[name]
    if random.random() < 0.3:
        # A text that was never written, with room for more than there is.
        file.create_dataset(name, shape=random.choice(((), (1,))), dtype=f"S{2**30}")
        return
    file[name] = random.choice((h5py.Empty("f4"), np.dtype("f8"), file.ref, np.array([b"a", b"bb"], "S2")))


_CHANGES: tuple[Callable[[Any, str, Random], None], ...] = (
    *(
        _another,
        _another,
        _another,
        _another,
        _gone,
        _moved,
        _group,
        _text,
        _link,
        _link,
        _loop,
        _huge,
        _packed,
    ),
    *(_packed, _elsewhere, _typed),
)


def _attribute(file: Any, owners: list[str], random: Random) -> None:
    """Change an attribute; of text that is JSON, a node of it."""
    found = [(owner, name) for owner in owners if _reachable(file, owner) for name in file[owner].attrs]
    if not found:
        return
    owner, name = random.choice(found)
    attributes = file[owner].attrs
    value = attributes[name]
    text = value.decode() if isinstance(value, bytes) else value
    what = random.random()
    if isinstance(text, str) and text[:1] in "[{" and text and what < 0.75:
        try:
            attributes[name] = trees.changed(text, random)[:60_000]
            return
        except ValueError:
            pass
    if what < 0.1:
        del attributes[name]
    elif what < 0.2 and isinstance(text, str):
        attributes[name] = tokens.changed(text.encode(), random).decode("latin-1").replace("\0", "")[:60_000]
    else:
        attributes[name] = random.choice(_ATTRIBUTES)


def _reachable(file: Any, name: str) -> bool:
    return name == "/" or (name in file and isinstance(file[name], (h5py.Group, h5py.Dataset)))


_ATTRIBUTES: tuple[Any, ...] = (
    *(
        "",
        "x",
        "x" * 50_000,
        b"\xff\xfe",
        0,
        -1,
        3,
        2,
        1,
        2**31,
        2**63 - 1,
        1e308,
        float("nan"),
        float("inf"),
        True,
    ),
    *(
        [],
        [1, 2],
        ["a", "b"],
        np.zeros((2, 2)),
        h5py.Empty("f4"),
        [[b"x"]],
        1j,
        np.zeros(2, "f4,i4"),
        np.float16(2),
    ),
    *(json.dumps({"kind": "x"}), json.dumps([[]]), "[" * 5000, "1" * 5000, "NaN", "null", "\x1b]0;gone\x07"),
)
