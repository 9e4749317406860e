"""The breast of `duotomo demo`: compressed differently at two visits, with a new mass at the later one."""

from __future__ import annotations

import math

from duotomo.geometry import paper
from duotomo.phantoms import Density
from duotomo.simulate.options import LesionVisits, SimulationOptions
from duotomo.simulate.visits import SimulatedVisits, make_visits

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
