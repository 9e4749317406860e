// The projector on a GPU with tensor cores, in single precision: no atomics, one write per value, the same bits
// every time. See `footprint` for what is computed and `tensor_cores` for how it is set up.
//
// A block owns a tile of one target, 16 WARPS columns by 8 TILES rows, and loops over the sources. The window of
// a source that the tile can see is copied to shared memory, while the multiprocessor's other blocks work on
// theirs. Each warp owns 16 columns. In both axes the band of weights is dense enough for the tensor cores:
//
//     seen (16 target columns, 16 source rows)  = column weights (16, 16 STEPS samples) x window (samples, 16 rows)
//     total (16 target columns, 8 target rows) += seen x row weights (16 source rows, 8 target rows)
//
// The first product leaves its result in the lanes where the second one wants its factor: `seen` never leaves the
// registers. Tensor cores take factors of 11 bits, so each is split in two and three of the four products are
// summed; what is left out is below rounding. Half precision holds such parts as well as tf32 and goes twice as
// fast, but has few exponents: the source is scaled by a power of two, such that its largest value is about 64.
//
// Compiled with: STEPS; WARPS, TILES; COLUMN_TAPS, ROW_TAPS, the weights of one target in the tables; ROW_CHUNKS of 16
// source rows that a row tile may need, counted from its first chunk, which is ROW_STEP / 32 chunks after the one
// of the tile before; BLOCKS to a multiprocessor.

constexpr int AT_ONCE = 4;                              // row tiles that are worked on together
constexpr int THREADS = 32 * WARPS;
constexpr int COLUMN_FOURS = 8 * 4 * STEPS * 2;         // of a warp's column weights
constexpr int ROW_STRIDE = 4 * (ROW_CHUNKS | 1);        // of a target row's weights, in fours: no two lanes meet in a bank
static_assert(TILES <= WARPS && TILES <= 8 && COLUMN_TAPS % 4 == 0 && ROW_TAPS % 4 == 0, "see `plan`");

// Four neighbouring numbers, as tensor cores take them: the high parts of two pairs, then the low parts.
typedef uint4 Four;

__device__ inline unsigned packed(float first, float second) {
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}

__device__ inline float2 unpacked(unsigned both) {
    float2 value;
    asm("{.reg .b16 a, b;\n mov.b32 {a, b}, %2;\n cvt.f32.f16 %0, a;\n cvt.f32.f16 %1, b;}"
        : "=f"(value.x), "=f"(value.y) : "r"(both));
    return value;
}

__device__ inline Four split(float a, float b, float c, float d) {
    const unsigned first = packed(a, b), second = packed(c, d);
    const float2 kept = unpacked(first), also_kept = unpacked(second);
    return {first, second, packed(a - kept.x, b - kept.y), packed(c - also_kept.x, d - also_kept.y)};
}

// c = a b + c, of 16 x 16 and 16 x 8 numbers.
__device__ inline void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// c = a b.
__device__ inline void multiply_first(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

__device__ inline unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

// Copies in the background; bytes that are not read arrive as zeros.
template <int BYTES>
__device__ inline void copy_async(void* to, const void* from, int n_read) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES),
                 "r"(n_read));
}

// The first chunk of source rows, in the window, that a row tile may need.
__device__ inline constexpr int first_chunk(int tile) { return tile * ROW_STEP >> 5; }

// Add to some row tiles what 16 source rows give them. The products take turns, so that none waits for its own.
template <int FIRST, int N>
__device__ inline void add_rows(
    float (&total)[TILES][4], const unsigned (&high)[4], const unsigned (&low)[4], const Four* weights
) {
    if constexpr (FIRST + N <= TILES) {
        Four w[N];
#pragma unroll
        for (int i = 0; i < N; ++i) w[i] = weights[8 * (FIRST + i) * ROW_STRIDE - 4 * first_chunk(FIRST + i)];
#pragma unroll
        for (int i = 0; i < N; ++i) multiply(total[FIRST + i], low, w[i].x, w[i].y);
#pragma unroll
        for (int i = 0; i < N; ++i) multiply(total[FIRST + i], high, w[i].z, w[i].w);
#pragma unroll
        for (int i = 0; i < N; ++i) multiply(total[FIRST + i], high, w[i].x, w[i].y);
    }
}

