/* optimizer.cuh - what the optimizers' kernels for NVIDIA GPUs share: all of one, but for its equations.
 *
 * An optimizer's file defines these, and then includes this file:
 *     RULE_ATTR    the attribute struct; its first member is `base`
 *     RULE_SLOTS   the most slots that it has: 1 or 2
 *     RULE_ROUNDS  1: its slots are BF16, where the parameter is SPLIT_F32; what is computed from them is
 *                  computed before they are rounded
 *     rule         the numbers of a step, in floats
 *     rule_make    makes them of the attribute and of the rate and the count of this step: once in a block
 *     rule_apply   updates one element of the parameter, p, and of its slots
 *
 * It ends with its list, of UPDATE_ROW("sgd") and the like. All parameters of a network are updated in one launch,
 * where their nodes stand together: see many.cuh.
 */
#include "device/cuda/many.cuh"
#include "ops/update_now.cuh"

/* many.half */
enum { HALF_PARAMETER = 1, HALF_GRADIENT = 2, HALF_SLOTS = 4 };
enum { UPDATE_QUADS = 2, UPDATE_PIECE = UPDATE_QUADS * 4 * MANY_THREADS };

/* The elements of each parameter that are updated: all, or those of a part of the only one (see step.first). */
typedef struct update_range {
    int64_t first, end; /* first is a multiple of 4 */
} update_range;

/* One piece of a parameter. All of it is read before anything is computed: so many reads are on their way at once. */
static __device__ __forceinline__ void update_piece(const many &m, int k, int64_t begin, const update_range &range,
                                                    int slots, const rule &r)
{
    const int64_t size = m.size[k] < range.end ? m.size[k] : range.end, first = range.first;
    const int64_t plane = m.half[k] & HALF_PARAMETER ? split_plane(m.size[k]) : 0;
    const bool half = m.half[k] & HALF_GRADIENT;
    const bool rounds = RULE_ROUNDS && m.half[k] & HALF_SLOTS;
    quad<float> from[UPDATE_QUADS][2 + RULE_SLOTS];
#pragma unroll
    for (int j = 0; j < UPDATE_QUADS; j++) {
        const int64_t i = many_quad(begin, j);
        from[j][0] = quad_load_exact(m.data[k][0], plane, i, size);
        from[j][1] = quad_load_any(m.data[k][1], half, i - first, size - first);
#pragma unroll
        for (int t = 0; t < RULE_SLOTS; t++)
            from[j][2 + t] = quad_load_any(m.data[k][2 + t], rounds, i, t < slots ? size : 0);
    }
#pragma unroll
    for (int j = 0; j < UPDATE_QUADS; j++) {
        const int64_t i = many_quad(begin, j);
        float x[2 + RULE_SLOTS][4];
        quad_floats_exact(from[j][0], plane, x[0]);
        quad_floats_any(from[j][1], half, x[1]);
#pragma unroll
        for (int t = 0; t < RULE_SLOTS; t++)
            quad_floats_any(from[j][2 + t], rounds, x[2 + t]);
#pragma unroll
        for (int e = 0; e < 4; e++)
            rule_apply(r, x[1][e], &x[0][e], &x[2][e], &x[1 + RULE_SLOTS][e]);
        quad_store_exact(m.data[k][0], plane, i, size, x[0]);
#pragma unroll
        for (int t = 0; t < RULE_SLOTS; t++)
            quad_store_any(m.data[k][2 + t], rounds, i, t < slots ? size : 0, x[2 + t]);
    }
}

static __global__ void __launch_bounds__(MANY_THREADS)
    update_kernel(const __grid_constant__ many m, const __grid_constant__ RULE_ATTR attr, const update_source from,
                  const update_range range, int slots)
{
    __shared__ rule made;
    if (threadIdx.x == 0)
        made = rule_make(attr, update_now(attr.base, from));
    __syncthreads();
    const rule r = made;
    for (uint32_t piece = blockIdx.x; piece < m.first[m.count]; piece += gridDim.x) {
        const int k = many_find(m, piece);
        update_piece(m, k, range.first + (int64_t)(piece - m.first[k]) * UPDATE_PIECE, range, slots, r);
    }
}

static update_source update_source_of(const step *s)
{
    const int slots = s->nout - 1;
    update_source from = {};
    from.rate = (const float *)s->in[2].data;
    from.steps = (const int64_t *)s->in[3].data;
    from.scale = s->nin > UPDATE_SLOTS + slots ? (const float *)s->in[s->nin - 1].data : NULL;
    return from;
}

static bool update_is_whole(const step *s)
{
    return s->in[1].count == s->out[0].count;
}

static update_range update_range_of(const step *s)
{
    const update_range whole = {0, INT64_MAX}, part = {s->first, s->first + s->in[1].count};
    return update_is_whole(s) ? whole : part;
}

/* Whether one launch can do both: always so in a program, where there is one optimizer, but for parts. */
static bool update_alike(const step *a, const step *b)
{
    const update_source x = update_source_of(a), y = update_source_of(b);
    return x.rate == y.rate && x.scale == y.scale && x.steps == y.steps && a->nout == b->nout && update_is_whole(a) &&
           update_is_whole(b) && memcmp(a->attr, b->attr, sizeof(RULE_ATTR)) == 0;
}

static void update_add(many *m, const step *s)
{
    const int k = many_add(m, s->in[1].count, UPDATE_PIECE);
    m->size[k] = s->out[0].count;
    m->data[k][0] = s->out[0].data;
    m->data[k][1] = s->in[1].data;
    for (int t = 1; t < s->nout; t++)
        m->data[k][1 + t] = s->out[t].data;
    m->half[k] = (uint8_t)((s->out[0].format.storage == SPLIT_F32 ? HALF_PARAMETER : 0) |
                           (s->in[1].format.storage == BF16 ? HALF_GRADIENT : 0) |
                           (s->nout > 1 && s->out[1].format.storage == BF16 ? HALF_SLOTS : 0));
}

static brasa_status update_run_many(const step *const *steps, int count)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; i < count && status == BRASA_OK;) {
        const step *s = steps[i];
        many m = {};
        do
            update_add(&m, steps[i++]);
        while (i < count && !many_full(&m) && update_alike(s, steps[i]));
        update_kernel<<<many_blocks(s, &m), MANY_THREADS, 0, stream_of(s)>>>(
            m, *(const RULE_ATTR *)s->attr, update_source_of(s), update_range_of(s), s->nout - 1);
        status = cuda_started(s);
    }
    return status;
}

static brasa_status update_run(const step *s)
{
    return update_run_many(&s, 1);
}

/* All as the parameter lies, which may be SPLIT_F32, and slots rounded then; the gradient in the type that it is
 * stored in. */
static void update_formats(const graph *g, const node *n, format *in, format *out)
{
    const value *p = &g->values[n->in[0]];
    cuda_formats_elementwise(g, n, in, out);
    const dtype slots = RULE_ROUNDS ? precision_slot(p->format.storage) : F32;
    in[0].storage = out[0].storage = p->format.storage;
    in[1].storage = g->values[n->in[1]].format.storage;
    for (int t = 1; t < n->nout; t++)
        in[UPDATE_SLOTS + t - 1].storage = out[t].storage = slots;
}

#define UPDATE_ROW(operation)                                                                                        \
    {                                                                                                                \
        operation,                                                                                                   \
        {                                                                                                            \
            .name = operation "_cuda", .real = F32, .formats = update_formats, .run = update_run,                    \
            .run_many = update_run_many                                                                              \
        }                                                                                                            \
    }
