/* state.c - what lasts from step to step: weights, buffers, slots of optimizers, the counter of steps. All
 * programs of a session share it, in the layouts that the first one chose. */
#include "core/random.h"
#include "session/session.h"
#include "session/walk.h"

#include <math.h>
#include <string.h>

static int find_state(const brasa_session *s, const char *name)
{
    for (int i = 0; i < s->nstates; i++)
        if (strcmp(s->states[i].name, name) == 0)
            return i;
    return -1;
}

const state *session_state(const brasa_session *s, const char *name)
{
    int i = find_state(s, name);
    return i < 0 ? NULL : &s->states[i];
}

void *session_value_data(const brasa_session *s, const value *v)
{
    return v->state >= 0 ? s->arena + s->state_offset[v->state] : s->arena + s->persistent + v->offset;
}

brasa_status session_add_state(brasa_session *s, const value *v, dtype type)
{
    state *grown = pool_grow(&s->pool, s->states, s->nstates, &s->state_capacity, sizeof *grown);
    const char *name = pool_text(&s->pool, "%s", v->name);
    if (!grown || !name)
        return fail_memory(s->ctx, sizeof *grown);
    s->states = grown;
    s->states[s->nstates++] = (state){
        .name = name,
        .kind = v->kind,
        .type = type,
        .shape = v->shape,
        .stored = v->shape,
        .format = format_plain(type),
        .start = v->start,
        .bytes = shape_count(&v->shape) * (int64_t)dtype_size(type),
        .there = shape_count(&v->shape) * (int64_t)dtype_size(type),
    };
    return BRASA_OK;
}

/* A slot has the shape that the user knows its parameter by ("fc1.weight/momentum"). */
static void name_shape(const brasa_session *s, state *slot)
{
    const size_t length = strcspn(slot->name, "/");
    for (int i = 0; i < s->nstates; i++)
        if (strlen(s->states[i].name) == length && memcmp(s->states[i].name, slot->name, length) == 0)
            slot->shape = s->states[i].shape;
}

/* An input lies in all programs as in the first one. */
static void bind_input(const brasa_session *s, value *x)
{
    const program *first = session_first(s);
    const int v = first ? graph_find(&first->graph, x->name) : -1;
    if (v < 0)
        return;
    x->format = first->graph.values[v].format;
    x->settled = true;
}

brasa_status session_bind_states(brasa_session *s, graph *g)
{
    for (int v = 0; v < g->nvalues; v++) {
        value *x = &g->values[v];
        if (x->kind == VALUE_INPUT)
            bind_input(s, x);
        if (x->kind == VALUE_TEMP || x->kind == VALUE_INPUT)
            continue;
        x->state = find_state(s, x->name);
        if (x->state < 0 && s->state_offset)
            return fail(s->ctx, BRASA_INTERNAL, "the state '%s' appeared after the plan was made", x->name);
        if (x->state < 0) {
            brasa_status status = session_add_state(s, x, x->type);
            if (status != BRASA_OK)
                return status;
            x->state = s->nstates - 1;
            name_shape(s, &s->states[x->state]);
        }
        if (s->states[x->state].settled) { /* what the first program chose holds for all */
            x->format = s->states[x->state].format;
            x->settled = true;
        }
    }
    return BRASA_OK;
}

void session_keep_formats(brasa_session *s, const graph *g)
{
    for (int v = 0; v < g->nvalues; v++) {
        state *st = g->values[v].state < 0 ? NULL : &s->states[g->values[v].state];
        if (!st || st->settled)
            continue;
        st->settled = true;
        st->format = g->values[v].format;
        st->stored = g->values[v].shape;
        st->bytes = storage_bytes(st->type, layout_count(&st->format.layout, &st->stored));
        st->there = format_bytes(&st->format, &st->stored);
    }
}

typedef struct drawing {
    const initializer *start;
    random_stream random;
} drawing;

static void draw(const walk *w, int64_t i, int64_t at)
{
    const initializer *start = ((const drawing *)w->user)->start;
    random_stream r = ((const drawing *)w->user)->random;
    double x = start->a;
    if (start->form == START_UNIFORM)
        x = random_uniform(&r, (uint64_t)i, start->a, start->b);
    if (start->form == START_NORMAL || start->form == START_TRUNCATED) {
        double n = random_normal(&r, (uint64_t)i);
        for (; start->form == START_TRUNCATED && fabs(n) >= 2; n = random_normal(&r, (uint64_t)i))
            r.step++; /* what is cut off is drawn again, from the next step of the stream */
        x += start->b * n;
    }
    walk_store(w, at, x);
}

brasa_status session_set_initial(brasa_session *s, const state *st, uint32_t stream)
{
    const drawing from = {
        .start = &st->start,
        .random = {.seed = s->options.seed, .purpose = RANDOM_WEIGHTS, .stream = stream},
    };
    walk w = {
        .shape = &st->stored, .each = draw, .stored = session_state_data(s, st), .type = st->type, .user = &from};
    brasa_status status = walk_through(s->ctx, &w, &st->format.layout);
    return status == BRASA_OK ? session_push(s, st) : status;
}

brasa_status session_lay_out_state(brasa_session *s)
{
    s->state_offset = pool_get(&s->pool, (size_t)s->nstates + 1, sizeof *s->state_offset);
    if (!s->state_offset)
        return fail_memory(s->ctx, (size_t)s->nstates * sizeof *s->state_offset);
    for (int i = 0; i < s->nstates; i++) {
        s->state_offset[i] = s->persistent;
        s->persistent += plan_align(s->states[i].there);
    }
    return BRASA_OK;
}
