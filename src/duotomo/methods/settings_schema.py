"""What a dictionary of settings may hold: looked at before settings are made of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MOST_STAGES = 1000

_Factor = Annotated[int, Field(ge=1, le=2**12)]
_Steps = Annotated[int, Field(ge=1, le=10**7)]
_Weight = Annotated[float, Field(ge=0, le=1e12)]


class _Schema(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Stage(_Schema):
    coarsen: Annotated[list[_Factor], Field(min_length=3, max_length=3)]
    model: dict[str, Any] | None
    n_steps: _Steps
    fresh: bool
    stiffness: _Weight


_Stages = Annotated[list[_Stage], Field(max_length=MOST_STAGES)]


class SettingsSchema(_Schema):
    """What `settings_to_dict` returns; without `basis` and `stiffer`, as before 0.2."""

    version: int
    stages: _Stages
    stiffer: _Stages = []
    solver: dict[str, int | str]
    priors: dict[str, _Weight]
    initial_guess: bool
    tolerance: _Weight
    basis: Literal["voxel", "spline"] = "voxel"
    central_step: _Weight | None


def schema_fault(schema: type[BaseModel], content: object) -> str | None:
    """Return the first key that is not as a schema has it, and how it should be; None if all are.

    >>> schema_fault(SettingsSchema, {"version": 2})
    'stages: Field required'
    """
    try:
        schema.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']}"
    return None
