"""HDF5 files of duotomo's own: named kinds, a seal over every byte, and errors that say what is missing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duotomo.io.durable import durable
from duotomo.io.libraries import H5PY_ERRORS, h5py
from duotomo.io.paths import AnyPath, FileError, damage, naming, source, target
from duotomo.io.seal import SIZE, check_seal, is_sealed, seal
from duotomo.io.size_check import MAX_BYTES
from duotomo.io.stacks.hdf5 import check_inside, checked_read

if TYPE_CHECKING:
    import torch

SUFFIXES = (".h5", ".hdf5")

# Since version 1.10, HDF5 keeps checksums of its own structures and attributes of any length.
_LIBVER = ("v110", "v110")

_MOST_LINKS = 16
_LONGEST_TEXT = 2**16
_FEW = 20
"""Members that a message names, and characters of each."""


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """What a file says it is: root attributes `format` and `version`.

    version: that is written, with a seal. older: versions that are read too, with a seal or without. sealed:
    those among them that have one.
    """

    name: str
    version: int
    older: tuple[int, ...] = ()
    sealed: tuple[int, ...] = ()


@contextmanager
def writing(where: str, path: AnyPath, of: FileFormat) -> Iterator[Any]:
    """Give an open HDF5 file, which takes the place of an older one once it is whole and on disk."""
    path = target(where, path, SUFFIXES)
    library = h5py()
    with durable(where, path) as fresh:
        with _Unfailing(fresh, "w+") as raw:
            with library.File(raw, "w", libver=_LIBVER, userblock_size=SIZE) as file:
                put_text(file, "format", of.name)
                file.attrs["version"] = of.version
                yield file
            if raw.error is not None:
                raise raw.error
        seal(fresh)


class _Unfailing(FileIO):
    """A file for HDF5, which cannot close one that fails, and ends the process instead: errors are kept."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        at = 0
        try:
            while at < len(view) and self.error is None:
                at += super().write(view[at:])
        except OSError as error:
            self.error = error
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size or 0


@contextmanager
def reading(where: str, path: AnyPath, of: FileFormat) -> Iterator[Any]:
    """Give an open HDF5 file of this format; what goes wrong while it is read is said of the file."""
    path = source(where, path, SUFFIXES)
    with naming(where, path), opened(path) as file:
        _check_format(file, of, sealed=is_sealed(path))
        yield file


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Give an open HDF5 file of any kind; what goes wrong while it is looked at is said."""
    check_seal(path)
    with damage(*H5PY_ERRORS, what="HDF5"), h5py().File(path, "r") as file:
        yield file


def stated_format(file: Any) -> str:
    """Return what a file says that it is; "" if it does not."""
    found = attribute(file, "format")
    return found if isinstance(found, str) else ""


def put(group: Any, name: str, values: NDArray[Any] | torch.Tensor) -> None:
    """Write an array."""
    array = values if isinstance(values, np.ndarray) else values.detach().cpu().numpy()
    group.create_dataset(name, data=array)


def array(group: Any, name: str, axes: Sequence[str]) -> NDArray[Any]:
    """Return an array of float32 or float64 with these axes, in this machine's byte order."""
    data = part(group, name)
    shape, dtype = getattr(data, "shape", None), getattr(data, "dtype", None)
    if (
        shape is None
        or dtype is None
        or len(shape) != len(axes)
        or dtype.kind + str(dtype.itemsize) not in ("f4", "f8")
    ):
        came = "a group" if shape is None else f"{dtype} of shape {shape}"
        raise FileError(
            f"expected float32 or float64 ({', '.join(axes)}) at {_at(group, name)}; got {came}. Convert it."
        )
    return numbers(group, name)


def numbers(group: Any, name: str) -> NDArray[Any]:
    """Return an array of any numbers and axes, once its size has been looked at."""
    data = part(group, name)
    if getattr(data, "shape", None) == (0,):
        return np.zeros(0, dtype=data.dtype)
    if not getattr(data, "shape", None):
        raise FileError(f"expected an array of numbers at {_at(group, name)}; got none. Write it anew.")
    return checked_read(data, _at(group, name), max_bytes=MAX_BYTES)


def tensor(group: Any, name: str, axes: Sequence[str]) -> torch.Tensor:
    """Return what `array` returns, as a tensor."""
    import torch

    return torch.from_numpy(array(group, name, axes))


def put_text(group: Any, name: str, value: str) -> None:
    """Write an attribute that is text."""
    # Of fixed length, as every other value is.
    encoded = value.encode()
    group.attrs[name] = np.array(encoded, dtype=h5py().string_dtype("utf-8", len(encoded) or 1))


