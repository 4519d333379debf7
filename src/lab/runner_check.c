/* runner_check.c - a few steps on given batches, with all that can be compared: see runner.h.
 *
 * What every layer gives is read from a session of its own, in which all of it is kept. The steps are those of a
 * session like one that trains, where layers are merged: so the losses are those of the kernels that will be timed.
 */
#include "lab/runner.h"

#include "session/safetensors.h"
#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct given {
    pool pool;
    int64_t count; /* samples */
    float *samples;
    int32_t *labels;
    size_t bytes; /* of the samples */
} given;

/* --- the batches --------------------------------------------------------------------------------------------- */

static brasa_status read_numbers(safetensors *f, const tensor_entry *t, float *floats, int32_t *wholes)
{
    number piece[PIECE];
    const int64_t all = shape_count(&t->shape);
    for (int64_t first = 0; first < all; first += PIECE) {
        const int count = all - first < PIECE ? (int)(all - first) : PIECE;
        brasa_status status = safetensors_read(f, t, first, count, piece);
        if (status != BRASA_OK)
            return status;
        for (int i = 0; i < count; i++) {
            if (floats)
                floats[first + i] = (float)piece[i].real;
            else
                wholes[first + i] = (int32_t)piece[i].whole;
        }
    }
    return BRASA_OK;
}

/* Batch number k; its shape is the network's input. */
static brasa_status read_batch(runner *r, safetensors *f, int64_t k, given *out)
{
    char x[32], y[32];
    snprintf(x, sizeof x, "samples.%lld", (long long)k);
    snprintf(y, sizeof y, "labels.%lld", (long long)k);
    const tensor_entry *samples = safetensors_find(f, x), *labels = safetensors_find(f, y);
    if (!samples || !labels || strcmp(samples->type->name, "F32") != 0 || strcmp(labels->type->name, "I32") != 0 ||
        samples->shape.rank < 2 || shape_count(&samples->shape) < 1 || labels->shape.rank != 1 ||
        labels->shape.dim[0] != samples->shape.dim[0])
        return fail(r->ctx, BRASA_BAD_FILE, "%s: there is no batch %s (F32) with its labels %s (I32)", f->path, x, y);
    const int64_t numbers = shape_count(&samples->shape);
    *out = (given){.pool = {.ctx = r->ctx}, .count = labels->shape.dim[0]};
    out->bytes = (size_t)numbers * sizeof *out->samples;
    out->samples = pool_get(&out->pool, (size_t)numbers, sizeof *out->samples);
    out->labels = pool_get(&out->pool, (size_t)out->count, sizeof *out->labels);
    if (!out->samples || !out->labels)
        return fail_memory(r->ctx, out->bytes);
    brasa_status status = read_numbers(f, samples, out->samples, NULL);
    return status == BRASA_OK ? read_numbers(f, labels, NULL, out->labels) : status;
}

static void tell_batch(runner *r, int64_t k, const given *b)
{
    double sum = 0;
    for (size_t i = 0; i < b->bytes / sizeof *b->samples; i++)
        sum += fabs((double)b->samples[i]);
    runner_begin(r, "batch");
    json_int(&r->lines, "step", k);
    json_exact(&r->lines, "sum", sum);
    json_open(&r->lines, "labels", '[');
    for (int64_t i = 0; i < b->count; i++)
        json_int(&r->lines, NULL, b->labels[i]);
    json_close(&r->lines, ']');
    runner_end(r);
}

/* --- what is compared ---------------------------------------------------------------------------------------- */

static void tell_numbers(runner *r, const float *numbers, int64_t count)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)numbers[i];
        squares += (double)numbers[i] * (double)numbers[i];
    }
    json_exact(&r->lines, "mean", sum / (double)count);
    json_exact(&r->lines, "rms", sqrt(squares / (double)count));
}

static brasa_status step_on(brasa_session *s, const given *b)
{
    brasa_status status = brasa_use(s, true, b->count);
    if (status == BRASA_OK)
        status = brasa_feed(s, "image", b->samples, b->bytes);
    if (status == BRASA_OK)
        status = brasa_feed(s, "label", b->labels, (size_t)b->count * sizeof *b->labels);
    return status == BRASA_OK ? brasa_train(s) : status;
}

/* A layer that hands its input on, as it is or under another shape, is not kept: what it gives is known. */
static bool hands_on(const char *op)
{
    return strcmp(op, "dropout") == 0 || strcmp(op, "flatten") == 0 || strcmp(op, "reshape") == 0;
}

