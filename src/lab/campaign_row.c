/* campaign_row.c - one run of a cell by a peer, and the row that it becomes: see campaign.h. */
#define _POSIX_C_SOURCE 200809L
#include "lab/campaign_parts.h"

#include "core/threads.h"
#include "lab/parity.h"
#include "lab/peak.h"
#include "lab/proc.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* A row without figures. */
static store_row empty_row(const open_cell *x, const lab_run *run)
{
    return (store_row){.cell = x->id,
                       .peer = run->peer,
                       .variant = run->variant,
                       .repeat = run->repeat,
                       .fold = run->fold,
                       .load_before = NAN,
                       .fma_gflops = NAN,
                       .import_s = NAN,
                       .first_step_s = NAN,
                       .epoch_s = NAN,
                       .eval_s = NAN,
                       .accuracy = NAN,
                       .loss = NAN,
                       .peak_rss = -1,
                       .peak_pss = -1,
                       .peak_memory = -1,
                       .peak_swap = -1,
                       .cpu_mean = NAN,
                       .threads_max = -1,
                       .children = -1,
                       .ctx_switches = -1,
                       .faults = -1,
                       .read_bytes = -1,
                       .energy_j = NAN,
                       .monitor_share = NAN,
                       .device_peak = -1,
                       .gpu_peak = -1,
                       .gpu_busy = NAN,
                       .gpu_power = NAN,
                       .gpu_energy_j = NAN,
                       .profile_steps = -1,
                       .profile_s = NAN};
}

static void fill(store_row *row, const process_result *r)
{
    const account *a = &r->account;
    const monitor_totals *t = &r->totals;
    row->status = r->status;
    row->reason = r->reason;
    row->framework = a->framework;
    row->version = a->version;
    row->detail = a->detail;
    row->import_s = a->import_s;
    row->first_step_s = a->first_step_s;
    row->epoch_s = account_epoch_s(a);
    row->eval_s = account_eval_s(a);
    row->accuracy = a->accuracy;
    row->loss = a->epochs ? a->epoch[a->epochs - 1].loss : NAN;
    row->peak_rss = t->peak_rss;
    row->peak_pss = t->peak_pss;
    row->peak_swap = t->peak_swap;
    row->peak_memory = t->peak_memory;
    row->cpu_mean = t->cpu_mean;
    row->threads_max = t->threads_max;
    row->children = t->children;
    row->ctx_switches = t->ctx_switches;
    row->faults = t->faults;
    row->read_bytes = t->read_bytes;
    row->energy_j = t->energy_j;
    row->energy_why = t->energy_why;
    row->monitor_share = t->share;
    row->tail = r->tail;
    row->device_peak = a->device_peak;
    row->gpu_peak = t->gpu_peak;
    row->gpu_busy = t->gpu_busy;
    row->gpu_power = t->gpu_power;
    row->gpu_energy_j = t->gpu_energy_j;
    row->gpu_why = t->gpu_why;
    row->profile_steps = a->profile_steps;
    row->profile_s = a->profile_s;
    row->profile_why = a->profile_why;
}

/* How fast the processors are, and how many are busy with other things: just before a run. In this order: OpenMP's
 * threads wait busily for some milliseconds after their work, which must not fall into the run. */
static void look_around(store_row *row, const lab_cell *cell, double seconds)
{
    const struct timespec window = {.tv_nsec = (long)(1e9 * (seconds > 0 ? seconds : 0.2))};
    row->fma_gflops = peak_median(cell->threads ? (int)cell->threads : threads_available()) * 1e-9;
    const double own = lab_cpu(), busy = proc_busy(), before = lab_now();
    nanosleep(&window, NULL); /* a signal may end it early: the clock knows */
    const double others = proc_busy() - busy - (lab_cpu() - own);
    row->load_before = (others < 0 ? 0 : others) / (lab_now() - before);
}

/* Texts of the statuses that outlive the run they were told of; NULL: it is none of a row. */
static const char *lasting(const char *status)
{
    static const char *const all[] = {"done", "refused", "failed", "timeout", "memory", "killed", "different"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i], status) == 0)
            return all[i];
    return NULL;
}

/* Why there is nothing to run; row->status is NULL where there is. */
static void decide(campaign *c, const open_cell *x, const campaign_peer *peer, store_row *row)
{
    const store_parity *gate = x->broken || peer->why ? NULL : campaign_gate_of(c, x->info.key, peer);
    if (peer->why) {
        row->status = "absent";
        row->reason = peer->why;
    } else if (x->broken) {
        row->status = "failed";
        row->reason = x->broken;
    } else if (gate && strcmp(gate->status, "same") != 0) {
        row->status = lasting(gate->status);
        row->status = row->status ? row->status : "failed";
        row->reason = gate->detail;
    }
}

static brasa_status write_row(campaign *c, const lab_run *run, store_row *row, const process_result *r)
{
    row->order = ++c->order;
    const account *a = r ? &r->account : NULL;
    const store_details details = r ? (store_details){.epochs = a->epoch,
                                                      .nepochs = a->epochs,
                                                      .samples = r->samples,
                                                      .nsamples = r->count,
                                                      .functions = a->function,
                                                      .nfunctions = a->functions}
                                    : (store_details){0};
    brasa_status status = store_add_row(c->o->store, row, &details);
    if (status != BRASA_OK)
        return status;
    c->result->rows++;
    campaign_tell(c, (campaign_event){.kind = CAMPAIGN_ROW, .run = run, .row = row});
    return BRASA_OK;
}

brasa_status campaign_row(campaign *c, open_cell *x, const campaign_peer *peer, const lab_run *run,
                          const char **status)
{
    char started[32];
    store_row row = empty_row(x, run);
    row.started = campaign_date(started);
    decide(c, x, peer, &row);
    const brasa_status touched = campaign_touch(c);
    if (touched != BRASA_OK)
        return touched;
    if (row.status) {
        *status = lasting(row.status);
        if (!peer->why) {
            campaign_count(c, run);
            campaign_ended(c, x, run, row.status);
        }
        return write_row(c, run, &row, NULL);
    }
    process_result r;
    look_around(&row, x->cell, c->o->look);
    brasa_status went = campaign_process(c, x, peer, run, false, &r);
    *status = went == BRASA_OK ? lasting(r.status) : NULL; /* none, where it was stopped */
    if (went == BRASA_OK && *status) {
        const store_parity *gate = campaign_gate_of(c, x->info.key, peer);
        const char *notes = gate ? parity_notes(gate->detail) : NULL;
        c->result->runs++;
        if (notes && !account_add_detail(&r.account, "gate", notes + strspn(notes, "; ")))
            went = fail_memory(c->ctx, strlen(notes));
        fill(&row, &r);
        campaign_ended(c, x, run, r.status);
        if (went == BRASA_OK)
            went = write_row(c, run, &row, &r);
    }
    process_free(&r);
    return went;
}
