"""The projector in single precision on the tensor cores of a GPU: how `accumulate.cu` is set up."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from duotomo.kernels import cuda
from duotomo.kernels.project.footprint import COLUMNS, ROWS, Bands, Lengths

SOURCE = Path(__file__).with_name("accumulate.cu")
COLUMNS_PER_WARP, ROWS_PER_TILE = 16, 8
SHAPES = ((8, 8), (8, 7), (8, 6), (7, 6), (6, 5), (5, 5), (4, 4))
"""Warps and row tiles of a block."""
MOST_STEPS = 4
"""Of 16 samples each: for wider bands, gathering is cheaper."""
MOST_WARPS = 24
"""At once on a multiprocessor, for the registers that each wants."""
RESERVED_BYTES = 1024
"""Of shared memory, which each block takes for itself."""

Table = tuple[torch.Tensor, torch.Tensor]
"""For each source, target and index: the first sample; and its weights, each as two half-precision parts."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a target is cut into tiles.

    steps: samples of 16 columns, in sixteens. warps, tiles: of a block; 16 columns and 8 rows each.
    window_chunks, window_stride: of what a block sees of a source, in sixteens of rows, and in columns.
    column_taps, row_taps: weights of one target in the tables. row_chunks: of 16 source rows that a tile may
    need, counted from its first chunk, which is row_step / 32 after that of the tile before. blocks: at once
    on a multiprocessor.
    """

    steps: int
    warps: int
    tiles: int
    window_chunks: int
    window_stride: int
    column_taps: int
    row_taps: int
    row_chunks: int
    row_step: int
    blocks: int = 1

    @property
    def shared_bytes(self) -> int:
        """Return the shared memory of a block."""
        window = 16 * self.window_chunks * self.window_stride * 4
        rows = 8 * self.tiles * 4 * (self.row_chunks | 1) * 16
        columns = self.warps * 8 * 4 * self.steps * 2 * 16
        return window + rows + columns + self.window_chunks * 8

    @property
    def overlap(self) -> float:
        """Return how many values a block reads for each that it writes."""
        tile = COLUMNS_PER_WARP * self.warps * ROWS_PER_TILE * self.tiles
        return 16 * self.window_chunks * self.window_stride / tile


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A compiled kernel with its tables."""

    plan: Plan
    function: Any
    rows: Table
    columns: Table


def prepared(bands: Bands, target_shape: tuple[int, int], device: torch.device) -> Prepared | None:
    """Return what bands need on a device, made once; None where Triton has to serve."""
    if device not in bands.prepared:
        bands.prepared[device] = _prepare(bands, target_shape, device)
    found: Prepared | None = bands.prepared[device]
    return found


def _prepare(bands: Bands, target_shape: tuple[int, int], device: torch.device) -> Prepared | None:
    plans = [plan(bands, target_shape, shape, cuda.shared_bytes(device)) for shape in SHAPES]
    possible = [one for one in plans if one is not None]
    if not possible:
        return None
    best = min(possible, key=lambda one: one.overlap)
    names = ("steps", "warps", "tiles", "column_taps", "row_taps", "row_chunks", "row_step", "blocks")
    macros = tuple((name.upper(), getattr(best, name)) for name in names)
    try:
        function = cuda.kernel(SOURCE, "accumulate", macros, device)
    except Exception as error:
        warnings.warn(
            f"Projector: Triton serves, since {SOURCE.name} does not compile: {error}", stacklevel=2
        )
        return None
    n_rows, n_columns = target_shape
    return Prepared(
        plan=best,
        function=function,
        rows=table(bands, ROWS, n_rows, best.row_taps, device),
        columns=table(bands, COLUMNS, n_columns, best.column_taps, device),
    )


