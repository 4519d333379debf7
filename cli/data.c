/* data.c - `brasa data info`, `brasa data make` and `brasa data get`: what a set holds, and where sets come from. */
#include "cli.h"

#include "data/make.h"

#include <stdarg.h>
#include <string.h>

enum { SHOWN = 10 /* broken files, and classes, that are named */, IMBALANCE = 5 };

static bool show_progress(void *user, const char *what, int64_t done, int64_t all)
{
    progress_show(user, "%s: %s of %s", what, print_count(done).text, print_count(all).text);
    return true;
}

typedef struct examining {
    progress p;
    const dataset *d;
} examining;

static bool show_examining(void *user, int32_t done)
{
    examining *e = user;
    return show_progress(&e->p, "samples", done, e->d->count);
}

static int told(brasa_context *ctx, brasa_status status)
{
    return complain(status == BRASA_BAD_ARGUMENT || status == BRASA_NOT_FOUND ? MISUSED : FAILED, "%s", ctx->error);
}

/* --- info ------------------------------------------------------------------------------------------------------ */

typedef struct warnings {
    char text[4][200];
    int count;
} warnings;

static void warn(warnings *w, const char *format, ...) BRASA_PRINTF(2, 3);
static void warn(warnings *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(w->text[w->count++], sizeof w->text[0], format, args);
    va_end(args);
}

static warnings look_for(const dataset *d, const dataset_report *r)
{
    warnings w = {0};
    int most = 0, least = 0;
    for (int c = 1; c < d->classes; c++) {
        most = r->per_class[c] > r->per_class[most] ? c : most;
        least = r->per_class[c] < r->per_class[least] ? c : least;
    }
    if (r->nbad)
        warn(&w, "%s of %s samples cannot be read", print_count(r->nbad).text, print_count(d->count).text);
    if (d->classes == 1)
        warn(&w, "there is one class only: nothing to tell apart");
    else if (r->per_class[most] >= (int64_t)IMBALANCE * r->per_class[least])
        warn(&w, "the classes are out of balance: '%.60s' has %s samples, '%.60s' %s", d->class_name[most],
             print_count(r->per_class[most]).text, d->class_name[least], print_count(r->per_class[least]).text);
    if (r->duplicates)
        warn(&w, "%s samples have the same content as an earlier one", print_count(r->duplicates).text);
    if (d->note)
        warn(&w, "%s", d->note);
    return w;
}

