/* lab.h - for tests of the lab: a cell to begin from, and Brasa's runner with its lines in memory. */
#ifndef TEST_LAB_H
#define TEST_LAB_H

#include "data_files.h"

#include "lab/exchange.h"
#include "lab/line.h"
#include "lab/runner.h"

/* Six dense layers' worth of nothing special: small, quick, and learnable. */
static inline lab_cell cell_of(const char *network, const char *data)
{
    return (lab_cell){.key = "key",
                      .experiment = "test",
                      .view = "times",
                      .network = network,
                      .data = data,
                      .split = "70/30",
                      .optimizer = "sgd lr=0.01 momentum=0.9",
                      .dialect = "torch",
                      .device = "cpu",
                      .precision = "f32",
                      .batch = 32,
                      .epochs = 2,
                      .repeats = 1,
                      .threads = 1,
                      .seed = 5,
                      .limit = 60};
}

/* What a runner prints, to be freed. */
typedef struct printed {
    char *text;
    size_t length;
} printed;

static inline bool print_into(void *user, const char *text, size_t length)
{
    printed *p = user;
    char *grown = realloc(p->text, p->length + length + 1);
    if (!grown)
        return false;
    memcpy(grown + p->length, text, length);
    p->text = grown;
    p->length += length;
    p->text[p->length] = '\0';
    return true;
}

/* Does an errand, without timing kernels. */
static inline brasa_status run_errand(brasa_context *ctx, const errand *e, printed *out)
{
    *out = (printed){0};
    runner r = {.ctx = ctx, .errand = e, .lines = {.write = print_into, .user = out}};
    brasa_status status = runner_takes(&r) ? runner_run(&r) : BRASA_OK;
    runner_close(&r);
    return status;
}

/* The n-th line of an event, from 0; false: there is none. Texts stay in the pool. */
static inline bool line_at(pool *p, const printed *from, line_event event, int n, lab_line *out)
{
    for (const char *at = from->text, *end; at && (end = strchr(at, '\n')); at = end + 1)
        if (lab_line_read(p, at, (size_t)(end - at), out) == BRASA_OK && out->event == event && n-- == 0)
            return true;
    return false;
}

#endif
