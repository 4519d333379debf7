/* optimizer.c - from "sgd lr=0.01 momentum=0.9" to update nodes. */
#include "core/nearest.h"
#include "session/session.h"

#include <string.h>

/* The optimizer named by the first word of the text; *rest is what follows it. */
static brasa_status find_optimizer(brasa_session *s, const char *text, const char **rest)
{
    text += strspn(text, " \t");
    size_t length = strcspn(text, " \t");
    *rest = text + length;
    const char *word = pool_text(&s->pool, "%.*s", (int)length, text);
    if (!word)
        return fail_memory(s->ctx, length);
    nearest n = {.word = word};
    for (int i = 0; optimizer_at(i); i++) {
        const optimizer_def *o = optimizer_at(i);
        nearest_offer(&n, o->op->name);
        if (strcmp(o->op->name, word) != 0)
            continue;
        if (o->exists && !o->exists(s->source->dialect))
            return fail(s->ctx, BRASA_NOT_FOUND, "the dialect '%s' has no optimizer '%s'", s->source->dialect->name,
                        word);
        s->optimizer = o;
        return BRASA_OK;
    }
    return fail(s->ctx, BRASA_NOT_FOUND, "there is no optimizer '%s'%s", word, nearest_hint(&n).text);
}

brasa_status optimizer_read(brasa_session *s, const char *optimizer, const char *schedule)
{
    const char *settings;
    brasa_status status = find_optimizer(s, optimizer, &settings);
    if (status != BRASA_OK)
        return status;
    const op_def *op = s->optimizer->op;
    optimizer_attr *attr = pool_get(&s->pool, 1, op->attr_size);
    if (!attr)
        return fail_memory(s->ctx, op->attr_size);
    fields_set_defaults(op->fields, attr);
    op->set_defaults(attr, s->source->dialect);
    const bool has_default = attr->rate > 0;
    if ((status = fields_parse(s->ctx, op->name, op->fields, attr, settings)) != BRASA_OK)
        return status;
    if (attr->rate <= 0 && has_default)
        return fail(s->ctx, BRASA_BAD_ARGUMENT, "%s: lr: expected a number above 0", op->name);
    if (attr->rate <= 0)
        return fail(s->ctx, BRASA_BAD_ARGUMENT,
                    "%s: the dialect '%s' has no default learning rate: give one, as in '%s lr=0.01'", op->name,
                    s->source->dialect->name, op->name);
    s->optimizer_attr = attr;

    fields_set_defaults(schedule_op.fields, &s->schedule);
    if ((status = fields_parse(s->ctx, "schedule", schedule_op.fields, &s->schedule, schedule)) != BRASA_OK)
        return status;
    s->schedule.rate = attr->rate;
    s->schedule.decay = attr->decay;
    return BRASA_OK;
}

/* What the gradients are turned into while autodiff goes on. */
typedef struct updates {
    brasa_session *s;
    graph *to; /* where the updates go: see optimizer_emit */
    int rate;
    int *params, *grads; /* put off to the end: the norm of all gradients comes first */
    int deferred;
} updates;

static void emit_update(updates *u, graph *g, int param, int grad, int scale)
{
    const optimizer_def *o = u->s->optimizer;
    const char *names[MAX_SLOTS];
    int slots = o->slots(u->s->optimizer_attr, names);
    int in[UPDATE_SLOTS + MAX_SLOTS + 1] = {param, grad, u->rate, graph_counter(g)};
    int out[1 + MAX_SLOTS] = {param};
    int nin = UPDATE_SLOTS;
    for (int k = 0; k < slots; k++) {
        const char *name = pool_text(&g->pool, "%s/%s", g->values[param].name, names[k]);
        if (!name) {
            graph_stick(g, fail_memory(g->ctx, 0));
            return;
        }
        shape s = g->values[param].shape;
        in[nin++] = out[1 + k] = graph_value(g, VALUE_SLOT, g->real, &s, name);
    }
    if (scale >= 0)
        in[nin++] = scale;
    int n = emit_into(g, o->op, g->values[param].name, u->s->optimizer_attr, nin, in, 1 + slots, out);
    if (n >= 0)
        g->nodes[n].role = ROLE_UPDATE;
}

/* Keeps a gradient readable. Two parameters may share one (both sides of an add): the second gets a view of it. */
static int keep_gradient(graph *g, int param, int grad)
{
    const char *name = pool_text(&g->pool, "%s.grad", g->values[param].name);
    if (!name) {
        graph_stick(g, fail_memory(g->ctx, 0));
        return -1;
    }
    if (g->values[grad].name) {
        int n = emit_like(g, &view_op, g->values[param].name, NULL, 1, &grad, 1, &param);
        if (n < 0)
            return -1;
        g->nodes[n].role = ROLE_GRADIENT;
        grad = g->nodes[n].out[0];
    }
    g->values[grad].name = name;
    g->values[grad].output = true;
    return grad;
}

static void take_gradient(void *user, graph *g, int param, int grad)
{
    updates *u = user;
    if (g->in_parts) {
        if ((grad = part_gradient(g, u->to, param, grad, &param)) < 0)
            return;
        g = u->to;
    }
    if (u->s->options.keep_gradients && (grad = keep_gradient(g, param, grad)) < 0)
        return;
    if (u->s->options.clip_norm > 0) {
        u->params[u->deferred] = param;
        u->grads[u->deferred++] = grad;
    } else {
        emit_update(u, g, param, grad, -1);
    }
}

static void emit_clipped(updates *u, graph *g)
{
    clip_attr attr = {.limit = u->s->options.clip_norm, .form = g->dialect->clip};
    int n = emit(g, &clip_scale_op, "clip", &attr, u->deferred, u->grads);
    if (n < 0)
        return;
    g->nodes[n].role = ROLE_UPDATE;
    int scale = g->nodes[n].out[0];
    for (int i = 0; i < u->deferred; i++)
        emit_update(u, g, u->params[i], u->grads[i], scale);
}

/* The rate of the step. */
static int emit_rate(const brasa_session *s, graph *g)
{
    const int counter = graph_counter(g);
    int n = emit(g, &schedule_op, "rate", &s->schedule, 1, &counter);
    if (n < 0)
        return -1;
    g->nodes[n].role = ROLE_UPDATE;
    return g->nodes[n].out[0];
}

brasa_status optimizer_emit(brasa_session *s, graph *g, graph *to, int64_t batch)
{
    size_t most = (size_t)g->nvalues + 1;
    updates u = {.s = s,
                 .to = to,
                 .rate = to ? emit_rate(s, to) : -1,
                 .params = pool_get(&g->pool, most, sizeof *u.params),
                 .grads = pool_get(&g->pool, most, sizeof *u.grads)};
    if (!u.params || !u.grads)
        return fail_memory(s->ctx, most * sizeof *u.params);
    brasa_status status = g->in_parts ? part_begin(g, batch) : g->status;
    if (status == BRASA_OK)
        status = pass_autodiff(g, take_gradient, &u);
    if (status != BRASA_OK)
        return status;
    if (g->in_parts)
        part_outputs(g, to, batch);
    if (!to || to->status != BRASA_OK)
        return to ? to->status : g->status;
    if (u.deferred)
        emit_clipped(&u, to);
    const int counter = graph_counter(to);
    int n = emit_into(to, &count_step_op, "steps", NULL, 1, &counter, 1, &counter);
    if (n >= 0)
        to->nodes[n].role = ROLE_UPDATE;
    return to->status != BRASA_OK ? to->status : g->status;
}
