/* runs.c - `brasa runs`: the runs in a folder, and what came of them. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include "train/record.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDER_COLUMNS = 34 };

typedef struct row {
    const char *state;
    double accuracy, spread;
    int epochs;
} row;

/* The best of the epochs so far, where there is no result yet. */
static brasa_status read_progress(brasa_context *ctx, const char *folder, row *r)
{
    pool p = {.ctx = ctx};
    brasa_epoch *f;
    brasa_status status = run_epochs_read(&p, folder, &f, &r->epochs);
    for (int i = 0; status == BRASA_OK && i < r->epochs; i++)
        if (!isnan(f[i].test_accuracy) && !(r->accuracy >= f[i].test_accuracy))
            r->accuracy = f[i].test_accuracy;
    pool_free(&p);
    return status;
}

static brasa_status read_row(brasa_context *ctx, const char *folder, row *r)
{
    run_outcome o;
    *r = (row){.accuracy = NAN, .spread = NAN};
    brasa_status status = run_outcome_read(ctx, folder, &o);
    if (status == BRASA_OK)
        status = read_progress(ctx, folder, r);
    if (status != BRASA_OK)
        return status;
    r->state = run_busy(folder) ? "running" : !o.there ? "stopped" : o.failed ? "failed" : "finished";
    if (o.there) {
        r->accuracy = o.accuracy;
        r->spread = o.spread;
    }
    return BRASA_OK;
}

static void print_json(json *j, const char *folder, const run_info *i, const row *r)
{
    json_open(j, NULL, '{');
    json_text(j, "folder", folder);
    json_text(j, "created", i->created);
    json_text(j, "model", i->settings.model);
    json_text(j, "data", i->settings.data);
    json_int(j, "epochs", r->epochs);
    json_int(j, "folds", i->settings.folds);
    json_real(j, "accuracy", r->accuracy);
    json_real(j, "spread", r->spread);
    json_text(j, "state", r->state);
    json_close(j, '}');
}

static void print_row(const char *folder, const run_info *i, const row *r)
{
    const fitted name = print_fitted(folder, FOLDER_COLUMNS, false);
    printf("%s %s %s %8s %s\n", strlen(folder) > strlen(name.text) ? folder : name.text, /* a path is never cut */
           print_fitted(i->settings.model, 14, false).text, print_fitted(i->settings.data, 20, false).text,
           print_percent(r->accuracy).text, r->state);
}

/* A folder without run.json is no run; one that cannot be read is told, and the others still are shown. */
static int show_run(brasa_context *ctx, const char *folder, const options *o, json *j)
{
    run_info i;
    row r;
    if (!run_has(folder, RUN_FILE))
        return DONE;
    int code = DONE;
    if (run_read(ctx, folder, &i) != BRASA_OK || read_row(ctx, folder, &r) != BRASA_OK)
        code = complain(FAILED, "%s", brasa_context_error(ctx));
    else if (o->json)
        print_json(j, folder, &i, &r);
    else
        print_row(folder, &i, &r);
    run_free(&i);
    return code;
}

static int show_all(brasa_context *ctx, const char *parent, const options *o)
{
    struct dirent **list;
    const int count = scandir(parent, &list, NULL, alphasort);
    if (count < 0 && (errno != ENOENT || o->words))
        return complain(FAILED, "%s: %s", parent, strerror(errno));
    json j = json_stdout();
    int code = DONE;
    if (o->json)
        json_open(&j, NULL, '[');
    else
        heading("%-*s %-14s %-20s %8s %s", FOLDER_COLUMNS, "run", "model", "data", "accuracy", "state");
    for (int i = 0; i < count; i++) {
        char folder[1024];
        snprintf(folder, sizeof folder, "%s/%s", parent, list[i]->d_name);
        if (list[i]->d_name[0] != '.' && show_run(ctx, folder, o, &j) != DONE)
            code = FAILED;
        free(list[i]);
    }
    if (count >= 0)
        free(list);
    if (o->json)
        json_close(&j, ']');
    return code;
}

int run_runs(const options *o)
{
    brasa_context *ctx = NULL;
    brasa_status status = brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx);
    if (status != BRASA_OK)
        return complain(FAILED, "%s", brasa_status_text(status));
    int code = show_all(ctx, o->words ? o->word[0] : "runs", o);
    brasa_context_free(ctx);
    return code;
}
