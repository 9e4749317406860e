"""Initial guess of the motion, from the centre of attenuation of each visit."""

from __future__ import annotations

import torch

from duotomo.errors import GeometryError
from duotomo.geometry import Acquisition
from duotomo.methods.study import Study, Visit
from duotomo.transforms import Translation


def centroid_mm(visit: Visit) -> torch.Tensor:
    """Return the centre of attenuation of a visit, triangulated from its views.

    In each view the centre lies near the ray from the source to the mean pixel, weighted by the line
    integrals; the point nearest to all these rays is `(sum (1 - d d^T))^-1 sum (1 - d d^T) s`, with s the
    sources and d the rays' directions. Truncated views shift it towards the part of the breast that they
    show.

    Parameters
    ----------
    visit : Visit
        Line integrals and their acquisition; rays of weight zero are left out.

    Returns
    -------
    torch.Tensor
        (xyz,), float64 on the CPU, in mm.
    """
    acquisition = visit.acquisition
    mass, u_mm, v_mm = view_centers_mm(visit)
    seen = mass > 0.01 * mass.max()
    source, center, u_axis, v_axis = (rows[seen] for rows in view_vectors(acquisition))
    pixel = center + u_mm[seen, None] * u_axis + v_mm[seen, None] * v_axis
    ray = torch.nn.functional.normalize(pixel - source, dim=1)
    across = torch.eye(3, dtype=torch.float64) - ray[:, :, None] * ray[:, None, :]
    # Views from one place do not cross: the solution of least norm is then a point on the ray.
    inverse: torch.Tensor = torch.linalg.pinv(across.sum(dim=0), hermitian=True)
    return (inverse @ (across @ source[:, :, None]).sum(dim=0))[:, 0]


def view_vectors(acquisition: Acquisition) -> tuple[torch.Tensor, ...]:
    """Return sources, centres of the detector, in mm, and its axes u and v: each (view, xyz), float64."""
    vectors = (acquisition.source_mm, acquisition.detector_center_mm, acquisition.u_axis, acquisition.v_axis)
    return tuple(torch.tensor(rows, dtype=torch.float64) for rows in vectors)


def view_centers_mm(visit: Visit) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the attenuation that each view shows, and its centre along u and v from the detector's middle.

    Parameters
    ----------
    visit : Visit
        Line integrals and their acquisition; rays of weight zero are left out.

    Returns
    -------
    mass : torch.Tensor
        Sum of the line integrals, (view,), float64 on the CPU.
    u_mm, v_mm : torch.Tensor
        (view,), in mm; zero where there is no mass.
    """
    (n_v, n_u), (d_v, d_u) = visit.acquisition.detector_shape, visit.acquisition.pixel_spacing_mm
    positive = visit.projections.clamp(min=0)
    if visit.weights is not None:
        positive = torch.where(visit.weights > 0, positive, torch.zeros_like(positive))
    along_v = positive.sum(dim=2, dtype=torch.float64).cpu()
    along_u = positive.sum(dim=1, dtype=torch.float64).cpu()
    mass = along_v.sum(dim=1)
    v_mm = (along_v @ (torch.arange(n_v, dtype=torch.float64) - (n_v - 1) / 2)) * d_v / mass.clamp(min=1e-30)
    u_mm = (along_u @ (torch.arange(n_u, dtype=torch.float64) - (n_u - 1) / 2)) * d_u / mass.clamp(min=1e-30)
    return mass, u_mm, v_mm


def initial_translations_mm(study: Study) -> list[list[float]]:
    """Return the translation from the centre of attenuation of each moving visit to that of the reference.

    Parameters
    ----------
    study : Study
        The visits, reference first.

    Returns
    -------
    list of list of float
        moving_to_reference, (x, y, z) in mm, of each moving visit.

    Examples
    --------
    >>> from duotomo.geometry import VolumeGrid, paper
    >>> from duotomo.operators import Projector
    >>> grid, scan = VolumeGrid.on_detector((16, 16, 16), (4.0, 4.0, 4.0)), paper().bin(2)
    >>> volumes = torch.zeros(2, 16, 16, 16)
    >>> volumes[0, 7:9, 7:9, 7:9], volumes[1, 8:10, 7:9, 5:7] = 1, 1
    >>> views = Projector(grid=grid, acquisition=scan)(volumes)
    >>> visits = tuple(Visit(projections=view, acquisition=scan) for view in views)
    >>> [round(t, 1) + 0.0 for t in initial_translations_mm(Study(grid=grid, visits=visits))[0]]
    [8.0, 0.0, -4.0]
    """
    reference = centroid_mm(study.reference)
    return [(reference - centroid_mm(visit)).tolist() for visit in study.moving]


def initial_params(study: Study, *, guess: bool = True) -> list[torch.Tensor]:
    """Return the parameters of a `Translation` that each moving visit starts from; zeros without `guess`."""
    shifts = [Translation(study.grid_of(visit)) for visit in study.moving]
    starts_mm = initial_translations_mm(study) if guess else [[0.0, 0.0, 0.0] for _ in shifts]
    params = [shift.params(translation_mm=mm) for shift, mm in zip(shifts, starts_mm, strict=True)]
    for number, (shift, row, mm) in enumerate(zip(shifts, params, starts_mm, strict=True), start=2):
        try:
            shift.warp(row, study.grid, shift.grid)
        except GeometryError as error:
            x, y, z = mm
            remedy = "whether the data show one breast" if guess else "initial_guess=True"
            raise GeometryError(
                f"Study, visit {number}: expected its grid to meet that of the reference when moved by the "
                f"start, (x, y, z) = ({x:.4g}, {y:.4g}, {z:.4g}) mm; got grids that share no volume. Check "
                f"center_mm of both grids, the origins of both scans, the order of their views, and {remedy}."
            ) from error
    return params
