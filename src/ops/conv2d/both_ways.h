/* both_ways.h - what kernels share that compute a convolution forward and by the data. The latter is the former with
 * ddst in the place of src and dsrc in that of dst.
 *
 * The file that includes this has a struct `job`, with src, wei, bia, dst and stream among its members, and
 *     job_of(node, shape of src, shape of dst, threads)      what follows from shapes
 * It defines `run` and `workspace` and ends with rows of BOTH_WAYS.
 */
static job job_here(const step *s)
{
    const bool data = s->node->op == &conv2d_grad_data_op;
    const arg *src = &s->in[data ? 1 : 0], *dst = &s->out[0];
    job j = job_of(s->node, &src->shape, &dst->shape, s->threads);
    j.src = src;
    j.wei = &s->in[data ? 0 : 1];
    j.bia = s->nin > 2 ? &s->in[2] : NULL;
    j.dst = dst;
    j.stream = is_huge(dst);
    return j;
}

/* The job of a node whose tensors have no addresses yet. */
static job job_planned(const graph *g, const node *n)
{
    const bool data = n->op == &conv2d_grad_data_op;
    return job_of(n, &g->values[n->in[data ? 1 : 0]].shape, &g->values[n->out[0]].shape, node_threads(g, n));
}

/* conv2d_NAME and conv2d_grad_data_NAME; `...` are further fields of both. */
#define BOTH_WAYS(name, ...)                                                                                         \
    SIMD_ROW("conv2d_" name, conv2d_op, .parts_in = 1, .parts_out = 1, .workspace = workspace, .run = run,           \
             __VA_ARGS__),                                                                                           \
        SIMD_ROW("conv2d_grad_data_" name, conv2d_grad_data_op, .parts_in = 2, .parts_out = 1,                       \
                 .workspace = workspace, .run = run, __VA_ARGS__)
