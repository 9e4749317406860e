"""Transforms from the moving frame to the reference frame: parameters in, warps and derivatives out."""

from duotomo.transforms.affine import Affine
from duotomo.transforms.bspline import BSpline, Fit
from duotomo.transforms.composition import Composition
from duotomo.transforms.displacement_field import DisplacementField
from duotomo.transforms.rigid import Rigid
from duotomo.transforms.transform import Transform
from duotomo.transforms.translation import Translation
from duotomo.transforms.velocity import Velocity

__all__ = [
    "Affine",
    "BSpline",
    "Composition",
    "DisplacementField",
    "Fit",
    "Rigid",
    "Transform",
    "Translation",
    "Velocity",
]
