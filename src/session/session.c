/* session.c - compiling a graph. state.c has what lasts from step to step, run.c runs it.
 *
 * A session owns the state (weights, buffers, optimizer slots, step counter) and a program for each (mode, batch
 * size) that was asked for; all programs work on the same state and take turns in the same transient memory.
 * Everything is in one allocation, which grows only when a program that needs more is made ready.
 */
#include "session/session.h"
#include "device/device.h"

#include <math.h>
#include <string.h>

/* --- memory ----------------------------------------------------------------------------------------------- */

static brasa_status link_all(brasa_session *s)
{
    brasa_status status = BRASA_OK;
    for (program *p = s->arena ? s->programs : NULL; p && status == BRASA_OK; p = p->next)
        status = program_link(p, s->arena, s->state_offset, s->arena + s->persistent);
    if (s->arena && s->update && status == BRASA_OK)
        status = program_link(s->update, s->arena, s->state_offset, s->arena + s->persistent);
    return status;
}

/* The one that needs most transient memory. */
static const program *largest_program(const brasa_session *s)
{
    const program *largest = s->update && s->update->plan.bytes > s->programs->plan.bytes ? s->update : s->programs;
    for (const program *p = s->programs; p; p = p->next)
        if (p->plan.bytes > largest->plan.bytes)
            largest = p;
    return largest;
}

/* An allocation with `transient` bytes beside the state, which moves along, in place of the one that there is. */
static brasa_status take(brasa_session *s, int64_t transient)
{
    const int64_t total = s->persistent + transient;
    if (total < 0 || (uint64_t)total > SIZE_MAX - PLAN_ALIGN)
        return fail(s->ctx, BRASA_OUT_OF_MEMORY, "%lld bytes are more than this machine can address",
                    (long long)total);
    char *arena = tensors_get(s->ctx, (size_t)total);
    if (!arena && !s->ctx->device->host_memory)
        return fail(s->ctx, BRASA_OUT_OF_MEMORY, "out of memory: %s has no %lld bytes free", s->ctx->device->name,
                    (long long)total);
    if (!arena)
        return fail_memory(s->ctx, (size_t)total);
    brasa_status status = session_make_mirror(s);
    if (status == BRASA_OK)
        status = s->aside   ? device_copy_in(s->ctx, arena, s->aside, (size_t)s->persistent)
                 : s->arena ? tensors_copy(s->ctx, arena, s->arena, (size_t)s->persistent)
                            : tensors_clear(s->ctx, arena, (size_t)s->persistent);
    if (status != BRASA_OK) {
        tensors_put(s->ctx, arena);
        return status;
    }
    tensors_put(s->ctx, s->arena);
    mem_put(s->ctx, s->aside);
    s->aside = NULL;
    s->arena = arena;
    s->transient = transient;
    s->fed = s->ran = NULL; /* only state moves along */
    return BRASA_OK;
}

/* The device's state to the host, and its allocation back. */
static brasa_status set_aside(brasa_session *s)
{
    void *aside = mem_get(s->ctx, (size_t)s->persistent);
    if (!aside)
        return fail_memory(s->ctx, (size_t)s->persistent);
    const brasa_status status = device_copy_out(s->ctx, aside, s->arena, (size_t)s->persistent);
    if (status != BRASA_OK) {
        mem_put(s->ctx, aside);
        return status;
    }
    tensors_put(s->ctx, s->arena);
    s->arena = NULL;
    s->aside = aside;
    s->fed = s->ran = NULL;
    return BRASA_OK;
}

/* Makes the allocation large enough for `transient` bytes of a program. Where a device has no room for the old one
 * and the new one, which no plan counts, the state goes by way of the host. */
static brasa_status reserve(brasa_session *s, int64_t transient)
{
    const int64_t before = s->transient, wanted = transient > before ? transient : before; /* of all programs */
    if (s->options.plan_only)
        s->transient = wanted;
    if (s->options.plan_only || (s->arena && wanted == before))
        return BRASA_OK;
    brasa_status status = take(s, wanted);
    if (status != BRASA_OUT_OF_MEMORY || !s->arena || s->ctx->device->host_memory || set_aside(s) != BRASA_OK)
        return status;
    status = take(s, wanted);
    if (status != BRASA_OK && take(s, before) == BRASA_OK)
        (void)link_all(s); /* as it was */
    return status;
}

