/* dense_small_simd.c - dense layers whose weights stay in the cache: forward, both gradients, and the update.
 *
 * N samples, C inputs, K outputs. A library takes microseconds to begin with a product that takes one, and fills up C
 * and K to the sizes that suit large ones. Here the weights lie in blocks of BLOCK outputs, K / BLOCK x C x BLOCK,
 * and everything else is plain: src and ddst are read where they are, the end of a row under a mask.
 *
 * Whether a layer is small depends on its weights alone, not on the batch: all programs of a session agree on the
 * layout. Each sum is made by one thread, in one order.
 *
 * In a step of letter_mlp with 128 samples, one thread with AVX-512 (Zen 4): forward 8.9 us where oneDNN takes 10.0,
 * the gradient of the data 6.6 us and 6.7, gradient of the weights and update 9.7 us and 20.5 in dense_update_simd.c,
 * which packs what it reads. With more weights than SMALL that pays, and the library's products are as fast.
 */
#include "device/cpu/simd.h"
#include "ops/dense/dense.h"

#include <math.h>
#include <string.h>

#ifdef SIMD_AVX512
enum { LINES = 8 }; /* rows of a tile: with PAIR vectors each, half of the registers hold sums */
#else
enum { LINES = 4 };
#endif
enum { PAIR = 2 };
enum { SMALL = 4096 };     /* weights, padding included */
enum { CHUNK = 64 };       /* inputs whose gradient is handed to the optimizer at once */
enum { BIAS_VECTORS = 4 }; /* of the bias' gradient, summed side by side */

static layout block_layout(void)
{
    return layout_in_blocks(0, BLOCK);
}

/* --- rows of samples times weights ----------------------------------------------------------------------------- */

/* dst = src x wei [+ bia]: src rows of `length`, dst rows of `width`, wei width / BLOCK x length x BLOCK. */
typedef struct product {
    const float *src, *wei, *bia;
    float *dst;
    int64_t length, width;
    activation act;
} product;

/* Between what numbers an activation leaves everything as it is; NaN passes. */
static inline vec between(float low, float high, vec x)
{
    x = vec_choose((veci)(x <= low), vec_all(low), x);
    return vec_choose((veci)(x >= high), vec_all(high), x);
}

/* `rows` samples from n on, `vectors` blocks from output k on, of which only the last may be cut off. */
static inline __attribute__((always_inline)) void product_tile(const product *p, int64_t n, int64_t k, const int rows,
                                                               const int vectors)
{
    const int64_t length = p->length, width = p->width;
    const float *src = p->src + n * length, *wei = p->wei + k * length;
    float *dst = p->dst + n * width + k;
    const lane_mask last = first_lanes(width - k - (vectors - 1) * BLOCK);
    const float low = p->act == ACT_NONE ? -INFINITY : 0, high = p->act == ACT_RELU6 ? 6 : INFINITY;
    vec sum[LINES][PAIR] = {{{0}}};
    for (int64_t c = 0; c < length; c++)
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++)
                sum[r][v] += vec_all(src[r * length + c]) * *(const vec *)(wei + (v * length + c) * BLOCK);
    for (int v = 0; v < vectors; v++) {
        const lane_mask which = v + 1 < vectors ? first_lanes(BLOCK) : last;
        const vec bia = p->bia ? load_lanes(p->bia + k + v * BLOCK, which, (vec){0}) : (vec){0};
        for (int r = 0; r < rows; r++)
            store_lanes(dst + r * width + v * BLOCK, between(low, high, sum[r][v] + bia), which);
    }
}

static inline __attribute__((always_inline)) void product_rows(const product *p, int64_t n, const int rows)
{
    int64_t k = 0;
    for (; k + BLOCK < p->width; k += PAIR * BLOCK)
        product_tile(p, n, k, rows, PAIR);
    if (k < p->width)
        product_tile(p, n, k, rows, 1);
}

/* Samples begin .. end - 1. The last tile may reach back over rows that are there already. */
static void product_range(const product *p, int64_t begin, int64_t end)
{
    int64_t n = begin;
    for (; end - begin >= LINES && n < end; n += LINES)
        product_rows(p, n + LINES <= end ? n : end - LINES, LINES);
    for (; n < end; n++)
        product_rows(p, n, 1);
}

/* item: a sample */
static void forward_range(const step *s, int64_t begin, int64_t end)
{
    product_range(&(product){.src = s->in[0].data,
                             .wei = s->in[1].data,
                             .bia = s->nin > 2 ? s->in[2].data : NULL,
                             .dst = s->out[0].data,
                             .length = s->in[1].shape.dim[1],
                             .width = s->in[1].shape.dim[0],
                             .act = s->node->act},
                  begin, end);
}

SPLIT_STEP(dense, forward_range, s->in[0].shape.dim[0], (double)s->in[0].shape.dim[0] * (double)s->in[1].count)

