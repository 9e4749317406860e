"""A change between two visits: two findings, scores of random numbers, and voxels of every silent code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from duotomo.change import Change, FalseFindings, Finding, Silent
from duotomo.geometry import VolumeGrid
from tests.io.saved_helpers import GRID, draw, same

NEW = Finding(
    number=1,
    kind="new",
    template="sphere of 1.2 mm",
    place_mm=(0.1, 1.7, 5.2),
    place_deviation_mm=(0.05, 0.06, 0.7),
    prior_place_mm=(0.3, 1.9, 5.9),
    size_mm=1.2,
    size_interval_mm=(0.9, 1.6),
    contrast_per_mm=0.004 / 3,
    contrast_interval_per_mm=(0.0011, 0.0016),
    z=7.25,
    p_value=2.1e-13,
    false_findings=3.5e-8,
    false_discovery_rate=3.5e-8,
    smear_mm=3.1,
    slice_index=2,
    words="upper half, 2 mm from the chest wall",
)
GONE = replace(
    NEW,
    number=2,
    kind="gone",
    place_mm=(-0.45, 3.2, 6.8),
    z=-5.5,
    contrast_per_mm=-0.001,
    contrast_interval_per_mm=(-0.0013, -0.0007),
    p_value=1.9e-8,
    slice_index=3,
)


def a_change(grid: VolumeGrid = GRID, **changes: Any) -> Change:
    """Return a change on a grid; changes: fields that are others."""
    silent = torch.zeros(grid.shape, dtype=torch.uint8)
    silent.view(-1)[: len(Silent)] = torch.arange(len(Silent), dtype=torch.uint8)
    z_map = draw(*grid.shape, seed=8).masked_fill(silent > 0, torch.nan)
    change = Change(
        grid=grid,
        z_map=z_map,
        silent=silent,
        volume=draw(*grid.shape, seed=9),
        findings=(NEW, GONE),
        threshold=4.75,
        false_findings=FalseFindings(thresholds=(3.0, 4.0, 1 / 0.19), expected=(12.5, 0.9, 0.01)),
    )
    return replace(change, **changes)


def same_change(one: Change | None, other: Change) -> bool:
    """Return whether two are equal bit for bit."""
    plain = ("grid", "findings", "threshold", "false_findings", "reason")
    return (
        one is not None
        and all(getattr(one, name) == getattr(other, name) for name in plain)
        and same(one.z_map.nan_to_num(-99), other.z_map.nan_to_num(-99))
        and same(one.silent, other.silent)
        and same(one.volume, other.volume)
    )
