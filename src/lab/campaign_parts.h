/* campaign_parts.h - between the files of campaign.h. */
#ifndef LAB_CAMPAIGN_PARTS_H
#define LAB_CAMPAIGN_PARTS_H

#include "lab/campaign.h"

typedef struct campaign {
    brasa_context *ctx;
    const campaign_options *o;
    pool pool;
    int64_t id;
    const char *file; /* that runners are given */
    int number, total, order;
    campaign_result *result;
    /* The gate: what is known, and Brasa's account for one key. */
    store_parity *gates;
    int ngates, capacity;
    const char *account_key; /* NULL: none */
    process_result account;
    store_cell *known; /* cells of the campaign that is gone on with */
    int nknown;
    bool finished; /* it was, and nothing has been done to it since */
    bool resumed;  /* something is done to it again, which the store knows */
} campaign;

/* A cell that is being run. */
typedef struct open_cell {
    const lab_cell *cell;
    int64_t id; /* in the store; 0: not there */
    void *prepared;
    campaign_info info;
    const char *broken; /* why its files could not be made; NULL: they are there */
    pool pool;
} open_cell;

bool campaign_stopped(const campaign *c);
/* One more run, or row in its place. Those of batches that double were not counted beforehand. */
void campaign_count(campaign *c, const lab_run *run);
/* What a run has come to: where that is final, further ones of the cell by this peer are not made. */
void campaign_ended(campaign *c, const open_cell *x, const lab_run *run, const char *status);
void campaign_tell(campaign *c, campaign_event e);
/* Now, as the store has it: "2026-11-20T14:03:11Z". */
const char *campaign_date(char text[32]);
/* One process of a peer. The result is to be freed whatever came back. */
brasa_status campaign_process(campaign *c, open_cell *x, const campaign_peer *peer, const lab_run *run, bool check,
                              process_result *out);

/* campaign_resume.c: what there is of the campaign that is gone on with, or why it cannot be. */
brasa_status campaign_resume(campaign *c);
/* Before anything is run or kept: a campaign that is gone on with is not finished any more. */
brasa_status campaign_touch(campaign *c);
/* The row of a run in this repeat, or NULL. */
const store_row *campaign_find_row(const store_row *rows, int count, const lab_run *run, int64_t repeat);
bool campaign_is(const store_row *row, const char *status);
/* Whether a run that ended so would end so again, and only cost time. */
bool campaign_is_final(const char *status);
/* How many runs of a cell by a peer are missing; rows: those that are there. */
int campaign_missing(const campaign *c, const lab_cell *cell, const campaign_peer *peer, const store_row *rows,
                     int count);
/* Whether there are any, by the rows from before. */
brasa_status campaign_owes(campaign *c, const open_cell *x, const campaign_peer *peer, bool *owes);

/* campaign_gate.c: compares all peers for the cell's key, where that was not done; and what is known of one, or NULL.
 */
brasa_status campaign_gate(campaign *c, open_cell *x);
const store_parity *campaign_gate_of(const campaign *c, const char *key, const campaign_peer *peer);

/* campaign_row.c: one run and its row; *status is the row's (static), NULL where it was stopped. */
brasa_status campaign_row(campaign *c, open_cell *x, const campaign_peer *peer, const lab_run *run,
                          const char **status);

#endif
