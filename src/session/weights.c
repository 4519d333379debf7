/* weights.c - a session's state to a file and back.
 *
 * The keys are the names of the state, the values in plain layout, whatever layout the kernels keep them in; each
 * batch norm adds `<layer>.num_batches_tracked`, as PyTorch has it, though nothing here needs it back. A checkpoint
 * adds the optimizer's memory (`<parameter>/<slot>`) and `steps`.
 *
 * Names and shapes are compared before anything changes. For whoever must not lose what a session holds, the elements
 * then go into memory set aside for them, which replaces the state's in the end; a session that has nothing to lose
 * is spared that much memory.
 */
#include "core/json_scan.h"
#include "session/safetensors.h"
#include "session/session.h"
#include "session/walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- what a file holds --------------------------------------------------------------------------------------- */

/* A key of the file, and the state that it stands for. */
typedef struct item {
    const char *name;
    const state *st;
    bool tracked; /* num_batches_tracked: the step counter under a layer's name; written, but not taken back */
} item;

typedef struct items {
    item *list;
    int count, capacity;
    int64_t most_entries; /* of the largest table that a walk through a state needs */
    int64_t most_floats;  /* of the largest state of floats, or FLOATS */
} items;

static brasa_status add_item(items *all, pool *p, item added)
{
    item *grown = pool_grow(p, all->list, all->count, &all->capacity, sizeof *grown);
    if (!grown || !added.name)
        return fail_memory(p->ctx, sizeof *grown);
    all->list = grown;
    all->list[all->count++] = added;
    const int64_t entries = walk_table_size(&added.st->stored), count = shape_count(&added.st->shape);
    all->most_entries = entries > all->most_entries ? entries : all->most_entries;
    all->most_floats = count > all->most_floats ? count : all->most_floats;
    all->most_floats = all->most_floats > FLOATS ? FLOATS : all->most_floats;
    return BRASA_OK;
}

static brasa_status list_items(const brasa_session *s, int32_t what, pool *p, items *all)
{
    static const char last[] = "running_var";
    brasa_status status = BRASA_OK;
    if (what != BRASA_WEIGHTS && what != BRASA_CHECKPOINT)
        return fail(s->ctx, BRASA_BAD_ARGUMENT, "what: expected BRASA_WEIGHTS or BRASA_CHECKPOINT, got %d",
                    (int)what);
    for (int i = 0; i < s->nstates && status == BRASA_OK; i++) {
        const state *st = &s->states[i];
        if ((what == BRASA_WEIGHTS && st->kind != VALUE_PARAM && st->kind != VALUE_BUFFER) || st->kind == VALUE_SUM)
            continue;
        status = add_item(all, p, (item){.name = st->name, .st = st});
        const size_t length = strlen(st->name), tail = sizeof last - 1;
        if (status != BRASA_OK || st->kind != VALUE_BUFFER || length <= tail ||
            strcmp(st->name + length - tail, last) != 0)
            continue;
        const char *name = pool_text(p, "%.*snum_batches_tracked", (int)(length - tail), st->name);
        status = add_item(all, p, (item){.name = name, .st = session_state(s, "steps"), .tracked = true});
    }
    return status;
}

/* --- saving -------------------------------------------------------------------------------------------------- */

typedef struct saving {
    const brasa_session *s;
    items all;
    int64_t *table;
    walk_rows rows; /* of the tensor that is being written */
} saving;

/* Elements of a state, which save has brought up to date. */
static void copy_out(saving *v, const state *st, int64_t first, int64_t count, void *out, dtype type)
{
    if (first == 0)
        v->rows = walk_rows_of(&st->format.layout, &st->stored, v->table);
    walk w = {.shape = &st->stored,
              .each = walk_copy_out,
              .stored = session_state_data(v->s, st),
              .type = st->type,
              .plain = out,
              .plain_type = type,
              .first = first,
              .rows = v->rows};
    walk_some(v->s->ctx, &w, count);
}

static void give(void *user, int tensor, int64_t first, int count, number *out)
{
    saving *v = user;
    const state *st = v->all.list[tensor].st;
    if (st->type == I64) /* the step counter */
        out->whole = *(const int64_t *)session_state_data(v->s, st);
    else
        copy_out(v, st, first, count, out, F64);
}

