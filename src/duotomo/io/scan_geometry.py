"""Where a scan was taken from, when its file does not say: a geometry beside it, a machine, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from duotomo.errors import GeometryError
from duotomo.geometry import MACHINES, Acquisition
from duotomo.io.paths import FileError, geometries_beside
from duotomo.io.scan_options import Supplied
from duotomo.io.scan_rtk import read_rtk_geometry
from duotomo.io.stacks import READERS, Stack

MAX_BYTES = 64 * 2**20
"""Of a geometry JSON: a hundred thousand views."""

_AXES = ("view", "v", "u")
_PARTS = ("pixel_spacing_mm", "source_to_detector_mm", "source_to_pivot_mm", "angles_deg")
_MOST_BINNING = 16
_HOW = (
    "Give `geometry` (a geometry JSON, or RTK's XML), put NAME.json beside NAME, give `machine`, or give "
    "`pixel_spacing_mm`, `source_to_detector_mm`, `source_to_pivot_mm` and `angles_deg`"
)


@dataclass(frozen=True, kw_only=True)
class ScanGeometry:
    """A geometry, and what people should know of where it came from."""

    acquisition: Acquisition
    facts: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def place_stack(stack: Stack, path: Path, supplied: Supplied) -> ScanGeometry:
    """Return the geometry of a stack: what a person supplied, or else what lies beside the file."""
    parts: dict[str, Any] = {name: getattr(supplied, name) for name in _PARTS}
    given = [f"`{name}`" for name, value in parts.items() if value is not None]
    ways = [
        *(["`geometry`"] if supplied.geometry else []),
        *(["`machine`"] if supplied.machine else []),
        *([" and ".join(given)] if given else []),
    ]
    if len(ways) > 1:
        raise GeometryError(
            f"expected the geometry in one way; got {', '.join(ways)}. Leave out all but one."
        )
    if supplied.machine:
        placed = ScanGeometry(
            acquisition=_machine(supplied.machine, stack), facts={"geometry": supplied.machine}
        )
    elif len(given) == len(parts):
        _, n_v, n_u = stack.array.shape
        swept = sweep(**parts, detector_shape=(n_v, n_u))
        placed = ScanGeometry(acquisition=swept, facts={"geometry": "as supplied"})
    elif given:
        names = [f"`{name}`" for name in parts]
        missing = ", ".join(name for name in names if name not in given)
        raise GeometryError(f"expected {', '.join(names)} together; got no {missing}. Give them too.")
    else:
        geometry = supplied.geometry or _beside(path)
        if geometry is None:
            raise GeometryError(f"expected a geometry for a {stack.format}; got none. {_HOW}.")
        placed = read_geometry(geometry, stack)
    check_axes(stack.array.shape, placed.acquisition)
    return replace(placed, warnings=(*placed.warnings, *_spacing_warning(stack, placed.acquisition)))


def check_axes(shape: tuple[int, ...], acquisition: Acquisition) -> None:
    """Raise unless projections have the shape of the geometry; say in which order their axes are, if any."""
    expected = acquisition.shape
    if tuple(shape) == expected:
        return
    orders = [order for order in permutations(range(3)) if tuple(expected[i] for i in order) == tuple(shape)]
    if orders:
        names = ", ".join(_AXES[i] for i in orders[0])
        remedy = f"The axes are in the order ({names}): store them as (view, v, u)."
    else:
        remedy = "Choose the geometry of this scan."
    raise GeometryError(
        f"expected projections (view, v, u) = {expected}, as the geometry says; got {tuple(shape)}. {remedy}"
    )


def sweep(
    *,
    angles_deg: tuple[float, ...],
    source_to_detector_mm: float,
    source_to_pivot_mm: float,
    pixel_spacing_mm: tuple[float, float],
    detector_shape: tuple[int, int],
) -> Acquisition:
    """Return a scan whose source turns over a detector that stays at z = 0, at these angles.

    `source(t) = (R sin t, 0, pivot + R cos t)`, as in `Acquisition.arc`, with `R = source_to_pivot_mm` and
    the pivot `source_to_detector_mm - R` above the detector; t > 0 is towards +x.

    >>> scan = sweep(angles_deg=(-10, 0, 10), source_to_detector_mm=650, source_to_pivot_mm=605,
    ...              pixel_spacing_mm=(0.4, 0.4), detector_shape=(170, 615))
    >>> scan.source_mm[1], scan.shape
    ((0.0, 0.0, 650.0), (3, 170, 615))
    """
    where = "sweep"
    lengths = np.array([source_to_detector_mm, source_to_pivot_mm])
    angles = np.radians(np.array(angles_deg, dtype=np.float64))
    if not (np.isfinite(lengths).all() and (lengths > 0).all() and np.isfinite(angles).all()):
        raise GeometryError(
            f"{where}: expected positive finite distances and finite angles; got source to detector "
            f"{source_to_detector_mm} mm, source to pivot {source_to_pivot_mm} mm and {angles_deg} degrees. "
            f"Give millimetres and degrees."
        )
    n_views, radius, zero = len(angles), source_to_pivot_mm, np.zeros(len(angles))
    height = source_to_detector_mm - radius + radius * np.cos(angles)
    depth_mm = detector_shape[0] * pixel_spacing_mm[0]
    return Acquisition(
        source_mm=np.stack([radius * np.sin(angles), zero, height], axis=1),
        detector_center_mm=[(0.0, depth_mm / 2, 0.0)] * n_views,
        u_axis=[(1.0, 0.0, 0.0)] * n_views,
        v_axis=[(0.0, 1.0, 0.0)] * n_views,
        pixel_spacing_mm=pixel_spacing_mm,
        detector_shape=detector_shape,
    )


def read_geometry(path: Path, stack: Stack) -> ScanGeometry:
    """Return the geometry in a JSON or XML file, for the pixels of this stack."""
    if not path.is_file():
        raise FileError(f"expected a geometry at {path}; got nothing there. Check the path.")
    if path.suffix.lower() == ".xml":
        return _rtk(path, stack)
    if path.suffix.lower() != ".json":
        raise FileError(
            f"expected a geometry that ends in .json or .xml; got {path.name!r}. Rename the file."
        )
    try:
        acquisition = Acquisition.from_json(geometry_text(path))
    except GeometryError as error:
        raise FileError(f"{path.name}: {error}") from error
    return ScanGeometry(acquisition=acquisition, facts={"geometry": "geometry JSON"})


def geometry_text(path: Path) -> str:
    """Return the text of a geometry JSON, if it is text and not too long."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise FileError(f"expected at most {MAX_BYTES} bytes of geometry; got {size}. Choose another file.")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FileError(
            f"expected JSON text in UTF-8 in {path.name}; got: {error}. Write it anew."
        ) from error


