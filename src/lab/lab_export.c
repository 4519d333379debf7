/* lab_export.c - CSV and JSON: see lab_export.h. */
#include "lab/lab_export_parts.h"
#include "lab/reference.h"
#include "core/numeric.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- CSV ----------------------------------------------------------------------------------------------------- */

/* One table says which columns there are, and where they are. */
typedef enum csv_type { CSV_TEXT, CSV_INT64, CSV_INT, CSV_REAL } csv_type;
#define OF_CELL(name) #name, true, offsetof(result_cell, what.name)
#define OF_ROW(name)  #name, false, offsetof(result_row, name)
static const struct csv_column {
    const char *name;
    bool of_cell;
    size_t offset;
    csv_type type;
} csv[] = {
    {OF_CELL(experiment), CSV_TEXT},  {OF_CELL(network), CSV_TEXT},
    {OF_CELL(data), CSV_TEXT},        {"images", true, offsetof(result_cell, images), CSV_INT64},
    {OF_CELL(batch), CSV_INT64},      {OF_CELL(epochs), CSV_INT64},
    {OF_CELL(optimizer), CSV_TEXT},   {OF_CELL(dialect), CSV_TEXT},
    {OF_CELL(split), CSV_TEXT},       {OF_CELL(folds), CSV_INT64},
    {OF_CELL(device), CSV_TEXT},      {OF_CELL(precision), CSV_TEXT},
    {OF_CELL(threads), CSV_INT64},    {OF_CELL(mem), CSV_INT64},
    {OF_ROW(peer), CSV_TEXT},         {OF_ROW(variant), CSV_TEXT},
    {OF_ROW(repeat), CSV_INT},        {OF_ROW(fold), CSV_INT},
    {OF_ROW(status), CSV_TEXT},       {OF_ROW(reason), CSV_TEXT},
    {OF_ROW(framework), CSV_TEXT},    {OF_ROW(version), CSV_TEXT},
    {OF_ROW(image_s), CSV_REAL},      {OF_ROW(epoch_s), CSV_REAL},
    {OF_ROW(import_s), CSV_REAL},     {OF_ROW(first_step_s), CSV_REAL},
    {OF_ROW(eval_s), CSV_REAL},       {OF_ROW(accuracy), CSV_REAL},
    {OF_ROW(loss), CSV_REAL},         {OF_ROW(cpu_mean), CSV_REAL},
    {OF_ROW(peak_memory), CSV_REAL},  {OF_ROW(peak_rss), CSV_REAL},
    {OF_ROW(peak_pss), CSV_REAL},     {OF_ROW(peak_swap), CSV_REAL},
    {OF_ROW(threads_max), CSV_REAL},  {OF_ROW(children), CSV_REAL},
    {OF_ROW(ctx_switches), CSV_REAL}, {OF_ROW(faults), CSV_REAL},
    {OF_ROW(read_bytes), CSV_REAL},   {OF_ROW(energy_j), CSV_REAL},
    {OF_ROW(epoch_j), CSV_REAL},      {OF_ROW(image_j), CSV_REAL},
    {OF_ROW(energy_why), CSV_TEXT},   {OF_ROW(load_before), CSV_REAL},
    {OF_ROW(fma_gflops), CSV_REAL},   {OF_ROW(monitor_share), CSV_REAL},
    {OF_ROW(epoch_cost), CSV_REAL},   {OF_ROW(image_cost), CSV_REAL},
    {OF_ROW(device_peak), CSV_REAL},  {OF_ROW(gpu_peak), CSV_REAL},
    {OF_ROW(gpu_busy), CSV_REAL},     {OF_ROW(gpu_power), CSV_REAL},
    {OF_ROW(gpu_energy_j), CSV_REAL}, {OF_ROW(gpu_epoch_j), CSV_REAL},
    {OF_ROW(gpu_image_j), CSV_REAL},  {OF_ROW(gpu_why), CSV_TEXT},
};
enum { CSV_COLUMNS = sizeof csv / sizeof *csv };

