/* results_read.c - see results_read.h. */
#include "lab/results_read.h"
#include "core/json_scan.h"
#include "core/nearest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

static double count_or_nan(int64_t value)
{
    return value < 0 ? NAN : (double)value;
}

/* --- which campaign ------------------------------------------------------------------------------------------ */

brasa_status results_find_campaign(store *s, pool *p, const char *which, store_campaign *out)
{
    store_campaign *list;
    int count;
    brasa_status status = store_campaigns(s, p, &list, &count);
    if (status != BRASA_OK)
        return status;
    nearest near = {.word = or_empty(which)};
    char *end;
    const long long number = which ? strtoll(which, &end, 10) : 0;
    const bool is_number = which && *which && !*end;
    for (int i = count - 1; i >= 0; i--) {
        const char *name = or_empty(list[i].name);
        if (!which || (is_number ? list[i].id == number : strcmp(name, which) == 0)) {
            *out = list[i];
            return BRASA_OK;
        }
        nearest_offer(&near, name);
    }
    if (!count)
        return fail(p->ctx, BRASA_NOT_FOUND, "no campaign in the store yet: `brasa lab run` makes one");
    return fail(p->ctx, BRASA_NOT_FOUND, "no campaign '%s'%s; `brasa lab list` shows them", text_short(which).text,
                nearest_hint(&near).text);
}

/* --- cells --------------------------------------------------------------------------------------------------- */

/* What of a cell is in no column of its own. */
static brasa_status read_member(json_scan *s, char *key, void *user)
{
    result_cell *c = user;
    char *text = NULL;
    double number = 0;
    bool truth = false;
    const char next = json_peek(s);
    brasa_status status = next == '"'                                   ? json_read_text(s, &text)
                          : next == '-' || (next >= '0' && next <= '9') ? json_read_real(s, &number)
                          : next == 't' || next == 'f'                  ? json_read_bool(s, &truth)
                                                                        : json_skip(s);
    if (status != BRASA_OK)
        return status;
    if (text && strcmp(key, "view") == 0)
        c->what.view = text;
    else if (text && strcmp(key, "title") == 0)
        c->what.title = text;
    else if (text && strcmp(key, "transform") == 0)
        c->what.transform = text;
    else if (strcmp(key, "classes") == 0)
        c->classes = (int64_t)number;
    else if (strcmp(key, "test_images") == 0)
        c->test_images = (int64_t)number;
    else if (strcmp(key, "most_frequent") == 0)
        c->most_frequent = number;
    else if (strcmp(key, "repeats") == 0)
        c->what.repeats = (int64_t)number;
    else if (strcmp(key, "seed") == 0)
        c->what.seed = (int64_t)number;
    else if (strcmp(key, "limit") == 0)
        c->what.limit = number;
    else if (strcmp(key, "timing") == 0)
        c->what.timing = truth;
    else if (strcmp(key, "doubling") == 0)
        c->what.doubling = truth;
    else if (strcmp(key, "profile") == 0)
        c->what.profile = truth;
    return BRASA_OK;
}

static brasa_status read_cell(pool *p, const store_cell *from, result_cell *c)
{
    *c = (result_cell){.images = from->images};
    c->what = (lab_cell){.key = or_empty(from->key),
                         .experiment = or_empty(from->experiment),
                         .view = "",
                         .network = or_empty(from->network),
                         .data = or_empty(from->data),
                         .split = from->split && *from->split ? from->split : NULL,
                         .optimizer = or_empty(from->optimizer),
                         .dialect = or_empty(from->dialect),
                         .device = from->device ? from->device : "cpu",
                         .precision = or_empty(from->precision),
                         .batch = from->batch,
                         .epochs = from->epochs,
                         .folds = from->folds > 0 ? from->folds : 0,
                         .threads = from->threads,
                         .mem = from->mem > 0 ? from->mem : 0};
    if (!from->json || !*from->json)
        return BRASA_OK;
    char *text = pool_text(p, "%s", from->json); /* decoded in place */
    if (!text)
        return BRASA_OUT_OF_MEMORY;
    json_scan s = {
        .ctx = p->ctx, .path = "a cell in the store", .text = text, .at = text, .end = text + strlen(text)};
    return json_read_object(&s, read_member, c);
}

/* --- rows ---------------------------------------------------------------------------------------------------- */

