/* ptx_memory.c - loads, stores and atomics, each of which is looked at: that it is aligned and within a block of
 * memory, and that no two threads meet in shared memory without a barrier between them.
 *
 * For that each cell of shared memory keeps who wrote it last and who read it since the last barrier: two of them in
 * the same cell, one of whom writes, are a race, whichever came first this time.
 */
#include "memory.h"
#include "ptx_run.h"

#include <string.h>

/* --- where ----------------------------------------------------------------------------------------------------- */

typedef struct addresses {
    char *of[LANES];
} addresses;

/* Finds the lane that is wrong, when one is. */
static bool tell_global(warp *w, const instruction *i, uint32_t lanes, const addresses *a)
{
    const size_t bytes = (size_t)i->size * i->count;
    for (int l = 0; l < LANES; l++) {
        if (!(lanes >> l & 1))
            continue;
        if ((uintptr_t)a->of[l] % bytes) {
            fault_at(w, i, l, "address %p is not aligned to %zu bytes", (void *)a->of[l], bytes);
            return false;
        }
        if (memory_reached(a->of[l], bytes, w->block->l->device))
            continue;
        const memory_block *near = memory_find(a->of[l]);
        for (size_t back = 1; !near && back <= 4096; back += 64)
            near = memory_find(a->of[l] - back);
        if (near && near->kind == OF_THE_GPU && near->device != w->block->l->device)
            fault_at(w, i, l, "%p is memory of GPU %d, and this is GPU %d", (void *)a->of[l], near->device,
                     w->block->l->device);
        else if (near)
            fault_at(w, i, l, "%zu bytes at %p are %td bytes behind the start of a block of %zu", bytes,
                     (void *)a->of[l], a->of[l] - near->start, near->bytes);
        else
            fault_at(w, i, l, "%zu bytes at %p, which is in no block of memory", bytes, (void *)a->of[l]);
        return false;
    }
    return true;
}

/* Mostly all lanes are in one block. */
static bool find_global(warp *w, const instruction *i, uint32_t lanes, addresses *a)
{
    const uintptr_t bytes = (uintptr_t)i->size * i->count;
    uintptr_t least = UINTPTR_MAX, most = 0, low = 0;
    if (i->a == NO_PLACE) {
        for (int l = 0; l < LANES; l++)
            a->of[l] = (char *)(intptr_t)i->offset;
        return true; /* of the module's own */
    }
    const uint64_t *from = source(w, i->a);
    for (int l = 0; l < LANES; l++) {
        const uintptr_t at = (uintptr_t)from[l] + (uintptr_t)i->offset;
        const bool counts = lanes >> l & 1;
        a->of[l] = (char *)at;
        least = counts && at < least ? at : least;
        most = counts && at > most ? at : most;
        low |= counts ? at : 0;
    }
    if (low % bytes == 0 && memory_reached((const void *)least, most - least + bytes, w->block->l->device))
        return true;
    const int64_t constant = (int64_t)least; /* a table of the module's */
    for (int n = 0; n < w->block->l->kernel->module->nglobals; n++) {
        const ptx_symbol *g = &w->block->l->kernel->module->globals[n];
        if (g->space == GLOBAL && constant >= g->at && (int64_t)(most + bytes) <= g->at + g->bytes &&
            low % bytes == 0)
            return true;
    }
    return tell_global(w, i, lanes, a);
}

static bool find_local(warp *w, const instruction *i, uint32_t lanes, addresses *a)
{
    const uint64_t *from = i->a == NO_PLACE ? NULL : source(w, i->a);
    const int64_t bytes = (int64_t)i->size * i->count, room = w->block->l->kernel->local;
    for (int l = 0; l < LANES; l++) {
        const int64_t at = (from ? (int64_t)from[l] : 0) + i->offset;
        if ((lanes >> l & 1) && (at < 0 || at + bytes > room || at % bytes)) {
            fault_at(w, i, l,
                     at % bytes ? "byte %lld of %lld of its own memory is not aligned"
                                : "byte %lld of %lld of its own memory",
                     (long long)at, (long long)room);
            return false;
        }
        a->of[l] = w->local + l * room + at;
    }
    return true;
}