// The window of a source that a tile sees.
struct Window {
    int row, column;
    bool any;
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) accumulate(
    const float* __restrict__ source, float* __restrict__ target, const int* __restrict__ row_first,
    const unsigned* __restrict__ row_taps, const int* __restrict__ column_first,
    const unsigned* __restrict__ column_taps, const float* __restrict__ rows_sq, const float* __restrict__ columns_sq,
    const float* __restrict__ largest, int n_sources, int source_rows, int source_columns, int n_targets,
    int target_rows, int target_columns, int window_chunks, int window_stride, int add, int scale, int aligned
) {
    extern __shared__ __align__(16) unsigned char memory[];
    const int window_floats = 16 * window_chunks * window_stride;
    float* windows = reinterpret_cast<float*>(memory);
    Four* row_weights = reinterpret_cast<Four*>(windows + window_floats);
    Four* column_weights = row_weights + 8 * TILES * ROW_STRIDE;
    int2* touched = reinterpret_cast<int2*>(column_weights + WARPS * COLUMN_FOURS);

    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int g = lane >> 2, t = lane & 3;
    const int n = blockIdx.z;
    const int first_row = blockIdx.y * 8 * TILES, first_column = blockIdx.x * 16 * WARPS;
    const int last_row = min(first_row + 8 * TILES, target_rows) - 1;
    const int last_column = min(first_column + 16 * WARPS, target_columns) - 1;
    const int warp_column = first_column + 16 * warp;
    column_weights += warp * COLUMN_FOURS;
    const int exponent = int(__float_as_uint(*largest) >> 23 & 255) - 127;
    const int shift = *largest > 0.0f ? max(min(6 - exponent, 126), -126) : 0;
    const float scaled = __uint_as_float(unsigned(shift + 127) << 23);
    // Each thread copies four columns of every so many rows of a window.
    const int fours = window_stride / 4, rows_at_once = THREADS / fours;
    const int own_row = threadIdx.x / fours, own_column = 4 * (threadIdx.x % fours);
    const int own_end = own_row < rows_at_once ? 16 * window_chunks : 0;
    const int own_place = own_row * window_stride + own_column;
    // The target whose weights a lane unpacks: of 16 columns two lanes each, of 8 rows four each.
    const int own_target_column = min(warp_column + (lane >> 1), target_columns - 1);
    const int own_target_row = min(first_row + 8 * min(warp, TILES - 1) + g, target_rows - 1);

    auto window_of = [&](int m) -> Window {
        const int* rows = row_first + (size_t(m) * n_targets + n) * target_rows;
        const int* columns = column_first + (size_t(m) * n_targets + n) * target_columns;
        const int row = rows[first_row], column = columns[first_column];
        const bool any = row < source_rows && rows[last_row] + ROW_TAPS > 0 && column < source_columns &&
                         columns[last_column] + COLUMN_TAPS > 0;
        return {row, column & ~3, any};
    };
    auto fetch_window = [&](int m, const Window& window) {
        float* to = windows + own_place;
        const int column = window.column + own_column;
        int row = window.row + own_row;
        const float* image = source + size_t(m) * source_rows * source_columns;
        const float* from = image + (ptrdiff_t(row) * source_columns + column);
        const int to_step = rows_at_once * window_stride;
        const ptrdiff_t from_step = ptrdiff_t(rows_at_once) * source_columns;
        const bool whole = window.row >= 0 && window.row + 16 * window_chunks <= source_rows && window.column >= 0 &&
                           window.column + window_stride <= source_columns;
        if (aligned && whole) {
#pragma unroll 2
            for (int r = own_row; r < own_end; r += rows_at_once) {
                copy_async<16>(to, from, 16);
                to += to_step, from += from_step;
            }
        } else if (aligned) {
            const int n_bytes = column >= 0 ? 4 * min(max(source_columns - column, 0), 4) : 0;
            for (int r = own_row; r < own_end; r += rows_at_once) {
                const int n_read = unsigned(row) < unsigned(source_rows) ? n_bytes : 0;
                copy_async<16>(to, n_read ? from : image, n_read);
                row += rows_at_once, to += to_step, from += from_step;
            }
        } else {
            for (int r = own_row; r < own_end; r += rows_at_once) {
                const bool inside = unsigned(row) < unsigned(source_rows);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const bool seen = inside && unsigned(column + i) < unsigned(source_columns);
                    copy_async<4>(to + i, seen ? from + i : image, seen ? 4 : 0);
                }
                row += rows_at_once, to += to_step, from += from_step;
            }
        }
    };
    // Each thread splits what it copied itself, in place.
    auto split_window = [&](int m) {
        float* at = windows + own_place;
        const int step = rows_at_once * window_stride;
#pragma unroll 2
        for (int r = own_row; r < own_end; r += rows_at_once) {
            const float4 v = *reinterpret_cast<const float4*>(at);
            *reinterpret_cast<Four*>(at) = split(v.x * scaled, v.y * scaled, v.z * scaled, v.w * scaled);
            at += step;
        }
    };

    float total[TILES][4] = {};
    Window window = window_of(0);
    if (window.any) fetch_window(0, window);
    for (int m = 0; m < n_sources; ++m) {
        const Window now = window;
        // Asked for now, and there when it is wanted.
        window = window_of(min(m + 1, n_sources - 1));
        int sample = 0;
        if (now.any) {
            // Weights are on their way from the tables while the window is split.
            const size_t row_at = (size_t(m) * n_targets + n) * target_rows + own_target_row;
            const size_t column_at = (size_t(m) * n_targets + n) * target_columns + own_target_column;
            const int row = row_first[row_at] - now.row - 16 * first_chunk(warp);
            const int column = column_first[column_at];
            unsigned row_weight[ROW_TAPS / 4], column_weight[COLUMN_TAPS / 2];
#pragma unroll
            for (int i = 0; i < ROW_TAPS / 4; ++i) row_weight[i] = row_taps[ROW_TAPS * row_at + 4 * i + t];
#pragma unroll
            for (int i = 0; i < COLUMN_TAPS / 4; ++i) {
                const uint2 pair =
                    *reinterpret_cast<const uint2*>(column_taps + COLUMN_TAPS * column_at + 4 * i + 2 * (lane & 1));
                column_weight[2 * i] = pair.x, column_weight[2 * i + 1] = pair.y;
            }
            asm volatile("cp.async.wait_all;" ::: "memory");
            split_window(m);
            // Along columns a lane takes four neighbours, of target g and of g + 8.
            sample = __shfl_sync(0xffffffffu, column, 0) & ~3;
#pragma unroll
            for (int i = 0; i < COLUMN_FOURS / 32; ++i) column_weights[lane + 32 * i] = make_uint4(0, 0, 0, 0);
            __syncwarp();
            unsigned short* line = reinterpret_cast<unsigned short*>(column_weights) + (lane >> 1 & 7) * 64 * STEPS +
                                   (lane >> 4) * 2;
#pragma unroll
            for (int i = 0; i < COLUMN_TAPS / 2; ++i) {
                const int at = column - sample + 4 * (i / 2) + 2 * (lane & 1) + i % 2;
                if (at < 16 * STEPS) {
                    unsigned short* to = line + (at >> 2) * 16 + (at & 2) * 2 + (at & 1);
                    to[0] = static_cast<unsigned short>(column_weight[i]);
                    to[8] = static_cast<unsigned short>(column_weight[i] >> 16);
                }
            }
            // Along rows it takes a pair of the first eight and one of the second, as the first product left them.
            if (warp < TILES) {
                Four* lines = row_weights + warp * 8 * ROW_STRIDE;
#pragma unroll
                for (int i = 0; i < ROW_STRIDE / 4; ++i) lines[lane + 32 * i] = make_uint4(0, 0, 0, 0);
                __syncwarp();
                unsigned short* row_line = reinterpret_cast<unsigned short*>(lines + g * ROW_STRIDE);
#pragma unroll
                for (int i = 0; i < ROW_TAPS / 4; ++i) {
                    const int at = row + 4 * i + t;
                    if (unsigned(at) < 16u * ROW_CHUNKS) {
                        unsigned short* to = row_line + (at >> 4) * 32 + (at >> 1 & 3) * 8 + (at >> 3 & 1) * 2 + (at & 1);
                        to[0] = static_cast<unsigned short>(row_weight[i]);
                        to[4] = static_cast<unsigned short>(row_weight[i] >> 16);
                    }
                }
            }
            if (warp == 0) {
                // Which row tiles each chunk of source rows touches: each lane asks for a tile.
                const int* rows = row_first + (size_t(m) * n_targets + n) * target_rows;
                const int tile_row = first_row + 8 * lane;
                const bool is_tile = lane < TILES && tile_row < target_rows;
                const int from = is_tile ? rows[tile_row] - now.row : 0;
                const int until = is_tile ? rows[min(tile_row + 7, target_rows - 1)] + ROW_TAPS - 1 - now.row : -1;
                for (int chunk = 0; chunk < window_chunks; ++chunk) {
                    const bool inside = now.row + 16 * chunk < source_rows && now.row + 16 * chunk + 16 > 0;
                    const unsigned tiles = __ballot_sync(
                        0xffffffffu, inside && from < 16 * chunk + 16 && until >= 16 * chunk &&
                                         chunk - first_chunk(lane) < ROW_CHUNKS
                    );
                    if (lane == 0) touched[chunk] = make_int2(__ffs(tiles) - 1, __popc(tiles));
                }
            }
        }
        __syncthreads();
        if (now.any && sample < source_columns && sample + 16 * STEPS > 0 && warp_column < target_columns) {
            unsigned weight_high[STEPS][4], weight_low[STEPS][4];
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
                const Four* at = column_weights + ((g * STEPS + s) * 4 + t) * 2;
                const Four high = at[0], low = at[1];
                weight_high[s][0] = high.x, weight_high[s][1] = high.y, weight_high[s][2] = high.z, weight_high[s][3] = high.w;
                weight_low[s][0] = low.x, weight_low[s][1] = low.y, weight_low[s][2] = low.z, weight_low[s][3] = low.w;
            }
            const Four* at = reinterpret_cast<const Four*>(
                windows + g * window_stride + sample - now.column + 4 * t
            );
            const Four* weights = row_weights + g * ROW_STRIDE + t;
            const int2* tiles = touched;
            for (int chunk = 0; chunk < window_chunks; ++chunk, at += 4 * window_stride, weights += 4) {
                int tile = tiles[chunk].x, count = tiles[chunk].y;
                if (count == 0) continue;
                float both[2][4], rest[2][4];
#pragma unroll
                for (int s = 0; s < STEPS; ++s)
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const Four v = at[2 * half * window_stride + 4 * s];
                        if (s == 0) {
                            multiply_first(both[half], weight_high[s], v.x, v.y);
                            multiply_first(rest[half], weight_low[s], v.x, v.y);
                        } else {
                            multiply(both[half], weight_high[s], v.x, v.y);
                            multiply(rest[half], weight_low[s], v.x, v.y);
                        }
                        multiply(rest[half], weight_high[s], v.z, v.w);
                    }
#pragma unroll
                for (int half = 0; half < 2; ++half)
#pragma unroll
                    for (int i = 0; i < 4; ++i) both[half][i] += rest[half][i];
                const Four first = split(both[0][0], both[0][1], both[0][2], both[0][3]);
                const Four second = split(both[1][0], both[1][1], both[1][2], both[1][3]);
                const unsigned high[4] = {first.x, first.y, second.x, second.y};
                const unsigned low[4] = {first.z, first.w, second.z, second.w};
                do {
                    const int n_now = min(count, AT_ONCE);
                    // Tiles are registers, which cannot be counted up at run time.
                    switch (AT_ONCE * tile + n_now - 1) {
#define ROWS(J, N) \
        case AT_ONCE * J + N - 1: add_rows<J, N>(total, high, low, weights); break;
#define TILE(J) ROWS(J, 1) ROWS(J, 2) ROWS(J, 3) ROWS(J, 4)
                        TILE(0) TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6) TILE(7)
#undef TILE
#undef ROWS
                    }
                    tile += n_now;
                    count -= n_now;
                } while (count > 0);
            }
        }
        __syncthreads();
        if (m + 1 < n_sources && window.any) fetch_window(m + 1, window);
    }

    const float unscaled = __uint_as_float(unsigned(127 - shift) << 23);
#pragma unroll
    for (int j = 0; j < TILES; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = first_row + 8 * j + 2 * t + (i & 1), column = warp_column + g + 8 * (i >> 1);
            if (row >= target_rows || column >= target_columns) continue;
            float value = total[j][i] * unscaled;
            if (scale)
                value *= sqrtf(
                    rows_sq[size_t(n) * target_rows + row] + columns_sq[size_t(n) * target_columns + column]
                );
            float* to = target + (size_t(n) * target_rows + row) * target_columns + column;
            *to = add ? *to + value : value;
        }
}
