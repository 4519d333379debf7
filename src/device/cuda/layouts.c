/* layouts.c - how tensors lie in the memory of a GPU: see cuda.h. */
#include "device/cuda/cuda.h"

layout cuda_layout(const graph *g, int v)
{
    const bool pictures = g->values[v].shape.rank == 4 && g->values[v].type == F32;
    return pictures ? (layout){.permuted = 1, .order = {0, 2, 3, 1}} : (layout){0};
}

format cuda_format(const graph *g, int v)
{
    return (format){precision_storage(g, v), cuda_layout(g, v)};
}

format cuda_format_product(const graph *g, int v)
{
    return (format){precision_product(g, v), cuda_layout(g, v)};
}

format cuda_format_exact(const graph *g, int v)
{
    return (format){g->values[v].type, cuda_layout(g, v)};
}

void cuda_formats(const graph *g, const node *n, format *in, format *out)
{
    for (int k = 0; k < n->nin; k++)
        in[k] = cuda_format(g, n->in[k]);
    for (int k = 0; k < n->nout; k++)
        out[k] = cuda_format(g, n->out[k]);
}

void cuda_formats_elementwise(const graph *g, const node *n, format *in, format *out)
{
    const shape *s = &g->values[n->out[0]].shape;
    const layout common = settled_layout(g, n);
    for (int k = 0; k < n->nin + n->nout; k++) {
        const int v = k < n->nin ? n->in[k] : n->out[k - n->nin];
        if (shape_equal(&g->values[v].shape, s))
            *(k < n->nin ? &in[k] : &out[k - n->nin]) = (format){precision_storage(g, v), common};
    }
}
