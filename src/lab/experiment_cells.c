/* experiment_cells.c - from blocks of settings to cells, and whether each of them can be run: see experiment.h. */
#include "data/split.h"
#include "lab/experiment_parts.h"
#include "train/task.h"

#include <stdio.h>
#include <string.h>

enum { MAX_CELLS = 4096, MOST_BATCH = 65536 };

/* The lists that make the grid, the slowest first. */
static const experiment_key grid[] = {KEY_NETWORK, KEY_DATA, KEY_BATCH, KEY_THREADS, KEY_DEVICE, KEY_PRECISION};
enum { GRID = sizeof grid / sizeof grid[0] };

typedef struct experiment_origin {
    int block;
    int64_t images; /* that train; 0: not known yet */
} experiment_origin;

/* --- cells ----------------------------------------------------------------------------------------------------- */

static const char *word_of(const experiment *e, const experiment_block *b, experiment_key key, int index)
{
    const experiment_setting *s = experiment_get(e, b, key);
    return index < s->count ? s->word[index] : NULL;
}

static int64_t number_of(const experiment *e, const experiment_block *b, experiment_key key, int index)
{
    const experiment_setting *s = experiment_get(e, b, key);
    return index < s->count ? s->number[index] : 0;
}

/* The same text for the same point of the same grid. */
static brasa_status make_key(experiment *e, lab_cell *c)
{
    c->key = pool_text(&e->pool, "%s %s %s batch=%lld threads=%lld %s %s", c->experiment, c->network, c->data,
                       (long long)c->batch, (long long)c->threads, c->device, c->precision);
    return c->key ? BRASA_OK : fail_memory(e->ctx, 200);
}

static brasa_status make_cell(experiment *e, const experiment_block *b, const int at[GRID], lab_cell *c)
{
    const bool last = at[2] == experiment_get(e, b, KEY_BATCH)->count - 1;
    const int64_t folds = number_of(e, b, KEY_FOLDS, 0);
    *c = (lab_cell){
        .experiment = b->name,
        .title = word_of(e, b, KEY_TITLE, 0),
        .view = word_of(e, b, KEY_VIEW, 0),
        .network = word_of(e, b, KEY_NETWORK, at[0]),
        .data = word_of(e, b, KEY_DATA, at[1]),
        .transform = word_of(e, b, KEY_TRANSFORM, 0),
        .split = folds ? NULL : word_of(e, b, KEY_SPLIT, 0),
        .optimizer = word_of(e, b, KEY_OPTIMIZER, 0),
        .dialect = word_of(e, b, KEY_DIALECT, 0),
        .device = word_of(e, b, KEY_DEVICE, at[4]),
        .precision = word_of(e, b, KEY_PRECISION, at[5]),
        .batch = number_of(e, b, KEY_BATCH, at[2]),
        .epochs = number_of(e, b, KEY_EPOCHS, 0),
        .repeats = number_of(e, b, KEY_REPEATS, 0),
        .folds = folds,
        .threads = number_of(e, b, KEY_THREADS, at[3]),
        .seed = number_of(e, b, KEY_SEED, 0),
        .mem = number_of(e, b, KEY_MEM, 0),
        .limit = (double)number_of(e, b, KEY_LIMIT, 0),
        .doubling = last && experiment_get(e, b, KEY_ON)->count,
        .profile = experiment_get(e, b, KEY_PROFILE)->count && strcmp(word_of(e, b, KEY_PROFILE, 0), "yes") == 0,
    };
    c->timing = strcmp(c->view, "accuracy") != 0;
    return make_key(e, c);
}

/* "FILE:LINE: experiment NAME"; what stands before the first block has no line of its own. */
static void place_block(experiment *e, const experiment_block *b)
{
    if (b->line)
        fail_prefix(e->ctx, "%.200s:%d: experiment %s", e->where, b->line, b->name);
    else
        fail_prefix(e->ctx, "%.200s: experiment %s", e->where, b->name);
}

