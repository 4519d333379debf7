/* lab_report.c - `brasa lab report`: a campaign from the store as a page, or as CSV, JSON or Markdown. */
#include "cli.h"
#include "store_files.h"

#include "core/replace.h"
#include "lab/lab_export.h"
#include "lab/lab_page.h"
#include "lab/results_read.h"

#include <string.h>

static bool write_page(void *user, const char *text, size_t length)
{
    return replace_write(user, text, length) == BRASA_OK;
}

/* Beside the store: "lab-3-study1-cpu.html". A name may hold anything that a file's may not. */
static const char *page_path(pool *p, const char *store_path, const lab_results *r)
{
    char name[120];
    const int digits = snprintf(name, sizeof name, "%d-", (int)r->id);
    snprintf(name + digits, 80, "%s", r->name);
    for (char *c = name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", *c))
            *c = '_';
    strcat(name, ".html");
    return store_file(p, store_path, name);
}

static brasa_status save_page(pool *p, const lab_report *report, const char *path)
{
    replacement file;
    brasa_status status = replace_begin(&file, p->ctx, path);
    if (status == BRASA_OK)
        status = lab_page_write(p, report, write_page, &file);
    return replace_end(&file, status);
}

static void print_words(const lab_report *report)
{
    printf("verdict: ");
    wrapped(9, 2, report->verdict.headline);
    for (int i = 0; i < report->verdict.count; i++) {
        printf("- ");
        wrapped(2, 2, report->verdict.lines[i]);
    }
    for (int i = 0; i < report->alarms.count; i++) {
        const int used = printf("%s: ", report->alarms.list[i].severity == PAGE_ALARM ? "alarm" : "warning");
        wrapped(used, 2, report->alarms.list[i].text);
    }
}

static brasa_status show(pool *p, const lab_results *r, const options *o)
{
    lab_report report;
    brasa_status status = lab_report_make(p, r, &report);
    if (status != BRASA_OK)
        return status;
    if (o->csv)
        lab_export_csv(r, write_stdout, NULL);
    else if (o->json)
        lab_export_json(&report, write_stdout, NULL);
    else if (o->markdown)
        lab_export_markdown(&report, write_stdout, NULL);
    if (o->csv || o->json || o->markdown)
        return BRASA_OK;
    const char *path = o->out ? o->out : page_path(p, o->store, r);
    if (!path)
        return BRASA_OUT_OF_MEMORY;
    status = save_page(p, &report, path);
    print_words(&report); /* which are known whatever becomes of the page */
    if (status == BRASA_OK)
        print_line("report: %s", path);
    return status;
}

int run_lab_report(const options *o)
{
    brasa_context *ctx = NULL;
    store *s = NULL;
    store_campaign campaign;
    lab_results results;
    if (o->csv + o->json + o->markdown > 1)
        return complain(MISUSED, "--csv, --json, --markdown: expected one of them");
    if (o->out && o->csv + o->json + o->markdown)
        return complain(MISUSED, "--out is the page's: --csv, --json and --markdown go to standard output");
    brasa_status status = brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx);
    if (status != BRASA_OK)
        return complain(FAILED, "%s", brasa_status_text(status));
    pool p = {.ctx = ctx};
    status = store_open(ctx, o->store, STORE_READ, &s);
    if (status == BRASA_OK)
        status = results_find_campaign(s, &p, o->words ? o->word[0] : NULL, &campaign);
    if (status == BRASA_OK && option_given(o, "price-per-hour"))
        campaign.price_per_hour = o->price_per_hour;
    if (status == BRASA_OK)
        status = results_read(s, &p, &campaign, &results);
    if (status == BRASA_OK)
        status = show(&p, &results, o);
    const int code = status == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_context_error(ctx));
    store_close(s);
    pool_free(&p);
    brasa_context_free(ctx);
    return code;
}
