"""How far an operator's transpose is from being one."""

from __future__ import annotations

import torch

from duotomo.operators.linear import LinearOperator


def adjoint_gap(
    operator: LinearOperator,
    *,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> float:
    """Return `|<A x, y> - <x, A^T y>| / (||A x|| ||y||)` for signed normal draws x and y.

    Parameters
    ----------
    operator : LinearOperator
        `A`.
    generator : torch.Generator
        On the CPU; the draws are moved to `device`.
    dtype : torch.dtype
        Precision in which `A` works; the inner products are summed in float64.
    device : torch.device or str
        Where `A` works.

    Returns
    -------
    float
        Below 1e-12 in float64 for every operator of this package.

    Examples
    --------
    >>> from duotomo.operators import Weighting
    >>> weighting = Weighting(torch.ones(5, dtype=torch.float64))
    >>> adjoint_gap(weighting, generator=torch.Generator().manual_seed(0)) < 1e-15
    True
    """
    x = torch.randn(operator.domain, generator=generator, dtype=torch.float64).to(device, dtype)
    y = torch.randn(operator.range, generator=generator, dtype=torch.float64).to(device, dtype)
    image, back = operator(x).double(), operator.adjoint(y).double()
    x, y = x.double(), y.double()
    size = float(image.norm() * y.norm())
    gap = abs(float((image * y).sum()) - float((x * back).sum()))
    # An operator that sees nothing maps to zero both ways; any gap then is an error in full.
    return gap / size if size > 0 else gap
