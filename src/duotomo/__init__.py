"""Digital breast tomosynthesis from two visits: the volume, and the deformation between the visits.

`import duotomo` is light: a name is imported from its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotomo._lazy import lazy_names

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
    from duotomo.io import read_result, read_scan, read_study, read_visits, read_volume, write_result
    from duotomo.methods import (
        Result,
        Settings,
        Study,
        Visit,
        iterative,
        sequential,
        simultaneous,
    )
    from duotomo.operators import Gradient, LinearOperator, Projector, Warp, adjoint_gap
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
    "Gradient",
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
    "read_visits",
    "read_volume",
    "sequential",
    "simultaneous",
    "write_result",
]

__version__ = "0.1.0"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "duotomo.errors": [
            "DeviceError",
            "DtypeError",
            "DuotomoError",
            "GeometryError",
            "NonFiniteError",
            "ShapeError",
        ],
        "duotomo.geometry": ["Acquisition", "VolumeGrid"],
        "duotomo.io": [
            "read_result",
            "read_scan",
            "read_study",
            "read_visits",
            "read_volume",
            "write_result",
        ],
        "duotomo.methods": [
            "Result",
            "Settings",
            "Study",
            "Visit",
            "iterative",
            "sequential",
            "simultaneous",
        ],
        "duotomo.operators": ["Gradient", "LinearOperator", "Projector", "Warp", "adjoint_gap"],
        "duotomo.transforms": [
            "Affine",
            "BSpline",
            "Composition",
            "DisplacementField",
            "Motion",
            "Rigid",
            "Transform",
            "Translation",
            "Velocity",
            "chain",
        ],
    },
)
