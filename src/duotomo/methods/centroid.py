"""Where a volume attenuates: the centroid of what is positive."""

from __future__ import annotations

import torch


def centroid(volume: torch.Tensor) -> tuple[float, float, float] | None:
    """Return the centroid of what is positive, (z, y, x), in voxels from the low faces; or None."""
    positive, means = volume.clamp(min=0), []
    for others in ((1, 2), (0, 2), (0, 1)):
        weights = positive.sum(dim=others, dtype=torch.float64).cpu()
        if not float(weights.sum()) > 0:
            return None
        index = torch.arange(len(weights), dtype=torch.float64) + 0.5
        means.append(float((index * weights).sum() / weights.sum()))
    z, y, x = means
    return z, y, x
