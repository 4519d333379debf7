/* conv2d_update_simd.c - the gradient of a convolution's weights and the update by it, with vectors.
 *
 * An item is a group of output blocks and a run of input blocks, whose weights lie one after the other. Their
 * gradient is summed up by direct.h into a buffer in the first cache, while memory brings the weights and slots;
 * then the optimizer's kernel updates the run of each output block.
 */
#include "ops/conv2d/direct.h"
#include "ops/fused_update.h"

/* Weights that the optimizer's kernel is called for at a time: at least so many where there are. */
enum { SPAN = 1024, MOST = CONV2D_UPDATE_TAPS * BLOCK * BLOCK > SPAN ? CONV2D_UPDATE_TAPS *BLOCK *BLOCK : SPAN };

static const conv2d_attr *layer_of(const step *s)
{
    return ((const fused_update_attr *)s->attr)->layer;
}

static job job_of(const step *s)
{
    job j = direct_job(s, layer_of(s));
    j.tensors = 1 + fused_slots(s->node);
    for (int t = 0; t < j.tensors; t++)
        j.tensor[t] = s->out[t].data;
    return j;
}

/* Input blocks of a run. */
static int64_t run_of(const job *j)
{
    const int64_t block = direct_block(j);
    return block < SPAN ? SPAN / block : 1;
}

/* item: a run of input blocks and a group of output blocks */
static void update_range(const step *s, int64_t begin, int64_t end)
{
    _Alignas(64) float dwei[VECTORS * MOST];
    const job j = job_of(s);
    const int64_t block = direct_block(&j), most = run_of(&j), runs = (j.C + most - 1) / most;
    fused_part part;
    fused_part_init(&part, s);
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = direct_first(&j, i / runs), first = i % runs * most;
        const int64_t run = j.C - first < most ? j.C - first : most;
        const int vectors = (int)(direct_first(&j, i / runs + 1) - k);
        for (int64_t c = 0; c < run; c++)
            direct_sums(vectors, &j, first + c, k, (vec *)(dwei + c * block), run * block / BLOCK);
        for (int v = 0; v < vectors; v++)
            fused_part_run(&part, ((k + v) * j.C + first) * block, run * block, dwei + v * run * block);
    }
}

/* item: an output block */
static void bias_range(const step *s, int64_t begin, int64_t end)
{
    direct_bias(&s->in[1], s->out[1 + fused_slots(s->node)].data, begin, end);
}

static brasa_status conv2d_update(const step *s)
{
    const job j = job_of(s);
    const int64_t most = run_of(&j);
    step_for(s, direct_groups(&j) * ((j.C + most - 1) / most), direct_work(&j), update_range);
    if (s->nout > 1 + fused_slots(s->node))
        step_for(s, j.K, (double)s->in[1].count, bias_range);
    return BRASA_OK;
}

static bool supports(const graph *g, const node *n)
{
    const value *wei = &g->values[n->in[FUSED_WEI]];
    const layout blocks = cpu_weight_layout(g->ctx);
    return simd_matches(g, n) && (!wei->settled || layout_equal(&wei->format.layout, &blocks));
}

static void formats(const graph *g, const node *n, format *in, format *out)
{
    in[0].layout = cpu_activation_layout(g->ctx, &g->values[n->in[0]].shape);
    in[1].layout = cpu_activation_layout(g->ctx, &g->values[n->in[1]].shape);
    fused_update_formats(g, n, in, out);
}

const kernel SIMD_TABLE(conv2d_update)[] = {
    SIMD_ROW("conv2d_update", conv2d_update_op, .supports = supports, .formats = formats, .parts_in = 3,
             .open = fused_update_open_fast, .run = conv2d_update),
    {0},
};
