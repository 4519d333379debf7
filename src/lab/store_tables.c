/* store_tables.c - the tables of the store, and the SQL that makes, fills and reads them: see store_parts.h. */
#include "lab/store_parts.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#define COLUMN(of, name, kind)                                                                                       \
    {                                                                                                                \
#name, kind, offsetof(store_##of, name)                                                                      \
    }
#define NO_MORE                                                                                                      \
    {                                                                                                                \
        NULL, COUNT, 0                                                                                               \
    }

static const column campaign_columns[] = {
    COLUMN(campaign, created, TEXT),
    COLUMN(campaign, name, TEXT),
    COLUMN(campaign, text, TEXT),
    COLUMN(campaign, scale, TEXT),
    COLUMN(campaign, machine, TEXT),
    COLUMN(campaign, brasa, TEXT),
    COLUMN(campaign, finished, TEXT),
    COLUMN(campaign, price_per_hour, REAL),
    COLUMN(campaign, peers, TEXT),
    COLUMN(campaign, data, TEXT),
    NO_MORE,
};
static const column parity_columns[] = {
    COLUMN(parity, peer, TEXT),    COLUMN(parity, variant, TEXT),
    COLUMN(parity, network, TEXT), COLUMN(parity, status, TEXT),
    COLUMN(parity, worst, REAL),   COLUMN(parity, detail, TEXT),
    COLUMN(parity, lines, TEXT),   NO_MORE,
};
static const column cell_columns[] = {
    COLUMN(cell, key, TEXT),
    COLUMN(cell, experiment, TEXT),
    COLUMN(cell, network, TEXT),
    COLUMN(cell, data, TEXT),
    COLUMN(cell, images, COUNT),
    COLUMN(cell, batch, COUNT),
    COLUMN(cell, epochs, COUNT),
    COLUMN(cell, optimizer, TEXT),
    COLUMN(cell, dialect, TEXT),
    COLUMN(cell, split, TEXT),
    COLUMN(cell, folds, COUNT),
    COLUMN(cell, device, TEXT),
    COLUMN(cell, precision, TEXT),
    COLUMN(cell, threads, COUNT),
    COLUMN(cell, mem, COUNT),
    COLUMN(cell, json, TEXT),
    COLUMN(cell, network_hash, TEXT),
    COLUMN(cell, data_hash, TEXT),
    NO_MORE,
};
static const column row_columns[] = {
    COLUMN(row, peer, TEXT),
    COLUMN(row, variant, TEXT),
    COLUMN(row, repeat, COUNT),
    COLUMN(row, fold, COUNT),
    COLUMN(row, status, TEXT),
    COLUMN(row, reason, TEXT),
    COLUMN(row, started, TEXT),
    COLUMN(row, load_before, REAL),
    COLUMN(row, fma_gflops, REAL),
    COLUMN(row, order, COUNT),
    COLUMN(row, framework, TEXT),
    COLUMN(row, version, TEXT),
    COLUMN(row, detail, TEXT),
    COLUMN(row, import_s, REAL),
    COLUMN(row, first_step_s, REAL),
    COLUMN(row, epoch_s, REAL),
    COLUMN(row, eval_s, REAL),
    COLUMN(row, accuracy, REAL),
    COLUMN(row, loss, REAL),
    COLUMN(row, peak_rss, COUNT),
    COLUMN(row, peak_pss, COUNT),
    COLUMN(row, peak_swap, COUNT),
    COLUMN(row, cpu_mean, REAL),
    COLUMN(row, threads_max, COUNT),
    COLUMN(row, children, COUNT),
    COLUMN(row, ctx_switches, COUNT),
    COLUMN(row, faults, COUNT),
    COLUMN(row, read_bytes, COUNT),
    COLUMN(row, energy_j, REAL),
    COLUMN(row, energy_why, TEXT),
    COLUMN(row, monitor_share, REAL),
    COLUMN(row, tail, TEXT),
    COLUMN(row, device_peak, COUNT),
    COLUMN(row, gpu_peak, COUNT),
    COLUMN(row, gpu_busy, REAL),
    COLUMN(row, gpu_power, REAL),
    COLUMN(row, gpu_energy_j, REAL),
    COLUMN(row, gpu_why, TEXT),
    COLUMN(row, profile_steps, COUNT),
    COLUMN(row, profile_s, REAL),
    COLUMN(row, profile_why, TEXT),
    COLUMN(row, peak_memory, COUNT),
    NO_MORE,
};
static const column epoch_columns[] = {
    COLUMN(epoch, epoch, COUNT), COLUMN(epoch, seconds, REAL),       COLUMN(epoch, images, COUNT),
    COLUMN(epoch, steps, COUNT), COLUMN(epoch, loss, REAL),          COLUMN(epoch, accuracy, REAL),
    COLUMN(epoch, eval_s, REAL), COLUMN(epoch, eval_accuracy, REAL), NO_MORE,
};
static const column sample_columns[] = {
    COLUMN(sample, at, REAL),       COLUMN(sample, cpu, REAL),
    COLUMN(sample, rss, COUNT),     COLUMN(sample, pss, COUNT),
    COLUMN(sample, threads, COUNT), COLUMN(sample, processes, COUNT),
    COLUMN(sample, ctx, COUNT),     COLUMN(sample, faults, COUNT),
    COLUMN(sample, swap, COUNT),    COLUMN(sample, read_bytes, COUNT),
    COLUMN(sample, phase, TEXT),    COLUMN(sample, gpu_memory, COUNT),
    COLUMN(sample, gpu_busy, REAL), COLUMN(sample, gpu_power, REAL),
    COLUMN(sample, memory, COUNT),  NO_MORE,
};
static const column function_columns[] = {
    COLUMN(function, name, TEXT),
    COLUMN(function, seconds, REAL),
    COLUMN(function, calls, COUNT),
    NO_MORE,
};
static const column resumed_columns[] = {
    COLUMN(resumed, at, TEXT),
    COLUMN(resumed, machine, TEXT),
    COLUMN(resumed, brasa, TEXT),
    NO_MORE,
};

