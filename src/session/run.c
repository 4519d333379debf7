/* run.c - the step: data in, the loop over the nodes of a program, results out; and parameters, in and out. */
#include "device/device.h"
#include "core/threads.h"
#include "ops/reorder/reorder.h"
#include "session/session.h"
#include "session/walk.h"

#include <string.h>

/* What the caller sees of a value: of the whole batch, and without the padding of a layout. */
shape session_shape(const brasa_session *s, const value *v)
{
    shape whole = v->shape;
    if (v->batched)
        whole.dim[0] = s->batch;
    return whole;
}

static int64_t plain_bytes(const brasa_session *s, const value *v)
{
    const shape whole = session_shape(s, v);
    return shape_count(&whole) * (int64_t)dtype_size(v->type);
}

static brasa_status check_bytes(const brasa_session *s, const value *v, int64_t expected, size_t bytes)
{
    const shape whole = session_shape(s, v);
    if ((uint64_t)expected == bytes)
        return BRASA_OK;
    return fail(s->ctx, BRASA_BAD_SHAPE, "'%s' is %s %s: %lld bytes, got %zu", v->name, shape_print(&whole).text,
                dtype_name(v->type), (long long)expected, bytes);
}

static brasa_status check_labels(const brasa_session *s, const value *v, const int32_t *labels)
{
    for (int64_t i = 0; i < s->batch; i++)
        if (labels[i] < 0 || labels[i] >= v->classes)
            return fail(s->ctx, BRASA_BAD_ARGUMENT,
                        "'%s': sample %lld has the label %d, but there are %d classes (0 to %d)", v->name,
                        (long long)i, (int)labels[i], v->classes, v->classes - 1);
    return BRASA_OK;
}

/* Samples on their way into an input. */
typedef struct moving {
    const value *v;
    const float *from; /* plain */
    float *to;
} moving;

static void move_part(const layout_part *p, const float *from, float *to)
{
    const layout_loop x = p->loops ? p->loop[p->loops - 1] : (layout_loop){1, 1, 1};
    const int64_t rows = p->count / x.count;
    reorder_cursor at = reorder_start(p, p->loops - 1, 0);
    for (int64_t row = 0; row < rows; row++, reorder_next(p, p->loops - 1, &at))
        for (int64_t i = 0; i < x.count; i++)
            to[at.dst + i * x.dst] = from[at.src + i * x.src];
}

static void move_samples(void *user, int64_t begin, int64_t end)
{
    const moving *m = user;
    const layout plain = {0}, *l = &m->v->format.layout;
    shape one = m->v->shape;
    layout_part p;
    one.dim[0] = 1;
    const int64_t count = shape_count(&one), stored = layout_count(l, &one);
    if (stored > count) /* padding, which is zero */
        memset(m->to + begin * stored, 0, (size_t)((end - begin) * stored) * sizeof *m->to);
    for (int64_t n = begin; n < end; n++)
        for (int i = 0; layout_part_at(&plain, l, &one, i, &p); i++)
            move_part(&p, m->from + n * count, m->to + n * stored);
}

/* The samples of a program into its input: as they lie there already, or from the plain order. On the way to memory
 * that is not the host's they are ordered here first. */
static brasa_status put(brasa_session *s, const value *v, const void *from, bool stored)
{
    void *to = session_value_data(s, v);
    if (stored || layout_plain(&v->format.layout))
        return device_copy_in(s->ctx, to, from, (size_t)v->bytes);
    const bool here = s->ctx->device->host_memory;
    if (!here && s->staged_bytes < v->bytes) {
        mem_put(s->ctx, s->staged);
        s->staged = mem_get(s->ctx, (size_t)v->bytes);
        s->staged_bytes = s->staged ? v->bytes : 0;
        if (!s->staged)
            return fail_memory(s->ctx, (size_t)v->bytes);
    }
    moving m = {v, from, here ? to : s->staged};
    threads_for(s->ctx->threads, v->shape.dim[0], move_samples, &m);
    return here ? BRASA_OK : device_copy_in(s->ctx, to, s->staged, (size_t)v->bytes);
}

