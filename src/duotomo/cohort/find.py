"""Cases in a folder of DICOM: scans of one patient, side and view, in the order of their dates."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duotomo.cohort.case import Case, Command
from duotomo.io.dicom.breast_view import BreastView
from duotomo.io.dicom.comparable import SIDE, VIEW, comparable
from duotomo.io.dicom.deidentification import Pseudonyms
from duotomo.io.dicom.header import is_dicom, read_dataset, reading_dicom
from duotomo.io.dicom.identifying import identifying
from duotomo.io.dicom.sop_classes import PRESENTATION, PROCESSING
from duotomo.io.paths import AnyPath, FileError

_MAMMOGRAPHY = ("1.2.840.10008.5.1.4.1.1.1.2", "1.2.840.10008.5.1.4.1.1.1.2.1")
"""Several mammography images of one series are a scan, as Breast Projection X-Ray Images are."""

_WHERE = "find_cases"
_DATES = (("StudyDate", "StudyTime"), ("AcquisitionDate", "AcquisitionTime"), ("ContentDate", "ContentTime"))


@dataclass(frozen=True, kw_only=True)
class Found:
    """The cases in a folder.

    Parameters
    ----------
    cases : tuple of Case
        Each with the newest scan and the one before, under a pseudonym.
    left_out : tuple of str
        What is of no case, and why; nothing in it names a patient.
    """

    cases: tuple[Case, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Scan:
    path: Path
    patient: tuple[str, ...]
    side: str
    view: str
    study: str
    date: str


def find_cases(folder: AnyPath, pseudonyms: Pseudonyms, *, command: Command = Command.JOINT) -> Found:
    """Return the cases in a folder of DICOM: two scans of one patient, side and view.

    Headers alone are read, in all folders below. A scan is a file of projections, or a folder with one view
    in each file. Of more than two, the newest and the one before are taken.

    Parameters
    ----------
    folder : str or path
        With scans of any number of patients.
    pseudonyms : Pseudonyms
        What cases are named by: the same key gives the same names.
    command : Command
        Of all cases.

    Returns
    -------
    Found
        In the order of their names.

    Raises
    ------
    FileError
        If there is no folder, or no case in it.
    """
    root = Path(folder)
    if not root.is_dir():
        raise FileError(f"{_WHERE}: expected a folder at {root}; got none. Check the path.")
    left_out: list[str] = []
    groups: dict[tuple[Any, ...], list[_Scan]] = defaultdict(list)
    for scan in _scans(root, left_out):
        groups[scan.patient, scan.side, scan.view].append(scan)
    cases = [
        case for scans in groups.values() if (case := _case(scans, pseudonyms, command, left_out)) is not None
    ]
    if not cases:
        reasons = f": {'; '.join(left_out[:5])}" if left_out else ""
        raise FileError(
            f"{_WHERE}: expected two DICOM scans of one patient, side and view in {root}; got none{reasons}. "
            f"Check the folder, or write a manifest."
        )
    return Found(cases=tuple(sorted(cases, key=lambda one: one.name)), left_out=tuple(left_out))


def _case(scans: list[_Scan], pseudonyms: Pseudonyms, command: Command, left_out: list[str]) -> Case | None:
    """Return the case of the scans of one patient, side and view, None if there is none."""
    first = scans[0]
    known = pseudonyms.of("\0".join(first.patient))[:10]
    name = f"p{known}-{first.side}-{first.view}"
    if len(scans) == 1:
        left_out.append(f"{name}: one scan, and none before it")
        return None
    dates = [scan.date for scan in scans]
    if "" in dates or len({*dates}) < len(dates):
        left_out.append(f"{name}: {len(scans)} scans that no dates put into an order")
        return None
    newest, before, *older = sorted(scans, key=lambda scan: scan.date, reverse=True)
    if newest.study == before.study:
        left_out.append(f"{name}: two scans of one study; a manifest says which are meant")
        return None
    if older:
        left_out.append(f"{name}: {len(older)} older scan{'s' * (len(older) > 1)}")
    return Case(name=name, visits=(newest.path, before.path), command=command, where=f"case {name}")


def _scans(root: Path, left_out: list[str]) -> Iterator[_Scan]:
    """Give the scans in a folder and those below it."""
    n_unclear = 0
    for where, folders, names in os.walk(root):
        folders.sort()
        headers = list(_headers(Path(where, name) for name in sorted(names)))
        series: dict[str, list[tuple[Path, Any]]] = defaultdict(list)
        for path, header in headers:
            if int(header.get("NumberOfFrames") or 1) > 1:
                series[str(path)].append((path, header))
            else:
                series[str(header.get("SeriesInstanceUID", ""))].append((path, header))
        for members in series.values():
            path, header = members[0]
            single = int(header.get("NumberOfFrames") or 1) == 1
            if single and len(members) == 1:
                # One picture is no scan.
                continue
            if single and len(members) < len(headers):
                n_unclear += 1
                continue
            scan = _scan(Path(where) if single else path, header)
            if scan is None:
                n_unclear += 1
            else:
                yield scan
    if n_unclear:
        left_out.append(
            f"{n_unclear} scan{'s' * (n_unclear > 1)} without patient, side or view, or beside others in one "
            f"folder"
        )


def _headers(paths: Iterable[Path]) -> Iterator[tuple[Path, Any]]:
    for path in paths:
        try:
            if not path.is_file() or not is_dicom(path):
                continue
            with reading_dicom(_WHERE, path, lambda error: type(error).__name__):
                header = read_dataset(path, pixels=False)
                kind = str(header.get("SOPClassUID", ""))
                if kind in (PROCESSING, PRESENTATION, *_MAMMOGRAPHY):
                    yield path, header
        except (FileError, OSError):
            # What cannot be read is no scan.
            continue


def _scan(path: Path, header: Any) -> _Scan | None:
    """Return what a scan says of itself, None if that is not enough to pair it."""
    with reading_dicom(_WHERE, path, lambda error: type(error).__name__):
        said = comparable(identifying(header), header, BreastView.of(header))
        if not said["PatientID"] or not said[SIDE] or not said[VIEW]:
            return None
        dates = (
            "".join(str(header.get(name) or "") for name in pair) for pair in _DATES if header.get(pair[0])
        )
        return _Scan(
            path=path,
            # Names are spelled in several ways; that they differ is said when the scans are compared.
            patient=(said["PatientID"], said["IssuerOfPatientID"]),
            side=said[SIDE],
            view=said[VIEW],
            study=str(header.get("StudyInstanceUID", "")),
            date=next(dates, ""),
        )
