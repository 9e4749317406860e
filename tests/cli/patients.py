"""DICOM scans and volumes of patients who do not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pydicom
import torch

from duotomo.io.dicom import BreastView, Identity, write_dicom_projections, write_tomosynthesis
from duotomo.io.scan import Scan, Values
from tests.cli.commands import THICKNESS_MM
from tests.cli.tiny import GRID, tiny_study

WHO = {
    "PatientName": "Roe^Mary",
    "PatientID": "PID-4711",
    "IssuerOfPatientID": "North Hospital",
    "PatientBirthDate": "19610203",
    "PatientSex": "F",
    "PatientAge": "062Y",
    "StudyInstanceUID": "1.2.826.0.1.4711.3",
    "StudyDate": "20240229",
    "StudyTime": "101112",
    "StudyID": "STUDY-77",
    "StudyDescription": "Recall of Mrs Roe",
    "AccessionNumber": "ACC-0815",
    "ReferringPhysicianName": "Grey^Alice",
    "ClinicalTrialSponsorName": "Sponsor & Sons",
    "ClinicalTrialSubjectID": "SUBJ-9",
}
SECRETS = (
    *(
        "Roe",
        "Mary",
        "4711",
        "North Hospital",
        "19610203",
        "062Y",
        "20240229",
        "101112",
        "STUDY-77",
        "Recall",
    ),
    *("ACC-0815", "Grey", "Alice", "Sponsor", "SUBJ-9"),
)
SEEN = {"laterality": "L", "view": "CC"}


def patient(**changes: str) -> Identity:
    """Return somebody, with other attributes where given; an empty one is left out."""
    dataset = pydicom.Dataset()
    for name, value in {**WHO, **changes}.items():
        if value:
            setattr(dataset, name, value)
    return Identity.of(dataset)


def write_visits(folder: Path, **changes: str) -> list[Path]:
    """Write the tiny study as two scans of one patient; the second one has other attributes, or facts."""
    seen = {name: changes.pop(name) for name in SEEN if name in changes}
    paths = []
    for visit, facts, other in zip(tiny_study().visits, ({}, seen), ({}, changes), strict=True):
        scan = Scan(
            projections=visit.projections,
            values=Values.LINE_INTEGRALS,
            acquisition=visit.acquisition,
            facts=SEEN | facts,
            thickness_mm=THICKNESS_MM,
        )
        paths.append(folder / f"Roe_Mary_{len(paths) + 1}.dcm")
        write_dicom_projections(paths[-1], scan, identity=patient(**other))
    return paths


def write_volumes(folder: Path, **changes: str) -> list[Path]:
    """Write two volumes of one patient; the second one has other attributes, or facts."""
    seen = SEEN | {name: changes.pop(name) for name in SEEN if name in changes}
    z, y, x = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in GRID.shape), indexing="ij")
    paths = [folder / "one.dcm", folder / "two.dcm"]
    for path, shift, facts, other in zip(paths, (0.0, 0.1), (SEEN, seen), ({}, changes), strict=True):
        blob = 0.05 * torch.exp(-4 * ((x - shift) ** 2 + y**2 + z**2))
        write_tomosynthesis(path, blob, GRID, identity=patient(**other), breast=breast(facts))
    return paths


def breast(facts: dict[str, Any]) -> BreastView:
    """Return what facts say of a breast."""
    return BreastView(laterality=facts["laterality"], view=facts["view"])
