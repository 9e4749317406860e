"""Stacks as NRRD: (u, v, view) as ITK counts axes."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from duotomo.io.file_error import FileError
from duotomo.io.libraries import simpleitk
from duotomo.io.size_check import check_size
from duotomo.io.stacks.stack import PixelPlace, Request, Stack, as_views, damaged, data_beside

_MOST_HEADER = 2**16
_CHUNK = 2**20
_KINDS = {"signed integer": "i", "unsigned integer": "u", "float": "f"}


def read_nrrd(request: Request) -> Stack:
    """Return the array of a `.nrrd` file, and where it places its pixels."""
    path = request.path
    with path.open("rb") as file:
        header = re.split(rb"\r?\n\r?\n", file.read(_MOST_HEADER), maxsplit=1)[0]
    if not header.startswith(b"NRRD"):
        raise FileError(f"expected NRRD at the start of {path.name}; got other bytes. Choose an image.")
    elsewhere = re.search(rb"^data ?file:[ \t]*(.*?)[ \t\r]*$", header, re.MULTILINE)
    if elsewhere is None:
        stored = path.stat().st_size - len(header)
    else:
        stored = data_beside(path, elsewhere[1].decode("utf-8", errors="replace")).stat().st_size
    packed = re.search(rb"^encoding:[ \t]*raw", header, re.MULTILINE) is None
    sitk = simpleitk()
    reader = sitk.ImageFileReader()
    reader.SetImageIO("NrrdImageIO")
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
        _check(reader, request, stored_bytes=stored, packed=packed)
        if elsewhere is None:
            check_gzip(path, header)
        image = reader.Execute()
    except RuntimeError as error:
        raise damaged(error) from error
    # A copy, because the view would outlive the image.
    array = np.array(sitk.GetArrayViewFromImage(image))
    place = _place(image)
    return Stack(array=as_views(array), format="NRRD image", place=place, has_origin=place is not None)


def check_gzip(path: Path, header: bytes) -> None:
    """Raise unless data that are packed by gzip, after this header, are as gzip's checksum has them."""
    packed = re.search(rb"^encoding:[ \t]*(gz|gzip)[ \t\r]*$", header, re.MULTILINE | re.IGNORECASE)
    if packed is None or re.search(rb"^(data ?file|line ?skip|byte ?skip):", header, re.MULTILINE):
        return
    with path.open("rb") as file:
        start = re.match(rb"\r?\n\r?\n", file.read(_MOST_HEADER + 4)[len(header) :])
        file.seek(len(header) + (start.end() if start else 0))
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                while unpacked.read(_CHUNK):
                    pass
        except (OSError, EOFError, zlib.error) as error:
            raise damaged(error) from error


def _check(reader: Any, request: Request, *, stored_bytes: int, packed: bool) -> None:
    name, n_components = request.path.name, reader.GetNumberOfComponents()
    words = simpleitk().GetPixelIDValueAsString(reader.GetPixelID())
    found = re.fullmatch(r"(8|16|32|64)-bit (signed integer|unsigned integer|float)", words)
    if n_components != 1 or found is None:
        raise FileError(
            f"expected one whole or floating-point number per pixel in {name}; got {n_components} of type "
            f"{words}. Write grey values, not colours or vectors."
        )
    check_size(
        name,
        reader.GetSize()[::-1],
        np.dtype(f"{_KINDS[found[2]]}{int(found[1]) // 8}").itemsize,
        stored_bytes=stored_bytes,
        compressed=packed,
        max_bytes=request.max_bytes,
    )


def _place(image: Any) -> PixelPlace | None:
    if image.GetDimension() != 3:
        return None
    axes = np.reshape(image.GetDirection(), (3, 3))[:2, :2]
    return PixelPlace(
        spacing_mm=np.array(image.GetSpacing()[:2]), first_mm=np.array(image.GetOrigin()[:2]), axes=axes
    )
