/* dense_update_cublaslt.c - the gradient of a dense layer's weights and their update on NVIDIA GPUs, some rows of the
 * weights at a time: see fused_update.h.
 *
 * The gradient of a piece is made in the workspace, by cuBLASLt or a kernel of ours, and is still in the GPU's cache
 * when the optimizer's own kernel reads it: no more of it is stored. Few samples have a kernel of their own, in
 * dense_update_small_cuda.cu, and small layers gain nothing.
 */
#include "device/cuda/cublaslt.h"
#include "ops/dense/dense.h"
#include "ops/dense/dense_cuda.h"

#include <string.h>

/* LEAST_BYTES: of a gradient that is not stored; MOST_BYTES: of a piece, where that is a row or more. */
enum { LEAST_BYTES = 16 << 20, MOST_BYTES = 32 << 20, ROWS_ALIGN = 32 /* 64 bytes of ddst */, SCRATCH_ALIGN = 256 };

typedef struct pieces {
    const kernel *optimizer;
    cublaslt_plan *plan[2]; /* of a piece, and of the last one, if that is smaller; NULL: our own kernel does it */
} pieces;

/* --- what all kernels of dense_update share --------------------------------------------------------------------- */

static const fused_update_attr *attr_of(const node *n)
{
    return n->attr;
}

const kernel *dense_update_cuda_optimizer(const graph *g, const node *n)
{
    const kernel *k = g->ctx->device->kernels[0];
    while (k->name && k->op != attr_of(n)->update.op)
        k++;
    return k->name ? k : NULL;
}

/* Weights and slots lie as the optimizer's kernel wants them. */
void dense_update_cuda_formats(const graph *g, const node *n, format *in, format *out)
{
    const int slots = fused_slots(n);
    format of_update[UPDATE_SLOTS + MAX_SLOTS], to_update[1 + MAX_SLOTS];
    formats_plain(g, &attr_of(n)->update, of_update, to_update);
    dense_update_cuda_optimizer(g, n)->formats(g, &attr_of(n)->update, of_update, to_update);
    in[0] = cuda_format_product(g, n->in[0]);
    in[1] = cuda_format_product(g, n->in[1]);
    in[FUSED_WEI] = of_update[0];
    for (int k = 0; k < slots; k++)
        in[FUSED_SLOTS + k] = of_update[UPDATE_SLOTS + k];
    for (int k = 0; k < 1 + slots; k++)
        out[k] = to_update[k];
    if (attr_of(n)->data)
        out[n->nout - 1] = cuda_format_product(g, n->out[n->nout - 1]);
}

/* --- pieces ------------------------------------------------------------------------------------------------------
 */

static dense_sizes sizes_of(const graph *g, const node *n)
{
    return dense_sizes_of(&g->values[n->in[0]].shape, &g->values[n->in[1]].shape);
}

static int64_t size_of(const graph *g)
{
    return g->precision == BRASA_BF16 ? 2 : 4;
}

/* Rows of a piece: a power of two, so that mostly all pieces are as large. */
static int64_t rows_of(const dense_sizes *d, int64_t size)
{
    int64_t rows = ROWS_ALIGN;
    while (rows < d->K && 2 * rows * d->C * size <= MOST_BYTES)
        rows *= 2;
    return rows < d->K ? rows : d->K;
}

