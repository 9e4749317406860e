"""Windows of the ramp filter: functions of the frequency as a share of the highest, 0 to 1."""

from __future__ import annotations

import torch


def ramp(share: torch.Tensor) -> torch.Tensor:
    """Return ones: the ramp as it is, sharpest and noisiest.

    Parameters
    ----------
    share : torch.Tensor
        Frequencies as shares of the highest.

    Returns
    -------
    torch.Tensor
        Gain at each of them.

    Examples
    --------
    >>> ramp(torch.tensor([0.0, 0.5, 1.0]))
    tensor([1., 1., 1.])
    """
    return torch.ones_like(share)


def hann(share: torch.Tensor) -> torch.Tensor:
    """Return `cos^2(pi share / 2)`: half at half the highest frequency, nothing at the highest.

    Parameters
    ----------
    share : torch.Tensor
        Frequencies as shares of the highest.

    Returns
    -------
    torch.Tensor
        Gain at each of them.

    Examples
    --------
    >>> hann(torch.tensor([0.0, 0.5, 1.0])).round(decimals=6)
    tensor([1.0000, 0.5000, 0.0000])
    """
    return torch.cos(share * (torch.pi / 2)) ** 2
