/* ptx_run.c - runs kernels: see ptx_run.h.
 *
 * A thread of the host takes one block after the other, and in it one warp after the other, each until it ends,
 * waits, or its time is over, which is counted in jumps back: who waits in a loop for others lets them go on.
 */
#define _GNU_SOURCE
#include "ptx_run.h"
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a thread of the host runs blocks with. */
typedef struct worker {
    thread_block b;
    char *room; /* registers, own memory and shared memory of a block */
    size_t bytes;
    uint64_t random;
    int turn; /* jumps back before another warp may go on */
} worker;

enum { TURN = 1000 };

/* SOFTGPU_SEED: 0, or not there, is the plain order. */
static uint64_t seed(void)
{
    const char *word = getenv("SOFTGPU_SEED");
    return word ? strtoull(word, NULL, 10) : 0;
}

static unsigned draw(worker *k, unsigned below)
{
    k->random = k->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((k->random >> 33) % below);
}

void fault_at(warp *w, const instruction *i, int lane, const char *format, ...)
{
    const thread_block *b = w->block;
    const launch *l = b->l;
    fault *f = b->fault;
    if (__atomic_exchange_n(&f->happened, true, __ATOMIC_SEQ_CST))
        return;
    const unsigned thread = (unsigned)(w->first + lane), x = l->block.x, y = l->block.y;
    int at = snprintf(f->text, sizeof f->text, "%s, PTX line %d, block %u %u %u, thread %u %u %u: ", l->kernel->name,
                      i->line, b->at.x, b->at.y, b->at.z, thread % x, thread / x % y, thread / x / y);
    va_list list;
    va_start(list, format);
    if (at > 0 && (size_t)at < sizeof f->text)
        vsnprintf(f->text + at, sizeof f->text - (size_t)at, format, list);
    va_end(list);
}

/* --- a warp ---------------------------------------------------------------------------------------------------- */

/* Keeps the one that is furthest behind last; lanes that are at the same place go on together. */
static void put_active(warp *w, int at, uint32_t lanes)
{
    int n = w->nactive;
    while (n > 0 && w->active[n - 1].at < at)
        n--;
    if (n > 0 && w->active[n - 1].at == at) {
        w->active[n - 1].lanes |= lanes;
        return;
    }
    memmove(w->active + n + 1, w->active + n, (size_t)(w->nactive - n) * sizeof *w->active);
    w->active[n] = (group){at, lanes};
    w->nactive++;
}

/* Lanes that wait for others at an instruction, with those that wait there already. */
static group *park(warp *w, int at, uint32_t lanes)
{
    int n = 0;
    while (n < w->nparked && w->parked[n].at != at)
        n++;
    if (n == w->nparked)
        w->parked[w->nparked++] = (group){at, 0};
    w->parked[n].lanes |= lanes;
    return &w->parked[n];
}

/* They wait no longer. */
static uint32_t unpark(warp *w, group *g)
{
    const uint32_t lanes = g->lanes;
    *g = w->parked[--w->nparked];
    return lanes;
}

/* Who must be there for an instruction to be done, of those who are alive. For MEET the lanes that came say so: each
 * the same, and itself among them. */
static uint32_t wanted(warp *w, const instruction *i, uint32_t came)
{
    uint32_t need = i->kind == MEET ? 0 : ALL_LANES;
    const int first = __builtin_ctz(came);
    for (uint32_t left = i->kind == MEET ? came : 0; left; left &= left - 1) {
        const uint32_t *mask = source(w, i->a);
        const int lane = __builtin_ctz(left);
        if (mask[lane] != mask[first] || !(mask[lane] >> lane & 1))
            fault_at(w, i, lane, "its mask is %08x, and that of thread %d of the warp %08x", (unsigned)mask[lane],
                     first, (unsigned)mask[first]);
        need |= mask[lane];
    }
    return w->alive & need;
}

/* When nobody can go on: those whom somebody waited for may have ended meanwhile. False: they wait for ever. */
static bool wake_parked(warp *w)
{
    const ptx_kernel *k = w->block->l->kernel;
    for (int n = 0; n < w->nparked; n++) {
        const int at = w->parked[n].at;
        const uint32_t need = wanted(w, &k->code[at], w->parked[n].lanes);
        if ((w->parked[n].lanes & need) == need) {
            put_active(w, at, unpark(w, &w->parked[n]));
            return true;
        }
    }
    const group g = w->parked[0];
    fault_at(w, &k->code[g.at], __builtin_ctz(g.lanes),
             "it waits for threads of its warp (%08x are here, %08x are alive), which wait elsewhere",
             (unsigned)g.lanes, (unsigned)w->alive);
    return false;
}

/* Those of the lanes whose guard lets them do the instruction. */
static uint32_t guarded(warp *w, const instruction *i, uint32_t lanes)
{
    if (!i->guarded)
        return lanes;
    const uint32_t holds = *(const uint32_t *)source(w, i->guard);
    return lanes & (i->negated ? ~holds : holds);
}

