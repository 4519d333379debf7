/* lab_export_parts.h - where the writers of lab_export.h put their text. */
#ifndef LAB_LAB_EXPORT_PARTS_H
#define LAB_LAB_EXPORT_PARTS_H

#include "lab/lab_export.h"

#include <string.h>

typedef struct out {
    export_sink write;
    void *user;
    bool failed;
} out;

static inline void put(out *o, const char *text, size_t length)
{
    o->failed = o->failed || (length && !o->write(o->user, text, length));
}

static inline void put_text(out *o, const char *text)
{
    put(o, text, strlen(text));
}

#endif
