"""What every view of a scan has to satisfy, and how views are spaced and selected."""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duotomo.errors import GeometryError
from duotomo.geometry._values import Triple, counts, triples

Floats = NDArray[np.float64]
Rows = tuple[Triple, ...]

_TOLERANCE = 1e-6


def check_views(*, source_mm: Rows, detector_center_mm: Rows, u_axis: Rows, v_axis: Rows) -> None:
    """Raise unless every view has a detector with unit axes at right angles, below a source off its plane."""
    where = "Acquisition"
    n_views = {
        "source_mm": len(source_mm),
        "detector_center_mm": len(detector_center_mm),
        "u_axis": len(u_axis),
        "v_axis": len(v_axis),
    }
    if len(set(n_views.values())) > 1:
        raise GeometryError(
            f"{where}: expected the same number of views in all; got {n_views}. Give every view each of them."
        )
    frames = zip(*map(np.array, (source_mm, detector_center_mm, u_axis, v_axis)), strict=True)
    for view, (source, center, u, v) in enumerate(frames):
        for name, axis in (("u_axis", u), ("v_axis", v)):
            norm = float(np.linalg.norm(axis))
            if abs(norm - 1) > _TOLERANCE:
                raise GeometryError(
                    f"{where}: expected {name} of length 1; got length {norm} in view {view}. "
                    f"Divide it by its length, or use Acquisition.from_vectors."
                )
        cosine = float(u @ v)
        if abs(cosine) > _TOLERANCE:
            raise GeometryError(
                f"{where}: expected u_axis and v_axis at right angles; got a cosine of {cosine} "
                f"in view {view}. Make the pixels rectangular."
            )
        if not center[2] < source[2]:
            raise GeometryError(
                f"{where}: expected the detector below the source; got detector z = {center[2]} mm and "
                f"source z = {source[2]} mm in view {view}: detector behind the source. "
                f"Measure z from the detector up."
            )
        distance_mm = abs(float((source - center) @ np.cross(u, v)))
        if distance_mm <= _TOLERANCE:
            raise GeometryError(
                f"{where}: expected the source off the detector's plane; got a distance of {distance_mm} mm "
                f"in view {view}. Turn the detector towards the source."
            )


def even_steps(where: str, n_views: int) -> Floats:
    """Return `n_views` even steps from -1/2 to 1/2, (view,); 0 for one view."""
    (n,) = counts(where, "n_views", (n_views,), ("view",))
    # Counted from the middle: the steps are exactly symmetric and the middle one is exactly zero.
    return (np.arange(n) - (n - 1) / 2) / max(n - 1, 1)


def unit_vectors(name: str, vectors_mm: ArrayLike) -> tuple[Floats, float]:
    """Split one vector per view into unit vectors (view, xyz) and the length they share."""
    where = "Acquisition.from_vectors"
    vectors = np.array(triples(where, name, vectors_mm))
    norms = np.linalg.norm(vectors, axis=1)
    if norms.min() <= 0 or np.ptp(norms) > _TOLERANCE:
        raise GeometryError(
            f"{where}: expected {name} of one positive length in all views; got {norms.min()} to "
            f"{norms.max()} mm. Resample the views to one pixel spacing."
        )
    return vectors / norms[:, None], float(norms.mean())


def view_numbers(views: object, n_views: int) -> list[int]:
    """Return the numbers of the views that an index, a slice, indices or a mask selects."""
    where = f"Acquisition[{views!r}]"
    if isinstance(views, slice):
        kept = list(range(n_views))[views]
    else:
        try:
            wanted = [operator.index(views)]  # type: ignore[arg-type]
        except TypeError:
            wanted = _indices(where, views, n_views)
        kept = [view + n_views if view < 0 else view for view in wanted]
        if any(not 0 <= view < n_views for view in kept):
            raise GeometryError(
                f"{where}: expected views from {-n_views} to {n_views - 1}; got {wanted}. "
                f"The scan has {n_views} views."
            )
    if not kept:
        raise GeometryError(
            f"{where}: expected at least one view; got zero of {n_views}. Select one or more."
        )
    return kept


def _indices(where: str, views: object, n_views: int) -> list[int]:
    array = np.asarray(views)
    if array.ndim == 1 and array.dtype == np.bool_ and len(array) == n_views:
        return [int(view) for view in np.flatnonzero(array)]
    if array.ndim == 1 and (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        return [int(view) for view in array]
    raise GeometryError(
        f"{where}: expected an index, a slice, a list of indices or a mask of {n_views} views; got "
        f"{array.dtype} of shape {array.shape}. Select views with one of these."
    )
