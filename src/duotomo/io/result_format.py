"""The format of a result folder: names of files, and the text that says which is what and resamples which."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import duotomo

if TYPE_CHECKING:
    from duotomo.io.result_files import ResultFile
    from duotomo.methods.result import Result


SETTINGS, PICTURE, PAGE = "settings.toml", "three_views.png", "report.html"
DRAWN = (SETTINGS, PICTURE, PAGE)
"""What the commands put beside a result."""


class ResultFormat(Enum):
    """A format in which `write_result` writes volumes too; DICOM also has the motions."""

    MHA = "mha"
    NRRD = "nrrd"
    DICOM = "dicom"


def motion_file(visit: int) -> str:
    """Return the name of the file with the motion of a visit, counted from 1."""
    return f"visit_{visit}_to_reference.tfm"


def inverse_file(visit: int) -> str:
    """Return the name of the file with the inverse of that motion."""
    return f"reference_to_visit_{visit}.tfm"


def uncertainty_file(visit: int) -> str:
    """Return the name of the file that says how sure the motion of a visit is."""
    return f"visit_{visit}_uncertainty.json"


def deviation_file(visit: int) -> str:
    """Return the name of the image of standard deviations beside it."""
    return f"visit_{visit}_uncertainty.nii.gz"


def covariance_file(visit: int) -> str:
    """Return the name of the image of covariances beside it."""
    return f"visit_{visit}_covariance.nii.gz"


FUSED_MASK = "fused_mask.nii.gz"
"""Where the volume `fused` is that of both views."""

_OURS = re.compile(
    r"(volume|current|fused|visit_\d+(_registered)?)\.(nii\.gz|mha|nrrd|dcm)"
    r"|fused_mask\.nii\.gz"
    r"|visit_\d+_to_reference(\.tfm|\.dcm|_displacement\.nii\.gz)|reference_to_visit_\d+\.tfm"
    r"|visit_\d+_uncertainty\.(json|nii\.gz)|visit_\d+_covariance\.nii\.gz"
    r"|findings(\.json|\.csv|_segmentation\.dcm|_report\.dcm)|change_(z|silent)\.nii\.gz"
    r"|history\.csv|README\.txt|settings\.toml|three_views\.png|report\.html"
    r"|(transform|displacement)_\d+\.(tfm|nii\.gz)"
)


def is_ours(name: str) -> bool:
    """Return whether duotomo gives this name to a file of a result; version 1 had some others.

    >>> [is_ours(name) for name in ("visit_2.nii.gz", "report.html", "notes.txt", "../volume.nii.gz")]
    [True, True, False, False]
    """
    return _OURS.fullmatch(name) is not None


def readme_text(result: Result, files: Mapping[str, ResultFile]) -> str:
    """Return the text for a result with these files, by name."""
    width = max(map(len, files))
    lines = [
        f"A result of duotomo {duotomo.__version__}, method {result.method}: {result.status.value}. "
        f"{result.reason}",
        "",
        "Volumes are linear attenuation in 1/mm. Millimetres, LPS for ITK and DICOM, RAS for NIfTI.",
        "",
        *(f"{name:<{width}}  {file.about}" for name, file in files.items()),
        f"{'result.json':<{width}}  all numbers, the settings, and size and SHA-256 of every file",
    ]
    if result.motions:
        lines += ["", *_resampling(files)]
    return "\n".join(lines) + "\n"


def resampling_code(files: Sequence[str], visit: int = 2) -> str:
    """Return Python that brings a visit, counted from 1, to the reference."""
    own = f"visit_{visit}.nii.gz"
    moving = own if own in files else f"YOUR IMAGE OF VISIT {visit}"
    return (
        f'reference, moving = sitk.ReadImage("volume.nii.gz"), sitk.ReadImage("{moving}")\n'
        f'registered = sitk.Resample(moving, reference, sitk.ReadTransform("{inverse_file(visit)}"))'
    )


def _resampling(files: Mapping[str, ResultFile]) -> list[str]:
    code = resampling_code(list(files)).splitlines()
    return [
        "A_to_B.tfm takes points of A to points of B. Resampling an image asks for each voxel of the output",
        "where it lies in the input, so it needs the file that leads from the output to the input:",
        "",
        f"  {inverse_file(2)}  resamples visit 2 to the reference",
        f"  {motion_file(2)}  resamples the reference to visit 2",
        "",
        "In Python, after `import SimpleITK as sitk`, in this folder:",
        "",
        *(f"    {line}" for line in code),
    ]
