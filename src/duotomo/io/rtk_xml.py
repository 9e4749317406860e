"""The numbers in RTK's XML, read without entities or anything else that XML can expand."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from duotomo.io.file_error import FileError

MAX_BYTES = 16 * 2**20
"""RTK writes less than 2 kB for each view."""

VERSION = "3"

_ROOT, _VIEW = "RTKThreeDCircularGeometry", "Projection"
_NUMBERS = frozenset(
    (
        "GantryAngle",
        "InPlaneAngle",
        "OutOfPlaneAngle",
        "SourceToIsocenterDistance",
        "SourceToDetectorDistance",
        "SourceOffsetX",
        "SourceOffsetY",
        "ProjectionOffsetX",
        "ProjectionOffsetY",
        "RadiusCylindricalDetector",
    )
)
_COLLIMATION = frozenset(f"Collimation{axis}{side}" for axis in "UV" for side in ("Inf", "Sup"))


@dataclass(frozen=True, kw_only=True, eq=False)
class RtkView:
    """One projection as the file has it: numbers by RTK's names, in mm and degrees; matrix: (3, 4)."""

    values: dict[str, float]
    matrix: NDArray[np.float64] | None


@dataclass
class _Content:
    """What has been read so far. common: for all projections; own: of the one that is being read."""

    views: list[RtkView] = field(default_factory=list)
    common: dict[str, float] = field(default_factory=dict)
    own: dict[str, float] | None = None
    matrix: NDArray[np.float64] | None = None
    open: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        expected = (_ROOT,) if not self.open else (_VIEW, "Matrix", *_NUMBERS, *_COLLIMATION)
        if name not in expected or len(self.open) > 2:
            place = f"in {self.open[-1]}" if self.open else "at the start"
            raise FileError(
                f"expected {_ROOT if not self.open else 'an element of ' + _ROOT}; got {name!r} {place}. "
                f"Choose a geometry that RTK wrote."
            )
        if not self.open and attributes.get("version") != VERSION:
            raise FileError(
                f"expected version {VERSION!r} of {_ROOT}; got {attributes.get('version')!r}. "
                f"Write it with a current RTK."
            )
        if name == _VIEW:
            self.own, self.matrix = {}, None
        self.open.append(name)
        self.text.clear()

    def end(self, name: str) -> None:
        self.open.pop()
        words, number = "".join(self.text).split(), len(self.views)
        self.text.clear()
        if name in _NUMBERS:
            (value,) = _finite(words, 1, name, number)
            (self.common if self.own is None else self.own)[name] = value
        elif name == "Matrix":
            self.matrix = np.reshape(_finite(words, 12, name, number), (3, 4))
        elif name == _VIEW and self.own is not None:
            self.views.append(RtkView(values=self.common | self.own, matrix=self.matrix))
            self.own = None


def parse_rtk(path: Path) -> list[RtkView]:
    """Return the projections of an `RTKThreeDCircularGeometry`."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise FileError(f"expected at most {MAX_BYTES} bytes of geometry; got {size}. Choose another file.")
    content, parser = _Content(), expat.ParserCreate()
    parser.StartElementHandler = content.start
    parser.EndElementHandler = content.end
    parser.CharacterDataHandler = content.text.append
    # RTK writes a DOCTYPE without any of these; they are how XML grows without bound or reads other files.
    parser.EntityDeclHandler = _refuse
    parser.UnparsedEntityDeclHandler = _refuse
    parser.ExternalEntityRefHandler = _refuse
    try:
        parser.Parse(path.read_bytes(), True)
    except FileError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise FileError(f"expected XML; got: {error}. Check that the file is complete.") from error
    if not content.views:
        raise FileError(f"expected at least one {_VIEW}; got none. Choose a geometry that RTK wrote.")
    for number, view in enumerate(content.views):
        if view.values.get("RadiusCylindricalDetector", 0.0) != 0:
            raise FileError(
                f"expected a flat detector; got a RadiusCylindricalDetector of "
                f"{view.values['RadiusCylindricalDetector']} mm in projection {number}. Resample the views."
            )
    return content.views


def _finite(words: list[str], n: int, name: str, number: int) -> list[float]:
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = []
    if len(values) != n or not all(map(math.isfinite, values)):
        came = " ".join(words)[:60]
        raise FileError(
            f"expected {n} finite number{'s' if n > 1 else ''} in {name} of projection {number}; got "
            f"{came!r}. Write the file again."
        )
    return values


def _refuse(*_: object) -> int:
    raise FileError("expected XML without entities; got one. Choose a geometry that RTK wrote.")
