/* array.c - see array.h. */
#include "core/array.h"

#include <string.h>

static const int64_t MOST = INT64_C(1) << 60; /* bytes between an array's first and last element */

size_t array_type_size(int type)
{
    static const unsigned char sizes[] = {
        [BRASA_TYPE_F32] = 4, [BRASA_TYPE_F64] = 8, [BRASA_TYPE_BF16] = 2,
        [BRASA_TYPE_I32] = 4, [BRASA_TYPE_I64] = 8, [BRASA_TYPE_U8] = 1,
    };
    return type >= 0 && (size_t)type < sizeof sizes ? sizes[type] : 0;
}

int64_t array_each(const array_view *v)
{
    int64_t count = 1;
    for (int i = 1; i < v->rank; i++)
        count *= v->dim[i];
    return count;
}

/* --- checks -------------------------------------------------------------------------------------------------- */

/* The axis with the smallest stride of those not yet taken that have several entries; -1: none is left. */
static int next_axis(const array_view *v, unsigned taken)
{
    int best = -1;
    for (int i = 0; i < v->rank; i++)
        if (v->dim[i] > 1 && !(taken >> i & 1) && (best < 0 || v->stride[i] < v->stride[best]))
            best = i;
    return best;
}

/* Taken from the smallest stride on, each axis must step over all that the ones before it span. */
static brasa_status check_strides(brasa_context *ctx, const char *what, const array_view *v)
{
    const int64_t most = MOST / (int64_t)array_type_size(v->type);
    int64_t span = 1; /* elements from the first to the last one */
    unsigned taken = 0;
    for (int i; (i = next_axis(v, taken)) >= 0; taken |= 1u << i) {
        if (v->stride[i] < span)
            return fail(ctx, BRASA_BAD_SHAPE,
                        "%s: stride %lld of axis %d: elements overlap, expected a stride of at least %lld", what,
                        (long long)v->stride[i], i, (long long)span);
        if (v->stride[i] > (most - span) / (v->dim[i] - 1))
            return fail(ctx, BRASA_BAD_SHAPE, "%s: stride %lld of axis %d: larger than any memory", what,
                        (long long)v->stride[i], i);
        span += v->stride[i] * (v->dim[i] - 1);
    }
    return BRASA_OK;
}

static brasa_status check_shape(brasa_context *ctx, const char *what, const brasa_array *a)
{
    if (a->rank < 0 || a->rank > MAX_RANK)
        return fail(ctx, BRASA_BAD_SHAPE, "%s: rank: expected 0 to %d, got %d", what, MAX_RANK, (int)a->rank);
    shape s = {.rank = a->rank};
    for (int i = 0; i < a->rank; i++)
        if ((s.dim[i] = a->shape[i]) < 1)
            return fail(ctx, BRASA_BAD_SHAPE, "%s: axis %d: expected at least 1 entry, got %lld", what, i,
                        (long long)a->shape[i]);
    return shape_count(&s) > 0 ? BRASA_OK : fail(ctx, BRASA_BAD_SHAPE, "%s: more elements than any memory", what);
}

brasa_status array_view_of(brasa_context *ctx, const char *what, const brasa_array *a, array_view *out)
{
    const size_t size = array_type_size(a->type);
    if (!a->data)
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s: data is NULL", what);
    brasa_status status = check_shape(ctx, what, a);
    if (status != BRASA_OK)
        return status;
    if (!size)
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s: type: expected BRASA_TYPE_F32 or another one, got %d", what,
                    (int)a->type);
    if ((uintptr_t)a->data % size)
        return fail(ctx, BRASA_BAD_ARGUMENT, "%s: data is not aligned to the %zu bytes of an element", what, size);
    *out = (array_view){.data = a->data, .type = a->type, .rank = a->rank};
    bool dense = true;
    for (int i = 0; i < a->rank; i++)
        dense = dense && a->strides[i] == 0;
    for (int64_t i = a->rank - 1, stride = 1; i >= 0; stride *= a->shape[i--]) {
        out->dim[i] = a->shape[i];
        out->stride[i] = dense ? stride : a->strides[i];
    }
    return check_strides(ctx, what, out);
}

