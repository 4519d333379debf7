/* reshape_cuda.cu - the same elements under another shape, on GPUs: a copy, where the plan could not do without. */
#include "device/cuda/cuda.cuh"

static brasa_status run(const step *s)
{
    const arg *src = &s->in[0], *dst = &s->out[0];
    if (src->data == dst->data)
        return BRASA_OK;
    cudaMemcpyAsync(dst->data, src->data, (size_t)dst->count * dtype_size(dst->format.storage),
                    cudaMemcpyDeviceToDevice, stream_of(s));
    return cuda_started(s);
}

/* Both are the same bytes. Under the same shape any order and type will do. Under another one the elements must lie
 * in the order of the shape, as they also do in pictures of one pixel or of one channel; vectors are floats. */
static void formats(const graph *g, const node *n, format *in, format *out)
{
    const value *x = &g->values[n->in[0]], *y = &g->values[n->out[0]];
    const layout plain = {}, pictures = cuda_layout(g, n->out[0]);
    in[0] = x->settled ? x->format : cuda_format_exact(g, n->in[0]);
    in[0].storage = storage_view(in[0].storage);
    if (shape_equal(&x->shape, &y->shape)) {
        out[0] = in[0];
        return;
    }
    if (!layout_same_bytes(&in[0].layout, &plain, &x->shape))
        in[0].layout = plain;
    if (y->shape.rank < 2)
        in[0].storage = x->type;
    out[0] = {in[0].storage, layout_same_bytes(&pictures, &plain, &y->shape) ? pictures : plain};
}

CUDA_KERNELS(reshape) = {
    CUDA_ROW("reshape", run, formats),
    CUDA_ROW("flatten", run, formats),
    CUDA_ROW("view", run, formats),
    CUDA_END,
};
