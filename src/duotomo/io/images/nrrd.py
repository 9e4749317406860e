"""NRRD images, read by ITK, whose headers are looked at first."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from duotomo.io.images.image import ImageRequest, StoredImage, data_beside
from duotomo.io.libraries import simpleitk
from duotomo.io.paths import FileError, damage

_MOST_HEADER = 2**16
_CHUNK = 2**20
_TYPE = re.compile(r"(?:vector of )?(8|16|32|64)-bit (?:signed integer|unsigned integer|float)")


def read_nrrd(request: ImageRequest) -> StoredImage:
    """Return the array of a `.nrrd` file, and where it lies."""
    path, header = request.path, _header(request.path)
    elsewhere = re.search(rb"^data ?file:[ \t]*(.*?)[ \t\r]*$", header, re.MULTILINE)
    if elsewhere is None:
        stored = path.stat().st_size - len(header)
    else:
        stored = data_beside(request, elsewhere[1].decode("utf-8", errors="replace")).stat().st_size
    packed = re.search(rb"^encoding:[ \t]*raw", header, re.MULTILINE) is None
    with damage(RuntimeError):
        reader = _informed(path)
        _check(reader, request, stored_bytes=stored, packed=packed)
        if elsewhere is None:
            _check_gzip(path, header)
        image = reader.Execute()
    n_axes = image.GetDimension()
    return StoredImage(
        # A copy, because the view would outlive the image.
        array=np.array(simpleitk().GetArrayViewFromImage(image)),
        n_components=image.GetNumberOfComponentsPerPixel(),
        format="NRRD image",
        spacing_mm=np.array(image.GetSpacing()),
        first_mm=np.array(image.GetOrigin()),
        axes=np.reshape(image.GetDirection(), (n_axes, n_axes)),
    )


def nrrd_components(path: Path) -> int:
    """Return how many numbers each voxel has, by the header alone."""
    _header(path)
    with damage(RuntimeError):
        return int(_informed(path).GetNumberOfComponents())


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        header = re.split(rb"\r?\n\r?\n", file.read(_MOST_HEADER), maxsplit=1)[0]
    if not header.startswith(b"NRRD"):
        raise FileError(
            f"expected NRRD at the start of {path.name}; got other bytes. Check that the file is complete."
        )
    return header


def _informed(path: Path) -> Any:
    """Return ITK's reader, which has read the header."""
    reader = simpleitk().ImageFileReader()
    reader.SetImageIO("NrrdImageIO")
    reader.SetFileName(str(path))
    reader.ReadImageInformation()
    return reader


def _check_gzip(path: Path, header: bytes) -> None:
    """Raise unless data that are packed by gzip, after this header, are as gzip's checksum has them."""
    packed = re.search(rb"^encoding:[ \t]*(gz|gzip)[ \t\r]*$", header, re.MULTILINE | re.IGNORECASE)
    if packed is None or re.search(rb"^(data ?file|line ?skip|byte ?skip):", header, re.MULTILINE):
        return
    with path.open("rb") as file:
        start = re.match(rb"\r?\n\r?\n", file.read(_MOST_HEADER + 4)[len(header) :])
        file.seek(len(header) + (start.end() if start else 0))
        with damage(OSError, EOFError, zlib.error), gzip.GzipFile(fileobj=file) as unpacked:
            while unpacked.read(_CHUNK):
                pass


def _check(reader: Any, request: ImageRequest, *, stored_bytes: int, packed: bool) -> None:
    name, n_components = request.path.name, reader.GetNumberOfComponents()
    words = simpleitk().GetPixelIDValueAsString(reader.GetPixelID())
    found = _TYPE.fullmatch(words)
    if found is None:
        raise FileError(
            f"expected {name} of whole or floating-point numbers; got the type {words}. Convert it."
        )
    shape = (*reader.GetSize()[::-1], n_components)
    request.check_size(shape, int(found[1]) // 8, stored_bytes=stored_bytes, compressed=packed)
