/* run.c - steps: data in, one program run, results out. */
#include "train/session.h"
#include "train/walk.h"

#include <string.h>

/* What the caller sees of a value: its elements, without the padding of a layout. */
static int64_t plain_bytes(const value *v)
{
    return shape_count(&v->shape) * (int64_t)dtype_size(v->type);
}

static brasa_status check_bytes(const brasa_session *s, const value *v, size_t bytes)
{
    if ((uint64_t)plain_bytes(v) == bytes)
        return BRASA_OK;
    return fail(s->ctx, BRASA_BAD_SHAPE, "'%s' is %s %s: %lld bytes, got %zu", v->name, shape_print(&v->shape).text,
                dtype_name(v->type), (long long)plain_bytes(v), bytes);
}

static brasa_status check_labels(const brasa_session *s, const value *v, const int32_t *labels)
{
    for (int64_t i = 0; i < v->shape.dim[0]; i++)
        if (labels[i] < 0 || labels[i] >= v->classes)
            return fail(s->ctx, BRASA_BAD_ARGUMENT,
                        "'%s': sample %lld has the label %d, but there are %d classes (0 to %d)", v->name,
                        (long long)i, (int)labels[i], v->classes, v->classes - 1);
    return BRASA_OK;
}

brasa_status brasa_feed(brasa_session *s, const char *input, const void *data, size_t bytes)
{
    program *p = s->current;
    int id = graph_find(&p->graph, input);
    if (id < 0 || p->graph.values[id].kind != VALUE_INPUT)
        return fail(s->ctx, BRASA_NOT_FOUND, "the network has no input '%s'", input);
    const value *v = &p->graph.values[id];
    brasa_status status = session_check_memory(s);
    if (status == BRASA_OK)
        status = check_bytes(s, v, bytes);
    if (status == BRASA_OK && v->classes)
        status = check_labels(s, v, data);
    if (status != BRASA_OK)
        return status;
    if (s->fed != p) { /* what it was fed before, another program has written over */
        memset(p->fed, 0, (size_t)p->graph.nvalues * sizeof *p->fed);
        s->fed = p;
    }
    s->ran = NULL;                                 /* an input may lie where an output of the last step lay */
    memcpy(session_value_data(s, v), data, bytes); /* inputs are plain: select never settles them otherwise */
    p->fed[id] = true;
    return BRASA_OK;
}

static brasa_status run(brasa_session *s, bool training)
{
    program *p = s->current;
    if (p->training != training)
        return fail(s->ctx, BRASA_WRONG_STATE, "the current program is for %s: call brasa_use first",
                    p->training ? "training" : "evaluation");
    for (int v = 0; v < p->graph.nvalues; v++)
        if (p->needed[v] && (s->fed != p || !p->fed[v]))
            return fail(s->ctx, BRASA_WRONG_STATE, "the input '%s' was not fed since the last step",
                        p->graph.values[v].name);
    s->fed = s->ran = NULL;
    brasa_status status = s->profile ? program_run_profiled(p) : program_run(p);
    if (status == BRASA_OK)
        s->ran = p;
    return status;
}

brasa_status brasa_train(brasa_session *s)
{
    return run(s, true);
}

brasa_status brasa_evaluate(brasa_session *s)
{
    return run(s, false);
}

brasa_status brasa_fetch(brasa_session *s, const char *output, void *data, size_t bytes)
{
    const graph *g = &s->current->graph;
    int id = graph_find(g, output);
    if (id < 0 && strcmp(output, "loss") == 0)
        id = g->loss; /* which may have a name of its own */
    if (id < 0 || !g->values[id].output)
        return fail(s->ctx, BRASA_NOT_FOUND, "this program has no output '%s'", output);
    const value *v = &g->values[id];
    brasa_status status = check_bytes(s, v, bytes);
    if (status != BRASA_OK)
        return status;
    if (s->ran != s->current)
        return fail(s->ctx, BRASA_WRONG_STATE, "'%s' is there after a step, and until the next feed or step", output);
    const void *from = session_value_data(s, v);
    if (layout_plain(&v->layout)) {
        memcpy(data, from, bytes);
        return BRASA_OK;
    }
    walk w = {.shape = &v->shape,
              .each = walk_copy_out,
              .stored = (void *)from,
              .type = v->type,
              .plain = data,
              .plain_type = v->type};
    return walk_through(s->ctx, &w, &v->layout);
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
            status = brasa_feed(s, v->name, data[i], (size_t)plain_bytes(v));
    }
    return status;
}

static brasa_status fetch_scalar(brasa_session *s, const char *name, float *out)
{
    return out ? brasa_fetch(s, name, out, sizeof *out) : BRASA_OK;
}

static brasa_status check_float(brasa_session *s)
{
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