static brasa_status feed(brasa_session *s, const char *input, const void *data, size_t bytes, bool stored)
{
    if (!s || !input || !data)
        return fail_null(s ? s->ctx : NULL, "brasa_feed", "a session, the name of an input, and data");
    program *p = s->current;
    int id = graph_find(&p->graph, input);
    if (id < 0 || p->graph.values[id].kind != VALUE_INPUT)
        return fail(s->ctx, BRASA_NOT_FOUND, "the network has no input '%s'", input);
    const value *v = &p->graph.values[id];
    const shape whole = session_shape(s, v);
    const int64_t as_stored = layout_count(&v->format.layout, &whole) * (int64_t)dtype_size(v->type);
    brasa_status status = session_check_memory(s);
    if (status == BRASA_OK)
        status = check_bytes(s, v, stored ? as_stored : plain_bytes(s, v), bytes);
    if (status == BRASA_OK && v->classes)
        status = check_labels(s, v, data);
    if (status != BRASA_OK)
        return status;
    if (s->fed != p) { /* what it was fed before, another program has written over */
        memset(p->fed, 0, (size_t)p->graph.nvalues * sizeof *p->fed);
        s->fed = p;
    }
    s->ran = NULL; /* an input may lie where an output of the last step lay */
    p->from[id] = data;
    p->stored[id] = stored;
    if (!p->graph.in_parts)
        status = put(s, v, data, stored);
    p->fed[id] = status == BRASA_OK;
    return status;
}

brasa_status brasa_feed(brasa_session *s, const char *input, const void *data, size_t bytes)
{
    return feed(s, input, data, bytes, false);
}

brasa_status session_feed(brasa_session *s, const char *input, const void *data, size_t bytes)
{
    return feed(s, input, data, bytes, true);
}

/* The inputs of the current program on their way to where they are held, or back. */
static brasa_status move_held(brasa_session *s, char *held, bool back, int64_t *total)
{
    const program *p = s->current;
    brasa_status status = BRASA_OK;
    *total = 0;
    for (int i = 0; i < p->graph.nvalues && status == BRASA_OK; i++) {
        const value *v = &p->graph.values[i];
        if (!p->needed[i])
            continue;
        char *at = held + *total, *input = session_value_data(s, v);
        *total += (v->bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
        if (held)
            status = tensors_copy(s->ctx, back ? input : at, back ? at : input, (size_t)v->bytes);
    }
    return status;
}

brasa_status session_hold(brasa_session *s)
{
    int64_t bytes = 0;
    brasa_status status = move_held(s, NULL, false, &bytes);
    tensors_put(s->ctx, s->held);
    s->held = status == BRASA_OK ? tensors_get(s->ctx, (size_t)bytes) : NULL;
    if (!s->held)
        return fail_memory(s->ctx, (size_t)bytes);
    return move_held(s, s->held, false, &bytes);
}

brasa_status session_feed_held(brasa_session *s)
{
    int64_t bytes;
    program *p = s->current;
    memcpy(p->fed, p->needed, (size_t)p->graph.nvalues * sizeof *p->fed);
    s->fed = p;
    s->ran = NULL;
    return move_held(s, s->held, true, &bytes);
}

brasa_status session_wait(brasa_session *s)
{
    device *d = s->ctx->device;
    return d->wait(d);
}

layout session_input_layout(const brasa_session *s, const char *input)
{
    const graph *g = &session_first(s)->graph;
    const int v = graph_find(g, input);
    return v < 0 ? (layout){0} : g->values[v].format.layout;
}

brasa_status program_run(program *p)
{
    device *d = p->graph.ctx->device;
    threads_state saved;
    if (d->run)
        return d->run(d, p->steps, p->nsteps, &p->record);
    brasa_status status = threads_enter(p->graph.ctx, p->threads, &saved);
    if (status != BRASA_OK)
        return status;
    for (int i = 0; i < p->nsteps && status == BRASA_OK; i++)
        status = p->steps[i].kernel->run(&p->steps[i]);
    threads_leave(saved, p->threads);
    return status;
}

/* The inputs of a part, whose first sample is number `first` of the batch. Programs of all sizes have the same inputs
 * at the same places: they are lowered from one graph. */
static brasa_status take_part(brasa_session *s, const program *p, const program *fed, int64_t first)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; i < p->graph.nvalues && status == BRASA_OK; i++) {
        const value *v = &p->graph.values[i];
        if (!p->needed[i])
            continue;
        const int64_t plain = shape_count(&v->shape) * (int64_t)dtype_size(v->type);
        const int64_t sample = (fed->stored[i] ? v->bytes : plain) / p->batch;
        status = put(s, v, (const char *)fed->from[i] + first * sample, fed->stored[i]);
    }
    return status;
}

