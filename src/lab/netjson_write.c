/* netjson_write.c - from a graph to JSON: see netjson.h. */
#include "lab/netjson.h"

#include "graph/graph.h"
#include "ops/op.h"
#include "ops/softmax_cross_entropy/softmax_cross_entropy.h"

#include <string.h>

/* The node that makes the logits, or -1. */
static int last_node(const graph *g)
{
    const int v = graph_find(g, "logits");
    return v < 0 ? -1 : g->values[v].producer;
}

/* --- what can be written ------------------------------------------------------------------------------------- */

static brasa_status check_loss(const graph *g, const char *name)
{
    const int logits = graph_find(g, "logits");
    const int made = g->loss < 0 ? -1 : g->values[g->loss].producer;
    const node *n = made < 0 ? NULL : &g->nodes[made];
    if (logits < 0 || last_node(g) < 0 || !n)
        return fail(g->ctx, BRASA_BAD_ARGUMENT, "%s is no classifier: it must end with `classify`", name);
    if (n->op != &softmax_cross_entropy_op || n->in[0] != logits)
        return fail(g->ctx, BRASA_BAD_ARGUMENT,
                    "%s has more losses than that of its logits: the lab compares networks that have one", name);
    const loss_attr *t = n->attr;
    if (t->smoothing != 0 || t->weights)
        return fail(g->ctx, BRASA_BAD_ARGUMENT,
                    "%s: the lab compares networks with the plain loss, without smoothing and weights", name);
    return BRASA_OK;
}

/* Whether another layer before the logits, or the one that makes them, reads what node i makes. */
static bool is_read(const graph *g, int i)
{
    for (int k = i + 1; k <= last_node(g); k++)
        for (int a = 0; a < g->nodes[k].nin; a++)
            if (g->values[g->nodes[k].in[a]].producer == i)
                return true;
    return i == last_node(g);
}

/* What stands behind the logits: the loss, and what is made to be looked at. */
static bool is_end(const node *n)
{
    return n->op == &softmax_cross_entropy_op || n->op == &accuracy_op || n->op == &softmax_op;
}

static brasa_status check_node(const graph *g, const char *name, int i)
{
    const node *n = &g->nodes[i];
    if (i > last_node(g) ? !is_end(n) : !is_read(g, i))
        return fail(g->ctx, BRASA_BAD_ARGUMENT, "%s: layer '%s' does not lead to the logits", name, n->name);
    if (i > last_node(g))
        return BRASA_OK;
    if (!netjson_has_op(n->op->name))
        return fail(g->ctx, BRASA_BAD_ARGUMENT, "%s: layer '%s': %s is not among the layers that the lab compares",
                    name, n->name, n->op->name);
    bool taken = strcmp(n->name, "image") == 0 || (i != last_node(g) && strcmp(n->name, "logits") == 0);
    for (int k = 0; k < i && !taken; k++)
        taken = strcmp(g->nodes[k].name, n->name) == 0;
    if (taken)
        return fail(g->ctx, BRASA_BAD_ARGUMENT, "%s: two layers are called '%s': the lab needs names of their own",
                    name, n->name);
    for (int a = 0; a < n->nin; a++) {
        const value *v = &g->values[n->in[a]];
        if (v->producer >= 0 && n->in[a] != g->nodes[v->producer].out[0])
            return fail(g->ctx, BRASA_BAD_ARGUMENT, "%s: layer '%s' reads the second result of '%s'", name, n->name,
                        g->nodes[v->producer].name);
    }
    return BRASA_OK;
}

brasa_status netjson_check(const graph *g, const char *name)
{
    brasa_status status = check_loss(g, name);
    int inputs = 0;
    for (int v = 0; v < g->nvalues && status == BRASA_OK; v++)
        inputs += g->values[v].kind == VALUE_INPUT && !g->values[v].classes;
    if (status == BRASA_OK && inputs != 1)
        status = fail(g->ctx, BRASA_BAD_ARGUMENT, "%s has %d inputs: the lab compares networks that have one", name,
                      inputs);
    for (int i = 0; i < g->nnodes && status == BRASA_OK; i++)
        status = check_node(g, name, i);
    return status;
}

/* --- writing ------------------------------------------------------------------------------------------------- */

static void write_numbers(json *j, const char *key, const int *numbers, int count)
{
    json_open(j, key, '[');
    for (int i = 0; i < count; i++)
        json_int(j, NULL, numbers[i]);
    json_close(j, ']');
}

static void write_settings(json *j, const field *list, const void *attr)
{
    json_open(j, "settings", '{');
    for (const field *f = list; f && f->name; f++) {
        const void *at = (const char *)attr + f->offset;
        if (f->starts) /* initial weights come in a file of their own */
            continue;
        if (f->type == FIELD_PAIR) {
            const pair *p = at;
            write_numbers(j, f->name, (const int[]){p->h, p->w}, 2);
        } else if (f->type == FIELD_PADS) {
            const pads *p = at;
            write_numbers(j, f->name, (const int[]){p->top, p->left, p->bottom, p->right}, 4);
        } else {
            field_to_json(j, f, attr);
        }
    }
    json_close(j, '}');
}

static bool learned(const value *v)
{
    return v->kind == VALUE_PARAM || v->kind == VALUE_BUFFER;
}

static const char *value_name(const graph *g, int v)
{
    const int made = g->values[v].producer;
    return made < 0 ? "image" : made == last_node(g) ? "logits" : g->nodes[made].name;
}

static void write_sizes(json *j, const char *key, const shape *s)
{
    json_open(j, key, '[');
    for (int d = 1; d < s->rank; d++)
        json_int(j, NULL, s->dim[d]);
    json_close(j, ']');
}

static void write_node(const graph *g, const node *n, json *j)
{
    json_open(j, NULL, '{');
    json_text(j, "name", n->name);
    json_text(j, "op", n->op->name);
    json_open(j, "inputs", '[');
    for (int a = 0; a < n->nin; a++)
        if (!learned(&g->values[n->in[a]]))
            json_text(j, NULL, value_name(g, n->in[a]));
    json_close(j, ']');
    json_text(j, "output", value_name(g, n->out[0]));
    write_sizes(j, "shape", &g->values[n->out[0]].shape);
    write_settings(j, n->op->fields, n->attr);
    json_open(j, "params", '{');
    for (int a = 0; a < n->nin; a++) {
        const value *v = &g->values[n->in[a]];
        if (learned(v))
            json_text(j, strrchr(v->name, '.') + 1, v->name);
    }
    json_close(j, '}');
    json_close(j, '}');
}

void netjson_write(const graph *g, const char *name, json *j)
{
    int input = 0;
    while (g->values[input].kind != VALUE_INPUT || g->values[input].classes)
        input++;
    json_open(j, NULL, '{');
    json_text(j, "name", name);
    json_text(j, "dialect", g->dialect->name);
    json_int(j, "classes", g->values[graph_find(g, "logits")].shape.dim[1]);
    json_int(j, "parameters", brasa_graph_param_total(g));
    write_sizes(j, "input", &g->values[input].shape);
    json_open(j, "nodes", '[');
    for (int i = 0; i <= last_node(g); i++)
        write_node(g, &g->nodes[i], j);
    json_close(j, ']');
    json_close(j, '}');
}
