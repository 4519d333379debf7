/* fused_update.h - the gradient of a layer's weights and their update in one node.
 *
 * A gradient as large as the weights costs its room, and two ways through memory, for being read once. Where there is
 * little to compute for each weight, a small part of it at a time is computed into the cache and handed to the
 * optimizer's own kernel, as a step over that part of the weights and slots: the optimizers' equations are written
 * once, in their own files.
 *
 * Such a node takes the place of the weights' gradient, which stands behind that of the data: what reads the old
 * weights stands before it. The bias keeps its gradient and its update.
 *     in:  src, ddst, wei, rate, steps, slots ...
 *     out: wei, slots ... [, dbia] ...
 * The weights keep the layout that the forward pass gave them.
 */
#ifndef OPS_FUSED_UPDATE_H
#define OPS_FUSED_UPDATE_H

#include "ops/optimizer.h"

enum { FUSED_WEI = 2, FUSED_SLOTS = UPDATE_SLOTS + 1 }; /* among the inputs */

/* The attribute of the node. */
typedef struct fused_update_attr {
    node update;       /* the optimizer's node that it does the work of, as it was; open gives it its kernel */
    const void *layer; /* the attribute of the gradient's node */
    bool data;         /* of dense_update: the gradient of the data is computed, too, the last output */
} fused_update_attr;

/* For op_def.fuse of the gradient's op: makes one node of it and the update behind it, of this op, where nobody else
 * wants the gradient. */
bool fused_update_merge(graph *g, int i, const op_def *op);

/* The inputs tell how many slots there are. */
static inline int fused_slots(const node *n)
{
    return n->nin - FUSED_SLOTS;
}

/* For kernel.open: takes the fastest kernel of the optimizer, or its reference. */
brasa_status fused_update_open_fast(graph *g, node *n);
brasa_status fused_update_open_ref(graph *g, node *n);
/* For kernel.formats: wei and slots as the weights lie; all others stay as they are. */
void fused_update_formats(const graph *g, const node *n, format *in, format *out);

/* A step of the optimizer over a part of the weights, for one thread. */
typedef struct fused_part {
    step update;
    arg in[UPDATE_SLOTS + MAX_SLOTS], out[1 + MAX_SLOTS];
    const step *whole;
} fused_part;

void fused_part_init(fused_part *p, const step *s);
/* Updates `count` weights from the `first` one on, as they are stored, by their gradient. */
void fused_part_run(fused_part *p, int64_t first, int64_t count, void *gradient);

/* For references, which compute plain gradients: the number that the weight stored at `at` has in the order of the
 * shape, or -1 in the padding. */
int64_t fused_element(const arg *wei, int64_t at);

#endif
