/* store.c - see store.h.
 *
 * A table is a list of columns that says where each lies in its struct; making, filling and reading it follow from
 * the list. The first columns of some are a key: they, with the parent, name an entry once.
 *
 * SQLite's rollback journal keeps the file whole: a writer that was killed is undone by whoever opens it next,
 * readers too, which is why they open it for writing. SQLite's locks are POSIX ones, that a process loses when it
 * closes any descriptor of the file: ours, which carries the lock of who works with it, is closed last.
 */
#define _GNU_SOURCE
#include "lab/store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { APPLICATION = 0x42724C62, VERSION = 1, WAIT_MS = 20000, SQL_SIZE = 2048 };

typedef enum column_kind { COUNT, REAL, TEXT } column_kind;

typedef struct column {
    const char *name;
    column_kind kind;
    size_t offset;
} column;

typedef struct table {
    const char *name, *parent; /* what it belongs to; NULL: nothing */
    bool numbered;             /* the struct starts with the numbers of the entry and, where it has one, the parent */
    int key;                   /* so many columns, with the parent, are there once */
    size_t size;
    const column *columns;
} table;

#define COLUMN(of, name, kind)                                                                                       \
    {                                                                                                                \
#name, kind, offsetof(store_##of, name)                                                                      \
    }
#define NO_MORE                                                                                                      \
    {                                                                                                                \
        NULL, COUNT, 0                                                                                               \
    }

static const column campaign_columns[] = {
    COLUMN(campaign, created, TEXT),  COLUMN(campaign, name, TEXT),
    COLUMN(campaign, text, TEXT),     COLUMN(campaign, scale, TEXT),
    COLUMN(campaign, machine, TEXT),  COLUMN(campaign, brasa, TEXT),
    COLUMN(campaign, finished, TEXT), NO_MORE,
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
    NO_MORE,
};
static const column row_columns[] = {
    COLUMN(row, peer, TEXT),          COLUMN(row, variant, TEXT),       COLUMN(row, repeat, COUNT),
    COLUMN(row, fold, COUNT),         COLUMN(row, status, TEXT),        COLUMN(row, reason, TEXT),
    COLUMN(row, started, TEXT),       COLUMN(row, load_before, REAL),   COLUMN(row, fma_gflops, REAL),
    COLUMN(row, order, COUNT),        COLUMN(row, framework, TEXT),     COLUMN(row, version, TEXT),
    COLUMN(row, detail, TEXT),        COLUMN(row, import_s, REAL),      COLUMN(row, first_step_s, REAL),
    COLUMN(row, epoch_s, REAL),       COLUMN(row, eval_s, REAL),        COLUMN(row, accuracy, REAL),
    COLUMN(row, loss, REAL),          COLUMN(row, peak_rss, COUNT),     COLUMN(row, peak_pss, COUNT),
    COLUMN(row, peak_swap, COUNT),    COLUMN(row, cpu_mean, REAL),      COLUMN(row, threads_max, COUNT),
    COLUMN(row, children, COUNT),     COLUMN(row, ctx_switches, COUNT), COLUMN(row, faults, COUNT),
    COLUMN(row, read_bytes, COUNT),   COLUMN(row, energy_j, REAL),      COLUMN(row, energy_why, TEXT),
    COLUMN(row, monitor_share, REAL), COLUMN(row, tail, TEXT),          NO_MORE,
};
static const column epoch_columns[] = {
    COLUMN(epoch, epoch, COUNT), COLUMN(epoch, seconds, REAL),       COLUMN(epoch, images, COUNT),
    COLUMN(epoch, steps, COUNT), COLUMN(epoch, loss, REAL),          COLUMN(epoch, accuracy, REAL),
    COLUMN(epoch, eval_s, REAL), COLUMN(epoch, eval_accuracy, REAL), NO_MORE,
};
static const column sample_columns[] = {
    COLUMN(sample, at, REAL),          COLUMN(sample, cpu, REAL),      COLUMN(sample, rss, COUNT),
    COLUMN(sample, pss, COUNT),        COLUMN(sample, threads, COUNT), COLUMN(sample, processes, COUNT),
    COLUMN(sample, ctx, COUNT),        COLUMN(sample, faults, COUNT),  COLUMN(sample, swap, COUNT),
    COLUMN(sample, read_bytes, COUNT), COLUMN(sample, phase, TEXT),    NO_MORE,
};

