/* campaign_exchange.c - cells by the files of exchange.h, compared by parity.h: see campaign.h. */
#include "lab/campaign.h"

#include "lab/exchange.h"
#include "lab/parity.h"

static brasa_status open_files(void *user, const lab_cell *cell, void **prepared, campaign_info *info)
{
    const campaign_files *f = user;
    exchange *e = NULL;
    brasa_status status = exchange_open(f->ctx, f->folder, cell, &e);
    *prepared = e;
    info->unwritable = e && e->unwritable;
    if (status == BRASA_OK)
        *info = (campaign_info){.key = e->key,
                                .images = e->trains,
                                .tests = e->tests,
                                .classes = e->task.classes,
                                .most_frequent = e->most_frequent,
                                .network_hash = e->network_hash,
                                .data_hash = e->data_hash};
    return status;
}

static brasa_status write_file(void *prepared, const lab_run *run, bool check, const char *path, account_owed *owed)
{
    exchange *e = prepared;
    const exchange_run what = {
        .peer = run->peer, .variant = run->variant, .check = check, .repeat = run->repeat, .fold = run->fold};
    brasa_status status = exchange_write(e, &what, path);
    if (!check) /* of this fold, now that its file is there */
        *owed = (account_owed){.epochs = e->cell->epochs, .images = e->trains, .tests = e->tests};
    return status;
}

static brasa_status compare(void *prepared, pool *p, const process_result *brasa, const process_result *peer,
                            store_parity *out)
{
    const exchange *e = prepared;
    const parity_terms terms = {e->graph, e->weights, e->cell->precision};
    parity found;
    brasa_status status = parity_compare(p->ctx, &terms, &(parity_account){brasa->output, brasa->bytes},
                                         &(parity_account){peer->output, peer->bytes}, &found);
    if (status != BRASA_OK)
        return status;
    out->status = parity_word(found.status);
    out->worst = found.worst;
    out->detail = pool_text(p, "%s", found.detail);
    return out->detail ? BRASA_OK : fail_memory(p->ctx, sizeof found.detail);
}

static void close_files(void *prepared)
{
    if (prepared)
        exchange_close(prepared);
}

campaign_source campaign_exchange(campaign_files *files)
{
    return (campaign_source){open_files, write_file, compare, close_files, files};
}
