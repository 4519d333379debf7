/* ptx_run.h - what runs: warps of 32 threads, blocks of warps, grids of blocks.
 *
 * Threads of a warp go on together. Where they part, those that are furthest behind in the text go first, so that
 * they meet again where the ways join. What PTX leaves open is decided by a seed: the order of blocks, of warps, and
 * how long one runs before another may.
 */
#ifndef SOFTGPU_PTX_RUN_H
#define SOFTGPU_PTX_RUN_H

#include "ptx.h"

enum { MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / LANES, MOST_SHARED = 227 << 10 };

typedef struct group {
    int at; /* instruction */
    uint32_t lanes;
} group;

typedef struct dim {
    unsigned x, y, z;
} dim;

/* One start of a kernel. */
typedef struct launch {
    ptx_kernel *kernel;
    dim grid, block;
    int64_t dynamic; /* bytes of shared memory */
    int device;
    bool together; /* all blocks run at the same time */
    const char *params;
} launch;

/* Who wrote and read a cell of shared memory since the last barrier. */
typedef struct cell {
    uint32_t written, read; /* barriers so far << 12 | thread + 1, or CELL_MANY */
} cell;
enum { CELL_MANY = 0xfff };

typedef struct thread_block {
    const launch *l;
    dim at;
    warp *warps;
    int nwarps, running; /* that have not ended */
    char *shared;
    cell *cells;
    uint32_t barriers; /* that all have passed */
    struct fault *fault;
} thread_block;

struct warp {
    thread_block *block;
    char *registers, *local;
    const char *bases[2]; /* registers, constants: see source() */
    uint32_t alive;       /* lanes that have not ended */
    uint32_t there;       /* lanes that have begun */
    uint32_t carry;       /* a lane's carry flag */
    int first;            /* thread of the block */
    bool at_barrier;
    group active[LANES], parked[LANES]; /* active: the one that is furthest behind is last */
    int nactive, nparked;
};

/* What ended a launch: the first that was found. */
typedef struct fault {
    bool happened;
    char text[600];
} fault;

/* Of a thread; returns for the caller to go on: the launch ends soon. */
__attribute__((format(printf, 4, 5))) void fault_at(warp *w, const instruction *i, int lane, const char *format, ...);

/* Runs a grid; false: *f says what happened. */
bool grid_run(const launch *l, fault *f);

static inline void *target(warp *w, place p)
{
    return w->registers + p;
}

static inline const void *source(const warp *w, place p)
{
    return w->bases[p >> 31] + (p & ~IN_CONSTANTS);
}

#endif
