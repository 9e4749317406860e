"""One vector instruction that Numba's loops do not reliably become: read the eight voxels around places.

Built directly in LLVM's vector types, so every processor that LLVM knows runs it. Inside `njit` code only.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
"""How many places are treated at once."""

_I32, _I64, _BIT = ir.IntType(32), ir.IntType(64), ir.IntType(1)


def _spread(builder, scalar):
    """Return a vector with the scalar in every lane."""
    vector = ir.VectorType(scalar.type, LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))


def _constant(kind, value):
    return ir.Constant(ir.VectorType(kind, LANES), [value] * LANES)


def _along_axis(builder, element, size, at):
    """Return the voxel below each place, the fraction above it, and whether it and the next one exist."""
    vector = ir.VectorType(element, LANES)
    # Places far outside, or not numbers, become places just outside: an index must hold them.
    low, high = _constant(element, -2.0), builder.sitofp(_spread(builder, size), vector)
    at = builder.select(builder.fcmp_ordered(">", at, low), at, low)
    at = builder.select(builder.fcmp_ordered("<", at, high), at, high)
    name = f"llvm.floor.v{LANES}f{32 if isinstance(element, ir.FloatType) else 64}"
    floor = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector]), name)
    below = builder.call(floor, [at])
    index = builder.fptosi(below, ir.VectorType(_I32, LANES))
    n = _spread(builder, builder.trunc(size, _I32))
    after = builder.add(index, _constant(_I32, 1))
    # Unsigned, so that -1 is beyond the end too.
    exists = builder.icmp_unsigned("<", index, n), builder.icmp_unsigned("<", after, n)
    return index, builder.fsub(at, below), exists


class _Reader:
    """Reads two neighbouring voxels for each lane."""

    def __init__(self, builder, data, element):
        self.builder, self.element = builder, element
        self.n_bytes = 4 if isinstance(element, ir.FloatType) else 8
        self.base = _spread(builder, builder.ptrtoint(data, _I64))

    def pair(self, line, exists, index, inside, n_x):
        """Return the voxels at index and at index + 1 of each lane's line; zero where there is none."""
        builder, wide = self.builder, ir.VectorType(_I64, LANES)
        if self.n_bytes == 8:
            first = builder.add(line, builder.sext(index, wide))
            second = builder.add(first, _constant(_I64, 1))
            return [
                self.gather(place, builder.and_(exists, there), self.element)
                for place, there in zip((first, second), inside, strict=True)
            ]
        # Two single-precision voxels are one 64-bit load, half as many as one by one. At the ends of a line
        # the pair is moved to lie inside, and the wanted voxel picked out of it.
        last = builder.sub(_spread(builder, builder.trunc(n_x, _I32)), _constant(_I32, 2))
        moved = builder.select(builder.icmp_signed("<", index, last), index, last)
        zero = _constant(_I32, 0)
        moved = builder.select(builder.icmp_signed(">", moved, zero), moved, zero)
        any_there = builder.and_(exists, builder.or_(*inside))
        both = self.gather(builder.add(line, builder.sext(moved, wide)), any_there, _I64)
        halves = builder.bitcast(both, ir.VectorType(self.element, 2 * LANES))
        pick = ir.VectorType(_I32, LANES)
        low, high = (
            builder.shuffle_vector(halves, halves, ir.Constant(pick, [2 * i + odd for i in range(LANES)]))
            for odd in (0, 1)
        )
        nothing = ir.Constant(low.type, None)
        before, after = builder.icmp_signed("<", index, moved), builder.icmp_signed(">", index, moved)
        first = builder.select(after, high, builder.select(before, nothing, low))
        second = builder.select(before, low, builder.select(after, nothing, high))
        return [first, second]

    def gather(self, place, mask, kind):
        """Return one element of `kind` per lane, from the volume's element number `place`; zero if masked."""
        builder = self.builder
        address = builder.add(self.base, builder.mul(place, _constant(_I64, self.n_bytes)))
        vector, pointers = ir.VectorType(kind, LANES), ir.VectorType(kind.as_pointer(), LANES)
        letter = f"i{kind.width}" if isinstance(kind, ir.IntType) else f"f{8 * self.n_bytes}"
        name = f"llvm.masked.gather.v{LANES}{letter}.v{LANES}p0"
        signature = ir.FunctionType(vector, [pointers, _I32, ir.VectorType(_BIT, LANES), vector])
        function = cgutils.get_or_insert_function(builder.module, signature, name)
        arguments = [builder.inttoptr(address, pointers), ir.Constant(_I32, self.n_bytes), mask]
        return builder.call(function, [*arguments, ir.Constant(vector, None)])


@intrinsic
def read_corners(typing, volume, places, first, fractions, values):
    """Read the voxels around LANES neighbouring places; those beyond the grid are zero.

    volume: (z, y, x), contiguous. places: (3, at least first + LANES), rows contiguous. Writes fractions, (3,
    LANES): how far above a voxel each place lies; and values, (8, LANES): the voxels' values, in the order of
    the binary digits z, y, x.
    """
    signature = types.void(volume, places, types.intp, fractions, values)

    def generate(context, builder, signature, arguments):
        volume, places, fractions, values = (
            context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 1, 3, 4)
        )
        element = context.get_data_type(signature.args[0].dtype)
        n_bytes = 4 if isinstance(element, ir.FloatType) else 8
        vector = ir.VectorType(element, LANES)
        shape = cgutils.unpack_tuple(builder, volume.shape)
        n_places = cgutils.unpack_tuple(builder, places.shape)[1]
        found = []
        for axis in range(3):
            offset = builder.add(builder.mul(n_places, ir.Constant(_I64, axis)), arguments[2])
            at = builder.load(builder.bitcast(builder.gep(places.data, [offset]), vector.as_pointer()))
            at.align = n_bytes
            index, fraction, exists = _along_axis(builder, element, shape[axis], at)
            found.append((index, exists))
            to = builder.gep(fractions.data, [ir.Constant(_I64, axis * LANES)])
            builder.store(fraction, builder.bitcast(to, vector.as_pointer())).align = n_bytes
        wide = ir.VectorType(_I64, LANES)
        (i_z, in_z), (i_y, in_y), (i_x, in_x) = found
        # 64-bit addresses: a volume may hold more voxels than 32 bits count.
        n_y, n_x = _spread(builder, shape[1]), _spread(builder, shape[2])
        row = builder.add(builder.mul(builder.sext(i_z, wide), n_y), builder.sext(i_y, wide))
        start = builder.mul(row, n_x)
        steps = builder.mul(shape[1], shape[2]), shape[2]
        read = _Reader(builder, volume.data, element)
        for corner in range(4):
            ones = corner >> 1, corner & 1
            line = start
            for one, step in zip(ones, steps, strict=True):
                if one:
                    line = builder.add(line, _spread(builder, step))
            exists = builder.and_(in_z[ones[0]], in_y[ones[1]])
            for side, value in enumerate(read.pair(line, exists, i_x, in_x, shape[2])):
                to = builder.gep(values.data, [ir.Constant(_I64, (2 * corner + side) * LANES)])
                builder.store(value, builder.bitcast(to, vector.as_pointer())).align = n_bytes
        return context.get_dummy_value()

    return signature, generate
