/* safetensors_write.c - writing safetensors files; core/replace.h sees to it that no reader ever sees half of one. */
#include "core/json_scan.h"
#include "core/replace.h"
#include "session/safetensors.h"

#include <string.h>

enum { ALIGN = 8, PREFIX = 8 };

typedef struct writer {
    brasa_context *ctx;
    const char *path;
    pool pool;
    const tensor_entry *tensors;
    int count;
    const tensor_note *notes;
    uint64_t *begin; /* of each tensor in the data */
    char *header;    /* with its length in front, padded */
    size_t header_bytes;
    replacement file;
} writer;

static brasa_status refuse(const writer *w, const char *what)
{
    return fail(w->ctx, BRASA_BAD_FILE, "%s: %s", w->path, what);
}

static uint64_t bytes_of(const tensor_entry *t)
{
    return (uint64_t)shape_count(&t->shape) * (uint64_t)t->type->bytes;
}

/* --- the header ---------------------------------------------------------------------------------------------- */

/* Wide elements come first, so that all are aligned for whoever maps the file. */
static void place_tensors(writer *w)
{
    uint64_t end = 0;
    for (int size = ALIGN; size >= 1; size /= 2) {
        for (int i = 0; i < w->count; i++) {
            if (w->tensors[i].type->bytes != size)
                continue;
            w->begin[i] = end;
            end += bytes_of(&w->tensors[i]);
        }
    }
}

typedef struct sink {
    char *to; /* NULL: only counts */
    size_t used;
} sink;

static bool sink_write(void *user, const char *text, size_t length)
{
    sink *k = user;
    if (k->to)
        memcpy(k->to + k->used, text, length);
    k->used += length;
    return true;
}

/* "format" is what readers made for PyTorch look for: names, and axes in the order out, in, height, width. */
static void print_header(const writer *w, sink *k)
{
    json j = {.write = sink_write, .user = k};
    json_open(&j, NULL, '{');
    json_open(&j, "__metadata__", '{');
    json_text(&j, "format", "pt");
    json_text(&j, "writer", "brasa " BRASA_VERSION);
    for (const tensor_note *n = w->notes; n && n->key; n++)
        json_text(&j, n->key, n->text);
    json_close(&j, '}');
    for (int i = 0; i < w->count; i++) {
        const tensor_entry *t = &w->tensors[i];
        json_open(&j, t->name, '{');
        json_text(&j, "dtype", t->type->name);
        json_open(&j, "shape", '[');
        for (int d = 0; d < t->shape.rank; d++)
            json_int(&j, NULL, t->shape.dim[d]);
        json_close(&j, ']');
        json_open(&j, "data_offsets", '[');
        json_int(&j, NULL, (int64_t)w->begin[i]);
        json_int(&j, NULL, (int64_t)(w->begin[i] + bytes_of(t)));
        json_close(&j, ']');
        json_close(&j, '}');
    }
    json_close(&j, '}');
    k->used--; /* the writer ends a line; the format pads with spaces only */
}

/* What is written can be read again. */
static brasa_status check_names(const writer *w)
{
    for (int i = 0; i < w->count; i++)
        if (!text_printable(w->tensors[i].name))
            return refuse(w, "a name in this network has control characters or is not UTF-8");
    return w->count > MAX_TENSORS ? refuse(w, "too many tensors for one file") : BRASA_OK;
}

static brasa_status make_header(writer *w)
{
    sink counted = {0};
    brasa_status status = check_names(w);
    if (status != BRASA_OK)
        return status;
    w->begin = pool_get(&w->pool, (size_t)w->count + 1, sizeof *w->begin);
    if (!w->begin)
        return fail_memory(w->ctx, (size_t)w->count * sizeof *w->begin);
    place_tensors(w);
    print_header(w, &counted);
    const size_t length = (counted.used + ALIGN - 1) / ALIGN * ALIGN;
    w->header_bytes = PREFIX + length;
    if (length > MAX_HEADER)
        return refuse(w, "too many or too long names for one file");
    if (!(w->header = pool_get(&w->pool, w->header_bytes + 1, 1)))
        return fail_memory(w->ctx, w->header_bytes);
    sink filled = {.to = w->header + PREFIX};
    print_header(w, &filled);
    memset(w->header + PREFIX + filled.used, ' ', length - filled.used);
    for (int i = 0; i < PREFIX; i++)
        w->header[i] = (char)((uint64_t)length >> 8 * i & 0xFF);
    return BRASA_OK;
}