/* How many cells a block has; 0 where something is missing, which is told. */
static brasa_status count_cells(experiment *e, const experiment_block *b, int *count)
{
    int64_t cells = 1;
    for (int i = 0; i < GRID; i++) {
        const int values = experiment_get(e, b, grid[i])->count;
        if (!values) {
            fail(e->ctx, BRASA_BAD_FILE, "%s: a line is missing, with %s", experiment_fields[grid[i]].name,
                 experiment_fields[grid[i]].takes);
            place_block(e, b);
            return BRASA_BAD_FILE;
        }
        cells *= values; /* six lists of at most 128: no overflow */
    }
    if (cells > MAX_CELLS) {
        fail(e->ctx, BRASA_BAD_FILE, "more than %d cells", MAX_CELLS);
        place_block(e, b);
        return BRASA_BAD_FILE;
    }
    *count = (int)cells;
    return BRASA_OK;
}

static brasa_status check_folds(experiment *e, const experiment_block *b)
{
    if (!experiment_get(e, b, KEY_FOLDS)->count || !experiment_get(e, b, KEY_SPLIT)->line)
        return BRASA_OK;
    return experiment_place(e, b, KEY_FOLDS,
                            fail(e->ctx, BRASA_BAD_FILE, "a split is in line %d: give one of them",
                                 experiment_get(e, b, KEY_SPLIT)->line));
}

static brasa_status expand_block(experiment *e, int index, int cells)
{
    const experiment_block *b = &e->blocks[index];
    int at[GRID] = {0};
    for (int i = 0; i < cells; i++) {
        e->origins[e->count] = (experiment_origin){.block = index};
        const brasa_status status = make_cell(e, b, at, &e->cells[e->count++]);
        if (status != BRASA_OK)
            return status;
        for (int d = GRID - 1; d >= 0 && ++at[d] == experiment_get(e, b, grid[d])->count; d--)
            at[d] = 0;
    }
    return BRASA_OK;
}

brasa_status experiment_expand(experiment *e)
{
    int counts[EXPERIMENT_BLOCKS], total = 0;
    for (int i = 0; i < e->nblocks; i++) {
        brasa_status status = count_cells(e, &e->blocks[i], &counts[i]);
        if (status == BRASA_OK)
            status = check_folds(e, &e->blocks[i]);
        if (status != BRASA_OK)
            return status;
        if ((total += counts[i]) > MAX_CELLS)
            return fail(e->ctx, BRASA_BAD_FILE, "%.200s: more than %d cells", e->where, MAX_CELLS);
    }
    e->cells = pool_get(&e->pool, (size_t)total, sizeof *e->cells);
    e->origins = pool_get(&e->pool, (size_t)total, sizeof *e->origins);
    if (!e->cells || !e->origins)
        return fail_memory(e->ctx, (size_t)total * sizeof *e->cells);
    for (int i = 0; i < e->nblocks; i++) {
        const brasa_status status = expand_block(e, i, counts[i]);
        if (status != BRASA_OK)
            return status;
    }
    return BRASA_OK;
}

/* --- checks ---------------------------------------------------------------------------------------------------- */

/* The optimizer in this dialect, on a network that is next to nothing. */
static brasa_status check_optimizer(experiment *e, const experiment_block *b, const lab_cell *c)
{
    brasa_session *s = NULL;
    brasa_graph *g = brasa_graph_new(e->ctx);
    if (!g)
        return fail_memory(e->ctx, sizeof *g);
    brasa_status status = experiment_place(e, b, KEY_DIALECT, brasa_graph_set_dialect(g, c->dialect));
    if (status == BRASA_OK) {
        brasa_apply(brasa_input_vector(g, "x", 3), "classify 2");
        const brasa_session_options o = {
            .size = sizeof o, .batch = 2, .plan_only = true, .kernels = "_ref", .optimizer = c->optimizer};
        status = experiment_place(e, b, KEY_OPTIMIZER, brasa_session_new(g, &o, &s));
    }
    brasa_session_free(s);
    brasa_graph_free(g);
    return status;
}

