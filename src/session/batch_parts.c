/* batch_parts.c - a batch computed in parts: what is added up in the program of a part, and divided after the last.
 *
 * The loss of a batch is a mean: over samples, or over the weights of their classes. So the loss of a part counts as
 * many samples, or as much weight, as it has: its gradient starts from that number, and the sum over all parts,
 * divided by the sum of these numbers, is the gradient of the whole batch's loss. Scalars that are to be read go the
 * same way; those that no gradient flows through (accuracy) count samples. Parts need not be equal.
 *
 * The program of a part ends with the sums. What is made of them stands in the session's update program.
 */
#include "session/session.h"

#define WEIGHT_NAME "batch/weight"

static bool is_loss(const graph *g, const node *n)
{
    return n->op->grad && n->nin && g->values[n->out[0]].shape.rank == 0 && g->values[n->in[0]].shape.rank > 0;
}

static bool weighs_classes(const node *n)
{
    return n->op == &softmax_cross_entropy_op && n->nin > 2;
}

/* One number says what a part counts: the losses of a network must agree on it. */
static brasa_status find_weights(const graph *g, const node **out)
{
    int losses = 0, weighted = 0;
    bool same = true;
    for (int i = 0; i < g->nnodes; i++) {
        const node *n = &g->nodes[i];
        losses += is_loss(g, n);
        if (!weighs_classes(n))
            continue;
        same = same && (!weighted++ || (g->class_weights && n->in[1] == (*out)->in[1]));
        *out = n;
    }
    if (weighted && (!same || weighted != losses))
        return fail(g->ctx, BRASA_WRONG_STATE,
                    "the batch cannot be split into micro-batches: the network's losses weigh classes differently");
    return BRASA_OK;
}

static int count_samples(graph *g, int64_t batch)
{
    const double count = (double)batch;
    int n = emit(g, &constant_op, "samples", &count, 0, NULL);
    if (n < 0)
        return -1;
    g->nodes[n].role = ROLE_GRADIENT;
    return g->nodes[n].out[0];
}

brasa_status part_begin(graph *g, int64_t batch)
{
    const node *loss = NULL;
    for (int i = 0; i < g->nnodes; i++)
        if (g->nodes[i].op->mixes_samples)
            return fail(g->ctx, BRASA_WRONG_STATE,
                        "the batch cannot be split into micro-batches: %s '%s' computes with the whole of it",
                        g->nodes[i].op->name, g->nodes[i].name);
    brasa_status status = find_weights(g, &loss);
    if (status != BRASA_OK)
        return status;
    if (!loss) {
        g->share = count_samples(g, batch);
        return g->status;
    }
    int n = emit(g, &class_total_op, loss->name, NULL, 2, (int[]){loss->in[1], loss->in[2]});
    if (n >= 0) {
        g->nodes[n].role = ROLE_GRADIENT;
        g->share = g->nodes[n].out[0];
    }
    return g->status;
}

/* A sum by its name, "<what>/<of>"; -1 on error. */
static int sum_value(graph *g, const char *what, const char *of, const shape *s)
{
    const char *name = pool_text(&g->pool, "%s/%s", what, of);
    if (!name) {
        graph_stick(g, fail_memory(g->ctx, 0));
        return -1;
    }
    const int v = graph_find(g, name);
    return v >= 0 ? v : graph_value(g, VALUE_SUM, g->real, s, name);
}

static int weight_value(graph *g)
{
    const int v = graph_find(g, WEIGHT_NAME);
    return v >= 0 ? v : graph_value(g, VALUE_SUM, g->real, &(shape){0}, WEIGHT_NAME);
}

/* sum += [factor x] v */
static void add_up(graph *g, int sum, int v, int factor)
{
    const int in[4] = {sum, v, graph_samples(g), factor};
    int n = emit_into(g, &accumulate_op, g->values[sum].name, NULL, factor < 0 ? 3 : 4, in, 1, &sum);
    if (n >= 0)
        g->nodes[n].role = ROLE_GRADIENT;
}

int part_gradient(graph *g, graph *to, int param, int grad, int *there)
{
    const shape s = g->values[param].shape;
    const char *name = g->values[param].name;
    int sum = sum_value(g, name, "gradient", &s);
    if (sum < 0)
        return -1;
    add_up(g, sum, grad, -1);
    if (!to)
        return -1;
    *there = graph_value(to, VALUE_PARAM, to->real, &s, name);
    sum = sum_value(to, name, "gradient", &s);
    const int weight = weight_value(to);
    if (*there < 0 || sum < 0 || weight < 0)
        return -1;
    int n = emit_into(to, &mean_op, to->values[*there].name, NULL, 2, (int[]){sum, weight}, 1, &sum);
    if (n < 0)
        return -1;
    to->nodes[n].role = ROLE_GRADIENT;
    return sum;
}

/* The mean of a scalar, under its name, in the update program. */
static void emit_mean(graph *to, const char *name, int sum, int divisor, bool loss)
{
    const char *copy = pool_text(&to->pool, "%s", name);
    int n = emit(to, &mean_op, copy, NULL, 2, (int[]){sum, divisor});
    if (!copy)
        graph_stick(to, fail_memory(to->ctx, 0));
    if (!copy || n < 0)
        return;
    value *v = &to->values[to->nodes[n].out[0]];
    v->name = copy;
    v->output = true;
    if (loss)
        to->loss = to->nodes[n].out[0];
}

void part_outputs(graph *g, graph *to, int64_t batch)
{
    static const shape scalar = {0};
    const int values = g->nvalues, samples = count_samples(g, batch), weight = weight_value(g);
    if (samples < 0 || weight < 0)
        return;
    add_up(g, weight, g->share, -1);
    for (int v = 0; v < values && g->status == BRASA_OK; v++) {
        if (!g->values[v].output)
            continue;
        g->values[v].output = false; /* of one part: nobody can read it */
        const int from = g->values[v].producer;
        if (g->values[v].shape.rank != 0 || from < 0)
            continue;
        const bool by_weight = g->nodes[from].op->grad != NULL;
        const int sum = sum_value(g, g->values[v].name, "sum", &scalar);
        if (sum < 0)
            return;
        add_up(g, sum, v, by_weight ? g->share : samples);
        if (to)
            emit_mean(to, g->values[v].name, sum_value(to, g->values[v].name, "sum", &scalar),
                      by_weight ? weight_value(to) : graph_samples(to), v == g->loss);
    }
}
