/* lab_run.c - `brasa lab run`: an experiment by every peer that is here, and then the report.
 *
 * What happens is told as it happens, a line for every comparison and every run. Ctrl-C ends the run that is under
 * way, which then counts as not done; --resume goes on with what is missing. */
#define _POSIX_C_SOURCE 200809L
#include "build_info.h"
#include "cli.h"
#include "signals.h"
#include "store_files.h"

#include "core/nvml.h"
#include "lab/campaign.h"
#include "lab/experiment.h"
#include "lab/guard.h"
#include "lab/peers.h"
#include "lab/results_read.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PEER_COLUMNS = 24, NETWORK_COLUMNS = 30 };

typedef struct lab {
    brasa_context *ctx;
    const options *options;
    pool pool;
    store *store;
    store_campaign old; /* that is gone on with */
    const char *who;    /* takes part */
    experiment *experiment;
    peer *peer;
    campaign_peer *peers;
    int count;
    progress progress;
    int64_t id;
} lab;

static brasa_status out_of_memory(const lab *l)
{
    return fail_memory(l->ctx, 0);
}

/* --- what is told -------------------------------------------------------------------------------------------- */

/* "pytorch", "pytorch:compiled" */
static fitted peer_name(const char *name, const char *variant)
{
    char both[128];
    snprintf(both, sizeof both, "%s%s%s", name, *variant ? ":" : "", variant);
    return print_fitted(both, PEER_COLUMNS, false);
}

static fitted cell_name(const lab_cell *c)
{
    char text[200];
    snprintf(text, sizeof text, "%s, batch %lld", c->network, (long long)c->batch);
    return print_fitted(text, NETWORK_COLUMNS, false);
}

/* The gate's key ends with a number in brackets, which is of no use to a reader. */
static void tell_parity(const store_parity *p)
{
    int length = (int)strcspn(p->network, "[");
    while (length && p->network[length - 1] == ' ')
        length--;
    const char *word = strcmp(p->status, "same") == 0 ? "the same experiment" : p->status;
    print_line("gate  %s  %.*s: %s: %s", peer_name(p->peer, p->variant).text, length, p->network, word, p->detail);
}

/* Who takes part, and who does not and why: `brasa lab peers` may have asked another Python. */
static void tell_peers(const lab *l)
{
    int here = 0;
    for (int i = 0; i < l->count; i++)
        if (!l->peer[i].why)
            printf("%s%s%s%s %s", here++ ? ", " : "with ", l->peer[i].def->name, *l->peer[i].variant ? ":" : "",
                   l->peer[i].variant, l->peer[i].version);
    if (here)
        putchar('\n');
    for (int i = 0; i < l->count; i++)
        if (l->peer[i].why)
            print_line("without %s%s%s: %s", l->peer[i].def->name, *l->peer[i].variant ? ":" : "", l->peer[i].variant,
                       l->peer[i].why);
}

/* A row of somebody who is not here tells nothing new. */
static bool is_here(const lab *l, const store_row *r)
{
    for (int i = 0; i < l->count; i++)
        if (l->peers[i].why && strcmp(l->peers[i].name, r->peer) == 0 && strcmp(l->peers[i].variant, r->variant) == 0)
            return false;
    return true;
}

/* Of an hour; 0, NAN: none was given. */
static double price_of(const lab *l)
{
    return l->options->resume ? l->old.price_per_hour : l->options->price_per_hour;
}

/* What an image took in the steady epochs. */
static void tell_row(const lab *l, const campaign_event *e)
{
    const store_row *r = e->row;
    if (!is_here(l, r))
        return;
    const int64_t images = experiment_images(l->experiment, e->run->cell);
    printf("[%d/%d]  %s  %s  ", e->number, e->total, cell_name(e->run->cell).text,
           peer_name(r->peer, r->variant).text);
    if (strcmp(r->status, "done") != 0) {
        print_line("%s: %s", r->status, r->reason ? r->reason : "");
        return;
    }
    printf("%9s an image", images > 0 ? print_seconds(r->epoch_s / (double)images).text : "-");
    if (r->peak_memory >= 0) /* it was not over before anybody looked */
        printf("  %9s  %3lld threads", print_bytes((double)r->peak_memory).text, (long long)r->threads_max);
    if (r->gpu_peak >= 0)
        printf("  %9s of the GPU's", print_bytes((double)r->gpu_peak).text);
    if (!isnan(r->accuracy))
        printf("  %s right", print_percent(r->accuracy).text);
    if (price_of(l) > 0)
        printf("  costs %.3g an epoch", r->epoch_s * price_of(l) / 3600);
    putchar('\n');
}

