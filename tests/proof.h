/* proof.h - compiles and runs a graph without a session, so that a test can choose kernels, switch passes off, fill
 * the arena with rubbish, move a parameter a little, and look at every value afterwards.
 *
 * The numbers of values do not depend on the options, except on `gradients`, which adds some at the end; so a value
 * may be compared between two proofs of one graph by its number, and state by its name.
 *
 * A kernel that writes past its workspace, on either side, fails the case.
 *
 * A proof may run on a device. State and arena are here all the same, and so are all functions that look at them;
 * proof_begin takes them there, proof_end brings back what became of them. After test.h.
 */
#ifndef TEST_PROOF_H
#define TEST_PROOF_H

#include "device/device.h"
#include "core/random.h"
#include "graph/exec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct proof_options {
    dtype real;
    int64_t batch; /* 0: 1 */
    bool evaluation, gradients, fuse, in_place;
    unsigned fusions;    /* which, with fuse; 0: all that keep the bits */
    bool keep_all;       /* every value stays readable; not with fuse */
    const char *kernels; /* see brasa_session_options */
    brasa_context *on;   /* of a device to run on; NULL: the graph's own */
    int32_t precision;   /* of a device */
    bool coarse;         /* it starts from numbers of 8 bits, which bf16 holds as they are */
    /* Of all real numbers, where kernels are references; else of inputs and parameters. F32: as they are computed. */
    dtype storage;
} proof_options;

typedef struct proof {
    program program;
    proof_options options;
    int *grad;           /* parameter -> its gradient's value, or -1 */
    char *start, *state; /* the state before a run, and in it */
    char *inputs;        /* before a run, one behind the other */
    int64_t *state_offset;
    int64_t state_bytes;
    int64_t *scratch;       /* node -> bytes of its workspace ... */
    int64_t *scratch_place; /* ... and where it is, as in the plan */
    char *arena;            /* the plan's, then guard, workspace, guard */
    int64_t arena_bytes;
    char *state_there, *arena_there; /* in memory that is not the host's, else NULL */
} proof;

static inline void proof_gradient_done(void *user, graph *g, int param, int grad)
{
    proof *p = user;
    p->grad[param] = grad;
    g->values[grad].output = true;
}

enum { PROOF_KERNELS = 32, PROOF_GUARD = 4096, PROOF_GUARD_BYTE = 0xA5 };

/* The names of all kernels that run a node of the program but were not chosen for it; returns how many. */
static inline int proof_other_kernels(const proof *p, const char *names[PROOF_KERNELS])
{
    const graph *g = &p->program.graph;
    int count = 0;
    for (int i = 0; i < g->nnodes; i++) {
        const node *n = &g->nodes[i];
        for (const kernel *k = NULL; (k = kernel_next(g->ctx, n->op, g->real, k)) != NULL;) {
            bool known = k == n->kernel || (k->supports && !k->supports(g, n));
            for (int c = 0; c < count && !known; c++)
                known = strcmp(names[c], k->name) == 0;
            if (!known && count < PROOF_KERNELS)
                names[count++] = k->name;
        }
    }
    return count;
}

/* A pruned node leaves its values behind, with a producer that is none. A whole is made where its parts are. */
static inline bool proof_made(const graph *g, int v)
{
    for (int p = 0; p < g->nvalues; p++)
        if (g->values[p].whole == v && proof_made(g, p))
            return true;
    int i = g->values[v].producer;
    for (int k = 0; i >= 0 && i < g->nnodes && k < g->nodes[i].nout; k++)
        if (g->nodes[i].out[k] == v)
            return true;
    return false;
}

