/* explain.c - what a program does, node by node: as a table for people, as JSON for programs. */
#include "session/explain_parts.h"
#include "train/settings.h"

#include <math.h>
#include <string.h>

static const char *const role_names[] = {
    [ROLE_FORWARD] = "forward", [ROLE_GRADIENT] = "gradient", [ROLE_UPDATE] = "update"};
static const step *step_of(const program *p, const node *n)
{
    for (int i = 0; i < p->nsteps; i++)
        if (p->steps[i].node == n)
            return &p->steps[i];
    return NULL;
}

static bool persistent(const value *v)
{
    return v->state >= 0;
}

/* "nChw16c", or "OIhw16i16o" for weights; "nhwc-bf16" where what is stored is not the logical type. */
static layout_text print_layout(const value *v)
{
    layout_text t = layout_print(&v->format.layout, v->shape.rank, persistent(v) ? "oihw" : "nchw");
    const size_t used = strlen(t.text);
    if (v->format.storage != v->type)
        snprintf(t.text + used, sizeof t.text - used, "-%s", dtype_name(v->format.storage));
    return t;
}

/* How numbers are computed: "f64", or as the precision says. */
static const char *type_name(const brasa_session *s)
{
    return s->options.float64 ? dtype_name(F64) : precision_word(s->options.precision);
}

/* Reorders of a step: of weights and what is added to them, or of anything else. */
typedef struct reorders {
    int count;
    int64_t bytes;
} reorders;

static reorders count_reorders(const graph *g, bool of_weights)
{
    reorders r = {0};
    for (int i = 0; i < g->nnodes; i++) {
        const node *n = &g->nodes[i];
        if (n->op != &reorder_op || (persistent(&g->values[n->in[0]]) || n->role == ROLE_UPDATE) != of_weights)
            continue;
        r.count++;
        r.bytes += g->values[n->out[0]].bytes;
    }
    return r;
}

/* --- the table, at most WIDTH columns wide ---------------------------------------------------------------------- */

enum { WIDTH = 100 };

/* Where output 0 is; behind '=' where it is written over an input, behind '<' where it is part of a larger tensor. */
static cell offset_cell(const program *p, int i)
{
    const value *out = &p->graph.values[p->graph.nodes[i].out[0]];
    if (persistent(out))
        return cell_of("state");
    return cell_of("%s%lld", p->plan.in_place[i] ? "=" : out->whole >= 0 ? "<" : "", (long long)out->offset);
}

/* The widest cell of each column, so that columns fit what is in them. */
typedef struct widths {
    int layer, shape, kernel, layout, offset;
    bool times;
} widths;

static void widen(int *width, const char *text)
{
    if ((int)strlen(text) > *width)
        *width = (int)strlen(text);
}

static widths measure(const program *p)
{
    const graph *g = &p->graph;
    widths w = {8, 6, 6, 6, 6, false};
    for (int i = 0; i < g->nnodes; i++) {
        const value *out = &g->values[g->nodes[i].out[0]];
        const step *s = step_of(p, &g->nodes[i]);
        widen(&w.layer, layer_cell(&g->nodes[i]).text);
        widen(&w.shape, shape_print(&out->shape).text);
        widen(&w.kernel, kernel_cell(s).text);
        widen(&w.layout, print_layout(out).text);
        widen(&w.offset, offset_cell(p, i).text);
        w.times = w.times || (s && s->runs);
    }
    int others = 6 + 2 + w.shape + 2 + w.kernel + 1 + w.layout + 1 + 7 + 1 + w.offset + (w.times ? 17 : 0);
    if (w.layer > WIDTH - others)
        w.layer = WIDTH - others > 8 ? WIDTH - others : 8;
    return w;
}

static void explain_node(sink *o, const program *p, const widths *w, int i)
{
    const graph *g = &p->graph;
    const node *n = &g->nodes[i];
    const value *out = &g->values[n->out[0]];
    const step *s = step_of(p, n);
    const cell layer = layer_cell(n);
    const bool folded = (int)strlen(layer.text) > w->layer; /* then the rest has a line of its own */
    print(o, "%4d  ", i + 1);
    print(o, folded ? "%s\n%6s" : "%s%s", layer.text, "");
    print(o, "%*s  %-*s  %-*s %-*s %7s %*s", folded ? w->layer : w->layer - (int)strlen(layer.text), "", w->shape,
          shape_print(&out->shape).text, w->kernel, kernel_cell(s).text, w->layout, print_layout(out).text,
          numeric_bytes((double)out->bytes).text, w->offset, offset_cell(p, i).text);
    if (s && s->runs && s->nanoseconds)
        print(o, " %8s %7.2f", print_time(s).text, flops_of(g, n) * (double)s->runs / (double)s->nanoseconds);
    print(o, "\n");
}

