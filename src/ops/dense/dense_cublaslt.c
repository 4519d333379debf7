/* dense_cublaslt.c - the fully connected layer by cuBLASLt.
 *
 * The library sees our rows as columns: src is C x N to it, wei C x K, dst K x N. With BRASA_BF16 it is given the
 * weights and the bias in 16 bits; those of the bias a reorder of select's makes.
 *
 * Bias and relu are done by the product itself where the library can; what it cannot, and relu6, is a second kernel
 * of ours. So is the gradient of the bias in 16 bits, where the library would store it in 16 bits too.
 */
#include "device/cuda/cublaslt.h"
#include "ops/dense/dense_cuda.h"

typedef struct dense_state {
    cublaslt_plan *plan;
    bool bias;      /* bias or its gradient is left to a kernel of ours */
    activation act; /* is left to it */
} dense_state;

/* A product is slower than the one that makes the gradient of the bias with it by as much as it takes to start a
 * kernel, and still as good. */
enum { START_NANOSECONDS = 2500 };

/* --- opening --------------------------------------------------------------------------------------------------- */

static bool supports(const graph *g, const node *n)
{
    (void)n;
    return queue_of_graph(g)->cublaslt != NULL;
}

static bool in_16_bits(const graph *g)
{
    return g->precision == BRASA_BF16;
}

static cublaslt_product product_of(const graph *g, int64_t m, int64_t n, int64_t k)
{
    return (cublaslt_product){.m = m, .n = n, .k = k, .bf16 = in_16_bits(g), .tf32 = g->precision == BRASA_TF32};
}

static dense_state *state_new(graph *g, node *n)
{
    return n->state = mem_get(g->ctx, sizeof(dense_state));
}

static void state_close(brasa_context *ctx, void *state)
{
    cublaslt_plan_free(((dense_state *)state)->plan);
    mem_put(ctx, state);
}

/* A node that is refused keeps nothing. */
static brasa_status opened(graph *g, node *n, brasa_status status)
{
    if (status != BRASA_OK) {
        state_close(g->ctx, n->state);
        n->state = NULL;
    }
    return status;
}

/* dst = wei^T x src, to the library: as much of what follows with it as it can. */
static brasa_status open_forward(graph *g, node *n)
{
    const dense_sizes d = dense_sizes_of(&g->values[n->in[0]].shape, &g->values[n->out[0]].shape);
    const bool bias = n->nin > 2;
    cublaslt_product p = product_of(g, d.K, d.N, d.C);
    dense_state *s = state_new(g, n);
    brasa_status status = BRASA_NO_KERNEL;
    if (!s)
        return fail_memory(g->ctx, sizeof *s);
    p.turn_a = true;
    if (n->act == ACT_RELU) {
        p.extra = bias ? LT_BIAS_RELU : LT_RELU;
        status = cublaslt_plan_new(queue_of_graph(g), g->tuner, &p, &s->plan);
    }
    if (status == BRASA_NO_KERNEL) {
        s->act = n->act;
        p.extra = bias ? LT_BIAS : LT_NOTHING;
        status = cublaslt_plan_new(queue_of_graph(g), g->tuner, &p, &s->plan);
    }
    if (status == BRASA_NO_KERNEL && bias) {
        s->bias = true;
        p.extra = LT_NOTHING;
        status = cublaslt_plan_new(queue_of_graph(g), g->tuner, &p, &s->plan);
    }
    return opened(g, n, status);
}

/* dsrc = wei x ddst */
static brasa_status open_data(graph *g, node *n)
{
    const dense_sizes d = dense_sizes_of(&g->values[n->out[0]].shape, &g->values[n->in[1]].shape);
    const cublaslt_product p = product_of(g, d.C, d.N, d.K);
    dense_state *s = state_new(g, n);
    if (!s)
        return fail_memory(g->ctx, sizeof *s);
    return opened(g, n, cublaslt_plan_new(queue_of_graph(g), g->tuner, &p, &s->plan));
}

/* Takes the product that makes the gradient of the bias, too, in the place of s->plan, where that is quicker. */
static brasa_status try_with_bias(const graph *g, const cublaslt_product *p, dense_state *s)
{
    cublaslt_product both = *p;
    cublaslt_plan *plan;
    both.extra = LT_BIAS_GRADIENT;
    const brasa_status status = cublaslt_plan_new(queue_of_graph(g), g->tuner, &both, &plan);
    if (status != BRASA_OK)
        return status == BRASA_NO_KERNEL ? BRASA_OK : status;
    const bool better = cublaslt_nanoseconds(plan) <= cublaslt_nanoseconds(s->plan) + START_NANOSECONDS;
    cublaslt_plan_free(better ? s->plan : plan);
    if (better)
        s->plan = plan;
    s->bias = !better;
    return BRASA_OK;
}

