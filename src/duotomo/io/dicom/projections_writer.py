"""Scans as DICOM: a Breast Projection X-Ray image, or one mammography file for each view."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotomo.errors import DuotomoError, GeometryError
from duotomo.io.dicom.breast_view import BreastView
from duotomo.io.dicom.header import ViewAttributes, fill, item, quiet
from duotomo.io.dicom.identity import Identity
from duotomo.io.dicom.instance import EXPLICIT, MOST_BYTES, SUFFIXES, new_dataset, save
from duotomo.io.dicom.isocentre import isocentre_geometry, isocentre_of
from duotomo.io.dicom.orientation import Turn
from duotomo.io.dicom.private_block import Scale, put_block
from duotomo.io.dicom.projections_modules import (
    frame_groups,
    image_module,
    multi_frame_module,
    shared_groups,
    single_file_module,
    stored_turn,
)
from duotomo.io.dicom.sop_classes import PRESENTATION, PROCESSING
from duotomo.io.durable import UNFINISHED
from duotomo.io.file_set import together
from duotomo.io.paths import AnyPath, FileError, make_folder, target
from duotomo.io.scan import Scan
from duotomo.io.scan_options import Values

MAMMOGRAPHY = {False: "1.2.840.10008.5.1.4.1.1.1.2.1", True: "1.2.840.10008.5.1.4.1.1.1.2"}
"""Digital Mammography X-Ray Image Storage, For Processing and For Presentation."""

HIGHEST = 65534
"""Stored values go up to here; 65535 marks a pixel without a value."""

CARRIED_MM = 1e-3
"""Standard attributes alone have to give the geometry back to this."""


def write_dicom_projections(
    path: AnyPath,
    scan: Scan,
    *,
    identity: Identity | None = None,
    presentation: bool = False,
    transfer_syntax: str = EXPLICIT,
    single_files: bool = False,
    private: bool = True,
) -> None:
    """Write a scan to a `.dcm` file with a frame for each view, or to a folder with a file for each.

    Stored are 16 bits. Counts are rounded to whole numbers, or to 1/65534 of the largest if that is more;
    line integrals to 1/65534 of their range. A private block, creator DUOTOMO, gives vectors and scale in
    float64; without it, `private=False`, the standard's attributes have to carry the geometry, and counts the
    values.

    Parameters
    ----------
    path : str or path
        Ends in `.dcm`; with `single_files` it is a folder, which is made.
    scan : Scan
        Its facts "laterality" and "view" say which breast it is; otherwise it is a cranio-caudal view of
        neither side.
    identity : Identity, optional
        Of the patient; the scan's own, or nobody's, unless given.
    presentation : bool
        Mark the images as For Presentation instead of For Processing.
    transfer_syntax : str
        A UID, for example 1.2.840.10008.1.2.4.90 for lossless JPEG 2000.
    single_files : bool
        Write a folder with one mammography file for each view.
    private : bool
        Write the private block too.

    Raises
    ------
    FileError
        If DICOM cannot hold the scan, which has negative counts or too many pixels; or the file cannot be
        written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import torch
    >>> from duotomo.geometry import paper
    >>> from duotomo.io.dicom import read_dicom_scan
    >>> scan = Scan(projections=torch.ones(11, 4, 4), values=Values.COUNTS, acquisition=paper().bin(32))
    >>> with TemporaryDirectory() as folder:
    ...     write_dicom_projections(f"{folder}/scan.dcm", scan)
    ...     again = read_dicom_scan(f"{folder}/scan.dcm")
    >>> again.acquisition == scan.acquisition, again.format
    (True, 'DICOM Breast Projection X-Ray, For Processing')
    """
    where = "write_dicom_projections"
    try:
        who = identity or scan.identity or Identity.anonymous()
        breast = BreastView(
            laterality=scan.facts.get("laterality"),
            view=scan.facts.get("view", "CC"),
            implant=who.breast.implant,
        )
        turn = stored_turn(breast)
        stored = _stored(scan, private=private)
        if not private:
            _check_carried(scan, turn, single_files=single_files)
        files = _Files(
            scan=scan,
            identity=who,
            breast=breast,
            turn=turn,
            presentation=presentation,
            private=private,
            stored=stored,
        )
        frames = np.ascontiguousarray(turn.undo(stored.values))
        if not single_files and frames.nbytes > MOST_BYTES:
            raise FileError(
                f"expected at most {MOST_BYTES} bytes of pixels in one file; got {frames.nbytes}. "
                f"Use single_files=True."
            )
        names = [f"view_{view:03d}.dcm" for view in range(len(frames))]
        if single_files:
            _check_folder(Path(path), names)
    except DuotomoError as error:
        raise type(error)(f"{where}: {error}") from error
    with quiet():
        if not single_files:
            save(where, target(where, path, SUFFIXES), files.all(frames), files.identity, transfer_syntax)
            return
        make_folder(where, Path(path))
        # Fewer views than there are would be a scan, too.
        with together(where, Path(path), "views") as draft:
            for view, name in enumerate(names):
                save(where, draft / name, files.one(view, frames[view]), files.identity, transfer_syntax)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Stored:
    """Values (view, v, u) as they are stored, what they stand for, and whether some pixels have none.

    n_values: one more than the highest.
    """

    values: NDArray[np.uint16]
    scale: Scale
    padded: bool
    n_values: int


@dataclass(frozen=True, kw_only=True, eq=False)
class _Files:
    """The files of one scan while they are made."""

    scan: Scan
    identity: Identity
    breast: BreastView
    turn: Turn
    presentation: bool
    private: bool
    stored: _Stored

    def all(self, frames: NDArray[np.uint16]) -> Any:
        """Return the dataset of a file with all views."""
        dataset = self._new(PRESENTATION if self.presentation else PROCESSING, frames)
        n_values, event = self.stored.n_values, self.identity.uid("irradiation event")
        shared = shared_groups(self.scan, self.breast, event, n_values, presentation=self.presentation)
        fill(dataset, multi_frame_module(self.scan))
        dataset.SharedFunctionalGroupsSequence = [shared]
        dataset.PerFrameFunctionalGroupsSequence = [
            self._groups(view) for view in range(self.scan.acquisition.n_views)
        ]
        if self.private:
            put_block(dataset, self.scan, self.stored.scale, slice(None))
        return dataset

    def one(self, view: int, frame: NDArray[np.uint16]) -> Any:
        """Return the dataset of a file with one view."""
        dataset = self._new(MAMMOGRAPHY[self.presentation], frame)
        groups, n_values = self._groups(view), self.stored.n_values
        module = single_file_module(
            self.scan, self.breast, groups, view, n_values, presentation=self.presentation
        )
        fill(dataset, module)
        # Files of one view are written with the block only.
        put_block(dataset, self.scan, self.stored.scale, slice(view, view + 1))
        return dataset

    def _groups(self, view: int) -> Any:
        acquisition = self.scan.acquisition
        return frame_groups(
            acquisition, view, self.turn, isocentre_of(acquisition), self.scan.gantry_deg or 0.0
        )

    def _new(self, sop_class: str, frames: NDArray[np.uint16]) -> Any:
        dataset = new_dataset(sop_class, "MG", self.identity, "projections")
        fill(dataset, image_module(self.scan, self.breast, self.turn, presentation=self.presentation))
        dataset.Rows, dataset.Columns = frames.shape[-2:]
        if self.stored.padded:
            dataset.add_new("PixelPaddingValue", "US", HIGHEST + 1)
        dataset.add_new("PixelData", "OW", frames.astype("<u2").tobytes())
        return dataset


def _stored(scan: Scan, *, private: bool) -> _Stored:
    values = scan.projections.detach().cpu().numpy()
    known = np.isfinite(values)
    low, high = (
        float(values.min(where=known, initial=np.inf)),
        float(values.max(where=known, initial=-np.inf)),
    )
    low, high = (low, high) if known.any() else (0.0, 0.0)
    scale = Scale(values=scan.values, step=(high - low) / HIGHEST or 1.0, offset=low)
    if scan.values is Values.COUNTS:
        if low < 0:
            raise FileError(f"expected counts of at least zero; got {low:g}. Correct the scan.")
        scale = Scale(values=scan.values, step=max(1.0, high / HIGHEST))
    if not private and scale != Scale(values=Values.COUNTS):
        raise FileError(
            f"expected counts up to {HIGHEST} for a file without the private block; got {scan.values.value} "
            f"from {low:g} to {high:g}. Use private=True, which writes their scale."
        )
    stored = np.empty(values.shape, dtype=np.uint16)
    # View by view: doubles of a whole clinical scan would take half a gigabyte.
    for view, (numbers, there) in enumerate(zip(values, known, strict=True)):
        scaled = np.rint((np.where(there, numbers, low).astype(np.float64) - scale.offset) / scale.step)
        stored[view] = np.where(there, np.clip(scaled, 0, HIGHEST), HIGHEST + 1)
    n_values = round((high - scale.offset) / scale.step) + 1
    return _Stored(values=stored, scale=scale, padded=bool(not known.all()), n_values=n_values)


def _check_folder(folder: Path, names: list[str]) -> None:
    """Raise if a folder has other files, which would later be read as views of this scan."""
    found = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    others = sorted(name for name in found if name not in names and not name.startswith(UNFINISHED))
    if others:
        raise FileError(
            f"expected an empty folder, or one with an older version of this scan, at {folder}; got "
            f"{others[0]!r} in it. Choose another."
        )


def _check_carried(scan: Scan, turn: Turn, *, single_files: bool) -> None:
    """Raise unless the attributes of the standard give the geometry back."""
    remedy = "Use private=True, which writes the vectors themselves."
    if single_files:
        raise GeometryError(
            f"expected the private block in files of one view, because mammography's attributes do not "
            f"place the isocentre; got private=False. {remedy}"
        )
    off_mm = _off_mm(scan, turn)
    if off_mm > CARRIED_MM:
        raise GeometryError(
            f"expected a scan that the standard's attributes can carry: a detector that turns about y only, "
            f"at z = 0 where it tilts least, from y = 0; got one that they give back {off_mm:.3g} mm away. "
            f"{remedy}"
        )


def _off_mm(scan: Scan, turn: Turn) -> float:
    """Return how far the standard's attributes move a scan."""
    acquisition, gantry_deg = scan.acquisition, scan.gantry_deg or 0.0
    isocentre_mm = isocentre_of(acquisition)
    groups = [
        frame_groups(acquisition, view, turn, isocentre_mm, gantry_deg) for view in range(acquisition.n_views)
    ]
    dataset = item({"PerFrameFunctionalGroupsSequence": groups})
    views = [ViewAttributes(dataset, view) for view in range(acquisition.n_views)]
    shape, spacing_mm = turn.shape(acquisition.detector_shape), turn.shape(acquisition.pixel_spacing_mm)
    try:
        back, _ = isocentre_geometry(views, shape, spacing_mm)
    except DuotomoError:
        return float("inf")
    return max(
        float(np.abs(getattr(back, name) - getattr(acquisition, name)).max())
        for name in ("sources_mm", "detector_centers_mm", "u_axes", "v_axes")
    )