/* --- the data ----------------------------------------------------------------------------------------------- */

/* One that is stored as it lies in memory. */
static brasa_status write_floats(writer *w, int i, tensor_floats source, void *user, float *floats)
{
    const int64_t count = shape_count(&w->tensors[i].shape);
    brasa_status status = BRASA_OK;
    for (int64_t first = 0; first < count && status == BRASA_OK; first += FLOATS) {
        const int64_t part = count - first < FLOATS ? count - first : FLOATS;
        source(user, i, first, part, floats);
        status = replace_write(&w->file, floats, (size_t)part * sizeof *floats);
    }
    return status;
}

static brasa_status write_tensor(writer *w, int i, tensor_source source, void *user, number *numbers,
                                 unsigned char *bytes)
{
    const tensor_type *type = w->tensors[i].type;
    const int64_t count = shape_count(&w->tensors[i].shape);
    brasa_status status = BRASA_OK;
    for (int64_t first = 0; first < count && status == BRASA_OK; first += PIECE) {
        const int part = (int)(count - first < PIECE ? count - first : PIECE);
        source(user, i, first, part, numbers);
        type->encode(numbers, part, bytes);
        status = replace_write(&w->file, bytes, (size_t)part * (size_t)type->bytes);
    }
    return status;
}

/* The most elements of a tensor that is written as floats, or 0. */
static int64_t most_floats(const writer *w)
{
    int64_t most = 0;
    for (int i = 0; i < w->count; i++) {
        const int64_t count = w->tensors[i].type == tensor_type_of(F32) ? shape_count(&w->tensors[i].shape) : 0;
        most = count > most ? count : most;
    }
    return most < FLOATS ? most : FLOATS;
}

/* In the order of place_tensors. */
static brasa_status write_data(writer *w, tensor_source source, tensor_floats raw, void *user)
{
    const int64_t most = raw ? most_floats(w) : 0;
    number *numbers = pool_get(&w->pool, PIECE, sizeof *numbers);
    unsigned char *bytes = pool_get(&w->pool, PIECE, ALIGN);
    float *floats = pool_get(&w->pool, (size_t)most + 1, sizeof *floats);
    if (!numbers || !bytes || !floats)
        return fail_memory(w->ctx, PIECE * (sizeof *numbers + ALIGN) + (size_t)most * sizeof *floats);
    brasa_status status = replace_write(&w->file, w->header, w->header_bytes);
    for (int size = ALIGN; size >= 1; size /= 2)
        for (int i = 0; i < w->count && status == BRASA_OK; i++) {
            const tensor_type *type = w->tensors[i].type;
            if (type->bytes != size)
                continue;
            status = raw && type == tensor_type_of(F32) ? write_floats(w, i, raw, user, floats)
                                                        : write_tensor(w, i, source, user, numbers, bytes);
        }
    return status;
}

brasa_status safetensors_write(brasa_context *ctx, const char *path, const tensor_entry *tensors, int count,
                               const tensor_note *notes, tensor_source source, tensor_floats floats, void *user)
{
    writer w = {.ctx = ctx, .path = path, .pool = {.ctx = ctx}, .tensors = tensors, .count = count, .notes = notes};
    brasa_status status = make_header(&w);
    if (status == BRASA_OK) {
        status = replace_begin(&w.file, ctx, path);
        if (status == BRASA_OK)
            status = write_data(&w, source, tensor_floats_raw() ? floats : NULL, user);
        status = replace_end(&w.file, status);
    }
    pool_free(&w.pool);
    return status;
}
