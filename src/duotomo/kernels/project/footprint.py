"""Where the voxel edges of a slice throw their footprint, as tables that every back end reads.

In one view, the edges of a slice's voxels lie on lines: edge `i` of the face at height z lands at pixel
coordinate `p + q i`. A slab has two faces, so one axis of one slice in one view is four numbers,
`(p, q)` of its lower face and `(p, q)` of its upper face: a *footprint*.

The weight between pixel `k`, which covers `[k, k + 1]`, and voxel `i` is the share of the pixel that the
voxel's footprint covers, averaged over the slab's height:

    W[k, i] = C(k, i) - C(k, i + 1),
    C(k, i) = mean over the pixel of the share of the slab in which edge i falls short of it.

Forward and transposed kernels evaluate this one function of (k, i); only which of the two they sum over
differs.

Every back end offers `accumulate(source, target, bands, add=..., lengths_sq=...)`: over all sources, sum the
resampled images into each target. The source is (slice, y, x) or, transposed, (view, v, u), contiguous; the
target is the other one, of the same dtype. A forward kernel multiplies its result by the length of each
pixel's ray inside a slab, `sqrt(a[view, v] + b[view, u])`, which depends on both axes at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROWS, COLUMNS = 0, 1

Lengths = tuple[torch.Tensor, torch.Tensor]
"""a, (view, v), and b, (view, u), of the dtype of the target."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bands:
    """The bands of weights between sources and targets, as the lines that generate them.

    lines: (source, target, axis, 8): a footprint's four numbers, then `(P, Q)` for each face: the samples of
    target index o begin on the lines `P + Q o`. Forward, the sources are slices, the targets views, and a
    pixel's samples are voxels; transposed it is the other way round. prepared: what a back end made of
    them for a device.
    """

    lines: Floats
    transposed: bool
    prepared: dict[torch.device, Any] = field(default_factory=dict, repr=False)
    _copies: dict[torch.device, torch.Tensor] = field(default_factory=dict, repr=False)
    _reaches: dict[tuple[int, int, int], int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, footprints: Floats, *, transposed: bool) -> Bands:
        """Build the bands of footprints, (view, slice, axis, 4), for one direction.

        >>> Bands.of(np.array([[[[0.0, 2.0, 1.0, 2.0]] * 2]]), transposed=False).lines[0, 0, 0]
        array([ 0. ,  2. ,  1. ,  2. , -0. ,  0.5, -0.5,  0.5])
        """
        if transposed:
            lines = np.concatenate([footprints, footprints], axis=-1)
        else:
            p_low, q_low, p_high, q_high = np.moveaxis(footprints, -1, 0)
            inverse = np.stack([-p_low / q_low, 1 / q_low, -p_high / q_high, 1 / q_high], axis=-1)
            lines = np.concatenate([footprints, inverse], axis=-1).swapaxes(0, 1)
        return cls(lines=np.ascontiguousarray(lines), transposed=transposed)

    def on(self, device: torch.device) -> torch.Tensor:
        """Return the lines as a float64 tensor on `device`, copied there once."""
        if device not in self._copies:
            self._copies[device] = torch.from_numpy(self.lines).to(device)
        return self._copies[device]

    def reach(self, axis: int, *, n_targets: int, count: int = 1) -> int:
        """Count the consecutive samples that any `count` neighbouring targets can need between them."""
        key = (axis, n_targets, count)
        if key not in self._reaches:
            # Begin and end are affine in the target index, so the extremes are at the ends.
            first = np.arange(2) * float(max(n_targets - count, 0))
            p_low, q_low, p_high, q_high = np.moveaxis(self.lines[:, :, axis, 4:, None], 2, 0)
            begin = np.minimum(p_low + q_low * first, p_high + q_high * first)
            end = np.maximum(p_low + q_low * (first + count), p_high + q_high * (first + count))
            # A window of length w that starts anywhere touches at most floor(w) + 2 unit cells; the
            # subtraction keeps a whole length from counting one cell more for its rounding.
            self._reaches[key] = math.floor(float((end - begin).max()) - 1e-9) + 2
        return self._reaches[key]