def has(group: Any, name: str) -> bool:
    """Return whether a group has a member of this name, wherever it may lead."""
    return bool(group.id.links.exists(name.encode()))


def part(group: Any, name: str) -> Any:
    """Return a member of a group, or of groups in it; raise if it is not there, or leads to another file.

    Links are followed one by one: HDF5 would follow one that leads out of the file.
    """
    where, words, n_links = _at(group, name), deque(name.split("/")), 0
    found = group
    while words:
        word = words.popleft()
        if word in ("", "."):
            continue
        if not isinstance(found, h5py().Group) or not has(found, word):
            raise FileError(
                f"expected {where} in the file; got {_members(group)} there. "
                f"Write it, or choose another file."
            )
        link = found.get(word, getlink=True)
        if isinstance(link, h5py().ExternalLink):
            raise FileError(
                f"expected {where} in the file; got a link to another file. Copy it into this one."
            )
        if not isinstance(link, h5py().SoftLink):
            found = found[word]
            continue
        n_links += 1
        if n_links > _MOST_LINKS:
            raise FileError(f"expected {where} in the file; got links without end. Copy it to its place.")
        found = found.file if link.path.startswith("/") else found
        words.extendleft(reversed(link.path.split("/")))
    return found


def group_at(group: Any, name: str) -> Any:
    """Return a member that is a group: h5py would go through all rows of an array in search of a name."""
    return _as_group(part(group, name))


def _as_group(found: Any) -> Any:
    if not isinstance(found, h5py().Group):
        raise FileError(f"expected a group at {found.name}; got {_members(found)}. Write it anew.")
    return found


def _members(found: Any) -> str:
    if not isinstance(found, h5py().Group):
        return "an array"
    return str([name[:_FEW] for name in islice(found, _FEW)])


def attribute(group: Any, name: str) -> Any:
    """Return an attribute that is one number or one text; None if it is not there."""
    if name not in group.attrs:
        return None
    # Programs write text as bytes, as str, or as an array with one of them.
    found = np.ravel(group.attrs[name])
    if found.size != 1:
        raise FileError(
            f"expected one value in the attribute {name!r} of {group.name}; got {found.size}. Write it anew."
        )
    value = found[0].item() if isinstance(found[0], np.generic) else found[0]
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def text(group: Any, name: str) -> str:
    """Return an attribute that is text; raise if it is not there."""
    value = attribute(group, name)
    if not isinstance(value, str):
        came = "none" if value is None else type(value).__name__
        raise FileError(
            f"expected text in the attribute {name!r} of {group.name}; got {came}. Write it anew."
        )
    return value


def stored_text(group: Any, name: str) -> str:
    """Return a member of a group that is one text, as ITK writes them."""
    data = part(group, name)
    if getattr(data, "shape", None) not in ((), (1,)) or h5py().check_string_dtype(data.dtype) is None:
        raise FileError(f"expected one text at {_at(group, name)}; got something else. Write it anew.")
    check_inside(data, _at(group, name))
    if data.dtype.itemsize > _LONGEST_TEXT:
        raise FileError(
            f"expected a text of at most {_LONGEST_TEXT} bytes at {_at(group, name)}; got room for "
            f"{data.dtype.itemsize}. Write it anew."
        )
    value = np.ravel(data[()])[0]
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def numbered(group: Any) -> list[Any]:
    """Return the members "0", "1", ... of a group, in order; raise if one is left out."""
    expected = [str(i) for i in range(len(_as_group(group)))]
    if sorted(group, key=lambda name: (len(name), name)) != expected:
        raise FileError(
            f"expected members 0, 1, ... without a gap in {group.name}; got {_members(group)}. Rename them."
        )
    return [part(group, name) for name in expected]


def _at(group: Any, name: str) -> str:
    return f"{group.name.rstrip('/')}/{name}"


def _check_format(file: Any, of: FileFormat, *, sealed: bool) -> None:
    found = text(file, "format") if "format" in file.attrs else None
    if found != of.name:
        came = None if found is None else found[:80]
        raise FileError(f"expected a file of format {of.name!r}; got {came!r}. Choose another file.")
    version, known = attribute(file, "version"), (*of.older, of.version)
    if version not in known:
        raise FileError(
            f"expected version {' or '.join(map(str, known))} of the format {of.name!r}; got "
            f"{str(version)[:80]}. Read it with the duotomo that wrote it."
        )
    if version in (of.version, *of.sealed) and not sealed:
        raise FileError(
            f"expected a SHA-256 before the content, as version {version} has it; got none. Another program "
            f"has changed the file: restore it, or write it anew."
        )