/* All passes, up to the plan; allocates nothing of the plan's size. proof_free is due even after a failure. */
static inline brasa_status proof_compile(proof *p, const graph *from, proof_options o)
{
    *p = (proof){.options = o};
    graph *g = &p->program.graph;
    graph_init(g, o.on ? o.on : from->ctx);
    g->real = o.real;
    g->seed = 7;
    g->fuse = o.fusions ? o.fusions : FUSE_ALL & ~FUSE_FOLD;
    g->precision = o.precision;
    g->fuse &= g->ctx->device->fuse;
    brasa_status status = pass_lower(g, from, o.batch ? o.batch : 1, !o.evaluation);
    p->grad = malloc(((size_t)g->nvalues + 1) * sizeof *p->grad);
    for (int v = 0; v < g->nvalues; v++)
        p->grad[v] = -1;
    if (status == BRASA_OK && g->loss >= 0)
        g->values[g->loss].output = true;
    if (status == BRASA_OK && o.gradients)
        status = pass_autodiff(g, proof_gradient_done, p);
    if (status == BRASA_OK && o.fuse)
        status = pass_fuse(g);
    if (status == BRASA_OK && o.fuse)
        status = pass_recompute(g, true);
    if (status == BRASA_OK)
        status = pass_prune(g);
    for (int v = 0; o.keep_all && v < g->nvalues; v++)
        g->values[v].output = g->values[v].output || proof_made(g, v);
    for (int v = 0; o.storage != F32 && v < g->nvalues; v++)
        if (dtype_real(g->values[v].type) &&
            (o.kernels || g->values[v].kind == VALUE_INPUT || g->values[v].kind == VALUE_PARAM)) {
            g->values[v].format.storage = o.storage;
            g->values[v].settled = true;
        }
    if (status == BRASA_OK)
        status = pass_select(g, o.kernels);
    if (status == BRASA_OK && o.fuse)
        status = pass_parts(g);
    return status == BRASA_OK ? pass_plan(g, o.in_place, &p->program.plan) : status;
}

static inline void proof_free(proof *p)
{
    brasa_context *ctx = p->program.graph.ctx;
    if (p->state_there)
        tensors_put(ctx, p->state_there);
    if (p->arena_there)
        tensors_put(ctx, p->arena_there);
    graph_clear(&p->program.graph);
    free(p->grad);
    free(p->start);
    free(p->state);
    free(p->inputs);
    free(p->state_offset);
    free(p->scratch);
    free(p->scratch_place);
    free(p->arena);
}

/* Where element i, counted in the order of the shape, is stored. */
static inline int64_t proof_place(const value *v, int64_t i)
{
    if (layout_plain(&v->format.layout))
        return i;
    int64_t index[MAX_RANK];
    for (int d = v->shape.rank - 1; d >= 0; d--) {
        index[d] = i % v->shape.dim[d];
        i /= v->shape.dim[d];
    }
    return layout_offset(&v->format.layout, &v->shape, index);
}

/* The same of all elements, far sooner; NULL: where their numbers say. To be freed. */
static inline int64_t *proof_places(const value *v)
{
    const shape *s = &v->shape;
    if (layout_plain(&v->format.layout))
        return NULL;
    const int64_t count = shape_count(s), width = s->rank ? s->dim[s->rank - 1] : 1, size = layout_table_size(s);
    int64_t *places = malloc((size_t)(count + 1) * sizeof *places), *table = malloc((size_t)size * sizeof *table);
    layout_table_fill(&v->format.layout, s, table);
    const int64_t *last = table + size - 1 - (s->rank ? width : 0);
    for (int64_t row = 0; row * width < count; row++) {
        const int64_t base = layout_row_base(s, table, row);
        for (int64_t x = 0; x < width; x++)
            places[row * width + x] = base + last[x];
    }
    free(table);
    return places;
}

static inline int64_t proof_plane(const value *v)
{
    return storage_plane(v->format.storage, layout_count(&v->format.layout, &v->shape));
}

static inline double proof_read(const value *v, const void *data, int64_t i)
{
    return storage_load(v->format.storage, data, proof_plane(v), i);
}

static inline void proof_write(const value *v, void *data, int64_t i, double x)
{
    storage_store(v->format.storage, data, proof_plane(v), i, x);
}

