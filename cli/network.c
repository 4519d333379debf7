/* network.c - see network.h. */
#include "network.h"

#include "core/random.h"
#include "device.h"
#include "device/device.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

static int make_graph(network *n)
{
    n->graph = brasa_graph_new(n->context);
    return n->graph ? DONE : complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
}

int network_start(network *n, const options *o)
{
    memset(n, 0, sizeof *n);
    brasa_context_options c = {.size = sizeof c, .threads = (int32_t)o->threads};
    brasa_status status = brasa_context_new(&c, &n->context);
    if (status != BRASA_OK)
        return complain(FAILED, "%s", brasa_status_text(status));
    int code = device_use(n->context, o->device);
    if (code == DONE)
        code = device_precision(n->context, o->precision, &n->precision);
    return code == DONE ? make_graph(n) : code;
}

int network_beside(network *n, const network *from)
{
    *n = (network){.context = from->context, .borrowed = true, .precision = from->precision};
    return make_graph(n);
}

int network_build(network *n, const options *o)
{
    brasa_status status = o->dialect ? brasa_graph_set_dialect(n->graph, o->dialect) : BRASA_OK;
    if (status == BRASA_OK)
        status = brasa_model_build(n->graph, o->word[0], (int32_t)o->classes);
    return status == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_graph_error(n->graph));
}

int network_compile(network *n, const options *o, brasa_session_options s)
{
    if (o) {
        tuning_start(&n->tuning, o);
        s.tuning = &n->tuning.wish;
    }
    s.precision = n->precision;
    brasa_status status = brasa_session_new(n->graph, &s, &n->session);
    if (o)
        tuning_end(&n->tuning);
    return status == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_graph_error(n->graph));
}

void network_close(network *n)
{
    for (int i = 0; i < n->inputs; i++)
        free(n->input[i].data);
    brasa_session_free(n->session);
    brasa_graph_free(n->graph);
    if (!n->borrowed)
        brasa_context_free(n->context);
}

static void fill(const value *v, void *data, int64_t count, const random_stream *from)
{
    for (int64_t i = 0; i < count; i++) {
        if (v->type == I32)
            ((int32_t *)data)[i] = (int32_t)random_uniform(from, (uint64_t)i, 0, v->classes);
        else
            ((float *)data)[i] = (float)random_uniform(from, (uint64_t)i, 0, 1);
    }
}

int network_make_data(network *n, int64_t batch, uint64_t seed)
{
    for (int v = 0; v < n->graph->nvalues; v++) {
        const value *in = &n->graph->values[v];
        if (in->kind != VALUE_INPUT)
            continue;
        if (n->inputs == MAX_INPUTS)
            return complain(FAILED, "made-up data serves at most %d inputs", MAX_INPUTS);
        shape s = in->shape;
        if (in->batched)
            s.dim[0] = batch;
        int64_t count = shape_count(&s);
        size_t bytes = (size_t)count * dtype_size(in->type);
        void *data = malloc(bytes);
        if (!data)
            return complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
        random_stream from = {.seed = seed, .purpose = RANDOM_DATA, .stream = (uint32_t)n->inputs};
        fill(in, data, count, &from);
        n->input[n->inputs].name = in->name;
        n->input[n->inputs].data = data;
        n->input[n->inputs++].bytes = bytes;
    }
    return DONE;
}

double step_flops(const graph *g, const step *s)
{
    if (s->node->op->cost)
        return s->node->op->cost(g, s->node).flops;
    return (double)shape_count(&s->out[0].shape);
}

static double arg_bytes(const arg *a)
{
    return (double)shape_count(&a->shape) * (double)dtype_size(a->format.storage);
}

double step_bytes(const step *s)
{
    double bytes = 0;
    for (int k = 0; k < s->nin; k++) {
        bool again = false;
        for (int i = 0; i < k; i++)
            again = again || s->node->in[i] == s->node->in[k];
        bytes += again ? 0 : arg_bytes(&s->in[k]);
    }
    for (int k = 0; k < s->nout; k++)
        bytes += arg_bytes(&s->out[k]);
    return bytes;
}

double network_flops(const network *n)
{
    const program *p = n->session->current;
    double flops = 0;
    for (int i = 0; i < p->nsteps; i++)
        flops += step_flops(&p->graph, &p->steps[i]);
    return flops;
}

brasa_status network_feed(network *n)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; i < n->inputs && status == BRASA_OK; i++)
        status = brasa_feed(n->session, n->input[i].name, n->input[i].data, n->input[i].bytes);
    return status;
}

brasa_status network_step(network *n, bool training)
{
    brasa_status status = network_feed(n);
    if (status != BRASA_OK)
        return status;
    return training ? brasa_train(n->session) : brasa_evaluate(n->session);
}