static void tell_progress(lab *l, const campaign_event *e)
{
    const lab_line *line = e->line;
    char so_far[64] = "";
    if (line && line->event == LINE_EPOCH)
        snprintf(so_far, sizeof so_far, ", epoch %lld/%lld", (long long)line->epoch, (long long)e->run->cell->epochs);
    progress_show(&l->progress, "[%d/%d] %s, batch %lld: %s%s%s%s", e->number, e->total, e->run->cell->network,
                  (long long)e->run->cell->batch, e->run->peer, *e->run->variant ? " " : "", e->run->variant,
                  e->check ? ", at the gate" : so_far);
}

static void tell(void *user, const campaign_event *e)
{
    lab *l = user;
    if (e->kind == CAMPAIGN_BEGIN)
        l->id = e->campaign;
    if (l->options->quiet)
        return;
    if (e->kind == CAMPAIGN_START || e->kind == CAMPAIGN_LINE) {
        tell_progress(l, e);
        return;
    }
    progress_end(&l->progress);
    if (e->kind == CAMPAIGN_BEGIN) {
        const char *title = l->experiment->title ? l->experiment->title : l->experiment->name;
        const char *cells = l->experiment->count == 1 ? "cell" : "cells";
        if (e->total)
            heading("%s: %d %s, %d run%s at least, into %s", title, l->experiment->count, cells, e->total,
                    e->total == 1 ? "" : "s", l->options->store);
        else
            heading("%s: %d %s, no run is missing in %s", title, l->experiment->count, cells, l->options->store);
        tell_peers(l);
    } else if (e->kind == CAMPAIGN_PARITY) {
        tell_parity(e->parity);
    } else {
        tell_row(l, e);
    }
    fflush(stdout);
    l->progress = progress_start(l->options->quiet);
}

/* --- what it is made of -------------------------------------------------------------------------------------- */

/* Campaigns of older versions do not say who takes part, nor on which data. */
static bool is_of_older_version(const lab *l)
{
    return l->options->resume && !l->old.peers;
}

/* Nothing is learned on other data than those of the rows that are there. */
static brasa_status check_data(lab *l)
{
    store_cell *cells;
    int count;
    brasa_status status = store_cells(l->store, &l->pool, l->old.id, &cells, &count);
    for (int i = 0; status == BRASA_OK && i < count; i++) {
        bool known = false;
        for (int k = 0; k < l->experiment->count && !known; k++)
            known = cells[i].data && strcmp(cells[i].data, l->experiment->cells[k].data) == 0;
        if (!known)
            return fail(l->ctx, BRASA_BAD_ARGUMENT,
                        "campaign %lld has rows on %s, which its text does not name: give --data as it was then",
                        (long long)l->old.id, cells[i].data ? cells[i].data : "other data");
    }
    return status;
}

/* The experiment from its name or file, or from the campaign that is gone on with. */
static brasa_status open_experiment(lab *l)
{
    const options *o = l->options;
    experiment_options e = {.small = o->scale && strcmp(o->scale, "small") == 0, .data = o->data};
    if (!o->resume)
        return experiment_open(l->ctx, o->word[0], &e, &l->experiment);
    brasa_status status = results_find_campaign(l->store, &l->pool, o->resume, &l->old);
    if (status != BRASA_OK)
        return status;
    if (o->data && !is_of_older_version(l))
        return fail(l->ctx, BRASA_BAD_ARGUMENT,
                    "--resume goes on with the campaign's own data: --data cannot be given");
    if (!is_of_older_version(l))
        e.data = l->old.data;
    e.small = l->old.scale && strcmp(l->old.scale, "small") == 0;
    status = experiment_read(l->ctx, l->old.name, l->old.text, &e, &l->experiment);
    if (status == BRASA_OK)
        status = check_data(l);
    return status == BRASA_OK ? experiment_check(l->experiment) : status;
}

