"""How much the tissues of a breast attenuate X-rays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

import numpy as np

from duotomo.errors import DuotomoError


class Tissue(Enum):
    """The materials that the FDA's VICTRE phantoms are made of.

    Examples
    --------
    >>> Tissue("skin") is Tissue.SKIN
    True
    """

    ADIPOSE = "adipose"
    GLANDULAR = "glandular"
    MASS = "mass"
    SKIN = "skin"
    NIPPLE = "nipple"
    LIGAMENT = "ligament"
    MUSCLE = "muscle"
    DUCT = "duct"
    LOBULE = "lobule"
    BLOOD = "blood"
    PADDLE = "paddle"
    CALCIFICATION = "calcification"


_ENERGIES_KEV = (18.0, 20.0, 22.0, 25.0, 30.0)

_MUSCLE = (1.1116, 0.8646, 0.7003, 0.5424, 0.3999)
_SKIN = (1.0765, 0.8410, 0.6845, 0.5341, 0.3983)

# 1/cm, at the energies above. Lobule: the terminal duct lobular unit. Mass: glandular tissue of density 1.06
# instead of 1.035 g/cm^3. Paddle: polystyrene. Calcification: calcium oxalate.
_PER_CM = {
    Tissue.ADIPOSE: (0.6347, 0.5126, 0.4312, 0.3528, 0.2812),
    Tissue.GLANDULAR: (0.9797, 0.7673, 0.6264, 0.4910, 0.3690),
    Tissue.MASS: (1.0034, 0.7858, 0.6415, 0.5029, 0.3779),
    Tissue.SKIN: _SKIN,
    Tissue.NIPPLE: _SKIN,
    Tissue.LIGAMENT: (1.1225, 0.8757, 0.7117, 0.5541, 0.4118),
    Tissue.MUSCLE: _MUSCLE,
    Tissue.DUCT: _MUSCLE,
    Tissue.LOBULE: _MUSCLE,
    Tissue.BLOOD: (1.0890, 0.8457, 0.6839, 0.5282, 0.3878),
    Tissue.PADDLE: (0.5623, 0.4658, 0.4014, 0.3393, 0.2822),
    Tissue.CALCIFICATION: (11.02, 8.192, 6.272, 4.402, 2.696),
}

JOHNS_YAFFE_20_KEV_PER_MM: Mapping[Tissue, float] = MappingProxyType(
    {Tissue.ADIPOSE: 0.0456, Tissue.GLANDULAR: 0.0802, Tissue.MASS: 0.0844}
)
"""Another opinion: measured at 20 keV, 1/mm; the mass is a carcinoma.

P. C. Johns and M. J. Yaffe, "X-ray characterisation of normal and neoplastic breast tissues", Physics in
Medicine and Biology 32 (1987) 675, as used in the FDA's ReconDBT example.
"""


def attenuation_per_mm(tissue: Tissue, *, energy_kev: float) -> float:
    """Return the linear attenuation of a tissue for photons of one energy.

    `log mu` is linear in `log energy` between 18, 20, 22, 25 and 30 keV, where it is that of VICTRE's
    simulation (MC-GPU; all interactions, Rayleigh scattering among them): A. Badano et al., JAMA Network Open
    1 (2018) e185474, doi:10.1001/jamanetworkopen.2018.5474.

    Parameters
    ----------
    tissue : Tissue
        The material.
    energy_kev : float
        Of the photons, 18 to 30 keV.

    Returns
    -------
    float
        mu, 1/mm.

    Raises
    ------
    DuotomoError
        If the energy is outside of the table.
    """
    lowest, highest = _ENERGIES_KEV[0], _ENERGIES_KEV[-1]
    if not lowest <= energy_kev <= highest:
        raise DuotomoError(
            f"attenuation_per_mm: expected {lowest:g} <= energy_kev <= {highest:g}; got {energy_kev}. "
            f"The table ends there: choose an energy of mammography, in keV."
        )
    log_energies, logs_per_cm = np.log(_ENERGIES_KEV), np.log(_PER_CM[tissue])
    return math.exp(np.interp(math.log(energy_kev), log_energies, logs_per_cm)) / 10
