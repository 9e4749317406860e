"""Pixels that measured nothing, filled from their neighbours."""

from __future__ import annotations

import torch
from torch.nn.functional import conv2d

from duotomo.errors import DuotomoError

MOST_DEAD = 0.5
"""Of a view: beyond this share there is no view to repair."""


def fill_dead(images: torch.Tensor, dead: torch.Tensor) -> torch.Tensor:
    """Return images in which every dead pixel is the mean of its live neighbours, from the rim inwards.

    Rounds of `p = sum(live * p) / sum(live)` over the eight neighbours, until none is left. Live pixels stay
    bit for bit.

    images, dead: (view, v, u).

    >>> image = torch.arange(9.0).reshape(1, 3, 3)
    >>> dead = image == 4.0
    >>> fill_dead(torch.where(dead, torch.nan, image), dead)[0, 1, 1].item()
    4.0
    """
    share = dead.flatten(1).double().mean(dim=1)
    worst = int(share.argmax())
    if share[worst] > MOST_DEAD:
        raise DuotomoError(
            f"fill_dead: expected at most {MOST_DEAD:.0%} dead pixels in a view; got "
            f"{float(share[worst]):.0%} in view {worst}. Drop that view, or check its detector."
        )
    filled = images.clone()
    for view in dead.flatten(1).any(dim=1).nonzero().flatten().tolist():
        filled[view] = _filled(images[view], dead[view])
    return filled


def _filled(image: torch.Tensor, dead: torch.Tensor) -> torch.Tensor:
    ring = torch.ones(1, 1, 3, 3, dtype=image.dtype, device=image.device)
    ring[..., 1, 1] = 0
    live = (~dead).to(image.dtype)[None, None]
    value = torch.where(dead, 0.0, image)[None, None]
    while bool((live == 0).any()):
        n_live, total = conv2d(live, ring, padding=1), conv2d(value, ring, padding=1)
        reached = (live == 0) & (n_live > 0)
        value = torch.where(reached, total / n_live.clamp(min=1), value)
        live = torch.where(reached, torch.ones_like(live), live)
    return value[0, 0]
