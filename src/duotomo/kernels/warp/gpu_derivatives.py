"""The derivatives of a warp in its map, in Triton."""

from __future__ import annotations

import triton
import triton.language as tl

from duotomo.kernels.warp.gpu_lattices import (
    add_slopes,
    cell_below,
    displacement,
    four_splines,
    lattice_layout,
    pick,
    spline_weights,
)
from duotomo.kernels.warp.gpu_matrices import (
    apply_matrix,
    matrix_row,
    turn,
)
from duotomo.kernels.warp.gpu_places import (
    carry,
    split_places,
    start_run,
    step_run,
    z_weights,
)
from duotomo.kernels.warp.gpu_volumes import (
    SHAPES,
    own_voxels,
    plane_offset,
    read_slopes,
)


@triton.jit(do_not_specialize=SHAPES)
def differentiate_block(
    volume, out, d_matrices, d_lattices, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
    MOVES_FIRST: tl.constexpr,
):  # fmt: skip
    T: tl.constexpr = volume.dtype.element_ty
    flat, y, x, inside, first, length = own_voxels(runs, n_y, n_x, BLOCK)
    for z in range(first, first + length):
        p_z, p_y, p_x = apply_matrix(matrices, 0, z, y, x)
        c_z, c_y, c_x = apply_matrix(d_matrices, 0, z, y, x)
        for k in tl.static_range(N):
            u_z, u_y, u_x = displacement(lattices, layout, k, p_z, p_y, p_x)
            e_z, e_y, e_x = displacement(d_lattices, layout, k, p_z, p_y, p_x)
            if MOVES_FIRST or k > 0:
                # d(l + u(l)) = dl + du + u'(l) dl
                c_z, c_y, c_x = add_slopes(lattices, layout, k, p_z, p_y, p_x, c_z, c_y, c_x)
            c_z, c_y, c_x = c_z + e_z, c_y + e_y, c_x + e_x
            p_z, p_y, p_x = p_z + u_z, p_y + u_y, p_x + u_x
            a_z, a_y, a_x = apply_matrix(d_matrices, k + 1, p_z, p_y, p_x)
            b_z, b_y, b_x = turn(matrices, k + 1, c_z, c_y, c_x)
            c_z, c_y, c_x = a_z + b_z, a_y + b_y, a_x + b_x
            p_z, p_y, p_x = apply_matrix(matrices, k + 1, p_z, p_y, p_x)
        i_z, i_y, i_x, t_z, t_y, t_x = split_places(p_z, p_y, p_x, T)
        s_z, s_y, s_x = read_slopes(volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        total = s_z * c_z.to(T) + s_y * c_y.to(T) + s_x * c_x.to(T)
        tl.store(out + plane_offset(z, flat, n_y, n_x, WIDE), total, mask=inside)


@triton.jit
def _pulled(
    volume, value, matrices, lattices, layout, start, first, z, y, x, v_z, v_y, v_x, inside,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, CUBIC: tl.constexpr,
    FROM: tl.constexpr, AFTER_LATTICE: tl.constexpr,
):  # fmt: skip
    """Return places on the way, and the gradient of `value f(T)` in what comes out of the stage there.

    The stage is matrix FROM, met at the places; or with AFTER_LATTICE, lattice FROM.
    """
    T: tl.constexpr = volume.dtype.element_ty
    q_y, q_x = y.to(tl.float64), x.to(tl.float64)
    q_z = 0 * q_x + z
    if FROM == N:
        # Nothing comes behind the last matrix.
        i_z, i_y, i_x, t_z, t_y, t_x = step_run(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        if N > 0:
            q_z, q_y, q_x = apply_matrix(matrices, 0, q_z, q_y, q_x)
            for k in tl.static_range(N):
                u_z, u_y, u_x = displacement(lattices, layout, k, q_z, q_y, q_x)
                q_z, q_y, q_x = q_z + u_z, q_y + u_y, q_x + u_x
                if k + 1 < N:
                    q_z, q_y, q_x = apply_matrix(matrices, k + 1, q_z, q_y, q_x)
        s_z, s_y, s_x = read_slopes(volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        return q_z, q_y, q_x, s_z * value, s_y * value, s_x * value
    else:
        # Three unit directions, carried forward from the stage on: the columns of the rest's Jacobian.
        one, zero = 0 * q_z + 1, 0 * q_z
        a_z, a_y, a_x = one, zero, zero
        b_z, b_y, b_x = zero, one, zero
        c_z, c_y, c_x = zero, zero, one
        p_z, p_y, p_x = apply_matrix(matrices, 0, q_z, q_y, q_x)
        for k in tl.static_range(N):
            if AFTER_LATTICE and k == FROM:
                q_z, q_y, q_x = p_z, p_y, p_x
            u_z, u_y, u_x = displacement(lattices, layout, k, p_z, p_y, p_x)
            if k >= FROM:
                if AFTER_LATTICE and k == FROM:
                    a_z, a_y, a_x = turn(matrices, k + 1, a_z, a_y, a_x)
                    b_z, b_y, b_x = turn(matrices, k + 1, b_z, b_y, b_x)
                    c_z, c_y, c_x = turn(matrices, k + 1, c_z, c_y, c_x)
                else:
                    a_z, a_y, a_x = carry(matrices, lattices, layout, k, p_z, p_y, p_x, a_z, a_y, a_x)
                    b_z, b_y, b_x = carry(matrices, lattices, layout, k, p_z, p_y, p_x, b_z, b_y, b_x)
                    c_z, c_y, c_x = carry(matrices, lattices, layout, k, p_z, p_y, p_x, c_z, c_y, c_x)
            p_z, p_y, p_x = p_z + u_z, p_y + u_y, p_x + u_x
            if not AFTER_LATTICE and k + 1 == FROM:
                q_z, q_y, q_x = p_z, p_y, p_x
            p_z, p_y, p_x = apply_matrix(matrices, k + 1, p_z, p_y, p_x)
        i_z, i_y, i_x, t_z, t_y, t_x = split_places(p_z, p_y, p_x, T)
        s_z, s_y, s_x = read_slopes(volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        s_z, s_y, s_x = s_z * value, s_y * value, s_x * value
        g_z = s_z * a_z + s_y * a_y + s_x * a_x
        g_y = s_z * b_z + s_y * b_y + s_x * b_x
        g_x = s_z * c_z + s_y * c_y + s_x * c_x
        return q_z, q_y, q_x, g_z, g_y, g_x


@triton.jit(do_not_specialize=SHAPES)
def pull_matrix(
    volume, image, sums, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
    FROM: tl.constexpr,
):  # fmt: skip
    """Write this program's part of the gradient in matrix FROM: (program, 12)."""
    flat, y, x, inside, first, length = own_voxels(runs, n_y, n_x, BLOCK)
    start = start_run(matrices, lattices, layout, first, y, x, N, ALIGNED)
    none = tl.zeros((BLOCK,), tl.float64)
    z_z, z_y, z_x, z_1 = none, none, none, none
    y_z, y_y, y_x, y_1 = none, none, none, none
    x_z, x_y, x_x, x_1 = none, none, none, none
    for z in range(first, first + length):
        value = tl.load(image + plane_offset(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        q_z, q_y, q_x, g_z, g_y, g_x = _pulled(
            volume, value, matrices, lattices, layout, start, first, z, y, x, v_z, v_y, v_x, inside,
            N, ALIGNED, WIDE, CUBIC, FROM, False,
        )  # fmt: skip
        z_z, z_y, z_x, z_1 = z_z + g_z * q_z, z_y + g_z * q_y, z_x + g_z * q_x, z_1 + g_z
        y_z, y_y, y_x, y_1 = y_z + g_y * q_z, y_y + g_y * q_y, y_x + g_y * q_x, y_1 + g_y
        x_z, x_y, x_x, x_1 = x_z + g_x * q_z, x_y + g_x * q_y, x_x + g_x * q_x, x_1 + g_x
    to = sums + 12 * (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0))
    tl.store(to, tl.sum(z_z, 0))
    tl.store(to + 1, tl.sum(z_y, 0))
    tl.store(to + 2, tl.sum(z_x, 0))
    tl.store(to + 3, tl.sum(z_1, 0))
    tl.store(to + 4, tl.sum(y_z, 0))
    tl.store(to + 5, tl.sum(y_y, 0))
    tl.store(to + 6, tl.sum(y_x, 0))
    tl.store(to + 7, tl.sum(y_1, 0))
    tl.store(to + 8, tl.sum(x_z, 0))
    tl.store(to + 9, tl.sum(x_y, 0))
    tl.store(to + 10, tl.sum(x_x, 0))
    tl.store(to + 11, tl.sum(x_1, 0))


@triton.jit
def _add_whole(to, part, factor, mask):
    whole = (part.to(tl.float64) * factor).to(tl.int64)
    tl.atomic_add(to, whole, mask=mask, sem="relaxed")


@triton.jit(do_not_specialize=SHAPES)
def pull_lattice(
    volume, image, sums, scale, matrices, lattices, layout, runs, n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
    FROM: tl.constexpr,
):  # fmt: skip
    """Add this program's part of the gradient in lattice FROM to integer sums."""
    T: tl.constexpr = volume.dtype.element_ty
    flat, y, x, inside, first, length = own_voxels(runs, n_y, n_x, BLOCK)
    offset, l_z, l_y, l_x, taps = lattice_layout(layout, FROM)
    factor = tl.load(scale)
    size = l_z * l_y * l_x
    start = (0,)
    for z in range(first, first + length):
        value = tl.load(image + plane_offset(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        q_z, q_y, q_x, g_z, g_y, g_x = _pulled(
            volume, value, matrices, lattices, layout, start, first, z, y, x, v_z, v_y, v_x, inside,
            N, ALIGNED, WIDE, CUBIC, FROM, True,
        )  # fmt: skip
        i_z, i_y, i_x, t_z, t_y, t_x = cell_below(q_z, q_y, q_x, l_z, l_y, l_x, T)
        w_z, w_y, w_x = spline_weights(t_z, taps), spline_weights(t_y, taps), spline_weights(t_x, taps)
        for i in range(4):
            for j in range(4):
                w = pick(w_z, i) * pick(w_y, j)
                line = sums + offset + ((i_z + 3 + i) * l_y + i_y + 3 + j) * l_x + i_x + 3
                for m in tl.static_range(4):
                    weight = w * w_x[m]
                    _add_whole(line + m, weight * g_z, factor, inside)
                    _add_whole(line + size + m, weight * g_y, factor, inside)
                    _add_whole(line + 2 * size + m, weight * g_x, factor, inside)


@triton.jit
def _add_cell(to, a, w_y, w_x, factor, step):
    """Add the sums over a tile of a, (y, x), times the weights of 16 control points, to integer sums.

    w_y: (y, 4). w_x: (x, 4).
    """
    along_x = tl.sum(a[:, :, None] * w_x[None, :, :], axis=1)
    total = tl.sum(along_x[:, None, :] * w_y[:, :, None], axis=0)
    four = tl.arange(0, 4)
    whole = (total.to(tl.float64) * factor).to(tl.int64)
    tl.atomic_add(to + four[:, None] * step + four[None, :], whole, sem="relaxed")


@triton.jit(do_not_specialize=SHAPES)
def pull_cells(
    volume, image, sums, scale, rows, columns, matrices, lattices, layout, runs,
    n_z, n_y, n_x, v_z, v_y, v_x,
    N: tl.constexpr, ALIGNED: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr, CUBIC: tl.constexpr,
):  # fmt: skip
    """Add the gradient in the only lattice, along which voxel rows run, to integer sums.

    A program's voxels all lie between the same control points, so it sums before it adds.
    """
    T: tl.constexpr = volume.dtype.element_ty
    columns += 2 * tl.program_id(0)
    rows += 2 * tl.program_id(1)
    runs += 2 * tl.program_id(2)
    first, length = tl.load(runs), tl.load(runs + 1)
    along_y, along_x = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (along_y < tl.load(rows + 1)) & (along_x < tl.load(columns + 1))
    y = tl.load(rows) + along_y + 0 * along_x
    x = tl.load(columns) + along_x + 0 * along_y
    flat = y * n_x + x
    start = start_run(matrices, lattices, layout, first, y, x, N, ALIGNED)
    none = tl.zeros((BLOCK, BLOCK), T)
    z_0, z_1, z_2, z_3 = none, none, none, none
    y_0, y_1, y_2, y_3 = none, none, none, none
    x_0, x_1, x_2, x_3 = none, none, none, none
    for z in range(first, first + length):
        value = tl.load(image + plane_offset(z, flat, n_y, n_x, WIDE), mask=inside, other=0.0)
        i_z, i_y, i_x, t_z, t_y, t_x = step_run(matrices, lattices, layout, start, first, z, y, x, N, ALIGNED)
        s_z, s_y, s_x = read_slopes(volume, i_z, i_y, i_x, t_z, t_y, t_x, v_z, v_y, v_x, inside, CUBIC, WIDE)
        s_z, s_y, s_x = s_z * value, s_y * value, s_x * value
        w = z_weights(matrices, layout, first, z, T)
        z_0, z_1, z_2, z_3 = z_0 + w[0] * s_z, z_1 + w[1] * s_z, z_2 + w[2] * s_z, z_3 + w[3] * s_z
        y_0, y_1, y_2, y_3 = y_0 + w[0] * s_y, y_1 + w[1] * s_y, y_2 + w[2] * s_y, y_3 + w[3] * s_y
        x_0, x_1, x_2, x_3 = x_0 + w[0] * s_x, x_1 + w[1] * s_x, x_2 + w[2] * s_x, x_3 + w[3] * s_x
    offset, l_z, l_y, l_x, taps = lattice_layout(layout, 0)
    along = tl.arange(0, BLOCK)
    w_y = four_splines(matrix_row(matrices, 0, 1, first, tl.load(rows) + along, 0), taps, T)
    w_x = four_splines(matrix_row(matrices, 0, 2, first, 0, tl.load(columns) + along), taps, T)
    # The control points are those of the tile's first voxel.
    q_z, q_y, q_x = apply_matrix(matrices, 0, first, tl.load(rows), tl.load(columns))
    i_z, i_y, i_x, _, _, _ = cell_below(q_z, q_y, q_x, l_z, l_y, l_x, T)
    to = sums + offset + ((i_z + 3) * l_y + i_y + 3) * l_x + i_x + 3
    factor = tl.load(scale)
    step, size = l_y * l_x, l_z * l_y * l_x
    m = matrices + 12
    for c in tl.static_range(3):
        # Back through the last matrix.
        a, b, d = tl.load(m + c).to(T), tl.load(m + 4 + c).to(T), tl.load(m + 8 + c).to(T)
        at = to + c * size
        _add_cell(at, a * z_0 + b * y_0 + d * x_0, w_y, w_x, factor, l_x)
        _add_cell(at + step, a * z_1 + b * y_1 + d * x_1, w_y, w_x, factor, l_x)
        _add_cell(at + 2 * step, a * z_2 + b * y_2 + d * x_2, w_y, w_x, factor, l_x)
        _add_cell(at + 3 * step, a * z_3 + b * y_3 + d * x_3, w_y, w_x, factor, l_x)