brasa_status session_check_memory(const brasa_session *s)
{
    if (s->arena)
        return BRASA_OK;
    if (s->aside)
        return fail(s->ctx, BRASA_OUT_OF_MEMORY, "out of memory: others have taken what this session had of %s",
                    s->ctx->device->name);
    return fail(s->ctx, BRASA_WRONG_STATE, "this session is a plan only: it has no memory to run in");
}

/* --- compiling -------------------------------------------------------------------------------------------- */

static program *program_new(brasa_session *s, bool training, int64_t batch)
{
    program *p = mem_get(s->ctx, sizeof *p);
    if (!p) {
        fail_memory(s->ctx, sizeof *p);
        return NULL;
    }
    graph *g = &p->graph;
    graph_init(g, s->ctx);
    g->dialect = s->source->dialect;
    g->real = s->options.float64 ? F64 : F32;
    g->seed = s->options.seed;
    g->inference = s->options.inference;
    g->class_weights = s->class_weights;
    g->deterministic = s->options.deterministic;
    g->tuner = s->tuner;
    g->precision = s->options.precision;
    g->fuse &= s->ctx->device->fuse;
    g->in_parts = training && s->part;
    p->batch = batch;
    p->training = training;
    return p;
}

static void free_program(brasa_session *s, program *p)
{
    if (!p)
        return;
    program_forget(p);
    graph_clear(&p->graph);
    mem_put(s->ctx, p);
}

/* The passes, one after the other: to all nodes that there will be ... */
static brasa_status describe(brasa_session *s, program *p, program *last)
{
    graph *g = &p->graph;
    brasa_status status = pass_lower(g, s->source, p->batch, p->training);
    if (status == BRASA_OK)
        status = pass_views(g);
    if (status == BRASA_OK)
        freeze_apply(s, g);
    if (status == BRASA_OK && p->training)
        status = optimizer_emit(s, g, last ? &last->graph : NULL, p->batch);
    return status;
}

/* Kernels are timed in the transient memory, where there is some: what it held is gone then. */
static brasa_status choose_kernels(brasa_session *s, graph *g)
{
    tuner_lend(s->tuner, s->arena ? s->arena + s->persistent : NULL, s->transient);
    brasa_status status = pass_select(g, s->kernels);
    if (s->tuner->filled)
        s->fed = s->ran = NULL;
    const brasa_status rest = tuner_rest(s->tuner);
    return status == BRASA_OK ? rest : status;
}

/* ... and from there to steps that can run. */
static brasa_status compile(brasa_session *s, program *p)
{
    graph *g = &p->graph;
    brasa_status status = s->options.no_fusion ? BRASA_OK : pass_fuse(g);
    if (status == BRASA_OK && !s->options.no_fusion)
        status = pass_recompute(g, false);
    if (status == BRASA_OK)
        status = pass_prune(g);
    if (status == BRASA_OK && !g->nnodes)
        status = fail(s->ctx, BRASA_WRONG_STATE,
                      "there is nothing to compute: name what you want to read with brasa_output");
    if (status == BRASA_OK)
        status = session_bind_states(s, g);
    if (status == BRASA_OK)
        status = choose_kernels(s, g);
    if (status == BRASA_OK && !s->options.no_fusion)
        status = pass_parts(g);
    if (status == BRASA_OK && s->ctx->device->gather_updates)
        status = pass_gather(g);
    if (status == BRASA_OK)
        status = pass_plan(g, !s->options.no_inplace, &p->plan);
    if (status == BRASA_OK)
        status = program_prepare(p);
    if (status == BRASA_OK)
        session_keep_formats(s, g);
    return status;
}