static int64_t scratch_of(const dense_sizes *d, int64_t size)
{
    return (rows_of(d, size) * d->C * size + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

static bool supports_own(const graph *g, const node *n)
{
    const dense_sizes d = sizes_of(g, n);
    return !attr_of(n)->data && d.N > DENSE_CUDA_FEW && d.K * d.C * size_of(g) >= LEAST_BYTES &&
           dense_update_cuda_optimizer(g, n) != NULL;
}

static bool supports_lt(const graph *g, const node *n)
{
    return queue_of_graph(g)->cublaslt && supports_own(g, n);
}

static void pieces_close(brasa_context *ctx, void *state)
{
    pieces *p = state;
    cublaslt_plan_free(p->plan[0]);
    cublaslt_plan_free(p->plan[1]);
    mem_put(ctx, p);
}

static brasa_status open_own(graph *g, node *n)
{
    pieces *p = mem_get(g->ctx, sizeof *p);
    if (!p)
        return fail_memory(g->ctx, sizeof *p);
    p->optimizer = dense_update_cuda_optimizer(g, n);
    n->state = p;
    return BRASA_OK;
}

/* dwei = src x ddst^T, to the library, of some columns of ddst */
static brasa_status open_lt(graph *g, node *n)
{
    const dense_sizes d = sizes_of(g, n);
    const int64_t rows = rows_of(&d, size_of(g)), counts[2] = {rows, d.K % rows};
    brasa_status status = open_own(g, n);
    for (int i = 0; i < 2 && status == BRASA_OK && counts[i]; i++) {
        const cublaslt_product product = {.m = d.C,
                                          .n = counts[i],
                                          .k = d.N,
                                          .line_b = d.K,
                                          .turn_b = true,
                                          .bf16 = g->precision == BRASA_BF16,
                                          .tf32 = g->precision == BRASA_TF32};
        status = cublaslt_plan_new(queue_of_graph(g), g->tuner, &product, &((pieces *)n->state)->plan[i]);
    }
    if (status != BRASA_OK && n->state) {
        pieces_close(g->ctx, n->state);
        n->state = NULL;
    }
    return status;
}

static int64_t workspace(const graph *g, const node *n)
{
    const pieces *p = n->state;
    const dense_sizes d = sizes_of(g, n);
    int64_t most = 0;
    for (int i = 0; i < 2; i++)
        if (p->plan[i] && cublaslt_workspace(p->plan[i]) > most)
            most = cublaslt_workspace(p->plan[i]);
    return scratch_of(&d, size_of(g)) + most;
}

/* The gradient of rows `first` and so on, into the workspace. */
static brasa_status make_piece(const step *s, const pieces *p, const dense_sizes *d, int64_t first, int64_t rows)
{
    const arg *ddst = &s->in[1];
    const int64_t size = (int64_t)dtype_size(ddst->format.storage);
    const cublaslt_plan *plan = first + rows_of(d, size) <= d->K ? p->plan[0] : p->plan[1];
    if (plan)
        return cublaslt_run(plan, s->in[0].data, (const char *)ddst->data + first * size, s->workspace, NULL,
                            (char *)s->workspace + scratch_of(d, size));
    dense_cuda_weight_rows(s, first, rows, s->workspace);
    return cuda_started(s);
}

/* The optimizer's step over these rows. */
static brasa_status update_piece(const step *s, const kernel *optimizer, int64_t first, int64_t count)
{
    const node *n = &attr_of(s->node)->update;
    arg in[UPDATE_SLOTS + MAX_SLOTS];
    step u = *s;
    for (int k = 0; k < n->nin; k++)
        in[k] = s->in[k == 0 ? FUSED_WEI : k + 1];
    in[1] = (arg){.data = s->workspace, .count = count, .format.storage = s->in[1].format.storage};
    u.kernel = optimizer;
    u.node = n;
    u.attr = n->attr;
    u.nin = n->nin;
    u.nout = n->nout;
    u.in = in;
    u.workspace = u.state = NULL;
    u.first = first;
    return optimizer->run(&u);
}

/* in: src, ddst, wei, rate, steps, slots ...; out: wei, slots ... [, dbia] */
static brasa_status run(const step *s)
{
    const pieces *p = s->state;
    const arg *ddst = &s->in[1];
    const dense_sizes d = dense_sizes_of(&s->in[0].shape, &ddst->shape);
    const int64_t rows = rows_of(&d, (int64_t)dtype_size(ddst->format.storage));
    brasa_status status = BRASA_OK;
    for (int64_t first = 0; first < d.K && status == BRASA_OK; first += rows) {
        const int64_t count = d.K - first < rows ? d.K - first : rows;
        status = make_piece(s, p, &d, first, count);
        if (status == BRASA_OK)
            status = update_piece(s, p->optimizer, first * d.C, count * d.C);
    }
    if (status != BRASA_OK || s->nout == 1 + fused_slots(s->node))
        return status;
    dense_cuda_bias_gradient(stream_of(s), ddst->data, ddst->format.storage, d.N, d.K, s->out[s->nout - 1].data);
    return cuda_started(s);
}

/* Of the pieces but the last one. */
static bool tell_choice(const void *state, device_choice *out)
{
    const cublaslt_plan *plan = ((const pieces *)state)->plan[0];
    return plan && cublaslt_tell_choice(plan, out);
}

/* --- the kernels -------------------------------------------------------------------------------------------------
 */

#define PIECES(kernel_name, is_vendor, supports_hook, open_hook)                                                     \
    {                                                                                                                \
        "dense_update",                                                                                              \
        {                                                                                                            \
            .name = kernel_name, .real = F32, .vendor = is_vendor, .supports = supports_hook,                        \
            .formats = dense_update_cuda_formats, .open = open_hook, .close = pieces_close, .workspace = workspace,  \
            .run = run, .choice = tell_choice                                                                        \
        }                                                                                                            \
    }
extern const backend_kernel dense_update_cuda[];
const backend_kernel dense_update_cuda[] = {
    PIECES("dense_update_cublaslt", true, supports_lt, open_lt),
    PIECES("dense_update_cuda", false, supports_own, open_own),
    CUDA_END,
};
