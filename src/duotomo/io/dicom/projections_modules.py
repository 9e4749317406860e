"""What DICOM's mammography files must say, beyond the projections themselves.

A simulated scan has no tube current and no dose. Where the standard demands a number, it is zero.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import Acquisition
from duotomo.io.dicom.breast_view import BreastView
from duotomo.io.dicom.header import code, decimal, decimals, item
from duotomo.io.dicom.isocentre import detector_axes
from duotomo.io.dicom.orientation import Turn, letters
from duotomo.io.scan import Scan
from duotomo.io.scan_options import Values

Floats = NDArray[np.float64]


def stored_turn(breast: BreastView) -> Turn:
    """Return how frames are stored: as they are hung, the chest wall left of a left breast, right of a right.

    >>> stored_turn(BreastView(laterality="R"))
    Turn(transpose=True, flip_v=True, flip_u=True)
    """
    right = breast.laterality == "R"
    return Turn(transpose=True, flip_v=right, flip_u=right)


def image_module(scan: Scan, breast: BreastView, turn: Turn, *, presentation: bool) -> dict[str, Any]:
    """Return the attributes of one file that are the same in both kinds of file."""
    return {
        "PresentationIntentType": "FOR PRESENTATION" if presentation else "FOR PROCESSING",
        "AcquisitionDateTime": _now(),
        "PatientOrientation": [
            "P" if turn.flip_v else "A",
            letters(breast.view, breast.laterality or "", forward=not turn.flip_u),
        ],
        "KVP": decimal(_fact(scan, "kVp")),
        "FocalSpots": decimals([0.3]),
        "AnodeTargetMaterial": scan.facts.get("anode", "UNKNOWN"),
        "BodyPartThickness": decimal(scan.thickness_mm or 0.0),
        "CompressionForce": decimal(_fact(scan, "compression force (N)")),
        "PaddleDescription": "UNKNOWN",
        "ExposureControlMode": "MANUAL",
        "ExposureControlModeDescription": "UNKNOWN",
        "DetectorType": "DIRECT",
        "PositionerType": "MAMMOGRAPHIC",
        "OrganDose": decimal(0.0),
        "EntranceDoseInmGy": decimal(0.0),
        "SamplesPerPixel": 1,
        "PhotometricInterpretation": "MONOCHROME2",
        "BitsAllocated": 16,
        "BitsStored": 16,
        "HighBit": 15,
        "PixelRepresentation": 0,
        "BurnedInAnnotation": "NO",
        "LossyImageCompression": "00",
        "PresentationLUTShape": "IDENTITY",
        "BreastImplantPresent": "YES" if breast.implant else "NO",
        "ViewCodeSequence": [breast.view_code()],
        "AcquisitionContextSequence": [],
    }


def multi_frame_module(scan: Scan) -> dict[str, Any]:
    """Return the further attributes of a file with a frame for each view."""
    tilts = np.ptp(scan.acquisition.normals, axis=0).max() > 0
    return {
        "ImageType": ["ORIGINAL", "PRIMARY", "TOMO_PROJ", "NONE"],
        "ContentQualification": "RESEARCH",
        "AcquisitionDuration": 0.0,
        "PositionerMotion": "ROTATION_STEP",
        "TypeOfDetectorMotion": "ROTATION_STEP" if tilts else "STATIONARY",
        "ExposureInmAs": _fact(scan, "exposure (mAs)"),
        "NumberOfFrames": scan.acquisition.n_views,
        "PatientOrientationCodeSequence": [code("10904000", "SCT", "erect")],
    }


def single_file_module(
    scan: Scan, breast: BreastView, groups: Any, view: int, n_values: int, *, presentation: bool
) -> dict[str, Any]:
    """Return the further attributes of a file with one view. groups: those of the view's frame."""
    counts = scan.values is Values.COUNTS
    d_v, d_u = scan.acquisition.pixel_spacing_mm
    # Unlike the multi-frame image, a mammogram is of one side; a scan that does not say leaves it out.
    side = {"ImageLaterality": breast.laterality} if breast.laterality else {}
    window = {"WindowCenter": decimal(n_values / 2), "WindowWidth": decimal(n_values)} if presentation else {}
    return (
        side
        | window
        | {
            "ImageType": ["ORIGINAL", "PRIMARY", ""],
            "InstanceNumber": view + 1,
            "OrganExposed": "BREAST",
            "AnatomicRegionSequence": [code("76752008", "SCT", "Breast")],
            "ImagerPixelSpacing": decimals([d_u, d_v]),
            "PixelIntensityRelationship": "LIN" if counts else "LOG",
            "PixelIntensityRelationshipSign": 1 if counts else -1,
            "RescaleIntercept": decimal(0),
            "RescaleSlope": decimal(1),
            "RescaleType": "US",
            "PositionerPrimaryAngle": groups.PositionerPositionSequence[0].PositionerPrimaryAngle,
            "PositionerPrimaryAngleDirection": "CW",
            "DistanceSourceToDetector": groups.XRayGeometrySequence[0].DistanceSourceToDetector,
        }
    )