/* item: a sample; workspace: the weights in blocks of inputs, C / BLOCK x K x BLOCK */
static void grad_data_range(const step *s, int64_t begin, int64_t end)
{
    product_range(&(product){.src = s->in[1].data,
                             .wei = s->workspace,
                             .dst = s->out[0].data,
                             .length = s->in[0].shape.dim[0],
                             .width = s->in[0].shape.dim[1]},
                  begin, end);
}

/* The inputs of block b, in the workspace. */
static void turn_block(const step *s, int64_t b)
{
    const int64_t K = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    const int64_t here = C - b * BLOCK < BLOCK ? C - b * BLOCK : BLOCK;
    float *to = (float *)s->workspace + b * K * BLOCK;
    if (here < BLOCK)
        memset(to, 0, (size_t)(K * BLOCK) * sizeof *to);
    for (int64_t k = 0; k < K; k += BLOCK) {
        const float *from = (const float *)s->in[0].data + (k * C) + b * BLOCK * BLOCK;
        const int64_t outputs = K - k < BLOCK ? K - k : BLOCK;
        for (int64_t c = 0; c < here; c++)
            for (int64_t j = 0; j < outputs; j++)
                to[(k + j) * BLOCK + c] = from[c * BLOCK + j];
    }
}

static brasa_status dense_grad_data(const step *s)
{
    const int64_t C = s->in[0].shape.dim[1], N = s->in[1].shape.dim[0];
    for (int64_t b = 0; b < blocks_of(C); b++)
        turn_block(s, b);
    step_for(s, N, (double)N * (double)s->in[0].count, grad_data_range);
    return BRASA_OK;
}

/* --- the gradient of the weights ------------------------------------------------------------------------------- */

/* Of `rows` inputs from c on and `vectors` blocks of outputs from k on, into dwei, CHUNK x BLOCK for each block. */
static inline __attribute__((always_inline)) void gradient_tile(const step *s, int64_t c, int64_t k, const int rows,
                                                                const int vectors, float *dwei)
{
    const int64_t N = s->in[1].shape.dim[0], C = s->in[0].shape.dim[1], K = s->in[1].shape.dim[1];
    const float *src = (const float *)s->in[0].data + c, *ddst = (const float *)s->in[1].data + k;
    const lane_mask last = first_lanes(K - k - (vectors - 1) * BLOCK);
    vec sum[LINES][PAIR] = {{{0}}};
    for (int64_t n = 0; n < N; n++)
        for (int v = 0; v < vectors; v++) {
            const vec d = load_lanes(ddst + n * K + v * BLOCK, v + 1 < vectors ? first_lanes(BLOCK) : last, (vec){0});
            for (int r = 0; r < rows; r++)
                sum[r][v] += vec_all(src[n * C + r]) * d;
        }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++)
            *(vec *)(dwei + (v * CHUNK + r) * BLOCK) = sum[r][v];
}

static inline __attribute__((always_inline)) void gradient_rows(const step *s, int64_t c, int64_t k, const int rows,
                                                                float *dwei)
{
    if (k + BLOCK < s->in[1].shape.dim[1])
        gradient_tile(s, c, k, rows, PAIR, dwei);
    else
        gradient_tile(s, c, k, rows, 1, dwei);
}

/* A chunk: `count` inputs from c on. */
static void gradient_chunk(const step *s, int64_t c, int64_t count, int64_t k, float *dwei)
{
    int64_t i = 0;
    for (; count >= LINES && i < count; i += LINES) {
        const int64_t at = i + LINES <= count ? i : count - LINES;
        gradient_rows(s, c + at, k, LINES, dwei + at * BLOCK);
    }
    for (; i < count; i++)
        gradient_rows(s, c + i, k, 1, dwei + i * BLOCK);
}

/* The sums of ddst over the samples. */
static void gradient_bias(const step *s, float *dbia)
{
    const int64_t N = s->in[1].shape.dim[0], K = s->in[1].shape.dim[1];
    for (int64_t k = 0; k < K; k += BIAS_VECTORS * BLOCK) {
        const float *ddst = (const float *)s->in[1].data + k;
        vec sum[BIAS_VECTORS] = {{0}};
        lane_mask which[BIAS_VECTORS];
        for (int v = 0; v < BIAS_VECTORS; v++)
            which[v] = first_lanes(K - k > v * BLOCK ? K - k - v * BLOCK : 0);
        for (int64_t n = 0; n < N; n++)
            for (int v = 0; v < BIAS_VECTORS; v++)
                sum[v] += load_lanes(ddst + n * K + v * BLOCK, which[v], (vec){0});
        for (int v = 0; v < BIAS_VECTORS; v++)
            store_lanes(dbia + k + v * BLOCK, sum[v], which[v]);
    }
}

static int64_t chunks_of(int64_t C)
{
    return (C + CHUNK - 1) / CHUNK;
}

