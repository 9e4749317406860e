"""The attributes of DICOM files, before any pixel is read."""

from __future__ import annotations

import logging
import math
import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duotomo.errors import DuotomoError
from duotomo.io.dicom.elements import check_elements
from duotomo.io.libraries import pydicom
from duotomo.io.paths import AnyPath, FileError, naming
from duotomo.io.size_check import MAX_BYTES, in_words
from duotomo.io.unpacking import Deflate, Unpacked

DEFLATED = "1.2.840.10008.1.2.1.99"
_IMPLICIT, _BIG_ENDIAN = "1.2.840.10008.1.2", "1.2.840.10008.1.2.2"

_CHUNK = 2**20

DEFLATED_SLACK, DEFLATED_TIMES = 2**26, 100
"""A deflated file may grow to so many bytes, and by so many times: images do not shrink by as much."""

_GROUPS = {
    keyword: group
    for group, keywords in {
        "IsocenterReferenceSystemSequence": (
            "BreastSupportIsocenterPrimaryAngle "
            "DetectorActiveAreaOrientation DetectorActiveAreaTLHCPosition DetectorIsocenterPrimaryAngle "
            "DetectorIsocenterSecondaryAngle DetectorXPositionToIsocenter DetectorYPositionToIsocenter "
            "DetectorZPositionToIsocenter XRaySourceIsocenterPrimaryAngle XRaySourceIsocenterSecondaryAngle"
        ),
        "XRayGeometrySequence": "DistanceSourceToDetector DistanceSourceToIsocenter DistanceSourceToPatient",
        "FieldOfViewSequence": "FieldOfViewHorizontalFlip FieldOfViewOrigin FieldOfViewRotation",
        "XRayFilterSequence": "FilterMaterial",
        "FrameAnatomySequence": "FrameLaterality",
        "FramePixelDataPropertiesSequence": (
            "ImagerPixelSpacing PixelIntensityRelationship PixelIntensityRelationshipSign"
        ),
        "FrameAcquisitionSequence": "KVP",
        "PixelMeasuresSequence": "PixelSpacing",
        "PositionerPositionSequence": "PositionerPrimaryAngle PositionerPrimaryAngleDirection",
        "PixelValueTransformationSequence": "RescaleIntercept RescaleSlope",
    }.items()
    for keyword in keywords.split()
}
"""The functional group in which a multi-frame file has an attribute. Other files have it at the top."""


@contextmanager
def quiet() -> Iterator[None]:
    """Keep pydicom's warnings from terminals and logs: they quote values, which may be a patient's."""
    logger = logging.getLogger("pydicom")
    propagate = logger.propagate
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.propagate = propagate


@contextmanager
def reading_dicom(where: str, path: AnyPath, said: Callable[[Exception], str]) -> Iterator[None]:
    """Let every error name the function and the file. said: what is told of an error of a library."""
    with naming(where, path):
        try:
            with quiet():
                yield
        except DuotomoError:
            raise
        except Exception as error:  # pydicom has many, and damaged attributes fail in ways of their own
            raise FileError(
                f"expected a DICOM file that can be read; got: {said(error)}. "
                f"Check that the file is complete."
            ) from error


def is_dicom(path: Path) -> bool:
    """Return whether a file starts as DICOM files do: 128 bytes of anything, then DICM."""
    with path.open("rb") as file:
        return file.read(132)[128:] == b"DICM"


def read_dataset(path: Path, *, pixels: bool, max_bytes: int = MAX_BYTES) -> Any:
    """Return the dataset of a DICOM file, with or without its pixel data.

    A deflated file is inflated once without keeping it, and refused if it grows as no image does, or beyond
    `max_bytes`.
    """
    library = pydicom()
    if not is_dicom(path):
        raise FileError("expected a DICOM file; got one without DICM at byte 128. Check the path.")
    with quiet():
        meta = library.filereader.read_file_meta_info(str(path))
        syntax = str(meta.get("TransferSyntaxUID", ""))
        if syntax == DEFLATED:
            _check_deflated(path, 132 + 12 + int(meta.FileMetaInformationGroupLength), max_bytes)
        elif syntax != _BIG_ENDIAN:
            with path.open("rb") as file:
                file.seek(132)
                check_elements(file, lambda n: file.seek(n, os.SEEK_CUR), explicit=syntax != _IMPLICIT)
        return library.dcmread(str(path), stop_before_pixels=not pixels)


def _check_deflated(path: Path, start: int, max_bytes: int) -> None:
    inflate, n_bytes = zlib.decompressobj(-zlib.MAX_WBITS), 0
    limit = min(max_bytes, DEFLATED_SLACK + DEFLATED_TIMES * path.stat().st_size)
    with path.open("rb") as file:
        file.seek(start)
        # After the end of the stream, zlib keeps what is left of its input for ever.
        while not inflate.eof and (chunk := inflate.unconsumed_tail or file.read(_CHUNK)):
            n_bytes += len(inflate.decompress(chunk, _CHUNK))
            if n_bytes > limit:
                raise FileError(
                    f"expected a deflated file of at most {in_words(limit)}; got one that is larger. "
                    f"Check where it comes from."
                )
        file.seek(start)
        unpacked = Unpacked(Deflate(-zlib.MAX_WBITS), file, path.stat().st_size)
        check_elements(unpacked, lambda n: _skip(unpacked, min(n, limit)), explicit=True)


