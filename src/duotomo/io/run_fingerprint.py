"""What a computation depends on, in one line of text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.metadata import version as installed
from typing import Any

import torch

import duotomo
from duotomo.geometry import VolumeGrid
from duotomo.io.paths import FileError
from duotomo.io.versions import UNKNOWN, commit
from duotomo.methods.schedule import Stage
from duotomo.methods.settings import Settings
from duotomo.methods.settings_dict import settings_to_dict
from duotomo.methods.study import Study
from duotomo.transforms import BSpline, Model
from duotomo.transforms.models import LatticeModel, model_name

VERSION = 3

PARTS_2 = ("study", "method", "settings", "duotomo")
"""What a fingerprint of version 1 or 2 has."""

_MOST_PARTS = 10
"""Parts that a message names."""


@dataclass(frozen=True, kw_only=True)
class RunFingerprint:
    """What a computation depends on: equal where the result is meant to be.

    Its text is `version=3 study=HASH method=NAME settings=HASH duotomo=VERSION commit=HASH torch=VERSION
    numba=VERSION`. The device is left out: a run may go on elsewhere, up to rounding.

    Parameters
    ----------
    study : str
        SHA-256 of the grids, the geometry and every bit of the data.
    method : str
        Its name.
    settings : str
        As `settings_key` returns it.
    duotomo, commit, torch, numba : str
        Versions of the program and of what computes for it, and the program's commit, where it is known.
    settings_version_1 : str, optional
        SHA-256 of the `repr` of the settings in version 1; None if that had no such settings.
    """

    study: str
    method: str
    settings: str
    duotomo: str = duotomo.__version__
    commit: str = field(default_factory=commit)
    torch: str = str(torch.__version__)
    numba: str = field(default_factory=lambda: installed("numba"))
    settings_version_1: str | None = None

    def __str__(self) -> str:
        parts = (*PARTS_2, "commit", "torch", "numba")
        return " ".join([f"version={VERSION}", *(f"{name}={getattr(self, name)}" for name in parts)])

    def differing(self, text: str) -> list[str]:
        """Return in which parts a fingerprint in a file, of this version or an earlier one, is another.

        Parameters
        ----------
        text : str
            What `str` of a fingerprint was.

        Returns
        -------
        list of str
            Names of the parts; none if both are of the same computation.

        Examples
        --------
        >>> mine = RunFingerprint(study="1", method="iterative", settings="2", duotomo="3")
        >>> mine.differing("version=2 study=1 method=sequential settings=2 duotomo=3")
        ['method']
        """
        mine = _parts(str(self))
        found = {"version": "1"} | _parts(text)
        if found["version"] in ("1", "2"):
            mine = {"version": found["version"]} | {name: mine[name] for name in PARTS_2}
        if found["version"] == "1":
            mine |= {"settings": self.settings_version_1 or "", "duotomo": VERSION_1_DUOTOMO}
        if UNKNOWN in (mine.get("commit"), found.get("commit")):
            found["commit"] = mine["commit"]
        return [name for name in {**mine, **found} if mine.get(name) != found.get(name)]

    def check(self, text: str) -> None:
        """Raise if a fingerprint in a file is that of another computation.

        Parameters
        ----------
        text : str
            What `str` of a fingerprint was.

        Raises
        ------
        FileError
            With the parts that differ.
        """
        other = [name[:40] for name in self.differing(text)[:_MOST_PARTS]]
        if other:
            raise FileError(
                f"expected the state of this computation; got that of one with another "
                f"{' and another '.join(other)}. Choose another folder, or remove the file to begin anew "
                f"without it."
            )


def fingerprint(study: Study, *, method: str, settings: object) -> RunFingerprint:
    """Return what a computation depends on.

    Parameters
    ----------
    study : Study
        The data.
    method : str
        Name of the method.
    settings : Settings or object
        Of the method: `Settings`, or another frozen dataclass, such as an algorithm of
        `duotomo.reconstruct`.

    Returns
    -------
    RunFingerprint
        The same in every process, and for files of version 1.

    Examples
    --------
    >>> from duotomo.geometry import Acquisition, VolumeGrid
    >>> from duotomo.methods.study import Visit
    >>> scan = Acquisition.arc(n_views=1, angle_range_rad=0, source_to_detector_mm=660, pivot_height_mm=0,
    ...                        detector_shape=(8, 8), pixel_spacing_mm=(1, 1))
    >>> visit = Visit(projections=torch.ones(1, 8, 8), acquisition=scan)
    >>> study = Study(grid=VolumeGrid.on_detector((4, 8, 8), (1.0, 1.0, 1.0)), visits=(visit,))
    >>> str(fingerprint(study, method="simultaneous", settings=None)).split()[2]
    'method=simultaneous'
    """
    data = hashlib.sha256(study.grid.to_json().encode())
    for visit in study.visits:
        for described in (visit.acquisition, study.grid_of(visit)):
            data.update(described.to_json().encode())
        for values in (visit.projections, visit.weights):
            _add(data, values)
    older = version_1_repr(settings) if isinstance(settings, Settings) else None
    return RunFingerprint(
        study=data.hexdigest(),
        method=method,
        settings=settings_key(settings),
        settings_version_1=None if older is None else _sha256(older),
    )


def volumes_fingerprint(
    volumes: Sequence[tuple[torch.Tensor, VolumeGrid]], *, method: str, settings: object
) -> RunFingerprint:
    """Return what a computation on volumes depends on; their hash stands for that of a study.

    Parameters
    ----------
    volumes : sequence of (torch.Tensor, VolumeGrid)
        Each (z, y, x), 1/mm, and where it lies.
    method, settings
        As for `fingerprint`.

    Returns
    -------
    RunFingerprint
        The same in every process.
    """
    data = hashlib.sha256()
    for volume, grid in volumes:
        data.update(grid.to_json().encode())
        _add(data, volume)
    return RunFingerprint(study=data.hexdigest(), method=method, settings=settings_key(settings))


def settings_key(settings: object) -> str:
    """Return a hash of settings that does not follow the names of classes.

    Parameters
    ----------
    settings : Settings or object
        Of a method; other frozen dataclasses are taken by the names of their class and fields.

    Returns
    -------
    str
        SHA-256 of `settings_to_dict(settings)` as JSON with sorted keys.
    """
    plain = settings_to_dict(settings) if isinstance(settings, Settings) else _plain(settings)
    return _sha256(json.dumps(plain, sort_keys=True))


def _parts(text: str) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in text.split())


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Return what JSON can hold of settings; functions by their name, for their `repr` has an address."""
    if is_dataclass(value):
        options = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"class": type(value).__name__, **options}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__qualname__", None) or repr(value)


