"""Two vector instructions that Numba's loops do not reliably become: combine rows, and turn a tile.

Both are built directly in LLVM's vector types, so every processor that LLVM knows runs them; the widths are
fixed and need no alignment. Inside `njit` code only; the caller keeps every access inside the arrays.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 32
"""How many neighbouring elements `combine` treats at once."""
TILE = 16
"""The side of the square that `turn` transposes."""

_INDEX = types.intp


def _at(context, builder, array_type, array, offset):
    return builder.gep(context.make_array(array_type)(context, builder, array).data, [offset])


def _vector(builder, pointer, element, length):
    return builder.bitcast(pointer, ir.VectorType(element, length).as_pointer())


def _bytes(element):
    return 4 if isinstance(element, ir.FloatType) else 8


def _load(builder, pointer, element, length):
    loaded = builder.load(_vector(builder, pointer, element, length))
    loaded.align = _bytes(element)
    return loaded


def _store(builder, value, pointer, element, length):
    stored = builder.store(value, _vector(builder, pointer, element, length))
    stored.align = _bytes(element)


def _broadcast(builder, scalar, vector_type):
    undefined = ir.Constant(vector_type, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, mask)


@intrinsic
def combine(typing, out, out_at, source, source_at, source_step, weight, weight_at, weight_step, n, keep):
    """Set LANES elements to a weighted sum of n rows, on top of what is there if `keep`.

    For every lane l, `out[out_at + l] = keep out[out_at + l] + sum over t < n of
    weight[weight_at + t weight_step] source[source_at + t source_step + l]`.
    """
    signature = types.void(out, _INDEX, source, _INDEX, _INDEX, weight, _INDEX, _INDEX, _INDEX, types.boolean)

    def generate(context, builder, signature, arguments):
        out, out_at, source, source_at, source_step, weight, weight_at, weight_step, n, keep = arguments
        element = context.get_data_type(signature.args[0].dtype)
        vector = ir.VectorType(element, LANES)
        to = _at(context, builder, signature.args[0], out, out_at)
        samples = _at(context, builder, signature.args[2], source, source_at)
        weights = _at(context, builder, signature.args[5], weight, weight_at)
        total = cgutils.alloca_once(builder, vector)
        with builder.if_else(keep) as (add, replace):
            with add:
                builder.store(_load(builder, to, element, LANES), total)
            with replace:
                builder.store(ir.Constant(vector, None), total)
        with cgutils.for_range(builder, n) as loop:
            sample = _load(
                builder, builder.gep(samples, [builder.mul(loop.index, source_step)]), element, LANES
            )
            w = builder.load(builder.gep(weights, [builder.mul(loop.index, weight_step)]))
            product = builder.fmul(sample, _broadcast(builder, w, vector), flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        _store(builder, builder.load(total), to, element, LANES)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def turn(typing, source, source_at, source_step, out, out_at, out_step):
    """Set `out[out_at + c out_step + r] = source[source_at + r source_step + c]` for r, c < TILE."""
    signature = types.void(source, _INDEX, _INDEX, out, _INDEX, _INDEX)

    def generate(context, builder, signature, arguments):
        source, source_at, source_step, out, out_at, out_step = arguments
        element = context.get_data_type(signature.args[0].dtype)
        rows = _at(context, builder, signature.args[0], source, source_at)
        columns = _at(context, builder, signature.args[3], out, out_at)

        def nth(start, step, r):
            return builder.gep(start, [builder.mul(step, ir.Constant(ir.IntType(64), r))])

        tile = [_load(builder, nth(rows, source_step, r), element, TILE) for r in range(TILE)]
        half = TILE // 2
        # Swap the off-diagonal blocks of every 2 x 2 block matrix, halving the blocks each time.
        while half:
            upper = [c if not c & half else TILE + c - half for c in range(TILE)]
            lower = [c + half if not c & half else TILE + c for c in range(TILE)]
            for r in range(TILE):
                if not r & half:
                    a, b = tile[r], tile[r + half]
                    tile[r], tile[r + half] = (
                        builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), TILE), mask))
                        for mask in (upper, lower)
                    )
            half //= 2
        for r in range(TILE):
            _store(builder, tile[r], nth(columns, out_step, r), element, TILE)
        return context.get_dummy_value()

    return signature, generate
