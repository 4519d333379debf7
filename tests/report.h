/* report.h - for tests of pages: a sink that keeps what it gets, and may fail. */
#ifndef TEST_REPORT_H
#define TEST_REPORT_H

#include "test.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kept {
    char *text;
    size_t used, room;
    int calls, fail_at; /* the call that fails, from 1; 0: none */
} kept;

static inline bool keep(void *user, const char *text, size_t length)
{
    kept *k = user;
    if (++k->calls == k->fail_at)
        return false;
    if (k->used + length + 1 > k->room) {
        k->room = 2 * (k->used + length + 1);
        k->text = realloc(k->text, k->room);
        if (!k->text)
            exit(1);
    }
    memcpy(k->text + k->used, text, length);
    k->used += length;
    k->text[k->used] = '\0';
    return true;
}

static inline int times(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

static inline void drop(kept *k)
{
    free(k->text);
    *k = (kept){0};
}

OWNER(kept, *x, drop(x))

static inline kept *anew(kept *k)
{
    drop(k);
    return k;
}

/* Also into the folder that BRASA_PAGES names, as name.html. */
static inline void save(const char *name, const kept *k)
{
    const char *folder = getenv("BRASA_PAGES");
    char path[500];
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/%s.html", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(k->text, 1, k->used, f) != k->used || fclose(f) != 0)
        perror(path);
}

#endif
