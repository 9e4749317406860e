"""Where voxels go, in Triton: followed along z through a run of planes."""

from __future__ import annotations

import triton
import triton.language as tl

from duotomo.kernels.warp.gpu_lattices import (
    add_slopes,
    displacement,
    spline_weights,
    sum_planes,
)
from duotomo.kernels.warp.gpu_matrices import (
    apply_matrix,
    turn,
)


@triton.jit
def split_place(p, T: tl.constexpr):
    """Return a place as a whole number and the way from there, however far outside it lies."""
    low = tl.minimum(tl.maximum(tl.floor(p), -1e8), 1e8)
    return low.to(tl.int32), tl.minimum(tl.maximum(p - low, 0.0), 1.0).to(T)


@triton.jit
def split_places(z, y, x, T: tl.constexpr):
    """Return three whole numbers, and then three ways."""
    i_z, t_z = split_place(z, T)
    i_y, t_y = split_place(y, T)
    i_x, t_x = split_place(x, T)
    return i_z, i_y, i_x, t_z, t_y, t_x


@triton.jit
def turn_plane(planes, matrices, c: tl.constexpr, i: tl.constexpr):
    """Return the i-th plane's displacement along axis c behind the last matrix."""
    T: tl.constexpr = planes[0].dtype
    m = matrices + 12 + 4 * c
    a, b, d = tl.load(m).to(T), tl.load(m + 1).to(T), tl.load(m + 2).to(T)
    return a * planes[i] + b * planes[4 + i] + d * planes[8 + i]


@triton.jit
def start_run(matrices, lattices, layout, first, y, x, N: tl.constexpr, ALIGNED: tl.constexpr):
    """Return what is needed to follow voxels along z from plane `first` on, for `step_run`.

    A place on the way is whole + way + step (z - first), plus mixed planes of the lattice.
    """
    T: tl.constexpr = lattices.dtype.element_ty
    if N == 0:
        p_z, p_y, p_x = apply_matrix(matrices, 0, first, y, x)
        return split_places(p_z, p_y, p_x, T)
    elif ALIGNED:
        q_z, q_y, q_x = apply_matrix(matrices, 0, first, y, x)
        p_z, p_y, p_x = apply_matrix(matrices, 1, q_z, q_y, q_x)
        i_z, i_y, i_x, t_z, t_y, t_x = split_places(p_z, p_y, p_x, T)
        a = sum_planes(lattices, layout, matrices, first, y, x)
        return (
            i_z, i_y, i_x, t_z, t_y, t_x,
            turn_plane(a, matrices, 0, 0), turn_plane(a, matrices, 0, 1),
            turn_plane(a, matrices, 0, 2), turn_plane(a, matrices, 0, 3),
            turn_plane(a, matrices, 1, 0), turn_plane(a, matrices, 1, 1),
            turn_plane(a, matrices, 1, 2), turn_plane(a, matrices, 1, 3),
            turn_plane(a, matrices, 2, 0), turn_plane(a, matrices, 2, 1),
            turn_plane(a, matrices, 2, 2), turn_plane(a, matrices, 2, 3),
        )  # fmt: skip
    else:
        return (0,)


@triton.jit
def z_weights(matrices, layout, first, z, T: tl.constexpr):
    """Return the weights of the four lattice planes around plane z, all of a run's being the same four."""
    scale, shift = tl.load(matrices), tl.load(matrices + 3)
    t = (scale * z + shift) - tl.floor(scale * first + shift)
    return spline_weights(t.to(T), tl.load(layout + 4))


@triton.jit
def move_along(whole, way):
    low = tl.floor(way)
    return whole + low.to(tl.int32), way - low


@triton.jit
def step_run(matrices, lattices, layout, start, first, z, y, x, N: tl.constexpr, ALIGNED: tl.constexpr):
    """Return the voxels below the places where the voxels of plane z go, and the fractions above them."""
    T: tl.constexpr = lattices.dtype.element_ty
    if N == 0 or ALIGNED:
        s_z, s_y, s_x = tl.load(matrices), tl.load(matrices + 4), tl.load(matrices + 8)
        if ALIGNED:
            # Along z alone, since rows of voxels run along the lattice.
            s_x, s_y, s_z = (
                tl.load(matrices + 20) * s_z, tl.load(matrices + 16) * s_z, tl.load(matrices + 12) * s_z
            )  # fmt: skip
        n = (z - first) * 1.0
        n = tl.cast(n, T)
        w_z, w_y, w_x = (start[3] + s_z.to(T) * n, start[4] + s_y.to(T) * n, start[5] + s_x.to(T) * n)
        if ALIGNED:
            w = z_weights(matrices, layout, first, z, T)
            w_z += w[0] * start[6] + w[1] * start[7] + w[2] * start[8] + w[3] * start[9]
            w_y += w[0] * start[10] + w[1] * start[11] + w[2] * start[12] + w[3] * start[13]
            w_x += w[0] * start[14] + w[1] * start[15] + w[2] * start[16] + w[3] * start[17]
        i_z, t_z = move_along(start[0], w_z)
        i_y, t_y = move_along(start[1], w_y)
        i_x, t_x = move_along(start[2], w_x)
        return i_z, i_y, i_x, t_z, t_y, t_x
    else:
        p_z, p_y, p_x = apply_matrix(matrices, 0, z, y, x)
        for k in tl.static_range(N):
            u_z, u_y, u_x = displacement(lattices, layout, k, p_z, p_y, p_x)
            p_z, p_y, p_x = apply_matrix(matrices, k + 1, p_z + u_z, p_y + u_y, p_x + u_x)
        return split_places(p_z, p_y, p_x, T)


@triton.jit
def carry(matrices, lattices, layout, k: tl.constexpr, z, y, x, a_z, a_y, a_x):
    """Return a direction carried through lattice k, and through the matrix behind it."""
    a_z, a_y, a_x = add_slopes(lattices, layout, k, z, y, x, a_z, a_y, a_x)
    return turn(matrices, k + 1, a_z, a_y, a_x)