/* dwei = src x ddst^T */
static brasa_status open_weights(graph *g, node *n)
{
    const dense_sizes d = dense_sizes_of(&g->values[n->in[0]].shape, &g->values[n->in[1]].shape);
    cublaslt_product p = product_of(g, d.C, d.K, d.N);
    dense_state *s = state_new(g, n);
    if (!s)
        return fail_memory(g->ctx, sizeof *s);
    p.turn_b = true;
    s->bias = n->nout > 1;
    brasa_status status = cublaslt_plan_new(queue_of_graph(g), g->tuner, &p, &s->plan);
    if (status == BRASA_OK && s->bias && !p.bf16)
        status = try_with_bias(g, &p, s);
    return opened(g, n, status);
}

static int64_t workspace(const graph *g, const node *n)
{
    (void)g;
    return cublaslt_workspace(((const dense_state *)n->state)->plan);
}

/* --- layouts --------------------------------------------------------------------------------------------------- */

static void formats_forward(const graph *g, const node *n, format *in, format *out)
{
    dense_cuda_formats(g, n, in, out);
    if (n->nin > 2)
        in[2].storage = in_16_bits(g) && !((const dense_state *)n->state)->bias ? BF16 : F32;
}

/* --- running --------------------------------------------------------------------------------------------------- */

/* in: src, wei [, bia]; out: dst */
static brasa_status run_forward(const step *s)
{
    const dense_state *state = s->state;
    const arg *dst = &s->out[0];
    const void *bia = s->nin > 2 ? s->in[2].data : NULL;
    const brasa_status status = cublaslt_run(state->plan, s->in[1].data, s->in[0].data, dst->data, bia, s->workspace);
    if (status != BRASA_OK)
        return status;
    if (state->bias || state->act != ACT_NONE)
        dense_cuda_finish(stream_of(s), dst->data, dst->format.storage, dst->shape.dim[0], dst->shape.dim[1],
                          state->bias ? bia : NULL, state->act);
    return cuda_started(s);
}

/* in: wei, ddst; out: dsrc */
static brasa_status run_data(const step *s)
{
    const dense_state *state = s->state;
    const brasa_status status =
        cublaslt_run(state->plan, s->in[0].data, s->in[1].data, s->out[0].data, NULL, s->workspace);
    return status == BRASA_OK ? cuda_started(s) : status;
}

/* in: src, ddst; out: dwei [, dbia] */
static brasa_status run_weights(const step *s)
{
    const dense_state *state = s->state;
    const arg *ddst = &s->in[1];
    void *dbia = s->nout > 1 ? s->out[1].data : NULL;
    const brasa_status status =
        cublaslt_run(state->plan, s->in[0].data, ddst->data, s->out[0].data, dbia, s->workspace);
    if (status != BRASA_OK)
        return status;
    if (state->bias)
        dense_cuda_bias_gradient(stream_of(s), ddst->data, ddst->format.storage, ddst->shape.dim[0],
                                 ddst->shape.dim[1], dbia);
    return cuda_started(s);
}

static bool tell_choice(const void *state, device_choice *out)
{
    return cublaslt_tell_choice(((const dense_state *)state)->plan, out);
}

/* --- the kernels ----------------------------------------------------------------------------------------------- */

#define LT_ROW(operation, open_hook, formats_hook, run_hook)                                                         \
    {                                                                                                                \
        operation,                                                                                                   \
        {                                                                                                            \
            .name = operation "_cublaslt", .real = F32, .vendor = true, .supports = supports,                        \
            .formats = formats_hook, .open = open_hook, .close = state_close, .workspace = workspace,                \
            .run = run_hook, .choice = tell_choice                                                                   \
        }                                                                                                            \
    }
extern const backend_kernel dense_cublaslt_cuda[];
const backend_kernel dense_cublaslt_cuda[] = {
    LT_ROW("dense", open_forward, formats_forward, run_forward),
    LT_ROW("dense_grad_data", open_data, dense_cuda_formats_gradient, run_data),
    LT_ROW("dense_grad_weights", open_weights, dense_cuda_formats_gradient, run_weights),
    CUDA_END,
};