/* In quotes where it needs them, which are doubled within. */
static void put_csv_text(out *o, const char *text)
{
    if (!text[strcspn(text, ",\"\n\r")]) {
        put_text(o, text);
        return;
    }
    put_text(o, "\"");
    for (const char *at = text; *at;) {
        const size_t plain = strcspn(at, "\"");
        put(o, at, plain);
        at += plain;
        if (*at)
            put_text(o, "\"\"");
        at += *at == '"';
    }
    put_text(o, "\"");
}

static void put_csv_value(out *o, const struct csv_column *c, const void *at)
{
    char text[40] = "";
    if (c->type == CSV_TEXT) {
        const char *value = *(const char *const *)at;
        put_csv_text(o, value ? value : "");
        return;
    }
    if (c->type == CSV_INT64)
        snprintf(text, sizeof text, "%" PRId64, *(const int64_t *)at);
    else if (c->type == CSV_INT)
        snprintf(text, sizeof text, "%d", *(const int *)at);
    else if (isfinite(*(const double *)at))
        snprintf(text, sizeof text, "%.9g", *(const double *)at);
    put_text(o, text);
}

bool lab_export_csv(const lab_results *r, export_sink write, void *user)
{
    out o = {write, user, false};
    const numeric_state locale = numeric_enter();
    for (int k = 0; k < CSV_COLUMNS; k++) {
        put_text(&o, k ? "," : "");
        put_text(&o, csv[k].name);
    }
    put_text(&o, ",finished\n"); /* the campaign: a file of lines has no other place to say it */
    for (int i = 0; i < r->row_count; i++) {
        const result_row *row = &r->rows[i];
        const char *of_cell = (const char *)&r->cells[row->cell], *of_row = (const char *)row;
        for (int k = 0; k < CSV_COLUMNS; k++) {
            put_text(&o, k ? "," : "");
            put_csv_value(&o, &csv[k], (csv[k].of_cell ? of_cell : of_row) + csv[k].offset);
        }
        put_text(&o, r->finished ? ",yes\n" : ",no\n");
    }
    numeric_leave(locale);
    return !o.failed;
}

/* --- JSON ---------------------------------------------------------------------------------------------------- */

static void json_spread(json *j, const char *key, const result_spread *s)
{
    if (!s->count)
        return;
    json_open(j, key, '{');
    json_real(j, "median", s->median);
    json_real(j, "low", s->low);
    json_real(j, "high", s->high);
    json_int(j, "count", s->count);
    json_close(j, '}');
}

static void json_published(json *j, const result_cell *cell, const result_entry *e)
{
    static const char *const keys[] = {"published_image_s", "published_accuracy"};
    for (int what = 0; what < 2; what++) {
        const reference_row *ref = reference_find(cell, e->row->peer, (reference_what)what);
        if (!ref)
            continue;
        json_open(j, keys[what], '{');
        json_real(j, "value", reference_value(ref));
        json_text(j, "study", ref->study);
        json_text(j, "source", ref->source);
        json_text(j, "note", reference_note(ref));
        json_close(j, '}');
    }
}

static void json_entry(json *j, const lab_results *r, const result_entry *e)
{
    json_open(j, NULL, '{');
    json_int(j, "cell", e->cell);
    json_text(j, "peer", e->row->peer);
    json_text(j, "variant", e->row->variant);
    json_text(j, "status", e->status);
    json_text(j, "reason", e->reason);
    json_int(j, "done", e->done);
    json_int(j, "runs", e->rows);
    json_spread(j, "image_s", &e->image_s);
    json_spread(j, "epoch_s", &e->epoch_s);
    json_spread(j, "first_step_s", &e->first_step_s);
    json_spread(j, "import_s", &e->import_s);
    json_spread(j, "eval_s", &e->eval_s);
    json_spread(j, "accuracy", &e->accuracy);
    json_spread(j, "peak_memory", &e->peak_memory);
    json_spread(j, "peak_rss", &e->peak_rss);
    json_spread(j, "peak_pss", &e->peak_pss);
    json_spread(j, "peak_swap", &e->peak_swap);
    json_spread(j, "cpu_mean", &e->cpu_mean);
    json_spread(j, "threads_max", &e->threads_max);
    json_spread(j, "children", &e->children);
    json_spread(j, "ctx_switches", &e->ctx_switches);
    json_spread(j, "faults", &e->faults);
    json_spread(j, "read_bytes", &e->read_bytes);
    json_spread(j, "energy_j", &e->energy_j);
    json_spread(j, "epoch_j", &e->epoch_j);
    json_spread(j, "image_j", &e->image_j);
    json_spread(j, "epoch_cost", &e->epoch_cost);
    json_spread(j, "image_cost", &e->image_cost);
    json_spread(j, "device_peak", &e->device_peak);
    json_spread(j, "gpu_peak", &e->gpu_peak);
    json_spread(j, "gpu_busy", &e->gpu_busy);
    json_spread(j, "gpu_power", &e->gpu_power);
    json_spread(j, "gpu_epoch_j", &e->gpu_epoch_j);
    json_spread(j, "gpu_image_j", &e->gpu_image_j);
    json_published(j, &r->cells[e->cell], e);
    json_close(j, '}');
}

