/* plan.c - `brasa plan`: what a training needs, to the byte, whether it fits, and what would. */
#include "network.h"

#include "train/fit.h"

#include <inttypes.h>

/* The rows of the account: their sum is the total. */
typedef struct row {
    const char *name;
    uint64_t bytes;
} row;
enum { ROWS = 9 };

static void make_rows(row *rows, const brasa_memory *m)
{
    const row all[ROWS] = {
        {"weights", m->weights},
        {"buffers", m->buffers},
        {"gradients", m->gradients},
        {"sums", m->sums},
        {"optimizer", m->optimizer},
        {"activations", m->activations},
        {"workspace", m->workspace},
        {"loader", 0}, /* no data set is given here: a training adds what its loader keeps */
        {"alignment",
         m->total - m->weights - m->buffers - m->gradients - m->sums - m->optimizer - m->activations - m->workspace},
    };
    for (int i = 0; i < ROWS; i++)
        rows[i] = all[i];
}

static void print_rows(const brasa_memory *m)
{
    row rows[ROWS];
    make_rows(rows, m);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].bytes)
            printf("  %-12s %8s  %16s\n", rows[i].name, print_bytes((double)rows[i].bytes).text,
                   print_count((int64_t)rows[i].bytes).text);
    printf("  %-12s %8s  %16s\n", "total", print_bytes((double)m->total).text, print_count((int64_t)m->total).text);
}

static void print_answer(const options *o, const fit *f)
{
    const char *verdict = !o->mem ? "" : f->fits ? ": fits " : ": does not fit ";
    printf("needs %s at batch %" PRId64 "%s%s\n", print_bytes((double)f->whole.total).text, o->batch, verdict,
           o->mem ? print_bytes((double)o->mem).text : "");
    print_rows(&f->whole);
    if (!o->mem)
        return;
    if (f->most)
        printf("fits at batch %" PRId64 "%s: %s\n", f->most, f->most == FIT_MOST_SAMPLES ? " and more" : "",
               print_bytes((double)f->at_most.total).text);
    else
        printf("no batch fits: one sample needs more\n");
    if (f->why[0])
        printf("%s\n", f->why);
    else if (f->parts > 1)
        printf("batch %" PRId64 " fits as %" PRId64 " parts of %" PRId64 ", with the same result: %s\n", o->batch,
               f->parts, o->batch / f->parts, print_bytes((double)f->in_parts.total).text);
    else if (!f->parts && o->batch > 1)
        printf("batch %" PRId64 " does not fit in parts either\n", o->batch);
}

static void json_memory(json *j, const char *key, const brasa_memory *m)
{
    row rows[ROWS];
    make_rows(rows, m);
    json_open(j, key, '{');
    for (int i = 0; i < ROWS; i++)
        json_int(j, rows[i].name, (int64_t)rows[i].bytes);
    json_int(j, "total", (int64_t)m->total);
    json_close(j, '}');
}

static void json_answer(const options *o, const fit *f)
{
    json j = json_stdout();
    json_open(&j, NULL, '{');
    json_text(&j, "model", o->word[0]);
    json_int(&j, "batch", o->batch);
    json_memory(&j, "needs", &f->whole);
    if (o->mem) {
        json_int(&j, "budget", o->mem);
        json_bool(&j, "fits", f->fits);
        json_int(&j, "largest_batch", f->most);
        json_int(&j, "parts", f->parts);
        json_text(&j, "cannot_split", f->why[0] ? f->why : NULL);
        if (f->most)
            json_memory(&j, "needs_at_largest_batch", &f->at_most);
        if (f->parts)
            json_memory(&j, "needs_in_parts", &f->in_parts);
    }
    json_close(&j, '}');
}

static int answer(network *n, const options *o)
{
    tuning_start(&n->tuning, o);
    const brasa_session_options s = {.batch = o->batch, .optimizer = o->optimizer, .tuning = tuning_wish(&n->tuning)};
    const fit_budget budget = {.bytes = (uint64_t)o->mem};
    fit f;
    brasa_status status = fit_batch(n->graph, &s, &budget, &f);
    if (status != BRASA_OK)
        return complain(FAILED, "%s", brasa_graph_error(n->graph));
    if (o->json)
        json_answer(o, &f);
    else
        print_answer(o, &f);
    return DONE;
}

int run_plan(const options *o)
{
    network n;
    int code = network_start(&n, o->threads);
    if (code == DONE)
        code = network_build(&n, o);
    if (code == DONE)
        code = answer(&n, o);
    network_close(&n);
    return code;
}
