"""A breast in two views with its truth, as `python -m benchmarks.two_view_cases` leaves it in a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hexahedra import Floats, Ints
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.io import read_study, write_study
from duotomo.mechanics import Compression
from duotomo.methods import Study

VIEWS = ("cc", "mlo")


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """What is true of a breast in one view, in the frame of that view's machine.

    Parameters
    ----------
    volume : numpy.ndarray
        Attenuation, (z, y, x) on `grid`, 1/mm.
    grid : VolumeGrid
        That of the visit.
    landmarks_mm, lesions_mm : numpy.ndarray
        Points in gland, and the middles of lesions, (point, xyz); the same tissue in both views.
    nipple_mm : numpy.ndarray
        (xyz,).
    nodes_mm : numpy.ndarray
        Of the solver's mesh, (node, xyz).
    thickness_mm : float
        Between the plates.
    """

    volume: Floats = field(repr=False)
    grid: VolumeGrid
    landmarks_mm: Floats = field(repr=False)
    lesions_mm: Floats = field(repr=False)
    nipple_mm: Floats
    nodes_mm: Floats = field(repr=False)
    thickness_mm: float


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoViewCase:
    """A study whose reference is the craniocaudal visit, and the truth about it.

    about: what case.json says. cc, mlo: the truth in each view. rest_mm: the solver's nodes in the frame that
    the anatomy is given in, (node, xyz); tetrahedra: between them.
    """

    about: dict[str, Any]
    study: Study
    cc: Truth
    mlo: Truth
    rest_mm: Floats = field(repr=False)
    tetrahedra: Ints = field(repr=False)

    def compression(self, truth: Truth) -> Compression:
        """Return the map between the anatomy's frame and that of a view."""
        return Compression(
            rest_mm=self.rest_mm,
            moved_mm=truth.nodes_mm,
            tetrahedra=self.tetrahedra,
            thickness_mm=truth.thickness_mm,
            least_jacobian=float(self.about["least_jacobian"]),
        )

    def to_reference(self, points_mm: Floats) -> Floats:
        """Return where points of the oblique frame, (point, xyz), lie in the craniocaudal one."""
        return self.compression(self.cc).from_rest(self.compression(self.mlo).to_rest(points_mm))

    def write(self, folder: Path) -> None:
        """Write study.h5, truth.npz and case.json; case.json last."""
        folder.mkdir(parents=True, exist_ok=True)
        write_study(folder / "study.h5", self.study)
        arrays: dict[str, Any] = {
            "rest_mm": self.rest_mm.astype(np.float32),
            "tetrahedra": self.tetrahedra.astype(np.int32),
        }
        for view, truth in zip(VIEWS, (self.cc, self.mlo), strict=True):
            arrays |= {
                f"volume_{view}": truth.volume.astype(np.float32),
                f"grid_{view}": truth.grid.to_json(),
                f"landmarks_{view}_mm": truth.landmarks_mm,
                f"lesions_{view}_mm": truth.lesions_mm,
                f"nipple_{view}_mm": truth.nipple_mm,
                f"nodes_{view}_mm": truth.nodes_mm.astype(np.float32),
                f"thickness_{view}_mm": truth.thickness_mm,
            }
        np.savez_compressed(folder / "truth.npz", **arrays)
        (folder / "case.json").write_text(json.dumps(self.about, indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> TwoViewCase:
        """Read what `write` wrote."""
        if not (folder / "case.json").is_file():
            raise DuotomoError(
                f"two_view_case: expected case.json in {folder}; it is not there. Make cases with "
                f"`python -m benchmarks.two_view_cases prepare {folder.parent}`."
            )
        with np.load(folder / "truth.npz") as file:
            content = {name: file[name] for name in file.files}
        truths = [
            Truth(
                volume=content[f"volume_{view}"],
                grid=VolumeGrid.from_json(str(content[f"grid_{view}"])),
                landmarks_mm=content[f"landmarks_{view}_mm"],
                lesions_mm=content[f"lesions_{view}_mm"],
                nipple_mm=content[f"nipple_{view}_mm"],
                nodes_mm=content[f"nodes_{view}_mm"].astype(np.float64),
                thickness_mm=float(content[f"thickness_{view}_mm"]),
            )
            for view in VIEWS
        ]
        return cls(
            about=json.loads((folder / "case.json").read_text()),
            study=read_study(folder / "study.h5"),
            cc=truths[0],
            mlo=truths[1],
            rest_mm=content["rest_mm"].astype(np.float64),
            tetrahedra=content["tetrahedra"].astype(np.int64),
        )
