/* exchange.c - network, weights, and the file that a runner is given: see exchange.h. */
#define _XOPEN_SOURCE 700
#include "lab/exchange.h"

#include "core/hash.h"
#include "core/numeric.h"
#include "core/replace.h"
#include "lab/netjson.h"
#include "session/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- files --------------------------------------------------------------------------------------------------- */

const char *exchange_path(exchange *e, const char *stem, uint64_t hash, const char *end)
{
    const char *path = pool_text(&e->pool, "%s/%s-%016llx%s", e->folder, stem, (unsigned long long)hash, end);
    if (!path)
        fail_memory(e->pool.ctx, strlen(e->folder));
    return path;
}

bool exchange_has(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool exchange_has_tensors(const exchange *e, const char *path)
{
    safetensors *f = NULL;
    const bool whole = exchange_has(path) && safetensors_open(e->pool.ctx, path, &f) == BRASA_OK;
    safetensors_close(f);
    return whole;
}

brasa_status exchange_written(exchange *e, brasa_status status)
{
    e->unwritable = e->unwritable || status == BRASA_BAD_FILE;
    return status;
}

/* The folder, with those above it, and its absolute name. */
static brasa_status make_folder(exchange *e, const char *folder)
{
    char *path = pool_text(&e->pool, "%s/", folder), real[4096];
    if (!path)
        return fail_memory(e->pool.ctx, strlen(folder));
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return fail(e->pool.ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
        *at = '/';
    }
    char *resolved = realpath(folder, NULL);
    if (!resolved || snprintf(real, sizeof real, "%s", resolved) >= (int)sizeof real) {
        free(resolved);
        return fail(e->pool.ctx, BRASA_BAD_FILE, "%s: %s", folder, strerror(errno));
    }
    free(resolved);
    e->folder = pool_text(&e->pool, "%s", real);
    return e->folder ? BRASA_OK : fail_memory(e->pool.ctx, strlen(real));
}

/* --- network and weights ------------------------------------------------------------------------------------- */

static bool hash_text(void *user, const char *text, size_t length)
{
    uint64_t *hash = user;
    *hash = hash_bytes(*hash, text, length);
    return true;
}

/* A model's name, or that of a file without folder and end. */
static const char *short_name(exchange *e)
{
    const char *slash = strrchr(e->cell->network, '/'), *name = slash ? slash + 1 : e->cell->network;
    const size_t length = strlen(name);
    const bool file = length > 4 && strcmp(name + length - 4, ".net") == 0;
    return pool_text(&e->pool, "%.*s", (int)(file ? length - 4 : length), name);
}

/* Whether the file holds the text whose hash is in its name. */
static bool has_text(const exchange *e, const char *path, uint64_t hash)
{
    pool p = {.ctx = e->pool.ctx};
    char *text = NULL;
    size_t length = 0;
    const bool whole = exchange_has(path) && lab_read_file(&p, path, &text, &length) == BRASA_OK &&
                       hash_bytes(HASH_START, text, length) == hash;
    pool_free(&p);
    return whole;
}

static brasa_status make_graph(exchange *e, uint64_t *hash)
{
    brasa_context *ctx = e->pool.ctx;
    const brasa_graph *g = e->task.graph;
    const char *name = short_name(e);
    brasa_status status = name ? netjson_check(g, name) : fail_memory(ctx, 1);
    if (status != BRASA_OK)
        return status;
    *hash = HASH_START;
    json digest = {.write = hash_text, .user = hash};
    netjson_write(g, name, &digest);
    if (!(e->graph = exchange_path(e, "network", *hash, ".json")))
        return BRASA_OUT_OF_MEMORY;
    if (has_text(e, e->graph, *hash))
        return BRASA_OK;
    replacement r;
    status = replace_begin(&r, ctx, e->graph);
    if (status == BRASA_OK) {
        json j = replace_json(&r);
        netjson_write(g, name, &j);
        status = j.failed ? BRASA_BAD_FILE : BRASA_OK;
    }
    return exchange_written(e, replace_end(&r, status));
}

/* What a parameter starts from is not in the network's file. */
static uint64_t hash_starts(const graph *g, uint64_t hash)
{
    for (int v = 0; v < g->nvalues; v++) {
        const initializer *s = &g->values[v].start;
        const int form = s->form;
        hash = hash_bytes(hash, &form, sizeof form);
        hash = hash_bytes(hash, &s->a, sizeof s->a);
        hash = hash_bytes(hash, &s->b, sizeof s->b);
    }
    return hash;
}

static brasa_status make_weights(exchange *e, uint64_t *hash)
{
    brasa_session *s = NULL;
    *hash = hash_starts(e->task.graph, *hash);
    *hash = hash_bytes(*hash, &e->cell->seed, sizeof e->cell->seed);
    if (!(e->network_hash = pool_text(&e->pool, "%016llx", (unsigned long long)*hash)))
        return fail_memory(e->pool.ctx, 17);
    if (!(e->weights = exchange_path(e, "weights", *hash, ".safetensors")))
        return BRASA_OUT_OF_MEMORY;
    if (exchange_has_tensors(e, e->weights))
        return BRASA_OK;
    const brasa_session_options o = {
        .size = sizeof o, .batch = 1, .seed = (uint64_t)e->cell->seed, .inference = true};
    brasa_status status = brasa_session_new(e->task.graph, &o, &s);
    if (status == BRASA_OK)
        status = exchange_written(e, brasa_session_save(s, e->weights, BRASA_WEIGHTS));
    brasa_session_free(s);
    return status;
}

/* --- the optimizer ------------------------------------------------------------------------------------------- */

static void write_optimizer(const exchange *e, json *j)
{
    const brasa_session *s = e->plan;
    json_open(j, "optimizer", '{');
    json_text(j, "name", s->optimizer->op->name);
    json_text(j, "dialect", e->task.graph->dialect->name);
    fields_to_json(j, s->optimizer->op->fields, s->optimizer_attr);
    json_close(j, '}');
}

/* Two samples, so that batch norm has something to compute with. */
static brasa_status read_optimizer(exchange *e, uint64_t *hash)
{
    const brasa_session_options o = {
        .size = sizeof o, .batch = 2, .optimizer = e->cell->optimizer, .plan_only = true};
    brasa_status status = brasa_session_new(e->task.graph, &o, &e->plan);
    if (status != BRASA_OK)
        return status;
    json digest = {.write = hash_text, .user = hash};
    json_open(&digest, NULL, '{');
    write_optimizer(e, &digest);
    json_close(&digest, '}');
    const bool plain = strcmp(e->cell->device, "cpu") == 0; /* which has one precision */
    const int64_t mem = e->cell->mem; /* who does not get through with little may do so with more */
    const bytes_text most = numeric_bytes((double)mem);
    *hash = mem ? hash_bytes(*hash, &mem, sizeof mem) : *hash;
    e->key =
        pool_text(&e->pool, "%s, %s%s%s%s%s%s%s [%016llx]", e->cell->network, e->cell->optimizer, plain ? "" : ", ",
                  plain ? "" : e->cell->device, plain ? "" : " ", plain ? "" : e->cell->precision,
                  mem ? ", within " : "", mem ? most.text : "", (unsigned long long)*hash);
    return e->key ? BRASA_OK : fail_memory(e->pool.ctx, strlen(e->cell->optimizer));
}

/* --- opening ------------------------------------------------------------------------------------------------- */

static brasa_status open_all(exchange *e, const char *folder)
{
    const lab_cell *c = e->cell;
    task *t = &e->task;
    uint64_t hash = HASH_START;
    t->settings = (brasa_trainer_options){.model = c->network, .dialect = c->dialect, .transform = c->transform};
    brasa_status status = exchange_written(e, make_folder(e, folder));
    if (status == BRASA_OK)
        status = exchange_open_data(e);
    if (status == BRASA_OK)
        status = task_build(t, c->network);
    if (status == BRASA_OK)
        status = make_graph(e, &hash);
    if (status == BRASA_OK)
        status = make_weights(e, &hash);
    if (status == BRASA_OK)
        status = read_optimizer(e, &hash);
    if (status == BRASA_OK)
        status = exchange_make_data(e);
    return status == BRASA_OK ? exchange_make_batches(e) : status;
}

brasa_status exchange_open(brasa_context *ctx, const char *folder, const lab_cell *cell, exchange **out)
{
    *out = mem_get(ctx, sizeof **out);
    if (!*out)
        return fail_memory(ctx, sizeof **out);
    (*out)->pool.ctx = (*out)->task.ctx = (*out)->task.pool.ctx = ctx;
    (*out)->cell = cell;
    return open_all(*out, folder);
}

void exchange_close(exchange *e)
{
    if (!e)
        return;
    brasa_context *ctx = e->pool.ctx;
    brasa_session_free(e->plan);
    task_close(&e->task);
    pool_free(&e->pool);
    mem_put(ctx, e);
}

/* --- the file of a run --------------------------------------------------------------------------------------- */

static void write_reals(json *j, const char *key, const reals *r, int channels)
{
    json_open(j, key, '[');
    for (int c = 0; c < channels; c++)
        json_exact(j, NULL, r->value[r->count > 1 ? c : 0]);
    json_close(j, ']');
}

static void write_data(const exchange *e, json *j)
{
    static const char *const flips[] = {"none", "horizontal", "vertical"};
    const transform *t = &e->task.transform;
    const bool numbers = e->task.set->numbers;
    const int channels = numbers ? 1 : e->task.shape[0];
    const reals zero = {1, {0}}, one = {1, {1}};
    json_open(j, "data", '{');
    json_text(j, "kind", e->list ? "pictures" : "arrays");
    json_text(j, "source", e->source);
    json_text(j, "transform", e->transform);
    if (e->list) {
        json_text(j, "folder", e->pictures);
        json_text(j, "list", e->list);
        json_int(j, "channels", channels);
        json_int(j, "resize", t->resize);
        json_open(j, "crop", '[');
        json_int(j, NULL, t->crop.h);
        json_int(j, NULL, t->crop.w);
        json_close(j, ']');
        json_bool(j, "random_crop", t->random_crop);
        json_text(j, "flip", flips[t->flip]);
    } else {
        json_text(j, "file", e->arrays);
    }
    json_exact(j, "scale", numbers ? 1 : t->scale);
    write_reals(j, "mean", numbers ? &zero : &t->mean, channels);
    write_reals(j, "std", numbers ? &one : &t->std, channels);
    json_close(j, '}');
}

static void write_run(const exchange *e, const exchange_run *run, const char *lists, json *j)
{
    const lab_cell *c = e->cell;
    json_open(j, NULL, '{');
    json_int(j, "format", 1);
    json_text(j, "mode", run->check ? "check" : "train");
    json_text(j, "peer", run->peer);
    json_text(j, "variant", run->variant ? run->variant : "");
    json_text(j, "network", c->network);
    json_text(j, "graph", e->graph);
    json_text(j, "weights", e->weights);
    json_int(j, "batch", c->batch);
    json_int(j, "epochs", c->epochs);
    json_bool(j, "timing", c->timing);
    json_int(j, "warmup_steps", c->timing ? EXCHANGE_WARMUP : 0);
    json_int(j, "threads", c->threads ? c->threads : brasa_context_threads(e->pool.ctx));
    json_text(j, "device", c->device);
    json_text(j, "precision", c->precision);
    json_int(j, "seed", c->seed + (run->repeat ? run->repeat - 1 : 0));
    json_bool(j, "profile", c->profile);
    write_optimizer(e, j);
    json_int(j, "steps", EXCHANGE_STEPS);
    json_text(j, "batches", e->batches);
    write_data(e, j);
    json_text(j, "split", lists);
    json_real(j, "deadline_s", c->limit);
    json_close(j, '}');
}

brasa_status exchange_write(exchange *e, const exchange_run *run, const char *path)
{
    const char *lists;
    replacement r;
    brasa_status status = exchange_make_split(e, run->fold, &lists);
    if (status != BRASA_OK)
        return status;
    status = replace_begin(&r, e->pool.ctx, path);
    if (status == BRASA_OK) {
        json j = replace_json(&r);
        write_run(e, run, lists, &j);
        status = j.failed ? BRASA_BAD_FILE : BRASA_OK;
    }
    return replace_end(&r, status);
}