/* Until the warp ends, waits for the block's others, or has had its turn. */
static void run_warp(warp *w, int turn)
{
    const instruction *code = w->block->l->kernel->code;
    const fault *f = w->block->fault;
    while (w->alive && !__atomic_load_n(&f->happened, __ATOMIC_RELAXED)) {
        if (!w->nactive && !wake_parked(w))
            return;
        const group g = w->active[--w->nactive];
        const int limit = w->nactive ? w->active[w->nactive - 1].at : INT32_MAX;
        uint32_t lanes = g.lanes;
        int at = g.at;
        for (bool go_on = true; go_on && at < limit;) {
            const instruction *i = &code[at];
            const uint32_t does = guarded(w, i, lanes);
            switch ((instruction_kind)i->kind) {
            case PLAIN:
                if (does)
                    i->work(w, i, does);
                at++;
                go_on = !__atomic_load_n(&f->happened, __ATOMIC_RELAXED);
                break;
            case BRANCH:
                if (i->target <= at && does && --turn < 0) { /* it is done anew next time */
                    put_active(w, at, lanes);
                    return;
                }
                if (does == lanes)
                    at = i->target;
                else if (does) {
                    put_active(w, i->target, does);
                    put_active(w, at + 1, lanes & ~does);
                    lanes = 0;
                    go_on = false;
                } else
                    at++;
                break;
            case BARRIER:
            case MEET: {
                group *here = park(w, at, lanes);
                const uint32_t need = wanted(w, i, here->lanes);
                lanes = 0;
                go_on = false;
                if (i->guarded) {
                    fault_at(w, i, __builtin_ctz(here->lanes), "threads of a warp would wait, if they are to");
                } else if ((here->lanes & need) == need) {
                    lanes = unpark(w, here);
                    if (i->kind == MEET)
                        i->work(w, i, lanes);
                    at++;
                    go_on = i->kind == MEET;
                    w->at_barrier = i->kind == BARRIER;
                }
                break;
            }
            case RETURN:
                w->alive &= ~does;
                lanes &= ~does;
                at++;
                go_on = lanes != 0;
                break;
            }
        }
        if (lanes)
            put_active(w, at, lanes);
        if (w->at_barrier)
            return;
    }
}

/* --- a block --------------------------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t shared_bytes(const launch *l)
{
    return round_up((size_t)(l->dynamic ? DYNAMIC_SHARED + l->dynamic : l->kernel->shared) + 16);
}

static size_t cells_bytes(const launch *l)
{
    return l->kernel->moves_shared ? round_up(shared_bytes(l) / (size_t)l->kernel->cell * sizeof(cell)) : 0;
}

static size_t warp_bytes(const ptx_kernel *k)
{
    return round_up(k->registers) + round_up((size_t)k->local * LANES);
}

static bool worker_open(worker *k, const launch *l, fault *f, uint64_t start)
{
    const int threads = (int)(l->block.x * l->block.y * l->block.z), warps = (threads + LANES - 1) / LANES;
    k->bytes = (size_t)warps * (warp_bytes(l->kernel) + round_up(sizeof(warp))) + shared_bytes(l) + cells_bytes(l);
    k->room = aligned_alloc(64, k->bytes);
    if (!k->room)
        return false;
    memset(k->room, 0, k->bytes);
    char *at = k->room;
    k->b = (thread_block){.l = l, .nwarps = warps, .fault = f, .warps = (warp *)(void *)at};
    at += (size_t)warps * round_up(sizeof(warp));
    k->b.cells = (cell *)(void *)at;
    at += cells_bytes(l);
    k->b.shared = at;
    at += shared_bytes(l);
    for (int n = 0; n < warps; n++) {
        warp *w = &k->b.warps[n];
        w->registers = at;
        w->local = at + round_up(l->kernel->registers);
        at += warp_bytes(l->kernel);
    }
    k->random = start;
    k->turn = TURN;
    return true;
}

static void fill(warp *w, place p, uint32_t value)
{
    uint32_t *to = target(w, p);
    for (int l = 0; p != NO_PLACE && l < LANES; l++)
        to[l] = value;
}

static void set_special(warp *w)
{
    const launch *l = w->block->l;
    const place *special = l->kernel->special;
    const uint32_t values[SPECIALS] = {
        [NTID_X] = l->block.x,      [NTID_Y] = l->block.y,      [NTID_Z] = l->block.z,
        [CTAID_X] = w->block->at.x, [CTAID_Y] = w->block->at.y, [CTAID_Z] = w->block->at.z,
        [NCTAID_X] = l->grid.x,     [NCTAID_Y] = l->grid.y,     [NCTAID_Z] = l->grid.z};
    for (int s = NTID_X; s < SPECIALS; s++)
        if (special[s] != NO_PLACE)
            fill(w, special[s], values[s]);
    for (int n = 0; n < LANES; n++) {
        const uint32_t thread = (uint32_t)(w->first + n);
        const uint32_t at[3] = {thread % l->block.x, thread / l->block.x % l->block.y,
                                thread / l->block.x / l->block.y};
        for (int axis = 0; axis < 3; axis++)
            if (special[axis] != NO_PLACE)
                ((uint32_t *)target(w, special[axis]))[n] = at[axis];
    }
}

static void block_begin(worker *k, int64_t number)
{
    enum { MOST_BARRIERS = 1 << 19 }; /* that a cell can count; a block has far fewer than half of them */
    thread_block *b = &k->b;
    const launch *l = b->l;
    const int threads = (int)(l->block.x * l->block.y * l->block.z);
    b->at = (dim){(unsigned)(number % l->grid.x), (unsigned)(number / l->grid.x % l->grid.y),
                  (unsigned)(number / l->grid.x / l->grid.y)};
    b->running = b->nwarps;
    if (++b->barriers > MOST_BARRIERS) {
        b->barriers = 1;
        memset(b->cells, 0, cells_bytes(l));
    }
    memset(b->shared, POISON, (size_t)l->kernel->shared);
    memset(b->shared + DYNAMIC_SHARED * (l->dynamic > 0), POISON, (size_t)l->dynamic);
    for (int n = 0; n < b->nwarps; n++) {
        warp *w = &b->warps[n];
        const int left = threads - n * LANES;
        w->block = b;
        w->first = n * LANES;
        w->there = w->alive = left >= LANES ? ALL_LANES : (1u << left) - 1;
        w->bases[0] = w->registers;
        w->bases[1] = l->kernel->constants;
        w->at_barrier = false;
        w->nactive = w->nparked = 0;
        memset(w->local, POISON, (size_t)l->kernel->local * LANES);
        put_active(w, 0, w->alive);
        set_special(w);
    }
}