/* Node i or, where that hands on, the one that made what it gives; -1: the input. */
static int origin(const netjson *n, int i)
{
    while (i >= 0 && hands_on(n->nodes[i].op)) {
        int k = i - 1;
        while (k >= 0 && strcmp(n->nodes[k].output, n->nodes[i].inputs[0]) != 0)
            k--;
        i = k;
    }
    return i;
}

static void kept_name(const netjson *n, int i, char *text, size_t size)
{
    if (i == n->count - 1)
        snprintf(text, size, "logits");
    else
        snprintf(text, size, "kept.%d", i);
}

static brasa_status tell_output(runner *r, brasa_session *s, const given *b, const shape *of, int i)
{
    const netjson *n = &r->network;
    const int from = origin(n, i);
    const int64_t count = b->count * shape_span(of, 1, of->rank);
    char name[32];
    pool p = {.ctx = r->ctx};
    brasa_status status = BRASA_OK;
    const float *numbers = b->samples;
    if (from >= 0) {
        float *copy = pool_get(&p, (size_t)count, sizeof *copy);
        kept_name(n, from, name, sizeof name);
        status = copy ? brasa_fetch(s, name, copy, (size_t)count * sizeof *copy)
                      : fail_memory(r->ctx, (size_t)count * sizeof *copy);
        numbers = copy;
    }
    if (status == BRASA_OK) {
        runner_begin(r, "output");
        json_text(&r->lines, "node", n->nodes[i].name);
        json_open(&r->lines, "shape", '[');
        for (int d = 1; d < of->rank; d++)
            json_int(&r->lines, NULL, of->dim[d]);
        json_close(&r->lines, ']');
        tell_numbers(r, numbers, count);
        runner_end(r);
    }
    pool_free(&p);
    return status;
}

static brasa_status tell_outputs(runner *r, const given *b)
{
    const netjson *n = &r->network;
    pool p = {.ctx = r->ctx};
    brasa_graph *g = NULL;
    brasa_session *s = NULL;
    brasa_tensor *made = pool_get(&p, (size_t)n->count, sizeof *made);
    brasa_status status = made ? runner_graph(r, false, made, &g) : fail_memory(r->ctx, sizeof *made);
    for (int i = 0; i < n->count - 1 && status == BRASA_OK; i++) {
        char name[32];
        kept_name(n, i, name, sizeof name);
        if (!hands_on(n->nodes[i].op))
            brasa_output(made[i], name);
    }
    if (status == BRASA_OK)
        status = runner_session(r, g, b->count, NULL, &s);
    if (status == BRASA_OK)
        status = step_on(s, b);
    for (int i = 0; i < n->count && status == BRASA_OK; i++)
        status = tell_output(r, s, b, &g->values[made[i].id].shape, i);
    brasa_session_free(s);
    brasa_graph_free(g);
    pool_free(&p);
    return status;
}

static brasa_status tell_params(runner *r, brasa_graph *g, brasa_session *s, const char *event, int64_t k)
{
    brasa_value_info info = {.size = sizeof info};
    brasa_status status = BRASA_OK;
    for (int i = 0; status == BRASA_OK && brasa_graph_param_at(g, i, &info) && info.trainable; i++) {
        pool p = {.ctx = r->ctx};
        int64_t count = 1;
        for (int d = 0; d < info.rank; d++)
            count *= info.shape[d];
        float *numbers = pool_get(&p, (size_t)count, sizeof *numbers);
        status = numbers ? brasa_param_get(s, info.name, numbers, count)
                         : fail_memory(r->ctx, (size_t)count * sizeof *numbers);
        if (status == BRASA_OK) {
            runner_begin(r, event);
            json_int(&r->lines, "step", k);
            json_text(&r->lines, "name", info.name);
            tell_numbers(r, numbers, count);
            runner_end(r);
        }
        pool_free(&p);
    }
    return status;
}

static brasa_status tell_loss(runner *r, brasa_session *s, const char *event, int64_t k)
{
    float loss;
    brasa_status status = brasa_fetch(s, "loss", &loss, sizeof loss);
    if (status != BRASA_OK)
        return status;
    runner_begin(r, event);
    json_int(&r->lines, "step", k);
    json_exact(&r->lines, "loss", (double)loss);
    runner_end(r);
    return BRASA_OK;
}

/* --- the steps ----------------------------------------------------------------------------------------------- */

typedef struct steps {
    brasa_graph *graph;
    brasa_session *session;
} steps;

