/* explain_choices.c - kernels that were chosen by their times, and engines of a device's libraries. */
#include "session/explain_parts.h"

#include <math.h>
#include <string.h>

static cell print_nanoseconds(int64_t ns)
{
    const step s = {.runs = 1, .nanoseconds = ns};
    return ns ? print_time(&s) : cell_of("refused");
}

static void explain_choice(sink *o, const program *p, int i)
{
    const graph *g = &p->graph;
    const node *n = &g->nodes[i];
    const choice *c = n->choice;
    int nodes = 0;
    for (int k = 0; k < g->nnodes; k++) {
        if (k < i && g->nodes[k].choice == c)
            return; /* told before */
        nodes += g->nodes[k].choice == c;
    }
    print(o, "%s, %s, %d node%s\n", layer_cell(n).text, shape_print(&g->values[n->out[0]].shape).text, nodes,
          nodes == 1 ? "" : "s");
    for (int k = 0; k < c->count; k++)
        print(o, "  %c %-40s %9s\n", k == c->best ? '*' : ' ', c->tried[k].kernel,
              print_nanoseconds(c->tried[k].nanoseconds).text);
}

/* The choice that a device's kernel made for node i; *nodes: how many share it, 0: one before it told. */
static bool choice_of(const program *p, int i, device_choice *out, int *nodes)
{
    const node *n = &p->graph.nodes[i];
    *nodes = 0;
    if (!n->kernel || !n->kernel->choice || !n->state || !n->kernel->choice(n->state, out))
        return false;
    for (int k = 0; k < p->graph.nnodes; k++) {
        const node *other = &p->graph.nodes[k];
        device_choice c;
        if (other->kernel != n->kernel || !other->state || !other->kernel->choice(other->state, &c) ||
            strcmp(c.problem, out->problem) != 0)
            continue;
        if (k < i) {
            *nodes = 0;
            return true;
        }
        ++*nodes;
    }
    return true;
}

static void explain_way(sink *o, const device_choice *c, int i)
{
    const device_way *w = &c->way[i];
    const cell left_out = w->compiled ? cell_of(", %d more to be compiled", w->compiled) : cell_of("%s", "");
    print(o, "  %c %-22s %2d engine%s%s", i == c->taken ? '*' : ' ', c->name[i], w->engines,
          w->engines == 1 ? "" : "s", left_out.text);
    if (w->timed)
        print(o, ", %d timed, %s, workspace %s", w->timed, print_nanoseconds(w->nanoseconds).text,
              numeric_bytes((double)w->workspace).text);
    print(o, i == c->taken ? ", taken: %s\n" : "%.0s\n", c->engine);
}

static bool asks_libraries(const program *p)
{
    bool asks = false;
    for (int i = 0; i < p->graph.nnodes && !asks; i++)
        asks = p->graph.nodes[i].kernel && p->graph.nodes[i].kernel->choice;
    return asks;
}

/* What the libraries of a device were asked for, and which of their engines won. */
static void explain_engines(sink *o, const program *p)
{
    device_choice c;
    int problems = 0, chosen = 0, nodes;
    for (int i = 0; i < p->graph.nnodes; i++) {
        chosen += choice_of(p, i, &c, &nodes);
        if (!nodes)
            continue;
        problems++;
        print(o, "%s, %d node%s\n", c.problem, nodes, nodes == 1 ? "" : "s");
        for (int k = 0; k < c.ways; k++)
            explain_way(o, &c, k);
    }
    print(o, "%d of %d nodes run on the fastest (*) of a library's engines, %d problems\n", chosen, p->graph.nnodes,
          problems);
}

void explain_tuning(sink *o, const brasa_session *s)
{
    const program *p = s->current;
    int chosen = 0;
    for (int i = 0; i < p->graph.nnodes; i++) {
        if (p->graph.nodes[i].choice)
            explain_choice(o, p, i);
        chosen += p->graph.nodes[i].choice != NULL;
    }
    const bool asked = asks_libraries(p);
    if (asked)
        explain_engines(o, p);
    if (!asked || chosen)
        print(o, "%d of %d nodes run on the fastest (*) of several kernels, reorders that it needs included\n",
              chosen, p->graph.nnodes);
}

void json_choice(json *j, const choice *c)
{
    json_open(j, "tried", '[');
    for (int k = 0; k < c->count; k++) {
        json_open(j, NULL, '{');
        json_text(j, "kernel", c->tried[k].kernel);
        json_real(j, "us", c->tried[k].nanoseconds ? (double)c->tried[k].nanoseconds / 1000 : NAN);
        json_close(j, '}');
    }
    json_close(j, ']');
}

void json_engines(json *j, const program *p)
{
    device_choice c;
    int nodes;
    if (!asks_libraries(p))
        return;
    json_open(j, "engines", '[');
    for (int i = 0; i < p->graph.nnodes; i++) {
        choice_of(p, i, &c, &nodes);
        if (!nodes)
            continue;
        json_open(j, NULL, '{');
        json_text(j, "problem", c.problem);
        json_int(j, "nodes", nodes);
        json_open(j, "ways", '[');
        for (int k = 0; k < c.ways; k++) {
            const device_way *w = &c.way[k];
            json_open(j, NULL, '{');
            json_text(j, "way", c.name[k]);
            json_int(j, "engines", w->engines);
            json_int(j, "compiled", w->compiled);
            json_int(j, "timed", w->timed);
            json_real(j, "us", w->timed ? (double)w->nanoseconds / 1000 : NAN);
            json_int(j, "workspace", w->workspace);
            json_bool(j, "taken", k == c.taken);
            json_text(j, "engine", k == c.taken ? c.engine : NULL);
            json_close(j, '}');
        }
        json_close(j, ']');
        json_close(j, '}');
    }
    json_close(j, ']');
}