def plan(
    bands: Bands, target_shape: tuple[int, int], shape: tuple[int, int], shared_bytes: int
) -> Plan | None:
    """Return a plan with so many warps and tiles; None where no block fits the shared memory."""
    (target_rows, target_columns), (warps, tiles) = target_shape, shape
    # Three more, since windows begin at multiples of four samples.
    samples = bands.reach(COLUMNS, n_targets=target_columns, count=COLUMNS_PER_WARP) + 3
    # The last warp's window begins so much after the block's.
    shift = math.floor(float(bands.lines[:, :, COLUMNS, 5::2].max()) * COLUMNS_PER_WARP * (warps - 1)) + 4
    steps = math.ceil(samples / 16)
    row_steps = bands.lines[:, :, ROWS, 5::2]
    row_step = math.floor(16 * float(row_steps.min()))
    reach = bands.reach(ROWS, n_targets=target_rows, count=ROWS_PER_TILE)
    ends = [math.floor((8 * tile * float(row_steps.max()) + 1 + reach) / 16) for tile in range(tiles)]
    found = Plan(
        steps=steps,
        warps=warps,
        tiles=tiles,
        window_chunks=math.ceil(bands.reach(ROWS, n_targets=target_rows, count=ROWS_PER_TILE * tiles) / 16),
        window_stride=16 * (math.ceil((shift // 4 * 4 + 16 * steps) / 16) | 1),
        column_taps=4 * math.ceil(bands.reach(COLUMNS, n_targets=target_columns) / 4),
        row_taps=4 * math.ceil(bands.reach(ROWS, n_targets=target_rows) / 4),
        row_chunks=1 + max(end - (tile * row_step >> 5) for tile, end in enumerate(ends)),
        row_step=row_step,
    )
    blocks = min(shared_bytes // (found.shared_bytes + RESERVED_BYTES), MOST_WARPS // warps)
    fits = steps <= MOST_STEPS and found.window_stride // 4 <= 32 * warps
    return replace(found, blocks=blocks) if fits and blocks else None


def table(bands: Bands, axis: int, n_targets: int, n_taps: int, device: torch.device) -> Table:
    """Return the weights of one axis, computed in double precision and then split."""
    target = torch.arange(n_targets, dtype=torch.float64, device=device)
    tap = torch.arange(n_taps, dtype=torch.float64, device=device)
    firsts, weights = [], []
    for source in bands.on(device)[:, :, axis]:
        p_low, q_low, p_high, q_high, begin_low, step_low, begin_high, step_high = source.T[:, :, None]
        first = torch.minimum(begin_low + step_low * target, begin_high + step_high * target).floor()
        sample = first[..., None] + tap
        pixel, voxel = (sample, target[:, None]) if bands.transposed else (target[:, None], sample)
        low, high = (p[..., None] + q[..., None] * voxel for p, q in ((p_low, q_low), (p_high, q_high)))
        next_low, next_high = low + q_low[..., None], high + q_high[..., None]
        weight = _cover(pixel, low, high) - _cover(pixel, next_low, next_high)
        parts = weight.to(torch.float16)
        rest = (weight - parts.double()).to(torch.float16)
        firsts.append(first.to(torch.int32))
        weights.append(torch.stack([parts, rest], dim=-1))
    return torch.stack(firsts), torch.stack(weights)


def _cover(pixel: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Return the share of a pixel beyond an edge that is swept from one place to another."""
    sweep = (low - high).abs()
    past = pixel - torch.minimum(low, high)
    return _integral(past + 1, sweep) - _integral(past, sweep)


def _integral(distance: torch.Tensor, sweep: torch.Tensor) -> torch.Tensor:
    """Integrate, up to `distance`, a ramp that rises from 0 at 0 to 1 at `sweep`."""
    inside = torch.minimum(distance.clamp(min=0), sweep)
    return inside.square() / (2 * sweep.clamp(min=1e-12)) + (distance - sweep).clamp(min=0)


def accumulate(
    source: torch.Tensor,
    target: torch.Tensor,
    on_device: Prepared,
    *,
    add: bool,
    lengths_sq: Lengths | None,
) -> None:
    """Write to `target` (or add to it) the sum over sources; see `footprint`."""
    used = on_device.plan
    n_targets, target_rows, target_columns = target.shape
    grid = (
        math.ceil(target_columns / (COLUMNS_PER_WARP * used.warps)),
        math.ceil(target_rows / (ROWS_PER_TILE * used.tiles)),
        n_targets,
    )
    rows_sq, columns_sq = lengths_sq if lengths_sq is not None else (source, source)
    aligned = source.shape[2] % 4 == 0 and source.data_ptr() % 16 == 0
    largest = torch.linalg.vector_norm(source, ord=math.inf)
    cuda.launch(
        on_device.function,
        grid,
        32 * used.warps,
        used.shared_bytes,
        *(source, target, *on_device.rows, *on_device.columns, rows_sq, columns_sq, largest),
        *(*source.shape, *target.shape, used.window_chunks, used.window_stride),
        *(int(add), int(lengths_sq is not None), int(aligned)),
    )