static void explain_text(sink *o, const brasa_session *s)
{
    const program *p = s->current;
    const graph *g = &p->graph;
    widths w = measure(p);
    print(o, "%s, batch %lld, %s, %s, dialect %s\n", p->training ? "training" : "evaluation", (long long)p->batch,
          type_name(s), s->ctx->device->where, g->dialect->name);
    print(o, "step  %-*s  %-*s  %-*s %-*s %7s %*s%s\n", w.layer, "op layer", w.shape, "output", w.kernel, "kernel",
          w.layout, "layout", "bytes", w.offset, "offset", w.times ? "     time GFLOP/s" : "");
    node_role role = ROLE_FORWARD;
    for (int i = 0; i < g->nnodes; i++) {
        if (i && g->nodes[i].role == ROLE_GRADIENT && role == ROLE_FORWARD)
            print(o, "      gradients and updates\n");
        if (g->nodes[i].role == ROLE_GRADIENT)
            role = ROLE_GRADIENT;
        explain_node(o, p, &w, i);
    }
    const brasa_memory m = session_memory(s);
    print(o, "memory %s: weights %s, buffers %s, optimizer %s, activations, gradients %s",
          numeric_bytes((double)m.total).text, numeric_bytes((double)m.weights).text,
          numeric_bytes((double)m.buffers).text, numeric_bytes((double)m.optimizer).text,
          numeric_bytes((double)p->plan.bytes).text);
    if (m.accumulated)
        print(o, ", gradients accumulated over micro-batches %s", numeric_bytes((double)m.accumulated).text);
    print(o, "\n");
    const node *peak = p->plan.peak_node < g->nnodes ? &g->nodes[p->plan.peak_node] : NULL;
    print(o, "peak at step %d (%s%s%s), lower bound %s\n", p->plan.peak_node + 1, peak ? peak->op->name : "end",
          peak ? " " : "", peak ? peak->name : "", numeric_bytes((double)p->plan.lower_bound).text);
    const reorders moved = count_reorders(g, false), weights = count_reorders(g, true);
    print(o, "reorders: %d of activations, %s; %d of weights, %s\n", moved.count,
          numeric_bytes((double)moved.bytes).text, weights.count, numeric_bytes((double)weights.bytes).text);
    if (s->tuner->open)
        print(o, "kernels: %d nodes could run on others, which were not timed here yet\n", s->tuner->open);
    print(o, "offsets are those of output 0; '=': written over an input, '<': into its place in a concat\n");
}

/* --- JSON ------------------------------------------------------------------------------------------------------ */

static void json_value(json *j, const brasa_session *s, const value *v)
{
    json_open(j, NULL, '{');
    json_text(j, "name", v->name);
    json_open(j, "shape", '[');
    for (int d = 0; d < v->shape.rank; d++)
        json_int(j, NULL, v->shape.dim[d]);
    json_close(j, ']');
    json_text(j, "type", dtype_name(v->format.storage));
    json_text(j, "layout", print_layout(v).text);
    json_text(j, "memory", persistent(v) ? "state" : "transient");
    json_int(j, "offset", persistent(v) ? s->state_offset[v->state] : v->offset);
    json_int(j, "bytes", v->bytes);
    if (v->whole >= 0)
        json_int(j, "part_of", s->current->graph.values[v->whole].offset);
    json_close(j, '}');
}

