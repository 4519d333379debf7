/* reorder.c - the same tensor in another layout. Placed by select where a kernel reads another layout than the one
 * that its input is written in; no network asks for it. */
#include "ops/op.h"

#ifdef REAL

/* item: an element stored, padding included */
static void NAME(clear_range)(const step *s, int64_t begin, int64_t end)
{
    REAL *dst = s->out[0].data;
    for (int64_t i = begin; i < end; i++)
        dst[i] = 0;
}

/* Any layout to any other; item: an image, that is an index of the outermost axis */
static void NAME(reorder_range)(const step *s, int64_t begin, int64_t end)
{
    const arg *from = &s->in[0], *to = &s->out[0];
    const REAL *src = from->data;
    REAL *dst = to->data;
    const shape *whole = &to->shape;
    shape one = *whole;
    one.dim[0] = 1;
    for (int64_t n = begin; n < end; n++) {
        int64_t index[MAX_RANK] = {0}, at[MAX_RANK];
        do {
            memcpy(at, index, sizeof at);
            at[0] = n;
            dst[layout_offset(&to->layout, whole, at)] = src[layout_offset(&from->layout, whole, at)];
        } while (index_next(&one, index));
    }
}

/* Everything first becomes zero, for the padding of blocks, which may reach over images. */
static brasa_status NAME(reorder)(const step *s)
{
    const double count = (double)s->out[0].count;
    step_for(s, s->out[0].count, count, NAME(clear_range));
    step_for(s, s->out[0].shape.dim[0], count * 10, NAME(reorder_range)); /* two offsets an element */
    return BRASA_OK;
}

#else

#include <string.h>

#define REAL_SOURCE "ops/reorder/reorder.c"
#include "ops/real.h"

const op_def reorder_op = {.name = "reorder"};

const op_def *const reorder_parts[] = {&reorder_op, NULL};
const kernel reorder_ref[] = {REFERENCE(reorder_op, reorder), {0}};

#endif
