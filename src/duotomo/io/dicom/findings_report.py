"""Findings to DICOM's Comprehensive 3D SR: a measurement report of what changed between two visits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from duotomo.change import Change, Finding
from duotomo.change.change import RESEARCH
from duotomo.change.finding import Interval
from duotomo.errors import DuotomoError
from duotomo.io.dicom.findings_codes import (
    ALGORITHM,
    BREAST,
    CHANGES,
    DEVICE_UID,
    LESION,
    SCHEME,
    SIDES,
    SeenIn,
    Words,
    coded,
    equipment,
    instance,
    seen_in,
    tracking,
)
from duotomo.io.dicom.header import quiet, read_dataset, reading_dicom
from duotomo.io.dicom.identity import REMARKED, Identity
from duotomo.io.dicom.instance import SUFFIXES, save
from duotomo.io.libraries import highdicom
from duotomo.io.paths import AnyPath, FileError, target
from duotomo.io.patient_frame import lps

DESCRIPTION = "duotomo findings report, research use only"

MAMMOGRAPHY = ("71651007", "SCT", "Mammography")
DEVICE = ("121007", "DCM", "Device")
COMMENT = ("121106", "DCM", "Comment")
CENTER = ("111010", "DCM", "Center")
CHANGE = ("CHANGE", SCHEME, "Change since the prior visit")
N_FINDINGS = ("FINDINGS", SCHEME, "Number of findings")

DIAMETER = ("81827009", "SCT", "Diameter")
ATTENUATION = ("ATTENUATION_DIFF", SCHEME, "Change of the linear attenuation coefficient")
Z_SCORE = ("113071", "DCM", "Z-score")
P_VALUE = ("P_VALUE", SCHEME, "Probability of such a score at one place that did not change")
FALSE_FINDINGS = ("FALSE_FINDINGS", SCHEME, "Findings as sure that an unchanged breast would have")
FALSE_DISCOVERIES = ("FDR", SCHEME, "False discovery rate up to this finding")

MM, PER_MM = ("mm", "UCUM", "millimeter"), ("/mm", "UCUM", "per millimeter")
ONE = ("1", "UCUM", "no units")


def write_findings_report(
    path: AnyPath,
    change: Change,
    volume: AnyPath,
    *,
    segmentation: AnyPath | None = None,
    identity: Identity | None = None,
) -> None:
    """Write findings as a Comprehensive 3D SR by TID 1500: for each its place, size, contrast and scores.

    A finding refers to its segment and has its centre as a point of the volume's frame of reference. Without
    findings the report says so, and why. An older file is replaced once the new one is complete.

    Parameters
    ----------
    path, change, volume
        As for `write_findings_segmentation`; there may be no findings.
    segmentation : str or path, optional
        The file that function wrote; needed with findings.
    identity : Identity, optional
        As for that function.

    Raises
    ------
    FileError
        If the volume or the segmentation is another one, or the file cannot be written.
    DuotomoError
        If there are findings, and no segmentation.
    """
    where = "write_findings_report"
    path = target(where, path, SUFFIXES)
    if change.findings and segmentation is None:
        raise DuotomoError(
            f"{where}: expected the segmentation of {len(change.findings)} findings; got none. Write it "
            f"first, and pass its path as `segmentation`."
        )
    seen = seen_in(where, Path(volume), change, identity)
    segments = None if not change.findings else _segments(where, Path(str(segmentation)), seen, change)
    library = highdicom()
    with quiet():
        groups = [_group(label, one, seen, segments) for label, one in enumerate(change.findings, start=1)]
        device = library.sr.DeviceObserverIdentifyingAttributes(uid=DEVICE_UID, name="duotomo")
        observer = library.sr.ObserverContext(
            observer_type=coded(DEVICE),
            observer_identifying_attributes=device,
        )
        report = library.sr.MeasurementReport(
            observation_context=library.sr.ObservationContext(observer_device_context=observer),
            procedure_reported=coded(MAMMOGRAPHY),
            imaging_measurements=groups or [_no_finding(seen)],
        )
        said = [RESEARCH, _outcome(change)]
        said += [f"{seen.identity.remark}. {REMARKED}"] if seen.identity.remark else []
        report[0].ContentSequence.extend(_comment(text) for text in said)
        scheme = library.coding_schemes.CodingSchemeIdentificationItem(
            designator=SCHEME, name="Codes of duotomo", responsible_organization="duotomo"
        )
        dataset = library.sr.Comprehensive3DSR(
            evidence=[seen.dataset, *([] if segments is None else [segments])],
            content=report,
            is_complete=True,
            coding_schemes=[scheme],
            **instance(seen.identity, "SR", DESCRIPTION),
            **equipment(),
        )
    seen.identity.put(dataset)
    save(where, path, dataset, seen.identity)


def _segments(where: str, path: Path, seen: SeenIn, change: Change) -> Any:
    """Return the segmentation, without pixels and patient; raise if it is not that of these findings."""
    with reading_dicom(where, path, lambda error: type(error).__name__):
        dataset = read_dataset(path, pixels=False)
        found = [part.get("TrackingUID") for part in dataset.get("SegmentSequence") or ()]
        if found != [tracking(one, seen.identity)[1] for one in change.findings]:
            raise FileError(
                f"expected the segmentation of these {len(change.findings)} findings; got another one. Write "
                f"it with write_findings_segmentation and the same identity."
            )
    dataset.StudyInstanceUID = seen.dataset.StudyInstanceUID
    return dataset


def _group(label: int, finding: Finding, seen: SeenIn, segments: Any) -> Any:
    sr = highdicom().sr
    name, uid = tracking(finding, seen.identity)
    group = sr.VolumetricROIMeasurementsAndQualitativeEvaluations(
        tracking_identifier=sr.TrackingIdentifier(uid=uid, identifier=name),
        referenced_segment=sr.ReferencedSegment(
            sop_class_uid=segments.SOPClassUID,
            sop_instance_uid=segments.SOPInstanceUID,
            segment_number=label,
            source_images=[
                sr.SourceImageForSegmentation(seen.dataset.SOPClassUID, seen.dataset.SOPInstanceUID)
            ],
        ),
        finding_type=coded(LESION),
        finding_sites=[_breast(seen)],
        algorithm_id=_algorithm(),
        qualitative_evaluations=[sr.QualitativeEvaluation(coded(CHANGE), coded(CHANGES[finding.kind]))],
        measurements=[
            _measured(DIAMETER, finding.size_mm, MM, finding.size_interval_mm),
            _measured(ATTENUATION, finding.contrast_per_mm, PER_MM, finding.contrast_interval_per_mm),
            _measured(Z_SCORE, finding.z, ONE),
            _measured(P_VALUE, finding.p_value, ONE),
            _measured(FALSE_FINDINGS, finding.false_findings, ONE),
            _measured(FALSE_DISCOVERIES, finding.false_discovery_rate, ONE),
        ],
    )
    # TID 1411 may be extended.
    center = sr.Scoord3DContentItem(
        name=coded(CENTER),
        graphic_type="POINT",
        graphic_data=np.atleast_2d(lps(finding.place_mm)),
        frame_of_reference_uid=seen.dataset.FrameOfReferenceUID,
        relationship_type=sr.RelationshipTypeValues.CONTAINS,
    )
    said = _comment(f"{finding.template}; {finding.words}. {RESEARCH}")
    group[0].ContentSequence.extend([center, said])
    return group


def _no_finding(seen: SeenIn) -> Any:
    """Return the group of a report without findings: TID 1500 wants one."""
    sr = highdicom().sr
    return sr.MeasurementsAndQualitativeEvaluations(
        tracking_identifier=sr.TrackingIdentifier(uid=seen.identity.uid("findings"), identifier="Findings"),
        finding_sites=[_breast(seen)],
        algorithm_id=_algorithm(),
        measurements=[_measured(N_FINDINGS, 0, ONE)],
        source_images=[
            sr.SourceImageForMeasurementGroup(seen.dataset.SOPClassUID, seen.dataset.SOPInstanceUID)
        ],
    )


def _breast(seen: SeenIn) -> Any:
    """Return which breast it is, as far as that is known."""
    side = seen.identity.breast.laterality
    return highdicom().sr.FindingSite(coded(BREAST), laterality=coded(SIDES[side]) if side else None)


def _outcome(change: Change) -> str:
    if change.reason:
        return f"The visits were not compared. {change.reason}"
    n = len(change.findings)
    found = f"{n} finding{'s' * (n != 1)}" if n else "No findings"
    return f"{found} with |z| of {change.threshold:.3g} or more."


def _measured(name: Words, value: float, unit: Words, interval: Interval | None = None) -> Any:
    """Return a measurement; interval: of 95 %, whose ends are said as distances from the value."""
    sr = highdicom().sr
    properties = None
    if interval is not None:
        properties = sr.MeasurementProperties(
            lower_measurement_uncertainty=value - interval[0],
            upper_measurement_uncertainty=interval[1] - value,
        )
        for end in properties:
            # highdicom has them without a unit.
            end.MeasuredValueSequence[0].MeasurementUnitsCodeSequence = [coded(unit)]
    return sr.Measurement(name=coded(name), value=value, unit=coded(unit), properties=properties)


def _algorithm() -> Any:
    from duotomo import __version__

    return highdicom().sr.AlgorithmIdentification(name=ALGORITHM, version=__version__)


def _comment(text: str) -> Any:
    sr = highdicom().sr
    return sr.TextContentItem(
        name=coded(COMMENT), value=text, relationship_type=sr.RelationshipTypeValues.CONTAINS
    )
