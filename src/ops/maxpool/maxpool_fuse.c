/* maxpool_fuse.c - an activation before max-pooling moves behind it.
 *
 * ReLU and ReLU6 never fall, so the largest of the activated values is the largest value, activated; where they are
 * flat the winner may be another one, but its gradient is zero. Behind the pooling there is a quarter of the work,
 * and what the pooling reads need not be kept until the gradient comes: in VGG-16 those are the largest tensors.
 */
#include "graph/fuse.h"
#include "ops/maxpool/maxpool.h"

/* The activation of the node that makes src, where nobody else sees it: dst = max(act(src)) -> act(max(src)). */
bool maxpool_fuse(graph *g, int i)
{
    node *n = &g->nodes[i];
    const int src = n->in[0], maker = fuse_only_reader(g, src) == i ? fuse_producer(g, src) : -1;
    if (!(g->fuse & FUSE_POOLS) || maker < 0 || n->act != ACT_NONE)
        return false;
    node *before = &g->nodes[maker];
    if (before->act == ACT_NONE || before->out[0] != src)
        return false;
    n->act = before->act;
    before->act = ACT_NONE;
    return true;
}

/* relu_grad(src, maxpool_grad(winner, ddst)) -> maxpool_grad(winner, relu_grad(dst, ddst)): a winner is flat where
 * dst is. */
bool maxpool_fuse_grad(graph *g, int i)
{
    const node n = g->nodes[i];
    const int winner = n.in[0], ddst = n.in[1], j = fuse_only_reader(g, n.out[0]), maker = fuse_producer(g, winner);
    if (!(g->fuse & FUSE_POOLS) || j < 0 || maker < 0)
        return false;
    const node act = g->nodes[j];
    if ((act.op != &relu_grad_op && act.op != &relu6_grad_op) || act.in[0] != g->nodes[maker].in[0])
        return false;
    const shape s = g->values[ddst].shape;
    const int passed = graph_value(g, VALUE_TEMP, g->real, &s, NULL);
    if (passed < 0 || !fuse_rewrite(g, i, act, 2, (int[]){g->nodes[maker].out[0], ddst}, 1, &passed) ||
        !fuse_rewrite(g, j, n, 2, (int[]){winner, passed}, 1, act.out))
        return false;
    maxpool_fuse(g, maker);
    return true;
}
