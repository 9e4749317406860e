"""Transforms from the moving frame to the reference frame: parameters in, warps and derivatives out."""

from duotomo.transforms.affine import Affine
from duotomo.transforms.bending import BendingEnergy
from duotomo.transforms.bspline import BSpline
from duotomo.transforms.composition import Composition
from duotomo.transforms.compressions import Compressions, Mode, Response
from duotomo.transforms.deformation import (
    DeformationStatistics,
    Folding,
    deformation_statistics,
    folding,
    target_registration_error,
)
from duotomo.transforms.displacement_field import DisplacementField
from duotomo.transforms.inversion import Inverse, InvertedPoints, invert, invert_points
from duotomo.transforms.models import Model, chain, model_name
from duotomo.transforms.motion import Motion
from duotomo.transforms.recompression import Recompression
from duotomo.transforms.rigid import Rigid
from duotomo.transforms.transform import Transform
from duotomo.transforms.translation import Translation
from duotomo.transforms.velocity import Velocity

__all__ = [
    "Affine",
    "BSpline",
    "BendingEnergy",
    "Composition",
    "Compressions",
    "DeformationStatistics",
    "DisplacementField",
    "Folding",
    "Inverse",
    "InvertedPoints",
    "Mode",
    "Model",
    "Motion",
    "Recompression",
    "Response",
    "Rigid",
    "Transform",
    "Translation",
    "Velocity",
    "chain",
    "deformation_statistics",
    "folding",
    "invert",
    "invert_points",
    "model_name",
    "target_registration_error",
]