const table store_tables[TABLES] = {
    [CAMPAIGN] = {"campaign", NULL, true, 0, sizeof(store_campaign), campaign_columns},
    [PARITY] = {"parity", "campaign", true, 3, sizeof(store_parity), parity_columns},
    [CELL] = {"cell", "campaign", true, 1, sizeof(store_cell), cell_columns},
    [ROW] = {"row", "cell", true, 4, sizeof(store_row), row_columns},
    [EPOCH] = {"epoch", "row", false, 0, sizeof(store_epoch), epoch_columns},
    [SAMPLE] = {"sample", "row", false, 0, sizeof(store_sample), sample_columns},
    [FUNCTION] = {"function", "row", false, 0, sizeof(store_function), function_columns},
    [RESUMED] = {"resumed", "campaign", false, 0, sizeof(store_resumed), resumed_columns},
};

/* --- SQL from the lists -------------------------------------------------------------------------------------- */

void sql_add(sql *q, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(q->text + q->used, sizeof q->text - q->used, format, args);
    va_end(args);
    q->used += length > 0 && (size_t)length < sizeof q->text - q->used ? (size_t)length : 0;
}

void sql_create(sql *q, const table *t)
{
    static const char *const types[] = {[COUNT] = "INTEGER", [REAL] = "REAL", [TEXT] = "TEXT"};
    sql_add(q, "CREATE TABLE \"%s\"(id INTEGER PRIMARY KEY", t->name);
    if (t->parent)
        sql_add(q, ", \"%s\" INTEGER NOT NULL REFERENCES \"%s\"(id) ON DELETE CASCADE", t->parent, t->parent);
    for (const column *c = t->columns; c->name; c++)
        sql_add(q, ", \"%s\" %s", c->name, types[c->kind]);
    if (t->key) {
        sql_add(q, ", UNIQUE(\"%s\"", t->parent);
        for (int i = 0; i < t->key; i++)
            sql_add(q, ", \"%s\"", t->columns[i].name);
        sql_add(q, ")");
    }
    sql_add(q, ")");
    if (t->parent && !t->key)
        sql_add(q, "; CREATE INDEX \"%s_of\" ON \"%s\"(\"%s\")", t->name, t->name, t->parent);
}

void sql_insert(sql *q, const table *t)
{
    int count = 1;
    sql_add(q, "INSERT INTO \"%s\"(", t->name);
    if (t->parent)
        sql_add(q, "\"%s\", ", t->parent);
    for (const column *c = t->columns; c->name; c++, count++)
        sql_add(q, "%s\"%s\"", c > t->columns ? ", " : "", c->name);
    sql_add(q, ") VALUES(");
    for (int i = t->parent ? 1 : 2; i <= count; i++)
        sql_add(q, "?%d%s", i, i < count ? ", " : ")");
}

void sql_select(sql *q, const table *t)
{
    sql_add(q, "SELECT id, %s%s%s", t->parent ? "\"" : "0", t->parent ? t->parent : "", t->parent ? "\"" : "");
    for (const column *c = t->columns; c->name; c++)
        sql_add(q, ", \"%s\"", c->name);
    sql_add(q, " FROM \"%s\"", t->name);
    if (t->parent)
        sql_add(q, " WHERE \"%s\" = ?1", t->parent);
    sql_add(q, " ORDER BY id");
}

void sql_same(sql *q, const table *t)
{
    sql_add(q, " FROM \"%s\" WHERE \"%s\" = ?1", t->name, t->parent);
    for (int i = 0; i < t->key; i++)
        sql_add(q, " AND \"%s\" = ?%d", t->columns[i].name, i + 2);
}