def shared_groups(
    scan: Scan, breast: BreastView, event_uid: str, n_values: int, *, presentation: bool
) -> Any:
    """Return the functional groups that all frames share."""
    counts = scan.values is Values.COUNTS
    d_v, d_u = scan.acquisition.pixel_spacing_mm
    derivation: dict[str, Any] = {"DerivationImageSequence": []} if presentation else {}
    return item(
        derivation
        | {
            "FrameAnatomySequence": {
                "AnatomicRegionSequence": [code("76752008", "SCT", "Breast")],
                "FrameLaterality": breast.frame_laterality,
            },
            "PixelValueTransformationSequence": {
                "RescaleIntercept": decimal(0),
                "RescaleSlope": decimal(1),
                "RescaleType": "US",
            },
            "FrameVOILUTSequence": {"WindowCenter": decimal(n_values / 2), "WindowWidth": decimal(n_values)},
            "IrradiationEventIdentificationSequence": {"IrradiationEventUID": event_uid},
            "FieldOfViewSequence": {
                "FieldOfViewOrigin": decimals([0, 0]),
                "FieldOfViewRotation": "0",
                "FieldOfViewHorizontalFlip": "NO",
            },
            "FramePixelDataPropertiesSequence": {
                "FrameType": ["ORIGINAL", "PRIMARY", "TOMO_PROJ", "NONE"],
                # Rows run along v as stored: the spacing between rows is that along u.
                "ImagerPixelSpacing": decimals([d_u, d_v]),
                "PixelIntensityRelationship": "LIN" if counts else "LOG",
                "PixelIntensityRelationshipSign": 1 if counts else -1,
                "GeometricalProperties": "UNIFORM",
                "ImageProcessingApplied": "NONE",
            },
            "XRayAcquisitionDoseSequence": {
                "ExposureTimeInms": 0.0,
                "ExposureInmAs": _fact(scan, "exposure (mAs)"),
                "OrganDose": decimal(0.0),
                "EntranceDoseInmGy": decimal(0.0),
            },
            "CollimatorShapeSequence": {
                "CollimatorShape": "RECTANGULAR",
                "CollimatorLeftVerticalEdge": 0,
                "CollimatorRightVerticalEdge": scan.acquisition.detector_shape[0] + 1,
                "CollimatorUpperHorizontalEdge": 0,
                "CollimatorLowerHorizontalEdge": scan.acquisition.detector_shape[1] + 1,
            },
        }
    )


