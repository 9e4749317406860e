"""What JSON that is read back may hold: looked at before anything is done with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from duotomo.io.paths import FileError
from duotomo.methods.settings_schema import schema_fault
from duotomo.solvers import Status
from duotomo.transforms.transform import FEW_PARAMS

MOST_VOXELS = 2**36
"""Of a grid: a breast at 0.02 mm."""

MOST_PARAMS = 2**26
MOST_VISITS, MOST_FILES = 1000, 10_000

Count = Annotated[int, Field(ge=0, le=2**53)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Words = Annotated[str, Field(max_length=10_000)]
Sha256 = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
FileName = Annotated[str, Field(pattern=r"\A[^/\\\x00.][^/\\\x00]*\z", max_length=255)]
"""In the folder itself: a name with a folder in it, or a hidden one, would be read or removed elsewhere."""

_Side = Annotated[int, Field(ge=1, le=2**16)]
_Factor = Annotated[int, Field(ge=1, le=2**12)]
_Edge = Annotated[float, Field(gt=0, le=1e4)]
_Place = Annotated[float, Field(ge=-1e6, le=1e6)]


class _Schema(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", frozen=True)


class _Grid(_Schema):
    kind: Literal["VolumeGrid"]
    shape: Annotated[list[_Side], Field(min_length=3, max_length=3)]
    spacing_mm: Annotated[list[_Edge], Field(min_length=3, max_length=3)]
    center_mm: Annotated[list[_Place], Field(min_length=3, max_length=3)]

    @field_validator("shape")
    @classmethod
    def _few_voxels(cls, shape: list[int]) -> list[int]:
        if math.prod(shape) > MOST_VOXELS:
            raise ValueError(f"at most {MOST_VOXELS} voxels")
        return shape

    def holds(self, place_mm: Sequence[float]) -> bool:
        """Return whether a place, (x, y, z), is on the grid, or off by no more than a voxel."""
        sides = zip(place_mm[::-1], self.center_mm, self.shape, self.spacing_mm, strict=True)
        return all(abs(mm - middle) <= (n / 2 + 1) * edge for mm, middle, n, edge in sides)


class _File(_Schema):
    kind: Annotated[str, Field(max_length=40)]
    sha256: Sha256
    size: Count | None = None


class _UncertaintyFiles(_Schema):
    file: FileName
    map: FileName | None = None
    covariance: FileName | None = None


class _Motion(_Schema):
    visit: Annotated[int, Field(ge=2, le=MOST_VISITS)]
    file: FileName
    model: Annotated[str, Field(max_length=200)]
    params: Annotated[list[float], Field(max_length=MOST_PARAMS)]
    uncertainty: _UncertaintyFiles | None = None


class _ChangeFiles(_Schema):
    findings: FileName
    scores: FileName
    silent: FileName
    volume: FileName


class ResultSchema(_Schema):
    """`result.json`, of any version, in the form of the present one."""

    generation: Count
    method: Annotated[str, Field(max_length=200)]
    status: Literal[tuple(one.value for one in Status)]  # type: ignore[valid-type]
    reason: Words
    grid: _Grid
    applications: Count
    seconds: Seconds
    motions: Annotated[list[_Motion], Field(max_length=MOST_VISITS)]
    quality: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, Words]
    files: Annotated[dict[FileName, _File], Field(max_length=MOST_FILES)]
    change: _ChangeFiles | None = None


_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Length = Annotated[float, Field(ge=0, le=1e6)]
_Share = Annotated[float, Field(ge=0, le=1)]


class _Spread(_Schema):
    median_mm: _Length
    upper_mm: _Length


class _LeastDetermined(_Schema):
    words: Annotated[str, Field(max_length=200)]
    deviation_mm: _Length
    share: _Share


class UncertaintySchema(_Schema):
    """`visit_2_uncertainty.json`."""

    format: Literal["duotomo uncertainty"]
    version: Literal[1]
    visit: Annotated[int, Field(ge=2, le=MOST_VISITS)]
    model: Annotated[str, Field(max_length=200)]
    form: Annotated[str, Field(max_length=40)]
    reason: Words
    n_params: Annotated[int, Field(ge=1, le=MOST_PARAMS)]
    n_modes: Annotated[int, Field(ge=0, le=MOST_PARAMS)]
    covariance: Annotated[list[list[_Finite]], Field(min_length=1, max_length=FEW_PARAMS)] | None
    n_points: Count
    determined: _Share
    in_plane: _Spread | None
    in_depth: _Spread | None
    least_determined: Annotated[list[_LeastDetermined], Field(max_length=100)]

    @model_validator(mode="after")
    def _square(self) -> Self:
        rows = self.covariance
        if rows is not None and {len(rows), *map(len, rows)} != {self.n_params}:
            raise ValueError(f"a covariance of {self.n_params} rows and columns")
        return self


_Xyz = Annotated[list[_Place], Field(min_length=3, max_length=3)]
_Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Finding(_Schema):
    model_config = ConfigDict(extra="forbid")

    number: Annotated[int, Field(ge=1, le=10**6)]
    kind: Literal["new", "gone"]
    template: Annotated[str, Field(max_length=200)]
    place_mm: _Xyz
    place_deviation_mm: Annotated[list[_Length], Field(min_length=3, max_length=3)]
    prior_place_mm: _Xyz
    size_mm: _Length
    size_interval_mm: Annotated[list[_Length], Field(min_length=2, max_length=2)]
    contrast_per_mm: _Finite
    contrast_interval_per_mm: Annotated[list[_Finite], Field(min_length=2, max_length=2)]
    z: _Finite
    p_value: _Share
    false_findings: _Positive
    false_discovery_rate: _Share
    smear_mm: _Length
    slice_index: Annotated[int, Field(ge=0, le=2**16)]
    words: Words

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        sign = 1 if self.kind == "new" else -1
        if min(sign * self.z, sign * self.contrast_per_mm) < 0:
            raise ValueError("a score and a contrast above zero for what is new, below for what is gone")
        for value, (low, high) in (
            (self.size_mm, self.size_interval_mm),
            (self.contrast_per_mm, self.contrast_interval_per_mm),
        ):
            if not low <= value <= high:
                raise ValueError("an interval that holds its value")
        return self


class _FalseFindings(_Schema):
    model_config = ConfigDict(extra="forbid")

    thresholds: Annotated[list[_Finite], Field(max_length=10**5)]
    expected: Annotated[list[_Positive], Field(max_length=10**5)]

    @model_validator(mode="after")
    def _alike(self) -> Self:
        if len(self.thresholds) != len(self.expected):
            raise ValueError("as many numbers expected as thresholds")
        if any(a >= b for a, b in pairwise(self.thresholds)) or any(
            a < b for a, b in pairwise(self.expected)
        ):
            raise ValueError("thresholds that rise, with expected numbers that do not")
        return self


class ChangeSchema(_Schema):
    """`findings.json`."""

    format: Literal["duotomo change"]
    version: Literal[1]
    reason: Words
    threshold: _Positive | None
    false_findings: _FalseFindings
    findings: Annotated[list[_Finding], Field(max_length=10**5)]
    grid: _Grid
    files: Annotated[dict[FileName, _File], Field(max_length=MOST_FILES)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.findings and (self.reason or self.threshold is None):
            raise ValueError("no findings where visits were not compared")
        if [one.number for one in self.findings] != list(range(1, len(self.findings) + 1)):
            raise ValueError("findings with numbers from 1 on, in their order")
        sizes = [abs(one.z) for one in self.findings]
        if sizes != sorted(sizes, reverse=True) or any(size < (self.threshold or 0.0) for size in sizes):
            raise ValueError("the largest |z| first, and none below the threshold")
        for one in self.findings:
            if one.slice_index >= self.grid.shape[0] or not self.grid.holds(one.place_mm):
                raise ValueError("places on the grid")
        return self


class StateSchema(_Schema):
    """What a checkpoint says of its state beside the arrays."""

    stage: Annotated[int, Field(ge=0, le=10_000)]
    block: Annotated[int, Field(ge=0, le=10**7)]
    coarsen: Annotated[list[_Factor], Field(min_length=3, max_length=3)]
    model: Annotated[str, Field(max_length=10_000)]
    status: Literal[tuple(one.value for one in Status)]  # type: ignore[valid-type]
    reason: Words
    applications: Count
    seconds: Seconds


class NamesSchema(_Schema):
    """What steps are called in the history of a checkpoint."""

    names: Annotated[list[Words], Field(max_length=10**6)]


def check_schema(schema: type[BaseModel], content: object) -> None:
    """Raise unless all is as a schema has it."""
    fault = schema_fault(schema, content)
    if fault is not None:
        raise FileError(f"expected JSON as it was written; got {fault}. Restore the file.")
