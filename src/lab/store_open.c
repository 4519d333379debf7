/* store_open.c - opening and closing a store, and what can go wrong with it: see store.h.
 *
 * SQLite's rollback journal keeps the file whole: a writer that was killed is undone by whoever opens it next,
 * readers too, which is why they open it for writing. SQLite's locks are POSIX ones, that a process loses when it
 * closes any descriptor of the file: ours, which carries the lock of who works with it, is closed last.
 */
#define _GNU_SOURCE
#include "lab/store_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { APPLICATION = 0x42724C62, VERSION = 6, WAIT_MS = 20000 };

/* What makes a store of one version one of the next; a table that is new is made before. */
static const struct upgrade {
    const char *text;
    int made; /* 0: none, which is the first version's */
} upgrades[VERSION] = {
    [1] = {"ALTER TABLE campaign ADD COLUMN price_per_hour REAL", 0},
    [2] = {"ALTER TABLE \"row\" ADD COLUMN device_peak INTEGER; ALTER TABLE \"row\" ADD COLUMN gpu_peak INTEGER;"
           "ALTER TABLE \"row\" ADD COLUMN gpu_busy REAL; ALTER TABLE \"row\" ADD COLUMN gpu_power REAL;"
           "ALTER TABLE \"row\" ADD COLUMN gpu_energy_j REAL; ALTER TABLE \"row\" ADD COLUMN gpu_why TEXT;"
           "ALTER TABLE \"row\" ADD COLUMN profile_steps INTEGER; ALTER TABLE \"row\" ADD COLUMN profile_s REAL;"
           "ALTER TABLE \"row\" ADD COLUMN profile_why TEXT; ALTER TABLE sample ADD COLUMN gpu_memory INTEGER;"
           "ALTER TABLE sample ADD COLUMN gpu_busy REAL; ALTER TABLE sample ADD COLUMN gpu_power REAL",
           FUNCTION},
    [3] = {"ALTER TABLE campaign ADD COLUMN peers TEXT; ALTER TABLE campaign ADD COLUMN data TEXT", 0},
    [4] = {"ALTER TABLE \"row\" ADD COLUMN peak_memory INTEGER; ALTER TABLE sample ADD COLUMN memory INTEGER;"
           "ALTER TABLE cell ADD COLUMN network_hash TEXT; ALTER TABLE cell ADD COLUMN data_hash TEXT",
           0},
    [5] = {NULL, RESUMED},
};

/* --- what went wrong ----------------------------------------------------------------------------------------- */

/* SQLite does not tell that it was a limit of this process that a write ran into. */
static brasa_status refuse_io(store *s)
{
    struct rlimit most;
    const int why = sqlite3_system_errno(s->db);
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY)
        return fail(s->ctx, BRASA_BAD_FILE, "%s: %s; no file may have more than %llu bytes here (ulimit -f)", s->path,
                    sqlite3_errmsg(s->db), (unsigned long long)most.rlim_cur);
    return fail(s->ctx, BRASA_BAD_FILE, "%s: %s", s->path, why ? strerror(why) : sqlite3_errmsg(s->db));
}

brasa_status store_refuse(store *s, int code)
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
    case SQLITE_IOERR:
        return refuse_io(s);
    default:
        return fail(ctx, BRASA_BAD_FILE, "%s: %s", s->path,
                    sqlite3_system_errno(s->db) ? strerror(sqlite3_system_errno(s->db)) : sqlite3_errmsg(s->db));
    }
}

brasa_status store_execute(store *s, const char *text)
{
    const int code = sqlite3_exec(s->db, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? BRASA_OK : store_refuse(s, code);
}

brasa_status store_conclude(store *s, brasa_status status)
{
    if (status == BRASA_OK)
        status = store_execute(s, "COMMIT");
    if (status != BRASA_OK && !sqlite3_get_autocommit(s->db)) /* a full disk may have ended it already */
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
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
    brasa_status status = code == SQLITE_ROW || code == SQLITE_DONE ? BRASA_OK : store_refuse(s, code);
    sqlite3_finalize(query);
    return status;
}

static brasa_status make_table(store *s, int which)
{
    sql q = {""};
    sql_create(&q, &store_tables[which]);
    return store_execute(s, q.text);
}

static brasa_status make_tables(store *s)
{
    brasa_status status = store_execute(s, "BEGIN IMMEDIATE");
    if (status != BRASA_OK)
        return status;
    for (int i = 0; status == BRASA_OK && i < TABLES; i++)
        status = make_table(s, i);
    sql q = {""};
    sql_add(&q, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION, VERSION);
    return store_conclude(s, status == BRASA_OK ? store_execute(s, q.text) : status);
}

static brasa_status upgrade(store *s)
{
    int version;
    brasa_status status = store_execute(s, "BEGIN IMMEDIATE");
    if (status != BRASA_OK)
        return status;
    status = pragma(s, "user_version", &version); /* another process may have been quicker */
    for (; status == BRASA_OK && version < VERSION; version++) {
        const struct upgrade *u = &upgrades[version];
        if (u->made)
            status = make_table(s, u->made);
        if (status == BRASA_OK && u->text)
            status = store_execute(s, u->text);
    }
    sql q = {""};
    sql_add(&q, "PRAGMA user_version = %d", VERSION);
    return store_conclude(s, status == BRASA_OK ? store_execute(s, q.text) : status);
}

/* Who only reads changes nothing, and may not be allowed to: a copy in memory becomes a new one in its place. */
static brasa_status upgrade_copy(store *s)
{
    sqlite3 *file = s->db, *copy = NULL;
    int code = sqlite3_open_v2(":memory:", &copy, SQLITE_OPEN_READWRITE, NULL);
    sqlite3_backup *b = code == SQLITE_OK ? sqlite3_backup_init(copy, "main", file, "main") : NULL;
    if (b) {
        sqlite3_backup_step(b, -1);
        code = sqlite3_backup_finish(b);
    } else if (code == SQLITE_OK) {
        code = sqlite3_errcode(copy);
    }
    s->db = copy;
    brasa_status status = code == SQLITE_OK ? upgrade(s) : store_refuse(s, code);
    sqlite3_close(file);
    return status;
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
    if (status != BRASA_OK || version == VERSION)
        return status;
    return mode == STORE_READ ? upgrade_copy(s) : upgrade(s);
}

/* Nobody else works with it, and it is a file. */
static brasa_status take_lock(store *s, store_mode mode)
{
    struct stat st;
    s->lock = open(s->path, O_RDWR | (mode == STORE_WORK ? O_CREAT : 0) | O_CLOEXEC | O_NONBLOCK, 0666);
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
    brasa_status status = mode == STORE_READ ? BRASA_OK : take_lock(s, mode);
    if (status != BRASA_OK)
        return status;
    if (mode == STORE_READ && access(s->path, R_OK) != 0)
        return fail(s->ctx, BRASA_BAD_FILE, "%s: %s", s->path, strerror(errno));
    const int code = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE, NULL);
    if (code != SQLITE_OK)
        return store_refuse(s, code);
    sqlite3_busy_timeout(s->db, WAIT_MS);
    status = store_execute(s, "PRAGMA foreign_keys = ON; PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL");
    if (status == BRASA_OK)
        status = check_tables(s, mode);
    if (status == BRASA_OK && mode == STORE_READ)
        status = store_execute(s, "PRAGMA query_only = ON");
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
