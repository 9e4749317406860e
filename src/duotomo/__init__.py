"""Digital breast tomosynthesis from two visits: the volume, and the deformation between the visits.

`import duotomo` is light: a name is imported from its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duotomo.errors import (
        DeviceError,
        DtypeError,
        DuotomoError,
        GeometryError,
        NonFiniteError,
        ShapeError,
    )
    from duotomo.geometry import Acquisition, VolumeGrid
    from duotomo.io import read_result, read_scan, read_study, read_volume, write_result
    from duotomo.methods import (
        Result,
        Settings,
        Study,
        Visit,
        iterative,
        sequential,
        simultaneous,
    )
    from duotomo.operators import LinearOperator, Projector, Warp, adjoint_gap
    from duotomo.transforms import (
        Affine,
        BSpline,
        Composition,
        DisplacementField,
        Motion,
        Rigid,
        Transform,
        Translation,
        Velocity,
        chain,
    )

__all__ = [
    "Acquisition",
    "Affine",
    "BSpline",
    "Composition",
    "DeviceError",
    "DisplacementField",
    "DtypeError",
    "DuotomoError",
    "GeometryError",
    "LinearOperator",
    "Motion",
    "NonFiniteError",
    "Projector",
    "Result",
    "Rigid",
    "Settings",
    "ShapeError",
    "Study",
    "Transform",
    "Translation",
    "Velocity",
    "Visit",
    "VolumeGrid",
    "Warp",
    "__version__",
    "adjoint_gap",
    "chain",
    "iterative",
    "read_result",
    "read_scan",
    "read_study",
    "read_volume",
    "sequential",
    "simultaneous",
    "write_result",
]

__version__ = "0.1.0"

_MODULE_OF = {
    "Acquisition": "duotomo.geometry",
    "DeviceError": "duotomo.errors",
    "DtypeError": "duotomo.errors",
    "DuotomoError": "duotomo.errors",
    "GeometryError": "duotomo.errors",
    "LinearOperator": "duotomo.operators",
    "NonFiniteError": "duotomo.errors",
    "Projector": "duotomo.operators",
    "ShapeError": "duotomo.errors",
    "Affine": "duotomo.transforms",
    "BSpline": "duotomo.transforms",
    "Composition": "duotomo.transforms",
    "DisplacementField": "duotomo.transforms",
    "Motion": "duotomo.transforms",
    "Rigid": "duotomo.transforms",
    "Transform": "duotomo.transforms",
    "Translation": "duotomo.transforms",
    "Velocity": "duotomo.transforms",
    "chain": "duotomo.transforms",
    "Warp": "duotomo.operators",
    "VolumeGrid": "duotomo.geometry",
    "Result": "duotomo.methods",
    "Settings": "duotomo.methods",
    "Study": "duotomo.methods",
    "Visit": "duotomo.methods",
    "iterative": "duotomo.methods",
    "sequential": "duotomo.methods",
    "simultaneous": "duotomo.methods",
    "read_result": "duotomo.io",
    "read_scan": "duotomo.io",
    "read_study": "duotomo.io",
    "read_volume": "duotomo.io",
    "write_result": "duotomo.io",
    "adjoint_gap": "duotomo.operators",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'duotomo' has no attribute {name!r}")
    value: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
