"""One transform after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from duotomo.errors import ShapeError
from duotomo.transforms.maps import ElementaryMap
from duotomo.transforms.motion import Motion
from duotomo.transforms.transform import Physical, Transform

if TYPE_CHECKING:
    from duotomo.transforms.lattice_transform import LatticeTransform


class Composition(Transform):
    """Composition of transforms, `T(x) = T_n(... T_1(x))`: points go through the first one first.

    The parameters are those of the parts, one after the other; `split` separates them.

    Parameters
    ----------
    *parts : Transform
        One or more; the grid of the first is that of the composition.

    Raises
    ------
    ShapeError
        If there are no parts.

    Examples
    --------
    >>> from duotomo.geometry import VolumeGrid
    >>> from duotomo.transforms import Affine, BSpline
    >>> grid = VolumeGrid.on_detector((8, 8, 8), (1.0, 1.0, 1.0))
    >>> chain = Composition(Affine(grid), BSpline.over(grid, (5, 5, 5)))
    >>> chain.n_params, [len(part) for part in chain.split(chain.identity())]
    (387, [12, 375])
    """

    def __init__(self, *parts: Transform) -> None:
        if not parts:
            raise ShapeError("Composition: expected at least one transform; got none. Pass one or more.")
        self.parts = parts
        self.grid = parts[0].grid
        self.n_params = sum(part.n_params for part in parts)

    @classmethod
    def of(cls, *motions: Motion) -> Motion:
        """Return the composition of several motions.

        Parameters
        ----------
        *motions : Motion
            One or more; points go through the first one first.

        Returns
        -------
        Motion
            Of the composition of their transforms.
        """
        whole = cls(*(motion.transform for motion in motions))
        return Motion(whole, torch.cat([motion.params for motion in motions]))

    @property
    def control_spacing_mm(self) -> tuple[float, float, float] | None:
        spacings = [part.control_spacing_mm for part in self.parts]
        given = [spacing for spacing in spacings if spacing is not None]
        if not given:
            return None
        z, y, x = (min(along) for along in zip(*given, strict=True))
        return z, y, x

    def lattice_parts(self) -> tuple[tuple[int, LatticeTransform], ...]:
        found, start = [], 0
        for part in self.parts:
            found += [(start + offset, own) for offset, own in part.lattice_parts()]
            start += part.n_params
        return tuple(found)

    def nearest_params(self, motion: Motion) -> torch.Tensor:
        # Each part follows what those before it leave: S = T_n ... T_1  =>  T_n ... T_2 = S T_1^-1
        rows, rest = [], motion
        for part in self.parts:
            nearest = rest.convert(part)
            rows.append(nearest.params)
            back = part.inverse(nearest.params)
            if back is None:
                if part is not self.parts[-1]:
                    return super().nearest_params(motion)
                break
            rest = Composition.of(back, rest)
        return torch.cat(rows)

    def split(self, params: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the parameters of each part.

        Parameters
        ----------
        params : torch.Tensor
            Those of the composition, one part after the other, (n_params,).

        Returns
        -------
        tuple of torch.Tensor
            Views of `params`, one (n_params,) for each part.
        """
        return torch.split_with_sizes(params, [part.n_params for part in self.parts])

    def join(self, *params: torch.Tensor) -> torch.Tensor:
        """Return the parameters of the composition from those of its parts.

        Parameters
        ----------
        *params : torch.Tensor
            One (n_params,) for each part, in order.

        Returns
        -------
        torch.Tensor
            (n_params,) of the composition, float64.
        """
        return torch.cat([part.check(p) for part, p in zip(self.parts, params, strict=True)])

    def check(self, params: torch.Tensor) -> torch.Tensor:
        params = super().check(params)
        for part, p in zip(self.parts, self.split(params), strict=True):
            part.check(p)
        return params

    def maps(self, params: torch.Tensor) -> tuple[ElementaryMap, ...]:
        parts = zip(self.parts, self.split(params), strict=True)
        return tuple(one for part, p in parts for one in part.maps(p))

    def physical(self, params: torch.Tensor) -> Physical:
        """Return the parameters of every part in physical units.

        Returns
        -------
        dict of str to dict
            What `physical` of each part returns, by number and class, such as "1 Affine".
        """
        parts = enumerate(zip(self.parts, self.split(self.check(params)), strict=True), start=1)
        return {f"{i} {type(part).__name__}": part.physical(p) for i, (part, p) in parts}

    def inverse(self, params: torch.Tensor) -> Motion | None:
        inverses = []
        for part, p in zip(self.parts, self.split(self.check(params)), strict=True):
            inverse = part.inverse(p)
            if inverse is None:
                return None
            inverses.append(inverse)
        # (A B)^-1 = B^-1 A^-1
        return Composition.of(*reversed(inverses))
