/* fuzz_experiment.c - libFuzzer's target for experiment files: any text is a list of cells, or refused in one line
 * that says where. Data and networks, which are files of their own, have targets of their own. */
#define _GNU_SOURCE
#include "data.h"

#include "lab/experiment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    start();
    it.most = 4 << 20; /* the cells of the largest grid that is allowed */
    const size_t live = it.live;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (int small = 0; small < 2; small++) {
        experiment *e = NULL;
        const experiment_options o = {.small = small};
        const brasa_status status = experiment_read(it.ctx, "f.exp", text, &o, &e);
        require(status == BRASA_OK || status == BRASA_BAD_FILE, "an unexpected status");
        if (status != BRASA_OK)
            require(strncmp(it.ctx->error, "f.exp:", 6) == 0 && !strchr(it.ctx->error, '\n'), "no clear error");
        for (int i = 0; e && i < e->count; i++) {
            const lab_cell *c = &e->cells[i];
            require(c->network[0] && strchr(c->data, ':') && c->batch > 0 && c->threads > 0 && c->epochs > 0 &&
                        c->repeats > 0 && c->limit > 0 && (c->split != NULL) == (c->folds == 0),
                    "a strange cell");
            require(!i || strcmp(c->key, e->cells[i - 1].key) != 0, "a cell twice");
        }
        experiment_close(e);
    }
    free(text);
    require(it.live == live, "memory that is not given back");
    return 0;
}