/* How the runner of a peer is started. */
static brasa_status start_of(lab *l, const peer *one, campaign_peer *out)
{
    char own[4096];
    const char **argv = pool_get(&l->pool, 4, sizeof *argv);
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (!argv)
        return out_of_memory(l);
    *out = (campaign_peer){.name = one->def->name, .variant = one->variant, .argv = argv, .why = one->why};
    if (one->def->module) {
        argv[0] = one->python;
        argv[1] = one->runner;
        return BRASA_OK;
    }
    if (length <= 0)
        return fail(l->ctx, BRASA_BAD_FILE, "the path of this program cannot be found: %s", strerror(errno));
    own[length] = '\0';
    argv[0] = pool_text(&l->pool, "%s", own);
    argv[1] = "lab";
    argv[2] = "runner";
    return argv[0] ? BRASA_OK : out_of_memory(l);
}

static brasa_status choose_peers(lab *l)
{
    l->who = l->options->peers ? l->options->peers : l->options->resume ? l->old.peers : "all";
    if (!l->who)
        return fail(l->ctx, BRASA_BAD_ARGUMENT,
                    "campaign %lld is of an older brasa, which did not keep who takes part: --peers says it",
                    (long long)l->old.id);
    brasa_status status = peers_choose(&l->pool, l->who, &l->peer, &l->count);
    l->peers = status == BRASA_OK ? pool_get(&l->pool, (size_t)l->count + 1, sizeof *l->peers) : NULL;
    return status == BRASA_OK && !l->peers ? out_of_memory(l) : status;
}

static brasa_status ask_peers(lab *l)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; i < l->count && status == BRASA_OK; i++) {
        status = peer_ask(&l->pool, &l->peer[i]);
        if (status == BRASA_OK)
            status = start_of(l, &l->peer[i], &l->peers[i]);
    }
    return status;
}

/* Beside the store, so that what is drawn once serves all its campaigns, and it is the store that is locked. */
static brasa_status files_folder(lab *l, const char **out)
{
    const char *path = l->options->store;
    char here[4096] = "";
    if (path[0] != '/' && !getcwd(here, sizeof here))
        return fail(l->ctx, BRASA_BAD_FILE, "the current folder has no name: %s", strerror(errno));
    const char *beside = store_file(&l->pool, path, "files");
    *out = beside ? pool_text(&l->pool, "%s%s%s", here, *here ? "/" : "", beside) : NULL;
    if (!*out)
        return out_of_memory(l);
    if (mkdir(*out, 0777) != 0 && errno != EEXIST)
        return fail(l->ctx, BRASA_BAD_FILE, "cannot make %s: %s", *out, strerror(errno));
    struct stat st;
    if (stat(*out, &st) != 0 || !S_ISDIR(st.st_mode))
        return fail(l->ctx, BRASA_BAD_FILE, "%s: the lab's files belong there, and it is no folder", *out);
    if (access(*out, W_OK | X_OK) != 0)
        return fail(l->ctx, BRASA_BAD_FILE, "%s: the lab's files belong there: %s", *out, strerror(errno));
    return BRASA_OK;
}

/* The machine, and the GPUs that a driver knows here: which of them computes is up to each framework. */
static void machine_and_gpus_json(json *j)
{
    char words[600] = "", name[96] = "", driver[96] = "", why[200];
    nvml *n = nvml_open(why, sizeof why);
    machine_json(j);
    for (int i = 0; n && i < nvml_count(n); i++) {
        nvml_gpu *g = nvml_by_index(n, i);
        const size_t used = strlen(words);
        if (g && nvml_name(n, g, name, sizeof name))
            snprintf(words + used, sizeof words - used, "%s%s", used ? ", " : "", name);
    }
    if (*words)
        json_text(j, "gpu", words);
    if (*words && nvml_driver(n, driver, sizeof driver))
        json_text(j, "gpu_driver", driver);
    nvml_close(n);
}

/* {"machine": ...} or {"versions": ...}, as other accounts have them. */
static const char *facts_of(lab *l, void (*write)(json *j))
{
    lab_text all = {.pool = &l->pool};
    json j = {.write = lab_text_write, .user = &all};
    json_open(&j, NULL, '{');
    write(&j);
    json_close(&j, '}');
    return j.failed ? NULL : all.text;
}

static brasa_status doubled(void *user, const lab_cell *cell, lab_cell *out, bool *more)
{
    const lab *l = user;
    return experiment_doubled(l->experiment, cell, out, more);
}

/* --- the run ------------------------------------------------------------------------------------------------- */