def _add(data: hashlib._Hash, values: torch.Tensor | None) -> None:
    if values is None:
        data.update(b"none")
        return
    array = values.detach().cpu().contiguous().numpy()
    data.update(f"{array.dtype} {array.shape}".encode())
    data.update(array.data)


VERSION_1_DUOTOMO = "0.1.0"
"""The duotomo that wrote files of version 1, whose runs this one continues with the settings they had."""

_PRIORS = ("total_variation", "smoothing", "depth_weight", "nonnegativity", "bending", "least_noise")
"""The weights that version 1 had."""

_LINEAR = ("translation", "rigid", "affine")


def version_1_repr(settings: Settings) -> str | None:
    """Return what `repr` of the same settings was in version 1.

    Parameters
    ----------
    settings : Settings
        Of any method.

    Returns
    -------
    str or None
        None if version 1 had no such settings: other models of motion, splines as the basis of the volume,
        offsets of the views, edges that count less, or a choice between two models.

    Examples
    --------
    >>> from duotomo.transforms import Rigid, Velocity
    >>> version_1_repr(Settings.plain(Rigid))[:87]
    "Settings(stages=(Stage(coarsen=(1, 1, 1), model=Model(name='rigid', control_shape=None)"
    >>> version_1_repr(Settings.plain(Velocity.spaced(25.0))) is None
    True
    """
    if settings.basis != "voxel" or settings.priors.offset or settings.priors.edges or settings.stiffer:
        return None
    priors = ", ".join(f"{name}={getattr(settings.priors, name)!r}" for name in _PRIORS)
    stages = [_stage(stage) for stage in settings.stages]
    known = [stage for stage in stages if stage is not None]
    if len(known) < len(stages):
        return None
    comma = "," if len(known) == 1 else ""
    return (
        f"Settings(stages=({', '.join(known)}{comma}), solver={settings.solver!r}, "
        f"priors=Priors({priors}), first_guess={settings.initial_guess!r}, "
        f"tolerance={settings.tolerance!r}, central_step={settings.central_step!r})"
    )


def _stage(stage: Stage) -> str | None:
    model = "None" if stage.model is None else _model(stage.model)
    if model is None:
        return None
    return (
        f"Stage(coarsen={stage.coarsen!r}, model={model}, n_steps={stage.n_steps!r}, fresh={stage.fresh!r}, "
        f"stiffness={stage.stiffness!r})"
    )


def _model(model: Model) -> str | None:
    if isinstance(model, LatticeModel):
        known = model.transform is BSpline and model.control_shape is not None
        return f"Model(name='bspline', control_shape={model.control_shape!r})" if known else None
    name = model_name(model)
    return f"Model(name={name!r}, control_shape=None)" if name in _LINEAR else None
