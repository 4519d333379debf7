/* conv2d_onednn.c - convolution by oneDNN, in blocks of channels. Weights are laid out as the library likes them: the
 * forward pass and the weight gradient agree on that, the data gradient wants its own, which select provides. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"
#include "ops/conv2d/conv2d.h"

/* A convolution of these three or four values, by number; bia -1: none. */
static brasa_status open(graph *g, node *n, onednn_pass pass, int src, int wei, int bia, int dst,
                         const onednn_places *places)
{
    const conv2d_attr *t = n->attr;
    const shape *x = &g->values[src].shape, *y = &g->values[dst].shape;
    const layout src_layout = cpu_activation_layout(g->ctx, x), dst_layout = cpu_activation_layout(g->ctx, y);
    const layout plain = {0};
    return onednn_open(g, n,
                       &(onednn_layer){
                           .pass = pass,
                           .src = {x, &src_layout},
                           .wei = {&g->values[wei].shape, NULL},
                           .bia = {bia < 0 ? NULL : &g->values[bia].shape, &plain},
                           .dst = {y, &dst_layout},
                           .window = true,
                           .groups = t->groups,
                           .stride = t->window.stride,
                           .dilation = t->window.dilation,
                           .pad = t->window.pad,
                           .act = n->act,
                       },
                       places);
}

static brasa_status open_forward(graph *g, node *n)
{
    const int bia = n->nin > 2 ? 2 : -1;
    return open(g, n, ONEDNN_FORWARD, n->in[0], n->in[1], bia < 0 ? -1 : n->in[2], n->out[0],
                &(onednn_places){.src = 0, .wei = 1, .bia = bia, .dst = ONEDNN_OUT});
}

static brasa_status open_data(graph *g, node *n)
{
    return open(g, n, ONEDNN_DATA, n->out[0], n->in[0], -1, n->in[1],
                &(onednn_places){.src = ONEDNN_OUT, .wei = 0, .bia = -1, .dst = 1});
}

static brasa_status open_weights(graph *g, node *n)
{
    const bool bias = n->nout > 1;
    return open(g, n, ONEDNN_WEIGHTS, n->in[0], n->out[0], bias ? n->out[1] : -1, n->in[1],
                &(onednn_places){.src = 0, .wei = ONEDNN_OUT, .bia = bias ? ONEDNN_OUT + 1 : -1, .dst = 1});
}

const kernel conv2d_onednn[] = {
    ONEDNN_KERNEL(conv2d_op, conv2d, open_forward),
    ONEDNN_KERNEL(conv2d_grad_data_op, conv2d_grad_data, open_data),
    ONEDNN_KERNEL(conv2d_grad_weights_op, conv2d_grad_weights, open_weights),
    {0},
};