static brasa_status do_step(runner *r, steps *t, const given *b, int64_t k)
{
    tell_batch(r, k, b);
    brasa_status status = BRASA_OK;
    if (k == 0) {
        status = tell_outputs(r, b);
        if (status == BRASA_OK)
            status = runner_graph(r, false, NULL, &t->graph);
        if (status == BRASA_OK)
            status = runner_session(r, t->graph, b->count, r->tuning, &t->session);
    }
    if (status == BRASA_OK)
        status = step_on(t->session, b);
    if (status == BRASA_OK)
        status = tell_loss(r, t->session, "loss", k);
    if (status == BRASA_OK && (k == 0 || k == r->errand->steps - 1))
        status = tell_params(r, t->graph, t->session, "param", k);
    return status;
}

/* --- what rounding makes of it ------------------------------------------------------------------------------- */

/* A third of all numbers one bit up, a third one bit down; the other `way`, other ones. The bit is the last one that
 * the precision has of a factor: a step in it is this share of a number, or less. */
static void nudge(float *numbers, int64_t count, int32_t precision, uint32_t way)
{
    static const float shares[] = {[BRASA_F32] = 0, [BRASA_TF32] = 0x1p-10f, [BRASA_BF16] = 0x1p-7f};
    const float share = shares[precision];
    for (int64_t i = 0; i < count; i++) {
        const uint32_t draw = (((uint32_t)i + way) * UINT32_C(2654435761) >> 16) % 3;
        if (draw && share > 0)
            numbers[i] *= draw == 1 ? 1 + share : 1 - share;
        else if (draw && numbers[i] != 0)
            numbers[i] = nextafterf(numbers[i], draw == 1 ? INFINITY : -INFINITY);
    }
}

static brasa_status nudge_params(runner *r, const steps *t, uint32_t way)
{
    brasa_value_info info = {.size = sizeof info};
    brasa_status status = BRASA_OK;
    for (int i = 0; status == BRASA_OK && brasa_graph_param_at(t->graph, i, &info) && info.trainable; i++) {
        pool p = {.ctx = r->ctx};
        int64_t count = 1;
        for (int d = 0; d < info.rank; d++)
            count *= info.shape[d];
        float *numbers = pool_get(&p, (size_t)count, sizeof *numbers);
        status = numbers ? brasa_param_get(t->session, info.name, numbers, count)
                         : fail_memory(r->ctx, (size_t)count * sizeof *numbers);
        if (status == BRASA_OK) {
            nudge(numbers, count, r->precision, way);
            status = brasa_param_set(t->session, info.name, numbers, count);
        }
        pool_free(&p);
    }
    return status;
}

/* The same steps from weights that differ in their last bits. Deep networks with batch norm make a lot of that: 9 %
 * of ResNet-50's third loss at batch 2, some percents of MobileNetV2's first update. No two frameworks can agree
 * better. */
static brasa_status tell_noise(runner *r, safetensors *f, uint32_t way)
{
    steps t = {0};
    brasa_status status = runner_graph(r, false, NULL, &t.graph);
    for (int64_t k = 0; k < r->errand->steps && status == BRASA_OK; k++) {
        given b = {.pool = {.ctx = r->ctx}};
        status = read_batch(r, f, k, &b);
        if (status == BRASA_OK && k == 0)
            status = runner_session(r, t.graph, b.count, NULL, &t.session);
        if (status == BRASA_OK && k == 0)
            status = nudge_params(r, &t, way);
        if (status == BRASA_OK)
            status = step_on(t.session, &b);
        if (status == BRASA_OK)
            status = tell_loss(r, t.session, "noise", k);
        if (status == BRASA_OK && (k == 0 || k == r->errand->steps - 1))
            status = tell_params(r, t.graph, t.session, "noise_param", k);
        pool_free(&b.pool);
    }
    brasa_session_free(t.session);
    brasa_graph_free(t.graph);
    return status;
}

brasa_status runner_check(runner *r)
{
    safetensors *f = NULL;
    steps t = {0};
    brasa_status status = safetensors_open(r->ctx, r->errand->batches, &f);
    for (int64_t k = 0; k < r->errand->steps && status == BRASA_OK; k++) {
        given b = {.pool = {.ctx = r->ctx}};
        status = read_batch(r, f, k, &b);
        if (status == BRASA_OK)
            status = do_step(r, &t, &b, k);
        pool_free(&b.pool);
    }
    brasa_session_free(t.session);
    brasa_graph_free(t.graph);
    for (uint32_t way = 0; way < 2 && status == BRASA_OK; way++)
        status = tell_noise(r, f, way);
    safetensors_close(f);
    return status;
}