static inline random_stream proof_stream(const char *name)
{
    uint32_t hash = 2166136261u;
    for (const char *c = name ? name : ""; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    return (random_stream){.seed = 1, .purpose = RANDOM_TEST, .stream = hash & 0xFFFFFF};
}

/* Numbers that depend on the name only, rounded to float so that both precisions start alike. Constants are
 * shaken a little: a scale of one everywhere would hide a scale that is never applied. */
static inline double proof_number(const value *v, const random_stream *s, int64_t i)
{
    const bool given = v->classes || v->kind == VALUE_INPUT;
    if (!given && (v->kind == VALUE_SLOT || v->kind == VALUE_COUNTER))
        return 0;
    const bool normal = v->start.form == START_NORMAL || v->start.form == START_TRUNCATED;
    if (!given && normal) /* what is cut off does no harm here */
        return (float)(v->start.a + v->start.b * random_normal(s, (uint64_t)i));
    const double x = random_uniform(s, (uint64_t)i, 0, 1);
    if (v->classes)
        return floor(x * v->classes);
    if (v->kind == VALUE_INPUT)
        return (float)(2 * x - 1);
    if (v->start.form == START_UNIFORM)
        return (float)(v->start.a + (v->start.b - v->start.a) * x);
    return (float)(v->start.a + 0.25 * x);
}

/* x in 8 bits, the first of them implied. */
static inline double proof_coarse(double x)
{
    int exponent;
    const double part = frexp(x, &exponent);
    return ldexp(nearbyint(part * 256) / 256, exponent);
}

static inline void proof_fill(const proof *p, const value *v, void *data)
{
    const random_stream s = proof_stream(v->name);
    int64_t *places = proof_places(v);
    for (int64_t i = 0, count = shape_count(&v->shape); i < count; i++) {
        const double x = proof_number(v, &s, i);
        proof_write(v, data, places ? places[i] : i, p->options.coarse && !v->classes ? proof_coarse(x) : x);
    }
    free(places);
}

/* Puts all workspaces behind the arena, one in the other's place: there each can have its guards. That they have
 * room in the arena is test_plan.c's business. Returns the bytes of it all, or -1. */
static inline int64_t proof_guard(proof *p)
{
    const graph *g = &p->program.graph;
    const memory_plan *plan = &p->program.plan;
    const int64_t from = (plan->bytes + 63) / 64 * 64 + PROOF_GUARD;
    int64_t most = 0;
    p->scratch = calloc((size_t)g->nnodes + 1, sizeof *p->scratch);
    p->scratch_place = calloc((size_t)g->nnodes + 1, sizeof *p->scratch_place);
    if (!p->scratch || !p->scratch_place)
        return -1;
    for (int i = 0; i < g->nnodes; i++) {
        const bool has = plan->workspace[i] >= 0;
        p->scratch[i] = has ? g->nodes[i].kernel->workspace(g, &g->nodes[i]) : 0;
        p->scratch_place[i] = has ? from : -1;
        most = p->scratch[i] > most ? p->scratch[i] : most;
    }
    return from + most + PROOF_GUARD;
}

/* Where the program's steps are to find state and arena: here, or on the device. */
static inline brasa_status proof_link(proof *p)
{
    brasa_context *ctx = p->program.graph.ctx;
    if (!ctx->device->host_memory && (!(p->state_there = tensors_get(ctx, (size_t)p->state_bytes + 64)) ||
                                      !(p->arena_there = tensors_get(ctx, (size_t)p->arena_bytes))))
        return BRASA_OUT_OF_MEMORY;
    int64_t *planned = p->program.plan.workspace;
    p->program.plan.workspace = p->scratch_place;
    const brasa_status status = program_link(&p->program, p->state_there ? p->state_there : p->state, p->state_offset,
                                             p->arena_there ? p->arena_there : p->arena);
    p->program.plan.workspace = planned;
    return status;
}

/* Drawn once, for all runs; zero in the padding of their layouts. */
static inline bool proof_draw_inputs(proof *p)
{
    const graph *g = &p->program.graph;
    int64_t bytes = 0;
    for (int v = 0; v < g->nvalues; v++)
        bytes += g->values[v].kind == VALUE_INPUT ? (g->values[v].bytes + 63) / 64 * 64 : 0;
    p->inputs = calloc(1, (size_t)bytes + 1);
    char *at = p->inputs;
    for (int v = 0; p->inputs && v < g->nvalues; v++)
        if (g->values[v].kind == VALUE_INPUT) {
            proof_fill(p, &g->values[v], at);
            at += (g->values[v].bytes + 63) / 64 * 64;
        }
    return p->inputs;
}

/* Memory, the state's first numbers, and the steps. */
static inline brasa_status proof_load(proof *p)
{
    graph *g = &p->program.graph;
    brasa_status status = program_prepare(&p->program);
    if (status != BRASA_OK)
        return status;
    p->state_offset = calloc((size_t)g->nvalues + 1, sizeof *p->state_offset);
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind == VALUE_TEMP || g->values[v].kind == VALUE_INPUT)
            continue;
        g->values[v].state = v;
        p->state_offset[v] = p->state_bytes;
        p->state_bytes += (g->values[v].bytes + 63) / 64 * 64;
    }
    p->start = calloc(1, (size_t)p->state_bytes + 64);
    p->state = aligned_alloc(64, (size_t)p->state_bytes + 64);
    p->arena_bytes = proof_guard(p);
    p->arena = p->arena_bytes < 0 ? NULL : aligned_alloc(64, (size_t)(p->arena_bytes + 63) / 64 * 64);
    if (!p->state_offset || !p->start || !p->state || !p->arena || !proof_draw_inputs(p))
        return BRASA_OUT_OF_MEMORY;
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].state >= 0)
            proof_fill(p, &g->values[v], p->start + p->state_offset[v]);
    return proof_link(p);
}

