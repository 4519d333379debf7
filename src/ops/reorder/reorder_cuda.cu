/* reorder_cuda.cu - the same tensor in another layout, or in another type, on an NVIDIA GPU.
 *
 *     cast        the order stays: a copy, mostly from floats to 16 bits; those of many tensors are one launch
 *     turned      what is contiguous in one layout is not in the other, plain and NHWC, say: by tiles, through shared
 *                 memory, so that both sides are read and written in whole lines
 *     any other   element by element, in the order of the destination; so are split floats joined, which kernels
 *                 mostly read in their place
 */
#include "device/cuda/many.cuh"

extern "C" {
#include "ops/reorder/reorder.h"
}

/* --- casts --------------------------------------------------------------------------------------------------- */

enum { CAST_QUADS = 4, CAST_PIECE = CAST_QUADS * 4 * MANY_THREADS };

template <class S, class D>
static __global__ void __launch_bounds__(MANY_THREADS) cast_kernel(const __grid_constant__ many m)
{
    for (uint32_t piece = blockIdx.x; piece < m.first[m.count]; piece += gridDim.x) {
        const int k = many_find(m, piece);
        const int64_t begin = (int64_t)(piece - m.first[k]) * CAST_PIECE, size = m.size[k];
        quad<S> q[CAST_QUADS];
#pragma unroll
        for (int j = 0; j < CAST_QUADS; j++)
            q[j] = quad_load((const S *)m.data[k][0], many_quad(begin, j), size);
#pragma unroll
        for (int j = 0; j < CAST_QUADS; j++) {
            float x[4];
            quad_floats(q[j], x);
            quad_store((D *)m.data[k][1], many_quad(begin, j), size, x);
        }
    }
}

static void cast_add(many *m, const step *s)
{
    const int k = many_add(m, s->out[0].count, CAST_PIECE);
    m->data[k][0] = s->in[0].data;
    m->data[k][1] = s->out[0].data;
}

template <class S, class D> static brasa_status cast_start(const step *s, const many *m)
{
    cast_kernel<S, D><<<many_blocks(s, m), MANY_THREADS, 0, stream_of(s)>>>(*m);
    return cuda_started(s);
}

static bool part_at(const step *s, int index, layout_part *p)
{
    return layout_part_at(&s->in[0].format.layout, &s->out[0].format.layout, &s->out[0].shape, index, p);
}

static bool is_cast(const step *s)
{
    layout_part p;
    part_at(s, 0, &p);
    return p.count == s->out[0].count && (p.loops == 0 || (p.loops == 1 && p.loop[0].src == 1 && p.loop[0].dst == 1));
}

/* --- turned -------------------------------------------------------------------------------------------------- */

enum { TILE = 64, TILE_THREADS = 256, TILE_ROWS = TILE_THREADS / TILE, TILE_EACH = TILE / TILE_ROWS, TILE_LEAST = 8 };

/* dst is contiguous along x, src along y. */
typedef struct turned {
    layout_loop x, y, outer;
} turned;

/* A thread has one column of the tile, and every TILE_ROWS-th row of it. */
template <class S, class D>
static __global__ void __launch_bounds__(TILE_THREADS, 4) turned_kernel(const S *src, D *dst, const turned t)
{
    __shared__ float room[TILE][TILE + 1];
    const int64_t along_x = (t.x.count + TILE - 1) / TILE, along_y = (t.y.count + TILE - 1) / TILE;
    const int row = threadIdx.x / TILE, column = threadIdx.x % TILE;
    for (int64_t tile = blockIdx.x; tile < along_x * along_y * t.outer.count; tile += gridDim.x) {
        const int64_t x = tile % along_x * TILE, y = tile / along_x % along_y * TILE, o = tile / along_x / along_y;
        const S *from = src + o * t.outer.src + (x + row) * t.x.src + y + column;
        D *to = dst + o * t.outer.dst + (y + row) * t.y.dst + x + column;
        const int width = (int)(t.x.count - x < TILE ? t.x.count - x : TILE);
        const int height = (int)(t.y.count - y < TILE ? t.y.count - y : TILE);
        float v[TILE_EACH];
#pragma unroll
        for (int e = 0; e < TILE_EACH; e++, from += TILE_ROWS * t.x.src)
            v[e] = row + e * TILE_ROWS < width && column < height ? to_float(*from) : 0.f;
        __syncthreads(); /* the tile before is written */
#pragma unroll
        for (int e = 0; e < TILE_EACH; e++)
            room[row + e * TILE_ROWS][column] = v[e];
        __syncthreads();
#pragma unroll
        for (int e = 0; e < TILE_EACH; e++, to += TILE_ROWS * t.y.dst)
            if (row + e * TILE_ROWS < height && column < width)
                *to = from_float<D>(room[column][row + e * TILE_ROWS]);
    }
}

/* A part of two loops, and one around them, where the innermost is contiguous in dst and another in src. Short loops
 * would leave most of a tile empty. */