static brasa_status read_epochs(store *s, pool *p, int64_t id, result_row *row)
{
    store_epoch *from;
    brasa_status status = store_epochs(s, p, id, &from, &row->epoch_count);
    if (status != BRASA_OK)
        return status;
    row->epochs = pool_get(p, (size_t)row->epoch_count + 1, sizeof *row->epochs);
    double *each = pool_get(p, (size_t)row->epoch_count + 1, sizeof *each);
    if (!row->epochs || !each)
        return BRASA_OUT_OF_MEMORY;
    for (int i = 0; i < row->epoch_count; i++) {
        const store_epoch *e = &from[i];
        row->epochs[i] =
            (result_epoch){(double)e->epoch, e->seconds, count_or_nan(e->images), count_or_nan(e->steps), e->loss,
                           e->accuracy,      e->eval_s,  e->eval_accuracy};
        each[i] = e->images > 0 ? e->seconds / (double)e->images : NAN;
    }
    row->image_s = spread_of(each, row->epoch_count).median;
    return BRASA_OK;
}

static brasa_status read_samples(store *s, pool *p, int64_t id, result_row *row)
{
    store_sample *from;
    brasa_status status = store_samples(s, p, id, &from, &row->sample_count);
    if (status != BRASA_OK)
        return status;
    row->samples = pool_get(p, (size_t)row->sample_count + 1, sizeof *row->samples);
    if (!row->samples)
        return BRASA_OUT_OF_MEMORY;
    for (int i = 0; i < row->sample_count; i++) {
        const store_sample *e = &from[i];
        row->samples[i] = (result_sample){e->at,
                                          e->cpu,
                                          count_or_nan(e->rss),
                                          count_or_nan(e->pss),
                                          count_or_nan(e->swap),
                                          count_or_nan(e->memory >= 0 ? e->memory : e->rss),
                                          count_or_nan(e->threads),
                                          count_or_nan(e->processes),
                                          count_or_nan(e->ctx),
                                          count_or_nan(e->faults),
                                          count_or_nan(e->read_bytes),
                                          count_or_nan(e->gpu_memory),
                                          e->gpu_busy,
                                          e->gpu_power,
                                          e->phase};
    }
    return BRASA_OK;
}

static brasa_status read_functions(store *s, pool *p, int64_t id, result_row *row)
{
    store_function *from;
    brasa_status status = store_functions(s, p, id, &from, &row->function_count);
    if (status != BRASA_OK)
        return status;
    row->functions = pool_get(p, (size_t)row->function_count + 1, sizeof *row->functions);
    if (!row->functions)
        return BRASA_OUT_OF_MEMORY;
    for (int i = 0; i < row->function_count; i++)
        row->functions[i] = (result_function){or_empty(from[i].name), from[i].seconds, count_or_nan(from[i].calls)};
    return BRASA_OK;
}

/* What a runner said of itself is an object; whatever else stands there is told as a text. */
static brasa_status read_detail(pool *p, result_row *row)
{
    if (!row->detail)
        return BRASA_OK;
    char *text = pool_text(p, "%s", row->detail); /* decoded in place */
    if (!text)
        return BRASA_OUT_OF_MEMORY;
    json_scan s = {.ctx = p->ctx, .path = "a row in the store", .text = text, .at = text, .end = text + strlen(text)};
    const brasa_status status = json_skip(&s);
    row->detail_is_json = status == BRASA_OK && !json_peek(&s);
    return status == BRASA_OUT_OF_MEMORY ? status : BRASA_OK;
}

static brasa_status read_row(store *s, pool *p, const store_row *from, int cell, result_row *row)
{
    *row = (result_row){.cell = cell,
                        .peer = or_empty(from->peer),
                        .variant = or_empty(from->variant),
                        .repeat = (int)from->repeat,
                        .fold = (int)from->fold,
                        .status = or_empty(from->status),
                        .reason = from->reason,
                        .started = from->started,
                        .order = from->order > 0 ? (int)from->order : 0,
                        .framework = from->framework,
                        .version = from->version,
                        .detail = from->detail,
                        .load_before = from->load_before,
                        .fma_gflops = from->fma_gflops,
                        .import_s = from->import_s,
                        .first_step_s = from->first_step_s,
                        .eval_s = from->eval_s,
                        .epoch_s = from->epoch_s,
                        .accuracy = from->accuracy,
                        .loss = from->loss,
                        .peak_rss = count_or_nan(from->peak_rss),
                        .peak_pss = count_or_nan(from->peak_pss),
                        .peak_swap = count_or_nan(from->peak_swap),
                        .peak_memory = count_or_nan(from->peak_memory >= 0 ? from->peak_memory : from->peak_rss),
                        .cpu_mean = from->cpu_mean,
                        .threads_max = count_or_nan(from->threads_max),
                        .children = count_or_nan(from->children),
                        .ctx_switches = count_or_nan(from->ctx_switches),
                        .faults = count_or_nan(from->faults),
                        .read_bytes = count_or_nan(from->read_bytes),
                        .energy_j = from->energy_j,
                        .energy_why = from->energy_why,
                        .monitor_share = from->monitor_share,
                        .tail = from->tail,
                        .device_peak = count_or_nan(from->device_peak),
                        .gpu_peak = count_or_nan(from->gpu_peak),
                        .gpu_busy = from->gpu_busy,
                        .gpu_power = from->gpu_power,
                        .gpu_energy_j = from->gpu_energy_j,
                        .gpu_why = from->gpu_why,
                        .profile_steps = count_or_nan(from->profile_steps),
                        .profile_s = from->profile_s,
                        .profile_why = from->profile_why};
    brasa_status status = read_detail(p, row);
    if (status == BRASA_OK)
        status = read_epochs(s, p, from->id, row);
    if (status == BRASA_OK)
        status = read_samples(s, p, from->id, row);
    return status == BRASA_OK ? read_functions(s, p, from->id, row) : status;
}

