/* errand.c - see errand.h. */
#include "lab/errand.h"

#include "core/json_scan.h"
#include "core/numeric.h"
#include "lab/lab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OPTIMIZER_SIZE = 400 };

typedef struct words {
    char name[40], settings[OPTIMIZER_SIZE];
    size_t used;
} words;

/* {"name": "sgd", "dialect": "torch", "lr": 0.1, "nesterov": false} is "sgd lr=0.1 nesterov=no"; the dialect is the
 * network's. */
static brasa_status read_optimizer(json_scan *s, char *key, void *user)
{
    words *w = user;
    char *text;
    double real = 0;
    bool yes = false;
    brasa_status status;
    if (strcmp(key, "name") == 0 || strcmp(key, "dialect") == 0) {
        status = json_read_text(s, &text);
        if (status == BRASA_OK && strcmp(key, "name") == 0)
            snprintf(w->name, sizeof w->name, "%s", text);
        return status;
    }
    const bool flag = json_peek(s) == 't' || json_peek(s) == 'f';
    status = flag ? json_read_bool(s, &yes) : json_read_real(s, &real);
    if (status != BRASA_OK)
        return status;
    char *to = w->settings + w->used;
    const size_t room = sizeof w->settings - w->used;
    const numeric_state locale = numeric_enter();
    w->used += (size_t)(flag ? snprintf(to, room, " %s=%s", key, yes ? "yes" : "no")
                             : snprintf(to, room, " %s=%.17g", key, real));
    numeric_leave(locale);
    return w->used < sizeof w->settings ? BRASA_OK : json_refuse(s, s->at, "settings that are too long");
}

static brasa_status read_data(json_scan *s, char *key, void *user)
{
    errand *e = user;
    if (strcmp(key, "source") == 0)
        return json_read_text(s, (char **)&e->source);
    if (strcmp(key, "transform") == 0)
        return json_read_text(s, (char **)&e->transform);
    return json_skip(s);
}

static brasa_status read_mode(json_scan *s, errand *e)
{
    char *word;
    brasa_status status = json_read_text(s, &word);
    if (status == BRASA_OK && strcmp(word, "check") != 0 && strcmp(word, "train") != 0)
        return json_refuse(s, s->at, "mode: expected check or train");
    e->check = status == BRASA_OK && strcmp(word, "check") == 0;
    return status;
}

static brasa_status read_member(json_scan *s, char *key, void *user)
{
    errand *e = user;
    const struct {
        const char *key;
        const char **to;
    } texts[] = {{"peer", &e->peer},           {"variant", &e->variant}, {"network", &e->network},
                 {"graph", &e->graph},         {"weights", &e->weights}, {"device", &e->device},
                 {"precision", &e->precision}, {"batches", &e->batches}, {"split", &e->split}};
    const struct {
        const char *key;
        int64_t *to;
    } numbers[] = {{"batch", &e->batch},     {"epochs", &e->epochs}, {"warmup_steps", &e->warmup},
                   {"threads", &e->threads}, {"seed", &e->seed},     {"steps", &e->steps}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i].key, key) == 0)
            return json_read_text(s, (char **)texts[i].to);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(numbers[i].key, key) == 0)
            return json_read_number(s, (uint64_t *)numbers[i].to);
    if (strcmp(key, "mode") == 0)
        return read_mode(s, e);
    if (strcmp(key, "profile") == 0)
        return json_read_bool(s, &e->profile);
    if (strcmp(key, "data") == 0)
        return json_read_object(s, read_data, e);
    if (strcmp(key, "optimizer") != 0)
        return json_skip(s);
    words w = {.used = 0};
    brasa_status status = json_read_object(s, read_optimizer, &w);
    if (status == BRASA_OK && !(e->optimizer = pool_text(&e->pool, "%s%s", w.name, w.settings)))
        status = fail_memory(s->ctx, w.used);
    return status;
}

static const char *missing(const errand *e)
{
    return !e->graph                    ? "graph"
           : !e->weights                ? "weights"
           : !e->optimizer              ? "optimizer"
           : e->check && !e->batches    ? "batches"
           : e->check && e->steps < 1   ? "steps"
           : !e->check && !e->split     ? "split"
           : !e->check && !e->source    ? "data.source"
           : !e->check && e->batch < 1  ? "batch"
           : !e->check && e->epochs < 1 ? "epochs"
                                        : NULL;
}

brasa_status errand_read(brasa_context *ctx, const char *path, errand *out)
{
    *out = (errand){.pool = {.ctx = ctx},
                    .peer = "brasa",
                    .variant = "",
                    .network = "",
                    .device = "cpu",
                    .precision = "f32",
                    .transform = ""};
    char *text = NULL;
    size_t length = 0;
    brasa_status status = lab_read_file(&out->pool, path, &text, &length);
    json_scan s = {.ctx = ctx, .path = path, .text = text, .at = text, .end = text + length};
    if (status == BRASA_OK)
        status = json_read_object(&s, read_member, out);
    if (status == BRASA_OK && missing(out))
        status = fail(ctx, BRASA_BAD_FILE, "%s: %s is missing", path, missing(out));
    if (status == BRASA_OK && (out->batch > INT32_MAX || out->threads > MOST_THREADS || out->epochs > INT32_MAX))
        status = fail(ctx, BRASA_BAD_FILE, "%s: batch, epochs or threads are out of range", path);
    return status;
}

void errand_free(errand *e)
{
    pool_free(&e->pool);
}
