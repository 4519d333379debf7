/* onednn.h - the part of oneDNN that Brasa uses, the same for versions 2 and 3.
 *
 * The versions differ in how descriptors are made: version 2 fills an operation descriptor and makes a primitive
 * descriptor of it, version 3 makes the latter directly; memory descriptors are structs in the one and handles in the
 * other. onednn_describe.c hides that. Kernels in ops/<op>/<op>_onednn.c use nothing of the library but what stands
 * here.
 *
 * Everything is made when a kernel is opened or bound, nothing in a step: a step is one execution over memory objects
 * that point into the arena. Scratch space is the node's planned workspace.
 */
#ifndef DEVICE_CPU_ONEDNN_H
#define DEVICE_CPU_ONEDNN_H

#include "ops/op.h"

/* Which of the three products of a layer with weights a primitive computes. */
typedef enum onednn_pass { ONEDNN_FORWARD, ONEDNN_DATA, ONEDNN_WEIGHTS } onednn_pass;

/* The tensors of such a layer. Shapes are Brasa's; layouts NULL: the library chooses. */
typedef struct onednn_tensor {
    const shape *shape; /* NULL: there is none (no bias) */
    const layout *layout;
} onednn_tensor;

typedef struct onednn_layer {
    onednn_pass pass;
    onednn_tensor src, wei, bia, dst;
    bool window; /* a convolution: the rest holds; else an inner product */
    int groups;
    pair stride, dilation;
    pads pad;
    bool winograd; /* this algorithm, with limited scratch space, or none */
    activation act;
    int flat; /* an inner product whose src is N x C x H x W in blocks of so many channels: see dense_onednn.c; else 0
               */
} onednn_layer;

/* What a kernel keeps for a node. Where a tensor lies is said by its place: input k is k, output k is ONEDNN_OUT + k,
 * -1 is a tensor that the pass does not have. */
typedef struct onednn onednn;
enum { ONEDNN_OUT = 100 };
typedef struct onednn_places {
    int src, wei, bia, dst;
} onednn_places;

/* Sets n->state; BRASA_NO_KERNEL where the library has no fast implementation. */
brasa_status onednn_open(graph *g, node *n, const onednn_layer *layer, const onednn_places *places);

/* "2.6.3": of the library that runs, which may be newer than the headers; with what it may use, where that is less
 * than our kernels do: "2.6.3 with AVX2". Holds for the calling thread. */
const char *onednn_version(void);

/* The other hooks of a kernel, the same for all. */
void onednn_close(brasa_context *ctx, void *state);
void onednn_formats(const graph *g, const node *n, format *in, format *out);
int64_t onednn_workspace(const graph *g, const node *n);
brasa_status onednn_bind(const step *s);
brasa_status onednn_run(const step *s);

/* A row of a kernel list; the second, where it is not for every node. */
#define ONEDNN_KERNEL(operation, function, open_hook) ONEDNN_KERNEL_IF(operation, function, open_hook, NULL)
#define ONEDNN_KERNEL_IF(operation, function, open_hook, supports_hook)                                              \
    {                                                                                                                \
        .name = #function "_onednn", .op = &operation, .real = F32, .vendor = true, .isa = ISA_AVX2,                 \
        .supports = supports_hook, .open = open_hook, .close = onednn_close, .formats = onednn_formats,              \
        .workspace = onednn_workspace, .bind = onednn_bind, .run = onednn_run                                        \
    }

#endif
