/* storage.c - see storage.h. */
#include "core/storage.h"

static const struct {
    const char *name;
    uint8_t bytes;
    bool real;
} types[] = {
    /* "halves" is what explain has printed since there were such weights */
    [F32] = {"f32", 4, true},  [F64] = {"f64", 8, true},   [I32] = {"i32", 4, false},
    [I64] = {"i64", 8, false}, [BF16] = {"bf16", 2, true}, [SPLIT_F32] = {"halves", 4, true},
    [F16] = {"f16", 2, true},  [U8] = {"u8", 1, false},
};

size_t dtype_size(dtype type)
{
    return types[type].bytes;
}

const char *dtype_name(dtype type)
{
    return types[type].name;
}

bool dtype_real(dtype type)
{
    return types[type].real;
}

int64_t storage_plane(dtype type, int64_t count)
{
    return type == SPLIT_F32 ? split_plane(count) : 0;
}

int64_t storage_bytes(dtype type, int64_t count)
{
    return (type == SPLIT_F32 ? split_plane(count) : count) * (int64_t)dtype_size(type);
}

dtype storage_view(dtype type)
{
    return type == SPLIT_F32 ? BF16 : type;
}

/* Each storage in a loop of its own: there the compiler knows what one element takes. */
#define EACH_STORAGE(type, loop)                                                                                     \
    switch (type) {                                                                                                  \
    case F32:                                                                                                        \
        loop(F32);                                                                                                   \
        break;                                                                                                       \
    case F64:                                                                                                        \
        loop(F64);                                                                                                   \
        break;                                                                                                       \
    case BF16:                                                                                                       \
        loop(BF16);                                                                                                  \
        break;                                                                                                       \
    case SPLIT_F32:                                                                                                  \
        loop(SPLIT_F32);                                                                                             \
        break;                                                                                                       \
    default:                                                                                                         \
        loop(type);                                                                                                  \
    }
#define LOAD_ALL(type)                                                                                               \
    for (int64_t i = 0; i < count; i++)                                                                              \
        if (real == F32)                                                                                             \
            ((float *)to)[i] = (float)storage_load(type, from, plane, first + i);                                    \
        else                                                                                                         \
            ((double *)to)[i] = storage_load(type, from, plane, first + i)
#define STORE_ALL(type)                                                                                              \
    for (int64_t i = 0; i < count; i++)                                                                              \
    storage_store(type, to, plane, first + i,                                                                        \
                  real == F32 ? (double)((const float *)from)[i] : ((const double *)from)[i])

void storage_load_many(dtype type, const void *from, int64_t plane, int64_t first, int64_t count, dtype real,
                       void *to)
{
    EACH_STORAGE(type, LOAD_ALL)
}

void storage_store_many(dtype type, void *to, int64_t plane, int64_t first, int64_t count, dtype real,
                        const void *from)
{
    EACH_STORAGE(type, STORE_ALL)
}