def _skip(file: Unpacked, n_bytes: int) -> None:
    while n_bytes > 0 and (part := file.read(min(n_bytes, _CHUNK))):
        n_bytes -= len(part)


def title(keyword: str) -> str:
    """Return an attribute's name and tag, as people look it up.

    >>> title("ImagerPixelSpacing")
    'Imager Pixel Spacing (0018,1164)'
    """
    tag = pydicom().datadict.tag_for_keyword(keyword)
    return f"{pydicom().datadict.dictionary_description(tag)} ({tag >> 16:04X},{tag & 0xFFFF:04X})"


def missing(*lacking: tuple[str, str], instead: str = "") -> FileError:
    """Return the error for attributes that are not there, each with the option that takes its place."""
    names = ", ".join(title(keyword) for keyword, _ in lacking)
    options = " and ".join(option for _, option in lacking)
    return FileError(f"expected {names}; got no such attribute in the file. Give {options}{instead}.")


@dataclass(frozen=True)
class ViewAttributes:
    """One projection's attributes: of a frame in a multi-frame file, or of a file of its own."""

    dataset: Any
    frame: int

    def get(self, keyword: str) -> Any:
        """Return an attribute's value, None if empty: the frame's own, or all frames', or the file's."""
        group = _GROUPS.get(keyword)
        if group is not None:
            for sequence, index in (
                ("PerFrameFunctionalGroupsSequence", self.frame),
                ("SharedFunctionalGroupsSequence", 0),
            ):
                items = self.dataset.get(sequence) or []
                inner = (items[index].get(group) or []) if index < len(items) else []
                if len(inner) and inner[0].get(keyword) is not None:
                    return inner[0].get(keyword)
        value = self.dataset.get(keyword)
        return None if value is None or value == "" else value

    def text(self, keyword: str) -> str:
        """Return a short text, without what terminals would act on; "" if there is none."""
        value = self.get(keyword)
        if value is None:
            return ""
        parts = [value] if isinstance(value, str) or not isinstance(value, Sequence) else value
        return "".join(c for c in " ".join(map(str, parts)) if c.isprintable())[:64].strip()

    def numbers(self, keyword: str, n: int) -> tuple[float, ...] | None:
        """Return an attribute's n finite numbers, or None if it is not there."""
        value = self.get(keyword)
        if value is None:
            return None
        parts = value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]
        try:
            numbers = tuple(float(part) for part in parts)
        except (TypeError, ValueError):
            numbers = ()
        if len(numbers) != n or not all(map(math.isfinite, numbers)):
            got = f"{list(parts)}"[:80]
            raise FileError(
                f"expected {title(keyword)} as {n} finite number{'s' * (n > 1)}; got {got}. Correct the file."
            )
        return numbers

    def need(self, keyword: str, n: int, option: str) -> tuple[float, ...]:
        """Return an attribute's n numbers; raise, naming the option that takes its place, if not there."""
        numbers = self.numbers(keyword, n)
        if numbers is None:
            raise missing((keyword, option))
        return numbers


def common(views: Sequence[ViewAttributes], keyword: str, n: int) -> tuple[float, ...] | None:
    """Return n numbers that all views share, or None if no view has them."""
    found = {view.numbers(keyword, n) for view in views}
    if len(found) > 1:
        raise FileError(
            f"expected the same {title(keyword)} in all views; got {_some(found)}. Choose the views of one "
            f"scan, or give `geometry`."
        )
    return found.pop()


def common_text(views: Sequence[ViewAttributes], keyword: str) -> str:
    """Return a text that all views share, "" if none has it."""
    found = {view.text(keyword) for view in views}
    if len(found) > 1:
        raise FileError(
            f"expected the same {title(keyword)} in all views; got {_some(found)}. Choose the views of one "
            f"scan."
        )
    return found.pop()


def _some(found: set[Any]) -> str:
    shown = sorted("none" if value is None or value == "" else str(value) for value in found)
    return ", ".join(shown[:4]) + (", ..." if len(shown) > 4 else "")


def item(values: Mapping[str, Any]) -> Any:
    """Return a pydicom Dataset with attributes by keyword, as `fill` sets them.

    >>> item({"PatientName": "Doe^Jane"}).PatientName
    'Doe^Jane'
    """
    dataset = pydicom().Dataset()
    fill(dataset, values)
    return dataset


def fill(dataset: Any, values: Mapping[str, Any]) -> None:
    """Set attributes of a dataset by keyword. A list of datasets becomes a sequence, a mapping one of one."""
    for keyword, value in values.items():
        setattr(dataset, keyword, [item(value)] if isinstance(value, Mapping) else value)


def code(value: str, scheme: str, meaning: str) -> Any:
    """Return the item of a code sequence.

    >>> code("76752008", "SCT", "Breast").CodeMeaning
    'Breast'
    """
    return item({"CodeValue": value, "CodingSchemeDesignator": scheme, "CodeMeaning": meaning})


def decimals(values: Iterable[float]) -> list[Any]:
    """Return numbers as DICOM's decimal strings, which have 16 characters: about ten digits.

    >>> [str(value) for value in decimals([0.1, 1 / 3])]
    ['0.1', '0.33333333333333']
    """
    return [pydicom().valuerep.DSfloat(float(value), auto_format=True) for value in values]


def decimal(value: float) -> Any:
    """Return a number as one decimal string."""
    return decimals([value])[0]