/* --- shared memory --------------------------------------------------------------------------------------------- */

static const char *race_with(uint32_t other)
{
    static _Thread_local char words[40];
    if ((other & CELL_MANY) == CELL_MANY)
        return "several threads";
    __builtin_snprintf(words, sizeof words, "thread %u", (other & CELL_MANY) - 1);
    return words;
}

/* Whether a mark is of another thread, since the last barrier. */
static inline bool is_others(uint32_t mark, uint32_t now, uint32_t me)
{
    return (mark & ~(uint32_t)CELL_MANY) == now && mark != me;
}

static bool mark_read(warp *w, const instruction *i, int lane, cell *c, int cells, uint32_t now)
{
    const uint32_t me = now | (uint32_t)(w->first + lane + 1);
    for (int n = 0; n < cells; n++, c++) {
        if (is_others(c->written, now, me)) {
            fault_at(w, i, lane, "it reads what %s writes, without a barrier between them", race_with(c->written));
            return false;
        }
        if (c->read != (now | CELL_MANY))
            c->read = is_others(c->read, now, me) ? now | CELL_MANY : me;
    }
    return true;
}

/* The same, where another lane reads it, too. */
static bool mark_read_by_many(warp *w, const instruction *i, int lane, cell *c, int cells, uint32_t now)
{
    for (int n = 0; n < cells; n++, c++) {
        if (is_others(c->written, now, 0)) {
            fault_at(w, i, lane, "it and others read what %s writes, without a barrier between them",
                     race_with(c->written));
            return false;
        }
        c->read = now | CELL_MANY;
    }
    return true;
}

static bool mark_write(warp *w, const instruction *i, int lane, cell *c, int cells, uint32_t now)
{
    const uint32_t me = now | (uint32_t)(w->first + lane + 1);
    for (int n = 0; n < cells; n++, c++) {
        if (is_others(c->written, now, me) || is_others(c->read, now, me)) {
            const bool both = is_others(c->written, now, me);
            fault_at(w, i, lane, "it writes what %s %s, without a barrier between them",
                     race_with(both ? c->written : c->read), both ? "writes" : "reads");
            return false;
        }
        c->written = me;
    }
    return true;
}

/* Finds the lane that is wrong, when one is. */
static void tell_shared(warp *w, const instruction *i, uint32_t lanes, const int32_t at[LANES])
{
    const launch *l = w->block->l;
    const int bytes = i->size * i->count;
    for (int lane = 0; lane < LANES; lane++) {
        const bool own = at[lane] >= 0 && at[lane] + bytes <= l->kernel->shared,
                   told = at[lane] >= DYNAMIC_SHARED && at[lane] + bytes <= DYNAMIC_SHARED + l->dynamic;
        if (!(lanes >> lane & 1))
            continue;
        if (at[lane] % bytes)
            fault_at(w, i, lane, "byte %d of shared memory is not aligned to %d", at[lane], bytes);
        if (!own && !told)
            fault_at(w, i, lane, "byte %d of shared memory, which has %lld and, from %d on, %lld", at[lane],
                     (long long)l->kernel->shared, DYNAMIC_SHARED, (long long)l->dynamic);
    }
}

/* Often lanes read in pairs, or all of them, what is at the same place: each such place has one of these lanes. */
static uint32_t differing(const int32_t at[LANES])
{
    static const uint32_t halves[] = {0x55555555, 0x33333333, 0x0f0f0f0f, 0x00ff00ff, 0x0000ffff};
    uint32_t apart = ALL_LANES;
    for (int bit = 0; bit < 5; bit++) {
        int32_t any = 0;
        for (int l = 0; l < LANES; l++)
            any |= at[l] ^ at[l ^ 1 << bit];
        if (!any)
            apart &= halves[bit];
    }
    return apart;
}

