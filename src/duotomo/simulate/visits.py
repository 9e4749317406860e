"""Visits of built-in phantoms, with the truth about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from duotomo.errors import DuotomoError, GeometryError
from duotomo.geometry import MACHINES, Acquisition, paper
from duotomo.phantoms import Density
from duotomo.simulate.options import LesionVisits, PhantomKind, SimulationOptions, Triple
from duotomo.simulate.scene import Scene
from duotomo.simulate.visit import SimulatedVisit, simulate_visit
from duotomo.transforms import Motion


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedVisits:
    """The visits of one body, and what is true about them.

    Parameters
    ----------
    options : SimulationOptions
        What was asked for.
    visits : tuple of SimulatedVisit
        One or two; the first is the reference.
    scene : Scene
        What stood in the beam.
    """

    options: SimulationOptions
    visits: tuple[SimulatedVisit, ...]
    scene: Scene = field(repr=False)

    @property
    def acquisition(self) -> Acquisition:
        """How all visits were scanned."""
        return self.visits[0].acquisition

    @property
    def motion(self) -> Motion | None:
        """The true motion from the second visit to the first, moving_to_reference; None with one visit."""
        return self.scene.motion if self.options.second_visit else None

    @property
    def lesion_mm(self) -> Triple | None:
        """Middle of the lesion in the frame of the first visit, xyz; None if no visit has one."""
        return None if self.options.lesion is LesionVisits.NONE else self.scene.lesion_mm

    def landmarks_mm(self, spacing_mm: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
        """Return where points of tissue are at both visits of a breast.

        Parameters
        ----------
        spacing_mm : float
            Distance between the points at rest.

        Returns
        -------
        moving_mm : torch.Tensor
            At the second visit, (point, xyz), in mm.
        reference_mm : torch.Tensor
            The same tissue at the first visit, (point, xyz), in mm.

        Raises
        ------
        DuotomoError
            If there is one visit only, or the phantom is not a breast.
        """
        if self.options.phantom is not PhantomKind.BREAST or not self.options.second_visit:
            raise DuotomoError(
                f"landmarks_mm: expected two visits of a breast; got {self.options.n_visits} of a "
                f"{self.options.phantom.value}. Pass `second_visit=True` and `phantom='breast'`."
            )
        return self.scene.landmarks_mm(spacing_mm)


def make_visits(
    options: SimulationOptions, acquisition: Acquisition | None = None, *, device: str = "cpu"
) -> SimulatedVisits:
    """Simulate scans of a built-in phantom, with noise, on a finer grid than a reconstruction's.

    Parameters
    ----------
    options : SimulationOptions
        What to simulate.
    acquisition : Acquisition, optional
        How, instead of the options' machine.
    device : str
        Where to compute; the results are in main memory.

    Returns
    -------
    SimulatedVisits
        One visit or two, on grids whose voxels are as wide as the pixels, and the truth.

    Raises
    ------
    DuotomoError
        If the machine is not known, or the body cannot be made or compressed.

    Examples
    --------
    >>> options = SimulationOptions(phantom=PhantomKind.TOROID, second_visit=True, n_views=3, pixel_mm=8.0)
    >>> pair = make_visits(options)
    >>> len(pair.visits), pair.motion.transform.__class__.__name__
    (2, 'Rigid')
    """
    if acquisition is None:
        acquisition = machine_acquisition(options.machine, n_views=options.n_views, pixel_mm=options.pixel_mm)
    scene = Scene(options=options, voxel_mm=acquisition.pixel_spacing_mm[0])
    visits = []
    for number in range(1, options.n_visits + 1):
        moved = number == 2 and not options.compressed
        visit = simulate_visit(
            scene.phantom(number),
            scene.grid(number),
            acquisition,
            seed=options.noise_seed(number),
            photons_per_mm2=options.photons_per_mm2,
            motion=scene.motion if moved else None,
            device=device,
        )
        visits.append(replace(visit, projections=visit.projections.cpu()))
    return SimulatedVisits(options=options, visits=tuple(visits), scene=scene)


def machine_acquisition(machine: str, *, n_views: int | None = None, pixel_mm: float = 0.5) -> Acquisition:
    """Return the scan of a machine, with fewer views and larger pixels where asked for.

    Parameters
    ----------
    machine : str
        One of `duotomo.geometry.MACHINES`.
    n_views : int, optional
        Views, evenly chosen; all of them unless given.
    pixel_mm : float
        Pixels are united to about this size.

    Returns
    -------
    Acquisition
        With pixels of a whole multiple of the machine's.

    Raises
    ------
    GeometryError
        If the machine is not known, or has fewer views.

    Examples
    --------
    >>> machine_acquisition("paper", n_views=5, pixel_mm=4.0).shape
    (5, 32, 32)
    """
    where = "machine_acquisition"
    if machine not in MACHINES:
        raise GeometryError(
            f"{where}: expected `machine` as one of {', '.join(MACHINES)}; got {machine!r}. Choose one."
        )
    acquisition = MACHINES[machine]()
    if n_views is not None:
        if n_views > acquisition.n_views:
            raise GeometryError(
                f"{where}: expected `n_views` of at most {acquisition.n_views}, which {machine} has; got "
                f"{n_views}. Choose fewer."
            )
        chosen = np.linspace(0, acquisition.n_views - 1, n_views).round().astype(int)
        middle = acquisition.n_views // 2
        acquisition = acquisition[chosen if n_views > 1 else [middle]]
    factors = [max(1, round(pixel_mm / spacing_mm)) for spacing_mm in acquisition.pixel_spacing_mm]
    return acquisition.bin((factors[0], factors[1]))


DETECTOR_MM = (56.0, 150.0)
"""(v, u): as wide as the projection of the breast in the outermost views."""


def demo_pair(*, voxel_mm: float = 1.0, seed: int = 0, device: str = "cpu") -> SimulatedVisits:
    """Simulate today's visit of a breast, the reference, and the prior one.

    At the prior visit the breast was 48 mm thick between the plates, not 44, and turned by 5 degrees. Since
    then a mass of 8 mm has grown. All of the breast is in view: nothing enters or leaves.

    Parameters
    ----------
    voxel_mm : float
        Of the volumes that the scans are meant for, in plane; pixels have the same size, and the scans are
        made on a grid twice as fine.
    seed : int
        Of the noise.
    device : str
        Where to compute.

    Returns
    -------
    SimulatedVisits
        Today's visit first.
    """
    options = SimulationOptions(
        density=Density.B,
        chest_wall_mm=4.0,
        compressed=True,
        thickness_mm=44.0,
        second_visit=True,
        second_thickness_mm=48.0,
        roll_deg=5.0,
        lesion=LesionVisits.FIRST,
        # In fat: a mass attenuates hardly more than gland, and nobody sees it there.
        lesion_mm=(-24.0, 17.0, 30.0),
        seed=1,
        noise_seeds=(2 * seed, 2 * seed + 1),
        rest_oversample=2,
    )
    n_v, n_u = (math.ceil(size / voxel_mm) for size in DETECTOR_MM)
    return make_visits(options, paper(detector_shape=(n_v, n_u), pixel_mm=voxel_mm), device=device)
