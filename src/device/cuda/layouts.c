/* layouts.c - how tensors lie in the memory of a GPU: see cuda.h. */
#include "device/cuda/cuda.h"

layout cuda_layout_f32(const graph *g, int v)
{
    const bool pictures = g->values[v].shape.rank == 4 && g->values[v].type == F32;
    return pictures ? (layout){.permuted = 1, .order = {0, 2, 3, 1}} : (layout){0};
}

layout cuda_layout(const graph *g, int v)
{
    const value *x = &g->values[v];
    layout l = cuda_layout_f32(g, v);
    l.bf16 = g->precision == BRASA_BF16 && x->type == F32 && x->shape.rank >= 2 &&
             (x->kind == VALUE_TEMP || x->kind == VALUE_INPUT);
    return l;
}

void cuda_layouts(const graph *g, const node *n, layout *in, layout *out)
{
    for (int k = 0; k < n->nin; k++)
        in[k] = cuda_layout(g, n->in[k]);
    for (int k = 0; k < n->nout; k++)
        out[k] = cuda_layout(g, n->out[k]);
}

void cuda_layouts_elementwise(const graph *g, const node *n, layout *in, layout *out)
{
    const shape *s = &g->values[n->out[0]].shape;
    const layout common = settled_layout(g, n);
    for (int k = 0; k < n->nin + n->nout; k++) {
        const int v = k < n->nin ? n->in[k] : n->out[k - n->nin];
        layout *to = k < n->nin ? &in[k] : &out[k - n->nin];
        if (!shape_equal(&g->values[v].shape, s))
            continue;
        *to = common;
        to->bf16 = cuda_layout(g, v).bf16;
    }
}
