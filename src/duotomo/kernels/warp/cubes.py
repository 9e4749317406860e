"""Vector instructions on the four by four by four values around a place: read, read with slopes, add.

Four values side by side are one vector, and sixteen such are combined with the weights of z and y. Numba's
loops over them stay scalar. Built directly in LLVM's vector types, so every processor that LLVM knows runs
it. Inside `njit` code only; the caller keeps every access inside the arrays.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

SIDE = 4

_KEYS = (
    (0.0, -0.5, 1.0, -0.5),
    (1.0, 0.0, -2.5, 1.5),
    (0.0, 0.5, 2.0, -1.5),
    (0.0, 0.0, -0.5, 0.5),
)
"""Keys' convolution: of each voxel, the coefficients of 1, t, t^2 and t^3."""


def _vector(element):
    return ir.VectorType(element, SIDE)


def _constant(element, values):
    return ir.Constant(_vector(element), list(values))


def _everywhere(builder, scalar):
    """Return a vector with the scalar in all lanes."""
    undefined = ir.Constant(_vector(scalar.type), ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), SIDE), [0] * SIDE)
    return builder.shuffle_vector(first, undefined, mask)


def _from_tuple(builder, values, element):
    """Return four numbers of a tuple as a vector."""
    vector = ir.Constant(_vector(element), ir.Undefined)
    for k in range(SIDE):
        lane = ir.Constant(ir.IntType(32), k)
        vector = builder.insert_element(vector, builder.extract_value(values, k), lane)
    return vector


def _to_tuple(builder, vector, kind):
    values = ir.Constant(kind, ir.Undefined)
    for k in range(SIDE):
        lane = builder.extract_element(vector, ir.Constant(ir.IntType(32), k))
        values = builder.insert_value(values, lane, k)
    return values


def _sum(builder, vector):
    """Return the sum of the four lanes, in a fixed order."""
    first, second, third, fourth = (
        builder.extract_element(vector, ir.Constant(ir.IntType(32), k)) for k in range(SIDE)
    )
    return builder.fadd(builder.fadd(first, second), builder.fadd(third, fourth))


class _Cube:
    """The rows of four values, (i, j), that begin at an element of an array and lie steps apart."""

    def __init__(self, context, builder, array_type, array, start, step_z, step_y):
        self._builder = builder
        self._data = context.make_array(array_type)(context, builder, array).data
        self._start, self._step_z, self._step_y = start, step_z, step_y
        self.element = context.get_data_type(array_type.dtype)
        self.align = 4 if isinstance(self.element, ir.FloatType) else 8

    def rows(self):
        """Yield i, j, and where the row lies."""
        builder, index = self._builder, ir.IntType(64)
        for i in range(SIDE):
            plane = builder.add(self._start, builder.mul(self._step_z, ir.Constant(index, i)))
            for j in range(SIDE):
                at = builder.add(plane, builder.mul(self._step_y, ir.Constant(index, j)))
                pointer = builder.gep(self._data, [at])
                yield i, j, builder.bitcast(pointer, _vector(self.element).as_pointer())

    def read(self, pointer):
        value = self._builder.load(pointer)
        value.align = self.align
        return value


def _multiply_add(builder, one, other, total):
    product = builder.fmul(one, other, flags=("contract",))
    return builder.fadd(total, product, flags=("contract",))


def _four(kind):
    return types.UniTuple(kind, SIDE)


@intrinsic
def keys_weights(typing, t):
    """Return the weights, by Keys' convolution, of the four voxels around a place that lies t above one."""

    def generate(context, builder, signature, arguments):
        element = context.get_data_type(signature.args[0])
        at = _everywhere(builder, arguments[0])
        constant, linear, square, cube = (_constant(element, column) for column in zip(*_KEYS, strict=True))
        # Not contracted: where a volume is read and where it is written, these are the same bits.
        value = builder.fadd(square, builder.fmul(at, cube))
        value = builder.fadd(linear, builder.fmul(at, value))
        value = builder.fadd(constant, builder.fmul(at, value))
        return _to_tuple(builder, value, context.get_value_type(signature.return_type))

    return _four(t)(t), generate


