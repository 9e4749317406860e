"""How many counts arrive without the breast: from the pixels that nothing covers."""

from __future__ import annotations

import torch

from duotomo.errors import DuotomoError

LEAST_SHARE = 0.01
"""Of a view's pixels that have to be open for their counts to be taken as the flat field's."""

_BINS_PER_E = 50
"""Of the histogram, whose bins are 2 % wide."""

_WIDTH = 0.1
"""Of the peak: pixels within this share of its middle are averaged."""


def open_field(counts: torch.Tensor, dead: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the counts of the open field in every view, (view, 1, 1), and the share of pixels that show it.

    The open field is brighter than the breast, and even: the highest peak of the histogram of log counts
    within 20 % below the brightest pixels, of which 0.1 % are left out. The median of the pixels within 10 %
    of that peak is returned.

    counts, dead: (view, v, u).

    >>> view = torch.full((1, 20, 20), 1000.0)
    >>> view[:, 5:, :] = 100.0
    >>> field, share = open_field(view, torch.zeros(1, 20, 20, dtype=torch.bool))
    >>> field.item(), share.item()
    (1000.0, 0.25)
    """
    found = [
        _of_view(view[~bad], number) for number, (view, bad) in enumerate(zip(counts, dead, strict=True))
    ]
    fields, shares = zip(*found, strict=True)
    return torch.stack(fields).reshape(-1, 1, 1), torch.stack(shares)


def _of_view(live: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    live = live[live > 0]
    if live.numel() == 0:
        raise DuotomoError(
            f"open_field: expected pixels with counts; got none in view {number}. Drop that view."
        )
    bins = (live.double().log() * _BINS_PER_E).floor().long()
    low = int(bins.min())
    histogram = torch.bincount(bins - low).double()
    # Hot pixels are brighter than the open field, and few.
    above = histogram.flip(0).cumsum(0).flip(0)
    last = int((above > 1e-3 * live.numel()).nonzero().max())
    first = max(0, last - int(2 * _WIDTH * _BINS_PER_E))
    peak = first + int(histogram[first : last + 1].argmax())
    middle = torch.exp(torch.tensor((low + peak + 0.5) / _BINS_PER_E, dtype=torch.float64))
    near = live[(live - middle).abs() <= _WIDTH * middle]
    share = torch.tensor(near.numel() / live.numel())
    if share < LEAST_SHARE:
        raise DuotomoError(
            f"open_field: expected at least {LEAST_SHARE:.0%} of the pixels uncovered; got "
            f"{float(share):.2%} in view {number}. Give the flat field as a number."
        )
    return near.median(), share
