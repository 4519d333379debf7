/* lab_campaign.h - for tests of what the lab says: campaigns made up of smooth curves and a little noise, the same
 * every time, that look like measured ones. No number here was measured. Tests make theirs in `lab`. */
#ifndef TEST_LAB_CAMPAIGN_H
#define TEST_LAB_CAMPAIGN_H

#include "lab/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CELLS = 80, MOST_ROWS = 1500, SAMPLES = 240 };

typedef struct campaign {
    pool pool;
    lab_results r;
    unsigned noise;
} campaign;

static campaign lab;

static inline brasa_context *lab_context(void)
{
    static brasa_context *ctx;
    if (!ctx && brasa_context_new(NULL, &ctx) != BRASA_OK)
        exit(1);
    return ctx;
}

/* Ends what it held before. */
static inline void campaign_begin(campaign *c, const char *name)
{
    pool_free(&c->pool);
    *c = (campaign){.pool = {.ctx = lab_context()}, .noise = 1};
    c->r = (lab_results){.id = 7,
                         .name = name,
                         .created = "2026-11-20 14:03:11",
                         .scale = "small",
                         .finished = true,
                         .text = "title      Made up\nnetwork    alexnet vgg16\nbatch      1\n",
                         .machine = "{\"processor\": \"a CPU with 2 cores\", \"threads\": 2, \"memory\": 8200000000}",
                         .brasa = "{\"version\": \"0.1.0\", \"compiler\": \"gcc 12.2.0\"}"};
    c->r.cells = pool_get(&c->pool, MOST_CELLS, sizeof *c->r.cells);
    c->r.rows = pool_get(&c->pool, MOST_ROWS, sizeof *c->r.rows);
    if (!c->r.cells || !c->r.rows)
        exit(1);
}

/* -1 ... 1 */
static inline double wobble(campaign *c)
{
    c->noise = c->noise * 1664525u + 1013904223u;
    return (double)(c->noise >> 8) / (1 << 23) - 1;
}

static inline result_cell *add_cell(campaign *c, const char *network, const char *data, int64_t images, int64_t batch)
{
    if (c->r.cell_count == MOST_CELLS)
        exit(1);
    result_cell *cell = &c->r.cells[c->r.cell_count++];
    *cell = (result_cell){.images = images, .classes = 3};
    cell->what = (lab_cell){.key = network,
                            .experiment = "main",
                            .view = "times",
                            .network = network,
                            .data = data,
                            .split = "all",
                            .optimizer = "sgd lr=0.001 momentum=0.9",
                            .dialect = "torch",
                            .device = "cpu",
                            .precision = "f32",
                            .batch = batch,
                            .epochs = 2,
                            .repeats = 3,
                            .threads = 2,
                            .timing = true};
    return cell;
}

/* A run of the newest cell. `image_s`: as measured. */
static inline result_row *add_row(campaign *c, const char *peer, const char *variant, int repeat, double image_s)
{
    if (c->r.row_count == MOST_ROWS)
        exit(1);
    result_row *row = &c->r.rows[c->r.row_count++];
    const result_cell *cell = &c->r.cells[c->r.cell_count - 1];
    *row = row_unknown();
    row->cell = c->r.cell_count - 1;
    row->peer = peer;
    row->variant = variant;
    row->repeat = repeat;
    row->status = "done";
    row->framework = peer;
    row->version = "1.2.3";
    row->detail = "{\"threads\":2}";
    row->load_before = 0.02 + 0.01 * wobble(c);
    row->fma_gflops = 98 + wobble(c);
    row->import_s = 1.4 + 0.1 * wobble(c);
    row->first_step_s = 3 * image_s * (double)cell->what.batch;
    row->epoch_s = image_s * (double)cell->images;
    row->image_s = image_s;
    row->loss = 0.9 + 0.1 * wobble(c);
    row->peak_memory = row->peak_rss = 4e8 + 3e6 * (double)cell->what.batch;
    row->peak_swap = 0;
    row->cpu_mean = 1.9 + 0.05 * wobble(c);
    row->threads_max = 4;
    row->energy_why = "no access to the counters of the processor";
    row->monitor_share = 0.004;
    row->children = 0;
    row->ctx_switches = 4211;
    row->faults = 61034;
    row->read_bytes = 12e6;
    return row;
}

static inline void fail_row(result_row *row, const char *status, const char *reason, const char *tail)
{
    row->status = status;
    row->reason = reason;
    row->tail = tail;
    row->image_s = row->epoch_s = row->first_step_s = row->accuracy = row->loss = NAN;
}

/* Three repeats, `spread` of the time apart at most. */
static inline void add_rows(campaign *c, const char *peer, const char *variant, double image_s, double spread)
{
    static const double places[] = {0, -0.5, 0.5};
    for (int i = 0; i < 3; i++)
        add_row(c, peer, variant, i + 1, image_s * (1 + spread * (places[i] + 0.01 * wobble(c))));
}

static inline void add_samples(campaign *c, result_row *row, double bytes, double threads)
{
    row->samples = pool_get(&c->pool, SAMPLES, sizeof *row->samples);
    if (!row->samples)
        exit(1);
    row->sample_count = SAMPLES;
    for (int i = 0; i < SAMPLES; i++) {
        const double t = 0.1 * i, up = 1 - exp(-t / 1.5);
        row->samples[i] = (result_sample){.at = t,
                                          .cpu = t < 1.5 ? 1 : 1.93 + 0.06 * wobble(c),
                                          .rss = 8e7 + bytes * up,
                                          .pss = i % 10 ? NAN : 7e7 + bytes * up,
                                          .threads = t < 1.5 ? 1 : threads + rint(0.6 * wobble(c)),
                                          .processes = 1,
                                          .ctx_switches = 12 + rint(3 * wobble(c)),
                                          .faults = 900,
                                          .read_bytes = 0,
                                          .phase = t < 1.5 ? "import" : "epoch",
                                          .gpu_memory = NAN,
                                          .gpu_busy = NAN,
                                          .gpu_power = NAN};
    }
}

/* The samples and figures of a run on a GPU. */
static inline void add_gpu(campaign *c, result_row *row, double bytes, double busy)
{
    add_samples(c, row, 1.2e9, 9);
    row->device_peak = 0.8 * bytes;
    row->gpu_peak = bytes;
    row->gpu_busy = busy;
    row->gpu_power = 120 + 400 * busy;
    row->gpu_energy_j = row->gpu_power * row->epoch_s;
    for (int i = 0; i < row->sample_count; i++) {
        result_sample *s = &row->samples[i];
        if (s->at < 1.5)
            continue;
        s->gpu_memory = bytes * (1 - exp(1.5 - s->at));
        s->gpu_busy = busy + 0.03 * wobble(c);
        s->gpu_power = row->gpu_power + 9 * wobble(c);
    }
}

static inline void summarize(campaign *c)
{
    if (results_summarize(&c->pool, &c->r) != BRASA_OK)
        exit(1);
}

static inline void campaign_end(void)
{
    pool_free(&lab.pool);
}

#endif
