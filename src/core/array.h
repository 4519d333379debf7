/* array.h - data of the caller: a brasa_array checked, and its elements read.
 *
 * A view may stand for its elements in another order: array_move_axis makes N H W C be read as N C H W.
 */
#ifndef CORE_ARRAY_H
#define CORE_ARRAY_H

#include "core/context.h"
#include "core/shape.h"

/* An array whose strides are filled in. Borrows the array's memory. */
typedef struct array_view {
    const char *data;
    int type; /* BRASA_TYPE_F32, ... */
    int rank;
    int64_t dim[MAX_RANK], stride[MAX_RANK]; /* strides in elements */
} array_view;

/* Bytes of an element; 0: there is no such type. */
size_t array_type_size(int type);
/* Elements of one entry of the first axis. */
int64_t array_each(const array_view *v);

/* Checks an array: type, shape, memory, and strides, by which no two elements may share a place. `what` names it in
 * the error. An array on a device is not looked at beyond that: its reader asks for a->device. */
brasa_status array_view_of(brasa_context *ctx, const char *what, const brasa_array *a, array_view *out);
/* Reads axis `from` as axis `to`; the axes between them move up or down. */
void array_move_axis(array_view *v, int from, int to);
/* Copies entries first ... first + count - 1 of the first axis into `out`, dense, as elements of `type`: the view's
 * own, or BRASA_TYPE_F32, _F64 or _I64. The view's memory must be the host's. */
void array_read(const array_view *v, int64_t first, int64_t count, int type, void *out);

#endif
