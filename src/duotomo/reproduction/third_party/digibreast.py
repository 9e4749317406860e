"""DigiBreast: a real, compressed breast whose share of gland was measured with two energies."""

from __future__ import annotations

import os

import numpy as np

from duotomo.io.libraries import nibabel
from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
from duotomo.phantoms.sampled import Sampled
from duotomo.reproduction.third_party.files import Origin, find
from duotomo.reproduction.third_party.standing import standing

ORIGIN = Origin(
    source="github.com/OpenJData/DigiBreast, data/DigiBreast_lzma.jdat (Deng, Fang et al. 2015)",
    licence="public domain",
    making="Rasterise ForwardMesh.glandularity.truth on voxels of 1 mm, with -1 outside the breast.",
)

FILE = "digibreast/digibreast_glandularity_1mm.nii.gz"


def digibreast(folder: str | os.PathLike[str], *, energy_kev: float = 20.0) -> Sampled:
    """Return the attenuation of a compressed breast in voxels of 1 mm: `g mu_glandular + (1 - g) mu_adipose`.

    The share g of gland is a woman's, measured along X-rays (cranio-caudal), and so constant through the
    thickness of about 30 mm. There is no skin.

    folder: holds digibreast/.
    """
    image = nibabel().load(find(folder, FILE, how_to_get=ORIGIN))
    d_x, d_y, d_z = (float(str(d)) for d in image.header.get_zooms())
    # The file's own order, (lateral, chest wall to nipple, up), whatever its header calls these directions.
    gland = np.asarray(image.dataobj, dtype=np.float32).transpose(2, 1, 0)
    adipose, glandular = (
        attenuation_per_mm(tissue, energy_kev=energy_kev) for tissue in (Tissue.ADIPOSE, Tissue.GLANDULAR)
    )
    return standing(np.where(gland < 0, 0, adipose + gland * (glandular - adipose)), (d_z, d_y, d_x))