/* Takes the gradient of `count` weights, from the stored element `first` on. */
typedef void (*taker)(void *user, int64_t first, int64_t count, float *dwei);

/* item: a chunk of inputs and PAIR blocks of outputs */
static void gradient_items(const step *s, int64_t begin, int64_t end, taker take, void *user)
{
    _Alignas(64) float dwei[PAIR * CHUNK * BLOCK];
    const int64_t C = s->in[0].shape.dim[1], K = s->in[1].shape.dim[1];
    for (int64_t item = begin; item < end; item++) {
        const int64_t c = item % chunks_of(C) * CHUNK, k = item / chunks_of(C) * PAIR * BLOCK;
        const int64_t count = C - c < CHUNK ? C - c : CHUNK;
        gradient_chunk(s, c, count, k, dwei);
        for (int v = 0; v < PAIR && k + v * BLOCK < K; v++)
            take(user, (k / BLOCK + v) * C * BLOCK + c * BLOCK, count * BLOCK, dwei + v * CHUNK * BLOCK);
    }
}

static void gradient_for(const step *s, void (*range)(const step *s, int64_t begin, int64_t end))
{
    const int64_t N = s->in[1].shape.dim[0], C = s->in[0].shape.dim[1], K = s->in[1].shape.dim[1];
    step_for(s, chunks_of(C) * ((blocks_of(K) + PAIR - 1) / PAIR), (double)(N * C) * (double)K, range);
}

static void store_part(void *user, int64_t first, int64_t count, float *dwei)
{
    memcpy((float *)user + first, dwei, (size_t)count * sizeof *dwei);
}

static void grad_weights_range(const step *s, int64_t begin, int64_t end)
{
    gradient_items(s, begin, end, store_part, s->out[0].data);
}

static brasa_status dense_grad_weights(const step *s)
{
    gradient_for(s, grad_weights_range);
    if (s->nout > 1)
        gradient_bias(s, s->out[1].data);
    return BRASA_OK;
}

static void update_part(void *user, int64_t first, int64_t count, float *dwei)
{
    fused_part_run(user, first, count, dwei);
}

static void update_range(const step *s, int64_t begin, int64_t end)
{
    fused_part part;
    fused_part_init(&part, s);
    gradient_items(s, begin, end, update_part, &part);
}

static brasa_status dense_update(const step *s)
{
    gradient_for(s, update_range);
    if (s->nout > 1 + s->nin - FUSED_SLOTS)
        gradient_bias(s, s->out[s->nout - 1].data);
    return BRASA_OK;
}

/* --- the kernels ----------------------------------------------------------------------------------------------- */

/* The weights, or what is like them, among the values of a node. */
static const value *weights_of(const graph *g, const node *n)
{
    return &g->values[n->op == &dense_op                ? n->in[1]
                      : n->op == &dense_grad_data_op    ? n->in[0]
                      : n->op == &dense_grad_weights_op ? n->out[0]
                                                        : n->in[FUSED_WEI]];
}

static bool supports(const graph *g, const node *n)
{
    const value *wei = weights_of(g, n);
    const layout own = block_layout();
    if (n->op == &dense_update_op && ((const fused_update_attr *)n->attr)->data)
        return false;
    if (!simd_matches(g, n) || wei->shape.rank != 2 || layout_count(&own, &wei->shape) > SMALL)
        return false;
    /* The update cannot choose; and others read the weights as they are, too, where they are in another layout. */
    return wei->kind == VALUE_TEMP || !wei->settled || layout_equal(&wei->format.layout, &own);
}

static void formats(const graph *g, const node *n, format *in, format *out)
{
    (void)g;
    if (n->op == &dense_grad_weights_op)
        out[0].layout = block_layout();
    else if (n->op == &dense_update_op)
        for (int k = 0; k < 1 + n->nin - FUSED_SLOTS; k++)
            in[k ? FUSED_SLOTS + k - 1 : FUSED_WEI].layout = out[k].layout = block_layout();
    else
        in[n->op == &dense_op ? 1 : 0].layout = block_layout();
}

static int64_t workspace(const graph *g, const node *n)
{
    const shape *wei = &weights_of(g, n)->shape;
    return blocks_of(wei->dim[1]) * BLOCK * wei->dim[0] * (int64_t)sizeof(float);
}

#define SMALL_KERNEL(operation, function, ...)                                                                       \
    SIMD_ROW(#function "_small", operation, .supports = supports, .formats = formats, .run = function, __VA_ARGS__)
const kernel SIMD_TABLE(dense_small)[] = {
    SMALL_KERNEL(dense_op, dense, .open = NULL),
    SMALL_KERNEL(dense_grad_data_op, dense_grad_data, .workspace = workspace),
    SMALL_KERNEL(dense_grad_weights_op, dense_grad_weights, .open = NULL),
    SMALL_KERNEL(dense_update_op, dense_update, .open = fused_update_open_fast),
    {0},
};