static void give_floats(void *user, int tensor, int64_t first, int64_t count, float *out)
{
    saving *v = user;
    copy_out(v, v->all.list[tensor].st, first, count, out, F32);
}

static brasa_status save(saving *v, pool *p, const char *path, int32_t what, const tensor_note *notes)
{
    brasa_status status = list_items(v->s, what, p, &v->all);
    if (status != BRASA_OK)
        return status;
    tensor_entry *tensors = pool_get(p, (size_t)v->all.count + 1, sizeof *tensors);
    v->table = pool_get(p, (size_t)v->all.most_entries + 1, sizeof *v->table);
    if (!tensors || !v->table)
        return fail_memory(p->ctx, (size_t)v->all.count * sizeof *tensors);
    for (int i = 0; i < v->all.count; i++) {
        const state *st = v->all.list[i].st;
        if ((status = session_pull(v->s, st)) != BRASA_OK)
            return status;
        tensors[i] =
            (tensor_entry){.name = v->all.list[i].name, .type = tensor_type_of(st->type), .shape = st->shape};
    }
    return safetensors_write(p->ctx, path, tensors, v->all.count, notes, give, give_floats, v);
}

brasa_status session_save(brasa_session *s, const char *path, int32_t what, const tensor_note *notes)
{
    if (!s || !path)
        return fail_null(s ? s->ctx : NULL, "brasa_session_save", "a session and a path");
    saving v = {.s = s};
    pool p = {.ctx = s->ctx};
    brasa_status status = session_check_memory(s);
    if (status == BRASA_OK)
        status = save(&v, &p, path, what, notes);
    pool_free(&p);
    return status;
}

brasa_status brasa_session_save(brasa_session *s, const char *path, int32_t what)
{
    return session_save(s, path, what, NULL);
}

/* --- loading: does the file fit? ----------------------------------------------------------------------------- */

typedef struct loading {
    brasa_session *s;
    brasa_load_options options;
    brasa_load_report *report;
    bool direct; /* into the state at once: it is lost where reading fails */
    pool pool;
    items all;
    safetensors *file;
    const tensor_entry **found; /* by item; NULL: stays as it is */
    bool *known;                /* by tensor of the file */
    const char *heading;        /* the last one in report->names */
    int untold;                 /* names that report->names has no room for */
} loading;

/* Adds a name to the report, under its heading, as long as there is room for "and N more" behind it. */
static void tell(loading *l, const char *heading, const char *pattern, ...) BRASA_PRINTF(3, 4);
static void tell(loading *l, const char *heading, const char *pattern, ...)
{
    enum { RESERVED = 24 };
    char text[sizeof l->report->names];
    char *names = l->report->names;
    const size_t used = strlen(names), room = sizeof l->report->names - used;
    va_list args;
    va_start(args, pattern);
    vsnprintf(text, sizeof text, pattern, args);
    va_end(args);
    const bool first = l->heading != heading;
    const char *between = !used ? "" : first ? "; " : ", ";
    const size_t length = strlen(between) + (first ? strlen(heading) : 0) + strlen(text);
    if (l->untold || length + RESERVED >= room) {
        l->untold++;
        return;
    }
    snprintf(names + used, room, "%s%s%s", between, first ? heading : "", text);
    l->heading = heading;
}

static bool fits(const item *it, const tensor_entry *t)
{
    return t->type->decode && t->type->whole == (it->st->type == I64) && shape_equal(&t->shape, &it->st->shape);
}

/* What a checkpoint has beside weights is no surprise where only weights are asked for. */
static bool of_checkpoint(const brasa_session *s, const char *name)
{
    const char *slash = strrchr(name, '/');
    if (strcmp(name, "steps") == 0)
        return true;
    const size_t length = slash ? (size_t)(slash - name) : 0;
    for (int i = 0; slash && i < s->nstates; i++)
        if (s->states[i].kind == VALUE_PARAM && strncmp(s->states[i].name, name, length) == 0 &&
            s->states[i].name[length] == '\0')
            return true;
    return false;
}