static brasa_status run_with(const brasa_session *s, program *p, program_runner *run, void *user)
{
    return run ? run(p, user) : s->profile ? program_run_profiled(p) : program_run(p);
}

/* A step of a batch in parts; the program of the last one is smaller where they do not come out even. */
static brasa_status run_parts(brasa_session *s, program *first, program_runner *run, void *user)
{
    const state *st = session_state(s, SAMPLES_NAME);
    int64_t *samples = session_state_data(s, st);
    brasa_status status = BRASA_OK;
    for (*samples = 0; *samples < s->batch && status == BRASA_OK;) {
        const int64_t left = s->batch - *samples;
        program *p = left < first->batch ? session_program(s, true, left) : first;
        status = session_push(s, st);
        if (status == BRASA_OK)
            status = take_part(s, p, first, *samples);
        if (status == BRASA_OK)
            status = run_with(s, p, run, user);
        *samples += p->batch;
    }
    return status == BRASA_OK ? run_with(s, s->update, run, user) : status;
}

/* The program that holds the results of a step with the current one. */
program *session_last(const brasa_session *s)
{
    return s->current->graph.in_parts ? s->update : s->current;
}

/* Whether the current program is for this mode and has all its inputs. */
static brasa_status check_step(const brasa_session *s, bool training)
{
    const program *p = s->current;
    brasa_status status = session_check_memory(s);
    if (status == BRASA_OK && p->training != training)
        status = fail(s->ctx, BRASA_WRONG_STATE, "the current program is for %s: call brasa_use first",
                      p->training ? "training" : "evaluation");
    for (int v = 0; v < p->graph.nvalues && status == BRASA_OK; v++)
        if (p->needed[v] && (s->fed != p || !p->fed[v]))
            status = fail(s->ctx, BRASA_WRONG_STATE, "the input '%s' was not fed since the last step",
                          p->graph.values[v].name);
    return status;
}

brasa_status session_step(brasa_session *s, bool training, program_runner *run, void *user)
{
    if (!s)
        return BRASA_BAD_ARGUMENT;
    program *p = s->current;
    brasa_status status = check_step(s, training);
    if (status != BRASA_OK)
        return status;
    s->fed = s->ran = NULL;
    if (p->graph.in_parts)
        status = run_parts(s, p, run, user);
    else if (run || s->profile)
        status = run_with(s, p, run, user);
    else
        status = program_run(p);
    if (status == BRASA_OK)
        s->ran = session_last(s);
    return status;
}

brasa_status brasa_train(brasa_session *s)
{
    return session_step(s, true, NULL, NULL);
}

brasa_status brasa_evaluate(brasa_session *s)
{
    return session_step(s, false, NULL, NULL);
}

