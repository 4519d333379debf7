/* graph.c - making values and nodes. Graphs hold tens to thousands of nodes; look-ups by name are linear, and happen
 * while a network is built or compiled, never in a step. */
#include "graph/graph.h"
#include "ops/op.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void graph_init(graph *g, brasa_context *ctx)
{
    memset(g, 0, sizeof *g);
    g->ctx = ctx;
    g->pool.ctx = ctx;
    g->dialect = dialect_at(0);
    g->real = F32;
    g->fuse = FUSE_ALL;
    g->scope = "";
    g->loss = g->counter = g->samples = g->share = -1;
}

void node_close(const graph *g, node *n)
{
    if (n->state)
        n->kernel->close(g->ctx, n->state);
    n->state = NULL;
}

void graph_clear(graph *g)
{
    for (int i = 0; i < g->nnodes; i++)
        node_close(g, &g->nodes[i]);
    pool_free(&g->pool);
}

void graph_stick(graph *g, brasa_status status)
{
    if (g->status != BRASA_OK || status == BRASA_OK)
        return;
    g->status = status;
    memcpy(g->error, g->ctx->error, sizeof g->error);
}

void graph_where(graph *g, const char *path, int line)
{
    fail_prefix(g->ctx, "%s:%d", path, line);
    memcpy(g->error, g->ctx->error, sizeof g->error);
}

static int stick_memory(graph *g)
{
    graph_stick(g, fail_memory(g->ctx, 0));
    return -1;
}

int graph_find(const graph *g, const char *name)
{
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i].name && strcmp(g->values[i].name, name) == 0)
            return i;
    return -1;
}

int graph_value(graph *g, value_kind kind, dtype type, const shape *s, const char *name)
{
    if (g->status != BRASA_OK)
        return -1;
    const int64_t count = shape_count(s);
    if (count < 0 || count > MOST_ELEMENTS) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_SHAPE, "%s%s%s%s: no machine has room for a tensor of this shape",
                            name ? "'" : "", name ? name : "", name ? "': " : "", shape_print(s).text));
        return -1;
    }
    if (name && graph_find(g, name) >= 0) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "the name '%s' is taken: give the layer another", name));
        return -1;
    }
    value *grown = pool_grow(&g->pool, g->values, g->nvalues, &g->value_capacity, sizeof *grown);
    char *copy = name ? pool_text(&g->pool, "%s", name) : NULL;
    if (!grown || (name && !copy))
        return stick_memory(g);
    g->values = grown;
    g->values[g->nvalues] = (value){.name = copy,
                                    .kind = kind,
                                    .type = type,
                                    .format = {type},
                                    .shape = *s,
                                    .producer = -1,
                                    .state = -1,
                                    .whole = -1};
    return g->nvalues++;
}

/* A node with room for its inputs and outputs, not yet filled; -1 on error. */
static int add_node(graph *g, const op_def *op, const char *name, const void *attr, int nin, const int *in, int nout)
{
    if (g->status != BRASA_OK)
        return -1;
    node *grown = pool_grow(&g->pool, g->nodes, g->nnodes, &g->node_capacity, sizeof *grown);
    int *ids = pool_get(&g->pool, (size_t)(nin + nout), sizeof *ids);
    void *copy = op->attr_size ? pool_get(&g->pool, 1, op->attr_size) : NULL;
    if (!grown || !ids || (op->attr_size && !copy))
        return stick_memory(g);
    if (op->attr_size)
        memcpy(copy, attr, op->attr_size);
    if (nin)
        memcpy(ids, in, (size_t)nin * sizeof *in);
    g->nodes = grown;
    g->nodes[g->nnodes] =
        (node){.op = op, .name = name, .attr = copy, .nin = nin, .nout = nout, .in = ids, .out = ids + nin};
    return g->nnodes++;
}

/* Gives output k of a node a new value. */
static bool add_output(graph *g, int n, int k, dtype type, const shape *s)
{
    int v = graph_value(g, VALUE_TEMP, type, s, NULL);
    if (v < 0)
        return false;
    g->values[v].producer = n;
    g->nodes[n].out[k] = v;
    return true;
}

/* Inputs a pass could not make are -1; the error that says why sticks already. */
static bool inputs_made(const graph *g, int nin, const int *in)
{
    if (g->status != BRASA_OK)
        return false;
    for (int i = 0; i < nin; i++)
        if (in[i] < 0 || in[i] >= g->nvalues)
            return false;
    return true;
}

brasa_status infer_fail(infer_args *a, const char *pattern, ...)
{
    char text[512], shapes[256] = "";
    va_list args;
    va_start(args, pattern);
    vsnprintf(text, sizeof text, pattern, args);
    va_end(args);
    size_t used = 0;
    for (int i = 0; i < a->nin && used < sizeof shapes; i++)
        used +=
            (size_t)snprintf(shapes + used, sizeof shapes - used, "%s%s", i ? ", " : "", shape_print(&a->in[i]).text);
    return fail(a->g->ctx, BRASA_BAD_SHAPE, "%s '%s': %s; inputs: %s", a->op->name, a->name, text, shapes);
}

