"""Solids whose voxels and line integrals are known, for tests, simulation and benchmarks."""

from duotomo.phantoms.shepp_logan import SheppLogan
from duotomo.phantoms.solids import Ellipsoid, EllipticCylinder
from duotomo.phantoms.toroid import Toroid

__all__ = ["Ellipsoid", "EllipticCylinder", "SheppLogan", "Toroid"]
