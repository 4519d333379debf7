/* plan.c - `brasa plan`: what a training needs, to the byte, whether it fits, and what would. With --data
 * the training's own code answers, so both always say the same. */
#include "device.h"
#include "network.h"

#include "device/device.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_BATCH = 65536 /* larger ones are not searched for */ };

/* The rows of the account: their sum is the total. */
typedef struct row {
    const char *name;
    uint64_t bytes;
} row;
enum { ROWS = 10 };

/* Index of brasa_plan. */
enum { WHOLE, LARGEST, MICRO };

static uint64_t total(const brasa_plan *p, int which)
{
    return p->memory[which].total + p->loader[which] + p->images[which];
}

static void make_rows(row *rows, const brasa_plan *p, int which)
{
    const brasa_memory *m = &p->memory[which];
    const row all[ROWS] = {
        {"weights", m->weights},
        {"buffers", m->buffers},
        {"gradients", m->gradients},
        {"sums", m->accumulated},
        {"optimizer", m->optimizer},
        {"activations", m->activations},
        {"workspace", m->workspace},
        {"loader", p->loader[which]},
        {"kept", p->images[which]},
        {"alignment", m->total - m->weights - m->buffers - m->gradients - m->accumulated - m->optimizer -
                          m->activations - m->workspace},
    };
    memcpy(rows, all, sizeof all);
}

static const char *print_budget(const brasa_plan *p, figure *text)
{
    *text = print_bytes((double)p->budget);
    return p->budget == 1 ? "what libraries leave" : text->text; /* a device without any */
}

/* --- the answer ---------------------------------------------------------------------------------------------- */

static void print_rows(const brasa_plan *p)
{
    row rows[ROWS];
    make_rows(rows, p, WHOLE);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].bytes)
            printf("  %-12s %8s  %16s\n", rows[i].name, print_bytes((double)rows[i].bytes).text,
                   print_count((int64_t)rows[i].bytes).text);
    printf("  %-12s %8s  %16s\n", "total", print_bytes((double)total(p, WHOLE)).text,
           print_count((int64_t)total(p, WHOLE)).text);
}

/* The size of a sample, which loaders of a network alone are counted for; "": it has no such input. */
static shape_text print_input(const graph *g)
{
    shape_text t = {.text = ""};
    for (int v = 0; v < g->nvalues; v++) {
        const value *x = &g->values[v];
        shape one = {.rank = x->shape.rank - 1};
        if (x->kind != VALUE_INPUT || x->classes || x->shape.rank > 4)
            continue;
        for (int d = 1; d < x->shape.rank; d++)
            one.dim[d - 1] = x->shape.dim[d];
        t = shape_print(&one);
    }
    return t;
}

static void print_answer(const options *o, const network *n, const brasa_plan *p)
{
    const bool here = n->context->device->host_memory;
    figure text;
    const bool fits = p->micro_batches == 1;
    printf("needs %s at batch %" PRId64 "%s%s%s%s\n", print_bytes((double)total(p, WHOLE)).text, p->batch,
           !p->budget ? ""
           : fits     ? ": fits "
                      : ": does not fit ",
           p->budget ? print_budget(p, &text) : "", here ? "" : " of ",
           here ? "" : print_place(n->context, n->precision).text);
    print_rows(p);
    if (!here)
        printf("and %s of the host's memory: loader, kept pictures, a copy of what lasts\n",
               print_bytes((double)p->host).text);
    const shape_text input = print_input(n->graph);
    if (!o->data && input.text[0])
        printf("loader: for samples of %s in files; with --data it is counted for a set\n", input.text);
    if (!p->budget || (fits && !p->largest_batch))
        return;
    if (p->largest_batch)
        printf("fits at batch %" PRId64 "%s: %s\n", p->largest_batch,
               p->largest_batch == MOST_BATCH ? " and more" : "", print_bytes((double)total(p, LARGEST)).text);
    else
        printf("no batch fits: one sample needs more\n");
    if (p->reason[0])
        printf("%s\n", p->reason);
    else if (p->micro_batches > 1)
        printf("batch %" PRId64 " fits as %" PRId64 " micro-batches of %" PRId64 ", with the same result: %s\n",
               p->batch, p->micro_batches, p->batch / p->micro_batches, print_bytes((double)total(p, MICRO)).text);
    else if (!p->micro_batches && p->batch > 1)
        printf("batch %" PRId64 " does not fit in micro-batches either\n", p->batch);
}

static void json_need(json *j, const char *key, const brasa_plan *p, int which)
{
    row rows[ROWS];
    make_rows(rows, p, which);
    json_open(j, key, '{');
    for (int i = 0; i < ROWS; i++)
        json_int(j, rows[i].name, (int64_t)rows[i].bytes);
    json_int(j, "total", (int64_t)total(p, which));
    json_close(j, '}');
}

static void json_answer(const options *o, const network *n, const brasa_plan *p)
{
    const bool fits = p->micro_batches == 1;
    json j = json_stdout();
    json_open(&j, NULL, '{');
    json_text(&j, "model", o->word[0]);
    json_text(&j, "data", o->data);
    json_int(&j, "batch", p->batch);
    place_json(&j, n->context, n->precision);
    json_need(&j, "needs", p, WHOLE);
    if (!n->context->device->host_memory)
        json_int(&j, "needs_of_host", (int64_t)p->host);
    if (p->budget) {
        json_int(&j, "budget", (int64_t)p->budget);
        json_bool(&j, "fits", fits);
        if (p->largest_batch || !fits) /* else nobody has looked */
            json_int(&j, "largest_batch", p->largest_batch);
        json_int(&j, "parts", p->micro_batches);
        json_text(&j, "cannot_split", p->reason[0] ? p->reason : NULL);
        if (p->largest_batch)
            json_need(&j, "needs_at_largest_batch", p, LARGEST);
        if (p->micro_batches)
            json_need(&j, "needs_in_parts", p, MICRO);
    }
    json_close(&j, '}');
}

/* The trainer is asked, of a set or, without --data, of the network alone. */
static int ask(network *n, const options *o, brasa_plan *p)
{
    brasa_trainer_options t = {.model = o->word[0], .batch = o->batch, .optimizer = o->optimizer};
    tuning_start(&n->tuning, o);
    int code = o->data ? train_settings_of(n->context, o, &t) : network_build(n, o);
    if (code != DONE)
        return code;
    t.size = sizeof t;
    t.graph = o->data ? NULL : n->graph;
    t.memory_limit = o->mem;
    t.precision = o->precision;
    t.tuning = &n->tuning.wish;
    const brasa_status status = brasa_trainer_plan(n->context, &t, p);
    return status == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_context_error(n->context));
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
    brasa_plan p = {.size = sizeof p};
    int code = network_start(&n, o);
    if (code == DONE)
        code = ask(&n, o, &p);
    if (code == DONE && o->json)
        json_answer(o, &n, &p);
    else if (code == DONE)
        print_answer(o, &n, &p);
    network_close(&n);
    return code;
}
