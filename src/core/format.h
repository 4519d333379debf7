/* format.h - how a tensor is stored: its elements as a type, in places that a layout says. */
#ifndef CORE_FORMAT_H
#define CORE_FORMAT_H

#include "core/layout.h"
#include "core/storage.h"

typedef struct format {
    dtype storage;
    layout layout;
} format;

/* In the order of the shape. */
static inline format format_plain(dtype storage)
{
    format f = {storage};
    return f;
}

static inline bool format_equal(const format *a, const format *b)
{
    return a->storage == b->storage && layout_equal(&a->layout, &b->layout);
}

/* Bytes of a tensor, the padding of blocks included. */
static inline int64_t format_bytes(const format *f, const shape *s)
{
    return storage_bytes(f->storage, layout_count(&f->layout, s));
}

#endif
