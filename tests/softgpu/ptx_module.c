/* ptx_module.c - looks through a module for its kernels and its memory: see ptx.h. */
#define _GNU_SOURCE
#include "ptx_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Comments become blanks: lines stay what they are. */
static void blank_comments(char *s)
{
    for (; *s; s++)
        if (s[0] == '/' && s[1] == '/')
            for (; *s && *s != '\n'; s++)
                *s = ' ';
}

/* To behind the } of the next {. */
static void skip_body(text *t)
{
    int depth = 0;
    do {
        const token got = take(t);
        if (got.n == 0)
            wrong(t, "the text ends within a body");
        depth += is(got, "{") - is(got, "}");
    } while (!t->failed && depth > 0);
}

static bool add_kernel(ptx_module *m, text *t)
{
    const token name = take(t);
    ptx_kernel *k = calloc(1, sizeof *k);
    if (!k || !(k->name = strndup(name.s, (size_t)name.n))) {
        free(k);
        return false;
    }
    k->module = m;
    k->from = t->at;
    while (!t->failed && !is(peek(t), "{") && t->at < t->end)
        take(t);
    skip_body(t);
    k->next = m->kernels;
    m->kernels = k;
    return true;
}

/* = {1, 2, 3}, of `size` bytes each. */
static void read_values(text *t, char *to, int64_t bytes, int size)
{
    int64_t at = 0, value = 0;
    expect(t, "{");
    do {
        if (!number(take(t), &value) || at + size > bytes)
            wrong(t, "values that are not understood");
        else
            memcpy(to + at, &value, (size_t)size);
        at += size;
    } while (take_if(t, ","));
    expect(t, "}");
}

static bool add_memory(ptx_module *m, text *t, memory_space space)
{
    int64_t align = 1, bytes = 0;
    text ahead = *t;
    while (!ahead.failed && !begins(peek(&ahead), ".b") && !begins(peek(&ahead), ".u") &&
           !begins(peek(&ahead), ".f") && !begins(peek(&ahead), ".s") && ahead.at < ahead.end)
        take(&ahead);
    const int size = type_bytes(peek(&ahead));
    const token name = declared(t, &align, &bytes);
    ptx_symbol *more = realloc(m->globals, ((size_t)m->nglobals + 1) * sizeof *more);
    if (!more)
        return false;
    m->globals = more;
    ptx_symbol *s = &m->globals[m->nglobals];
    *s = (ptx_symbol){.space = (uint8_t)space, .bytes = bytes};
    if (!(s->name = strndup(name.s, (size_t)name.n)))
        return false;
    m->nglobals++;
    if (space == SHARED) {
        s->at = bytes ? aligned(m->shared, align) : DYNAMIC_SHARED;
        m->shared = bytes ? s->at + bytes : m->shared;
    } else {
        char *block = calloc(1, (size_t)bytes + 1);
        if (!block)
            return false;
        s->at = (int64_t)(intptr_t)block;
        if (take_if(t, "="))
            read_values(t, block, bytes, size);
    }
    expect(t, ";");
    return true;
}

ptx_module *ptx_open(char *words, char *why, size_t size)
{
    ptx_module *m = calloc(1, sizeof *m);
    if (!m) {
        free(words);
        return NULL;
    }
    m->text = words;
    blank_comments(words);
    text t = text_of(m, words, why, size);
    bool memory = true;
    while (memory && !t.failed && peek(&t).n) {
        const token got = take(&t);
        if (is(got, ".entry"))
            memory = add_kernel(m, &t);
        else if (is(got, ".global"))
            memory = add_memory(m, &t, GLOBAL);
        else if (is(got, ".shared"))
            memory = add_memory(m, &t, SHARED);
        else if (is(got, "{")) { /* of a function: read where it is called */
            t.at = got.s;
            skip_body(&t);
        }
    }
    if (memory && !t.failed)
        return m;
    if (!memory)
        snprintf(why, size, "there is no memory to read it");
    ptx_close(m);
    return NULL;
}

void ptx_close(ptx_module *m)
{
    if (!m)
        return;
    for (ptx_kernel *k = m->kernels, *next; k; k = next) {
        next = k->next;
        free(k->name);
        free(k->code);
        free(k->constants);
        free(k);
    }
    for (int i = 0; i < m->nglobals; i++) {
        if (m->globals[i].space == GLOBAL)
            free((void *)(intptr_t)m->globals[i].at);
        free(m->globals[i].name);
    }
    free(m->globals);
    free(m->text);
    free(m);
}

ptx_kernel *ptx_find(ptx_module *m, const char *name)
{
    ptx_kernel *k = m->kernels;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    return k;
}