static void json_node(json *j, const brasa_session *s, const program *p, int i)
{
    const graph *g = &p->graph;
    const node *n = &g->nodes[i];
    const step *st = step_of(p, n);
    json_open(j, NULL, '{');
    json_int(j, "step", i + 1);
    json_text(j, "op", n->op->name);
    json_text(j, "layer", n->name);
    json_text(j, "role", role_names[n->role]);
    json_text(j, "activation", n->act == ACT_NONE ? NULL : act_names[n->act] + 1);
    json_text(j, "kernel", st ? n->kernel->name : NULL);
    if (n->choice)
        json_choice(j, n->choice);
    json_text(j, "layout", print_layout(&g->values[n->out[0]]).text);
    json_bool(j, "in_place", p->plan.in_place[i]);
    json_int(j, "offset",
             persistent(&g->values[n->out[0]]) ? s->state_offset[g->values[n->out[0]].state]
                                               : g->values[n->out[0]].offset);
    json_int(j, "bytes", g->values[n->out[0]].bytes);
    if (n->op->fields && n->attr) {
        json_open(j, "settings", '{');
        fields_to_json(j, n->op->fields, n->attr);
        json_close(j, '}');
    }
    json_open(j, "inputs", '[');
    for (int k = 0; k < n->nin; k++)
        json_value(j, s, &g->values[n->in[k]]);
    json_close(j, ']');
    json_open(j, "outputs", '[');
    for (int k = 0; k < n->nout; k++)
        json_value(j, s, &g->values[n->out[k]]);
    json_close(j, ']');
    json_real(j, "flops", flops_of(g, n));
    json_int(j, "traffic_bytes", traffic_of(g, n));
    if (st && st->runs) {
        json_int(j, "runs", st->runs);
        json_real(j, "mean_us", (double)st->nanoseconds / (double)st->runs / 1000);
        json_real(j, "min_us", (double)st->fastest / 1000);
    }
    json_close(j, '}');
}

static void json_reorders(json *j, const char *key, reorders r)
{
    json_open(j, key, '{');
    json_int(j, "count", r.count);
    json_int(j, "bytes", r.bytes);
    json_close(j, '}');
}

static void explain_json(sink *o, const brasa_session *s)
{
    const program *p = s->current;
    json j = {.write = o->write, .user = o->user};
    const brasa_memory m = session_memory(s);
    json_open(&j, NULL, '{');
    json_text(&j, "mode", p->training ? "training" : "evaluation");
    json_int(&j, "batch", p->batch);
    json_text(&j, "type", type_name(s));
    json_int(&j, "threads", s->ctx->threads);
    json_text(&j, "device", s->ctx->device->name);
    json_text(&j, "dialect", p->graph.dialect->name);
    json_text(&j, "optimizer", p->training ? s->optimizer->op->name : NULL);
    json_open(&j, "memory", '{');
    json_int(&j, "total", (int64_t)m.total);
    json_int(&j, "weights", (int64_t)m.weights);
    json_int(&j, "buffers", (int64_t)m.buffers);
    json_int(&j, "optimizer", (int64_t)m.optimizer);
    json_int(&j, "sums", (int64_t)m.accumulated);
    json_int(&j, "transient", p->plan.bytes);
    json_int(&j, "lower_bound", p->plan.lower_bound);
    json_int(&j, "peak_step", p->plan.peak_node + 1);
    json_close(&j, '}');
    json_open(&j, "reorders", '{');
    json_reorders(&j, "activations", count_reorders(&p->graph, false));
    json_reorders(&j, "weights", count_reorders(&p->graph, true));
    json_close(&j, '}');
    json_open(&j, "nodes", '[');
    for (int i = 0; i < p->graph.nnodes; i++)
        json_node(&j, s, p, i);
    json_close(&j, ']');
    json_engines(&j, p);
    json_close(&j, '}');
    o->failed = j.failed;
}

brasa_status brasa_session_explain(brasa_session *s, int32_t form,
                                   bool (*write)(void *user, const char *text, size_t length), void *user)
{
    if (!s || !write)
        return fail_null(s ? s->ctx : NULL, __func__, "a session and a function that writes");
    sink o = {write, user, false};
    if (form < BRASA_EXPLAIN_TEXT || form > BRASA_EXPLAIN_PROFILE)
        return fail(s->ctx, BRASA_BAD_ARGUMENT,
                    "format: expected BRASA_EXPLAIN_TEXT, _JSON, _TUNING or _PROFILE, got %d", (int)form);
    if (form == BRASA_EXPLAIN_JSON)
        explain_json(&o, s);
    else if (form == BRASA_EXPLAIN_TUNING)
        explain_tuning(&o, s);
    else if (form == BRASA_EXPLAIN_PROFILE)
        explain_profile(&o, s);
    else
        explain_text(&o, s);
    return o.failed ? fail(s->ctx, BRASA_BAD_FILE, "the explanation could not be written") : BRASA_OK;
}
