/* fuzz_run.c - libFuzzer's target for the folder of a run: any bytes as run.json, epochs.jsonl and result.json, which
 * a user may have edited. */
#define _GNU_SOURCE
#include "data.h"

#include "train/record.h"

static void check(brasa_status status)
{
    require(status == BRASA_OK || status == BRASA_BAD_FILE, "an unexpected status");
    if (status != BRASA_OK)
        require(strstr(it.ctx->error, it.folder) && !strchr(it.ctx->error, '\n'), "no clear error");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run_info info;
    run_outcome outcome;
    brasa_epoch *figures;
    int count;
    start();
    it.most = (1 << 20) + 64 * size;
    const size_t live = it.live;
    put_file(RUN_FILE, data, size);
    put_file(EPOCHS_FILE, data, size);
    put_file(RESULT_FILE, data, size);
    const brasa_status status = run_read(it.ctx, it.folder, &info);
    check(status);
    if (status == BRASA_OK)
        require(info.model && info.data && info.hash && info.class_name[info.classes - 1],
                "a run that lacks something");
    run_free(&info);
    check(run_outcome_read(it.ctx, it.folder, &outcome));
    pool p = {.ctx = it.ctx};
    check(run_epochs_read(&p, it.folder, &figures, &count));
    for (int i = 0; i < count; i++)
        require(figures[i].epoch == i + 1, "an epoch out of turn");
    pool_free(&p);
    require(it.live == live, "memory that is not given back");
    return 0;
}