/* Lets each warp go on once; true: the block has ended. */
static bool block_turn(worker *k)
{
    thread_block *b = &k->b;
    const bool shuffled = k->random != 0;
    const int first = shuffled ? (int)draw(k, (unsigned)b->nwarps) : 0;
    int waiting = 0, alive = 0;
    for (int n = 0; n < b->nwarps; n++) {
        warp *w = &b->warps[(n + first) % b->nwarps];
        if (w->alive && !w->at_barrier)
            run_warp(w, shuffled ? (int)draw(k, TURN) : TURN);
        if (__atomic_load_n(&b->fault->happened, __ATOMIC_RELAXED))
            return true;
    }
    for (int n = 0; n < b->nwarps; n++) {
        alive += b->warps[n].alive != 0;
        waiting += b->warps[n].alive && b->warps[n].at_barrier;
    }
    if (alive && waiting == alive) {
        b->barriers++;
        for (int n = 0; n < b->nwarps; n++)
            b->warps[n].at_barrier = false;
    }
    return alive == 0;
}

/* --- a grid ---------------------------------------------------------------------------------------------------- */

/* All blocks at the same time, each in its turn. */
static bool run_together(const launch *l, int64_t blocks, fault *f)
{
    worker *all = calloc((size_t)blocks, sizeof *all);
    int64_t running = 0;
    bool memory = all != NULL;
    for (int64_t n = 0; n < blocks && memory; n++) {
        memory = worker_open(&all[n], l, f, seed() ? seed() + (uint64_t)n : 0);
        if (memory)
            block_begin(&all[n], n);
        running += memory;
    }
    bool *ended = memory ? calloc((size_t)blocks, sizeof *ended) : NULL;
    while (ended && running && !f->happened)
        for (int64_t n = 0; n < blocks; n++)
            if (!ended[n] && block_turn(&all[n])) {
                ended[n] = true;
                running--;
            }
    for (int64_t n = 0; all && n < blocks; n++)
        free(all[n].room);
    memory = memory && ended;
    free(ended);
    free(all);
    return memory;
}

/* The n-th block in an order that a seed gives: from some block on, forwards or backwards. */
static int64_t block_at(int64_t n, int64_t blocks, uint64_t by)
{
    const int64_t at = (n + (int64_t)(by / 2 % (uint64_t)blocks)) % blocks;
    return by & 1 ? blocks - 1 - at : at;
}

/* One after the other, shared out to some threads. */
static bool run_apart(const launch *l, int64_t blocks, fault *f)
{
    enum { FEW = 4 };
    const uint64_t by = seed();
    int64_t next = 0;
    bool memory = true;
#pragma omp parallel if (blocks >= FEW)
    {
        worker k;
        if (worker_open(&k, l, f, by)) {
            for (;;) {
                const int64_t n = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
                if (n >= blocks || __atomic_load_n(&f->happened, __ATOMIC_RELAXED))
                    break;
                block_begin(&k, block_at(n, blocks, by));
                while (!block_turn(&k))
                    continue;
            }
            free(k.room);
        } else {
            __atomic_store_n(&memory, false, __ATOMIC_RELAXED);
        }
    }
    return memory;
}

bool grid_run(const launch *l, fault *f)
{
    const int64_t blocks = (int64_t)l->grid.x * l->grid.y * l->grid.z;
    *f = (fault){0};
    if (!(l->together ? run_together(l, blocks, f) : run_apart(l, blocks, f))) {
        f->happened = true;
        snprintf(f->text, sizeof f->text, "%s: there is no memory to run it", l->kernel->name);
    }
    return !f->happened;
}