static void info_json(const dataset *d, const dataset_report *r)
{
    const warnings w = look_for(d, r);
    json j = json_stdout();
    json_open(&j, NULL, '{');
    json_text(&j, "data", d->spec);
    json_int(&j, "samples", d->count);
    json_open(&j, "parts", '{');
    for (int i = 0; i < d->parts; i++)
        json_int(&j, d->part[i].name, d->part[i].count);
    json_close(&j, '}');
    json_open(&j, "classes", '[');
    for (int i = 0; i < d->classes; i++) {
        json_open(&j, NULL, '{');
        json_text(&j, "name", d->class_name[i]);
        json_int(&j, "samples", r->per_class[i]);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_int(&j, "channels", d->channels);
    for (int i = 0; i < 2; i++) {
        json_open(&j, i ? "width" : "height", '[');
        json_int(&j, NULL, r->low[i]);
        json_int(&j, NULL, r->high[i]);
        json_close(&j, ']');
    }
    if (d->header)
        json_text(&j, "header", d->header);
    json_text(&j, "sha256", r->hash);
    json_int(&j, "unreadable", r->nbad);
    json_open(&j, "unreadable_files", '[');
    for (int32_t i = 0; i < r->nbad; i++)
        json_text(&j, NULL, r->bad[i].why);
    json_close(&j, ']');
    json_int(&j, "duplicates", r->duplicates);
    json_open(&j, "warnings", '[');
    for (int i = 0; i < w.count; i++)
        json_text(&j, NULL, w.text[i]);
    json_close(&j, ']');
    json_close(&j, '}');
}

static void print_sizes(const dataset *d, const dataset_report *r)
{
    if (d->numbers)
        printf("sample    %d numbers\n%s%s%s", d->channels, d->header ? "header    " : "", d->header ? d->header : "",
               d->header ? "\n" : "");
    else if (r->low[0] == r->high[0] && r->low[1] == r->high[1])
        printf("sample    %dx%dx%d (channels, height, width)\n", d->channels, r->low[0], r->low[1]);
    else
        printf("sample    %d channels, %d to %d high, %d to %d wide\n", d->channels, r->low[0], r->high[0], r->low[1],
               r->high[1]);
}

static void info_text(const dataset *d, const dataset_report *r)
{
    const warnings w = look_for(d, r);
    print_line("data      %s", d->spec);
    printf("samples   %s", print_count(d->count).text);
    for (int i = 0; i < d->parts && d->parts > 1; i++)
        printf("%s %s %s", i ? "," : ":", d->part[i].name, print_count(d->part[i].count).text);
    printf("\n");
    print_sizes(d, r);
    printf("hash      %s\n", r->hash);
    printf("classes   %d\n", d->classes);
    for (int i = 0; i < d->classes && i < SHOWN; i++)
        printf("  %s %9s\n", print_fitted(d->class_name[i], 24, false).text, print_count(r->per_class[i]).text);
    if (d->classes > SHOWN)
        printf("  ... and %d more (all with --json)\n", d->classes - SHOWN);
    for (int i = 0; i < w.count; i++)
        printf("warning   %s\n", w.text[i]);
    for (int32_t i = 0; i < r->nbad && i < SHOWN; i++)
        print_line("  %s", r->bad[i].why);
    if (r->nbad > SHOWN)
        printf("  ... and %d more (all with --json)\n", (int)r->nbad - SHOWN);
}

int run_data_info(const options *o)
{
    brasa_context *ctx = NULL;
    dataset_report r = {0};
    examining e = {.p = progress_start(o->quiet)};
    dataset *d = NULL;
    if (brasa_context_new(NULL, &ctx) != BRASA_OK)
        return complain(FAILED, "out of memory");
    brasa_status status = dataset_open(ctx, o->word[0], &d);
    if (status == BRASA_OK) {
        e.d = d;
        status = dataset_examine(d, true, show_examining, &e, &r);
    }
    progress_end(&e.p);
    int code = DONE;
    if (status != BRASA_OK)
        code = told(ctx, status);
    else if (o->json)
        info_json(d, &r);
    else
        info_text(d, &r);
    dataset_report_free(&r);
    dataset_close(d);
    brasa_context_free(ctx);
    return code;
}

/* --- make and get ---------------------------------------------------------------------------------------------- */

static int done(brasa_context *ctx, progress *p, brasa_status status, const char *spec)
{
    progress_end(p);
    int code = DONE;
    if (status != BRASA_OK)
        code = told(ctx, status);
    else
        printf("%s\n", spec);
    brasa_context_free(ctx);
    return code;
}

int run_data_make(const options *o)
{
    brasa_context *ctx = NULL;
    dataset *d = NULL;
    char spec[4096] = "";
    progress p = progress_start(o->quiet);
    if (brasa_context_new(NULL, &ctx) != BRASA_OK)
        return complain(FAILED, "out of memory");
    brasa_status status = dataset_open(ctx, o->word[0], &d);
    if (status == BRASA_OK)
        status = dataset_make(d, o->word[1], show_progress, &p, spec, sizeof spec);
    dataset_close(d);
    return done(ctx, &p, status, spec);
}

int run_data_get(const options *o)
{
    brasa_context *ctx = NULL;
    char spec[4096] = "";
    progress p = progress_start(o->quiet);
    if (brasa_context_new(NULL, &ctx) != BRASA_OK)
        return complain(FAILED, "out of memory");
    const brasa_status status =
        dataset_get(ctx, o->word[0], o->word[1], o->from, show_progress, &p, spec, sizeof spec);
    return done(ctx, &p, status, spec);
}
