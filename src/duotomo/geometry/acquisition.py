"""One scan, described by its vectors in every view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from duotomo.errors import GeometryError
from duotomo.geometry._values import AsJson, Triple, counts, factors, lengths_mm, triples
from duotomo.geometry._views import check_views, even_steps, unit_vectors, view_numbers
from duotomo.geometry.binning import binned_pixels
from duotomo.geometry.grid import VolumeGrid
from duotomo.notebook.drawing import acquisition_html

Floats = NDArray[np.float64]

_PER_VIEW = ("source_mm", "detector_center_mm", "u_axis", "v_axis")
_DETECTOR = ("v", "u")


@dataclass(frozen=True, kw_only=True, init=False)
class Acquisition(AsJson):
    """The source and the detector in every view of one scan, in the machine frame.

    Pixel (v, u) of a view is centred at `c + (v - (n_v - 1)/2) d_v v_axis + (u - (n_u - 1)/2) d_u u_axis`.

    Parameters
    ----------
    source_mm : array_like
        Sources, (view, xyz), in mm.
    detector_center_mm : array_like
        Middles c of the detector, (view, xyz), in mm.
    u_axis, v_axis : array_like
        Unit vectors along the pixels' axes, at right angles, (view, xyz).
    pixel_spacing_mm : tuple of float
        Edges of a pixel, (v, u).
    detector_shape : tuple of int
        Pixels along (v, u).

    Raises
    ------
    GeometryError
        If a view cannot be: a source below the detector or in its plane, or axes that are no unit vectors at
        right angles.

    Examples
    --------
    >>> scan = Acquisition(source_mm=[(0, 0, 660)], detector_center_mm=[(0, 10, 0)], u_axis=[(1, 0, 0)],
    ...                    v_axis=[(0, 1, 0)], pixel_spacing_mm=(1, 1), detector_shape=(20, 30))
    >>> scan.shape
    (1, 20, 30)
    """

    source_mm: tuple[Triple, ...]
    detector_center_mm: tuple[Triple, ...]
    u_axis: tuple[Triple, ...]
    v_axis: tuple[Triple, ...]
    pixel_spacing_mm: tuple[float, float]
    detector_shape: tuple[int, int]

    # Written out, not generated: it takes arrays, and the fields hold plain tuples.
    def __init__(
        self,
        *,
        source_mm: ArrayLike,
        detector_center_mm: ArrayLike,
        u_axis: ArrayLike,
        v_axis: ArrayLike,
        pixel_spacing_mm: tuple[float, float],
        detector_shape: tuple[int, int],
    ) -> None:
        where = "Acquisition"
        for name, values in zip(_PER_VIEW, (source_mm, detector_center_mm, u_axis, v_axis), strict=True):
            object.__setattr__(self, name, triples(where, name, values))
        spacing_mm = lengths_mm(where, "pixel_spacing_mm", pixel_spacing_mm, _DETECTOR, positive=True)
        object.__setattr__(self, "pixel_spacing_mm", spacing_mm)
        object.__setattr__(self, "detector_shape", counts(where, "detector_shape", detector_shape, _DETECTOR))
        check_views(
            source_mm=self.source_mm,
            detector_center_mm=self.detector_center_mm,
            u_axis=self.u_axis,
            v_axis=self.v_axis,
        )

    @classmethod
    def arc(
        cls,
        *,
        n_views: int,
        angle_range_rad: float,
        source_to_detector_mm: float,
        pivot_height_mm: float,
        detector_shape: tuple[int, int],
        pixel_spacing_mm: tuple[float, float],
        source_y_mm: float = 0.0,
        detector_tilt_range_rad: float = 0.0,
    ) -> Acquisition:
        """Return a scan whose source turns over a detector that stays at z = 0, or turns after it by less.

        `source(t) = (R sin t, source_y, pivot + R cos t)`, `R = source_to_detector - pivot`, at `n_views`
        angles t evenly spaced from -angle_range/2 to +angle_range/2 (t = 0 for one view). The detector's low
        edge is y = 0; it is centred in x. It turns about the line x = 0, z = pivot, by angles a evenly spaced
        over `detector_tilt_range_rad`: `u_axis = (cos a, 0, -sin a)`, `center = (-pivot sin a, size_v / 2,
        pivot - pivot cos a)`.

        Parameters
        ----------
        n_views : int
            Number of views.
        angle_range_rad : float
            Of the source, from the first view to the last.
        source_to_detector_mm : float
            Height of the source above the detector in the middle of the sweep.
        pivot_height_mm : float
            Height of the axis that the source turns about, above the detector.
        detector_shape : tuple of int
            Pixels along (v, u).
        pixel_spacing_mm : tuple of float
            Edges of a pixel, (v, u).
        source_y_mm : float
            Where the source is along y; 0 is above the chest-wall edge.
        detector_tilt_range_rad : float
            Of the detector, from the first view to the last; 0 for one that stays.

        Returns
        -------
        Acquisition
            Views from negative to positive x.

        Raises
        ------
        GeometryError
            If a number is not finite, or the pivot is not below the source.

        Examples
        --------
        >>> scan = Acquisition.arc(
        ...     n_views=3, angle_range_rad=0.4, source_to_detector_mm=660, pivot_height_mm=0,
        ...     detector_shape=(20, 30), pixel_spacing_mm=(1, 1))
        >>> scan.source_mm[1], scan.detector_center_mm[1]
        ((0.0, 0.0, 660.0), (0.0, 10.0, 0.0))
        >>> scan = Acquisition.arc(
        ...     n_views=3, angle_range_rad=0.26, detector_tilt_range_rad=0.07, source_to_detector_mm=700,
        ...     pivot_height_mm=0, detector_shape=(20, 30), pixel_spacing_mm=(1, 1))
        >>> scan.normals[2].round(3).tolist()
        [0.035, 0.0, 0.999]
        """
        where = "Acquisition.arc"
        n_v, n_u = counts(where, "detector_shape", detector_shape, _DETECTOR)
        d_v, d_u = lengths_mm(where, "pixel_spacing_mm", pixel_spacing_mm, _DETECTOR, positive=True)
        angles_rad, lengths = (
            (angle_range_rad, detector_tilt_range_rad),
            (source_to_detector_mm, pivot_height_mm),
        )
        if not np.isfinite((*angles_rad, *lengths, source_y_mm)).all():
            raise GeometryError(
                f"{where}: expected finite angles and distances; got angles {angles_rad} rad, source to "
                f"detector and pivot {lengths} mm, source y {source_y_mm} mm. Give radians and millimetres."
            )
        radius_mm = source_to_detector_mm - pivot_height_mm
        if radius_mm <= 0:
            raise GeometryError(
                f"{where}: expected source_to_detector_mm above pivot_height_mm; got {source_to_detector_mm} "
                f"and {pivot_height_mm}. Measure both from the detector."
            )
        step = even_steps(where, n_views)
        source_rad, tilt_rad = angle_range_rad * step, detector_tilt_range_rad * step
        zero, one = np.zeros(n_views), np.ones(n_views)
        sin, cos = np.sin(tilt_rad), np.cos(tilt_rad)
        pivot_mm = pivot_height_mm
        source_z_mm = pivot_mm + radius_mm * np.cos(source_rad)
        return cls(
            source_mm=np.stack([radius_mm * np.sin(source_rad), source_y_mm * one, source_z_mm], axis=1),
            detector_center_mm=np.stack([-pivot_mm * sin, n_v * d_v / 2 * one, pivot_mm * (1 - cos)], axis=1),
            u_axis=np.stack([cos, zero, -sin], axis=1),
            v_axis=np.stack([zero, one, zero], axis=1),
            pixel_spacing_mm=(d_v, d_u),
            detector_shape=(n_v, n_u),
        )

    @classmethod
    def from_vectors(
        cls,
        *,
        source_mm: ArrayLike,
        detector_center_mm: ArrayLike,
        u_mm: ArrayLike,
        v_mm: ArrayLike,
        detector_shape: tuple[int, int],
    ) -> Acquisition:
        """Return a scan from the vectors that lead from one pixel to the next.

        `u_axis = u_mm / |u_mm|`, and the pixel's spacing is `|u_mm|`, the same in all views; likewise v.

        Parameters
        ----------
        source_mm, detector_center_mm : array_like
            Sources, and middles of the detector, (view, xyz), in mm.
        u_mm, v_mm : array_like
            From one pixel to the next along u and along v, (view, xyz), in mm.
        detector_shape : tuple of int
            Pixels along (v, u).

        Returns
        -------
        Acquisition
            With these views.

        Raises
        ------
        GeometryError
            If the lengths of the vectors differ between views, or a view cannot be.

        Examples
        --------
        >>> Acquisition.from_vectors(
        ...     source_mm=[(0, 0, 660)], detector_center_mm=[(0, 10, 0)], u_mm=[(0.5, 0, 0)],
        ...     v_mm=[(0, 2, 0)], detector_shape=(20, 30)).pixel_spacing_mm
        (2.0, 0.5)
        """
        (v_axis, d_v), (u_axis, d_u) = unit_vectors("v_mm", v_mm), unit_vectors("u_mm", u_mm)
        return cls(
            source_mm=source_mm,
            detector_center_mm=detector_center_mm,
            u_axis=u_axis,
            v_axis=v_axis,
            pixel_spacing_mm=(d_v, d_u),
            detector_shape=detector_shape,
        )

    @property
    def n_views(self) -> int:
        """Number of views."""
        return len(self.source_mm)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the projections (view, v, u)."""
        return (self.n_views, *self.detector_shape)

    @property
    def sources_mm(self) -> Floats:
        """Source positions, (view, xyz)."""
        return np.array(self.source_mm)

    @property
    def detector_centers_mm(self) -> Floats:
        """Middles of the detector, (view, xyz)."""
        return np.array(self.detector_center_mm)

    @property
    def u_axes(self) -> Floats:
        """Unit vectors along u, (view, xyz)."""
        return np.array(self.u_axis)

    @property
    def v_axes(self) -> Floats:
        """Unit vectors along v, (view, xyz)."""
        return np.array(self.v_axis)

    @property
    def normals(self) -> Floats:
        """Unit normals of the detector that look towards the source, (view, xyz): `+- u x v`."""
        normal = np.cross(self.u_axes, self.v_axes)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True)
        side = np.sum((self.sources_mm - self.detector_centers_mm) * normal, axis=1, keepdims=True)
        facing: Floats = np.where(side < 0, -normal, normal) + 0.0
        return facing

    @property
    def angles_rad(self) -> Floats:
        """Source angles about y, (view,): `atan2(s_x - c_x, s_z - c_z)`, c the mean detector centre."""
        from_center = self.sources_mm - self.detector_centers_mm.mean(axis=0)
        angles: Floats = np.arctan2(from_center[:, 0], from_center[:, 2])
        return angles

    def _repr_html_(self) -> str:
        pixels = self.detector_shape, self.pixel_spacing_mm
        return acquisition_html(
            self.sources_mm, self.detector_centers_mm, self.u_axes, self.angles_rad, *pixels
        )

    def __len__(self) -> int:
        return self.n_views

    def __iter__(self) -> Iterator[Acquisition]:
        return (self[view] for view in range(self.n_views))

    def __getitem__(
        self, views: int | slice | Sequence[int] | Sequence[bool] | NDArray[np.generic]
    ) -> Acquisition:
        """Return the scan of some views only.

        Parameters
        ----------
        views : int, slice, sequence of int or of bool, or numpy.ndarray
            An index, a slice, indices or a mask.

        Returns
        -------
        Acquisition
            Of these views, in this order.

        Raises
        ------
        GeometryError
            If there is no such view, or none is chosen.
        """
        kept = view_numbers(views, self.n_views)
        return Acquisition(
            source_mm=[self.source_mm[view] for view in kept],
            detector_center_mm=[self.detector_center_mm[view] for view in kept],
            u_axis=[self.u_axis[view] for view in kept],
            v_axis=[self.v_axis[view] for view in kept],
            pixel_spacing_mm=self.pixel_spacing_mm,
            detector_shape=self.detector_shape,
        )

    def bin(self, factor: int | tuple[int, int]) -> Acquisition:
        """Return the scan whose pixels are unions of pixels of this one.

        The low corner stays; `detector_shape = floor(detector_shape / factor)`, a remainder at the high end
        is left out. An axis shorter than the factor becomes one pixel. `bin_projections` does the same to the
        data.

        Parameters
        ----------
        factor : int or tuple of int
            Pixels united along (v, u).

        Returns
        -------
        Acquisition
            With the same views.

        Examples
        --------
        >>> from duotomo.geometry import paper
        >>> paper().bin(3).detector_shape
        (42, 42)
        """
        f_v, f_u = factors("Acquisition.bin", factor, _DETECTOR)
        (n_v, f_v), (n_u, f_u) = map(binned_pixels, self.detector_shape, (f_v, f_u))
        d_v, d_u = self.pixel_spacing_mm
        lost_v_mm = (self.detector_shape[0] - n_v * f_v) * d_v
        lost_u_mm = (self.detector_shape[1] - n_u * f_u) * d_u
        return Acquisition(
            source_mm=self.source_mm,
            detector_center_mm=self.detector_centers_mm
            - (lost_v_mm * self.v_axes + lost_u_mm * self.u_axes) / 2,
            u_axis=self.u_axis,
            v_axis=self.v_axis,
            pixel_spacing_mm=(d_v * f_v, d_u * f_u),
            detector_shape=(n_v, n_u),
        )

    def check_above(self, grid: VolumeGrid) -> None:
        """Raise unless the source is above a grid's top face in every view: `s_z > grid.high_mm[0]`.

        Parameters
        ----------
        grid : VolumeGrid
            Of the body.

        Raises
        ------
        GeometryError
            If a source is not above it.
        """
        top_mm = grid.high_mm[0]
        for view, (_, _, height_mm) in enumerate(self.source_mm):
            if not height_mm > top_mm:
                raise GeometryError(
                    f"Acquisition.check_above: expected the source above the grid's top face, z = {top_mm} "
                    f"mm; got z = {height_mm} mm in view {view}. Lower or thin the grid, or drop that view."
                )