static brasa_status read_rows(store *s, pool *p, int64_t id, int cell, lab_results *out, int *room)
{
    store_row *from;
    int count;
    brasa_status status = store_rows(s, p, id, &from, &count);
    for (int i = 0; status == BRASA_OK && i < count; i++) {
        result_row *grown = pool_grow(p, out->rows, out->row_count, room, sizeof *grown);
        if (!grown)
            return BRASA_OUT_OF_MEMORY;
        out->rows = grown;
        status = read_row(s, p, &from[i], cell, &grown[out->row_count++]);
    }
    return status;
}

/* --- all ----------------------------------------------------------------------------------------------------- */

static brasa_status read_parities(store *s, pool *p, lab_results *out)
{
    store_parity *from;
    brasa_status status = store_parities(s, p, out->id, &from, &out->parity_count);
    if (status != BRASA_OK)
        return status;
    out->parities = pool_get(p, (size_t)out->parity_count + 1, sizeof *out->parities);
    if (!out->parities)
        return BRASA_OUT_OF_MEMORY;
    for (int i = 0; i < out->parity_count; i++)
        out->parities[i] = (result_parity){or_empty(from[i].peer),
                                           or_empty(from[i].variant),
                                           or_empty(from[i].network),
                                           or_empty(from[i].status),
                                           from[i].worst,
                                           from[i].detail};
    return BRASA_OK;
}

static brasa_status read_resumed(store *s, pool *p, lab_results *out)
{
    store_resumed *from;
    brasa_status status = store_resumes(s, p, out->id, &from, &out->resumed_count);
    if (status != BRASA_OK)
        return status;
    out->resumed = pool_get(p, (size_t)out->resumed_count + 1, sizeof *out->resumed);
    if (!out->resumed)
        return BRASA_OUT_OF_MEMORY;
    for (int i = 0; i < out->resumed_count; i++)
        out->resumed[i] = (result_resumed){or_empty(from[i].at), or_empty(from[i].machine), or_empty(from[i].brasa)};
    return BRASA_OK;
}

brasa_status results_read(store *s, pool *p, const store_campaign *campaign, lab_results *out)
{
    store_cell *from;
    int room = 0;
    *out = (lab_results){.id = campaign->id,
                         .name = or_empty(campaign->name),
                         .created = or_empty(campaign->created),
                         .scale = or_empty(campaign->scale),
                         .text = or_empty(campaign->text),
                         .machine = or_empty(campaign->machine),
                         .brasa = or_empty(campaign->brasa),
                         .price_per_hour = campaign->price_per_hour,
                         .finished = campaign->finished != NULL};
    brasa_status status = store_cells(s, p, campaign->id, &from, &out->cell_count);
    if (status != BRASA_OK)
        return status;
    out->cells = pool_get(p, (size_t)out->cell_count + 1, sizeof *out->cells);
    if (!out->cells)
        return BRASA_OUT_OF_MEMORY;
    for (int i = 0; status == BRASA_OK && i < out->cell_count; i++) {
        status = read_cell(p, &from[i], &out->cells[i]);
        if (status == BRASA_OK)
            status = read_rows(s, p, from[i].id, i, out, &room);
    }
    if (status == BRASA_OK)
        status = read_parities(s, p, out);
    if (status == BRASA_OK)
        status = read_resumed(s, p, out);
    return status == BRASA_OK ? results_summarize(p, out) : status;
}