static brasa_status check_transform(experiment *e, const experiment_block *b, const lab_cell *c)
{
    transform t = {0};
    fields_set_defaults(transform_fields, &t);
    return c->transform ? experiment_place(e, b, KEY_TRANSFORM,
                                           fields_parse(e->ctx, "transform", transform_fields, &t, c->transform))
                        : BRASA_OK;
}

static brasa_status check_split(experiment *e, const experiment_block *b, const lab_cell *c, const dataset *d,
                                int64_t *images)
{
    split_options o = {.kind = SPLIT_FOLDS, .folds = (int)c->folds, .seed = (uint64_t)c->seed};
    split s = {.ctx = e->ctx};
    brasa_status status = c->split ? split_parse(e->ctx, c->split, &o) : BRASA_OK;
    if (status == BRASA_OK)
        status = split_make(d, &o, &s);
    if (status == BRASA_OK) {
        *images = s.trains;
        split_free(&s);
    }
    return experiment_place(e, b, c->split ? KEY_SPLIT : KEY_FOLDS, status);
}

/* Whether the data are there and the network takes them. */
static brasa_status check_pair(experiment *e, const experiment_block *b, const lab_cell *c, int64_t *images)
{
    task t = {.ctx = e->ctx,
              .pool = {.ctx = e->ctx},
              .settings = {.model = c->network, .data = c->data, .transform = c->transform, .dialect = c->dialect}};
    brasa_status status = experiment_place(e, b, KEY_DATA, task_open_data(&t, c->data));
    if (status == BRASA_OK)
        status = check_split(e, b, c, t.set, images);
    if (status == BRASA_OK)
        status = experiment_place(e, b, KEY_NETWORK, task_build(&t, c->network));
    task_close(&t);
    return status;
}

/* A cell of the same block with the same network and data, checked before. */
static bool known(const experiment *e, int index, int64_t *images)
{
    const lab_cell *c = &e->cells[index];
    for (int i = index - 1; i >= 0 && e->origins[i].block == e->origins[index].block; i--)
        if (e->cells[i].network == c->network && e->cells[i].data == c->data) {
            *images = e->origins[i].images;
            return true;
        }
    return false;
}

brasa_status experiment_check(experiment *e)
{
    int block = -1;
    for (int i = 0; i < e->count; i++) {
        const lab_cell *c = &e->cells[i];
        const experiment_block *b = &e->blocks[e->origins[i].block];
        brasa_status status = BRASA_OK;
        if (e->origins[i].block != block) {
            block = e->origins[i].block;
            status = check_optimizer(e, b, c);
            if (status == BRASA_OK)
                status = check_transform(e, b, c);
        }
        if (status == BRASA_OK && !known(e, i, &e->origins[i].images))
            status = check_pair(e, b, c, &e->origins[i].images);
        if (status != BRASA_OK)
            return status;
    }
    return BRASA_OK;
}

/* --- what comes after ------------------------------------------------------------------------------------------ */

int64_t experiment_images(const experiment *e, const lab_cell *c)
{
    for (int i = 0; i < e->count; i++) /* texts are the experiment's own, also those of a doubled cell */
        if (e->cells[i].experiment == c->experiment && e->cells[i].network == c->network &&
            e->cells[i].data == c->data)
            return e->origins[i].images;
    return 0;
}

brasa_status experiment_doubled(experiment *e, const lab_cell *c, lab_cell *out, bool *more)
{
    *more = c->doubling && c->batch < experiment_images(e, c) && c->batch <= MOST_BATCH / 2;
    if (!*more)
        return BRASA_OK;
    *out = *c;
    out->batch *= 2;
    return make_key(e, out);
}
