/* explain.c - what a program does, node by node: as a table for people, as JSON for programs. */
#include "core/json.h"
#include "train/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct sink {
    bool (*write)(void *user, const char *text, size_t length);
    void *user;
    bool failed;
} sink;

static void print(sink *o, const char *format, ...) BRASA_PRINTF(2, 3);
static void print(sink *o, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length >= (int)sizeof text)
        length = (int)sizeof text - 1;
    if (length > 0 && !o->failed && !o->write(o->user, text, (size_t)length))
        o->failed = true;
}

typedef struct quantity {
    char text[32];
} quantity;

static quantity print_bytes(int64_t bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    double amount = (double)bytes;
    int unit = 0;
    for (; amount >= 999.5 && unit < 5; unit++)
        amount /= 1000;
    quantity q;
    snprintf(q.text, sizeof q.text, amount < 99.95 && unit ? "%.1f %s" : "%.0f %s", amount, units[unit]);
    return q;
}

static quantity print_time(const step *s)
{
    quantity q = {""};
    if (s && s->runs) {
        double us = (double)s->nanoseconds / (double)s->runs / 1000;
        snprintf(q.text, sizeof q.text, us < 1000 ? "%.1f us" : "%.2f ms", us < 1000 ? us : us / 1000);
    }
    return q;
}

static const char *const role_names[] = {
    [ROLE_FORWARD] = "forward", [ROLE_GRADIENT] = "gradient", [ROLE_UPDATE] = "update"};
static const char *const act_names[] = {[ACT_NONE] = "", [ACT_RELU] = "+relu", [ACT_RELU6] = "+relu6"};

static const step *step_of(const program *p, const node *n)
{
    for (int i = 0; i < p->nsteps; i++)
        if (p->steps[i].node == n)
            return &p->steps[i];
    return NULL;
}

static double flops_of(const graph *g, const node *n)
{
    if (n->op->cost)
        return n->op->cost(g, n).flops;
    return n->op->view ? 0 : (double)shape_count(&g->values[n->out[0]].shape);
}

/* All a node reads and writes. */
static int64_t traffic_of(const graph *g, const node *n)
{
    int64_t bytes = 0;
    for (int k = 0; k < n->nin; k++)
        bytes += g->values[n->in[k]].bytes;
    for (int k = 0; k < n->nout; k++)
        bytes += g->values[n->out[k]].bytes;
    return bytes;
}

static bool persistent(const value *v)
{
    return v->state >= 0;
}

/* "nChw16c", or "OIhw16i16o" for weights. */
static layout_text print_layout(const value *v)
{
    return layout_print(&v->layout, v->shape.rank, persistent(v) ? "oihw" : "nchw");
}

/* The widest name, shape and kernel, so that the columns fit what is in them. */
typedef struct widths {
    int op, name, shape, kernel;
    bool times;
} widths;

static void widen(int *width, size_t length)
{
    if ((int)length > *width)
        *width = (int)length;
}

static widths measure(const program *p)
{
    const graph *g = &p->graph;
    widths w = {2, 5, 6, 6, false};
    for (int i = 0; i < g->nnodes; i++) {
        const node *n = &g->nodes[i];
        const step *s = step_of(p, n);
        widen(&w.op, strlen(n->op->name) + strlen(act_names[n->act]));
        widen(&w.name, strlen(n->name));
        widen(&w.shape, strlen(shape_print(&g->values[n->out[0]].shape).text));
        widen(&w.kernel, s ? strlen(n->kernel->name) : 4);
        w.times = w.times || (s && s->runs);
    }
    return w;
}

static void explain_node(sink *o, const program *p, const widths *w, int i)
{
    const graph *g = &p->graph;
    const node *n = &g->nodes[i];
    const value *out = &g->values[n->out[0]];
    const step *s = step_of(p, n);
    char op[96], offset[32];
    snprintf(op, sizeof op, "%s%s", n->op->name, act_names[n->act]);
    snprintf(offset, sizeof offset, persistent(out) ? "state" : "%lld", (long long)out->offset);
    print(o, "%4d  %-*s  %-*s  %-*s  %-*s  %-7s %10s %12s%s", i + 1, w->op, op, w->name, n->name, w->shape,
          shape_print(&out->shape).text, w->kernel, s ? n->kernel->name : "view", print_layout(out).text,
          print_bytes(out->bytes).text, offset, p->plan.in_place[i] ? " =" : "  ");
    if (w->times) {
        double gflops = s && s->nanoseconds ? flops_of(g, n) * (double)s->runs / (double)s->nanoseconds : 0;
        print(o, " %10s %8.2f", print_time(s).text, gflops);
    }
    print(o, "\n");
}