/* A compiled program, not yet linked to memory. The first one of a session in parts brings the update program. */
static brasa_status new_program(brasa_session *s, bool training, int64_t batch, program **out)
{
    program *p = program_new(s, training, batch);
    if (!p)
        return BRASA_OUT_OF_MEMORY;
    const bool brings = p->graph.in_parts && !s->update;
    program *last = brings ? program_new(s, training, batch) : NULL;
    brasa_status status = brings && !last ? BRASA_OUT_OF_MEMORY : BRASA_OK;
    if (status == BRASA_OK)
        status = describe(s, p, p->graph.in_parts ? last : p);
    if (status == BRASA_OK)
        status = compile(s, p);
    if (status == BRASA_OK && last)
        status = compile(s, last);
    if (status != BRASA_OK) {
        free_program(s, p);
        free_program(s, last);
        return status;
    }
    if (last)
        s->update = last;
    *out = p;
    return BRASA_OK;
}

const program *session_first(const brasa_session *s)
{
    const program *p = s->programs;
    while (p && p->next)
        p = p->next;
    return p;
}

program *session_program(const brasa_session *s, bool training, int64_t batch)
{
    program *p = s->programs;
    while (p && (p->training != training || p->batch != batch))
        p = p->next;
    return p;
}

static brasa_status check_use(const brasa_session *s, bool training, int64_t batch)
{
    const int64_t most = INT64_C(1) << 31;
    if (batch < 1 || batch > most)
        return fail(s->ctx, BRASA_BAD_ARGUMENT, "batch: expected a number from 1 to %lld, got %lld", (long long)most,
                    (long long)batch);
    if (training && s->options.inference)
        return fail(s->ctx, BRASA_WRONG_STATE, "this session was made for inference only: it cannot train");
    return BRASA_OK;
}

/* Samples of the first program that a step of `batch` runs. */
static int64_t first_size(const brasa_session *s, bool training, int64_t batch)
{
    return training && s->part && batch > s->part ? s->part : batch;
}

static brasa_status prepare_size(brasa_session *s, bool training, int64_t batch)
{
    program *p = NULL;
    brasa_status status = BRASA_OK;
    const bool known = session_program(s, training, batch) != NULL;
    if ((known && !s->aside) || (!known && (status = new_program(s, training, batch, &p)) != BRASA_OK))
        return status;
    if ((status = reserve(s, p ? p->plan.bytes : 0)) != BRASA_OK) {
        free_program(s, p);
        return status;
    }
    if (p) {
        p->next = s->programs;
        s->programs = p;
    }
    return link_all(s);
}

brasa_status brasa_session_prepare(brasa_session *s, bool training, int64_t batch)
{
    if (!s)
        return BRASA_BAD_ARGUMENT;
    brasa_status status = check_use(s, training, batch);
    const int64_t size = first_size(s, training, batch);
    if (status == BRASA_OK)
        status = prepare_size(s, training, size);
    if (status == BRASA_OK && batch % size)
        status = prepare_size(s, training, batch % size);
    return status;
}

static brasa_status read_class_weights(brasa_session *s, const brasa_session_options *o)
{
    const size_t count = o->class_weight_count > 0 ? (size_t)o->class_weight_count : 0;
    bool used = false;
    for (int i = 0; i < s->source->nnodes; i++)
        used = used || s->source->nodes[i].op == &softmax_cross_entropy_op;
    if (!used)
        return fail(s->ctx, BRASA_WRONG_STATE, "class_weights: the network has no loss of classes");
    for (size_t i = 0; i < count; i++)
        if (!isfinite(o->class_weights[i]) || o->class_weights[i] < 0)
            return fail(s->ctx, BRASA_BAD_ARGUMENT,
                        "class_weights: expected numbers of at least 0, got %g for class %zu",
                        (double)o->class_weights[i], i);
    float *values = pool_get(&s->pool, count + 1, sizeof *values);
    s->class_weights = pool_get(&s->pool, 1, sizeof *s->class_weights);
    if (!values || !s->class_weights)
        return fail_memory(s->ctx, count * sizeof *values);
    if (count)
        memcpy(values, o->class_weights, count * sizeof *values);
    *s->class_weights = (constants_attr){(int64_t)count, values};
    return BRASA_OK;
}

static brasa_status read_micro_batches(brasa_session *s, const brasa_session_options *o)
{
    const int64_t batch = s->options.batch, count = o->micro_batches;
    if (count < 0 || (count > 1 && batch % count != 0))
        return fail(s->ctx, BRASA_BAD_ARGUMENT,
                    "micro_batches: a batch of %lld cannot be split into %lld equal micro-batches", (long long)batch,
                    (long long)count);
    if (count > 1 && !o->inference)
        s->part = batch / count;
    return BRASA_OK;
}

