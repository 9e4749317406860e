"""The projector on the CPU, in Numba: every core, exact transpose, the same bits for any number of threads.

Per source and target the work is two banded resamplings: along rows, which is a sum of whole rows, then along
columns. Written on a turned tile the second is a sum of whole rows too, so both run at full vector width and
their cost hardly depends on how wide the bands are. A task owns a block of rows of some targets
and writes nothing else. More threads get smaller tasks, but every value is summed in the same order.
"""

from __future__ import annotations

import math
from functools import partial

import numba
import numpy as np
import torch
from numba import njit

from duotomo.kernels.compiled import compiled
from duotomo.kernels.inner import inner
from duotomo.kernels.project.footprint import COLUMNS, ROWS, Bands, Lengths
from duotomo.kernels.project.lanes import LANES, TILE, combine, turn
from duotomo.kernels.threads import share

ROW_BLOCK = LANES
"""Target rows per task: one vector of the turned tile."""
COLUMN_BLOCK = 128
"""Source columns treated while they are in the first-level cache."""
STRIDE = COLUMN_BLOCK + 3 * TILE
"""Row length of the tile: room for a block's last vector, and no power of two, which would alias in cache."""
GROUP_BYTES = 1 << 19
"""How much of the targets a task keeps at once, at most: it shares a second-level cache with the source."""
GROUP_SHARE = 0.02
"""And what all tasks together keep, at most, as a share of the arrays; one target each is the least."""


def accumulate(
    source: torch.Tensor, target: torch.Tensor, bands: Bands, *, add: bool, lengths_sq: Lengths | None = None
) -> None:
    """Write to `target` (or add to it) the sum over sources; see `footprint`."""
    samples, n_columns = source.numpy(), source.shape[2]
    if n_columns < LANES:
        # One vector must fit in a row; what is added weighs nothing.
        samples = np.pad(samples, ((0, 0), (0, 0), (0, LANES - n_columns)))
    n_targets, n_rows, target_columns = target.shape
    if lengths_sq is None:
        rows_sq, columns_sq = target.new_ones(n_targets, n_rows), target.new_zeros(n_targets, target_columns)
    else:
        rows_sq, columns_sq = lengths_sq
    bytes_each = target_columns * ROW_BLOCK * target.element_size()
    bytes_kept = min(GROUP_BYTES, GROUP_SHARE * (source.nbytes + target.nbytes) / numba.get_num_threads())
    n_groups = math.ceil(n_targets / max(1, int(bytes_kept / bytes_each)))
    group = math.ceil(n_targets / n_groups)
    call = partial(
        _accumulate,
        samples,
        target.numpy(),
        bands.lines,
        rows_sq.numpy(),
        columns_sq.numpy(),
        n_columns,
        bands.transposed,
        add,
        bands.reach(ROWS, n_targets=n_rows),
        bands.reach(COLUMNS, n_targets=target_columns),
        group,
    )
    n_tasks = math.ceil(n_rows / ROW_BLOCK) * math.ceil(n_targets / group)
    share(call, n_tasks, steps=source.shape[0] * n_targets * n_rows * max(n_columns, target_columns))


@njit(inline="always")
def _cover(low, high, tiny, zero, one, half):
    """Share of the pixel [0, 1] beyond an edge whose footprint sweeps from `low` to `high`.

    Clamped first, so that an edge far away costs no precision.
    """
    sweep = max(abs(high - low), tiny)
    past = min(max(-min(low, high), -one), sweep)
    a, b = max(past, zero), min(past + one, sweep)
    return (b - a) * (b + a) * (half / sweep) + max(past + one - sweep, zero)


@partial(inner, fastmath=("contract", "nsz"))
def _band(line, transposed, start, first, weights, before):
    """Fill one axis' band: `first[r]`, and `weights[t, r]` for target `start + r`, sample `first[r] + t`.

    A weight is the difference of the covers of a voxel's two edges. Forward, the samples are voxels, and
    neighbours share an edge. Positions are subtracted in double precision and only then rounded to the
    data's. before: room, as long as first.
    """
    p_low, q_low, p_high, q_high = line[0], line[1], line[2], line[3]
    begin_low, step_low, begin_high, step_high = line[4], line[5], line[6], line[7]
    real = weights.dtype.type
    zero, one, half = real(0), real(1), real(0.5)
    tiny = real(1e-6) if weights.itemsize == 4 else real(1e-12)  # a slab seen straight on sweeps nothing
    for r in range(first.size):
        o = float(start + r)
        first[r] = np.int32(np.floor(min(begin_low + step_low * o, begin_high + step_high * o)))
    if transposed:
        for t in range(weights.shape[0]):
            row = weights[t]
            for r in range(first.size):
                voxel, pixel = float(start + r), float(first[r] + t)
                low, high = p_low + q_low * voxel - pixel, p_high + q_high * voxel - pixel
                near = _cover(real(low), real(high), tiny, zero, one, half)
                row[r] = near - _cover(real(low + q_low), real(high + q_high), tiny, zero, one, half)
    else:
        for t in range(weights.shape[0] + 1):
            row = weights[max(t - 1, 0)]
            for r in range(first.size):
                voxel, pixel = float(first[r] + t), float(start + r)
                low, high = p_low + q_low * voxel - pixel, p_high + q_high * voxel - pixel
                cover = _cover(real(low), real(high), tiny, zero, one, half)
                row[r] = before[r] - cover
                before[r] = cover