enum { CAMPAIGN, PARITY, CELL, ROW, EPOCH, SAMPLE, TABLES };
static const table tables[TABLES] = {
    [CAMPAIGN] = {"campaign", NULL, true, 0, sizeof(store_campaign), campaign_columns},
    [PARITY] = {"parity", "campaign", true, 3, sizeof(store_parity), parity_columns},
    [CELL] = {"cell", "campaign", true, 1, sizeof(store_cell), cell_columns},
    [ROW] = {"row", "cell", true, 4, sizeof(store_row), row_columns},
    [EPOCH] = {"epoch", "row", false, 0, sizeof(store_epoch), epoch_columns},
    [SAMPLE] = {"sample", "row", false, 0, sizeof(store_sample), sample_columns},
};

struct store {
    brasa_context *ctx;
    char *path;
    pool pool;
    sqlite3 *db;
    int lock; /* -1: none */
    sqlite3_stmt *insert[TABLES];
};

/* --- what went wrong ----------------------------------------------------------------------------------------- */

static brasa_status refuse(store *s, int code)
{
    brasa_context *ctx = s->ctx;
    switch (code & 0xFF) {
    case SQLITE_NOMEM:
        return fail_memory(ctx, 0);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return fail(ctx, BRASA_BAD_FILE, "%s: another process is at it, and was so for %d s", s->path,
                    WAIT_MS / 1000);
    case SQLITE_FULL:
        return fail(ctx, BRASA_BAD_FILE, "%s: the disk is full", s->path);
    case SQLITE_NOTADB:
        return fail(ctx, BRASA_BAD_FILE, "%s: no store of the lab", s->path);
    case SQLITE_CORRUPT:
        return fail(ctx, BRASA_BAD_FILE, "%s: damaged: %s", s->path, sqlite3_errmsg(s->db));
    default:
        return fail(ctx, BRASA_BAD_FILE, "%s: %s", s->path,
                    sqlite3_system_errno(s->db) ? strerror(sqlite3_system_errno(s->db)) : sqlite3_errmsg(s->db));
    }
}

static brasa_status execute(store *s, const char *sql)
{
    const int code = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? BRASA_OK : refuse(s, code);
}

