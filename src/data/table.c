/* table.c - see table.h. */
#include "data/table.h"
#include "data/source.h"

#include <string.h>

enum { MAX_COLUMNS = 100000, MAX_BYTES = 1 << 30, FIRST_BYTES = 1 << 16 };

brasa_status table_refuse(const table *t, const char *what)
{
    return fail(t->pool.ctx, BRASA_BAD_FILE, "%s: line %d: %s", t->path, t->line, what);
}

/* The whole file, in memory that doubles, as its unpacked size is not known. */
static brasa_status read_all(table *t)
{
    data_file f;
    size_t room = FIRST_BYTES, used = 0, got = 0;
    brasa_status status = file_open(t->pool.ctx, t->path, &f);
    if (status != BRASA_OK)
        return status;
    if (!f.unpacker && f.size < MAX_BYTES)
        room = (size_t)f.size + 1; /* so that the end is seen at once */
    do {
        char *larger = pool_get(&t->pool, room + 1, 1);
        if (!larger) {
            status = fail_memory(t->pool.ctx, room);
            break;
        }
        if (used)
            memcpy(larger, t->text, used);
        t->text = larger;
        status = file_some(&f, t->text + used, room - used, &got);
        used += got;
        room *= 2;
        if (used > MAX_BYTES)
            status =
                fail(t->pool.ctx, BRASA_BAD_FILE, "%s: more than 1 GiB: too large to be held in memory", t->path);
    } while (status == BRASA_OK && got && used * 2 == room);
    file_close(&f);
    if (status == BRASA_OK && memchr(t->text, '\0', used))
        return fail(t->pool.ctx, BRASA_BAD_FILE, "%s: byte %zu is zero: not a text file", t->path, strlen(t->text));
    t->at = t->text;
    return status;
}

/* The next cell, cut out in place; *last tells whether its line ends there. */
static brasa_status next_cell(table *t, char **out, bool *last)
{
    char *from = t->at, *to = t->at;
    *out = to;
    if (*from == '"') {
        for (from++; *from && *from != '\n' && (*from != '"' || from[1] == '"'); from++) {
            from += *from == '"'; /* a doubled one */
            *to++ = *from;
        }
        if (*from != '"')
            return table_refuse(t, "a quote that is not closed on its line");
        from++;
    } else {
        while (*from && *from != t->separator && *from != '\n' && *from != '\r')
            from++;
        to = from;
    }
    if (*from == '\r' && from[1] == '\n')
        from++;
    const char end = *from;
    if (end && end != t->separator && end != '\n')
        return table_refuse(t, end == '\r' ? "a carriage return without a line feed" : "text behind a quoted cell");
    *last = end != t->separator;
    t->at = from + (end != '\0');
    *to = '\0';
    return BRASA_OK;
}

/* The next line that is not empty, into t->cell; t->cells is 0 at the end. */
brasa_status table_next(table *t)
{
    bool last = false;
    for (t->cells = 0, t->line++; *t->at == '\n' || (*t->at == '\r' && t->at[1] == '\n'); t->line++)
        t->at += 1 + (*t->at == '\r');
    while (*t->at && !last) /* a separator at the very end has an empty cell behind it */
        do {
            char **grown = pool_grow(&t->pool, t->cell, t->cells, &t->capacity, sizeof *grown);
            if (!grown)
                return fail_memory(t->pool.ctx, sizeof *grown);
            t->cell = grown;
            if (t->cells == MAX_COLUMNS)
                return table_refuse(t, "more than 100,000 cells");
            brasa_status status = next_cell(t, &t->cell[t->cells++], &last);
            if (status != BRASA_OK)
                return status;
        } while (!last);
    return BRASA_OK;
}

brasa_status table_open(brasa_context *ctx, const char *path, char separator, table *t)
{
    *t = (table){.pool.ctx = ctx, .path = path, .separator = separator};
    brasa_status status = read_all(t);
    if (status != BRASA_OK)
        return status;
    if (strncmp(t->at, "\xEF\xBB\xBF", 3) == 0)
        t->at += 3; /* a byte order mark */
    return table_next(t);
}

void table_close(table *t)
{
    pool_free(&t->pool);
}
