"""The study of one file, or of several scans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from duotomo.errors import DuotomoError
from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.io.agreement import Agreement, Allowed, compare_visits
from duotomo.io.dicom.breast_view import LATERALITIES, VIEWS, BreastView
from duotomo.io.dicom.gantry import roll_between_deg
from duotomo.io.dicom.header import title
from duotomo.io.dicom.identity import Identity
from duotomo.io.file_kind import is_study
from duotomo.io.line_integrals import log_settings, to_line_integrals
from duotomo.io.paths import AnyPath, FileError, naming
from duotomo.io.scan import Scan
from duotomo.io.scan_file import read_scan
from duotomo.io.scan_missing import grid_of_visit, spacing_mm, thickness_of
from duotomo.io.scan_options import ScanOptions, Values
from duotomo.io.seal import UNSEALED, is_sealed
from duotomo.io.study_file import read_study
from duotomo.methods.study import Study, Visit

OnNote = Callable[[str], None]
"""Called with one sentence about what was read or done."""

_WHERE = "read_visits"


@dataclass(frozen=True, kw_only=True, eq=False)
class ScannedStudy(Study):
    """A study, and what its files say of it.

    Parameters
    ----------
    grid, visits
        Those of `Study`.
    described : tuple of dict
        For each visit, what a report may say of it; nothing there names a patient.
    identities : tuple of Identity or None
        For each visit, whom its file is of, where it says so: for DICOM files only. Visits that do not
        belong together carry a remark of it, whatever their files.
    agreement : Agreement
        What was compared between the visits.
    breasts : tuple of BreastView or None
        Of each visit, which breast its file says that it shows, and from where; None where it states no view.
    plates_mm : tuple of (float, float)
        Of each visit, the heights of the lower and the upper plate's surface above the detector; empty where
        a study does not say them.
    """

    described: tuple[dict[str, Any], ...]
    identities: tuple[Identity | None, ...] = field(repr=False)
    agreement: Agreement
    breasts: tuple[BreastView | None, ...] = ()
    plates_mm: tuple[tuple[float, float], ...] = ()

    @property
    def views_differ(self) -> bool:
        """Whether the files state several views, such as CC and MLO."""
        return len({one.view for one in self.breasts if one is not None}) > 1

    def roll_deg(self, given_deg: float | None = None) -> float:
        """Return by how far the breast is turned in the second of two views, as `two_view_settings` takes it.

        Parameters
        ----------
        given_deg : float, optional
            What a person says; taken from the files unless given.

        Returns
        -------
        float
            In degrees.

        Raises
        ------
        DuotomoError
            If there are not two visits.
        FileError
            If a breast has an implant, the files do not say enough, or the views are too far apart.
        """
        if len(self.visits) != 2:
            raise DuotomoError(
                f"{_WHERE}: expected two visits, one for each view; got {len(self.visits)}. Take the views "
                f"two by two."
            )
        known = [one.breast.implant if one is not None else False for one in self.identities]
        if any(known):
            raise FileError(
                f"{_WHERE}: expected breasts without an implant for two views, whose compressions are those "
                f"of soft tissue; got {title('BreastImplantPresent')} YES in visit {known.index(True) + 1}. "
                f"Reconstruct each view alone."
            )
        if given_deg is not None:
            return given_deg
        first, second = self.breasts or (None, None)
        try:
            return roll_between_deg(first, second)
        except FileError as error:
            raise FileError(f"{_WHERE}: {error}") from error


def read_visits(
    paths: Sequence[AnyPath],
    options: ScanOptions | None = None,
    *,
    allowed: Allowed | None = None,
    two_views: bool = False,
    device: torch.device | str = "cpu",
    on_note: OnNote | None = None,
) -> ScannedStudy:
    """Return the study of one study file, or of scans of any kind.

    Counts become line integrals, and every visit has the grid over what its views see of the breast. Visits
    of different patients, sides or views, and one scan twice, are refused, as far as the files tell.

    Parameters
    ----------
    paths : sequence of str or path
        One study, or scans with the reference first.
    options : ScanOptions, optional
        What the files do not say.
    allowed : Allowed, optional
        In what the visits may differ nevertheless; in nothing, unless given.
    two_views : bool
        The scans may be two views of one breast, such as CC and MLO.
    device : torch.device or str
        Where the projections are put.
    on_note : callable, optional
        Called with each warning, and with what was done, in order.

    Returns
    -------
    ScannedStudy
        float32 projections.

    Raises
    ------
    FileError
        If a file cannot be read, or does not say enough.
    DuotomoError
        If options contradict a file or each other, the thickness of the breast is not known, or the visits
        do not belong together.
    """
    files, options, note = [Path(path) for path in paths], options or ScanOptions(), on_note or _silent
    if not files:
        raise DuotomoError(f"{_WHERE}: expected scans, or a study; got none. Name them, the reference first.")
    if any(map(is_study, files)):
        return _from_study(files, options, allowed, device, note)
    read = [
        _line_integrals(path, options, number, len(files), note) for number, path in enumerate(files, start=1)
    ]
    scans = [scan for scan, _ in read]
    known = [scan.identity for scan in scans]
    pixels = [scan.projections for scan in scans]
    agreement = compare_visits(_WHERE, known, pixels, allowed, two_views=two_views)
    grids = _grids(scans, options, note)
    visits = []
    for path, scan, grid in zip(files, scans, grids, strict=True):
        with naming(_WHERE, path):
            visits.append(
                Visit(
                    projections=scan.projections.to(device=device, dtype=torch.float32),
                    acquisition=scan.acquisition,
                    grid=grid if grid != grids[0] else None,
                )
            )
    described = tuple(
        {
            **_described(scan.acquisition, scan.format),
            "facts": dict(scan.facts),
            "warnings": list(scan.warnings),
            "preparation": list(words),
        }
        for scan, words in read
    )
    return ScannedStudy(
        grid=grids[0],
        visits=tuple(visits),
        described=described,
        identities=agreement.identities(known),
        agreement=agreement,
        breasts=tuple(map(_breast, scans)),
        plates_mm=tuple(
            (options.gap_mm, options.gap_mm + thickness_of(scan, options, number, len(scans)))
            for number, scan in enumerate(scans, start=1)
        ),
    )


def _from_study(
    files: Sequence[Path],
    options: ScanOptions,
    allowed: Allowed | None,
    device: torch.device | str,
    note: OnNote,
) -> ScannedStudy:
    if len(files) > 1:
        raise DuotomoError(
            f"{_WHERE}: expected scans, or one study alone; got {len(files)} files, a study among them. "
            f"Pass the study alone: it holds all visits."
        )
    if options.given:
        raise DuotomoError(
            f"{_WHERE}: expected a study to say all about its scans; got "
            f"{', '.join(f'`{name}`' for name in options.given)} too. Leave them out, or pass the scans "
            f"themselves."
        )
    study = read_study(files[0], device)
    nobody = (None,) * len(study.visits)
    agreement = compare_visits(_WHERE, nobody, [visit.projections for visit in study.visits], allowed)
    if not is_sealed(files[0]):
        note(f"Warning: {UNSEALED}")
    return ScannedStudy(
        grid=study.grid,
        visits=study.visits,
        described=tuple(_described(visit.acquisition, "duotomo study") for visit in study.visits),
        identities=agreement.identities(nobody),
        agreement=agreement,
    )


def _line_integrals(
    path: Path, options: ScanOptions, number: int, n_visits: int, note: OnNote
) -> tuple[Scan, tuple[str, ...]]:
    """Return one visit as line integrals, and in words what was done to make them."""
    scan = read_scan(path, options.of_visit(number, n_visits))
    words: tuple[str, ...] = ()
    if scan.values is Values.COUNTS:
        try:
            scan, words = to_line_integrals(scan, log_settings(options))
        except DuotomoError as error:
            raise DuotomoError(f"{_WHERE}: {path}: {error}") from error
    for line in (*(f"Warning: {warning}" for warning in scan.warnings), *words):
        note(f"Visit {number}: {line}")
    return scan, words


def disagreement(paths: Sequence[AnyPath], options: ScanOptions, allowed: Allowed | None = None) -> str:
    """Return why `read_visits` would not take scans for visits of one breast, "" if it would."""
    scans = [
        read_scan(path, options.of_visit(number, len(paths))) for number, path in enumerate(paths, start=1)
    ]
    known, pixels = [one.identity for one in scans], [one.projections for one in scans]
    two_views = len(scans) == 2 and not (allowed and allowed.allow_different_views)
    try:
        compare_visits(_WHERE, known, pixels, allowed, two_views=two_views)
        first, *others = map(_breast, scans)
        if two_views and first and others[0] and first.view != others[0].view:
            roll_between_deg(first, others[0])
    except DuotomoError as error:
        return str(error).removeprefix(f"{_WHERE}: ")
    return ""


def _breast(scan: Scan) -> BreastView | None:
    """Return what a scan's file says of the view; None where it states none."""
    side, view = scan.facts.get("laterality"), scan.facts.get("view", "")
    implant = scan.identity is not None and scan.identity.breast.implant
    if view not in VIEWS:
        return None
    return BreastView(
        laterality=side if side in LATERALITIES else None,
        view=view,
        implant=implant,
        gantry_deg=scan.gantry_deg,
    )


def _grids(scans: Sequence[Scan], options: ScanOptions, note: OnNote) -> list[VolumeGrid]:
    """Return the grid of each visit, with voxels alike."""
    edges_mm = spacing_mm(scans[0], options)
    grids = [
        grid_of_visit(scan, options, number, len(scans), edges_mm)
        for number, scan in enumerate(scans, start=1)
    ]
    if options.gap_mm == 0:
        note("The breast is taken to lie on the detector; `gap_mm` says how far above it it lies.")
    return grids


def _described(acquisition: Acquisition, kind: str) -> dict[str, Any]:
    angles = [math.degrees(angle) for angle in acquisition.angles_rad]
    return {
        "format": kind,
        "shape": list(acquisition.shape),
        "pixel_spacing_mm": list(acquisition.pixel_spacing_mm),
        "angles_deg": [round(min(angles), 3), round(max(angles), 3)],
    }


def _silent(text: str) -> None:
    pass