brasa_status infer_rank(infer_args *a, int i, int rank)
{
    if (a->in[i].rank == rank)
        return BRASA_OK;
    return infer_fail(a, "input %d must have %d dimensions%s", i + 1, rank,
                      rank == 4   ? " (N x C x H x W)"
                      : rank == 2 ? " (N x features); put flatten before it"
                                  : "");
}

int emit(graph *g, const op_def *op, const char *name, const void *attr, int nin, const int *in)
{
    if (!inputs_made(g, nin, in))
        return -1;
    shape *shapes = pool_get(&g->pool, (size_t)nin + 1, sizeof *shapes);
    if (!shapes)
        return stick_memory(g);
    for (int i = 0; i < nin; i++)
        shapes[i] = g->values[in[i]].shape;

    int n = add_node(g, op, name, attr, nin, in, MAX_OUT);
    if (n < 0)
        return -1;
    infer_args a = {.g = g,
                    .op = op,
                    .name = name,
                    .attr = g->nodes[n].attr,
                    .nin = nin,
                    .in = shapes,
                    .nout = 1,
                    .type = {g->real, g->real, g->real, g->real}};
    brasa_status status = op->infer(&a);
    for (int k = 0; status == BRASA_OK && k < a.nout; k++)
        if (shape_count(&a.out[k]) < 0 || shape_count(&a.out[k]) > MOST_ELEMENTS)
            status = infer_fail(&a, "the output would have the shape %s", shape_print(&a.out[k]).text);
    if (status != BRASA_OK) {
        g->nnodes--;
        graph_stick(g, status);
        return -1;
    }
    g->nodes[n].nout = a.nout;
    for (int k = 0; k < a.nout; k++)
        if (!add_output(g, n, k, a.type[k], &a.out[k]))
            return -1;
    return n;
}

int emit_like(graph *g, const op_def *op, const char *name, const void *attr, int nin, const int *in, int nout,
              const int *like)
{
    if (!inputs_made(g, nin, in) || !inputs_made(g, nout, like))
        return -1;
    int n = add_node(g, op, name, attr, nin, in, nout);
    for (int k = 0; n >= 0 && k < nout; k++) {
        shape s = g->values[like[k]].shape;
        if (!add_output(g, n, k, g->values[like[k]].type, &s))
            return -1;
    }
    return n;
}

int emit_into(graph *g, const op_def *op, const char *name, const void *attr, int nin, const int *in, int nout,
              const int *out)
{
    if (!inputs_made(g, nin, in) || !inputs_made(g, nout, out))
        return -1;
    int n = add_node(g, op, name, attr, nin, in, nout);
    if (n >= 0)
        memcpy(g->nodes[n].out, out, (size_t)nout * sizeof *out);
    return n;
}

int grad_emit(grad_args *a, const op_def *op, int nin, const int *in, int nout, const int *like)
{
    int n = emit_like(a->g, op, a->n->name, a->n->attr, nin, in, nout, like);
    if (n < 0)
        return -1;
    a->g->nodes[n].role = ROLE_GRADIENT;
    return a->g->nodes[n].out[0];
}

/* A normal of this deviation. Some dialects cut at two deviations of a wider one, whose own deviation is then so much
 * smaller. */
static initializer normal_start(const dialect *d, double deviation)
{
    const double cut = 0.87962566103423978;
    if (d->truncated_normal)
        return (initializer){START_TRUNCATED, 0, deviation / cut};
    return (initializer){START_NORMAL, 0, deviation};
}

static initializer initializer_make(const param_spec *p, const dialect *d)
{
    double in = p->fan_in, both = p->fan_in + p->fan_out, bound = 0;
    switch (p->init) {
    case INIT_CONSTANT:
        return (initializer){START_CONSTANT, p->value, 0};
    case INIT_ONE:
        return (initializer){START_CONSTANT, 1, 0};
    case INIT_HE_NORMAL:
        return normal_start(d, sqrt(2 / in));
    case INIT_GLOROT_NORMAL:
        return normal_start(d, sqrt(2 / both));
    case INIT_HE_UNIFORM:
        bound = sqrt(6 / in);
        break;
    case INIT_GLOROT_UNIFORM:
        bound = sqrt(6 / both);
        break;
    case INIT_FAN_IN_UNIFORM:
        bound = 1 / sqrt(in);
        break;
    case INIT_CAFFE_XAVIER:
        bound = sqrt(3 / in);
        break;
    case INIT_ZERO:
    case INIT_DIALECT: /* resolved before */
        return (initializer){START_CONSTANT, 0, 0};
    }
    return (initializer){START_UNIFORM, -bound, bound};
}