/* The output of the last step that has this name. */
static brasa_status find_output(brasa_session *s, const char *output, size_t bytes, const value **out)
{
    const program *last = session_last(s);
    const graph *g = &last->graph;
    int id = graph_find(g, output);
    if (id < 0 && strcmp(output, "loss") == 0)
        id = g->loss; /* which may have a name of its own */
    if ((id < 0 || !g->values[id].output) && last != s->current && graph_find(&s->current->graph, output) >= 0)
        return fail(s->ctx, BRASA_NOT_FOUND, "'%s' cannot be read: with micro-batches only scalars are kept", output);
    if (id < 0 || !g->values[id].output)
        return fail(s->ctx, BRASA_NOT_FOUND, "this program has no output '%s'", output);
    const value *v = *out = &g->values[id];
    brasa_status status = check_bytes(s, v, plain_bytes(s, v), bytes);
    status = status == BRASA_OK ? session_check_memory(s) : status;
    if (status != BRASA_OK)
        return status;
    if (s->ran != last)
        return fail(s->ctx, BRASA_WRONG_STATE, "'%s' is there after a step, and until the next feed or step", output);
    return BRASA_OK;
}

brasa_status brasa_fetch(brasa_session *s, const char *output, void *data, size_t bytes)
{
    const value *v = NULL;
    if (!s || !output || !data)
        return fail_null(s ? s->ctx : NULL, __func__, "a session, the name of an output, and a place for it");
    brasa_status status = find_output(s, output, bytes, &v);
    if (status != BRASA_OK)
        return status;
    if (layout_plain(&v->format.layout) && v->format.storage == v->type)
        return device_copy_out(s->ctx, data, session_value_data(s, v), bytes);
    const bool here = s->ctx->device->host_memory;
    void *copy = here ? NULL : mem_get(s->ctx, (size_t)v->bytes);
    if (!here && !copy)
        return fail_memory(s->ctx, (size_t)v->bytes);
    if (copy)
        status = device_copy_out(s->ctx, copy, session_value_data(s, v), (size_t)v->bytes);
    walk w = {.shape = &v->shape,
              .each = walk_copy_out,
              .stored = copy ? copy : session_value_data(s, v),
              .type = v->format.storage,
              .plain = data,
              .plain_type = v->type};
    if (status == BRASA_OK)
        status = walk_through(s->ctx, &w, &v->format.layout);
    mem_put(s->ctx, copy);
    return status;
}

brasa_status session_fetch_async(brasa_session *s, const char *output, float *to, int64_t count, dtype *type)
{
    device *d = s->ctx->device;
    const value *v = NULL;
    const size_t bytes = (size_t)count * sizeof *to;
    brasa_status status = find_output(s, output, bytes, &v);
    if (status != BRASA_OK)
        return status;
    *type = F32;
    if (!layout_plain(&v->format.layout))
        return brasa_fetch(s, output, to, bytes);
    *type = v->format.storage;
    return d->copy_async(d, STREAM_COMPUTE, to, session_value_data(s, v), (size_t)count * dtype_size(*type));
}

/* Feeds a network with one input of pictures and at most one of labels. */
static brasa_status feed_both(brasa_session *s, const float *images, const int32_t *labels)
{
    const program *p = s->current;
    int input[2] = {-1, -1}, count[2] = {0, 0}; /* pictures, labels */
    for (int v = 0; v < p->graph.nvalues; v++) {
        if (!p->needed[v])
            continue;
        const int which = p->graph.values[v].classes > 0;
        input[which] = v;
        count[which]++;
    }
    if (count[0] != 1 || count[1] > 1)
        return fail(s->ctx, BRASA_WRONG_STATE,
                    "the network has %d inputs of numbers and %d of labels: feed each with brasa_feed", count[0],
                    count[1]);
    if (!images || (count[1] && !labels))
        return fail(s->ctx, BRASA_BAD_ARGUMENT, "no %s were given", images ? "labels" : "images");
    const void *data[2] = {images, labels};
    brasa_status status = BRASA_OK;
    for (int i = 0; i < 2 && status == BRASA_OK; i++) {
        const value *v = count[i] ? &p->graph.values[input[i]] : NULL;
        if (v)
            status = brasa_feed(s, v->name, data[i], (size_t)plain_bytes(s, v));
    }
    return status;
}