static brasa_status check_precision(const brasa_session *s)
{
    const int32_t p = s->options.precision;
    if (p != BRASA_F32 && p != BRASA_TF32 && p != BRASA_BF16)
        return fail(s->ctx, BRASA_BAD_ARGUMENT, "precision: expected BRASA_F32, BRASA_TF32 or BRASA_BF16, got %d",
                    (int)p);
    if (!(s->ctx->device->precisions & 1u << p))
        return fail(s->ctx, BRASA_BAD_ARGUMENT, "precision %s is for GPUs: the CPU computes in f32",
                    p == BRASA_TF32 ? "tf32" : "bf16");
    if (s->options.float64 && !s->ctx->device->float64)
        return fail(s->ctx, BRASA_BAD_ARGUMENT, "float64 is for the CPU");
    return BRASA_OK;
}

/* The first program decides what state there is; then memory is taken and the state set. */
static brasa_status start(brasa_session *s, const brasa_session_options *o)
{
    const graph *g = s->source;
    brasa_status status = g->status;
    if (status != BRASA_OK) { /* the builder's error, with its own text */
        memcpy(s->ctx->error, g->error, sizeof s->ctx->error);
        return status;
    }
    if (!isfinite(o->clip_norm) || o->clip_norm < 0)
        return fail(s->ctx, BRASA_BAD_ARGUMENT, "clip_norm: expected a number of at least 0, got %g", o->clip_norm);
    if (o->kernels && !kernel_named(s->ctx, o->kernels))
        return fail(s->ctx, BRASA_BAD_ARGUMENT, "kernels: none of this build has '%s' in its name", o->kernels);
    if (o->kernels && !(s->kernels = pool_text(&s->pool, "%s", o->kernels)))
        return fail_memory(s->ctx, strlen(o->kernels) + 1);
    if ((status = check_precision(s)) != BRASA_OK)
        return status;
    if ((status = session_make_tuner(s, o)) != BRASA_OK)
        return status;
    if (o->freeze && (status = freeze_read(s, o->freeze)) != BRASA_OK)
        return status;
    if (o->class_weights && (status = read_class_weights(s, o)) != BRASA_OK)
        return status;
    if (!o->inference)
        status = optimizer_read(s, o->optimizer ? o->optimizer : "sgd", o->schedule ? o->schedule : "constant");
    if (status == BRASA_OK)
        status = check_use(s, !o->inference, s->options.batch);
    if (status == BRASA_OK)
        status = read_micro_batches(s, o);

    const dtype real = o->float64 ? F64 : F32;
    for (int pass = 0; pass < 2; pass++)
        for (int v = 0; v < g->nvalues && status == BRASA_OK; v++)
            if (g->values[v].kind == (pass ? VALUE_BUFFER : VALUE_PARAM))
                status = session_add_state(s, &g->values[v], real);
    if (status == BRASA_OK)
        status = session_add_state(s, &(value){.name = STEPS_NAME, .kind = VALUE_COUNTER}, I64);
    if (status == BRASA_OK)
        status = new_program(s, !o->inference, first_size(s, !o->inference, s->options.batch), &s->programs);
    if (status == BRASA_OK)
        status = session_lay_out_state(s);
    if (status == BRASA_OK)
        status = reserve(s, largest_program(s)->plan.bytes);
    if (status != BRASA_OK)
        return status;

    s->current = s->programs;
    s->batch = s->options.batch;
    if (s->options.plan_only)
        return BRASA_OK;
    uint32_t stream = 0;
    for (int i = 0; i < s->nstates && status == BRASA_OK; i++)
        if (s->states[i].kind == VALUE_PARAM || s->states[i].kind == VALUE_BUFFER)
            status = session_set_initial(s, &s->states[i], stream++);
    return status == BRASA_OK ? link_all(s) : status;
}

