/* walk.h - through the elements of a tensor in the order of its shape, whatever its layout: how numbers come into a
 * session and out of it. Not for steps; there a planned node does it.
 */
#ifndef SESSION_WALK_H
#define SESSION_WALK_H

#include "core/context.h"
#include "core/format.h"

/* A tensor as rows of equal length: the last axes, as many as make no more than some thousand elements, and at least
 * one. Where the elements of a row lie is the same for all, but for where it begins. */
typedef struct walk_rows {
    int outer; /* axes before those of a row */
    int64_t length;
    bool straight;        /* the elements of a row lie one after the other */
    const int64_t *table; /* layout_table_fill's, then the places of a row's elements */
} walk_rows;

typedef struct walk {
    const shape *shape;
    void (*each)(const struct walk *w, int64_t i, int64_t at); /* called for element i, stored at `at` */
    void *stored;                                              /* the tensor; not SPLIT_F32 */
    dtype type;
    void *plain; /* the other side of a copy, from element `first` on */
    dtype plain_type;
    int64_t first;
    const void *user; /* for an `each` that is not below */
    walk_rows rows;   /* walk_through sees to it, before walk_range the caller does */
} walk;

/* For `each`. */
void walk_copy_in(const walk *w, int64_t i, int64_t at);
void walk_copy_out(const walk *w, int64_t i, int64_t at);

/* Writes one number. */
void walk_store(const walk *w, int64_t at, double x);

/* Entries of a table for tensors of this shape; and the rows of one, with the table filled. */
int64_t walk_table_size(const shape *s);
walk_rows walk_rows_of(const layout *l, const shape *s, int64_t *table);

/* All elements, split over the threads. */
brasa_status walk_through(brasa_context *ctx, walk *w, const layout *l);
/* `count` of them, from `first` on, likewise. */
void walk_some(const brasa_context *ctx, walk *w, int64_t count);
/* Elements begin to end - 1; `user` is the walk. */
void walk_range(void *user, int64_t begin, int64_t end);

#endif
