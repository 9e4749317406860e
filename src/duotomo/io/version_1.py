"""Settings as version 1 of the files knew them: by the SHA-256 of their `repr`.

The classes have other names and fields now. Their old `repr` is put together here, so that checkpoints and
rows of that version are still recognised.
"""

from __future__ import annotations

from duotomo.methods.schedule import Stage
from duotomo.methods.settings import Settings
from duotomo.transforms import BSpline, LatticeModel, Model
from duotomo.transforms.models import model_name

DUOTOMO = "0.1.0"
"""The duotomo that wrote files of version 1, whose runs this one continues bit for bit."""

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
        None if version 1 had no such model of motion.

    Examples
    --------
    >>> from duotomo.transforms import Rigid, Velocity
    >>> version_1_repr(Settings.plain(Rigid))[:87]
    "Settings(stages=(Stage(coarsen=(1, 1, 1), model=Model(name='rigid', control_shape=None)"
    >>> version_1_repr(Settings.plain(Velocity.spaced(25.0))) is None
    True
    """
    stages = [_stage(stage) for stage in settings.stages]
    known = [stage for stage in stages if stage is not None]
    if len(known) < len(stages):
        return None
    comma = "," if len(known) == 1 else ""
    return (
        f"Settings(stages=({', '.join(known)}{comma}), solver={settings.solver!r}, "
        f"priors={settings.priors!r}, first_guess={settings.initial_guess!r}, "
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