static brasa_status fetch_scalar(brasa_session *s, const char *name, float *out)
{
    return out ? brasa_fetch(s, name, out, sizeof *out) : BRASA_OK;
}

static brasa_status check_float(brasa_session *s)
{
    if (!s)
        return BRASA_BAD_ARGUMENT;
    if (s->options.float64)
        return fail(s->ctx, BRASA_WRONG_STATE, "a float64 session is fed with brasa_feed");
    return BRASA_OK;
}

brasa_status brasa_train_step(brasa_session *s, const float *images, const int32_t *labels, float *loss)
{
    brasa_status status = check_float(s);
    if (status == BRASA_OK)
        status = brasa_use(s, true, s->options.batch);
    if (status == BRASA_OK)
        status = feed_both(s, images, labels);
    if (status == BRASA_OK)
        status = brasa_train(s);
    return status == BRASA_OK ? fetch_scalar(s, "loss", loss) : status;
}

brasa_status brasa_eval_step(brasa_session *s, const float *images, const int32_t *labels, int64_t batch, float *loss,
                             float *accuracy)
{
    brasa_status status = check_float(s);
    if (status == BRASA_OK)
        status = brasa_use(s, false, batch);
    if (status == BRASA_OK)
        status = feed_both(s, images, labels);
    if (status == BRASA_OK)
        status = brasa_evaluate(s);
    if (status == BRASA_OK)
        status = fetch_scalar(s, "loss", loss);
    return status == BRASA_OK ? fetch_scalar(s, "accuracy", accuracy) : status;
}

/* --- parameters ------------------------------------------------------------------------------------------- */

static brasa_status find_real(brasa_session *s, const char *name, const float *data, int64_t count, const state **out)
{
    if (!s || !name || !data)
        return fail_null(s ? s->ctx : NULL, "brasa_param_get and _set",
                         "a session, the name of a parameter, and data");
    brasa_status status = session_check_memory(s);
    if (status != BRASA_OK)
        return status;
    const state *st = session_state(s, name);
    if (!st || st->kind == VALUE_COUNTER || st->kind == VALUE_SUM)
        return fail(s->ctx, BRASA_NOT_FOUND, "there is no parameter '%s'", name);
    if (shape_count(&st->shape) != count)
        return fail(s->ctx, BRASA_BAD_SHAPE, "'%s' is %s: %lld elements, got %lld", name,
                    shape_print(&st->shape).text, (long long)shape_count(&st->shape), (long long)count);
    *out = st;
    return BRASA_OK;
}

brasa_status brasa_param_get(brasa_session *s, const char *name, float *data, int64_t count)
{
    const state *st = NULL;
    brasa_status status = find_real(s, name, data, count, &st);
    if (status == BRASA_OK)
        status = session_pull(s, st);
    if (status != BRASA_OK)
        return status;
    walk w = {.shape = &st->stored,
              .each = walk_copy_out,
              .stored = session_state_data(s, st),
              .type = st->type,
              .plain = data,
              .plain_type = F32};
    return walk_through(s->ctx, &w, &st->format.layout);
}

brasa_status brasa_param_set(brasa_session *s, const char *name, const float *data, int64_t count)
{
    const state *st = NULL;
    brasa_status status = find_real(s, name, data, count, &st);
    if (status != BRASA_OK)
        return status;
    walk w = {.shape = &st->stored,
              .each = walk_copy_in,
              .stored = session_state_data(s, st),
              .type = st->type,
              .plain = (void *)data,
              .plain_type = F32};
    status = walk_through(s->ctx, &w, &st->format.layout);
    return status == BRASA_OK ? session_push(s, st) : status;
}
