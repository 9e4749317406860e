"""The projector on the GPU: no atomics, one write per value, the same bits every time.

Wide bands in single precision go to `tensor_cores`, where CUDA C++ can be compiled. All others are served
here, in Triton.

A program owns a tile of one target and loops over the sources. Along columns it gathers: lanes are
neighbouring targets, each sums its few samples. Along rows the band of weights, dense inside the tile, is a
small matrix, and the tensor cores multiply by it. They keep 11 bits of a factor, so in single precision each
factor is split in two and three of the four products are summed; what is left out is below rounding.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from duotomo.kernels import cuda
from duotomo.kernels.project import tensor_cores
from duotomo.kernels.project.footprint import COLUMNS, ROWS, Bands, Lengths

TILE_COLUMNS = 128
CHUNK = 16
"""Source rows gathered at once."""
NARROW_TAPS = 4
"""Up to this many samples per target the gather is cheap, and small tiles keep more of the device busy."""
SIZES = (
    "n_sources",
    "source_rows",
    "source_columns",
    "n_targets",
    "target_rows",
    "target_columns",
    "row_step",
)
"""Arguments that stay numbers at run time: no compilation for every new grid, nor for a length of 1."""
WIDE_REGISTERS = 128
"""Registers per thread for wide bands: four programs to a multiprocessor hide each other's waiting."""


def accumulate(
    source: torch.Tensor, target: torch.Tensor, bands: Bands, *, add: bool, lengths_sq: Lengths | None = None
) -> None:
    """Write to `target` (or add to it) the sum over sources; see `footprint`."""
    n_targets, target_rows, target_columns = target.shape
    single = source.dtype == torch.float32
    taps = min(bands.reach(COLUMNS, n_targets=target_columns), source.shape[2])
    narrow = taps <= NARROW_TAPS or not single
    if not narrow and cuda.serves(source.device):
        found = tensor_cores.prepared(bands, (target_rows, target_columns), source.device)
        if found is not None:
            tensor_cores.accumulate(source, target, found, add=add, lengths_sq=lengths_sq)
            return
    tile_rows = 16 if narrow else 32
    tile_columns = TILE_COLUMNS if single else TILE_COLUMNS // 2
    # As many target rows as can be made from tile_rows source rows; one, if it needs more than that.
    step = tile_rows
    while step > 1 and bands.reach(ROWS, n_targets=target_rows, count=step) > tile_rows:
        step -= 1
    grid = (n_targets, triton.cdiv(target_rows, step), triton.cdiv(target_columns, tile_columns))
    rows_sq, columns_sq = lengths_sq if lengths_sq is not None else (source, source)
    _accumulate[grid](
        source,
        target,
        bands.on(source.device),
        rows_sq,
        columns_sq,
        *source.shape,
        *target.shape,
        step,
        TRANSPOSED=bands.transposed,
        ADD=add,
        SCALE=lengths_sq is not None,
        TAPS=taps,
        TILE_ROWS=tile_rows,
        CHUNK=CHUNK,
        SOURCE_CHUNKS=triton.cdiv(bands.reach(ROWS, n_targets=target_rows, count=step), CHUNK),
        TILE_COLUMNS=tile_columns,
        SINGLE=single,
        num_warps=4,
        maxnreg=None if narrow else WIDE_REGISTERS,
    )


@triton.jit
def _sweep(low, high, tiny):
    # The first footprint of an edge, what it sweeps, and half the inverse of that.
    sweep = tl.maximum(tl.abs(low - high), tiny)
    root = tl.rsqrt(sweep)  # one instruction, where a division takes seven
    return tl.minimum(low, high), sweep, 0.5 * root * root


@triton.jit
def _cover(start, sweep, half_inverse):
    # Share of the pixel [0, 1] beyond an edge. Clamped first: an edge far away costs no precision.
    past = tl.minimum(tl.maximum(-start, -1.0), sweep)
    a, b = tl.maximum(past, 0.0), tl.minimum(past + 1.0, sweep)
    return (b - a) * (b + a) * half_inverse + tl.maximum(past + 1.0 - sweep, 0.0)