@compiled
def _accumulate(
    source,
    target,
    lines,
    rows_sq,
    columns_sq,
    n_columns,
    transposed,
    add,
    row_taps,
    column_taps,
    group,
    begin,
    end,
):
    n_sources, source_rows, stored_columns = source.shape
    n_targets, target_rows, target_columns = target.shape
    flat = source.reshape(-1)
    n_blocks = (target_rows + ROW_BLOCK - 1) // ROW_BLOCK
    for task in range(begin, end):
        row = (task % n_blocks) * ROW_BLOCK
        n_rows = min(ROW_BLOCK, target_rows - row)
        n_first = (task // n_blocks) * group
        n_kept = min(group, n_targets - n_first)
        row_first = np.empty(n_rows, np.int32)
        row_weights = np.empty((row_taps, n_rows), source.dtype)
        column_first = np.empty(target_columns, np.int32)
        column_weights = np.empty((column_taps, target_columns), source.dtype)
        before = np.zeros(max(n_rows, target_columns), source.dtype)
        flat_rows, flat_columns = row_weights.reshape(-1), column_weights.reshape(-1)
        sums = np.zeros((n_kept * target_columns + TILE) * ROW_BLOCK, source.dtype)
        tile = np.zeros(ROW_BLOCK * STRIDE, source.dtype)
        turned = np.empty((stored_columns + TILE) * ROW_BLOCK, source.dtype)
        for m in range(n_sources):
            for kept in range(n_kept):
                line = lines[m, n_first + kept]
                _band(line[ROWS], transposed, row, row_first, row_weights, before)
                if row_first[0] >= source_rows or row_first[n_rows - 1] + row_taps <= 0:
                    continue
                # Typed as the row is, or Numba compiles it once more.
                _band(line[COLUMNS], transposed, np.int64(0), column_first, column_weights, before)
                done = 0
                while done < target_columns and column_first[done] + column_taps <= 0:
                    done += 1
                for start in range(0, stored_columns, COLUMN_BLOCK):
                    stop = min(start + COLUMN_BLOCK, stored_columns)
                    for r in range(n_rows):
                        low = max(0, row_first[r])
                        high = min(source_rows, row_first[r] + row_taps)
                        for x in range(start, stop, LANES):
                            # The last vector moves back to end with the row: part of it is done twice.
                            at = min(x, stored_columns - LANES)
                            combine(
                                tile,
                                r * STRIDE + LANES + at - start,
                                flat,
                                (m * source_rows + low) * stored_columns + at,
                                stored_columns,
                                flat_rows,
                                (low - row_first[r]) * n_rows + r,
                                n_rows,
                                max(high - low, 0),
                                False,
                            )
                    for x in range(0, stop - start, TILE):
                        for r in range(0, ROW_BLOCK, TILE):
                            turn(
                                tile,
                                r * STRIDE + LANES + x,
                                STRIDE,
                                turned,
                                (start + x) * ROW_BLOCK + r,
                                ROW_BLOCK,
                            )
                    # Columns whose samples are all there now; at the end, those that want some outside too.
                    limit = stop - column_taps if stop < stored_columns else n_columns - 1
                    while done < target_columns and column_first[done] <= limit:
                        low = max(0, column_first[done])
                        high = min(n_columns, column_first[done] + column_taps)
                        combine(
                            sums,
                            (kept * target_columns + done) * ROW_BLOCK,
                            turned,
                            low * ROW_BLOCK,
                            ROW_BLOCK,
                            flat_columns,
                            (low - column_first[done]) * target_columns + done,
                            target_columns,
                            high - low,
                            True,
                        )
                        done += 1
        for kept in range(n_kept):
            n = n_first + kept
            for start in range(0, target_columns, TILE):
                n_here = min(TILE, target_columns - start)
                for r in range(0, n_rows, TILE):
                    turn(sums, (kept * target_columns + start) * ROW_BLOCK + r, ROW_BLOCK, tile, 0, TILE)
                    for i in range(min(TILE, n_rows - r)):
                        out = target[n, row + r + i, start : start + n_here]
                        along_columns = columns_sq[n, start : start + n_here]
                        along_rows = rows_sq[n, row + r + i]
                        summed = tile[i * TILE : i * TILE + n_here]
                        if add:
                            for c in range(n_here):
                                out[c] += summed[c] * np.sqrt(along_rows + along_columns[c])
                        else:
                            for c in range(n_here):
                                out[c] = summed[c] * np.sqrt(along_rows + along_columns[c])
