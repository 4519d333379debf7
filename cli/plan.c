/* plan.c - `brasa plan`: what a training needs, to the byte, whether it fits, and what would. With --data
 * the training's own code answers, so both always say the same. */
#include "device.h"
#include "network.h"

#include "device/device.h"
#include "train/train.h"

#include <inttypes.h>

/* The rows of the account: their sum is the total. */
typedef struct row {
    const char *name;
    uint64_t bytes;
} row;
enum { ROWS = 10 };

/* What a training takes: its session, and what stands beside it in the same memory. */
typedef struct need {
    brasa_memory memory;
    uint64_t loader, kept;
} need;

static uint64_t total(const need *n)
{
    return n->memory.total + n->loader + n->kept;
}

static void make_rows(row *rows, const need *n)
{
    const brasa_memory *m = &n->memory;
    const row all[ROWS] = {
        {"weights", m->weights},
        {"buffers", m->buffers},
        {"gradients", m->gradients},
        {"sums", m->accumulated},
        {"optimizer", m->optimizer},
        {"activations", m->activations},
        {"workspace", m->workspace},
        {"loader", n->loader},
        {"kept", n->kept},
        {"alignment", m->total - m->weights - m->buffers - m->gradients - m->accumulated - m->optimizer -
                          m->activations - m->workspace},
    };
    for (int i = 0; i < ROWS; i++)
        rows[i] = all[i];
}

/* --- what is asked ------------------------------------------------------------------------------------------- */

typedef struct plan {
    const brasa_context *context;
    int32_t precision;
    train_needs n;
    need whole, at_most, in_parts;
    bool fits;
    shape_text input; /* where no data are given: the size of pictures that is assumed; "": data are */
} plan;

static need beside(const plan *p, const brasa_memory *m, int64_t size, int64_t parts)
{
    return (need){.memory = *m, .loader = fit_need(m, &p->n.budget, size, parts) - m->total};
}

/* A training that would begin is known to the byte; of what would not, the least that it needs. A device
 * with memory of its own has the session there, pictures on their way, and those that stay: what the host has beside
 * it is told apart. */
static void sort_out(plan *p)
{
    const fit *f = &p->n.fit;
    need begun = {.memory = p->n.memory};
    if (p->context->device->host_memory) {
        begun.loader = (uint64_t)p->n.loader;
        begun.kept = (uint64_t)p->n.kept;
    } else {
        begun.loader = (uint64_t)p->n.upload;
        begun.kept = (uint64_t)p->n.stay;
    }
    p->fits = p->n.parts == 1;
    p->whole = p->fits || f->fits ? begun : beside(p, &f->whole, p->n.batch, 1);
    p->at_most = beside(p, &f->at_most, f->most, 1);
    p->in_parts = begun;
}

/* The training itself is asked. */
static int plan_with_data(plan *p, brasa_context *ctx, const options *o)
{
    tuning kernels;
    tuning_start(&kernels, o);
    train_options t = {.tuning = tuning_wish(&kernels)};
    int code = train_settings_of(ctx, o, &t.settings);
    if (code != DONE)
        return code;
    brasa_status status = train_plan(ctx, &t, &p->n);
    return status == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_context_error(ctx));
}

/* Loaders of pictures in files that have the input's size, one that trains and one that tests; nothing is kept. */
static fit_budget assume(plan *p, const graph *g)
{
    fit_budget b = {0};
    for (int v = 0; v < g->nvalues; v++) {
        const value *x = &g->values[v];
        if (x->kind != VALUE_INPUT || x->classes || x->shape.rank > 4)
            continue;
        int of[3] = {0};
        shape one = {.rank = x->shape.rank - 1};
        for (int d = 1; d < x->shape.rank; d++)
            of[d - 1] = (int)(one.dim[d - 1] = x->shape.dim[d]);
        const dataset set = {.numbers = x->shape.rank == 2};
        const feeder_options f = {.set = &set};
        const int64_t first = loader_bytes(&f, &(loader_options){.batch = 1}, of),
                      next = loader_bytes(&f, &(loader_options){.batch = 2}, of) - first;
        b.beside += (uint64_t)(feeder_bytes(&f, of) + 2 * (first - next));
        b.beside_sample += (uint64_t)next;
        b.beside_part += (uint64_t)next;
        p->input = shape_print(&one);
    }
    return b;
}

static int plan_alone(plan *p, network *n, const options *o)
{
    int code = network_build(n, o);
    if (code != DONE)
        return code;
    tuning_start(&n->tuning, o);
    const brasa_session_options s = {.size = sizeof s,
                                     .batch = o->batch,
                                     .optimizer = o->optimizer ? o->optimizer : TRAIN_OPTIMIZER,
                                     .precision = n->precision,
                                     .tuning = tuning_wish(&n->tuning)};
    fit *f = &p->n.fit;
    const fit_budget loaders = assume(p, n->graph);
    p->n.batch = o->batch;
    p->n.budget = n->context->device->host_memory ? loaders : (fit_budget){.enough = !o->mem};
    p->n.budget.bytes = fit_budget_bytes(n->context, (int64_t)o->mem);
    if (fit_batch(n->graph, &s, &p->n.budget, f) != BRASA_OK)
        return complain(FAILED, "%s", brasa_graph_error(n->graph));
    p->n.parts = p->n.budget.bytes ? f->parts : 1;
    p->n.memory = p->n.parts > 1 ? f->in_parts : f->whole;
    p->n.loader =
        (int64_t)(fit_need(&p->n.memory, &loaders, o->batch, p->n.parts ? p->n.parts : 1) - p->n.memory.total);
    return DONE;
}

