/* safetensors.h - named tensors in a file: the safetensors format, read with every number checked, and written.
 *
 *     8 bytes    n, the length of the header; little-endian, as all numbers in the file
 *     n bytes    JSON: {"conv1.weight": {"dtype": "F32", "shape": [64, 3, 7, 7], "data_offsets": [begin, end]}, ...},
 *                perhaps with "__metadata__": {"key": "text", ...}; blanks may follow
 *     the rest   the elements, the last axis fastest; offsets count from here
 * Every byte of the rest belongs to exactly one tensor. Files hold hundreds of tensors and up to gigabytes; elements
 * pass through in pieces, so that memory is needed for the header only. Knows nothing of sessions.
 */
#ifndef SESSION_SAFETENSORS_H
#define SESSION_SAFETENSORS_H

#include "core/pool.h"
#include "core/shape.h"
#include "core/storage.h"

/* An element on its way in or out: `whole` of whole numbers, `real` of others, which a double holds exactly. */
typedef union number {
    double real;
    int64_t whole;
} number;

enum {
    PIECE = 4096,          /* elements that pass through at a time, at most */
    FLOATS = 1 << 20,      /* the same of floats that need not be converted */
    MAX_HEADER = 16 << 20, /* bytes; a network of a thousand layers needs half a million */
    MAX_TENSORS = 1 << 16,
};

typedef struct tensor_type {
    const char *name; /* "F32" */
    int bytes;
    bool whole;
    void (*decode)(const unsigned char *from, int count, number *to); /* NULL: known, but not read here */
    void (*encode)(const number *from, int count, unsigned char *to); /* NULL: not written here */
} tensor_type;

/* By name, or NULL; and of what a session holds. */
const tensor_type *tensor_type_find(const char *name);
const tensor_type *tensor_type_of(dtype type);
/* Whether floats lie in memory as an F32 does in a file. */
bool tensor_floats_raw(void);

typedef struct tensor_entry {
    const char *name; /* UTF-8 without control characters */
    const tensor_type *type;
    shape shape;         /* sizes may be 0 in what was read */
    uint64_t begin, end; /* in the data */
} tensor_entry;

/* What else the file says, under "__metadata__". Lists of them end with a key that is NULL. */
typedef struct tensor_note {
    const char *key, *text; /* the key without control characters */
} tensor_note;

/* --- reading (safetensors.c) --------------------------------------------------------------------------------- */

typedef struct safetensors {
    brasa_context *ctx;
    const char *path; /* the caller's, for messages */
    int fd;
    uint64_t data, size;   /* where the data begin in the file, and how many bytes they are */
    tensor_entry *tensors; /* by name */
    int count, capacity;
    tensor_note *notes; /* in the order of the file */
    int nnotes, note_capacity;
    pool pool;
    unsigned char piece[PIECE * 8];
} safetensors;

/* Opens a file and reads its header. What is wrong with it is told with the place. */
brasa_status safetensors_open(brasa_context *ctx, const char *path, safetensors **out);
void safetensors_close(safetensors *f);
/* The tensor of that name, or NULL. */
const tensor_entry *safetensors_find(const safetensors *f, const char *name);
/* The note of that key, or NULL. */
const char *safetensors_note(const safetensors *f, const char *key);
/* `count` elements, at most PIECE, of a tensor whose type has `decode`. */
brasa_status safetensors_read(safetensors *f, const tensor_entry *t, int64_t first, int count, number *out);
/* The same as floats, any number of them; those of an F32 come without a detour. */
brasa_status safetensors_read_floats(safetensors *f, const tensor_entry *t, int64_t first, int64_t count, float *out);

/* --- writing (safetensors_write.c) --------------------------------------------------------------------------- */

/* Gives elements first ... first + count - 1 of a tensor. For one tensor it is called in order, from 0 on. */
typedef void (*tensor_source)(void *user, int tensor, int64_t first, int count, number *out);
/* The same of an F32, at most FLOATS of them. */
typedef void (*tensor_floats)(void *user, int tensor, int64_t first, int64_t count, float *out);

/* Makes the file or replaces it: either all of it is there, on the disk, or what was there before. The header lists
 * the tensors in their order; their `begin` and `end` are not looked at, their types must have `encode`. notes may be
 * NULL, and so may be floats: then `source` gives these, too. */
brasa_status safetensors_write(brasa_context *ctx, const char *path, const tensor_entry *tensors, int count,
                               const tensor_note *notes, tensor_source source, tensor_floats floats, void *user);

#endif