@intrinsic
def keys_slopes(typing, t):
    """Return the derivatives of `keys_weights`."""

    def generate(context, builder, signature, arguments):
        element = context.get_data_type(signature.args[0])
        at = _everywhere(builder, arguments[0])
        linear = _constant(element, [row[1] for row in _KEYS])
        square = _constant(element, [2 * row[2] for row in _KEYS])
        cube = _constant(element, [3 * row[3] for row in _KEYS])
        value = builder.fadd(square, builder.fmul(at, cube))
        value = builder.fadd(linear, builder.fmul(at, value))
        return _to_tuple(builder, value, context.get_value_type(signature.return_type))

    return _four(t)(t), generate


@intrinsic
def read_cube(typing, values, start, step_z, step_y, w_z, w_y, w_x):
    """Return the sum over i, j, k < 4 of `w_z[i] w_y[j] w_x[k] values[start + i step_z + j step_y + k]`.

    values: contiguous, of any axes; its elements are counted. w_z, w_y, w_x: four numbers of its kind each.
    """
    kind = values.dtype
    four, index = _four(kind), types.intp
    signature = kind(values, index, index, index, four, four, four)

    def generate(context, builder, signature, arguments):
        cube = _Cube(context, builder, signature.args[0], *arguments[:4])
        weights_z, weights_y, along_x = arguments[4:]
        total = ir.Constant(_vector(cube.element), None)
        for i, j, pointer in cube.rows():
            weight = builder.fmul(builder.extract_value(weights_z, i), builder.extract_value(weights_y, j))
            total = _multiply_add(builder, _everywhere(builder, weight), cube.read(pointer), total)
        return _sum(builder, builder.fmul(total, _from_tuple(builder, along_x, cube.element)))

    return signature, generate


@intrinsic
def read_cube_slopes(typing, values, start, step_z, step_y, w_z, w_y, w_x, d_z, d_y, d_x):
    """Return three sums as `read_cube` makes them, with the slopes d of one axis instead of its weights."""
    kind = values.dtype
    four, index = _four(kind), types.intp
    signature = types.UniTuple(kind, 3)(values, index, index, index, *(four,) * 6)

    def generate(context, builder, signature, arguments):
        cube = _Cube(context, builder, signature.args[0], *arguments[:4])
        weights_z, weights_y, weights_x, slopes_z, slopes_y, slopes_x = arguments[4:]
        none = ir.Constant(_vector(cube.element), None)
        along_z, along_y, along_x = none, none, none
        # Of four rows first: one plane's sums with weights and with slopes along y serve all three.
        plane, bent = none, none
        for i, j, pointer in cube.rows():
            row = cube.read(pointer)
            weight, slope = (builder.extract_value(one, j) for one in (weights_y, slopes_y))
            plane = _multiply_add(builder, _everywhere(builder, weight), row, plane if j else none)
            bent = _multiply_add(builder, _everywhere(builder, slope), row, bent if j else none)
            if j == SIDE - 1:
                weight, slope = (
                    _everywhere(builder, builder.extract_value(one, i)) for one in (weights_z, slopes_z)
                )
                along_z = _multiply_add(builder, slope, plane, along_z)
                along_y = _multiply_add(builder, weight, bent, along_y)
                along_x = _multiply_add(builder, weight, plane, along_x)
        across, along = (_from_tuple(builder, one, cube.element) for one in (weights_x, slopes_x))
        slopes = ir.Constant(context.get_value_type(signature.return_type), ir.Undefined)
        for axis, (total, factor) in enumerate(((along_z, across), (along_y, across), (along_x, along))):
            slopes = builder.insert_value(slopes, _sum(builder, builder.fmul(total, factor)), axis)
        return slopes

    return signature, generate


@intrinsic
def add_to_cube(typing, values, start, step_z, step_y, w_z, w_y, w_x):
    """Add `(w_y[j] w_z[i]) w_x[k]` to `values[start + i step_z + j step_y + k]`, for all i, j, k < 4.

    Each sum is rounded as loops over scalars would round it.
    """
    four, index = _four(values.dtype), types.intp
    signature = types.void(values, index, index, index, four, four, four)

    def generate(context, builder, signature, arguments):
        cube = _Cube(context, builder, signature.args[0], *arguments[:4])
        weights_z, weights_y, along_x = arguments[4:]
        along = _from_tuple(builder, along_x, cube.element)
        for i, j, pointer in cube.rows():
            weight = builder.fmul(builder.extract_value(weights_y, j), builder.extract_value(weights_z, i))
            added = builder.fmul(_everywhere(builder, weight), along)
            builder.store(builder.fadd(cube.read(pointer), added), pointer).align = cube.align
        return context.get_dummy_value()

    return signature, generate