static void find_items(loading *l)
{
    for (int i = 0; i < l->all.count; i++) {
        const item *it = &l->all.list[i];
        const tensor_entry *t = safetensors_find(l->file, it->name);
        if (t)
            l->known[t - l->file->tensors] = true;
        if (t && fits(it, t))
            l->found[i] = t;
        if (t || it->tracked)
            continue;
        l->report->missing++;
        tell(l, "missing: ", "'%s'", it->name);
    }
    for (int i = 0; i < l->all.count; i++) {
        const item *it = &l->all.list[i];
        const tensor_entry *t = l->found[i] ? NULL : safetensors_find(l->file, it->name);
        if (!t)
            continue;
        l->report->mismatched++;
        tell(l, "of another shape or type: ", "'%s' (%s %s, not %s %s)", it->name, shape_print(&t->shape).text,
             t->type->name, shape_print(&it->st->shape).text, tensor_type_of(it->st->type)->name);
    }
}

static void find_unknown(loading *l)
{
    for (int i = 0; i < l->file->count; i++) {
        const char *name = l->file->tensors[i].name;
        if (l->known[i] || (l->options.what == BRASA_WEIGHTS && of_checkpoint(l->s, name)))
            continue;
        l->report->unknown++;
        tell(l, "unknown: ", "'%s'", text_short(name).text);
    }
}

/* The end of a path is what tells files apart, where there is no room for all of it. */
static brasa_status refuse_misfit(const loading *l)
{
    enum { MOST = 120 };
    const brasa_load_report *r = l->report;
    const size_t length = strlen(l->file->path);
    return fail(l->s->ctx, BRASA_BAD_FILE,
                "%s%s does not fit the network: %d missing, %d unknown, %d of another shape or type; %s",
                length > MOST ? "..." : "", length > MOST ? l->file->path + length - MOST : l->file->path,
                (int)r->missing, (int)r->unknown, (int)r->mismatched, r->names);
}

static brasa_status compare(loading *l)
{
    brasa_load_report *r = l->report;
    l->found = pool_get(&l->pool, (size_t)l->all.count + 1, sizeof *l->found);
    l->known = pool_get(&l->pool, (size_t)l->file->count + 1, sizeof *l->known);
    if (!l->found || !l->known)
        return fail_memory(l->s->ctx, (size_t)l->file->count + (size_t)l->all.count * sizeof *l->found);
    find_items(l);
    find_unknown(l);
    if (l->untold) {
        const size_t used = strlen(r->names);
        snprintf(r->names + used, sizeof r->names - used, " and %d more", l->untold);
    }
    const bool fine = (!r->missing || l->options.allow_missing) && (!r->unknown || l->options.allow_unknown) &&
                      (!r->mismatched || l->options.allow_mismatched);
    return fine ? BRASA_OK : refuse_misfit(l);
}

/* --- loading: the elements ----------------------------------------------------------------------------------- */

/* Memory for an item's elements, until they replace the state's. */
static int64_t staged_bytes(const loading *l, int i)
{
    return l->found[i] && !l->all.list[i].tracked ? (l->all.list[i].st->bytes + 15) / 16 * 16 : 0;
}

static brasa_status read_steps(loading *l, const tensor_entry *t, int64_t *to)
{
    number n;
    brasa_status status = safetensors_read(l->file, t, 0, 1, &n);
    if (status != BRASA_OK)
        return status;
    if (n.whole < 0 || n.whole > INT64_MAX / 2)
        return fail(l->s->ctx, BRASA_BAD_FILE, "%s: tensor 'steps' is %lld, no number of training steps",
                    l->file->path, (long long)n.whole);
    *to = n.whole;
    return BRASA_OK;
}

/* What the elements of a file pass through. */
typedef struct passage {
    number *numbers; /* PIECE of them */
    float *floats;   /* FLOATS, or what the largest state has */
    int64_t *table;
} passage;

/* What a layout pads is zero in `to`, and stays so. */
static brasa_status read_state(loading *l, const state *st, const tensor_entry *t, void *to, const passage *p)
{
    const int64_t count = shape_count(&st->shape);
    const bool floats = st->type == F32;
    const int64_t most = floats ? FLOATS : PIECE;
    brasa_status status = BRASA_OK;
    if (st->type == I64)
        return read_steps(l, t, to);
    walk w = {.shape = &st->stored,
              .each = walk_copy_in,
              .stored = to,
              .type = st->type,
              .plain = floats ? (void *)p->floats : (void *)p->numbers,
              .plain_type = floats ? F32 : F64,
              .rows = walk_rows_of(&st->format.layout, &st->stored, p->table)};
    for (; w.first < count && status == BRASA_OK; w.first += most) {
        const int64_t part = count - w.first < most ? count - w.first : most;
        status = floats ? safetensors_read_floats(l->file, t, w.first, part, p->floats)
                        : safetensors_read(l->file, t, w.first, (int)part, p->numbers);
        if (status == BRASA_OK)
            walk_some(l->s->ctx, &w, part);
    }
    return status;
}

