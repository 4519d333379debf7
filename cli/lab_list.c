/* lab_list.c - `brasa lab list`: the campaigns in a store, and how far each has come. */
#include "cli.h"

#include "lab/store.h"

#include <string.h>

typedef struct progress_of {
    int cells, rows, done;
} progress_of;

static brasa_status count_rows(store *s, pool *p, int64_t campaign, progress_of *out)
{
    store_cell *cells;
    brasa_status status = store_cells(s, p, campaign, &cells, &out->cells);
    for (int i = 0; status == BRASA_OK && i < out->cells; i++) {
        store_row *rows;
        int count;
        status = store_rows(s, p, cells[i].id, &rows, &count);
        for (int k = 0; status == BRASA_OK && k < count; k++) {
            out->rows++;
            out->done += rows[k].status && strcmp(rows[k].status, "done") == 0;
        }
    }
    return status;
}

static void print_json(json *j, const store_campaign *c, const progress_of *of)
{
    json_open(j, NULL, '{');
    json_int(j, "campaign", c->id);
    json_text(j, "name", c->name);
    json_text(j, "created", c->created);
    json_text(j, "scale", c->scale);
    json_text(j, "finished", c->finished);
    json_int(j, "cells", of->cells);
    json_int(j, "runs", of->rows);
    json_int(j, "done", of->done);
    json_close(j, '}');
}

static void print_row(const store_campaign *c, const progress_of *of)
{
    char done[32];
    snprintf(done, sizeof done, "%d of %d", of->done, of->rows);
    print_line("%-4d %s %s %s %5d %12s %s", (int)c->id, print_fitted(c->created ? c->created : "", 19, false).text,
               print_fitted(c->name ? c->name : "", 18, false).text,
               print_fitted(c->scale ? c->scale : "", 6, false).text, of->cells, done,
               c->finished ? "finished" : "open");
}

static brasa_status show(store *s, pool *p, const options *o)
{
    store_campaign *list;
    int count;
    brasa_status status = store_campaigns(s, p, &list, &count);
    if (status != BRASA_OK)
        return status;
    json j = json_stdout();
    if (o->json)
        json_open(&j, NULL, '[');
    else
        heading("%-4s %-19s %-18s %-6s %5s %12s %s", "", "begun", "campaign", "scale", "cells", "runs done", "state");
    for (int i = 0; status == BRASA_OK && i < count; i++) {
        progress_of of = {0};
        status = count_rows(s, p, list[i].id, &of);
        if (status != BRASA_OK)
            break;
        if (o->json)
            print_json(&j, &list[i], &of);
        else
            print_row(&list[i], &of);
    }
    if (o->json)
        json_close(&j, ']');
    return status;
}

int run_lab_list(const options *o)
{
    brasa_context *ctx = NULL;
    store *s = NULL;
    brasa_status status = brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx);
    if (status != BRASA_OK)
        return complain(FAILED, "%s", brasa_status_text(status));
    pool p = {.ctx = ctx};
    status = store_open(ctx, o->store, STORE_READ, &s);
    if (status == BRASA_OK)
        status = show(s, &p, o);
    const int code = status == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_context_error(ctx));
    store_close(s);
    pool_free(&p);
    brasa_context_free(ctx);
    return code;
}
