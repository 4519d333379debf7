/* safetensors.c - reading safetensors files that nobody vouches for.
 *
 * What holds before a single element is read: the header lies in the file and has the format's strict form; names are
 * unique; every tensor's bytes are its shape times its type; and, sorted by offset, the tensors follow each other
 * without gap or overlap from the first byte of the data to the last. The largest allocation is the header's, which
 * is at most MAX_HEADER and really there in the file. Every error names a byte or a tensor.
 */
#define _POSIX_C_SOURCE   200809L
#define _FILE_OFFSET_BITS 64
#include "session/safetensors.h"
#include "core/json_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PREFIX = 8 /* bytes of the header's length */ };

typedef unsigned long long ull; /* for %llu */

/* --- the header: one object of tensors ----------------------------------------------------------------------- */

/* A tensor's description while it is read. */
typedef struct description {
    tensor_entry entry;
    bool type, shape, offsets; /* seen */
} description;

static brasa_status read_type(json_scan *s, description *d)
{
    char *name;
    json_peek(s);
    const char *start = s->at;
    brasa_status status = json_read_text(s, &name);
    if (status != BRASA_OK)
        return status;
    d->type = true;
    d->entry.type = tensor_type_find(name);
    return d->entry.type ? BRASA_OK : json_refuse(s, start, "a dtype that is not known here");
}

static brasa_status read_shape(json_scan *s, description *d)
{
    uint64_t dims[MAX_RANK];
    brasa_status status = json_read_numbers(s, dims, MAX_RANK, &d->entry.shape.rank);
    for (int i = 0; status == BRASA_OK && i < d->entry.shape.rank; i++)
        d->entry.shape.dim[i] = (int64_t)dims[i];
    d->shape = true;
    return status;
}

static brasa_status read_offsets(json_scan *s, description *d)
{
    uint64_t offsets[2];
    int count;
    brasa_status status = json_read_numbers(s, offsets, 2, &count);
    if (status != BRASA_OK)
        return status;
    if (count != 2)
        return json_refuse(s, s->at, "\"data_offsets\" must be two numbers");
    d->entry.begin = offsets[0];
    d->entry.end = offsets[1];
    d->offsets = true;
    return BRASA_OK;
}

static brasa_status read_property(json_scan *s, char *key, void *user)
{
    description *d = user;
    if (!d->type && strcmp(key, "dtype") == 0)
        return read_type(s, d);
    if (!d->shape && strcmp(key, "shape") == 0)
        return read_shape(s, d);
    if (!d->offsets && strcmp(key, "data_offsets") == 0)
        return read_offsets(s, d);
    return json_refuse(s, key - 1, "a tensor has \"dtype\", \"shape\" and \"data_offsets\", once each, and no more");
}

static brasa_status read_note(json_scan *s, char *key, void *user)
{
    safetensors *f = user;
    char *text;
    brasa_status status = json_read_text(s, &text);
    if (status != BRASA_OK)
        return status;
    tensor_note *grown = pool_grow(&f->pool, f->notes, f->nnotes, &f->note_capacity, sizeof *grown);
    if (!grown)
        return fail_memory(f->ctx, (size_t)f->nnotes * sizeof *grown);
    f->notes = grown;
    f->notes[f->nnotes++] = (tensor_note){key, text};
    return BRASA_OK;
}

/* The size of the data that a tensor's shape asks for, or UINT64_MAX where it is beyond counting. */
static uint64_t bytes_of(const tensor_entry *t)
{
    uint64_t bytes = (uint64_t)t->type->bytes;
    bool empty = false;
    for (int i = 0; i < t->shape.rank; i++) {
        const uint64_t dim = (uint64_t)t->shape.dim[i];
        empty = empty || dim == 0;
        if (dim && bytes > JSON_MOST / dim)
            return UINT64_MAX;
        bytes *= dim ? dim : 1;
    }
    return empty ? 0 : bytes;
}

static brasa_status check_tensor(const safetensors *f, const tensor_entry *t)
{
    const uint64_t bytes = bytes_of(t);
    if (t->end < t->begin || t->end > f->size)
        return fail(f->ctx, BRASA_BAD_FILE,
                    "%s: tensor '%s' lies at bytes %llu to %llu of the data, which are %llu bytes", f->path,
                    text_short(t->name).text, (ull)t->begin, (ull)t->end, (ull)f->size);
    if (bytes == UINT64_MAX)
        return fail(f->ctx, BRASA_BAD_FILE, "%s: tensor '%s': %s has more elements than can be", f->path,
                    text_short(t->name).text, shape_print(&t->shape).text);
    if (t->end - t->begin != bytes)
        return fail(f->ctx, BRASA_BAD_FILE,
                    "%s: tensor '%s': %s in %s takes %llu bytes, but its offsets are %llu bytes apart", f->path,
                    text_short(t->name).text, shape_print(&t->shape).text, t->type->name, (ull)bytes,
                    (ull)(t->end - t->begin));
    return BRASA_OK;
}

