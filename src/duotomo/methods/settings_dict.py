"""Settings as a dictionary of plain values, with a version: for files, fingerprints and other programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from duotomo.errors import DuotomoError
from duotomo.mechanics import BetweenViews, HeldView
from duotomo.methods.priors import Priors
from duotomo.methods.schedule import Stage
from duotomo.methods.settings import Alternating, Coupled, Settings
from duotomo.transforms import Affine, BSpline, Model, Rigid, Translation, Velocity
from duotomo.transforms.models import ChainModel, LatticeModel, model_name

VERSION = 2
"""Of the dictionary. Version 1 was the `repr` of the settings, of which only a hash was kept."""

_LINEAR: dict[str, Model] = {model_name(model): model for model in (Translation, Rigid, Affine)}
_BETWEEN = "recompression"
_ON_LATTICE: dict[str, Any] = {model_name(model): model for model in (BSpline, Velocity)}
_SOLVERS: dict[str, type[Coupled] | type[Alternating]] = {"coupled": Coupled, "alternating": Alternating}

_WHERE = "settings_from_dict"


def settings_to_dict(settings: Settings) -> dict[str, Any]:
    """Return settings as plain values, which JSON can hold.

    Parameters
    ----------
    settings : Settings
        Those of any method, with models of motion from anywhere.

    Returns
    -------
    dict
        With a `version`; names of fields do not follow those of the classes, so that a renamed class leaves
        older files readable.

    Examples
    --------
    >>> settings_to_dict(Settings.plain(Affine))["stages"][0]["model"]
    {'transform': 'affine'}
    """
    kind = next(kind for kind, known in _SOLVERS.items() if isinstance(settings.solver, known))
    return {
        "version": VERSION,
        "stages": [_stage_to_dict(stage) for stage in settings.stages],
        "stiffer": [_stage_to_dict(stage) for stage in settings.stiffer],
        "solver": {"kind": kind, **asdict(settings.solver)},
        "priors": asdict(settings.priors),
        "initial_guess": settings.initial_guess,
        "tolerance": settings.tolerance,
        "basis": settings.basis,
        "central_step": settings.central_step,
    }


def settings_from_dict(content: Mapping[str, Any], *, models: Mapping[str, Model] | None = None) -> Settings:
    """Return the settings that `settings_to_dict` wrote.

    Parameters
    ----------
    content : mapping
        What `settings_to_dict` returned.
    models : mapping of str to Model, optional
        Models defined outside of duotomo, by the name that the dictionary has for them.

    Returns
    -------
    Settings
        Equal to those written.

    Raises
    ------
    DuotomoError
        If the version is not known, or anything is missing or unknown.
    """
    version = content.get("version")
    if version != VERSION:
        raise DuotomoError(
            f"{_WHERE}: expected settings of version {VERSION}; got version {version!r}. Use the duotomo "
            f"that wrote them, or make them anew."
        )
    # Imported here: nothing else of the methods needs it.
    from duotomo.methods.settings_schema import SettingsSchema, schema_fault

    fault = schema_fault(SettingsSchema, content)
    if fault is not None:
        raise DuotomoError(
            f"{_WHERE}: expected settings as settings_to_dict writes them; got {fault}. Restore them."
        )
    try:
        stages = tuple(_stage(stage, models or {}) for stage in content["stages"])
        solver = dict(content["solver"])
        kind = solver.pop("kind")
        if kind not in _SOLVERS:
            raise DuotomoError(
                f"{_WHERE}: expected a solver of {', '.join(_SOLVERS)}; got {kind!r}. Choose one of these."
            )
        return Settings(
            stages=stages,
            solver=_SOLVERS[kind](**solver),
            priors=Priors(**_known_then(content), **content["priors"]),
            initial_guess=content["initial_guess"],
            tolerance=content["tolerance"],
            # Files of before 0.2 have none.
            basis=content.get("basis", "voxel"),
            stiffer=tuple(_stage(stage, models or {}) for stage in content.get("stiffer", ())),
            central_step=content["central_step"],
        )
    except (KeyError, TypeError) as error:
        raise DuotomoError(
            f"{_WHERE}: expected settings as settings_to_dict writes them; got: {type(error).__name__}: "
            f"{error}. Restore them."
        ) from error


def _known_then(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of priors that settings of before 0.2 did not have."""
    return {name: 0.0 for name in ("offset", "edges") if name not in content["priors"]}


