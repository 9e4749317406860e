"""Small scans, and DICOM files of them that say only what a test wants them to say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import torch

from duotomo.geometry import Acquisition, hologic_dimensions, siemens_inspiration
from duotomo.io.dicom import write_dicom_projections
from duotomo.io.scan import Scan
from duotomo.io.scan_options import Values
from tests.cases.scans import arc

VECTORS = ("sources_mm", "detector_centers_mm", "u_axes", "v_axes")

STAYS = siemens_inspiration().bin(512)[::8]
TILTS = hologic_dimensions().bin(256)[::5]
# Too small an image cannot be compressed.
LARGE = arc((40, 48), (0.3, 0.5), n_views=2, degrees=11.5, source_to_detector_mm=650.0, pivot_height_mm=40.0)


def counts(acquisition: Acquisition = STAYS, *, seed: int = 0, **facts: str) -> Scan:
    """Return a scan of random whole counts."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(1, 60_000, acquisition.shape, generator=generator).float()
    return Scan(projections=values, values=Values.COUNTS, acquisition=acquisition, facts=facts)


def off_mm(one: Acquisition, other: Acquisition) -> float:
    """Return the largest difference between the vectors of two scans of the same pixels."""
    assert one.shape == other.shape
    assert np.allclose(one.pixel_spacing_mm, other.pixel_spacing_mm, rtol=1e-12)
    return max(float(np.abs(getattr(one, name) - getattr(other, name)).max()) for name in VECTORS)


def changed(path: Path, change: Callable[[Any], None], scan: Scan | None = None) -> Path:
    """Return a file without the private block, changed by a function of its dataset."""
    write_dicom_projections(path, scan or counts(laterality="L"), private=False)
    dataset = pydicom.dcmread(path)
    change(dataset)
    dataset.save_as(path)
    return path


def group(dataset: Any, sequence: str, frame: int | None = None) -> Any:
    """Return an item of the functional groups of one frame, or of those that all share."""
    groups = (
        dataset.SharedFunctionalGroupsSequence[0]
        if frame is None
        else dataset.PerFrameFunctionalGroupsSequence[frame]
    )
    return groups[sequence].value[0]


def without_isocentre(dataset: Any) -> None:
    """Leave an arc's numbers only: angles, and one distance to detector and isocentre."""
    for item in dataset.PerFrameFunctionalGroupsSequence:
        del item.IsocenterReferenceSystemSequence
        geometry = item.XRayGeometrySequence[0]
        geometry.DistanceSourceToDetector = geometry.DistanceSourceToPatient = "650"


def mammograms(folder: Path, n_views: int = 3, **attributes: Any) -> Path:
    """Write a folder as research systems do: a plain file for each view, view i full of 10 * (i + 1)."""
    folder.mkdir()
    for view in range(n_views):
        dataset = pydicom.Dataset()
        dataset.SOPClassUID, dataset.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.1.2.1", f"1.2.3.{view + 1}"
        dataset.Modality, dataset.PatientID, dataset.PatientName = "MG", "X17", "Doe^Jane"
        dataset.Rows, dataset.Columns, dataset.SamplesPerPixel = 4, 5, 1
        dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = (
            16,
            12,
            11,
            0,
        )
        dataset.PhotometricInterpretation = "MONOCHROME2"
        dataset.ImageLaterality, dataset.ViewPosition = "L", "CC"
        dataset.PatientOrientation = ["A", "R"]
        dataset.ImagerPixelSpacing = ["0.2", "0.1"]
        dataset.DistanceSourceToDetector = "660"
        dataset.PositionerPrimaryAngle = str(10 * (view - 1))
        dataset.PositionerPrimaryAngleDirection = "CW"
        dataset.PixelIntensityRelationship, dataset.PixelIntensityRelationshipSign = "LIN", 1
        for keyword, value in attributes.items():
            value = value(view) if callable(value) else value
            if value is None:
                delattr(dataset, keyword)
            else:
                setattr(dataset, keyword, value)
        dataset.PixelData = np.full((4, 5), 10 * (view + 1), dtype="<u2").tobytes()
        meta = pydicom.dataset.FileMetaDataset()
        meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = (
            dataset.SOPClassUID,
            dataset.SOPInstanceUID,
        )
        dataset.file_meta = meta
        dataset.save_as(folder / f"{'cab'[view % 3]}{view}.dcm", enforce_file_format=True)
    return folder
