/* lower.c - the first pass: a user's graph becomes a program for one batch size and one mode.
 *
 * Inputs get their batch size, every shape is inferred again, ops that differ between training and evaluation
 * (dropout, batch norm) put what they mean in their place.
 */
#include "graph/graph.h"
#include "ops/op.h"
#include "ops/pictures/pictures.h"

#include <string.h>

/* In the place of an input: a node that makes it of the bytes of pictures. */
static int emit_pictures(graph *to, const pictures_input *p, const value *v, int64_t batch)
{
    const shape s = shape_2(batch, VIEW_NUMBERS);
    const int views = graph_value(to, VALUE_INPUT, I64, &s, p->views);
    const int n = views < 0 ? -1 : emit(to, &pictures_op, v->name, &p->attr, 1, &views);
    if (n < 0)
        return -1;
    to->values[views].batched = true;
    const int out = to->nodes[n].out[0];
    to->values[out].name = v->output ? v->name : NULL;
    to->values[out].output = v->output;
    return out;
}

/* The program's copy of a value that no node makes. */
static int copy_value(graph *to, const graph *from, const value *v, int64_t batch)
{
    shape s = v->shape;
    if (from->pictures && v->kind == VALUE_INPUT && strcmp(v->name, from->pictures->input) == 0)
        return emit_pictures(to, from->pictures, v, batch);
    if (v->batched)
        s.dim[0] = batch;
    int id = graph_value(to, v->kind, v->type == F32 ? to->real : v->type, &s, v->name);
    if (id >= 0) {
        to->values[id].batched = v->batched;
        to->values[id].classes = v->classes;
        to->values[id].start = v->start;
        to->values[id].output = v->output;
    }
    return id;
}

void lower_copy(lower_args *a)
{
    int n = emit(a->g, a->n->op, a->n->name, a->n->attr, a->n->nin, a->in);
    for (int k = 0; n >= 0 && k < a->n->nout; k++)
        a->out[k] = a->g->nodes[n].out[k];
}

/* A value has one name. Where lowering made one value of two that are outputs (dropout in evaluation), or of an
 * output and an input, the second is a view of the first. */
static int copy_output(graph *to, const value *from, int id)
{
    if (!from->output || id < 0)
        return id;
    if (to->values[id].name) {
        int n = emit_like(to, &view_op, from->name, NULL, 1, &id, 1, &id);
        if (n < 0)
            return -1;
        id = to->nodes[n].out[0];
    }
    to->values[id].name = from->name;
    to->values[id].output = true;
    return id;
}

brasa_status pass_lower(graph *to, const graph *from, int64_t batch, bool training)
{
    to->dialect = from->dialect;
    to->training = training;
    int *map = pool_get(&to->pool, (size_t)from->nvalues + 1, sizeof *map);
    if (!map)
        return fail_memory(to->ctx, (size_t)from->nvalues * sizeof *map);
    for (int v = 0; v < from->nvalues; v++)
        map[v] = from->values[v].producer < 0 ? copy_value(to, from, &from->values[v], batch) : -1;

    for (int i = 0; i < from->nnodes && to->status == BRASA_OK; i++) {
        const node *n = &from->nodes[i];
        int *in = pool_get(&to->pool, (size_t)n->nin + 1, sizeof *in);
        if (!in)
            return fail_memory(to->ctx, (size_t)n->nin * sizeof *in);
        for (int k = 0; k < n->nin; k++)
            in[k] = map[n->in[k]];
        int out[MAX_OUT] = {-1, -1, -1, -1};
        lower_args a = {.g = to, .n = n, .in = in, .out = out};
        if (n->op->lower)
            n->op->lower(&a);
        else
            lower_copy(&a);
        if (to->status != BRASA_OK && n->line)
            fail_prefix(to->ctx, "%s:%d", from->file, n->line);
        for (int k = 0; k < n->nout; k++) {
            map[n->out[k]] = to->status == BRASA_OK ? copy_output(to, &from->values[n->out[k]], out[k]) : -1;
        }
    }
    to->loss = from->loss >= 0 ? map[from->loss] : -1;
    return to->status;
}