static void explain_text(sink *o, const brasa_session *s)
{
    const program *p = s->current;
    const graph *g = &p->graph;
    widths w = measure(p);
    print(o, "%s, batch %lld, %s, %d thread%s, dialect %s\n", p->training ? "training" : "evaluation",
          (long long)p->batch, dtype_name(g->real), s->ctx->threads, s->ctx->threads == 1 ? "" : "s",
          g->dialect->name);
    print(o, "step  %-*s  %-*s  %-*s  %-*s  %-7s %10s %12s  %s\n", w.op, "op", w.name, "layer", w.shape, "output",
          w.kernel, "kernel", "layout", "bytes", "offset", w.times ? "       time  GFLOP/s" : "");
    node_role role = ROLE_FORWARD;
    for (int i = 0; i < g->nnodes; i++) {
        if (i && g->nodes[i].role == ROLE_GRADIENT && role == ROLE_FORWARD)
            print(o, "      gradients and updates\n");
        if (g->nodes[i].role == ROLE_GRADIENT)
            role = ROLE_GRADIENT;
        explain_node(o, p, &w, i);
    }
    brasa_memory m;
    brasa_session_memory(s, &m);
    print(o, "memory %s: weights %s, buffers %s, optimizer %s, activations and gradients %s\n",
          print_bytes((int64_t)m.total).text, print_bytes((int64_t)m.weights).text,
          print_bytes((int64_t)m.buffers).text, print_bytes((int64_t)m.optimizer).text,
          print_bytes(p->plan.bytes).text);
    const node *peak = p->plan.peak_node < g->nnodes ? &g->nodes[p->plan.peak_node] : NULL;
    print(o, "peak at step %d (%s %s), lower bound %s; '=' marks an output written over its input\n",
          p->plan.peak_node + 1, peak ? peak->op->name : "end", peak ? peak->name : "",
          print_bytes(p->plan.lower_bound).text);
}

static void json_value(json *j, const brasa_session *s, const value *v)
{
    json_open(j, NULL, '{');
    json_text(j, "name", v->name);
    json_open(j, "shape", '[');
    for (int d = 0; d < v->shape.rank; d++)
        json_int(j, NULL, v->shape.dim[d]);
    json_close(j, ']');
    json_text(j, "type", dtype_name(v->type));
    json_text(j, "layout", print_layout(v).text);
    json_text(j, "memory", persistent(v) ? "state" : "transient");
    json_int(j, "offset", persistent(v) ? s->state_offset[v->state] : v->offset);
    json_int(j, "bytes", v->bytes);
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

static void explain_json(sink *o, const brasa_session *s)
{
    const program *p = s->current;
    json j = {.write = o->write, .user = o->user};
    brasa_memory m;
    brasa_session_memory(s, &m);
    json_open(&j, NULL, '{');
    json_text(&j, "mode", p->training ? "training" : "evaluation");
    json_int(&j, "batch", p->batch);
    json_text(&j, "type", dtype_name(p->graph.real));
    json_int(&j, "threads", s->ctx->threads);
    json_text(&j, "dialect", p->graph.dialect->name);
    json_text(&j, "optimizer", p->training ? s->optimizer->op->name : NULL);
    json_open(&j, "memory", '{');
    json_int(&j, "total", (int64_t)m.total);
    json_int(&j, "weights", (int64_t)m.weights);
    json_int(&j, "buffers", (int64_t)m.buffers);
    json_int(&j, "optimizer", (int64_t)m.optimizer);
    json_int(&j, "transient", p->plan.bytes);
    json_int(&j, "lower_bound", p->plan.lower_bound);
    json_int(&j, "peak_step", p->plan.peak_node + 1);
    json_close(&j, '}');
    json_open(&j, "nodes", '[');
    for (int i = 0; i < p->graph.nnodes; i++)
        json_node(&j, s, p, i);
    json_close(&j, ']');
    json_close(&j, '}');
    o->failed = j.failed;
}

brasa_status brasa_session_explain(brasa_session *s, int32_t format,
                                   bool (*write)(void *user, const char *text, size_t length), void *user)
{
    sink o = {write, user, false};
    if (format == BRASA_EXPLAIN_JSON)
        explain_json(&o, s);
    else
        explain_text(&o, s);
    return o.failed ? fail(s->ctx, BRASA_BAD_FILE, "the explanation could not be written") : BRASA_OK;
}
