/* explain_parts.h - what the files that explain a session share: texts for people, and figures of nodes. */
#ifndef SESSION_EXPLAIN_PARTS_H
#define SESSION_EXPLAIN_PARTS_H

#include "device/device.h"
#include "core/json.h"
#include "core/numeric.h"
#include "session/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct sink {
    bool (*write)(void *user, const char *text, size_t length);
    void *user;
    bool failed;
} sink;

/* vsnprintf with a point in every number; returns the length of what stands there, cut or not. */
static inline size_t format_text(char *text, size_t size, const char *pattern, va_list args)
{
    const numeric_state locale = numeric_enter();
    int length = vsnprintf(text, size, pattern, args);
    numeric_leave(locale);
    return length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

static inline void print(sink *o, const char *pattern, ...) BRASA_PRINTF(2, 3);
static inline void print(sink *o, const char *pattern, ...)
{
    char text[512];
    va_list args;
    va_start(args, pattern);
    size_t length = format_text(text, sizeof text, pattern, args);
    va_end(args);
    if (length > 0 && !o->failed && !o->write(o->user, text, length))
        o->failed = true;
}

/* What stands in a column. */
typedef struct cell {
    char text[192];
} cell;

static inline cell cell_of(const char *pattern, ...) BRASA_PRINTF(1, 2);
static inline cell cell_of(const char *pattern, ...)
{
    cell c = {""};
    va_list args;
    va_start(args, pattern);
    format_text(c.text, sizeof c.text, pattern, args);
    va_end(args);
    return c;
}

static inline cell print_time(const step *s)
{
    if (!s || !s->runs)
        return cell_of("%s", "");
    double us = (double)s->nanoseconds / (double)s->runs / 1000;
    return us < 999.95 ? cell_of("%.1f us", us) : cell_of("%.*f ms", us < 99950 ? 2 : 0, us / 1000);
}

/* By activation. */
static const char *const act_names[] = {[ACT_NONE] = "", [ACT_RELU] = "+relu", [ACT_RELU6] = "+relu6"};

static inline cell layer_cell(const node *n)
{
    return cell_of("%s%s %s", n->op->name, act_names[n->act], n->name);
}

/* Is this one of the words of "conv2d_grad_data"? */
static inline bool has_word(const char *name, const char *word, size_t length)
{
    for (;;) {
        size_t part = strcspn(name, "_");
        if (part == length && memcmp(name, word, length) == 0)
            return true;
        if (!name[part])
            return false;
        name += part + 1;
    }
}

/* A kernel's name without the op's words before it, which the column to the left has: "ref". */
static inline cell kernel_cell(const step *s)
{
    const char *name = s ? s->kernel->name : "view";
    for (size_t length; s && name[length = strcspn(name, "_")] && has_word(s->node->op->name, name, length);)
        name += length + 1;
    return cell_of("%s", name);
}

static inline double flops_of(const graph *g, const node *n)
{
    if (n->op->cost)
        return n->op->cost(g, n).flops;
    return n->op->view ? 0 : (double)shape_count(&g->values[n->out[0]].shape);
}

/* All a node reads and writes. */
static inline int64_t traffic_of(const graph *g, const node *n)
{
    int64_t bytes = 0;
    for (int k = 0; k < n->nin; k++)
        bytes += g->values[n->in[k]].bytes;
    for (int k = 0; k < n->nout; k++)
        bytes += g->values[n->out[k]].bytes;
    return bytes;
}

/* --- explain_choices.c: kernels and engines that were chosen by their times ------------------------------------- */

void explain_tuning(sink *o, const brasa_session *s);
/* The member "tried". */
void json_choice(json *j, const choice *c);
/* The member "engines": what a device's libraries were asked for, and which of their engines won. */
void json_engines(json *j, const program *p);

/* --- explain_profile.c: where the time went --------------------------------------------------------------------- */

/* The steps that were profiled, by kernel and by node, the slowest first. */
void explain_profile(sink *o, const brasa_session *s);

#endif
