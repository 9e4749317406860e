"""Models of motion: builders of the transform of a visit on its grid.

A model is any callable from a `VolumeGrid` to a `Transform`. A transform class whose constructor needs the
grid only, such as `Affine`, is a model itself; models with control points, and chains, are defined here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from duotomo.errors import DuotomoError
from duotomo.geometry import VolumeGrid
from duotomo.transforms.composition import Composition
from duotomo.transforms.transform import Transform

MOST_CONTROL_POINTS = 10_000_000
"""Of a lattice: more than one for each cubic millimetre of a clinical volume."""

BORDER = 3
"""Control points along an axis beyond the number of intervals that a cubic spline is complete on."""


class Model(Protocol):
    """Builds the transform of a moving visit on its grid.

    Models are compared and hashed, and their `str`, or the name of a class, names them in histories and
    checkpoints: a model is a transform class, or a frozen dataclass with `__call__` and `__str__`.
    """

    def __call__(self, grid: VolumeGrid, /) -> Transform:
        """Return the transform on a grid.

        Parameters
        ----------
        grid : VolumeGrid
            Of the moving visit.

        Returns
        -------
        Transform
            On that grid.
        """
        ...


class _OnLattice(Protocol):
    """A transform class with control points."""

    def over(self, grid: VolumeGrid, control_shape: tuple[int, int, int]) -> Transform: ...


@dataclass(frozen=True)
class LatticeModel:
    """Model of a transform with control points, given their number or their distance.

    Usually made by `shaped` and `spaced` of `BSpline` and `Velocity`.

    Parameters
    ----------
    transform : type
        The class, with a class method `over(grid, control_shape)`.
    control_shape : tuple of int, optional
        Control points, (z, y, x).
    spacing_mm : float, optional
        Largest distance of the control points, in mm; instead of `control_shape`.

    Raises
    ------
    DuotomoError
        Unless exactly one of the two is given, positive, and of no more than 10,000,000 control points.
    """

    transform: _OnLattice
    control_shape: tuple[int, int, int] | None = None
    spacing_mm: float | None = None

    def __post_init__(self) -> None:
        where = _class_name(self.transform)
        if (self.control_shape is None) == (self.spacing_mm is None):
            raise DuotomoError(
                f"{where}: expected control_shape or spacing_mm; got {self.control_shape} and "
                f"{self.spacing_mm}. Give one of them."
            )
        if self.control_shape is not None:
            _check_shape(where, self.control_shape)
        if self.spacing_mm is not None and not 0 < self.spacing_mm < math.inf:
            raise DuotomoError(
                f"{where}: expected spacing_mm above 0 and finite; got {self.spacing_mm}. Use 25."
            )

    def __call__(self, grid: VolumeGrid) -> Transform:
        """Return the transform whose control points cover a grid's box; one on each side lies outside."""
        if self.control_shape is not None:
            return self.transform.over(grid, self.control_shape)
        assert self.spacing_mm is not None
        n_z, n_y, n_x = (max(1, math.ceil(size / self.spacing_mm)) + BORDER for size in grid.size_mm)
        _check_shape(_class_name(self.transform), (n_z, n_y, n_x))
        return self.transform.over(grid, (n_z, n_y, n_x))

    def __repr__(self) -> str:
        made = f"spaced({self.spacing_mm})" if self.control_shape is None else f"shaped({self.control_shape})"
        return f"{_class_name(self.transform)}.{made}"

    def __str__(self) -> str:
        lattice = f"{self.spacing_mm:g}mm" if self.control_shape is None else _counts(self.control_shape)
        return f"{model_name(self.transform)}:{lattice}"


@dataclass(frozen=True)
class ChainModel:
    """Model of a composition: points go through the transform of the first part first.

    Parameters
    ----------
    parts : tuple of Model
        Two or more, such as `(Affine, BSpline.spaced(25.0))`.

    Raises
    ------
    DuotomoError
        If there are fewer than two.
    """

    parts: tuple[Model, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise DuotomoError(
                f"chain: expected two models or more; got {len(self.parts)}. Use a single one as it stands."
            )

    def __call__(self, grid: VolumeGrid) -> Composition:
        """Return the composition of the parts' transforms on a grid, `T(x) = T_n(... T_1(x))`."""
        return Composition(*(part(grid) for part in self.parts))

    def __repr__(self) -> str:
        return f"chain({', '.join(map(model_repr, self.parts))})"

    def __str__(self) -> str:
        return "+".join(map(model_name, self.parts))


def chain(*parts: Model) -> ChainModel:
    """Return the model of a composition of transforms.

    Parameters
    ----------
    *parts : Model
        Two or more models, in the order in which points go through their transforms.

    Returns
    -------
    ChainModel
        Builds a `Composition`.

    Raises
    ------
    DuotomoError
        If there are fewer than two.

    Examples
    --------
    >>> from duotomo.transforms import Affine, BSpline
    >>> model = chain(Affine, BSpline.spaced(25.0))
    >>> str(model), type(model(VolumeGrid.on_detector((20, 40, 40), (2.0, 2.0, 2.0)))).__name__
    ('affine+bspline:25mm', 'Composition')
    """
    return ChainModel(parts)


def model_name(model: object) -> str:
    """Return the name of a model, unique among the models of a run.

    Parameters
    ----------
    model : Model
        A transform class, or an object that builds one.

    Returns
    -------
    str
        The class name in lower case, or `str` of the model, such as "bspline:9,9,9".

    Examples
    --------
    >>> from duotomo.transforms import Affine, BSpline
    >>> model_name(Affine), model_name(BSpline.shaped((9, 9, 9)))
    ('affine', 'bspline:9,9,9')
    """
    return model.__name__.lower() if isinstance(model, type) else str(model)


def model_repr(model: object) -> str:
    """Return the Python expression of a model: the name of a class, or the `repr` of an object."""
    return model.__name__ if isinstance(model, type) else repr(model)


def _class_name(model: object) -> str:
    return model.__name__ if isinstance(model, type) else type(model).__name__


def _counts(shape: tuple[int, int, int]) -> str:
    return ",".join(map(str, shape))


def _check_shape(where: str, shape: tuple[int, int, int]) -> None:
    if math.prod(shape) > MOST_CONTROL_POINTS:
        raise DuotomoError(
            f"{where}: expected at most {MOST_CONTROL_POINTS} control points; got {_counts(shape)}. Use a "
            f"coarser lattice."
        )
