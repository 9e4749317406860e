"""Two-visit studies made outside of the project: real breasts, motions by SimpleITK, projections by RTK.

Each is one .npz with projections, geometry, the true volume and landmarks. Settings are chosen on the
development patients; the frozen ones are run when nothing else changes any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from duotomo.geometry import Acquisition, VolumeGrid
from duotomo.methods import Study, Visit
from duotomo.objectives import photon_weights
from duotomo.transforms import Affine, Motion, target_registration_error

SPLITS = {"development": "ACGKO", "frozen": "HIM"}
"""Patients by the first letter of a case's name."""

AFFINE_KINDS = ("small", "large")


@dataclass(frozen=True, kw_only=True, eq=False)
class RobustCase:
    """One study with its truth, at one size of voxels."""

    name: str
    kind: str
    study: Study
    truth: torch.Tensor = field(repr=False)
    matrix: np.ndarray[Any, Any]
    moving_mm: torch.Tensor = field(repr=False)
    reference_mm: torch.Tensor = field(repr=False)

    @classmethod
    def read(cls, path: Path, voxel_mm: float, *, device: str = "cpu", weighted: bool = False) -> RobustCase:
        """Read a case; the grid is the box of the true volume, which both visits were made in."""
        with np.load(path) as file:
            content = {name: file[name] for name in file.files}
        acquisition = Acquisition.from_vectors(
            source_mm=content["source"],
            detector_center_mm=content["det_center"],
            u_mm=content["det_u"],
            v_mm=content["det_v"],
            detector_shape=content["p1"].shape[1:],
        )
        edge_mm, photons = float(content["spacing_mm"]), float(content["photons"])
        size_mm = np.array(content["truth"].shape) * edge_mm
        center_mm = content["origin_mm"][::-1] - edge_mm / 2 + size_mm / 2
        n_z, n_y, n_x = (max(1, round(size / voxel_mm)) for size in size_mm)
        z, y, x = (float(c) for c in center_mm)
        grid = VolumeGrid(shape=(n_z, n_y, n_x), spacing_mm=(voxel_mm,) * 3, center_mm=(z, y, x))
        visits = []
        for name in ("p1", "p2"):
            views = torch.from_numpy(content[name]).to(device)
            weights = photon_weights(views, photons) if weighted else None
            visits.append(Visit(projections=views, acquisition=acquisition, weights=weights))
        truth = torch.nn.functional.interpolate(
            torch.from_numpy(content["truth"])[None, None].float(), size=grid.shape, mode="area"
        )
        return cls(
            name=path.stem,
            kind=path.stem.split("_")[1],
            study=Study(grid=grid, visits=tuple(visits)),
            truth=truth[0, 0].to(device),
            matrix=content["matrix"],
            moving_mm=torch.from_numpy(content["landmarks_moving"]).double(),
            reference_mm=torch.from_numpy(content["landmarks_reference"]).double(),
        )

    @property
    def is_cut(self) -> bool:
        """Whether tissue beyond the chest wall is not seen."""
        return "_cut" in self.name

    @property
    def start_mm(self) -> float:
        """Mean distance of the landmarks before any registration."""
        return float((self.moving_mm - self.reference_mm).norm(dim=1).mean())

    def errors_mm(self, motion: Motion) -> tuple[float, float]:
        """Return the mean and the 95th percentile of the target registration error over the landmarks."""
        errors = target_registration_error(motion, self.moving_mm, self.reference_mm)
        return float(errors.mean()), float(errors.quantile(0.95))

    def relative_error(self, volume: torch.Tensor) -> float:
        """Return `|f - truth|^2 / |truth|^2`; with a chest wall, over what lies in front of it."""
        grid, acquisition = self.study.grid, self.study.reference.acquisition
        seen = slice(None)
        if self.is_cut:
            edge_mm = acquisition.detector_center_mm[0][1]
            edge_mm -= acquisition.detector_shape[0] * acquisition.pixel_spacing_mm[0] / 2
            seen = slice(max(0, round((edge_mm - grid.low_mm[1]) / grid.spacing_mm[1])), None)
        difference = (volume - self.truth)[:, seen]
        return float(difference.square().sum() / self.truth[:, seen].square().sum())

    def true_motion(self) -> Motion | None:
        """Return the affine motion, or None where it is none."""
        if not np.isfinite(self.matrix).all():
            return None
        # The matrix is about the origin of the machine's frame.
        affine = Affine(self.study.grid, center_mm=(0.0, 0.0, 0.0))
        return Motion(
            affine, affine.params(matrix=self.matrix[:, :3].tolist(), translation_mm=self.matrix[:, 3])
        )
