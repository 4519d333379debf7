/* campaign.h - the loop of the lab: every cell, by every peer, so many times, into the store.
 *
 * First the gate (parity.h): each peer learns a few given batches with each network and optimizer, and who does not
 * do the same as Brasa is not timed: its rows say so. Then repeats, within them cells in their order, within a cell
 * the peers in an order drawn for each repeat and fold from the cell's seed; each row has its place in it. A peer
 * that cannot run, or that in a cell was refused, ran out of time or memory, has one row that says why in place of
 * further repeats.
 *
 * A row is in the store as soon as its run is over. Stopped or killed, a campaign goes on with what is missing.
 */
#ifndef LAB_CAMPAIGN_H
#define LAB_CAMPAIGN_H

#include "lab/lab.h"
#include "lab/process.h"

typedef struct campaign_peer {
    const char *name, *variant; /* variant "": the plain one */
    const char *const *argv;    /* how its runner is started, without the experiment's file; ended by NULL */
    const char *why;            /* it cannot run; NULL: it can */
} campaign_peer;

/* What is known of a cell once its files are there. */
typedef struct campaign_info {
    const char *key; /* of network, optimizer, device and memory: one gate is enough for cells of one key */
    int64_t images, tests, classes;
    double most_frequent; /* the share of the commonest class among the samples that test; 0: not known */
    const char *network_hash, *data_hash; /* as in store_cell */
    bool unwritable; /* it failed because its files could not be written: nobody's could, and the campaign ends */
} campaign_info;

/* How cells become files, and accounts are compared: by exchange.h and parity.h (campaign_exchange), or a test's. */
typedef struct campaign_source {
    brasa_status (*open)(void *user, const lab_cell *cell, void **prepared, campaign_info *info);
    /* The file that a runner is given; *owed: what it will have to tell of, none of it in a check. */
    brasa_status (*write)(void *prepared, const lab_run *run, bool check, const char *path, account_owed *owed);
    /* Sets status (static), worst and detail (in the pool). */
    brasa_status (*compare)(void *prepared, pool *p, const process_result *brasa, const process_result *peer,
                            store_parity *out);
    void (*close)(void *prepared); /* NULL too */
    void *user;
} campaign_source;

typedef enum campaign_kind {
    CAMPAIGN_BEGIN,  /* campaign and total are set */
    CAMPAIGN_PARITY, /* a peer was compared: parity */
    CAMPAIGN_START,  /* a run, or a comparison (check), starts */
    CAMPAIGN_LINE,   /* it said something */
    CAMPAIGN_ROW,    /* a row is in the store */
} campaign_kind;

typedef struct campaign_event {
    campaign_kind kind;
    int64_t campaign;
    int number, total; /* of runs, as far as they are known beforehand; those that are there already left out */
    const lab_run *run;
    bool check;
    const lab_line *line;
    const store_parity *parity;
    const store_row *row;
} campaign_event;

typedef struct campaign_options {
    store *store;
    const char *folder;                                /* absolute, is there; for the runners' files */
    const char *name, *text, *scale, *machine, *brasa; /* see store_campaign */
    double price_per_hour;                             /* the same; of a new one */
    const char *who;                                   /* store_campaign.peers */
    const char *data;                                  /* the same; of a new one */
    const lab_cell *cells;
    int count;
    /* The next cell of one that says `doubling`; NULL: there are none. */
    brasa_status (*doubled)(void *user, const lab_cell *cell, lab_cell *out, bool *more);
    void *user;
    const campaign_peer *peers;
    int npeers;
    const campaign_peer *reference; /* Brasa's runner, which the others are compared with */
    campaign_source source;
    double look;                       /* part of a second to watch the load for before a run; 0: 0.2 */
    int64_t resume;                    /* the campaign to go on with, which is of these cells; 0: a new one */
    bool retry;                        /* rows that are not done are made again */
    const volatile sig_atomic_t *stop; /* not 0: stop; NULL: never */
    void (*event)(void *watcher, const campaign_event *e);
    void *watcher;
} campaign_options;

typedef struct campaign_result {
    int64_t campaign;
    int runs, rows; /* processes run to be timed, and rows written */
    int done;       /* rows of the campaign that are, those from before too */
    bool stopped;
} campaign_result;

brasa_status campaign_run(brasa_context *ctx, const campaign_options *o, campaign_result *out);

/* The files of exchange.h below `folder`. To be released when the campaign is over. */
typedef struct campaign_files {
    brasa_context *ctx;
    const char *folder;
} campaign_files;
campaign_source campaign_exchange(campaign_files *files);

#endif