static bool find_shared(warp *w, const instruction *i, uint32_t lanes, addresses *a, bool writes)
{
    const thread_block *b = w->block;
    const int32_t own = (int32_t)b->l->kernel->shared, told = (int32_t)(DYNAMIC_SHARED + b->l->dynamic);
    const uint32_t *from = i->a == NO_PLACE ? NULL : source(w, i->a), now = b->barriers << 12;
    const int32_t bytes = i->size * i->count;
    const int shift = __builtin_ctz((unsigned)b->l->kernel->cell), cells = bytes >> shift;
    int32_t at[LANES];
    uint32_t bad = 0;
    for (int l = 0; l < LANES; l++) {
        at[l] = (int32_t)((from ? from[l] : 0) + (uint32_t)i->offset);
        const int fits =
            ((at[l] >= 0) & (at[l] <= own - bytes)) | ((at[l] >= DYNAMIC_SHARED) & (at[l] <= told - bytes));
        bad |= (uint32_t)(!fits | ((at[l] & (bytes - 1)) != 0)) << l;
        a->of[l] = b->shared + (lanes >> l & 1 ? at[l] : 0);
    }
    if (bad & lanes) {
        tell_shared(w, i, lanes, at);
        return false;
    }
    typedef bool marking(warp *, const instruction *, int, cell *, int, uint32_t);
    const uint32_t apart = writes || lanes != ALL_LANES ? lanes : differing(at);
    marking *mark = writes ? mark_write : apart == lanes ? mark_read : mark_read_by_many;
    for (uint32_t left = apart; left; left &= left - 1) {
        const int l = __builtin_ctz(left);
        if (!mark(w, i, l, b->cells + (at[l] >> shift), cells, now))
            return false;
    }
    return true;
}

static bool find(warp *w, const instruction *i, uint32_t lanes, addresses *a, memory_space space, bool writes)
{
    return space == GLOBAL  ? find_global(w, i, lanes, a)
           : space == LOCAL ? find_local(w, i, lanes, a)
                            : find_shared(w, i, lanes, a, writes);
}

/* --- what is done there ----------------------------------------------------------------------------------------- */

/* One number, into a register. */
static void set_lane(warp *w, const instruction *i, int n, int lane, uint64_t value)
{
    if (i->spreads) {
        const int up = 64 - 8 * i->size;
        value = (uint64_t)((int64_t)(value << up) >> up);
    }
    if (i->size == 8 || i->wide)
        ((uint64_t *)target(w, i->list[n]))[lane] = value;
    else
        ((uint32_t *)target(w, i->list[n]))[lane] = (uint32_t)value;
}

/* Memory is read by lanes that take part alone. A function for each size and space. */
#define MOVES(space, type, held)                                                                                     \
    static void load_##space##_##type(warp *w, const instruction *i, uint32_t lanes)                                 \
    {                                                                                                                \
        addresses a;                                                                                                 \
        if (!find(w, i, lanes, &a, space, false))                                                                    \
            return;                                                                                                  \
        for (int n = 0; n < i->count; n++) {                                                                         \
            held *d = target(w, i->list[n]);                                                                         \
            const bool plain = !i->wide && !i->spreads;                                                              \
            for (int l = 0; l < LANES && plain; l++)                                                                 \
                if (lanes >> l & 1)                                                                                  \
                    d[l] = (held)((type *)(void *)a.of[l])[n];                                                       \
            for (int l = 0; l < LANES && !plain; l++)                                                                \
                if (lanes >> l & 1)                                                                                  \
                    set_lane(w, i, n, l, (uint64_t)((type *)(void *)a.of[l])[n]);                                    \
        }                                                                                                            \
    }                                                                                                                \
    static void store_##space##_##type(warp *w, const instruction *i, uint32_t lanes)                                \
    {                                                                                                                \
        addresses a;                                                                                                 \
        if (!find(w, i, lanes, &a, space, true))                                                                     \
            return;                                                                                                  \
        for (int n = 0; n < i->count; n++) {                                                                         \
            const held *from = source(w, i->list[n]);                                                                \
            for (int l = 0; l < LANES; l++)                                                                          \
                if (lanes >> l & 1)                                                                                  \
                    ((type *)(void *)a.of[l])[n] = (type)from[l];                                                    \
        }                                                                                                            \
    }
