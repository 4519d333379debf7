/* conv2d_grad_weights_direct_simd.c - the weight gradient of a convolution by direct.h: for small pictures, whose
 * short rows oneDNN's kernels do not like.
 *
 * dwei itself holds the sums from sample to sample.
 */
#include "ops/conv2d/direct.h"

/* item: an input block and a group of output blocks */
static void weights_range(const step *s, int64_t begin, int64_t end)
{
    const job j = direct_job(s, s->attr);
    const int64_t block = direct_block(&j) / BLOCK;
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = direct_first(&j, i / j.C), c = i % j.C;
        direct_sums((int)(direct_first(&j, i / j.C + 1) - k), &j, c, k, (vec *)s->out[0].data + (k * j.C + c) * block,
                    j.C * block);
    }
}

/* item: an output block */
static void bias_range(const step *s, int64_t begin, int64_t end)
{
    direct_bias(&s->in[1], s->out[1].data, begin, end);
}

static brasa_status conv2d_grad_weights_direct(const step *s)
{
    const job j = direct_job(s, s->attr);
    step_for(s, direct_groups(&j) * j.C, direct_work(&j), weights_range);
    if (s->nout > 1)
        step_for(s, j.K, (double)s->in[1].count, bias_range);
    return BRASA_OK;
}

/* Where it was faster than oneDNN (Zen 4, one thread): 1.3 to 1.5 times for 3 x 3 with stride 2 and 7 x 7 outputs at
 * batches of 8 and 32, 1.1 times for 3 x 3 at batch 1. It was slower with windows of one tap, and with stride 2 on
 * larger pictures. */
static bool supports(const graph *g, const node *n)
{
    const conv2d_attr *t = n->attr;
    const shape *src = &g->values[n->in[0]].shape, *dst = &g->values[n->in[1]].shape;
    const int64_t P = shape_span(dst, 2, 4);
    const bool strided = t->window.stride.h > 1 || t->window.stride.w > 1;
    return simd_matches(g, n) && t->groups == 1 && src->dim[1] >= 4 && dst->dim[1] >= 4 &&
           t->window.size.h * t->window.size.w > 1 &&
           (strided ? P <= 49 && dst->dim[0] > 1 : P <= 196 && dst->dim[0] == 1);
}

const kernel SIMD_TABLE(conv2d_grad_weights_direct)[] = {
    {.name = SIMD_NAME("conv2d_grad_weights_direct"),
     .op = &conv2d_grad_weights_op,
     .real = F32,
     .isa = SIMD_ISA,
     .supports = supports,
     .layouts = conv2d_layouts,
     .parts_in = 3,
     .run = conv2d_grad_weights_direct},
    {0},
};