brasa_status brasa_session_new(brasa_graph *g, const brasa_session_options *options, brasa_session **out)
{
    brasa_session_options o;
    if (out)
        *out = NULL;
    if (!g || !out)
        return fail_null(g ? g->ctx : NULL, __func__, "a graph and a place for the session");
    brasa_status status = options_take(g->ctx, &o, sizeof o, options, "brasa_session_options");
    if (status != BRASA_OK)
        return status;
    brasa_session *s = mem_get(g->ctx, sizeof *s);
    if (!s)
        return fail_memory(g->ctx, sizeof *s);
    s->ctx = g->ctx;
    s->pool.ctx = g->ctx;
    s->source = g;
    s->options = o;
    s->options.optimizer = s->options.schedule = s->options.kernels = s->options.freeze = NULL;
    s->options.class_weights = NULL;
    s->options.tuning = NULL;
    s->options.batch = o.batch ? o.batch : 1;
    status = start(s, &o);
    if (status == BRASA_OK)
        *out = s;
    else
        brasa_session_free(s);
    return status;
}

void brasa_session_free(brasa_session *s)
{
    if (!s)
        return;
    while (s->programs) {
        program *next = s->programs->next;
        free_program(s, s->programs);
        s->programs = next;
    }
    free_program(s, s->update);
    tuner_free(s->tuner);
    tensors_put(s->ctx, s->arena);
    tensors_put(s->ctx, s->held);
    mem_put(s->ctx, s->aside);
    session_free_mirror(s);
    mem_put(s->ctx, s->staged);
    pool_free(&s->pool);
    mem_put(s->ctx, s);
}

const char *brasa_session_error(const brasa_session *s)
{
    return s ? s->ctx->error : "there is no session: brasa_graph_error says why brasa_session_new made none";
}

brasa_status brasa_use(brasa_session *s, bool training, int64_t batch)
{
    brasa_status status = brasa_session_prepare(s, training, batch);
    if (status == BRASA_OK) {
        s->current = session_program(s, training, first_size(s, training, batch));
        s->batch = batch;
    }
    return status;
}

/* --- what a session holds ----------------------------------------------------------------------------------- */

int64_t brasa_session_steps(const brasa_session *s)
{
    const state *steps = s ? session_state(s, STEPS_NAME) : NULL;
    return s && s->arena && session_pull(s, steps) == BRASA_OK ? *(const int64_t *)session_state_data(s, steps) : 0;
}

brasa_memory session_memory(const brasa_session *s)
{
    const program *largest = largest_program(s);
    brasa_memory m = {.size = sizeof m,
                      .transient = (uint64_t)s->transient,
                      .activations = (uint64_t)(s->transient - largest->plan.gradients - largest->plan.scratch),
                      .gradients = (uint64_t)largest->plan.gradients,
                      .workspace = (uint64_t)largest->plan.scratch,
                      .lower_bound = (uint64_t)largest->plan.lower_bound,
                      .total = (uint64_t)(s->persistent + s->transient + PLAN_ALIGN)};
    for (int i = 0; i < s->nstates; i++) {
        uint64_t bytes = (uint64_t)plan_align(s->states[i].there);
        m.host_copy += s->ctx->device->host_memory ? 0 : (uint64_t)plan_align(s->states[i].bytes);
        if (s->states[i].kind == VALUE_PARAM)
            m.weights += bytes;
        else if (s->states[i].kind == VALUE_BUFFER)
            m.buffers += bytes;
        else if (s->states[i].kind == VALUE_SUM)
            m.accumulated += bytes;
        else
            m.optimizer += bytes;
    }
    return m;
}

brasa_status brasa_session_memory(const brasa_session *s, brasa_memory *out)
{
    if (!s)
        return BRASA_BAD_ARGUMENT;
    const brasa_memory m = session_memory(s);
    return options_give(s->ctx, out, &m, sizeof m, "brasa_memory");
}

static void forget_times(const program *p)
{
    for (int i = 0; i < p->nsteps; i++)
        p->steps[i].runs = p->steps[i].nanoseconds = p->steps[i].fastest = 0;
}

void brasa_session_profile(brasa_session *s, bool on)
{
    if (!s)
        return;
    s->profile = on;
    for (const program *p = s->programs; on && p; p = p->next)
        forget_times(p);
    if (on && s->update)
        forget_times(s->update);
}