static inline bool proof_guarded(const char *guard)
{
    return *guard == (char)PROOF_GUARD_BYTE && memcmp(guard, guard + 1, PROOF_GUARD - 1) == 0;
}

/* A piece of the arena, on its way to the device or back. */
static inline void proof_push(const proof *p, char *piece, int64_t bytes)
{
    if (p->arena_there)
        CHECK_STATUS(device_copy_in(p->program.graph.ctx, p->arena_there + (piece - p->arena), piece, (size_t)bytes),
                     BRASA_OK);
}

static inline void proof_pull(const proof *p, char *piece, int64_t bytes)
{
    if (p->arena_there)
        CHECK_STATUS(device_copy_out(p->program.graph.ctx, piece, p->arena_there + (piece - p->arena), (size_t)bytes),
                     BRASA_OK);
}

static inline brasa_status proof_step(proof *p, int i, int rubbish)
{
    const step *s = &p->program.steps[i];
    int64_t nanoseconds;
    if (!s->workspace)
        return program_repeat(&p->program, i, 1, &nanoseconds);
    const int64_t bytes = p->scratch[s->node - p->program.graph.nodes];
    char *workspace = p->arena + p->scratch_place[s->node - p->program.graph.nodes];
    char *before = workspace - PROOF_GUARD, *behind = workspace + bytes;
    memset(before, PROOF_GUARD_BYTE, PROOF_GUARD);
    memset(workspace, rubbish, (size_t)bytes);
    memset(behind, PROOF_GUARD_BYTE, PROOF_GUARD);
    proof_push(p, before, bytes + 2 * PROOF_GUARD);
    const brasa_status status = program_repeat(&p->program, i, 1, &nanoseconds);
    proof_pull(p, before, bytes + 2 * PROOF_GUARD);
    if (!proof_guarded(before) || !proof_guarded(behind))
        test_fail(__FILE__, __LINE__, "%s of %s '%s' writes %s its workspace of %lld bytes", s->kernel->name,
                  s->node->op->name, s->node->name, proof_guarded(before) ? "behind" : "before", (long long)bytes);
    return status;
}

