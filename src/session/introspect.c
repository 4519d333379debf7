/* introspect.c - what a graph and a session consist of. */
#include "session/session.h"

#include <string.h>

/* --- graphs ------------------------------------------------------------------------------------------------- */

static bool give_value(brasa_context *ctx, const value *v, const shape *s, brasa_value_info *out)
{
    brasa_value_info told = {.name = v->name,
                             .type = v->type == F64   ? BRASA_TYPE_F64
                                     : v->type == I32 ? BRASA_TYPE_I32
                                                      : BRASA_TYPE_F32,
                             .rank = s->rank,
                             .classes = v->classes,
                             .trainable = v->kind == VALUE_PARAM};
    memcpy(told.shape, s->dim, (size_t)s->rank * sizeof s->dim[0]);
    return options_give(ctx, out, &told, sizeof told, "brasa_value_info") == BRASA_OK;
}

bool brasa_graph_param_at(const brasa_graph *g, int32_t index, brasa_value_info *out)
{
    for (int pass = 0; g && pass < 2; pass++) { /* trained ones first */
        for (int i = 0; i < g->nvalues; i++) {
            const value *v = &g->values[i];
            if (v->kind == (pass ? VALUE_BUFFER : VALUE_PARAM) && index-- == 0)
                return give_value(g->ctx, v, &v->shape, out);
        }
    }
    return false;
}

int64_t brasa_graph_param_total(const brasa_graph *g)
{
    int64_t total = 0;
    for (int i = 0; g && i < g->nvalues; i++)
        if (g->values[i].kind == VALUE_PARAM)
            total += shape_count(&g->values[i].shape);
    return total;
}

bool brasa_graph_node_at(const brasa_graph *g, int32_t index, brasa_node_info *out)
{
    if (!g || index < 0 || index >= g->nnodes)
        return false;
    const node *n = &g->nodes[index];
    const shape *s = &g->values[n->out[0]].shape;
    brasa_node_info told = {.name = n->name,
                            .op = n->op->name,
                            .input_count = n->nin,
                            .output_count = n->nout,
                            .inputs = n->in,
                            .outputs = n->out,
                            .rank = s->rank,
                            .line = n->line};
    memcpy(told.shape, s->dim, (size_t)s->rank * sizeof s->dim[0]);
    return options_give(g->ctx, out, &told, sizeof told, "brasa_node_info") == BRASA_OK;
}

/* --- sessions ----------------------------------------------------------------------------------------------- */

/* The index-th value of a program that is fed, or that can be fetched. */
static bool session_value_at(const brasa_session *s, const program *p, bool output, int32_t index,
                             brasa_value_info *out)
{
    for (int i = 0; i < p->graph.nvalues; i++) {
        const value *v = &p->graph.values[i];
        if ((output ? v->output && v->name : p->needed[i]) && index-- == 0) {
            const shape whole = session_shape(s, v);
            return give_value(s->ctx, v, &whole, out);
        }
    }
    return false;
}

bool brasa_session_input_at(const brasa_session *s, int32_t index, brasa_value_info *out)
{
    return s && session_value_at(s, s->current, false, index, out);
}

bool brasa_session_output_at(const brasa_session *s, int32_t index, brasa_value_info *out)
{
    return s && session_value_at(s, session_last(s), true, index, out);
}
