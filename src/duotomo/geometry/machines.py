"""Published tomosynthesis machines, each a function that returns its `Acquisition`.

They have their full number of pixels; `Acquisition.bin` makes a small scan of one. In all of them the source
is taken to be above the chest-wall edge (y = 0), and the views evenly spaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from duotomo.geometry.acquisition import Acquisition


def _arc(
    n_views: int,
    range_deg: float,
    source_mm: float,
    pivot_mm: float,
    detector_shape: tuple[int, int],
    pixel_mm: float,
    *,
    tilt_deg: float = 0.0,
) -> Acquisition:
    """Return an arc with square pixels. source_mm, pivot_mm: their heights above the detector."""
    return Acquisition.arc(
        n_views=n_views,
        angle_range_rad=math.radians(range_deg),
        source_to_detector_mm=source_mm,
        pivot_height_mm=pivot_mm,
        detector_shape=detector_shape,
        pixel_spacing_mm=(pixel_mm, pixel_mm),
        detector_tilt_range_rad=math.radians(tilt_deg),
    )


def paper(*, detector_shape: tuple[int, int] = (128, 128), pixel_mm: float = 1.0) -> Acquisition:
    """Return the scan of the simulated experiments of the coupled reconstruction and registration paper.

    Published: 11 views over 50 degrees in total (Yang, Hipwell, Hawkes, Arridge, "Numerical Methods for
    Coupled Reconstruction and Registration in Digital Breast Tomosynthesis", 2012).
    Chosen here, since it gives neither: source to detector 660 mm, pivot on the detector, 128 x 128 pixels of
    1 mm.

    Parameters
    ----------
    detector_shape : tuple of int
        Pixels along (v, u).
    pixel_mm : float
        Edge of a pixel.

    Returns
    -------
    Acquisition
        11 views.

    Examples
    --------
    >>> paper().shape
    (11, 128, 128)
    """
    return _arc(11, 50, 660.0, 0.0, detector_shape, pixel_mm)


def ge_senoclaire() -> Acquisition:
    """Return the scan of the GE SenoClaire.

    Published: 9 views over 25 degrees, source to detector 660 mm, pivot 40 mm above a detector that does not
    move, pixels of 0.1 mm (Sechopoulos, "A review of breast tomosynthesis. Part I", Med Phys 40, 2013,
    014301, table of systems).
    Chosen here: 2394 x 3062 pixels (24 x 30.7 cm), as in the open DBT-Reconstruction toolbox of LAVI-USP.

    Returns
    -------
    Acquisition
        9 views.
    """
    return _arc(9, 25, 660.0, 40.0, (2394, 3062), 0.1)


def hologic_dimensions() -> Acquisition:
    """Return the scan of the Hologic Selenia Dimensions, whose detector turns with the tube.

    Published: 15 views over 15 degrees, source to detector 700 mm, pivot on the detector, pixels of 0.14 mm
    (2 x 2 of 0.07 mm), a detector of about 24 x 29 cm that tilts (Sechopoulos, "A review of breast
    tomosynthesis. Part I", Med Phys 40, 2013, 014301, table of systems).
    Chosen here: 4.2 degrees of tilt in total, evenly spaced, and 1664 x 2048 pixels (23.3 x 28.7 cm), as in
    the open DBT-Reconstruction toolbox of LAVI-USP.

    Returns
    -------
    Acquisition
        15 views.
    """
    return _arc(15, 15, 700.0, 0.0, (1664, 2048), 0.14, tilt_deg=4.2)


def siemens_inspiration() -> Acquisition:
    """Return the scan of the Siemens Mammomat Inspiration.

    Published: 25 views over 50 degrees, pivot 47 mm above a detector that does not move, pixels of 0.085 mm,
    a detector of 24 x 30 cm (Sechopoulos, "A review of breast tomosynthesis. Part I", Med Phys 40, 2013,
    014301, table of systems).
    Chosen here: source to detector 650 mm, as in the VICTRE model of this machine, and 2816 x 3584 pixels,
    which that size and that pixel make.

    Returns
    -------
    Acquisition
        25 views.
    """
    return _arc(25, 50, 650.0, 47.0, (2816, 3584), 0.085)


def victre() -> Acquisition:
    """Return the scan of the VICTRE virtual trial.

    Published: 25 views from -25 to +25 degrees, source to detector 650 mm, source to pivot 600 mm (so the
    pivot is 50 mm above the detector), 3000 x 1500 pixels of 0.085 mm on a detector that does not move
    (Badano et al., JAMA Netw Open 2018;1(7):e185474, and the MC-GPU configuration of the VICTRE pipeline).
    Chosen here: nothing but the source above the chest-wall edge.

    Returns
    -------
    Acquisition
        25 views.
    """
    return _arc(25, 50, 650.0, 50.0, (1500, 3000), 0.085)


MACHINES: dict[str, Callable[[], Acquisition]] = {
    "paper": paper,
    "ge_senoclaire": ge_senoclaire,
    "hologic_dimensions": hologic_dimensions,
    "siemens_inspiration": siemens_inspiration,
    "victre": victre,
}
"""Published machines, by name."""