@triton.jit
def _edge_cover(low, high, tiny):
    start, sweep, half_inverse = _sweep(low, high, tiny)
    return _cover(start, sweep, half_inverse)


@triton.jit
def _high_part(x):
    # The bits that the tensor cores keep.
    return (x.to(tl.int32, bitcast=True) & -8192).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=SIZES)
def _accumulate(
    source,
    target,
    lines,
    rows_sq,
    columns_sq,
    n_sources,
    source_rows,
    source_columns,
    n_targets,
    target_rows,
    target_columns,
    row_step,
    TRANSPOSED: tl.constexpr,
    ADD: tl.constexpr,
    SCALE: tl.constexpr,
    TAPS: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    SOURCE_CHUNKS: tl.constexpr,
    TILE_COLUMNS: tl.constexpr,
    SINGLE: tl.constexpr,
):
    real: tl.constexpr = tl.float32 if SINGLE else tl.float64
    tiny: tl.constexpr = 1e-6 if SINGLE else 1e-12
    axis: tl.constexpr = 0 if TRANSPOSED else 1  # along which the rows' footprints repeat
    n = tl.program_id(0)
    first_row = tl.program_id(1) * row_step
    first_column = tl.program_id(2) * TILE_COLUMNS
    end_row = tl.minimum(first_row + row_step, target_rows)
    end_column = tl.minimum(first_column + TILE_COLUMNS, target_columns)
    column = first_column + tl.arange(0, TILE_COLUMNS)
    column_f = column.to(tl.float64)
    row = tl.arange(0, TILE_ROWS)
    total = tl.zeros((TILE_COLUMNS, TILE_ROWS), dtype=real)
    for m in range(n_sources):
        line = lines + (m * n_targets + n) * 16
        rp_low, rq_low = tl.load(line), tl.load(line + 1)
        rp_high, rq_high = tl.load(line + 2), tl.load(line + 3)
        cp_low, cq_low = tl.load(line + 8), tl.load(line + 9)
        cp_high, cq_high = tl.load(line + 10), tl.load(line + 11)
        if TRANSPOSED:
            rb_low, rs_low, rb_high, rs_high = rp_low, rq_low, rp_high, rq_high
            cb_low, cs_low, cb_high, cs_high = cp_low, cq_low, cp_high, cq_high
        else:
            rb_low, rs_low = tl.load(line + 4), tl.load(line + 5)
            rb_high, rs_high = tl.load(line + 6), tl.load(line + 7)
            cb_low, cs_low = tl.load(line + 12), tl.load(line + 13)
            cb_high, cs_high = tl.load(line + 14), tl.load(line + 15)
        row_from = tl.floor(tl.minimum(rb_low + rs_low * first_row, rb_high + rs_high * first_row)).to(
            tl.int32
        )
        row_to = tl.maximum(rb_low + rs_low * end_row, rb_high + rs_high * end_row)
        column_from = tl.minimum(cb_low + cs_low * first_column, cb_high + cs_high * first_column)
        column_to = tl.maximum(cb_low + cs_low * end_column, cb_high + cs_high * end_column)
        if (row_from < source_rows) & (row_to > 0.0) & (column_from < source_columns) & (column_to > 0.0):
            # Windows are moved inside the source: samples that a target does not see weigh nothing.
            row_0 = tl.maximum(tl.minimum(row_from, source_rows - SOURCE_CHUNKS * CHUNK), 0)
            sample = tl.floor(tl.minimum(cb_low + cs_low * column_f, cb_high + cs_high * column_f)).to(
                tl.int32
            )
            sample = tl.maximum(tl.minimum(sample, source_columns - TAPS), 0)
            sample_f = sample.to(tl.float64)
            q_low, q_high = cq_low.to(real), cq_high.to(real)
            # Positions are subtracted in double precision before they are rounded.
            if TRANSPOSED:
                low_0 = (cp_low + cq_low * column_f - sample_f).to(real)
                high_0 = (cp_high + cq_high * column_f - sample_f).to(real)
            else:
                low_0 = (cp_low + cq_low * sample_f - column_f).to(real)
                high_0 = (cp_high + cq_high * sample_f - column_f).to(real)
            image = source + m * (source_rows.to(tl.int64) * source_columns)
            for chunk in tl.static_range(SOURCE_CHUNKS):
                offset_row = chunk * CHUNK + tl.arange(0, CHUNK)
                source_row = tl.minimum(row_0 + offset_row, source_rows - 1)
                offset = sample[:, None] + source_row[None, :] * source_columns
                # Neighbouring targets read neighbouring samples, though not always the very next one: what is
                # said here only makes Triton give the lanes to columns. No alignment is known, so that no
                # loads are joined for it.
                at = image + tl.max_contiguous(offset, (2, 1))
                tile = tl.zeros((TILE_COLUMNS, CHUNK), dtype=real)
                low, high = low_0, high_0
                if not TRANSPOSED:
                    before = _edge_cover(low, high, tiny)
                for tap in tl.static_range(TAPS):
                    if TRANSPOSED:
                        near = _edge_cover(low, high, tiny)
                        weight = near - _edge_cover(low + q_low, high + q_high, tiny)
                        low, high = low - 1.0, high - 1.0
                    else:
                        low, high = low + q_low, high + q_high
                        after = _edge_cover(low, high, tiny)
                        weight = before - after
                        before = after
                    tile += weight[:, None] * tl.load(at + tap)
                # The rows' weights, (source row, target row).
                s_low, s_high = rq_low.to(real), rq_high.to(real)
                if TRANSPOSED:
                    low = (rp_low + rq_low * first_row - row_0).to(real) + s_low * row
                    high = (rp_high + rq_high * first_row - row_0).to(real) + s_high * row
                    pixel = offset_row[:, None]
                else:
                    low = (rp_low + rq_low * row_0 - first_row).to(real) + s_low * offset_row
                    high = (rp_high + rq_high * row_0 - first_row).to(real) + s_high * offset_row
                    pixel = row[None, :]
                start, sweep, inverse = _sweep(low, high, tiny)
                next_start, next_sweep, next_inverse = _sweep(low + s_low, high + s_high, tiny)
                weight = _cover(
                    tl.expand_dims(start, axis) - pixel,
                    tl.expand_dims(sweep, axis),
                    tl.expand_dims(inverse, axis),
                ) - _cover(
                    tl.expand_dims(next_start, axis) - pixel,
                    tl.expand_dims(next_sweep, axis),
                    tl.expand_dims(next_inverse, axis),
                )
                weight = tl.where((row_0 + offset_row)[:, None] < source_rows, weight, 0.0)
                if SINGLE:
                    tile_high, weight_high = _high_part(tile), _high_part(weight)
                    total = tl.dot(tile - tile_high, weight_high, total, input_precision="tf32")
                    total = tl.dot(tile_high, weight - weight_high, total, input_precision="tf32")
                    total = tl.dot(tile_high, weight_high, total, input_precision="tf32")
                else:
                    total = tl.dot(tile, weight, total, input_precision="ieee", out_dtype=tl.float64)
    to = target + (n.to(tl.int64) * target_rows + first_row + row)[None, :] * target_columns + column[:, None]
    row_inside = (row < row_step) & (first_row + row < target_rows)
    inside = row_inside[None, :] & (column < target_columns)[:, None]
    if SCALE:
        a = tl.load(rows_sq + n * target_rows + first_row + row, mask=row_inside, other=0.0)
        b = tl.load(columns_sq + n * target_columns + column, mask=column < target_columns, other=0.0)
        total *= tl.sqrt(a[None, :] + b[:, None])
    if ADD:
        total += tl.load(to, mask=inside, other=0.0)
    tl.store(to, total, mask=inside)