/* The starting state, the inputs, and an arena full of the byte `rubbish`, before the first step. */
static inline void proof_begin(proof *p, int rubbish)
{
    const graph *g = &p->program.graph;
    const char *input = p->inputs;
    memcpy(p->state, p->start, (size_t)p->state_bytes);
    memset(p->arena, rubbish, (size_t)p->program.plan.bytes);
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].kind == VALUE_INPUT) {
            memcpy(p->arena + g->values[v].offset, input, (size_t)g->values[v].bytes);
            input += (g->values[v].bytes + 63) / 64 * 64;
        }
    if (p->state_there)
        CHECK_STATUS(device_copy_in(g->ctx, p->state_there, p->state, (size_t)p->state_bytes), BRASA_OK);
    proof_push(p, p->arena, p->program.plan.bytes);
}

/* After the last step. */
static inline void proof_end(proof *p)
{
    if (p->state_there)
        CHECK_STATUS(device_copy_out(p->program.graph.ctx, p->state, p->state_there, (size_t)p->state_bytes),
                     BRASA_OK);
    proof_pull(p, p->arena, p->program.plan.bytes);
}

/* One run from the start; rubbish 255 makes NaN of every number in the arena and in the workspaces. */
static inline brasa_status proof_run(proof *p, int rubbish)
{
    proof_begin(p, rubbish);
    brasa_status status = BRASA_OK;
    for (int i = 0; i < p->program.nsteps && status == BRASA_OK; i++)
        status = proof_step(p, i, rubbish);
    proof_end(p);
    return status;
}

/* compile, load and run. */
static inline brasa_status proof_make(proof *p, const graph *from, proof_options o)
{
    brasa_status status = proof_compile(p, from, o);
    if (status == BRASA_OK)
        status = proof_load(p);
    return status == BRASA_OK ? proof_run(p, 255) : status;
}

static inline void *proof_data(const proof *p, int v)
{
    const value *x = &p->program.graph.values[v];
    return x->state >= 0 ? p->state + p->state_offset[v] : p->arena + x->offset;
}

static inline double proof_get(const proof *p, int v, int64_t i)
{
    const value *x = &p->program.graph.values[v];
    return proof_read(x, proof_data(p, v), proof_place(x, i));
}

/* The state that a run starts from. */
static inline double proof_start(const proof *p, int v, int64_t i)
{
    const value *x = &p->program.graph.values[v];
    return proof_read(x, p->start + p->state_offset[v], proof_place(x, i));
}

static inline void proof_set_start(const proof *p, int v, int64_t i, double x)
{
    const value *to = &p->program.graph.values[v];
    proof_write(to, p->start + p->state_offset[v], proof_place(to, i), x);
}

static inline int64_t proof_count(const proof *p, int v)
{
    return shape_count(&p->program.graph.values[v].shape);
}

/* Still in its place after the run: state, and what a node made and the plan kept. */
static inline bool proof_readable(const proof *p, int v)
{
    const value *x = &p->program.graph.values[v];
    return x->state >= 0 || (x->output && x->kind == VALUE_TEMP && proof_made(&p->program.graph, v));
}

/* All elements, in the order of the shape; to be freed. */
static inline double *proof_numbers(const proof *p, int v)
{
    const value *x = &p->program.graph.values[v];
    const void *data = proof_data(p, v);
    const int64_t count = proof_count(p, v);
    double *numbers = malloc((size_t)(count + 1) * sizeof *numbers);
    int64_t *places = proof_places(x);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = proof_read(x, data, places ? places[i] : i);
    free(places);
    return numbers;
}

/* The same bits in two proofs: as numbers, for their layouts may differ. */
static inline bool proof_same(const proof *a, const proof *b, int v)
{
    double *x = proof_numbers(a, v), *y = proof_numbers(b, v);
    const bool same = memcmp(x, y, (size_t)proof_count(a, v) * sizeof *x) == 0;
    free(x);
    free(y);
    return same;
}

OWNER(graph, *x, graph_clear(x))
OWNER(proof, *x, proof_free(x))

#endif