typedef struct header {
    safetensors *f;
    bool metadata; /* seen */
} header;

static brasa_status read_member(json_scan *s, char *key, void *user)
{
    header *h = user;
    safetensors *f = h->f;
    if (!h->metadata && strcmp(key, "__metadata__") == 0) {
        h->metadata = true;
        return json_read_object(s, read_note, f);
    }
    if (strcmp(key, "__metadata__") == 0)
        return json_refuse(s, key - 1, "a second \"__metadata__\"");
    if (!text_printable(key)) /* it stands in messages: nothing in it may play tricks on a terminal */
        return json_refuse(s, key - 1, "a control character in a name");
    if (f->count == MAX_TENSORS)
        return json_refuse(s, key - 1, "more tensors than are read here (65536)");

    description d = {.entry = {.name = key}};
    brasa_status status = json_read_object(s, read_property, &d);
    if (status != BRASA_OK)
        return status;
    if (!d.type || !d.shape || !d.offsets)
        return json_refuse(s, key - 1, "this tensor lacks \"dtype\", \"shape\" or \"data_offsets\"");
    if ((status = check_tensor(f, &d.entry)) != BRASA_OK)
        return status;
    tensor_entry *grown = pool_grow(&f->pool, f->tensors, f->count, &f->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(f->ctx, (size_t)f->count * sizeof *grown);
    f->tensors = grown;
    f->tensors[f->count++] = d.entry;
    return BRASA_OK;
}

/* --- the tensors among each other ---------------------------------------------------------------------------- */

static int by_place(const tensor_entry *a, const tensor_entry *b)
{
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end); /* empty ones first */
}

static int by_name(const tensor_entry *a, const tensor_entry *b)
{
    return strcmp(a->name, b->name);
}

typedef int (*comparison)(const tensor_entry *a, const tensor_entry *b);

/* Moves t[root] down a heap of `count` until nothing below it is larger. */
static void sift(tensor_entry *t, int root, int count, comparison compare)
{
    const tensor_entry moved = t[root];
    for (int child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && compare(&t[child + 1], &t[child]) > 0)
            child++;
        if (compare(&t[child], &moved) <= 0)
            break;
        t[root] = t[child];
    }
    t[root] = moved;
}

/* Heapsort: the library's qsort may ask malloc for memory, and is slow on what an enemy chose. */
static void sort(tensor_entry *t, int count, comparison compare)
{
    for (int root = count / 2 - 1; root >= 0; root--)
        sift(t, root, count, compare);
    for (int last = count - 1; last > 0; last--) {
        const tensor_entry largest = t[0];
        t[0] = t[last];
        t[last] = largest;
        sift(t, 0, last, compare);
    }
}

static brasa_status check_places(safetensors *f)
{
    uint64_t end = 0;
    sort(f->tensors, f->count, by_place);
    for (int i = 0; i < f->count; i++) {
        const tensor_entry *t = &f->tensors[i];
        if (t->begin < end)
            return fail(f->ctx, BRASA_BAD_FILE, "%s: tensors '%s' and '%s' overlap from byte %llu of the data on",
                        f->path, text_short(f->tensors[i - 1].name).text, text_short(t->name).text, (ull)t->begin);
        if (t->begin > end)
            return fail(f->ctx, BRASA_BAD_FILE,
                        "%s: bytes %llu to %llu of the data, before tensor '%s', belong to none", f->path, (ull)end,
                        (ull)t->begin, text_short(t->name).text);
        end = t->end;
    }
    if (end != f->size)
        return fail(f->ctx, BRASA_BAD_FILE, "%s: bytes %llu to %llu of the data, the last ones, belong to no tensor",
                    f->path, (ull)end, (ull)f->size);
    return BRASA_OK;
}

static brasa_status check_names(safetensors *f)
{
    sort(f->tensors, f->count, by_name);
    for (int i = 1; i < f->count; i++)
        if (by_name(&f->tensors[i - 1], &f->tensors[i]) == 0)
            return fail(f->ctx, BRASA_BAD_FILE, "%s: two tensors are called '%s'", f->path,
                        text_short(f->tensors[i].name).text);
    return BRASA_OK;
}

/* --- the file ------------------------------------------------------------------------------------------------ */

static brasa_status refuse_file(const safetensors *f, const char *what)
{
    return fail(f->ctx, BRASA_BAD_FILE, "%s: %s", f->path, what);
}

