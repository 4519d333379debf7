/* batchnorm_fuse.c - the neighbours that batch norm takes in. It moves much memory and computes little: a neighbour
 * of that kind takes nearly as long as batch norm itself, and next to nothing within it. */
#include "graph/fuse.h"
#include "ops/batchnorm/batchnorm.h"
#include "ops/conv2d/conv2d.h"

/* dst + res -> dst. With the statistics of the batch the node stays where it is, for the running ones are kept right
 * behind it: res must be there already. Else it moves to the place of the sum. */
static bool fuse_residual(graph *g, int i)
{
    node n = g->nodes[i];
    batchnorm_attr *t = n.attr;
    const int j = fuse_only_reader(g, n.out[0]);
    if (t->residual || n.act != ACT_NONE || j < 0 || g->nodes[j].op != &add_op || g->nodes[j].nin != 2)
        return false;
    const node sum = g->nodes[j];
    const int res = sum.in[sum.in[0] == n.out[0]];
    const bool stays = n.op == &batchnorm_train_op;
    if (stays && fuse_producer(g, res) > i)
        return false;

    int in[6] = {n.in[0], res}, out[3] = {sum.out[0]};
    for (int k = 1; k < n.nin; k++)
        in[k + 1] = n.in[k];
    for (int k = 1; k < n.nout; k++)
        out[k] = n.out[k];
    t->residual = true;
    n.act = sum.act;
    fuse_remove(g, stays ? j : i);
    return fuse_rewrite(g, stays ? i : j, n, n.nin + 1, in, n.nout, out);
}

/* dst = norm(conv(src, wei [, bia])) -> conv(src, other weights, other bias), which a node in the convolution's place
 * makes anew in each run. Where there are more weights than pixels that would take longer than batch norm does. */
static bool fold(graph *g, int j)
{
    const node n = g->nodes[j];
    const batchnorm_attr *t = n.attr;
    const int i = fuse_only_reader(g, n.in[0]) == j ? fuse_producer(g, n.in[0]) : -1;
    if (g->training || t->residual || i < 0 || g->nodes[i].op != &conv2d_op || g->nodes[i].act != ACT_NONE)
        return false;
    node conv = g->nodes[i], maker = n;
    const shape wei = g->values[conv.in[1]].shape, bia = shape_1(wei.dim[0]);
    if (shape_count(&wei) >= shape_count(&g->values[n.out[0]].shape))
        return false;

    const int made[2] = {graph_value(g, VALUE_TEMP, g->real, &wei, NULL),
                         graph_value(g, VALUE_TEMP, g->real, &bia, NULL)};
    if (made[1] < 0)
        return false;
    int from[6], nfrom = 0; /* of both: all but what they work on */
    for (int k = 1; k < conv.nin; k++)
        from[nfrom++] = conv.in[k];
    for (int k = 1; k < n.nin; k++)
        from[nfrom++] = n.in[k];
    maker.op = &batchnorm_fold_op;
    maker.act = ACT_NONE;
    conv.act = n.act;
    ((conv2d_attr *)conv.attr)->bias = true;
    return fuse_rewrite(g, i, maker, nfrom, from, 2, made) &&
           fuse_rewrite(g, j, conv, 3, (int[]){conv.in[0], made[0], made[1]}, 1, n.out);
}

bool batchnorm_fuse(graph *g, int i)
{
    /* A sum that is taken in costs no pass over memory: nothing is gained by folding then. */
    return (g->fuse & FUSE_RESIDUALS && fuse_residual(g, i)) ||
           (g->fuse & FUSE_FOLD && g->nodes[i].op == &batchnorm_eval_op && fold(g, i));
}

/* The node that made dst is this gradient's own, with the activation and nothing between: norm(src) tells as much as
 * dst does. */
static bool is_own(const graph *g, const node *n, int maker, activation act)
{
    if (maker < 0)
        return false;
    const node *own = &g->nodes[maker];
    const bool train = own->op == &batchnorm_train_op && n->op == &batchnorm_train_grad_op;
    const bool eval = own->op == &batchnorm_eval_op && n->op == &batchnorm_eval_grad_op;
    const batchnorm_attr *t = own->attr;
    if ((!train && !eval) || t->residual || own->act != act || own->in[0] != n->in[0])
        return false;
    const int stats = train ? own->out[1] : own->in[own->nin - 2];
    return stats == n->in[n->nin - 2] && (!t->affine || (own->in[1] == n->in[2] && own->in[2] == n->in[3]));
}

/* The gradient at j takes in the node that makes ddst, and moves to its place, before all who read that. Its inputs
 * are `from` then, where ddst was, and what others read of ddst it writes as dres. Returns its new place. */
static int take_in(graph *g, int j, int nfrom, const int *from)
{
    const node n = g->nodes[j];
    batchnorm_attr *t = n.attr;
    const int ddst = n.in[1], i = fuse_producer(g, ddst);
    int in[8] = {n.in[0]}, nin = 1, out[MAX_OUT], nout = 0;
    for (int k = 0; k < nfrom; k++)
        in[nin++] = from[k];
    for (int k = 2; k < n.nin; k++)
        in[nin++] = n.in[k];
    for (; nout < n.nout; nout++)
        out[nout] = n.out[nout];
    if (fuse_only_reader(g, ddst) != j) {
        t->keeps_dres = true;
        out[nout++] = ddst;
    }
    fuse_remove(g, j);
    return fuse_rewrite(g, i, n, nin, in, nout, out) ? i : -1;
}

/* relu_grad(dst, ddst) -> ddst */
static int fuse_flat(graph *g, int j)
{
    const node n = g->nodes[j];
    batchnorm_attr *t = n.attr;
    const int i = fuse_producer(g, n.in[1]);
    const activation act = i < 0                              ? ACT_NONE
                           : g->nodes[i].op == &relu_grad_op  ? ACT_RELU
                           : g->nodes[i].op == &relu6_grad_op ? ACT_RELU6
                                                              : ACT_NONE;
    if (!(g->fuse & FUSE_FLAT) || t->flat != ACT_NONE || t->sums || act == ACT_NONE)
        return -1;
    const int dst = g->nodes[i].in[0];
    t->flat = act;
    t->reads_dst = !is_own(g, &n, fuse_producer(g, dst), act);
    return take_in(g, j, t->reads_dst ? 2 : 1, (int[]){g->nodes[i].in[1], dst});
}

/* ddst + more -> ddst. Behind an activation dres is another than the sum, which nobody else may read then. */
static int fuse_sum(graph *g, int j)
{
    batchnorm_attr *t = g->nodes[j].attr;
    const int ddst = g->nodes[j].in[1], i = fuse_producer(g, ddst);
    if (!(g->fuse & FUSE_SUMS) || t->sums || i < 0 || g->nodes[i].op != &add_op || g->nodes[i].nin != 2 ||
        g->nodes[i].act != ACT_NONE || (t->flat != ACT_NONE && fuse_only_reader(g, ddst) != j))
        return -1;
    t->sums = true;
    return take_in(g, j, 2, (int[]){g->nodes[i].in[0], g->nodes[i].in[1]});
}

bool batchnorm_fuse_grad(graph *g, int j)
{
    const int flat = fuse_flat(g, j), sum = fuse_sum(g, flat < 0 ? j : flat);
    return flat >= 0 || sum >= 0;
}