/* --- the answer ---------------------------------------------------------------------------------------------- */

static void print_rows(const need *n)
{
    row rows[ROWS];
    make_rows(rows, n);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].bytes)
            printf("  %-12s %8s  %16s\n", rows[i].name, print_bytes((double)rows[i].bytes).text,
                   print_count((int64_t)rows[i].bytes).text);
    printf("  %-12s %8s  %16s\n", "total", print_bytes((double)total(n)).text, print_count((int64_t)total(n)).text);
}

/* Beside a device's memory: the host has the loaders, the kept pictures, and a copy of what lasts. */
static uint64_t on_the_host(const plan *p)
{
    const brasa_memory *m = &p->n.memory;
    return (uint64_t)p->n.loader + (uint64_t)p->n.kept + m->host_copy;
}

static void print_answer(const plan *p)
{
    const fit *f = &p->n.fit;
    const int64_t size = p->n.batch;
    const double budget = (double)p->n.budget.bytes;
    const bool here = p->context->device->host_memory;
    const char *verdict = budget <= 0 ? "" : p->fits ? ": fits " : ": does not fit ";
    printf("needs %s at batch %" PRId64 "%s%s%s%s\n", print_bytes((double)total(&p->whole)).text, size, verdict,
           budget > 0 ? fit_budget_text(p->n.budget.bytes).text : "", here ? "" : " of ",
           here ? "" : print_place(p->context, p->precision).text);
    print_rows(&p->whole);
    if (!here)
        printf("and %s of the host's memory: loader, kept pictures, a copy of what lasts\n",
               print_bytes((double)on_the_host(p)).text);
    if (p->input.text[0])
        printf("loader: for samples of %s in files; with --data it is counted for a set\n", p->input.text);
    if (budget <= 0 || (p->fits && !f->most))
        return;
    if (f->most)
        printf("fits at batch %" PRId64 "%s: %s\n", f->most, f->most == FIT_MOST_SAMPLES ? " and more" : "",
               print_bytes((double)total(&p->at_most)).text);
    else
        printf("no batch fits: one sample needs more\n");
    if (f->why[0])
        printf("%s\n", f->why);
    else if (p->n.parts > 1)
        printf("batch %" PRId64 " fits as %" PRId64 " micro-batches of %" PRId64 ", with the same result: %s\n", size,
               p->n.parts, size / p->n.parts, print_bytes((double)total(&p->in_parts)).text);
    else if (!p->n.parts && size > 1)
        printf("batch %" PRId64 " does not fit in micro-batches either\n", size);
}

static void json_need(json *j, const char *key, const need *n)
{
    row rows[ROWS];
    make_rows(rows, n);
    json_open(j, key, '{');
    for (int i = 0; i < ROWS; i++)
        json_int(j, rows[i].name, (int64_t)rows[i].bytes);
    json_int(j, "total", (int64_t)total(n));
    json_close(j, '}');
}

static void json_answer(const options *o, const plan *p)
{
    const fit *f = &p->n.fit;
    json j = json_stdout();
    json_open(&j, NULL, '{');
    json_text(&j, "model", o->word[0]);
    json_text(&j, "data", o->data);
    json_int(&j, "batch", p->n.batch);
    place_json(&j, p->context, p->precision);
    json_need(&j, "needs", &p->whole);
    if (!p->context->device->host_memory)
        json_int(&j, "needs_of_host", (int64_t)on_the_host(p));
    if (p->n.budget.bytes) {
        json_int(&j, "budget", (int64_t)p->n.budget.bytes);
        json_bool(&j, "fits", p->fits);
        if (f->most || !p->fits) /* else nobody has looked */
            json_int(&j, "largest_batch", f->most);
        json_int(&j, "parts", p->n.parts);
        json_text(&j, "cannot_split", f->why[0] ? f->why : NULL);
        if (f->most)
            json_need(&j, "needs_at_largest_batch", &p->at_most);
        if (p->n.parts)
            json_need(&j, "needs_in_parts", &p->in_parts);
    }
    json_close(&j, '}');
}

int run_plan(const options *o)
{
    static const char *const of_training[] = {"class-weights", "clip-norm", "deterministic", "fold",
                                              "folds",         "freeze",    "no-augment",    "schedule",
                                              "skip-bad",      "split",     "transform"};
    if (o->data && o->classes)
        return complain(MISUSED, "--classes: there are as many as --data has");
    for (size_t i = 0; !o->data && i < sizeof of_training / sizeof of_training[0]; i++)
        if (option_given(o, of_training[i]))
            return complain(MISUSED, "--%s needs --data", of_training[i]);
    network n;
    plan p = {0};
    int code = network_start(&n, o);
    p.context = n.context;
    p.precision = n.precision;
    if (code == DONE)
        code = o->data ? plan_with_data(&p, n.context, o) : plan_alone(&p, &n, o);
    if (code == DONE) {
        sort_out(&p);
        if (o->json)
            json_answer(o, &p);
        else
            print_answer(&p);
    }
    network_close(&n);
    return code;
}
