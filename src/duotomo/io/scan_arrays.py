"""One visit as a file holds it, in NumPy's arrays: it can be looked at without PyTorch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from duotomo.geometry import Acquisition
from duotomo.io.scan_options import Values

if TYPE_CHECKING:
    from duotomo.io.dicom.identity import Identity
    from duotomo.io.scan import Scan

_ARRAYS = ("projections", "flat_field")


@dataclass(frozen=True, kw_only=True, eq=False)
class ScanArrays:
    """The fields of `Scan`, not yet looked at."""

    projections: NDArray[Any]
    values: Values
    acquisition: Acquisition
    flat_field: NDArray[Any] | None = None
    format: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    thickness_mm: float | None = None
    gantry_deg: float | None = None
    warnings: tuple[str, ...] = ()
    identity: Identity | None = None

    def scan(self) -> Scan:
        """Return the scan; raise unless it can be one."""
        import torch

        from duotomo.io.scan import Scan

        given = {one.name: getattr(self, one.name) for one in fields(self)}
        tensors = {name: None if given[name] is None else torch.from_numpy(given[name]) for name in _ARRAYS}
        return Scan(**given | tensors)

    def check(self) -> None:
        """Raise unless it can be a scan."""
        plain = (
            self.flat_field is None
            and (self.thickness_mm is None or 0 < self.thickness_mm < math.inf)
            and self.projections.shape == self.acquisition.shape
            and self.projections.dtype in (np.float32, np.float64)
            and (self.values is Values.COUNTS or bool(np.isfinite(self.projections).all()))
        )
        if not plain:
            # It says what is wrong, if anything is; that takes PyTorch, a second of it.
            self.scan()