static bool is_turned(const layout_part *p, turned *t)
{
    if (p->loops < 2 || p->loops > 3)
        return false;
    const int last = p->loops - 1, y = p->loop[last - 1].src == 1 ? last - 1 : 0;
    t->x = p->loop[last];
    t->y = p->loop[y];
    t->outer = layout_loop{1, 0, 0};
    if (p->loops == 3)
        t->outer = p->loop[y == 0 ? 1 : 0];
    return t->x.dst == 1 && t->y.src == 1 && t->x.count >= TILE_LEAST && t->y.count >= TILE_LEAST;
}

/* --- any layout to any other ----------------------------------------------------------------------------------- */

typedef struct place {
    int64_t from, to;
} place;

/* Of element i of a part. */
static __device__ __forceinline__ place place_of(const layout_part &p, int64_t i)
{
    place at = {p.src, p.dst};
    for (int l = p.loops - 1; l >= 0; l--) {
        const int64_t turn = i % p.loop[l].count;
        i /= p.loop[l].count;
        at.from += turn * p.loop[l].src;
        at.to += turn * p.loop[l].dst;
    }
    return at;
}

template <class S, class D>
static __global__ void __launch_bounds__(TILE_THREADS)
    move_kernel(const S *src, D *dst, const __grid_constant__ layout_part p)
{
    GRID_FOR(i, p.count)
    {
        const place at = place_of(p, i);
        dst[at.to] = from_float<D>(to_float(src[at.from]));
    }
}

/* --- the op -------------------------------------------------------------------------------------------------- */

template <class S, class D> static brasa_status part_start(const step *s, const layout_part *p)
{
    const S *src = (const S *)s->in[0].data;
    D *dst = (D *)s->out[0].data;
    turned t;
    if (is_turned(p, &t))
        turned_kernel<S, D>
            <<<blocks_for(s, (p->count + TILE_EACH - 1) / TILE_EACH, TILE_THREADS), TILE_THREADS, 0, stream_of(s)>>>(
                src + p->src, dst + p->dst, t);
    else
        move_kernel<S, D><<<blocks_for(s, p->count, TILE_THREADS), TILE_THREADS, 0, stream_of(s)>>>(src, dst, *p);
    return cuda_started(s);
}

/* Padding that src does not have is cleared first: no kernel of this backend asks for any. */
template <class S, class D> static brasa_status reorder_start(const step *s)
{
    layout_part p;
    int64_t moved = 0;
    if (is_cast(s)) {
        many one = {};
        cast_add(&one, s);
        return cast_start<S, D>(s, &one);
    }
    for (int i = 0; part_at(s, i, &p); i++)
        moved += p.count;
    if (moved < s->out[0].count)
        cudaMemsetAsync(s->out[0].data, 0, (size_t)s->out[0].count * sizeof(D), stream_of(s));
    brasa_status status = cuda_started(s);
    for (int i = 0; part_at(s, i, &p) && status == BRASA_OK; i++)
        if (p.count)
            status = part_start<S, D>(s, &p);
    return status;
}

/* Split floats, as floats. */
static __global__ void __launch_bounds__(TILE_THREADS)
    join_kernel(const uint16_t *upper, int64_t plane, float *dst, const __grid_constant__ layout_part p)
{
    GRID_FOR(i, p.count)
    {
        const place at = place_of(p, i);
        dst[at.to] = __uint_as_float(split_join(upper[at.from], upper[plane + at.from]));
    }
}

static brasa_status join_start(const step *s)
{
    layout_part p;
    brasa_status status = BRASA_OK;
    for (int i = 0; part_at(s, i, &p) && status == BRASA_OK; i++) {
        if (!p.count)
            continue;
        join_kernel<<<blocks_for(s, p.count, TILE_THREADS), TILE_THREADS, 0, stream_of(s)>>>(
            (const uint16_t *)s->in[0].data, split_plane(s->in[0].count), (float *)s->out[0].data, p);
        status = cuda_started(s);
    }
    return status;
}

template <class S> static brasa_status reorder_from(const step *s)
{
    return s->out[0].format.storage == BF16 ? reorder_start<S, bf16>(s) : reorder_start<S, float>(s);
}

static brasa_status reorder_run(const step *s)
{
    if (s->in[0].format.storage == SPLIT_F32)
        return join_start(s);
    return BY_TYPE(s->in[0].format.storage, reorder_from, s);
}

/* Weights on their way into 16 bits go together; all else one by one. */
static brasa_status reorder_run_many(const step *const *steps, int count)
{
    brasa_status status = BRASA_OK;
    many m = {};
    for (int i = 0; i < count && status == BRASA_OK; i++) {
        const step *s = steps[i];
        const bool joins = s->in[0].format.storage == F32 && s->out[0].format.storage == BF16 && is_cast(s);
        if (joins)
            cast_add(&m, s);
        else
            status = reorder_run(s);
        if (m.count && status == BRASA_OK && (many_full(&m) || i == count - 1)) {
            status = cast_start<float, bf16>(s, &m);
            m.count = 0;
        }
    }
    return status;
}

CUDA_KERNELS(reorder) = {
    {"reorder", {.name = "reorder_cuda", .real = F32, .run = reorder_run, .run_many = reorder_run_many}},
    CUDA_END,
};