/* Ends a transaction: for good, or as if it had not been. A full disk may have ended it already. */
static brasa_status conclude(store *s, brasa_status status)
{
    if (status == BRASA_OK)
        status = execute(s, "COMMIT");
    if (status != BRASA_OK && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

/* --- SQL from the lists -------------------------------------------------------------------------------------- */

/* The lists are ours, so the size is known to do (the tests make them all). */
typedef struct sql {
    char text[SQL_SIZE];
    size_t used;
} sql;

static void add(sql *q, const char *format, ...) BRASA_PRINTF(2, 3);
static void add(sql *q, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(q->text + q->used, sizeof q->text - q->used, format, args);
    va_end(args);
    q->used += length > 0 && (size_t)length < sizeof q->text - q->used ? (size_t)length : 0;
}

static void add_create(sql *q, const table *t)
{
    static const char *const types[] = {[COUNT] = "INTEGER", [REAL] = "REAL", [TEXT] = "TEXT"};
    add(q, "CREATE TABLE \"%s\"(id INTEGER PRIMARY KEY", t->name);
    if (t->parent)
        add(q, ", \"%s\" INTEGER NOT NULL REFERENCES \"%s\"(id) ON DELETE CASCADE", t->parent, t->parent);
    for (const column *c = t->columns; c->name; c++)
        add(q, ", \"%s\" %s", c->name, types[c->kind]);
    if (t->key) {
        add(q, ", UNIQUE(\"%s\"", t->parent);
        for (int i = 0; i < t->key; i++)
            add(q, ", \"%s\"", t->columns[i].name);
        add(q, ")");
    }
    add(q, ")");
    if (t->parent && !t->key)
        add(q, "; CREATE INDEX \"%s_of\" ON \"%s\"(\"%s\")", t->name, t->name, t->parent);
}

static void add_insert(sql *q, const table *t)
{
    int count = 1;
    add(q, "INSERT INTO \"%s\"(", t->name);
    if (t->parent)
        add(q, "\"%s\", ", t->parent);
    for (const column *c = t->columns; c->name; c++, count++)
        add(q, "%s\"%s\"", c > t->columns ? ", " : "", c->name);
    add(q, ") VALUES(");
    for (int i = t->parent ? 1 : 2; i <= count; i++)
        add(q, "?%d%s", i, i < count ? ", " : ")");
}

static void add_select(sql *q, const table *t)
{
    add(q, "SELECT id, %s%s%s", t->parent ? "\"" : "0", t->parent ? t->parent : "", t->parent ? "\"" : "");
    for (const column *c = t->columns; c->name; c++)
        add(q, ", \"%s\"", c->name);
    add(q, " FROM \"%s\"", t->name);
    if (t->parent)
        add(q, " WHERE \"%s\" = ?1", t->parent);
    add(q, " ORDER BY id");
}

/* "... WHERE parent and key are these". */
static void add_same(sql *q, const table *t)
{
    add(q, " FROM \"%s\" WHERE \"%s\" = ?1", t->name, t->parent);
    for (int i = 0; i < t->key; i++)
        add(q, " AND \"%s\" = ?%d", t->columns[i].name, i + 2);
}

/* --- opening ------------------------------------------------------------------------------------------------- */

static brasa_status pragma(store *s, const char *name, int *out)
{
    char text[64];
    sqlite3_stmt *query = NULL;
    snprintf(text, sizeof text, "PRAGMA %s", name);
    int code = sqlite3_prepare_v2(s->db, text, -1, &query, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(query);
    *out = code == SQLITE_ROW ? sqlite3_column_int(query, 0) : 0;
    brasa_status status = code == SQLITE_ROW || code == SQLITE_DONE ? BRASA_OK : refuse(s, code);
    sqlite3_finalize(query);
    return status;
}

static brasa_status make_tables(store *s)
{
    brasa_status status = execute(s, "BEGIN IMMEDIATE");
    if (status != BRASA_OK)
        return status;
    for (int i = 0; status == BRASA_OK && i < TABLES; i++) {
        sql q = {""};
        add_create(&q, &tables[i]);
        status = execute(s, q.text);
    }
    sql q = {""};
    add(&q, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION, VERSION);
    return conclude(s, status == BRASA_OK ? execute(s, q.text) : status);
}

/* Whether the file is a store that this program knows; a new one becomes one. */
static brasa_status check_tables(store *s, store_mode mode)
{
    int pages, application, version;
    brasa_status status = pragma(s, "page_count", &pages);
    if (status == BRASA_OK && pages == 0)
        return mode == STORE_WORK ? make_tables(s) : fail(s->ctx, BRASA_BAD_FILE, "%s: no results yet", s->path);
    if (status == BRASA_OK)
        status = pragma(s, "application_id", &application);
    if (status == BRASA_OK)
        status = pragma(s, "user_version", &version);
    if (status == BRASA_OK && application != APPLICATION)
        return fail(s->ctx, BRASA_BAD_FILE, "%s: no store of the lab, but of another program", s->path);
    if (status == BRASA_OK && version > VERSION)
        return fail(s->ctx, BRASA_BAD_FILE, "%s: made by a newer brasa: its version is %d, this one knows %d",
                    s->path, version, VERSION);
    return status;
}

/* Nobody else works with it, and it is a file. */
static brasa_status take_lock(store *s)
{
    struct stat st;
    s->lock = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (s->lock < 0 || fstat(s->lock, &st) != 0)
        return fail(s->ctx, BRASA_BAD_FILE, "%s: %s", s->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fail(s->ctx, BRASA_BAD_FILE, "%s: not a file", s->path);
    if (flock(s->lock, LOCK_EX | LOCK_NB) != 0)
        return fail(s->ctx, BRASA_WRONG_STATE,
                    "%s: another brasa runs experiments with this store: wait for it, or "
                    "take another file",
                    s->path);
    return BRASA_OK;
}

static brasa_status open_file(store *s, store_mode mode)
{
    brasa_status status = mode == STORE_WORK ? take_lock(s) : BRASA_OK;
    if (status != BRASA_OK)
        return status;
    if (mode == STORE_READ && access(s->path, R_OK) != 0)
        return fail(s->ctx, BRASA_BAD_FILE, "%s: %s", s->path, strerror(errno));
    const int code = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE, NULL);
    if (code != SQLITE_OK)
        return refuse(s, code);
    sqlite3_busy_timeout(s->db, WAIT_MS);
    status = execute(s, "PRAGMA foreign_keys = ON; PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL");
    if (status == BRASA_OK)
        status = check_tables(s, mode);
    if (status == BRASA_OK && mode == STORE_READ)
        status = execute(s, "PRAGMA query_only = ON");
    return status;
}

brasa_status store_open(brasa_context *ctx, const char *path, store_mode mode, store **out)
{
    store *s = *out = mem_get(ctx, sizeof *s);
    if (!s)
        return fail_memory(ctx, sizeof *s);
    *s = (store){.ctx = ctx, .pool = {.ctx = ctx}, .lock = -1};
    /* A name that starts with a colon would mean something else to SQLite. */
    s->path = pool_text(&s->pool, "%s%s", *path == ':' ? "./" : "", path);
    return s->path ? open_file(s, mode) : fail_memory(ctx, strlen(path));
}

void store_close(store *s)
{
    if (!s)
        return;
    for (int i = 0; i < TABLES; i++)
        sqlite3_finalize(s->insert[i]);
    sqlite3_close(s->db);
    if (s->lock >= 0)
        close(s->lock);
    pool_free(&s->pool);
    mem_put(s->ctx, s);
}

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
    brasa_status status = code == SQLITE_DONE || code == SQLITE_ROW ? BRASA_OK : refuse(s, code);
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    return status;
}

static brasa_status insert(store *s, int which, int64_t parent, const void *item)
{
    const table *t = &tables[which];
    if (!s->insert[which]) {
        sql q = {""};
        add_insert(&q, t);
        const int code = sqlite3_prepare_v3(s->db, q.text, -1, SQLITE_PREPARE_PERSISTENT, &s->insert[which], NULL);
        if (code != SQLITE_OK)
            return refuse(s, code);
    }
    return run(s, t, s->insert[which], parent, item, SQL_SIZE, NULL);
}

/* "SELECT id" or "DELETE" of the entry with this one's key. */
static brasa_status same(store *s, int which, const char *what, int64_t parent, const void *item, int64_t *found)
{
    const table *t = &tables[which];
    sqlite3_stmt *query;
    sql q = {""};
    add(&q, "%s", what);
    add_same(&q, t);
    const int code = sqlite3_prepare_v2(s->db, q.text, -1, &query, NULL);
    if (code != SQLITE_OK)
        return refuse(s, code);
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

brasa_status store_finish_campaign(store *s, int64_t campaign, const char *finished)
{
    sqlite3_stmt *query;
    int code = sqlite3_prepare_v2(s->db, "UPDATE campaign SET finished = ?2 WHERE id = ?1", -1, &query, NULL);
    if (code != SQLITE_OK)
        return refuse(s, code);
    sqlite3_bind_int64(query, 1, campaign);
    sqlite3_bind_text(query, 2, finished, -1, SQLITE_STATIC);
    code = sqlite3_step(query);
    brasa_status status = code == SQLITE_DONE ? BRASA_OK : refuse(s, code);
    sqlite3_finalize(query);
    return status;
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
    brasa_status status = execute(s, "BEGIN IMMEDIATE");
    if (status != BRASA_OK)
        return status;
    status = same(s, PARITY, "DELETE", what->campaign, what, NULL);
    if (status == BRASA_OK)
        status = insert(s, PARITY, what->campaign, what);
    what->id = sqlite3_last_insert_rowid(s->db);
    return conclude(s, status);
}

brasa_status store_add_row(store *s, store_row *what, const store_epoch *epochs, int nepochs,
                           const store_sample *samples, int nsamples)
{
    brasa_status status = execute(s, "BEGIN IMMEDIATE");
    if (status != BRASA_OK)
        return status;
    status = same(s, ROW, "DELETE", what->cell, what, NULL); /* with its epochs and samples */
    if (status == BRASA_OK)
        status = insert(s, ROW, what->cell, what);
    what->id = sqlite3_last_insert_rowid(s->db);
    for (int i = 0; status == BRASA_OK && i < nepochs; i++)
        status = insert(s, EPOCH, what->id, &epochs[i]);
    for (int i = 0; status == BRASA_OK && i < nsamples; i++)
        status = insert(s, SAMPLE, what->id, &samples[i]);
    return conclude(s, status);
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
    return code == SQLITE_DONE ? BRASA_OK : refuse(s, code);
}

static brasa_status list(store *s, pool *p, int which, int64_t parent, void *out, int *count)
{
    const table *t = &tables[which];
    char *items = NULL;
    sqlite3_stmt *query;
    sql q = {""};
    add_select(&q, t);
    *count = 0;
    const int code = sqlite3_prepare_v2(s->db, q.text, -1, &query, NULL);
    if (code != SQLITE_OK)
        return refuse(s, code);
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