static brasa_status run_campaign(lab *l, campaign_result *result)
{
    const options *o = l->options;
    const char *folder;
    campaign_peer reference;
    const peer brasa = {.def = peer_def_at(0), .variant = ""};
    brasa_status status = files_folder(l, &folder);
    if (status == BRASA_OK)
        status = start_of(l, &brasa, &reference);
    if (status != BRASA_OK)
        return status;
    campaign_files files = {.ctx = l->ctx, .folder = folder};
    campaign_options c = {.store = l->store,
                          .folder = folder,
                          .name = o->resume ? l->old.name : l->experiment->name,
                          .text = l->experiment->text,
                          .scale = l->experiment->small ? "small" : "full",
                          .machine = facts_of(l, machine_and_gpus_json),
                          .brasa = facts_of(l, build_json),
                          .price_per_hour = o->price_per_hour,
                          .who = l->who,
                          .data = o->data,
                          .cells = l->experiment->cells,
                          .count = l->experiment->count,
                          .doubled = doubled,
                          .user = l,
                          .peers = l->peers,
                          .npeers = l->count,
                          .reference = &reference,
                          .source = campaign_exchange(&files),
                          .resume = o->resume ? l->old.id : 0,
                          .retry = o->retry,
                          .stop = &stop_asked,
                          .event = tell,
                          .watcher = l};
    if (!c.machine || !c.brasa)
        return out_of_memory(l);
    catch_signals();
    l->progress = progress_start(o->quiet);
    status = campaign_run(l->ctx, &c, result);
    progress_end(&l->progress);
    return status;
}

/* The verdict, and the page. */
static int show_report(const options *o, int64_t id)
{
    char number[32];
    options report = *o;
    snprintf(number, sizeof number, "%lld", (long long)id);
    report.words = 1;
    report.word[0] = number;
    return run_lab_report(&report);
}

static int check_words(const options *o)
{
    if (o->resume && o->words)
        return complain(MISUSED, "--resume goes on with the campaign's own experiment: unexpected '%s'", o->word[0]);
    if (!o->resume && !o->words)
        return complain(MISUSED, "lab run: which experiment? Expected a preset (`brasa help experiments`) or a file");
    if (o->resume && o->scale)
        return complain(MISUSED, "--resume goes on in the campaign's own size: --scale cannot be given");
    if (o->resume && option_given(o, "price-per-hour"))
        return complain(MISUSED,
                        "--resume goes on at the campaign's own price; `brasa lab report` takes another one");
    if (o->scale && strcmp(o->scale, "small") != 0 && strcmp(o->scale, "full") != 0)
        return complain(MISUSED, "--scale: expected full or small, got '%.60s'", o->scale);
    return DONE;
}

/* A store is made only where there is something to put into it. */
static brasa_status open_all(lab *l)
{
    const options *o = l->options;
    brasa_status status = o->resume ? store_open(l->ctx, o->store, STORE_GO_ON, &l->store) : BRASA_OK;
    if (status == BRASA_OK)
        status = open_experiment(l);
    if (status == BRASA_OK)
        status = choose_peers(l);
    if (status == BRASA_OK && !o->resume)
        status = store_open(l->ctx, o->store, STORE_WORK, &l->store);
    return status == BRASA_OK ? ask_peers(l) : status;
}

int run_lab_run(const options *o)
{
    lab l = {.options = o};
    campaign_result result = {.campaign = 0};
    guard g;
    int code = check_words(o);
    if (code != DONE)
        return code;
    if (!guard_start(&g))
        return complain(FAILED, "no process can be started: %s", strerror(errno));
    if (brasa_context_new(NULL, &l.ctx) != BRASA_OK)
        return complain(FAILED, "out of memory");
    l.pool.ctx = l.ctx;
    brasa_status status = open_all(&l);
    const bool begun = status == BRASA_OK;
    if (begun)
        status = run_campaign(&l, &result);
    store_close(l.store);
    if (status != BRASA_OK && (!l.id || status == BRASA_BAD_ARGUMENT)) /* which it cannot go on with, either */
        code = complain(begun ? FAILED : MISUSED, "%s", brasa_context_error(l.ctx));
    else if (status != BRASA_OK || result.stopped)
        code = complain(result.stopped ? STOPPED : FAILED, "%s: `brasa lab run --resume %lld --store %s` goes on",
                        status == BRASA_OK ? "stopped" : brasa_context_error(l.ctx), (long long)l.id, o->store);
    else
        code = show_report(o, result.campaign);
    if (code == DONE && !result.done)
        code = complain(FAILED, "nobody got through: the rows say why");
    experiment_close(l.experiment);
    pool_free(&l.pool);
    brasa_context_free(l.ctx);
    guard_end(&g);
    return code;
}
