/* store.c - writing and reading: see store.h. */
#include "lab/store_parts.h"

#include <math.h>
#include <string.h>

/* --- writing ------------------------------------------------------------------------------------------------- */

static int bind(sqlite3_stmt *q, int place, const column *c, const void *item)
{
    const void *at = (const char *)item + c->offset;
    if (c->kind == COUNT) {
        const int64_t value = *(const int64_t *)at;
        return value < 0 ? sqlite3_bind_null(q, place) : sqlite3_bind_int64(q, place, value);
    }
    if (c->kind == REAL) /* NAN becomes NULL */
        return sqlite3_bind_double(q, place, *(const double *)at);
    return sqlite3_bind_text(q, place, *(const char *const *)at, -1, SQLITE_STATIC);
}

/* Binds the parent and the first `most` columns, and runs it; *found: the first column of what it finds. */
static brasa_status run(store *s, const table *t, sqlite3_stmt *q, int64_t parent, const void *item, int most,
                        int64_t *found)
{
    int code = t->parent ? sqlite3_bind_int64(q, 1, parent) : SQLITE_OK;
    for (int i = 0; code == SQLITE_OK && i < most && t->columns[i].name; i++)
        code = bind(q, i + 2, &t->columns[i], item);
    if (code == SQLITE_OK)
        code = sqlite3_step(q);
    if (code == SQLITE_ROW && found)
        *found = sqlite3_column_int64(q, 0);
    brasa_status status = code == SQLITE_DONE || code == SQLITE_ROW ? BRASA_OK : store_refuse(s, code);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    return status;
}

static brasa_status insert(store *s, int which, int64_t parent, const void *item)
{
    const table *t = &store_tables[which];
    if (!s->insert[which]) {
        sql q = {""};
        sql_insert(&q, t);
        const int code = sqlite3_prepare_v3(s->db, q.text, -1, SQLITE_PREPARE_PERSISTENT, &s->insert[which], NULL);
        if (code != SQLITE_OK)
            return store_refuse(s, code);
    }
    return run(s, t, s->insert[which], parent, item, SQL_SIZE, NULL);
}

/* "SELECT id" or "DELETE" of the entry with this one's key. */
static brasa_status same(store *s, int which, const char *what, int64_t parent, const void *item, int64_t *found)
{
    const table *t = &store_tables[which];
    sqlite3_stmt *query;
    sql q = {""};
    sql_add(&q, "%s", what);
    sql_same(&q, t);
    const int code = sqlite3_prepare_v2(s->db, q.text, -1, &query, NULL);
    if (code != SQLITE_OK)
        return store_refuse(s, code);
    brasa_status status = run(s, t, query, parent, item, t->key, found);
    sqlite3_finalize(query);
    return status;
}

brasa_status store_add_campaign(store *s, store_campaign *what)
{
    brasa_status status = insert(s, CAMPAIGN, 0, what);
    what->id = sqlite3_last_insert_rowid(s->db);
    return status;
}

static brasa_status update_campaign(store *s, const char *text, int64_t campaign, const char *value)
{
    sqlite3_stmt *query;
    int code = sqlite3_prepare_v2(s->db, text, -1, &query, NULL);
    if (code != SQLITE_OK)
        return store_refuse(s, code);
    sqlite3_bind_int64(query, 1, campaign);
    sqlite3_bind_text(query, 2, value, -1, SQLITE_STATIC);
    code = sqlite3_step(query);
    brasa_status status = code == SQLITE_DONE ? BRASA_OK : store_refuse(s, code);
    sqlite3_finalize(query);
    return status;
}

brasa_status store_finish_campaign(store *s, int64_t campaign, const char *finished)
{
    return update_campaign(s, "UPDATE campaign SET finished = ?2 WHERE id = ?1", campaign, finished);
}

brasa_status store_resume_campaign(store *s, int64_t campaign, const char *peers, const store_resumed *how)
{
    brasa_status status = store_execute(s, "BEGIN IMMEDIATE");
    if (status != BRASA_OK)
        return status;
    status = update_campaign(s, "UPDATE campaign SET peers = ?2, finished = NULL WHERE id = ?1", campaign, peers);
    if (status == BRASA_OK)
        status = insert(s, RESUMED, campaign, how);
    return store_conclude(s, status);
}

brasa_status store_add_cell(store *s, store_cell *what)
{
    int64_t found = 0;
    brasa_status status = same(s, CELL, "SELECT id", what->campaign, what, &found);
    if (status == BRASA_OK && !found) {
        status = insert(s, CELL, what->campaign, what);
        found = sqlite3_last_insert_rowid(s->db);
    }
    what->id = found;
    return status;
}

brasa_status store_add_parity(store *s, store_parity *what)
{
    brasa_status status = store_execute(s, "BEGIN IMMEDIATE");
    if (status != BRASA_OK)
        return status;
    status = same(s, PARITY, "DELETE", what->campaign, what, NULL);
    if (status == BRASA_OK)
        status = insert(s, PARITY, what->campaign, what);
    what->id = sqlite3_last_insert_rowid(s->db);
    return store_conclude(s, status);
}

