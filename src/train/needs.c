/* needs.c - what a training would need, planned by the code that trains: brasa_trainer_plan. */
#include "core/options.h"
#include "train/train.h"

#include "device/device.h"

#include <string.h>

/* Of a network alone: loaders of images in files that have the input's size, one that trains and one that tests;
 * nothing is kept. */
static fit_budget assume_loaders(const graph *g)
{
    fit_budget b = {0};
    for (int v = 0; v < g->nvalues; v++) {
        const value *x = &g->values[v];
        if (x->kind != VALUE_INPUT || x->classes || x->shape.rank > 4)
            continue;
        int of[3] = {0};
        for (int d = 1; d < x->shape.rank; d++)
            of[d - 1] = (int)x->shape.dim[d];
        const dataset set = {.numbers = x->shape.rank == 2};
        const feeder_options f = {.set = &set};
        const int64_t first = loader_bytes(&f, &(loader_options){.batch = 1}, of),
                      next = loader_bytes(&f, &(loader_options){.batch = 2}, of) - first;
        b.beside += (uint64_t)(feeder_bytes(&f, of) + 2 * (first - next));
        b.beside_sample += (uint64_t)next;
        b.beside_part += (uint64_t)next;
    }
    return b;
}

static brasa_status plan_network(training *t, train_needs *n)
{
    brasa_trainer_options *s = &t->task.settings;
    brasa_context *ctx = t->task.ctx;
    s->data = "";
    s->batch = s->batch ? s->batch : 1;
    brasa_session_options o = {.size = sizeof o, .tuning = t->options.tuning};
    brasa_status status = settings_complete(ctx, s);
    if (status == BRASA_OK)
        status = precision_read(ctx, s->precision, &o.precision);
    if (status != BRASA_OK)
        return status;
    if (!t->options.graph && !(t->task.graph = brasa_graph_new(ctx)))
        return fail_memory(ctx, sizeof *t->task.graph);
    brasa_graph *g = t->options.graph ? t->options.graph : t->task.graph;
    if (g == t->task.graph && (status = brasa_graph_set_dialect(g, s->dialect)) == BRASA_OK)
        status = brasa_model_build(g, s->model, 0);
    o.batch = s->batch;
    o.optimizer = s->optimizer;
    const fit_budget loaders = assume_loaders(g);
    n->batch = s->batch;
    n->budget = ctx->device->host_memory ? loaders : (fit_budget){.enough = !s->memory_limit};
    n->budget.bytes = fit_budget_bytes(ctx, s->memory_limit);
    if (status == BRASA_OK)
        status = fit_batch(g, &o, &n->budget, &n->fit);
    n->parts = n->budget.bytes ? n->fit.parts : 1;
    n->memory = n->parts > 1 ? n->fit.in_parts : n->fit.whole;
    n->loader = (int64_t)(fit_need(&n->memory, &loaders, s->batch, n->parts ? n->parts : 1) - n->memory.total);
    return status;
}

static brasa_status plan_training(training *t, train_needs *n)
{
    const brasa_trainer_options *s = &t->task.settings;
    t->needs = n;
    brasa_status status = train_begin(t);
    if (status == BRASA_OK)
        status = unit_plan(t, s->folds && !s->fold ? 1 : (int)s->fold);
    n->memory = t->unit.memory;
    return status;
}

/* A training that would begin is known to the byte; of one that would not, the least that it needs. A device with
 * memory of its own has the session there, images on their way, and those that stay: the host's is told apart. */
static brasa_plan plan_of(const training *t, const train_needs *n)
{
    const fit *f = &n->fit;
    const bool apart = !t->task.ctx->device->host_memory, begins = n->parts == 1 || f->fits;
    brasa_plan p = {.size = sizeof p,
                    .batch = n->batch,
                    .micro_batches = n->parts,
                    .largest_batch = f->most,
                    .budget = n->budget.bytes,
                    .host = apart ? (uint64_t)(n->loader + n->kept) + n->memory.host_copy : 0,
                    .memory = {begins ? n->memory : f->whole, f->at_most, n->memory}};
    for (int i = 0; i < 3; i++) {
        const bool begun = i == 2 || (i == 0 && begins);
        const int64_t size = i == 1 ? f->most : n->batch;
        p.loader[i] = begun ? (uint64_t)(apart ? n->upload : n->loader)
                            : fit_need(&p.memory[i], &n->budget, size, 1) - p.memory[i].total;
        p.images[i] = begun ? (uint64_t)(apart ? n->stay : n->kept) : 0;
    }
    memcpy(p.reason, f->why, sizeof p.reason);
    return p;
}

brasa_status brasa_trainer_plan(brasa_context *ctx, const brasa_trainer_options *options, brasa_plan *out)
{
    training *t = NULL;
    train_needs n = {0};
    brasa_status status = trainer_new(ctx, options, true, &t);
    if (status == BRASA_OK)
        status = t->task.settings.data || t->options.dataset ? plan_training(t, &n) : plan_network(t, &n);
    if (status == BRASA_OK) {
        const brasa_plan mine = plan_of(t, &n);
        status = options_give(ctx, out, &mine, sizeof mine, "brasa_plan");
    }
    brasa_trainer_free(t);
    return status;
}