def frame_groups(
    acquisition: Acquisition, view: int, turn: Turn, isocentre_mm: Floats, gantry_deg: float
) -> Any:
    """Return the functional groups of one frame: when it was taken, and where source and detector were."""
    # From the machine frame, which turns with the gantry, to the isocentre's.
    upright = detector_axes(math.radians(gantry_deg)) if gantry_deg else np.eye(3)
    source = (acquisition.sources_mm[view] - isocentre_mm) @ upright
    center = (acquisition.detector_centers_mm[view] - isocentre_mm) @ upright
    u, v = acquisition.u_axes[view] @ upright, acquisition.v_axes[view] @ upright
    normal = acquisition.normals[view] @ upright
    support = -isocentre_mm @ upright
    tilt = float(np.arctan2(normal[0], normal[2]))
    axes = detector_axes(tilt)
    along_u, along_v = (-u if turn.flip_u else u) @ axes.T, (-v if turn.flip_v else v) @ axes.T
    (n_v, n_u), (d_v, d_u) = acquisition.detector_shape, acquisition.pixel_spacing_mm
    corner = -(n_v - 1) / 2 * d_v * along_v - (n_u - 1) / 2 * d_u * along_u
    row, column = (along_v, along_u) if turn.transpose else (along_u, along_v)
    edge = center - n_v * d_v / 2 * v
    to_edge_mm = float(np.linalg.norm(source - edge))
    # Their tangents are x and y over z, also where a gantry has turned the tube below the isocentre.
    lean = np.degrees([np.arctan2(source[0], source[2]), np.arctan(source[1] / (source[2] or 1.0))])
    # The central beam runs from the source to the isocentre; angles are towards columns, and against rows.
    beam = -source @ axes.T
    on_detector = np.degrees(np.arctan2([beam @ row, -beam @ column], -beam[2]))
    to_isocentre_mm = float(np.linalg.norm(source))
    now = _now()
    return item(
        {
            "FrameContentSequence": {
                "FrameAcquisitionNumber": view + 1,
                "FrameAcquisitionDateTime": now,
                "FrameReferenceDateTime": now,
                "FrameAcquisitionDuration": 0.0,
            },
            "PositionerPositionSequence": {
                "PositionerPrimaryAngle": decimal(float(lean[0])),
                "PositionerPrimaryAngleDirection": "CW",
                "PositionerSecondaryAngle": decimal(0.0),
            },
            "DetectorPositionSequence": {
                "DetectorPrimaryAngle": decimal(on_detector[0]),
                "DetectorSecondaryAngle": decimal(on_detector[1]),
            },
            "XRayGeometrySequence": {
                "DistanceSourceToDetector": decimal(to_edge_mm),
                "DistanceSourceToPatient": decimal(to_edge_mm),
                "DistanceSourceToIsocenter": to_isocentre_mm,
                "EstimatedRadiographicMagnificationFactor": decimal(1.0),
            },
            "IsocenterReferenceSystemSequence": {
                "XRaySourceIsocenterPrimaryAngle": float(lean[0]),
                "XRaySourceIsocenterSecondaryAngle": float(lean[1]),
                "BreastSupportIsocenterPrimaryAngle": gantry_deg,
                "BreastSupportIsocenterSecondaryAngle": 0.0,
                "BreastSupportXPositionToIsocenter": float(support[0]),
                "BreastSupportYPositionToIsocenter": float(support[1]),
                "BreastSupportZPositionToIsocenter": float(support[2]),
                "DetectorIsocenterPrimaryAngle": float(np.degrees(tilt)),
                "DetectorIsocenterSecondaryAngle": 0.0,
                "DetectorXPositionToIsocenter": float(center[0]),
                "DetectorYPositionToIsocenter": float(center[1]),
                "DetectorZPositionToIsocenter": float(center[2]),
                "DetectorActiveAreaTLHCPosition": corner.tolist(),
                "DetectorActiveAreaOrientation": [*row.tolist(), *column.tolist()],
            },
        }
    )


def _fact(scan: Scan, name: str) -> float:
    try:
        return float(scan.facts.get(name, 0.0))
    except ValueError:
        return 0.0


def _now() -> str:
    return datetime.now().strftime("%Y%m%d%H%M%S")
