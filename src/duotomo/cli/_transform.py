"""Models of motion by their names: what `--transform` may be."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duotomo.transforms import Model

GROUP = "duotomo.transforms"
"""Entry points by which other packages add a model: the name on the command line, and what it stands for."""

AUTOMATIC = "auto"
"""The name that leaves the model to the data."""

RECOMPRESSION = "recompression"
"""The name of the motion between two views; a B-spline may follow it."""

HELP = (
    "auto (affine, and a B-spline where the data ask for it), translation, rigid, affine, bspline:25mm, "
    "bspline:Z,Y,X, velocity:25mm; affine+bspline:25mm for a chain; recompression or "
    "recompression+bspline:25mm for two views, with --roll."
)


def is_recompression(text: str) -> bool:
    """Return whether a name is that of the motion between two views.

    >>> is_recompression("recompression+bspline:25mm"), is_recompression("affine")
    (True, False)
    """
    return text.split("+")[0].strip() == RECOMPRESSION


def parse_control_mm(text: str) -> float | None:
    """Return the distance of the control points after a recompression; None if there are none.

    >>> parse_control_mm("recompression"), parse_control_mm("recompression+bspline:25mm")
    (None, 25.0)
    """
    from duotomo.errors import DuotomoError

    _, plus, rest = text.partition("+")
    if not plus:
        return None
    name, _, lattice = rest.strip().partition(":")
    spacing = getattr(_part(rest.strip()), "spacing_mm", None) if name == "bspline" and lattice else None
    if spacing is None:
        raise DuotomoError(
            f"expected {RECOMPRESSION} alone or with control points by their distance, "
            f"{RECOMPRESSION}+bspline:25mm, for --transform; got {text}. Write one of the two."
        )
    return float(spacing)


def parse_transform(text: str) -> Model:
    """Return the model of a text such as "affine", "bspline:7,9,9" or "affine+bspline:25mm".

    >>> from duotomo.transforms import Rigid, model_name
    >>> parse_transform("rigid") is Rigid, model_name(parse_transform("affine+bspline:25mm"))
    (True, 'affine+bspline:25mm')
    """
    from duotomo.transforms import chain

    parts = [_part(part.strip()) for part in text.split("+")]
    return parts[0] if len(parts) == 1 else chain(*parts)


def _part(text: str) -> Model:
    from duotomo.errors import DuotomoError
    from duotomo.transforms import Affine, BSpline, Rigid, Translation, Velocity

    plain: dict[str, Model] = {"translation": Translation, "rigid": Rigid, "affine": Affine}
    on_lattice: dict[str, Any] = {"bspline": BSpline, "velocity": Velocity}
    others = {one.name: one for one in entry_points(group=GROUP)}
    name, colon, lattice = text.partition(":")
    if name in on_lattice:
        return _on_lattice(on_lattice[name], name, lattice)
    if name in plain and not colon:
        return plain[name]
    if text in others:
        found: Model = others[text].load()
        return found
    known = (*plain, *(f"{one}:25mm, {one}:7,9,9" for one in on_lattice), *others)
    raise DuotomoError(
        f"expected --transform as one of {', '.join(known)}, or several with + between them; got {text!r}. "
        f"Choose one of these."
    )


def _on_lattice(kind: Any, name: str, lattice: str) -> Model:
    """Return a model with control points, by their distance, "25mm", or by their counts, "7,9,9"."""
    from duotomo.errors import DuotomoError

    spaced = lattice.endswith("mm")
    try:
        numbers = [float(lattice.removesuffix("mm"))] if spaced else [int(n) for n in lattice.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != (1 if spaced else 3):
        raise DuotomoError(
            f"expected the distance of control points, {name}:25mm, or three counts of them (z, y, x), "
            f"{name}:7,9,9, for --transform; got {name}:{lattice}. Write one of the two."
        )
    model: Model = kind.spaced(numbers[0]) if spaced else kind.shaped(tuple(numbers))
    return model