static brasa_status take(loading *l, const state *st)
{
    l->report->loaded++;
    return session_push(l->s, st);
}

/* Into `staged`, or into the state. */
static brasa_status read_all(loading *l, char *staged)
{
    const passage p = {.numbers = pool_get(&l->pool, PIECE, sizeof *p.numbers),
                       .floats = pool_get(&l->pool, (size_t)l->all.most_floats + 1, sizeof *p.floats),
                       .table = pool_get(&l->pool, (size_t)l->all.most_entries + 1, sizeof *p.table)};
    if (!p.numbers || !p.floats || !p.table)
        return fail_memory(l->s->ctx, PIECE * sizeof *p.numbers + (size_t)l->all.most_floats * sizeof *p.floats);
    brasa_status status = BRASA_OK;
    for (int i = 0; i < l->all.count && status == BRASA_OK; i++) {
        const state *st = l->all.list[i].st;
        if (!staged_bytes(l, i))
            continue;
        status = read_state(l, st, l->found[i], l->direct ? session_state_data(l->s, st) : staged, &p);
        if (l->direct && status == BRASA_OK)
            status = take(l, st);
        if (!l->direct)
            staged += staged_bytes(l, i);
    }
    return status;
}

static brasa_status take_over(loading *l, const char *staged)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; i < l->all.count && status == BRASA_OK; i++) {
        if (!staged_bytes(l, i))
            continue;
        const state *st = l->all.list[i].st;
        memcpy(session_state_data(l->s, st), staged, (size_t)st->bytes);
        staged += staged_bytes(l, i);
        status = take(l, st);
    }
    return status;
}

static brasa_status load(loading *l, const char *path)
{
    brasa_status status = list_items(l->s, l->options.what, &l->pool, &l->all);
    if (status == BRASA_OK)
        status = safetensors_open(l->s->ctx, path, &l->file);
    if (status == BRASA_OK)
        status = compare(l);
    if (status != BRASA_OK || l->direct)
        return status == BRASA_OK ? read_all(l, NULL) : status;
    int64_t bytes = 1;
    for (int i = 0; i < l->all.count; i++)
        bytes += staged_bytes(l, i);
    char *staged = mem_get(l->s->ctx, (size_t)bytes);
    if (!staged)
        return fail_memory(l->s->ctx, (size_t)bytes);
    status = read_all(l, staged);
    if (status == BRASA_OK)
        status = take_over(l, staged);
    mem_put(l->s->ctx, staged);
    return status;
}

static brasa_status load_file(brasa_session *s, const char *path, const brasa_load_options *options,
                              brasa_load_report *report, bool direct)
{
    if (!s || !path)
        return fail_null(s ? s->ctx : NULL, "brasa_session_load", "a session and a path");
    brasa_load_report told = {.size = sizeof told};
    loading l = {.s = s, .report = &told, .direct = direct, .pool = {.ctx = s->ctx}};
    brasa_status status = options_take(s->ctx, &l.options, sizeof l.options, options, "brasa_load_options");
    if (status == BRASA_OK && report)
        status = options_give(s->ctx, report, &told, sizeof told, "brasa_load_report");
    if (status == BRASA_OK)
        status = session_check_memory(s);
    if (status != BRASA_OK)
        return status;
    status = load(&l, path);
    if (report)
        (void)options_give(s->ctx, report, &told, sizeof told, "brasa_load_report"); /* its size is good: see above */
    safetensors_close(l.file);
    pool_free(&l.pool);
    return status;
}

brasa_status brasa_session_load(brasa_session *s, const char *path, const brasa_load_options *options,
                                brasa_load_report *report)
{
    return load_file(s, path, options, report, false);
}

brasa_status session_load_fresh(brasa_session *s, const char *path, const brasa_load_options *options,
                                brasa_load_report *report)
{
    return load_file(s, path, options, report, true);
}