/* Makes the parameters of a layer and puts them behind its inputs; returns the new number of inputs or -1. */
static int add_params(graph *g, const op_def *op, const char *name, const void *attr, int nin, int *in)
{
    if (!op->params)
        return nin;
    shape *shapes = pool_get(&g->pool, (size_t)nin + 1, sizeof *shapes);
    if (!shapes)
        return stick_memory(g);
    for (int i = 0; i < nin; i++)
        shapes[i] = g->values[in[i]].shape;
    param_spec specs[MAX_PARAMS] = {{0}};
    int count = op->params(attr, shapes, nin, g->dialect, specs);
    for (int i = 0; i < count; i++) {
        char *full = pool_text(&g->pool, "%s.%s", name, specs[i].suffix);
        if (!full)
            return stick_memory(g);
        if (specs[i].init == INIT_DIALECT)
            specs[i].init = (initializer_kind)g->dialect->weight_init;
        int v = graph_value(g, specs[i].buffer ? VALUE_BUFFER : VALUE_PARAM, g->real, &specs[i].shape, full);
        if (v < 0)
            return -1;
        g->values[v].start = initializer_make(&specs[i], g->dialect);
        in[nin++] = v;
    }
    return nin;
}

/* Labels go where labels are wanted, and nowhere else; and there are no more classes than the layer tells apart. */
static brasa_status check_types(graph *g, const op_def *op, int nin, const int *in)
{
    for (int i = 0; i < nin; i++) {
        const value *v = &g->values[in[i]];
        const bool wanted = i < 32 && op->labels & 1u << i, classes = v->type == I32;
        if (classes != wanted)
            return fail(g->ctx, BRASA_BAD_ARGUMENT, "%s: input %d must be %s, not %s", op->name, i + 1,
                        wanted ? "labels" : "real numbers", wanted ? "real numbers" : "labels");
        const shape *rows = &g->values[in[0]].shape;
        if (wanted && rows->rank == 2 && v->classes > rows->dim[1])
            return fail(g->ctx, BRASA_BAD_SHAPE, "%s: the labels '%s' are of %d classes, but input 1 is %s", op->name,
                        v->name, v->classes, shape_print(rows).text);
    }
    return BRASA_OK;
}

int graph_apply(graph *g, const op_def *op, const char *name, const void *attr, int nin, const int *in)
{
    if (!inputs_made(g, nin, in))
        return -1;
    if (nin < op->min_in || (op->max_in && nin > op->max_in)) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "%s: takes %d%s input%s, got %d", op->name, op->min_in,
                            op->max_in == op->min_in ? "" : " or more", op->min_in == 1 ? "" : "s", nin));
        return -1;
    }
    brasa_status status = check_types(g, op, nin, in);
    if (status != BRASA_OK) {
        graph_stick(g, status);
        return -1;
    }
    g->layers++;
    char *full = name && name[0] ? pool_text(&g->pool, "%s%s", g->scope, name)
                                 : pool_text(&g->pool, "%s%s_%d", g->scope, op->name, g->layers);
    int *all = pool_get(&g->pool, (size_t)(nin + MAX_PARAMS), sizeof *all);
    if (!full || !all)
        return stick_memory(g);
    memcpy(all, in, (size_t)nin * sizeof *in);
    nin = add_params(g, op, full, attr, nin, all);
    int n = nin < 0 ? -1 : emit(g, op, full, attr, nin, all);
    return n < 0 ? -1 : g->nodes[n].out[0];
}

int graph_counter(graph *g)
{
    if (g->counter < 0)
        g->counter = graph_value(g, VALUE_COUNTER, I64, &(shape){0}, STEPS_NAME);
    return g->counter;
}

int graph_samples(graph *g)
{
    if (g->samples < 0)
        g->samples = graph_value(g, VALUE_SUM, I64, &(shape){0}, SAMPLES_NAME);
    return g->samples;
}

brasa_status graph_arrange(graph *g, const int *order, int count)
{
    node *arranged = pool_get(&g->pool, (size_t)count + 1, sizeof *arranged);
    if (!arranged)
        return fail_memory(g->ctx, (size_t)count * sizeof *arranged);
    for (int k = 0; k < count; k++) {
        arranged[k] = g->nodes[order[k]];
        for (int j = 0; j < arranged[k].nout; j++)
            if (g->values[arranged[k].out[j]].kind == VALUE_TEMP)
                g->values[arranged[k].out[j]].producer = k;
    }
    g->nodes = arranged;
    g->nnodes = count;
    g->node_capacity = count + 1;
    return BRASA_OK;
}

void graph_sweep(graph *g)
{
    int kept = 0;
    for (int i = 0; i < g->nnodes; i++) {
        if (g->nodes[i].dead)
            continue;
        g->nodes[kept] = g->nodes[i];
        for (int k = 0; k < g->nodes[kept].nout; k++) {
            value *v = &g->values[g->nodes[kept].out[k]];
            if (v->producer == i)
                v->producer = kept;
        }
        kept++;
    }
    g->nnodes = kept;
}