brasa_status store_add_row(store *s, store_row *what, const store_details *d)
{
    brasa_status status = store_execute(s, "BEGIN IMMEDIATE");
    if (status != BRASA_OK)
        return status;
    status = same(s, ROW, "DELETE", what->cell, what, NULL); /* with all that came with it */
    if (status == BRASA_OK)
        status = insert(s, ROW, what->cell, what);
    what->id = sqlite3_last_insert_rowid(s->db);
    for (int i = 0; status == BRASA_OK && i < d->nepochs; i++)
        status = insert(s, EPOCH, what->id, &d->epochs[i]);
    for (int i = 0; status == BRASA_OK && i < d->nsamples; i++)
        status = insert(s, SAMPLE, what->id, &d->samples[i]);
    for (int i = 0; status == BRASA_OK && i < d->nfunctions; i++)
        status = insert(s, FUNCTION, what->id, &d->functions[i]);
    return store_conclude(s, status);
}

/* --- reading ------------------------------------------------------------------------------------------------- */

static bool take(pool *p, sqlite3_stmt *q, int place, const column *c, void *item)
{
    void *at = (char *)item + c->offset;
    const bool none = sqlite3_column_type(q, place) == SQLITE_NULL;
    if (c->kind == COUNT) {
        *(int64_t *)at = none ? -1 : sqlite3_column_int64(q, place);
    } else if (c->kind == REAL) {
        *(double *)at = none ? NAN : sqlite3_column_double(q, place);
    } else if (!none) {
        const char *text = (const char *)sqlite3_column_text(q, place);
        return text && (*(char **)at = pool_text(p, "%s", text));
    }
    return true;
}

static bool take_item(pool *p, sqlite3_stmt *q, const table *t, void *item)
{
    if (t->numbered)
        *(int64_t *)item = sqlite3_column_int64(q, 0);
    if (t->numbered && t->parent)
        ((int64_t *)item)[1] = sqlite3_column_int64(q, 1);
    for (int i = 0; t->columns[i].name; i++)
        if (!take(p, q, i + 2, &t->columns[i], item))
            return false;
    return true;
}

static brasa_status read_all(store *s, pool *p, const table *t, sqlite3_stmt *q, char **items, int *count)
{
    int code, capacity = 0;
    while ((code = sqlite3_step(q)) == SQLITE_ROW) {
        char *grown = pool_grow(p, *items, *count, &capacity, t->size);
        if (!grown || !take_item(p, q, t, grown + (size_t)*count * t->size))
            return fail_memory(s->ctx, (size_t)*count * t->size);
        *items = grown;
        ++*count;
    }
    return code == SQLITE_DONE ? BRASA_OK : store_refuse(s, code);
}

static brasa_status list(store *s, pool *p, int which, int64_t parent, void *out, int *count)
{
    const table *t = &store_tables[which];
    char *items = NULL;
    sqlite3_stmt *query;
    sql q = {""};
    sql_select(&q, t);
    *count = 0;
    const int code = sqlite3_prepare_v2(s->db, q.text, -1, &query, NULL);
    if (code != SQLITE_OK)
        return store_refuse(s, code);
    if (t->parent)
        sqlite3_bind_int64(query, 1, parent);
    brasa_status status = read_all(s, p, t, query, &items, count);
    sqlite3_finalize(query);
    memcpy(out, &items, sizeof items); /* pointers to structs all look alike */
    return status;
}

brasa_status store_campaigns(store *s, pool *p, store_campaign **out, int *count)
{
    return list(s, p, CAMPAIGN, 0, out, count);
}

brasa_status store_resumes(store *s, pool *p, int64_t campaign, store_resumed **out, int *count)
{
    return list(s, p, RESUMED, campaign, out, count);
}

brasa_status store_parities(store *s, pool *p, int64_t campaign, store_parity **out, int *count)
{
    return list(s, p, PARITY, campaign, out, count);
}

brasa_status store_cells(store *s, pool *p, int64_t campaign, store_cell **out, int *count)
{
    return list(s, p, CELL, campaign, out, count);
}

brasa_status store_rows(store *s, pool *p, int64_t cell, store_row **out, int *count)
{
    return list(s, p, ROW, cell, out, count);
}

brasa_status store_epochs(store *s, pool *p, int64_t row, store_epoch **out, int *count)
{
    return list(s, p, EPOCH, row, out, count);
}

brasa_status store_samples(store *s, pool *p, int64_t row, store_sample **out, int *count)
{
    return list(s, p, SAMPLE, row, out, count);
}

brasa_status store_functions(store *s, pool *p, int64_t row, store_function **out, int *count)
{
    return list(s, p, FUNCTION, row, out, count);
}
