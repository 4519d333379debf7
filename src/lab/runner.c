/* runner.c - see runner.h. */
#include "lab/runner.h"

#include "lab/lab.h"
#include "session/session.h"
#include "train/settings.h"

#include <string.h>

void runner_begin(runner *r, const char *event)
{
    r->lines.filled = 0; /* a text of its own: no comma before it */
    json_open(&r->lines, NULL, '{');
    json_text(&r->lines, "event", event);
    json_exact(&r->lines, "at", lab_now());
}

void runner_end(runner *r)
{
    json_close(&r->lines, '}');
}

void runner_say(runner *r, const char *event, const char *key, const char *text)
{
    runner_begin(r, event);
    json_text(&r->lines, key, text);
    runner_end(r);
}

/* Of peers.c, and none: the plain one. */
static bool is_variant(const char *word)
{
    static const char *const known[] = {"", "plain", "untuned", "decoding"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(word, known[i]) == 0)
            return true;
    return false;
}

bool runner_takes(runner *r)
{
    const errand *e = r->errand;
    brasa_status status =
        !is_variant(e->variant) ? fail(r->ctx, BRASA_NOT_FOUND, "Brasa has no such variant") : BRASA_OK;
    if (status == BRASA_OK && strcmp(e->device, "cpu") != 0)
        status = brasa_context_use(r->ctx, e->device);
    if (status == BRASA_OK)
        status = precision_read(r->ctx, e->precision, &r->precision);
    if (status != BRASA_OK)
        runner_say(r, "refused", "why", brasa_context_error(r->ctx));
    return status == BRASA_OK;
}

brasa_status runner_graph(runner *r, bool whole, brasa_tensor *values, brasa_graph **out)
{
    if (!(*out = brasa_graph_new(r->ctx)))
        return fail_memory(r->ctx, sizeof **out);
    return netjson_build(&r->network, *out, whole, values);
}

brasa_session_options runner_options(const runner *r, int64_t size, const brasa_tuning *tuning)
{
    return SIZED(brasa_session_options, .batch = size, .optimizer = r->errand->optimizer,
                 .seed = (uint64_t)r->errand->seed, .precision = r->precision, .tuning = tuning);
}

brasa_status runner_session(runner *r, brasa_graph *g, int64_t size, const brasa_tuning *tuning, brasa_session **out)
{
    const brasa_session_options o = runner_options(r, size, tuning);
    brasa_status status = brasa_session_new(g, &o, out);
    return status == BRASA_OK ? session_load_fresh(*out, r->errand->weights, NULL, NULL) : status;
}

brasa_status runner_run(runner *r)
{
    brasa_graph *g = NULL;
    brasa_status status = netjson_read(r->ctx, r->errand->graph, &r->network);
    if (status == BRASA_OK)
        status = runner_graph(r, true, NULL, &g);
    if (status == BRASA_OK) {
        runner_begin(r, "built");
        json_int(&r->lines, "parameters", brasa_graph_param_total(g));
        json_int(&r->lines, "trainable", brasa_graph_param_total(g));
        json_int(&r->lines, "layers", netjson_layers(&r->network));
        runner_end(r);
    }
    brasa_graph_free(g);
    if (status == BRASA_OK)
        status = r->errand->check ? runner_check(r) : runner_train(r);
    if (status == BRASA_OK) {
        runner_begin(r, "done");
        runner_end(r);
    }
    return status;
}

void runner_close(runner *r)
{
    netjson_free(&r->network);
}
