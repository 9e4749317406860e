"""What duotomo adds to DICOM files of projections, so that nothing is lost: a private block of attributes.

The standard has the distance from source to isocentre in float32 only, cannot say that a detector is tilted
towards the nipple, and knows no flat field. The block, group 0051, creator DUOTOMO, says it all in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import Acquisition
from duotomo.io.dicom.header import ViewAttributes
from duotomo.io.paths import FileError
from duotomo.io.scan import Scan
from duotomo.io.scan_options import Values

CREATOR, GROUP, VERSION = "DUOTOMO", 0x0051, 1

_VERSION, _SOURCE, _CENTER, _U, _V, _SPACING, _VIEWS = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07
_VALUES, _STEP, _OFFSET, _FLAT_SHAPE, _FLAT = 0x10, 0x11, 0x12, 0x13, 0x14


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What a stored value stands for: `offset + step * stored`, of this kind."""

    values: Values
    step: float = 1.0
    offset: float = 0.0


def put_block(dataset: Any, scan: Scan, scale: Scale, views: slice) -> None:
    """Add the block for some views of a scan to a dataset."""
    block = dataset.private_block(GROUP, CREATOR, create=True)
    part = scan.acquisition[views]
    block.add_new(_VERSION, "US", VERSION)
    for element, vectors in (
        (_SOURCE, part.sources_mm),
        (_CENTER, part.detector_centers_mm),
        (_U, part.u_axes),
        (_V, part.v_axes),
    ):
        block.add_new(element, "FD", vectors.ravel().tolist())
    block.add_new(_SPACING, "FD", list(part.pixel_spacing_mm))
    block.add_new(_VIEWS, "US", scan.acquisition.n_views)
    block.add_new(_VALUES, "LO", scale.values.value)
    block.add_new(_STEP, "FD", scale.step)
    block.add_new(_OFFSET, "FD", scale.offset)
    if scan.flat_field is not None:
        flat = scan.flat_field
        flat = flat[views] if flat.ndim == 3 else flat
        block.add_new(_FLAT_SHAPE, "US", list(flat.shape) or [0])
        block.add_new(_FLAT, "OD", flat.detach().cpu().double().numpy().astype("<f8").tobytes())


def has_block(view: ViewAttributes) -> bool:
    """Return whether a file has the block."""
    return _block(view) is not None


def block_geometry(views: Sequence[ViewAttributes], detector_shape: tuple[int, int]) -> Acquisition:
    """Return the acquisition in the block of a multi-frame file, or in those of one file per view."""
    datasets = _files(views)
    for view in datasets:
        (n_views,) = _whole(view, _VIEWS)
        if n_views != len(views):
            raise FileError(
                f"expected {n_views} views, as the private block {CREATOR} says; got {len(views)}. "
                f"Check that all of them are there."
            )
    vectors = [
        np.concatenate([_floats(view, element) for view in datasets])
        for element in (_SOURCE, _CENTER, _U, _V)
    ]
    spacings = {tuple(_floats(view, _SPACING)) for view in datasets}
    if len(spacings) != 1 or {len(numbers) for numbers in vectors} != {3 * len(views)}:
        raise FileError(
            f"expected {3 * len(views)} numbers in each vector of the private block {CREATOR}, three per "
            f"view, and one pixel spacing; got {[len(numbers) for numbers in vectors]} and {len(spacings)} "
            f"spacings. Write the file anew, or give `geometry`."
        )
    source, center, u_axis, v_axis = (numbers.reshape(-1, 3) for numbers in vectors)
    return Acquisition(
        source_mm=source,
        detector_center_mm=center,
        u_axis=u_axis,
        v_axis=v_axis,
        pixel_spacing_mm=spacings.pop(),
        detector_shape=detector_shape,
    )


def block_scale(view: ViewAttributes) -> Scale:
    """Return what the stored values of a file with the block stand for."""
    (step,), (offset,) = _floats(view, _STEP), _floats(view, _OFFSET)
    kind = _value(view, _VALUES)
    text = (kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)).strip(" \0")
    if text not in {values.value for values in Values} or not step > 0:
        raise FileError(
            f"expected counts or line integrals with a positive step in the private block {CREATOR}; got "
            f"{text[:40]!r} and {step}. Write the file anew."
        )
    return Scale(values=Values(text), step=float(step), offset=float(offset))


def block_flat_field(views: Sequence[ViewAttributes]) -> NDArray[np.float32] | None:
    """Return the flat field in the block, float32, or None: (view, v, u), (v, u), (view, 1, 1) or ()."""
    parts = []
    for view in _files(views):
        block = _block(view)
        if block is None or _FLAT not in block:
            return None
        sides = _whole(view, _FLAT_SHAPE)
        flat = _floats(view, _FLAT)
        sides = () if sides == (0,) else sides
        if int(np.prod(sides)) != len(flat):
            raise FileError(
                f"expected a flat field of shape {sides} in the private block {CREATOR}; got {len(flat)} "
                f"numbers. Write the file anew."
            )
        parts.append(flat.reshape(sides).astype(np.float32))
    return np.concatenate(parts) if parts[0].ndim == 3 else parts[0]


def _files(views: Sequence[ViewAttributes]) -> list[ViewAttributes]:
    """Return one view of each file."""
    return [view for view in views if view.frame == 0]


def _block(view: ViewAttributes) -> Any:
    try:
        return view.dataset.private_block(GROUP, CREATOR)
    except KeyError:
        return None


def _value(view: ViewAttributes, element: int) -> Any:
    block = _block(view)
    if block is None or element not in block:
        raise FileError(
            f"expected element {element:02X} in the private block {CREATOR} of every file; got none. Write "
            f"the scan anew, or give `geometry`."
        )
    return block[element].value


def _floats(view: ViewAttributes, element: int) -> NDArray[np.float64]:
    value = _value(view, element)
    # Programs that rewrite files without value representations leave bytes.
    numbers = (
        np.frombuffer(value, "<f8") if isinstance(value, bytes) else np.atleast_1d(np.array(value, float))
    )
    return numbers.astype(np.float64)


def _whole(view: ViewAttributes, element: int) -> tuple[int, ...]:
    value = _value(view, element)
    numbers = np.frombuffer(value, "<u2") if isinstance(value, bytes) else np.atleast_1d(np.array(value))
    return tuple(int(number) for number in numbers)