static brasa_status read_bytes(const safetensors *f, uint64_t place, void *to, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = pread(f->fd, (char *)to + done, bytes - done, (off_t)(place + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return refuse_file(f, strerror(errno));
        if (got == 0)
            return fail(f->ctx, BRASA_BAD_FILE, "%s: it ended at byte %llu while it was read", f->path,
                        (ull)(place + done));
        done += (size_t)got;
    }
    return BRASA_OK;
}

/* Opens it; *size: of the whole file. Without O_NONBLOCK a pipe would make us wait before we can see what it is. */
static brasa_status open_file(safetensors *f, uint64_t *size)
{
    struct stat st;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        return refuse_file(f, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return refuse_file(f, "not a regular file");
    *size = (uint64_t)st.st_size;
    return BRASA_OK;
}

static brasa_status read_header(safetensors *f)
{
    uint64_t file_size = 0, length = 0;
    unsigned char prefix[PREFIX];
    brasa_status status = open_file(f, &file_size);
    if (status == BRASA_OK && file_size < PREFIX)
        status = refuse_file(f, "too short for a safetensors file: it begins with 8 bytes of length");
    if (status == BRASA_OK)
        status = read_bytes(f, 0, prefix, PREFIX);
    for (int i = PREFIX - 1; status == BRASA_OK && i >= 0; i--)
        length = length << 8 | prefix[i];
    if (status == BRASA_OK && (length > file_size - PREFIX || length > MAX_HEADER))
        status =
            fail(f->ctx, BRASA_BAD_FILE,
                 "%s: not a safetensors file: its first 8 bytes announce a header of %llu bytes, %s", f->path,
                 (ull)length, length > MAX_HEADER ? "more than are read here (16 MiB)" : "but the file ends before");
    if (status != BRASA_OK)
        return status;

    char *text = pool_get(&f->pool, (size_t)length + 1, 1);
    if (!text)
        return fail_memory(f->ctx, (size_t)length);
    if ((status = read_bytes(f, PREFIX, text, (size_t)length)) != BRASA_OK)
        return status;
    f->data = PREFIX + length;
    f->size = file_size - f->data;
    json_scan s = {.ctx = f->ctx,
                   .path = f->path,
                   .part = ", in the header",
                   .place = PREFIX,
                   .text = text,
                   .at = text,
                   .end = text + length};
    if (length == 0 || text[0] != '{')
        return json_refuse(&s, s.at, "expected '{'");
    status = json_read_object(&s, read_member, &(header){.f = f});
    if (status == BRASA_OK && (json_peek(&s) || s.at < s.end))
        status = json_refuse(&s, s.at, "expected nothing more but blanks");
    return status;
}

brasa_status safetensors_open(brasa_context *ctx, const char *path, safetensors **out)
{
    *out = NULL;
    safetensors *f = mem_get(ctx, sizeof *f);
    if (!f)
        return fail_memory(ctx, sizeof *f);
    f->ctx = f->pool.ctx = ctx;
    f->path = path;
    f->fd = -1;
    brasa_status status = read_header(f);
    if (status == BRASA_OK)
        status = check_places(f);
    if (status == BRASA_OK)
        status = check_names(f);
    if (status == BRASA_OK)
        *out = f;
    else
        safetensors_close(f);
    return status;
}

void safetensors_close(safetensors *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    pool_free(&f->pool);
    mem_put(f->ctx, f);
}

const tensor_entry *safetensors_find(const safetensors *f, const char *name)
{
    int low = 0, high = f->count;
    while (low < high) {
        const int middle = low + (high - low) / 2, order = strcmp(f->tensors[middle].name, name);
        if (order == 0)
            return &f->tensors[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *safetensors_note(const safetensors *f, const char *key)
{
    for (int i = 0; i < f->nnotes; i++)
        if (strcmp(f->notes[i].key, key) == 0)
            return f->notes[i].text;
    return NULL;
}

brasa_status safetensors_read(safetensors *f, const tensor_entry *t, int64_t first, int count, number *out)
{
    const uint64_t size = (uint64_t)t->type->bytes, place = f->data + t->begin + (uint64_t)first * size;
    brasa_status status = read_bytes(f, place, f->piece, (size_t)count * size);
    if (status == BRASA_OK)
        t->type->decode(f->piece, count, out);
    return status;
}

brasa_status safetensors_read_floats(safetensors *f, const tensor_entry *t, int64_t first, int64_t count, float *out)
{
    number piece[PIECE / 8];
    if (t->type == tensor_type_of(F32) && tensor_floats_raw())
        return read_bytes(f, f->data + t->begin + (uint64_t)first * sizeof *out, out, (size_t)count * sizeof *out);
    brasa_status status = BRASA_OK;
    for (int64_t i = 0; i < count && status == BRASA_OK; i += PIECE / 8) {
        const int part = (int)(count - i < PIECE / 8 ? count - i : PIECE / 8);
        status = safetensors_read(f, t, first + i, part, piece);
        for (int k = 0; k < part && status == BRASA_OK; k++)
            out[i + k] = (float)piece[k].real;
    }
    return status;
}