def model_to_dict(model: Model) -> dict[str, Any]:
    """Return a model of motion as plain values: the name of the transform, and the fields of its builder.

    Classes from outside of duotomo have their full name.
    """
    if isinstance(model, ChainModel):
        return {"transform": "chain", "parts": [model_to_dict(part) for part in model.parts]}
    if isinstance(model, LatticeModel):
        lattice = {"control_shape": model.control_shape, "spacing_mm": model.spacing_mm}
        chosen = {name: value for name, value in lattice.items() if value is not None}
        shape = chosen.get("control_shape")
        plain = {"control_shape": list(shape)} if isinstance(shape, tuple) else chosen
        return {"transform": _class_name(model.transform), **plain}
    if isinstance(model, type):
        return {"transform": _class_name(model)}
    if isinstance(model, BetweenViews):
        return {"transform": _BETWEEN, **asdict(model), "radii_mm": list(model.radii_mm)}
    other: Any = model
    options = {one.name: getattr(model, one.name) for one in fields(other)} if is_dataclass(other) else {}
    return {"transform": _class_name(type(model)), "name": str(model), **options}


def model_from_dict(content: Mapping[str, Any], *, models: Mapping[str, Model] | None = None) -> Model:
    """Return the model that `model_to_dict` wrote; `models` are those of `settings_from_dict`."""
    name = content["transform"]
    if models and name in models:
        return models[name]
    if name == "chain":
        return ChainModel(tuple(model_from_dict(part, models=models) for part in content["parts"]))
    if name in _LINEAR:
        return _LINEAR[name]
    if name in _ON_LATTICE:
        shape = content.get("control_shape")
        return LatticeModel(
            _ON_LATTICE[name],
            control_shape=None if shape is None else (shape[0], shape[1], shape[2]),
            spacing_mm=content.get("spacing_mm"),
        )
    if name == _BETWEEN:
        views = {one: _held(content[one]) for one in ("reference", "moving")}
        x, y, z = content["radii_mm"]
        return BetweenViews(
            radii_mm=(x, y, z),
            **views,
            control_mm=content["control_mm"],
            refinements=content["refinements"],
        )
    known = (*_LINEAR, *_ON_LATTICE, "chain", _BETWEEN, *(models or {}))
    raise DuotomoError(
        f"{_WHERE}: expected a transform of {', '.join(known)}; got {name!r}. Pass others as `models`."
    )


def _held(content: Mapping[str, Any]) -> HeldView:
    x, y = content["center_mm"]
    return HeldView(**{**content, "center_mm": (x, y)})


def _class_name(model: Any) -> str:
    ours = model in (*_LINEAR.values(), *_ON_LATTICE.values())
    return model_name(model) if ours else f"{model.__module__}.{model.__qualname__}"


def _stage_to_dict(stage: Stage) -> dict[str, Any]:
    return {
        "coarsen": list(stage.coarsen),
        "model": None if stage.model is None else model_to_dict(stage.model),
        "n_steps": stage.n_steps,
        "fresh": stage.fresh,
        "stiffness": stage.stiffness,
    }


def _stage(content: Mapping[str, Any], models: Mapping[str, Model]) -> Stage:
    z, y, x = content["coarsen"]
    model = content["model"]
    return Stage(
        coarsen=(z, y, x),
        model=None if model is None else model_from_dict(model, models=models),
        n_steps=content["n_steps"],
        fresh=content["fresh"],
        stiffness=content["stiffness"],
    )