def _rtk(path: Path, stack: Stack) -> ScanGeometry:
    if stack.place is None or not stack.has_origin:
        raise GeometryError(
            f"expected an image that says where its pixels are, for RTK's geometry; got a {stack.format}. "
            f"Store the views as .mha, .mhd or .nrrd, with spacing and origin as RTK has them."
        )
    _, n_v, n_u = stack.array.shape
    acquisition, origin = read_rtk_geometry(path).acquisition(stack.place, (n_v, n_u))
    x, y, z = origin.round(6) + 0.0
    facts = {"geometry": "RTK XML", "RTK's origin": f"at ({x:g}, {y:g}, {z:g}) mm"}
    from_low = acquisition.sources_mm[:, 1].mean()
    depth_mm = n_v * acquisition.pixel_spacing_mm[0]
    beyond = (
        f"the source is nearer to the high edge of the detector (y = {depth_mm:g} mm) than to the low one: y "
        f"may run from the nipple to the chest wall"
    )
    return ScanGeometry(
        acquisition=acquisition, facts=facts, warnings=(beyond,) if from_low > 0.75 * depth_mm else ()
    )


def _beside(path: Path) -> Path | None:
    """Return NAME.json or NAME.xml beside NAME.mha, if one of them is there."""
    found = geometries_beside(path, READERS)
    if len(found) > 1:
        raise GeometryError(
            f"expected one geometry beside {path.name}; got {found[0].name} and {found[1].name}. "
            f"Name one with `geometry`."
        )
    return found[0] if found else None


def _machine(name: str, stack: Stack) -> Acquisition:
    if name not in MACHINES:
        raise GeometryError(f"expected `machine` as one of {', '.join(MACHINES)}; got {name!r}. Choose one.")
    machine = MACHINES[name]()
    for factor in range(1, _MOST_BINNING + 1):
        if machine.bin(factor).shape == stack.array.shape:
            return machine.bin(factor)
    return machine


def _spacing_warning(stack: Stack, acquisition: Acquisition) -> tuple[str, ...]:
    """Images that say nothing of their pixels say 1 mm."""
    if stack.place is None or (stack.place.spacing_mm == 1).all():
        return ()
    in_file, meant = stack.place.spacing_mm[::-1], np.array(acquisition.pixel_spacing_mm)
    if np.abs(in_file - meant).max() <= 1e-3 * meant.max():
        return ()
    return (
        f"the file says that pixels (v, u) are {in_file[0]:g} x {in_file[1]:g} mm, the geometry "
        f"{meant[0]:g} x {meant[1]:g} mm; the geometry counts",
    )
