/* dense_onednn.c - the fully connected layer by oneDNN.
 *
 * A source that comes from a convolution, N x C x H x W in blocks of channels, is taken as it is: its bytes are a
 * matrix N x F, with F running over blocks, rows, columns and the channels of a block (padding included: zeros there
 * and in the weights). The library multiplies that matrix with K x F weights in the same order, and nothing is
 * reordered between the two layers. A picture of so few channels that it is not in blocks keeps the weights plain:
 * the library would cut F where Brasa can only cut the channels.
 */
#include "device/cpu/cpu.h"
#include "device/cpu/onednn.h"
#include "ops/dense/dense.h"

static brasa_status open(graph *g, node *n, onednn_pass pass, int src, int wei, int bia, int dst,
                         const onednn_places *places)
{
    const shape *x = &g->values[src].shape, *w = &g->values[wei].shape;
    const layout plain = {0}, blocked = cpu_activation_layout(g->ctx, x);
    const int64_t N = x->dim[0], F = layout_count(&blocked, x) / N; /* batches are not padded */
    const shape flat_src = shape_2(N, F), flat_wei = shape_2(w->dim[0], F);
    return onednn_open(g, n,
                       &(onednn_layer){
                           .pass = pass,
                           .src = {&flat_src, &plain},
                           .wei = {&flat_wei, x->rank == 4 && !blocked.nblocks ? &plain : NULL},
                           .bia = {bia < 0 ? NULL : &g->values[bia].shape, &plain},
                           .dst = {&g->values[dst].shape, &plain},
                           .groups = 1,
                           .act = n->act,
                           .flat = blocked.nblocks ? blocked.block[0] : 0,
                       },
                       places);
}

static brasa_status open_forward(graph *g, node *n)
{
    const bool bias = n->nin > 2;
    return open(g, n, ONEDNN_FORWARD, n->in[0], n->in[1], bias ? n->in[2] : -1, n->out[0],
                &(onednn_places){.src = 0, .wei = 1, .bia = bias ? 2 : -1, .dst = ONEDNN_OUT});
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

const kernel dense_onednn[] = {
    ONEDNN_KERNEL(dense_op, dense, open_forward),
    ONEDNN_KERNEL(dense_grad_data_op, dense_grad_data, open_data),
    ONEDNN_KERNEL(dense_grad_weights_op, dense_grad_weights, open_weights),
    {0},
};
