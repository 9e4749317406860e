"""Both visits of a case of change detection, each reconstructed alone: what other programs register."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from benchmarks.peers.exchange import Array
from duotomo.change import Silent, for_change
from duotomo.change.silent import depth_mm, silent_voxels
from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.methods import Settings, Study
from duotomo.methods.comparison import visit_alone
from duotomo.transforms import Motion, Translation


@dataclass(frozen=True, kw_only=True, eq=False)
class Volumes:
    """Both visits of a case, each reconstructed alone.

    Parameters
    ----------
    visit_1, visit_2 : numpy.ndarray
        The current visit and the prior one, each in its own frame, (z, y, x), 1/mm.
    stated : numpy.ndarray
        (z, y, x), bool: voxels of the current visit that count.
    """

    visit_1: Array = field(repr=False)
    visit_2: Array = field(repr=False)
    stated: Array = field(repr=False)

    @classmethod
    def reconstructed(cls, study: Study) -> Volumes:
        """Return those of a study."""
        settings = for_change(Settings.automatic(study), study)
        one, other = (visit_alone(study, settings, index) for index in range(2))
        return cls.of(study, one, other)

    @classmethod
    def of(cls, study: Study, visit_1: torch.Tensor, visit_2: torch.Tensor) -> Volumes:
        """Return reconstructions, each in its own frame; stated is what can be said without a motion."""
        one, other = visit_1.cpu(), visit_2.cpu()
        unmoved = Translation(study.grid)
        silent = silent_voxels(study, depth_mm(one, study.grid), Motion(unmoved, unmoved.identity()))
        return cls(visit_1=one.numpy(), visit_2=other.numpy(), stated=(silent == int(Silent.STATED)).numpy())

    def save(self, path: Path) -> None:
        """Write a file, volumes in half precision."""
        path.parent.mkdir(parents=True, exist_ok=True)
        begun = path.with_suffix(".part.npz")
        np.savez_compressed(
            begun,
            visit_1=self.visit_1.astype(np.float16),
            visit_2=self.visit_2.astype(np.float16),
            stated=self.stated,
        )
        begun.replace(path)

    @classmethod
    def load(cls, path: Path, grid: VolumeGrid) -> Volumes:
        """Read a file of volumes on a grid."""
        with np.load(path) as file:
            missing = sorted({"visit_1", "visit_2", "stated"} - set(file.files))
            if missing:
                raise DuotomoError(
                    f"{path}: expected visit_1, visit_2 and stated; there is no {', '.join(missing)}. "
                    "Remove the file to have it made anew."
                )
            one, other = (file[name].astype(np.float32) for name in ("visit_1", "visit_2"))
            stated = file["stated"].astype(bool)
        for name, array in (("visit_1", one), ("visit_2", other), ("stated", stated)):
            if array.shape != grid.shape:
                raise DuotomoError(
                    f"{path}: expected {name} (z, y, x) = {grid.shape}; got {array.shape}. "
                    "Was it made with another --voxel-mm?"
                )
        return cls(visit_1=one, visit_2=other, stated=stated)
