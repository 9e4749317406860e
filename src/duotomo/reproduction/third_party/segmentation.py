"""One breast out of a magnetic resonance image of both: its outline, its skin, and the share of gland."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import DuotomoError
from duotomo.reproduction.third_party.files import scipy_part

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Spacing = tuple[float, float, float]

SKIN_MM = 1.5
_FOLD_MM = 10.0
_NECK_MM = 16.0
_NIPPLE_MM = 3.0
_FAT_MM = 14.0
_MARGIN = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Segmented:
    """One breast, (z, y, x): where it is, where its skin is, and the share of gland, 0 to 1.

    The first y is the chest wall, where the breast was cut off; on the other sides there is some air.
    spacing_mm: (z, y, x). first: the voxel (z, y, x) of the image that became the first one here; before the
    image's own first one, it is negative.
    """

    breast: Mask
    skin: Mask
    gland: Floats
    spacing_mm: Spacing
    first: tuple[int, int, int]


def segment(image: Floats, spacing_mm: Spacing, *, chest_wall_mm: float) -> Segmented:
    """Cut the breast of low x out of a fat-suppressed image of both, and tell gland from fat.

    1. Tissue: more than half of the median intensity of what is not air, in front of the chest-wall plane;
       folds closed, holes filled, the largest part that hangs together by more than a neck.
    2. Skin: tissue within `SKIN_MM` of air. The chest-wall plane is not skin.
    3. The coil's sensitivity, and fat that was not suppressed: the image is divided by a smooth lower
       envelope, which ignores bright things thinner than 14 mm.
    4. Gland: `(i - fat) / (gland - fat)` within 0 and 1, with `gland` the mean of the brighter of Otsu's two
       classes and `fat` the mean of the darker one and a standard deviation, so that noise is not gland.
       The first millimetres below the skin are fat.

    image: (z, y, x) with z up, y to the front and x to the patient's right. chest_wall_mm: the plane, from
    the image's back; no muscle may lie before it.
    """
    start = round(chest_wall_mm / spacing_mm[1])
    half = image[:, start:, : image.shape[2] // 2]
    breast = _one_breast(_tissue(half, spacing_mm), spacing_mm)
    box = _bounding_box(breast)
    half, breast = _add_air(half[box]), _add_air(breast[box])
    depth_mm = _depth_mm(breast, spacing_mm)
    # The signal of skin reaches further in than skin does; what is learnt is learnt from deeper down.
    inner = depth_mm > 2 * SKIN_MM
    share = _gland_share(half / _fat(half, inner, spacing_mm), inner)
    below_skin = np.clip((depth_mm - 2 * SKIN_MM) / (3 * SKIN_MM), 0, 1)
    return Segmented(
        breast=breast,
        skin=breast & (depth_mm <= SKIN_MM),
        gland=(share * below_skin).astype(np.float32),
        spacing_mm=spacing_mm,
        first=(box[0].start - _MARGIN, start, box[2].start - _MARGIN),
    )


def otsu(values: NDArray[Any]) -> float:
    """Return the threshold that leaves the least variance within two classes (Otsu 1979), of 256 bins.

    >>> round(otsu(np.array([0.9, 1.0, 1.1, 4.9, 5.0, 5.1])), 1)
    3.0
    """
    counts, edges = np.histogram(values, bins=256)
    sums = counts * (edges[:-1] + edges[1:]) / 2
    n_below, below = np.cumsum(counts)[:-1], np.cumsum(sums)[:-1]
    n_above, above = counts.sum() - n_below, sums.sum() - below
    between = n_below * n_above * (below / n_below - above / n_above) ** 2
    # Empty bins between the classes are all as good: take their middle.
    return float(edges[1:-1][between > between.max() * (1 - 1e-9)].mean())


def _tissue(image: Floats, spacing_mm: Spacing) -> Mask:
    calm = scipy_part("ndimage").gaussian_filter(image, 1.0 / np.array(spacing_mm))
    if not calm.max() > calm.min():
        raise DuotomoError(
            f"segment: expected tissue and air in front of the chest wall; got {calm.max():g} everywhere. "
            f"Check the image, and that chest_wall_mm lies within it."
        )
    # Their intensities differ by a factor, not by a step: Otsu's classes are those of the logarithm.
    not_air = np.log1p(calm) > otsu(np.log1p(calm))
    tissue: Mask = calm > np.median(calm[not_air]) / 2
    return tissue


def _one_breast(tissue: Mask, spacing_mm: Spacing) -> Mask:
    ndimage = scipy_part("ndimage")
    wide = _depth_mm(~tissue, spacing_mm) <= _FOLD_MM / 2
    closed = tissue | (_depth_mm(wide, spacing_mm) > _FOLD_MM / 2)
    solid = np.stack([ndimage.binary_fill_holes(layer) for layer in closed])
    labels, n_parts = ndimage.label(_depth_mm(solid, spacing_mm) > _NECK_MM / 2)
    if n_parts == 0:
        raise DuotomoError(
            f"segment: expected a breast more than {_NECK_MM:g} mm thick in the half of low x; got none. "
            f"Check the axes of the image, (z, y, x), and chest_wall_mm."
        )
    core = labels == 1 + np.bincount(labels.ravel())[1:].argmax()
    breast: Mask = solid & (_depth_mm(~core, spacing_mm) <= _NECK_MM / 2 + _NIPPLE_MM)
    return breast


def _bounding_box(mask: Mask) -> tuple[slice, slice, slice]:
    z, y, x = (np.flatnonzero(mask.any(axis=others)) for others in ((1, 2), (0, 2), (0, 1)))
    return slice(int(z[0]), int(z[-1]) + 1), slice(0, int(y[-1]) + 1), slice(int(x[0]), int(x[-1]) + 1)


def _add_air(array: NDArray[Any]) -> NDArray[Any]:
    return np.pad(array, ((_MARGIN, _MARGIN), (0, _MARGIN), (_MARGIN, _MARGIN)))


def _depth_mm(mask: Mask, spacing_mm: Spacing) -> NDArray[np.float64]:
    """Return how deep voxels lie in the mask, 0 outside; it goes on behind the chest wall and at its ends."""
    n = 1 + round(2 * _NECK_MM / min(spacing_mm))
    wider = np.pad(mask, ((0, 0), (n, 0), (0, 0)), mode="edge")
    distance_mm = scipy_part("ndimage").distance_transform_edt(wider, sampling=spacing_mm)[:, n:]
    # The surface lies half a voxel before the middle of the first voxel outside.
    depth_mm: NDArray[np.float64] = np.where(mask, np.maximum(distance_mm - min(spacing_mm) / 2, 0), 0)
    return depth_mm


def _fat(image: Floats, inner: Mask, spacing_mm: Spacing) -> Floats:
    ndimage = scipy_part("ndimage")
    reach = tuple(2 * round(_FAT_MM / d / 2) + 1 for d in spacing_mm)
    calm = _mean_inside(image, inner, 1.5, spacing_mm)
    floor = ndimage.minimum_filter(np.where(inner, calm, np.inf), reach)
    envelope = ndimage.maximum_filter(np.where(inner, floor, -np.inf), reach)
    fat = _mean_inside(np.where(inner, envelope, 0), inner, _FAT_MM / 2, spacing_mm)
    return np.where(inner, fat, np.inf).astype(np.float32)


def _mean_inside(image: Floats, inside: Mask, sigma_mm: float, spacing_mm: Spacing) -> Floats:
    ndimage = scipy_part("ndimage")
    sigma = sigma_mm / np.array(spacing_mm)
    weight = ndimage.gaussian_filter(inside.astype(np.float32), sigma)
    mean: Floats = ndimage.gaussian_filter(np.where(inside, image, 0), sigma) / np.maximum(weight, 1e-6)
    return mean


def _gland_share(even: Floats, inner: Mask) -> Floats:
    values = even[inner]
    # A few vessels are brighter than any gland, and would pull the threshold up.
    threshold = otsu(np.minimum(values, np.percentile(values, 99.5)))
    dark, bright = values[values < threshold], values[values >= threshold]
    fat, gland = dark.mean() + dark.std(), bright.mean()
    share: Floats = np.clip((even - fat) / (gland - fat), 0, 1)
    return share
