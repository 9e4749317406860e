"""Volumes as ITK's own images: MetaImage (`.mha`) and NRRD."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import VolumeGrid
from duotomo.io.file_error import FileError, reason
from duotomo.io.libraries import simpleitk
from duotomo.io.patient_frame import itk_image, lps
from duotomo.io.placement import Placement, place
from duotomo.io.size_check import check_size
from duotomo.io.stacks.metaimage import check_packed
from duotomo.io.stacks.nrrd import check_gzip

SUFFIXES = (".mha", ".nrrd")

_MOST_HEADER = 2**16
_ELSEWHERE = {".mha": rb"^ElementDataFile\s*=\s*(?!LOCAL)", ".nrrd": rb"^data ?file\s*:"}
_PACKED = {".mha": rb"^CompressedData\s*=\s*[Tt]", ".nrrd": rb"^encoding\s*:\s*(?!raw)"}


def write_itk_volume(path: Path, values: NDArray[Any], grid: VolumeGrid) -> None:
    """Write (z, y, x) values, not compressed. Raises what SimpleITK raises."""
    simpleitk().WriteImage(itk_image(grid, values), str(path))


def read_itk_volume(path: Path) -> Placement:
    """Return the (z, y, x) values of an image where it lies, as the only component of its vectors."""
    image = read_itk_image(path, n_components=1)
    values = simpleitk().GetArrayFromImage(image)
    precise = values.dtype.kind == "f" and values.dtype.itemsize == 8
    return place(
        vectors=values.astype(np.float64 if precise else np.float32)[None],
        direction=lps(np.reshape(image.GetDirection(), (3, 3)).T).T,
        first_mm=lps(image.GetOrigin()),
        spacing_mm=np.array(image.GetSpacing()),
    )


def read_itk_image(path: Path, *, n_components: int) -> Any:
    """Return a `.mha` or `.nrrd` image of 3 dimensions, whose size was checked before memory was taken."""
    with path.open("rb") as file:
        header = file.read(_MOST_HEADER)
    # The text ends at an empty line, or at the line that names the data.
    header = re.split(rb"\r?\n\r?\n|^ElementDataFile\s*=\s*LOCAL.*$", header, maxsplit=1, flags=re.M)[0]
    if re.search(_ELSEWHERE[path.suffix], header, re.MULTILINE):
        raise FileError("expected header and voxels in one file; got the name of another. Write one file.")
    sitk = simpleitk()
    reader = sitk.ImageFileReader()
    reader.SetImageIO({".mha": "MetaImageIO", ".nrrd": "NrrdImageIO"}[path.suffix])
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
        found = (reader.GetDimension(), reader.GetNumberOfComponents())
        if found != (3, n_components):
            raise FileError(
                f"expected an image of 3 dimensions and {n_components} component{'s' * (n_components > 1)}; "
                f"got {found[0]} and {found[1]}. Choose an image of "
                f"{'one volume' if n_components == 1 else 'displacements'}."
            )
        bits = re.match(r"\d+", sitk.GetPixelIDValueAsString(reader.GetPixelID()))
        shape, itemsize = (*reader.GetSize()[::-1], n_components), int(bits[0]) // 8 if bits else 1
        packed = re.search(_PACKED[path.suffix], header, re.MULTILINE) is not None
        check_size(path.name, shape, itemsize, stored_bytes=path.stat().st_size, compressed=packed)
        # ITK takes data that it could not unpack for whole.
        if packed and path.suffix == ".mha":
            check_packed(path, math.prod(shape) * itemsize)
        elif packed:
            check_gzip(path, header)
        return reader.Execute()
    except RuntimeError as error:
        raise FileError(
            f"expected an image that can be read; got: {reason(error)}. Check that the file is complete."
        ) from error
