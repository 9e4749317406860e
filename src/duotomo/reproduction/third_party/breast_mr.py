"""Pendant breasts of two women, segmented from magnetic resonance images."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from duotomo.errors import DuotomoError
from duotomo.io.libraries import nibabel
from duotomo.phantoms.attenuation import Tissue, attenuation_per_mm
from duotomo.phantoms.sampled import Sampled
from duotomo.reproduction.third_party.files import Origin, find, standing
from duotomo.reproduction.third_party.segmentation import Floats, Segmented, Spacing, segment

ORIGIN = Origin(
    source="github.com/MIMBCD-UI/dataset-uta4-dicom and dataset-uta11-dicom (F. M. Calisto et al.)",
    licence="AGPL-3.0 and CC BY-SA 4.0, derived images under the same",
    making="Write the T1 series with fat suppression as NIfTI, cropped to both breasts and not resampled.",
)


@dataclass(frozen=True, kw_only=True)
class _Patient:
    file: str
    chest_wall_mm: float


# Read off the images: in front of these planes neither sternum nor pectoral muscle is left.
_PATIENTS = {
    "A": _Patient(file="breast_mr/A_69b91dc2_dyn_t0_pre.nii.gz", chest_wall_mm=18.0),
    "C": _Patient(file="breast_mr/C_313efebf_s09.nii.gz", chest_wall_mm=30.0),
}


def breast_mr(
    folder: str | os.PathLike[str],
    *,
    patient: str = "A",
    energy_kev: float = 20.0,
    mediolateral: bool = False,
) -> Sampled:
    """Return the attenuation of a real woman's left breast, hanging and not compressed.

    `mu = mu_skin` in the skin and `mu = g mu_glandular + (1 - g) mu_adipose` inside, with the share g of
    gland as in `segment`. The intensities themselves are not attenuation, and are not used as such.

    folder: holds breast_mr/. patient: "A" (scattered gland) or "C" (denser). The voxels are the image's own,
    1.2 x 1.02 x 1.02 mm. Seen from above (cranio-caudal), z is superior, y anterior, x the patient's right:
    the breast is about 170 mm high then. With `mediolateral` it is seen from its medial side, where it is
    about 70 mm thick: z is the patient's right, x inferior.
    """
    if patient not in _PATIENTS:
        raise DuotomoError(
            f"breast_mr: expected patient to be one of {', '.join(_PATIENTS)}; got {patient!r}. Choose one."
        )
    chosen = _PATIENTS[patient]
    image, spacing_mm = _image(find(folder, chosen.file, how_to_get=ORIGIN))
    parts = segment(image, spacing_mm, chest_wall_mm=chosen.chest_wall_mm)
    volume = _attenuation_per_mm(parts, energy_kev)
    if mediolateral:
        # x, y, z become -z, y, x: a rotation about y, so that left stays left.
        return standing(volume.transpose(2, 1, 0)[:, :, ::-1], spacing_mm[::-1])
    return standing(volume, spacing_mm)


def _attenuation_per_mm(parts: Segmented, energy_kev: float) -> Floats:
    adipose, glandular, skin = (
        attenuation_per_mm(tissue, energy_kev=energy_kev)
        for tissue in (Tissue.ADIPOSE, Tissue.GLANDULAR, Tissue.SKIN)
    )
    inside = adipose + parts.gland * (glandular - adipose)
    return np.where(parts.skin, skin, np.where(parts.breast, inside, 0)).astype(np.float32)


def _image(path: Path) -> tuple[Floats, Spacing]:
    """Return the intensities, (z, y, x) along Superior, Anterior and Right, and the spacing of voxels."""
    nib = nibabel()
    image = nib.as_closest_canonical(nib.load(path))
    d_x, d_y, d_z = (float(str(d)) for d in image.header.get_zooms())
    return np.asarray(image.dataobj, dtype=np.float32).transpose(2, 1, 0), (d_z, d_y, d_x)
