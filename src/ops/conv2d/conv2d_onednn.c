/* conv2d_onednn.c - convolution by oneDNN, in blocks of channels. Weights are laid out as the library likes them: the
 * forward pass and the weight gradient agree on that, the data gradient wants its own, which select provides.
 *
 * Winograd's algorithm, F(4x4, 3x3), makes tiles of 4 x 4 outputs of a 3 x 3 window with a quarter of the products,
 * in all three passes on the forward pass's layout of weights. Version 2 of the library has it for AVX-512, version 3
 * does not. Times of the direct algorithm over its times, on two cores of an AMD EPYC (Zen 4), version 2.6.3:
 *
 *     channels, picture     batch 1: forward, data, weights     batch 32
 *      64 ->  64, 56 x 56   2.7  2.4  2.8                       2.5  2.6  1.8
 *     128 -> 128, 28 x 28   2.1  2.2  2.6                       2.6  2.6  2.0
 *     256 -> 256, 14 x 14   1.0  1.0  1.0                       2.0  2.1  2.5
 *     512 -> 512,  7 x  7   0.4  0.4  0.1                       1.9  2.0  2.8
 *      16 ->  16, 32 x 32   0.9  0.9
 *
 * A batch of one picture of 20 x 20 (25 tiles) gains 1.3 to 2.1, one of 14 x 14 (16 tiles) nothing; hence the limits
 * below. Transformed tensors lie in the scratch space: see onednn.c for how much of it is too much. The price is
 * precision: errors of up to 5e-6 of the largest element, on the cases of the op, whose tolerance says so. And
 * googlenet had other bits on two threads than on one: where that must not be, only the weight gradients are made
 * with it, which then have one thread anyway. */
#include "device/cpu/cpu.h"
#include "device/cpu/onednn.h"
#include "ops/conv2d/conv2d.h"

/* Where Winograd's algorithm is the faster one: see the head of the file. */
enum { FEWEST_TILES = 24, FEWEST_CHANNELS = 32 };

static bool suits_winograd(const graph *g, const node *n)
{
    const conv2d_attr *t = n->attr;
    const window_attr *w = &t->window;
    const pads *p = &w->pad; /* with pads that differ the data gradient of 2.6.3 is wrong */
    const bool forward = n->op == &conv2d_op, data = n->op == &conv2d_grad_data_op;
    const shape *x = &g->values[data ? n->out[0] : n->in[0]].shape,
                *y = &g->values[forward ? n->out[0] : n->in[1]].shape;
    const int64_t tiles = y->dim[0] * ((y->dim[2] + 3) / 4) * ((y->dim[3] + 3) / 4);
    if (g->deterministic && (forward || data))
        return false;
    return w->size.h == 3 && w->size.w == 3 && w->stride.h == 1 && w->stride.w == 1 && w->dilation.h == 1 &&
           w->dilation.w == 1 && p->top == p->bottom && p->top == p->left && p->top == p->right && t->groups == 1 &&
           tiles >= FEWEST_TILES && x->dim[1] >= FEWEST_CHANNELS && y->dim[1] >= FEWEST_CHANNELS;
}

/* A convolution of these three or four values, by number; bia -1: none. */
static brasa_status open(graph *g, node *n, onednn_pass pass, int src, int wei, int bia, int dst,
                         const onednn_places *places)
{
    const conv2d_attr *t = n->attr;
    const shape *x = &g->values[src].shape, *y = &g->values[dst].shape;
    const layout src_layout = cpu_activation_layout(g->ctx, x), dst_layout = cpu_activation_layout(g->ctx, y);
    const layout plain = {0};
    onednn_layer layer = {
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
        .winograd = n->kernel->supports == suits_winograd,
        .act = n->act,
    };
    brasa_status status = onednn_open(g, n, &layer, places);
    if (status != BRASA_NO_KERNEL || layer.winograd)
        return status;
    /* With AVX2 the library has nothing in blocks for odd first layers, such as AlexNet's, but a matrix product. */
    layer.src.layout = layer.dst.layout = &plain;
    return onednn_open(g, n, &layer, places);
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
    ONEDNN_KERNEL_IF(conv2d_op, conv2d_winograd, open_forward, suits_winograd),
    ONEDNN_KERNEL_IF(conv2d_grad_data_op, conv2d_grad_data_winograd, open_data, suits_winograd),
    ONEDNN_KERNEL_IF(conv2d_grad_weights_op, conv2d_grad_weights_winograd, open_weights, suits_winograd),
    ONEDNN_KERNEL(conv2d_op, conv2d, open_forward),
    ONEDNN_KERNEL(conv2d_grad_data_op, conv2d_grad_data, open_data),
    ONEDNN_KERNEL(conv2d_grad_weights_op, conv2d_grad_weights, open_weights),
    {0},
};
