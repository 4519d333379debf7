/* cpu.c - see cpu.h. */
#include "device/cpu/cpu.h"

static int block_of(const brasa_context *ctx)
{
    return ctx->isa == ISA_AVX512 ? 16 : 8;
}

layout cpu_activation_layout(const brasa_context *ctx, const shape *s)
{
    if (s->rank != 4 || s->dim[1] < 4 || ctx->isa == ISA_ANY)
        return (layout){0};
    return layout_in_blocks(1, block_of(ctx));
}

layout cpu_weight_layout(const brasa_context *ctx)
{
    const uint8_t block = (uint8_t)block_of(ctx);
    return (layout){.nblocks = 2, .axis = {1, 0}, .block = {block, block}};
}

void cpu_formats(const graph *g, const node *n, format *in, format *out)
{
    for (int k = 0; k < n->nin; k++)
        in[k].layout = cpu_activation_layout(g->ctx, &g->values[n->in[k]].shape);
    for (int k = 0; k < n->nout; k++)
        out[k].layout = cpu_activation_layout(g->ctx, &g->values[n->out[k]].shape);
}

bool cpu_is_blocked(const graph *g, const node *n)
{
    const layout l = cpu_activation_layout(g->ctx, &g->values[n->in[0]].shape);
    return l.nblocks > 0;
}
