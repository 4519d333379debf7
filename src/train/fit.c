/* fit.c - see fit.h. */
#include "train/fit.h"
#include "device/device.h"
#include "session/session.h"

#include <stdio.h>

typedef struct search {
    brasa_graph *graph;
    brasa_session_options options;
    const fit_budget *budget;
} search;

/* Of what is free on a device, what is left to the libraries' own. */
static uint64_t for_libraries(uint64_t left)
{
    return (256u << 20) + left / 64;
}

uint64_t fit_device_bytes(const brasa_context *ctx)
{
    device *d = ctx->device;
    if (d->host_memory)
        return 0;
    const uint64_t left = d->free_memory(d), kept = for_libraries(left);
    return left > kept ? left - kept : 1;
}

uint64_t fit_budget_bytes(const brasa_context *ctx, int64_t wish)
{
    const uint64_t wished = (uint64_t)wish, there = ctx->device->host_memory ? wished : fit_device_bytes(ctx);
    return wish && wished < there ? wished : there;
}

bytes_text fit_budget_text(uint64_t bytes)
{
    bytes_text t = numeric_bytes((double)bytes);
    if (bytes == 1) /* a device without any */
        snprintf(t.text, sizeof t.text, "what libraries leave");
    return t;
}

bool fit_device_has(const brasa_context *ctx, uint64_t bytes)
{
    device *d = ctx->device;
    const uint64_t left = d->free_memory(d), kept = for_libraries(left);
    return left >= kept && bytes <= left - kept;
}

uint64_t fit_need(const brasa_memory *m, const fit_budget *b, int64_t batch, int64_t parts)
{
    return m->total + b->beside + b->beside_sample * (uint64_t)batch + b->beside_part * (uint64_t)(batch / parts);
}

static brasa_status plan(const search *q, int64_t batch, int64_t parts, brasa_memory *m)
{
    brasa_session *s = NULL;
    brasa_session_options o = q->options;
    o.batch = batch;
    o.micro_batches = parts;
    o.plan_only = true;
    brasa_status status = brasa_session_new(q->graph, &o, &s);
    if (status == BRASA_OK)
        *m = session_memory(s);
    brasa_session_free(s);
    return status;
}

static bool fits(const search *q, const brasa_memory *m, int64_t batch, int64_t parts)
{
    return fit_need(m, q->budget, batch, parts) <= q->budget->bytes;
}

/* Where a line through two batches and what they need meets the budget. */
static double meets(const search *q, int64_t a, double need_a, int64_t b, double need_b)
{
    const double slope = (need_b - need_a) / (double)(b - a);
    return slope > 0 ? (double)a + ((double)q->budget->bytes - need_a) / slope : (double)FIT_MOST_SAMPLES;
}

/* The largest batch that fits. What a batch needs grows nearly along a line: each guess lies on the one through the
 * last two, between the largest that is known to fit and the smallest that is known not to. Should the line mislead,
 * they are halved. */
static brasa_status find_most(const search *q, fit *out)
{
    int64_t low = 0, high = FIT_MOST_SAMPLES + 1, last = q->options.batch, now = 1;
    double last_need = (double)fit_need(&out->whole, q->budget, last, 1);
    if (out->fits) {
        low = out->most = last;
        out->at_most = out->whole;
    } else {
        high = last;
    }
    for (int tries = 0; high - low > 1; tries++) {
        brasa_memory m;
        if (now <= low || now >= high || tries > 12)
            now = tries > 12 ? low + (high - low) / 2 : now <= low ? low + 1 : high - 1;
        brasa_status status = plan(q, now, 1, &m);
        if (status != BRASA_OK && status != BRASA_BAD_SHAPE) /* tensors larger than any can be: too large as well */
            return status;
        const double need = status == BRASA_OK ? (double)fit_need(&m, q->budget, now, 1) : (double)UINT64_MAX;
        if (status == BRASA_OK && fits(q, &m, now, 1)) {
            low = out->most = now;
            out->at_most = m;
        } else {
            high = now;
        }
        const double guess = now == last ? (double)now : meets(q, last, last_need, now, need);
        last = now;
        last_need = need;
        now = guess < (double)low ? low : guess > (double)high ? high : (int64_t)guess;
    }
    return BRASA_OK;
}

/* The smallest number above `from` that divides the batch. */
static int64_t next_divisor(int64_t batch, int64_t from)
{
    do
        from++;
    while (from < batch && batch % from);
    return from;
}

/* The fewest equal parts that fit. More parts always need less, so single samples are asked first. */
static brasa_status find_parts(const search *q, fit *out)
{
    const int64_t batch = q->options.batch;
    brasa_memory m;
    brasa_status status = plan(q, batch, batch, &m);
    if (status == BRASA_WRONG_STATE) {
        snprintf(out->why, sizeof out->why, "%.*s", (int)sizeof out->why - 1, q->graph->ctx->error);
        return BRASA_OK;
    }
    if (status != BRASA_OK || !fits(q, &m, batch, batch))
        return status;
    out->parts = batch;
    out->in_parts = m;
    for (int64_t parts = next_divisor(batch, 1); parts < batch; parts = next_divisor(batch, parts)) {
        if ((status = plan(q, batch, parts, &m)) != BRASA_OK)
            return status;
        if (!fits(q, &m, batch, parts))
            continue;
        out->parts = parts;
        out->in_parts = m;
        break;
    }
    return BRASA_OK;
}

brasa_status fit_parts(brasa_graph *g, const brasa_session_options *o, const fit_budget *b, bool *out)
{
    const search q = {.graph = g, .options = *o, .budget = b};
    brasa_memory m;
    const brasa_status status = plan(&q, o->batch, o->micro_batches, &m);
    *out = status == BRASA_OK && fits(&q, &m, o->batch, o->micro_batches);
    return status;
}

brasa_status fit_batch(brasa_graph *g, const brasa_session_options *o, const fit_budget *b, fit *out)
{
    search q = {.graph = g, .options = *o, .budget = b};
    *out = (fit){0};
    if (!q.options.batch)
        q.options.batch = 1;
    brasa_status status = plan(&q, q.options.batch, 1, &out->whole);
    if (status != BRASA_OK || !b->bytes)
        return status;
    out->fits = fits(&q, &out->whole, q.options.batch, 1);
    out->parts = out->fits;
    out->in_parts = out->whole;
    if (out->fits && b->enough)
        return BRASA_OK;
    status = find_most(&q, out);
    if (status == BRASA_OK && !out->fits && q.options.batch > 1)
        status = find_parts(&q, out);
    return status;
}