#define MOVES_IN(space)                                                                                              \
    MOVES(space, uint8_t, uint32_t)                                                                                  \
    MOVES(space, uint16_t, uint32_t)                                                                                 \
    MOVES(space, uint32_t, uint32_t)                                                                                 \
    MOVES(space, uint64_t, uint64_t)
MOVES_IN(GLOBAL)
MOVES_IN(SHARED)
MOVES_IN(LOCAL)

/* Mostly the same for all lanes. */
static void load_parameter(warp *w, const instruction *i, uint32_t lanes)
{
    const launch *l = w->block->l;
    const uint64_t *from = i->a == NO_PLACE ? NULL : source(w, i->a);
    for (int lane = 0; lane < LANES; lane++) {
        const int64_t at = i->offset + (from ? (int64_t)from[lane] : 0);
        if (!(lanes >> lane & 1))
            continue;
        if (at < 0 || at + i->count * i->size > l->kernel->param_total) {
            fault_at(w, i, lane, "byte %lld of %d of its arguments", (long long)at, l->kernel->param_total);
            return;
        }
        for (int n = 0; n < i->count; n++) {
            uint64_t value = 0;
            memcpy(&value, l->params + at + n * i->size, i->size);
            set_lane(w, i, n, lane, value);
        }
    }
}

lane_work *ptx_memory_work(bool store, memory_space space, int size)
{
#define WORK_OF(space)                                                                                               \
    {                                                                                                                \
        {load_##space##_uint8_t, load_##space##_uint16_t, load_##space##_uint32_t, load_##space##_uint64_t},         \
        {                                                                                                            \
            store_##space##_uint8_t, store_##space##_uint16_t, store_##space##_uint32_t, store_##space##_uint64_t    \
        }                                                                                                            \
    }
    static lane_work *const works[][2][4] = {
        [GLOBAL] = WORK_OF(GLOBAL), [SHARED] = WORK_OF(SHARED), [LOCAL] = WORK_OF(LOCAL)};
    const int which = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
    return space == PARAMETER ? store ? NULL : load_parameter : works[space][store][which];
}

static void atomic_add(warp *w, const instruction *i, uint32_t lanes)
{
    addresses a;
    const uint32_t *by = source(w, i->b);
    uint32_t *d = target(w, i->d);
    if (!find_global(w, i, lanes, &a))
        return;
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1)
            d[l] = __atomic_fetch_add((uint32_t *)(void *)a.of[l], by[l], __ATOMIC_SEQ_CST);
}

/* Up to a number, then zero again. */
static void atomic_inc(warp *w, const instruction *i, uint32_t lanes)
{
    addresses a;
    const uint32_t *most = source(w, i->b);
    uint32_t *d = target(w, i->d);
    if (!find_global(w, i, lanes, &a))
        return;
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) {
            uint32_t *at = (uint32_t *)(void *)a.of[l], old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
            while (!__atomic_compare_exchange_n(at, &old, old >= most[l] ? 0 : old + 1, false, __ATOMIC_SEQ_CST,
                                                __ATOMIC_SEQ_CST))
                continue;
            d[l] = old;
        }
}

lane_work *ptx_atomic_work(const char *operation)
{
    return strcmp(operation, "add") == 0 ? atomic_add : strcmp(operation, "inc") == 0 ? atomic_inc : NULL;
}
