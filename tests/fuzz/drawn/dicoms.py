"""DICOM files: attributes of another type, length or value, and frames whose packed streams are damaged."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from random import Random
from typing import Any

import pydicom
from pydicom.encaps import encapsulate, generate_frames
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGLSLossless,
    RLELossless,
)

from tests.fuzz.drawn.streams import flipped
from tests.fuzz.drawn.tokens import NUMBERS, PATHS, WORDS

SYNTAXES = {"rle": RLELossless, "jpeg-ls": JPEGLSLossless, "jpeg 2000": JPEG2000Lossless}

_TYPES = (
    b"US",
    b"SS",
    b"UL",
    b"DS",
    b"IS",
    b"LO",
    b"CS",
    b"SQ",
    b"OB",
    b"OW",
    b"UI",
    b"FD",
    b"UN",
    b"XX",
    b"\0\0",
)
_LENGTHS = (0, 1, 2, 3, 0xFFFF, 0x7FFF, 0xFFFFFFFF, 0xFFFFFFFE, 2**31)
_LONG = (b"OB", b"OW", b"SQ", b"UN", b"UT", b"OF", b"OD", b"UC", b"UR", b"OL", b"OV", b"SV", b"UV")
_KEYWORDS = (
    *("Rows", "Columns", "NumberOfFrames", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"),
    *("SamplesPerPixel", "PhotometricInterpretation", "ImagerPixelSpacing", "PixelSpacing", "RescaleSlope"),
    *("RescaleIntercept", "PixelPaddingValue", "PixelPaddingRangeLimit", "DistanceSourceToDetector"),
    *(
        "PositionerPrimaryAngle",
        "BodyPartThickness",
        "ImageLaterality",
        "PatientOrientation",
        "SliceThickness",
    ),
    *(
        "SpecificCharacterSet",
        "TransferSyntaxUID",
        "SOPClassUID",
        "ImagePositionPatient",
        "FrameOfReferenceUID",
    ),
    *(
        "ImageOrientationPatient",
        "RealWorldValueSlope",
        "RealWorldValueIntercept",
        "PixelIntensityRelationship",
    ),
)


def packed(path: Path, syntax: str) -> None:
    """Write the frames of a file as this transfer syntax packs them."""
    dataset = pydicom.dcmread(path)
    dataset.compress(SYNTAXES[syntax], generate_instance_uid=False)
    dataset.save_as(path)


def deflated(path: Path) -> None:
    """Write a file deflated."""
    dataset = pydicom.dcmread(path)
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    dataset.save_as(path)


def attributes(path: Path, random: Random) -> None:
    """Change a few elements: by pydicom where it writes that, or else byte by byte."""
    if random.random() < 0.45:
        dataset = pydicom.dcmread(path)
        if random.random() < 0.5:
            dataset.remove_private_tags()
        for _ in range(random.randint(1, 3)):
            _edit(dataset, random)
        try:
            dataset.save_as(path)
        # There are values that pydicom does not write.
        except Exception:
            bytewise(path, random)
    else:
        bytewise(path, random)


def _edit(dataset: Any, random: Random) -> None:
    elements = [element for element in dataset.iterall() if element.keyword not in ("", "PixelData")]
    wanted = random.choice(_KEYWORDS)
    near = [element for element in elements if element.keyword == wanted]
    element = random.choice(near or elements)
    what = random.randrange(4)
    if what == 0 and element.tag in dataset:
        del dataset[element.tag]
    elif what == 1 and element.VR == "SQ" and element.value:
        element.value = list(element.value) * 2 if random.random() < 0.5 else []
    elif element.VR in ("US", "SS", "UL", "SL", "FD", "FL"):
        value = random.choice((0, 1, 2, 7, 8, 16, 255, 32767, 65535))
        element.value = random.choice((value, [value] * 3, []))
    elif element.VR != "SQ":
        word = random.choice((*NUMBERS, *WORDS, *PATHS))[:100]
        # Checks of pydicom are made where a value is set, not where it is kept.
        element._value = random.choice((word, [word, word], ""))


def bytewise(path: Path, random: Random) -> None:
    """Overwrite type, length or value of an element where it lies in the file."""
    data = bytearray(path.read_bytes())
    tags = [element.tag for element in pydicom.dcmread(path).iterall()] or [pydicom.tag.Tag("Rows")]
    for _ in range(random.randint(1, 3)):
        tag = random.choice(tags)
        places = _places(bytes(data), struct.pack("<2H", tag.group, tag.element))
        if not places:
            continue
        at = random.choice(places)
        is_long = bytes(data[at + 4 : at + 6]) in _LONG
        length_at, size = (at + 8, 4) if is_long else (at + 6, 2)
        what = random.randrange(4)
        if what == 0:
            data[at + 4 : at + 6] = random.choice(_TYPES)
        elif what == 1:
            data[length_at : length_at + size] = (random.choice(_LENGTHS) & (256**size - 1)).to_bytes(
                size, "little"
            )
        elif what == 2:
            start = length_at + size
            data[start : start + 8] = random.choice(
                (b"nan     ", b"1e400   ", b"-1      ", b"\xff" * 8, bytes(8))
            )
        else:
            data[at : at + 4] = struct.pack(
                "<2H", *random.choice(((0x28, 0x10), (0x7FE0, 0x10), (0xFFFE, 0xE00D)))
            )
    path.write_bytes(data)


def _places(data: bytes, tag: bytes) -> list[int]:
    found, at = [], data.find(tag, 132)
    while at >= 0 and len(found) < 50:
        found.append(at)
        at = data.find(tag, at + 1)
    return found


def frames(path: Path, random: Random) -> None:
    """Damage what is packed: the streams of the frames, their number, the lengths of their fragments."""
    dataset = pydicom.dcmread(path)
    if dataset.file_meta.TransferSyntaxUID == DeflatedExplicitVRLittleEndian:
        _deflated(path, random)
        return
    what = random.randrange(6)
    parts = list(generate_frames(dataset.PixelData, number_of_frames=int(dataset.NumberOfFrames)))
    if what == 0:
        _fragments(path, random)
        return
    if what == 1:
        dataset.NumberOfFrames = random.choice((0, -1, 1, 2, 4, 100, 2**31 - 1))
    elif what == 2:
        parts = random.choice(
            (parts[:-1], parts * 2, [b""] * 3, [b"\0" * 8] * 3, parts[:1] + [parts[0][:9]] * 2)
        )
    elif what == 3:
        keyword = random.choice(("Rows", "Columns", "BitsStored", "BitsAllocated", "SamplesPerPixel"))
        setattr(dataset, keyword, random.choice((0, 1, 3, 8, 16, 32, 65535)))
    elif what == 4:
        place = random.choice([*SYNTAXES.values(), ExplicitVRLittleEndian])
        dataset.file_meta.TransferSyntaxUID = place
    if what in (2, 5) or random.random() < 0.4:
        parts = [_stream(part, random) if random.random() < 0.6 else part for part in parts]
    # pydicom writes no fragment shorter than this.
    parts = [part.ljust(2, b"\0") for part in parts]
    dataset.PixelData = encapsulate(parts, has_bot=random.random() < 0.5)
    dataset["PixelData"].is_undefined_length = True
    dataset.save_as(path)


def _stream(part: bytes, random: Random) -> bytes:
    """Return a frame's stream, damaged where its sizes stand, or anywhere."""
    what = random.randrange(5)
    data = bytearray(part)
    if what == 0:
        return part[: random.randrange(len(part) + 1)]
    if what == 1:
        return flipped(part, random)
    if what == 2:
        return part + random.randbytes(random.choice((1, 64, 5000)))
    if what == 3:
        # RLE: the number of segments and their starts; JPEG 2000 and JPEG-LS: markers and sizes.
        at = random.randrange(min(64, max(1, len(data) - 4)))
        data[at : at + 4] = random.choice(
            (b"\xff" * 4, bytes(4), b"\x7f\xff\xff\xff", b"\0\0\xff\xff", b"\x0f\0\0\0")
        )
        return bytes(data)
    size = data.find(b"\xff\x51") + 6 if b"\xff\x51" in data else data.find(b"\xff\xf7") + 5
    for _ in range(random.randint(1, 3)):
        at = size + 2 * random.randrange(20)
        data[at : at + 2] = random.choice((b"\xff\xff", b"\0\0", b"\0\1", b"\x7f\xff", b"\x40\0"))
    return bytes(data)


def _fragments(path: Path, random: Random) -> None:
    data = bytearray(path.read_bytes())
    start = data.rfind(struct.pack("<2H", 0x7FE0, 0x10))
    places = [at for at in _places(bytes(data), struct.pack("<2H", 0xFFFE, 0xE000)) if at > start]
    at = random.choice(places or [start])
    data[at + 4 : at + 8] = struct.pack("<I", random.choice((*_LENGTHS, len(data))))
    if random.random() < 0.3:
        data = data[: random.randrange(start, len(data))]
    path.write_bytes(data)


def _deflated(path: Path, random: Random) -> None:
    data = path.read_bytes()
    (n_meta,) = struct.unpack_from("<I", data, 140)
    start = 144 + n_meta
    plain = zlib.decompress(data[start:], -15)
    what = random.randrange(4)
    if what == 0:
        body = data[start : random.randrange(start, len(data))]
    elif what == 1:
        body = flipped(data[start:], random)
    else:
        plain = flipped(plain, random, most=3) if what == 2 else plain + bytes(random.choice((100, 2**23)))
        packer = zlib.compressobj(wbits=-15)
        body = packer.compress(plain) + packer.flush()
    path.write_bytes(data[:start] + body)
