"""Volumes and projections as pictures, for notebooks: PNG by the standard library alone."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import ShapeError
from duotomo.notebook.drawing import table_html

SHOWN_PIXELS = 260
"""The longest edge of a picture in a notebook."""

_LOW, _HIGH = 0.5, 99.8
"""Percentiles drawn black and white."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """Three slices through the body in a volume, as a notebook shows them.

    Slices at fixed z, y and x, through the centre of what is positive, each in its true proportions and seen
    along the machine's axes: x or y to the right, y or z up.

    Parameters
    ----------
    volume : torch.Tensor or numpy.ndarray
        (z, y, x), on any device.
    spacing_mm : tuple of float
        Edges of a voxel, (z, y, x).
    title : str
        Shown above.
    facts : mapping of str to str, optional
        Names and values, shown below the title.

    Raises
    ------
    ShapeError
        Unless the volume has three axes.

    Examples
    --------
    >>> picture = Picture(volume=np.zeros((4, 5, 6)), title="zeros")
    >>> picture._repr_html_().count("<img")
    3
    """

    volume: Any
    spacing_mm: tuple[float, float, float] = (1.0, 1.0, 1.0)
    title: str = ""
    facts: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        shape = tuple(self.volume.shape)
        if len(shape) != 3:
            raise ShapeError(
                f"Picture: expected a volume with three axes, (z, y, x); got {shape}. Pass one volume."
            )

    def _repr_html_(self) -> str:
        images = "".join(
            f'<figure style="margin:0"><img width="{width}" height="{height}" style="image-rendering:auto" '
            f'alt="{name}" src="data:image/png;base64,{base64.b64encode(png(plane)).decode()}"/>'
            f"<figcaption>{name}</figcaption></figure>"
            for name, plane, (width, height) in self._planes()
        )
        # Backgrounds of notebooks differ: between grey values and paper lies a gap.
        head = table_html(self.title, self.facts or {}) if self.title else ""
        return f'<div>{head}<div style="display:flex;gap:8px;flex-wrap:wrap">{images}</div></div>'

    def _planes(self) -> list[tuple[str, NDArray[np.uint8], tuple[int, int]]]:
        # One slice at a time leaves a GPU, not the volume.
        z, y, x = _center(self.volume)
        slices = [_array(self.volume[z]), _array(self.volume[:, y]), _array(self.volume[:, :, x])]
        size_mm = np.array(self.volume.shape) * self.spacing_mm
        longest_mm = float(size_mm.max())
        low, high = _window(slices)
        planes = []
        for axes, values, name in zip(
            ((1, 2), (0, 2), (0, 1)),
            slices,
            ("from above", "from the chest wall", "from the side"),
            strict=True,
        ):
            grey = np.clip((values - low) / (high - low), 0, 1) * 255
            height, width = (max(8, round(SHOWN_PIXELS * size_mm[axis] / longest_mm)) for axis in axes)
            # Rows of a picture run down, and y and z up.
            planes.append((name, grey[::-1].round().astype(np.uint8), (width, height)))
        return planes


def png(grey: NDArray[np.uint8]) -> bytes:
    """Return a grey picture, (row, column), as a PNG file.

    >>> png(np.zeros((2, 3), dtype=np.uint8))[:4]
    b'\\x89PNG'
    """
    height, width = grey.shape
    # Each row begins with its filter; 0 is none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), grey], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def _center(volume: Any) -> tuple[int, int, int]:
    """Return the voxel at the centre of what is positive; the middle one where nothing is."""
    index = []
    for axis, n in enumerate(volume.shape):
        others = tuple(one for one in range(3) if one != axis)
        profile = _array(volume.clip(0, None).sum(others))
        total = profile.sum()
        index.append(round(float(profile @ np.arange(n) / total)) if 0 < total < np.inf else n // 2)
    return index[0], index[1], index[2]


def _array(values: Any) -> NDArray[np.float64]:
    detached = values.detach().cpu().numpy() if hasattr(values, "detach") else values
    return np.nan_to_num(np.asarray(detached, dtype=np.float64))


def _window(slices: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    everything = np.concatenate([values.ravel() for values in slices])
    low, high = np.percentile(everything, [_LOW, _HIGH])
    return (float(low), float(high)) if high > low else (float(low), float(low) + 1.0)