void array_move_axis(array_view *v, int from, int to)
{
    const int64_t dim = v->dim[from], stride = v->stride[from];
    for (const int step = from < to ? 1 : -1; from != to; from += step) {
        v->dim[from] = v->dim[from + step];
        v->stride[from] = v->stride[from + step];
    }
    v->dim[to] = dim;
    v->stride[to] = stride;
}

/* --- reading ------------------------------------------------------------------------------------------------- */

static float bf16_float(uint16_t upper)
{
    const uint32_t bits = (uint32_t)upper << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Elements that are only moved, whatever their type. */
typedef uint16_t __attribute__((may_alias)) moved_2;
typedef uint32_t __attribute__((may_alias)) moved_4;
typedef uint64_t __attribute__((may_alias)) moved_8;

#define AS_IT_IS(x) (x)
#define COPY(from_type, load, to_type)                                                                               \
    do {                                                                                                             \
        const from_type *from = (const void *)data;                                                                  \
        to_type *to = out;                                                                                           \
        for (int64_t i = 0; i < count; i++)                                                                          \
            to[i] = (to_type)load(from[i * stride]);                                                                 \
    } while (0)
#define COPY_FROM(from_type, load)                                                                                   \
    do {                                                                                                             \
        if (type == BRASA_TYPE_F32)                                                                                  \
            COPY(from_type, load, float);                                                                            \
        else if (type == BRASA_TYPE_F64)                                                                             \
            COPY(from_type, load, double);                                                                           \
        else                                                                                                         \
            COPY(from_type, load, int64_t);                                                                          \
    } while (0)

static void convert_row(const char *data, int stored, int64_t stride, int64_t count, int type, void *out)
{
    if (stored == BRASA_TYPE_F32)
        COPY_FROM(float, AS_IT_IS);
    else if (stored == BRASA_TYPE_F64)
        COPY_FROM(double, AS_IT_IS);
    else if (stored == BRASA_TYPE_BF16)
        COPY_FROM(uint16_t, bf16_float);
    else if (stored == BRASA_TYPE_I32)
        COPY_FROM(int32_t, AS_IT_IS);
    else if (stored == BRASA_TYPE_I64)
        COPY_FROM(int64_t, AS_IT_IS);
    else
        COPY_FROM(unsigned char, AS_IT_IS);
}

static void copy_row(const char *data, size_t size, int64_t stride, int64_t count, void *out)
{
    if (stride == 1)
        memcpy(out, data, (size_t)count * size);
    else if (size == 1)
        COPY(unsigned char, AS_IT_IS, unsigned char);
    else if (size == 2)
        COPY(moved_2, AS_IT_IS, moved_2);
    else if (size == 4)
        COPY(moved_4, AS_IT_IS, moved_4);
    else
        COPY(moved_8, AS_IT_IS, moved_8);
}

/* Axes that lie in each other like one become one, so that rows are as long as can be. */
static void merge_axes(array_view *v)
{
    int rank = 0;
    for (int i = 0; i < v->rank; i++) {
        if (v->dim[i] == 1)
            continue;
        if (rank && v->stride[rank - 1] == v->dim[i] * v->stride[i])
            v->dim[rank - 1] *= v->dim[i];
        else
            v->dim[rank++] = v->dim[i];
        v->stride[rank - 1] = v->stride[i];
    }
    v->rank = rank;
}

void array_read(const array_view *view, int64_t first, int64_t count, int type, void *out)
{
    array_view v = *view;
    const size_t size = array_type_size(v.type), to_size = array_type_size(type);
    v.data += (size_t)(first * v.stride[0]) * size;
    v.dim[0] = count;
    merge_axes(&v);
    const int last = v.rank - 1;
    const int64_t row = v.rank ? v.dim[last] : 1, stride = v.rank ? v.stride[last] : 1;
    int64_t index[MAX_RANK] = {0}, place = 0;
    char *to = out;
    for (int i = last; i >= 0 || to == out; to += (size_t)row * to_size) {
        if (v.type == type)
            copy_row(v.data + (size_t)place * size, size, stride, row, to);
        else
            convert_row(v.data + (size_t)place * size, v.type, stride, row, type, to);
        for (i = last - 1; i >= 0; i--) { /* the next row */
            place += v.stride[i];
            if (++index[i] < v.dim[i])
                break;
            place -= v.stride[i] * v.dim[i];
            index[i] = 0;
        }
    }
}