static void json_profile(json *j, const result_row *row)
{
    if (!row->function_count && !row->profile_why)
        return;
    json_open(j, "profile", '{');
    json_text(j, "why", row->profile_why);
    json_real(j, "steps", row->profile_steps);
    json_real(j, "seconds", row->profile_s);
    json_open(j, "functions", '[');
    for (int i = 0; i < row->function_count; i++) {
        json_open(j, NULL, '{');
        json_text(j, "name", row->functions[i].name);
        json_real(j, "seconds", row->functions[i].seconds);
        json_real(j, "calls", row->functions[i].calls);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

/* A list for each thing that was sampled, and is known. */
static void json_samples(json *j, const result_row *row)
{
    static const struct {
        const char *name;
        size_t offset;
    } columns[] = {
        {"at", offsetof(result_sample, at)},
        {"cpu", offsetof(result_sample, cpu)},
        {"rss", offsetof(result_sample, rss)},
        {"pss", offsetof(result_sample, pss)},
        {"swap", offsetof(result_sample, swap)},
        {"memory", offsetof(result_sample, memory)},
        {"threads", offsetof(result_sample, threads)},
        {"processes", offsetof(result_sample, processes)},
        {"ctx_switches", offsetof(result_sample, ctx_switches)},
        {"faults", offsetof(result_sample, faults)},
        {"read_bytes", offsetof(result_sample, read_bytes)},
        {"gpu_memory", offsetof(result_sample, gpu_memory)},
        {"gpu_busy", offsetof(result_sample, gpu_busy)},
        {"gpu_power", offsetof(result_sample, gpu_power)},
    };
    json_open(j, "samples", '{');
    for (size_t k = 0; k < sizeof columns / sizeof *columns && row->sample_count; k++) {
        const char *at = (const char *)row->samples + columns[k].offset;
        bool known = false;
        for (int i = 0; i < row->sample_count; i++)
            known |= isfinite(*(const double *)(const void *)(at + (size_t)i * sizeof *row->samples));
        if (!known)
            continue;
        json_open(j, columns[k].name, '[');
        for (int i = 0; i < row->sample_count; i++)
            json_real(j, NULL, *(const double *)(const void *)(at + (size_t)i * sizeof *row->samples));
        json_close(j, ']');
    }
    json_open(j, "phase", '[');
    for (int i = 0; i < row->sample_count; i++)
        json_text(j, NULL, row->samples[i].phase);
    json_close(j, ']');
    json_close(j, '}');
}

static void json_account(json *j, const char *key, const char *account, bool is_json)
{
    if (is_json)
        json_raw(j, key, account);
    else
        json_text(j, key, account);
}

/* The columns of the CSV file, what it said of itself, the epochs, the samples and the profile. */
static void json_row(json *j, const result_row *row)
{
    json_open(j, NULL, '{');
    json_int(j, "cell", row->cell);
    for (int k = 0; k < CSV_COLUMNS; k++) {
        const void *at = (const char *)row + csv[k].offset;
        if (csv[k].of_cell)
            continue;
        if (csv[k].type == CSV_TEXT)
            json_text(j, csv[k].name, *(const char *const *)at);
        else if (csv[k].type == CSV_INT)
            json_int(j, csv[k].name, *(const int *)at);
        else
            json_real(j, csv[k].name, *(const double *)at);
    }
    json_text(j, "started", row->started);
    json_int(j, "order", row->order);
    json_account(j, "detail", row->detail, row->detail_is_json);
    json_text(j, "tail", row->tail);
    json_open(j, "epochs", '[');
    for (int i = 0; i < row->epoch_count; i++) {
        const result_epoch *e = &row->epochs[i];
        json_open(j, NULL, '{');
        json_int(j, "epoch", (int64_t)e->epoch);
        json_real(j, "seconds", e->seconds);
        json_real(j, "images", e->images);
        json_real(j, "steps", e->steps);
        json_real(j, "loss", e->loss);
        json_real(j, "accuracy", e->accuracy);
        json_real(j, "eval_s", e->eval_seconds);
        json_real(j, "eval_accuracy", e->eval_accuracy);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_samples(j, row);
    json_profile(j, row);
    json_close(j, '}');
}

static void json_cell(json *j, const result_cell *c)
{
    json_open(j, NULL, '{');
    lab_cell_json(j, &c->what);
    json_int(j, "images", c->images);
    json_int(j, "test_images", c->test_images);
    json_int(j, "classes", c->classes);
    if (c->most_frequent > 0)
        json_real(j, "most_frequent", c->most_frequent);
    json_close(j, '}');
}

static void json_words(json *j, const lab_report *report)
{
    json_open(j, "verdict", '[');
    json_text(j, NULL, report->verdict.headline);
    for (int i = 0; i < report->verdict.rank_count; i++)
        json_text(j, NULL, report->verdict.ranks[i].text);
    for (int i = 0; i < report->verdict.count; i++)
        json_text(j, NULL, report->verdict.lines[i]);
    json_close(j, ']');
    json_open(j, "alarms", '[');
    for (int i = 0; i < report->alarms.count; i++) {
        json_open(j, NULL, '{');
        json_text(j, "kind", alarm_title(report->alarms.list[i].kind));
        json_text(j, "who", report->alarms.list[i].who);
        json_text(j, "text", report->alarms.list[i].text);
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void json_resumed(json *j, const lab_report *report)
{
    const lab_results *r = report->results;
    json_open(j, "resumed", '[');
    for (int i = 0; i < r->resumed_count; i++) {
        json_open(j, NULL, '{');
        json_text(j, "at", r->resumed[i].at);
        json_account(j, "machine", r->resumed[i].machine, report->conditions.resumed[i].machine_is_json);
        json_account(j, "build", r->resumed[i].brasa, report->conditions.resumed[i].brasa_is_json);
        json_close(j, '}');
    }
    json_close(j, ']');
}

bool lab_export_json(const lab_report *report, export_sink write, void *user)
{
    const lab_results *r = report->results;
    json j = {.write = write, .user = user};
    json_open(&j, NULL, '{');
    json_int(&j, "campaign", r->id);
    json_text(&j, "name", r->name);
    json_text(&j, "title", r->title);
    json_text(&j, "created", r->created);
    json_text(&j, "scale", r->scale);
    json_bool(&j, "finished", r->finished);
    json_text(&j, "experiment", r->text);
    if (r->price_per_hour > 0)
        json_real(&j, "price_per_hour", r->price_per_hour);
    json_account(&j, "machine", r->machine, report->conditions.machine_is_json);
    json_account(&j, "build", r->brasa, report->conditions.brasa_is_json);
    json_resumed(&j, report);
    json_words(&j, report);
    json_open(&j, "cells", '[');
    for (int i = 0; i < r->cell_count; i++)
        json_cell(&j, &r->cells[i]);
    json_close(&j, ']');
    json_open(&j, "entries", '[');
    for (int i = 0; i < r->entry_count; i++)
        json_entry(&j, r, &r->entries[i]);
    json_close(&j, ']');
    json_open(&j, "rows", '[');
    for (int i = 0; i < r->row_count; i++)
        json_row(&j, &r->rows[i]);
    json_close(&j, ']');
    json_open(&j, "parity", '[');
    for (int i = 0; i < r->parity_count; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "peer", r->parities[i].peer);
        json_text(&j, "variant", r->parities[i].variant);
        json_text(&j, "network", r->parities[i].network);
        json_text(&j, "status", r->parities[i].status);
        json_real(&j, "worst", r->parities[i].worst);
        json_text(&j, "detail", r->parities[i].detail);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    return !j.failed;
}
