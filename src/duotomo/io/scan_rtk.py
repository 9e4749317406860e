"""Geometries that RTK, the Reconstruction Toolkit, writes: `RTKThreeDCircularGeometry` in XML.

RTK turns source and detector about its y axis by the gantry angle. At angle zero the source is up the z axis,
u runs along x and v along y: the directions of the machine frame. RTK's origin is the isocentre; the machine
frame's is on the detector. So a scan is moved, not turned:

    machine = RTK + (0, -y_low, -z_detector)

with `z_detector` the height of the detector's middle and `y_low` its low edge, both in the view in which the
detector lies flattest. x stays: the rotation axis is x = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition, pixel_to_world
from duotomo.io.paths import FileError
from duotomo.io.stacks.stack import PixelPlace

Floats = NDArray[np.float64]

_SAME_MM = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class RtkGeometry:
    """Source and detector in every view, in RTK's frame, mm.

    Projection coordinates (a, b), in mm, are the point `origin + a u + b v`.

    source_mm, origin_mm, u_axis, v_axis: (view, xyz).
    """

    source_mm: Floats
    origin_mm: Floats
    u_axis: Floats
    v_axis: Floats

    def acquisition(self, place: PixelPlace, detector_shape: tuple[int, int]) -> tuple[Acquisition, Floats]:
        """Return the scan in the machine frame, and where RTK's origin is there, xyz in mm.

        place: of the pixels in projection coordinates, as the image says. detector_shape: (v, u).
        """
        rtk = self._in_rtk_frame(place, detector_shape)
        flattest = int(np.abs(rtk.normals[:, 2]).argmax())
        middle, edges = rtk.detector_centers_mm[flattest], [(-0.5, 0.0), (detector_shape[0] - 0.5, 0.0)]
        y_low = pixel_to_world(rtk[flattest], edges)[..., 1].min()
        shift = np.array([0.0, -y_low, -middle[2]])
        return replace(
            rtk, source_mm=rtk.sources_mm + shift, detector_center_mm=rtk.detector_centers_mm + shift
        ), shift

    def _in_rtk_frame(self, place: PixelPlace, detector_shape: tuple[int, int]) -> Acquisition:
        n_vu = np.array(detector_shape)
        middle_mm = place.first_mm + place.axes @ (place.spacing_mm * (n_vu[::-1] - 1) / 2)
        in_plane = np.stack([self.u_axis, self.v_axis], axis=-1)
        axes = in_plane @ place.axes
        try:
            return Acquisition(
                source_mm=self.source_mm,
                detector_center_mm=self.origin_mm + in_plane @ middle_mm,
                u_axis=axes[..., 0],
                v_axis=axes[..., 1],
                pixel_spacing_mm=(float(place.spacing_mm[1]), float(place.spacing_mm[0])),
                detector_shape=detector_shape,
            )
        except GeometryError as error:
            raise GeometryError(
                f"{error} In RTK's geometry the source must be above the detector: gantry angles about 0."
            ) from error


def read_rtk_geometry(path: Path) -> RtkGeometry:
    """Return the geometry in an XML file that RTK wrote."""
    vectors = [_vectors(view, number) for number, view in enumerate(parse_rtk(path))]
    source, origin, u_axis, v_axis = (np.array(rows) for rows in zip(*vectors, strict=True))
    return RtkGeometry(source_mm=source, origin_mm=origin, u_axis=u_axis, v_axis=v_axis)


Vectors = tuple[Floats, Floats, Floats, Floats]


def _vectors(view: RtkView, number: int) -> Vectors:
    """Return source, origin, u and v of one view.

    `R = Rz(-in plane) Rx(-out of plane) Ry(-gantry)` takes the fixed frame to one that turns with the tube,
    in which the source is (source offset, SID) and the detector's origin (projection offset, SID - SDD).
    """
    values, matrix = view.values, view.matrix
    if matrix is not None and "SourceToDetectorDistance" not in values:
        return _decomposed(matrix, number)
    sid, sdd = values.get("SourceToIsocenterDistance", 0.0), values.get("SourceToDetectorDistance", 0.0)
    if not (sid > 0 and sdd > 0):
        raise FileError(
            f"expected SourceToIsocenterDistance and SourceToDetectorDistance above 0; got {sid} and {sdd} "
            f"in projection {number}. Parallel rays are not tomosynthesis."
        )
    gantry, out, inside = (
        np.radians(values.get(name, 0.0)) for name in ("GantryAngle", "OutOfPlaneAngle", "InPlaneAngle")
    )
    back = (_turn(2, -inside) @ _turn(0, -out) @ _turn(1, -gantry)).T
    source = back @ [values.get("SourceOffsetX", 0.0), values.get("SourceOffsetY", 0.0), sid]
    origin = back @ [values.get("ProjectionOffsetX", 0.0), values.get("ProjectionOffsetY", 0.0), sid - sdd]
    vectors = source, origin, back[:, 0], back[:, 1]
    if matrix is not None:
        _check_matrix(matrix, vectors, number)
    return vectors


def _turn(axis: int, angle_rad: float) -> Floats:
    """Return the right-handed rotation about one of x, y and z."""
    after, last = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[after, after] = matrix[last, last] = np.cos(angle_rad)
    matrix[last, after] = np.sin(angle_rad)
    matrix[after, last] = -np.sin(angle_rad)
    return matrix


def _decomposed(matrix: Floats, number: int) -> Vectors:
    """Return the vectors of a matrix alone, (3, 4), from (x, y, z, 1) to (a, b, 1) up to scale.

    `a = a_0 - f u.(x - s) / n.(x - s)`: its rows are `a_0 n - f u`, `b_0 n - f v` and n, times a scale whose
    sign makes u, v, n right-handed.
    """
    left = matrix[:, :3]
    determinant, length = np.linalg.det(left), np.linalg.norm(left[2])
    # The size of a matrix means nothing, so it is compared with the product of its rows.
    if not abs(determinant) > 1e-12 * np.prod(np.linalg.norm(left, axis=1)):
        raise FileError(
            f"expected a Matrix that projects from a point; got {matrix.tolist()} in projection {number}. "
            f"Write the file again."
        )
    scaled = matrix / (length * np.sign(determinant))
    normal = scaled[2, :3]
    source = -np.linalg.solve(scaled[:, :3], scaled[:, 3])
    principal = scaled[:2, :3] @ normal
    u, v = principal[:, None] * normal - scaled[:2, :3]
    focal = np.linalg.norm(u), np.linalg.norm(v)
    if abs(focal[0] - focal[1]) > 1e-6 * focal[0]:
        raise FileError(
            f"expected a Matrix to millimetres on the detector; got scales {focal[0]:.9g} and {focal[1]:.9g} "
            f"along u and v in projection {number}. Write the file again."
        )
    u, v = u / focal[0], v / focal[1]
    return source, source - focal[0] * normal - principal[0] * u - principal[1] * v, u, v


def _check_matrix(matrix: Floats, vectors: Vectors, number: int) -> None:
    """Raise unless the matrix projects points on known rays where the angles and distances say."""
    source, origin, u, v = vectors
    coordinates = np.array([(a, b) for a in (0.0, 100.0) for b in (0.0, 100.0)] * 2)
    on_detector = origin + coordinates @ np.stack([u, v])
    share = np.repeat([1.0, 0.5], 4)[:, None]
    points = source + share * (on_detector - source)
    found = points @ matrix[:, :3].T + matrix[:, 3]
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(found[:, :2] / found[:, 2:] - coordinates).max()
    if not apart <= _SAME_MM:
        raise FileError(
            f"expected the Matrix and the angles and distances of projection {number} to agree; got points "
            f"{apart:.3g} mm apart. Write the file again, or remove the Matrix."
        )


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
