"""Volumes to DICOM's Breast Tomosynthesis Image."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from duotomo.errors import check_tensor
from duotomo.geometry import VolumeGrid, voxel_to_world
from duotomo.io.dicom.breast_view import BreastView
from duotomo.io.dicom.header import code, decimal, decimals, item
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.instance import EXPLICIT, MOST_BYTES, SUFFIXES, check_description, new_dataset, save
from duotomo.io.dicom.sop_classes import TOMOSYNTHESIS
from duotomo.io.dicom.tomosynthesis_reader import UNIT, read_tomosynthesis
from duotomo.io.paths import AnyPath, FileError, target
from duotomo.io.patient_frame import lps

__all__ = ["read_tomosynthesis", "write_tomosynthesis"]

LEVELS = 65535
"""Steps between the lowest and the highest value of a volume: 16 bits."""

MOST_SAMPLED = 1_000_000
"""Voxels from which the window is chosen."""

FRAME_TYPE = {
    "PixelPresentation": "MONOCHROME",
    "VolumetricProperties": "VOLUME",
    "VolumeBasedCalculationTechnique": "TOMOSYNTHESIS",
}
IMAGE_TYPE = ("DERIVED", "PRIMARY", "TOMOSYNTHESIS", "NONE")


def write_tomosynthesis(
    path: AnyPath,
    volume: torch.Tensor,
    grid: VolumeGrid,
    *,
    identity: Identity | None = None,
    description: str = "duotomo",
    transfer_syntax: str = EXPLICIT,
    breast: BreastView | None = None,
) -> None:
    """Write a volume as a Breast Tomosynthesis Image: a frame for each z.

    Rows run along the machine's y and columns along its x, in patient coordinates. Values are kept in 16
    bits: `value = slope * stored + intercept`, in the Real World Value Mapping, with the unit 1/mm; the
    standard wants the Rescale Slope of this kind of image to be 1. The largest error is half a step: `(max -
    min) / 131068`. Zero stays zero. An older file is replaced once the new one is complete.

    Parameters
    ----------
    path : str or path
        Ends in `.dcm`.
    volume, grid
        As for `duotomo.io.write_volume`.
    identity : Identity, optional
        Of the visit in whose frame the volume lies; nobody's if left out.
    description : str
        Of the series, at most 64 characters.
    transfer_syntax : str
        A UID, for example 1.2.840.10008.1.2.4.90 for lossless JPEG 2000.
    breast : BreastView, optional
        As the identity has it, if left out.

    Raises
    ------
    FileError
        If DICOM cannot hold so many voxels, or the file cannot be written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> grid = VolumeGrid.on_detector((2, 3, 4), (1.0, 0.5, 0.5))
    >>> with TemporaryDirectory() as folder:
    ...     write_tomosynthesis(f"{folder}/ones.dcm", torch.ones(2, 3, 4), grid)
    ...     volume, found = read_tomosynthesis(f"{folder}/ones.dcm")
    >>> bool((volume == 1).all()), found == grid
    (True, True)
    """
    where = "write_tomosynthesis"
    path = target(where, path, SUFFIXES)
    check_tensor(where, "volume", volume, shape=grid.shape, axes=("z", "y", "x"), batch_ok=False)
    check_description(where, description)
    if max(grid.shape[1:]) > LEVELS or 2 * grid.n_voxels > MOST_BYTES:
        raise FileError(
            f"{where}: expected at most {LEVELS} rows and columns, and {MOST_BYTES // 2} voxels, for DICOM "
            f"counts no further; got (z, y, x) = {grid.shape}. Coarsen or crop the volume, or write NIfTI."
        )
    identity = identity or Identity.anonymous()
    stored, slope, intercept = quantise(volume.detach())
    dataset = new_dataset(TOMOSYNTHESIS, "MG", identity, description)
    dataset.update(_image(grid, breast or identity.breast))
    dataset.update(_dimensions(identity.uid("dimension organization")))
    dataset.SharedFunctionalGroupsSequence = [
        item(
            {
                **_plane(grid),
                **_values(stored, slope, intercept),
                "FrameAnatomySequence": {
                    "AnatomicRegionSequence": [code("76752008", "SCT", "Breast")],
                    "FrameLaterality": (breast or identity.breast).frame_laterality,
                },
            }
        )
    ]
    dataset.PerFrameFunctionalGroupsSequence = _frames(grid)
    dataset.PixelData = stored.tobytes()
    dataset["PixelData"].VR = "OW"
    save(where, path, dataset, identity, transfer_syntax)


def quantise(volume: torch.Tensor) -> tuple[NDArray[np.uint16], float, float]:
    """Return 16-bit levels, (z, y, x), and the slope and intercept that make them values again.

    >>> levels, slope, intercept = quantise(torch.tensor([[[-1.0, 0.0, 3.0]]]))
    >>> (slope * levels + intercept).round(3).tolist()
    [[[-1.0, 0.0, 3.0]]]
    """
    low, high = (float(value) for value in torch.aminmax(volume))
    slope, intercept = (high - low) / LEVELS, low
    if low < 0 < high:
        # A whole number of steps, so that air stays zero; the range may grow by one for it.
        slope = (high - low) / (LEVELS - 1)
        intercept = -float(np.ceil(-low / slope)) * slope
    # Values so close that their step is no number are one value.
    slope = slope if slope > 0 else 1.0
    stored = np.empty(volume.shape, dtype="<u2")
    for plane, values in zip(stored, volume, strict=True):
        plane[...] = ((values.double() - intercept) / slope).round_().clamp_(0, LEVELS).cpu().numpy()
    return stored, slope, intercept


def _image(grid: VolumeGrid, breast: BreastView) -> Any:
    n_z, n_y, n_x = grid.shape
    return item(
        {
            "ImageType": list(IMAGE_TYPE),
            **FRAME_TYPE,
            "ContentQualification": "RESEARCH",
            "BurnedInAnnotation": "NO",
            "LossyImageCompression": "00",
            "PresentationLUTShape": "IDENTITY",
            "SamplesPerPixel": 1,
            "PhotometricInterpretation": "MONOCHROME2",
            "NumberOfFrames": n_z,
            "Rows": n_y,
            "Columns": n_x,
            "BitsAllocated": 16,
            "BitsStored": 16,
            "HighBit": 15,
            "PixelRepresentation": 0,
            "AcquisitionContextSequence": [],
            "BreastImplantPresent": "YES" if breast.implant else "NO",
            "ViewCodeSequence": [breast.view_code()],
        }
    )


def _dimensions(uid: str) -> Any:
    """Return the module that says what the dimension index counts: planes, from the detector up."""
    index = {
        "DimensionIndexPointer": 0x00200032,
        "FunctionalGroupPointer": 0x00209113,
        "DimensionOrganizationUID": uid,
        "DimensionDescriptionLabel": "Image Position (Patient)",
    }
    return item(
        {
            "DimensionOrganizationSequence": {"DimensionOrganizationUID": uid},
            "DimensionOrganizationType": "3D",
            "DimensionIndexSequence": index,
        }
    )


def _plane(grid: VolumeGrid) -> dict[str, Any]:
    d_z, d_y, d_x = grid.spacing_mm
    measures = {
        "PixelSpacing": decimals([d_y, d_x]),
        "SliceThickness": decimal(d_z),
        "SpacingBetweenSlices": decimal(d_z),
    }
    along_row, along_column = lps([1, 0, 0]), lps([0, 1, 0])
    orientation = {"ImageOrientationPatient": decimals([*along_row, *along_column])}
    return {"PixelMeasuresSequence": measures, "PlaneOrientationSequence": orientation}


def _values(stored: NDArray[np.uint16], slope: float, intercept: float) -> dict[str, Any]:
    """Return the functional groups that say what the levels mean, and how bright they are shown."""
    sample = stored.reshape(-1)[:: stored.size // MOST_SAMPLED + 1]
    # Linear windows of DICOM are at least one level wide.
    low, high = np.percentile(sample, [1, 99.9])
    identity = {"RescaleIntercept": 0, "RescaleSlope": 1, "RescaleType": "US"}
    window = {"WindowCenter": decimal((low + high) / 2), "WindowWidth": decimal(max(high - low, 1.0))}
    mapping = {
        "RealWorldValueFirstValueMapped": 0,
        "RealWorldValueLastValueMapped": LEVELS,
        "RealWorldValueIntercept": intercept,
        "RealWorldValueSlope": slope,
        "LUTExplanation": "Linear attenuation",
        "LUTLabel": "ATTENUATION",
        "MeasurementUnitsCodeSequence": [code(UNIT, "UCUM", "per millimeter")],
    }
    return {
        "PixelValueTransformationSequence": identity,
        "FrameVOILUTSequence": window,
        "RealWorldValueMappingSequence": mapping,
    }


def _frames(grid: VolumeGrid) -> list[Any]:
    corners_mm = lps(voxel_to_world(grid, [(z, 0, 0) for z in range(grid.shape[0])]))
    return [
        item(
            {
                "FrameContentSequence": {"DimensionIndexValues": [z]},
                "PlanePositionSequence": {"ImagePositionPatient": decimals(corner_mm)},
                # The standard does not allow it to be shared.
                "XRay3DFrameTypeSequence": {"FrameType": list(IMAGE_TYPE), **FRAME_TYPE},
            }
        )
        for z, corner_mm in enumerate(corners_mm, start=1)
    ]
