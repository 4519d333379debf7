/* notes.c - what a weights file says of its network, in the metadata of safetensors, so that the file is enough to
 * predict with: other readers pass over it.
 *
 *     brasa.model       a model's name, or the name of a .net file
 *     brasa.network     the text of that file
 *     brasa.dialect     "torch"
 *     brasa.classes     their names, a JSON list
 *     brasa.transform   how images become numbers
 *     brasa.input       "3x224x224", or "16" for vectors: for people
 */
#include "session/safetensors.h"
#include "train/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef enum note_key { MODEL, NETWORK, DIALECT, CLASSES, TRANSFORM, INPUT, NOTES } note_key;
static const char *const keys[NOTES] = {"brasa.model",   "brasa.network",   "brasa.dialect",
                                        "brasa.classes", "brasa.transform", "brasa.input"};
enum { MOST_NETWORK = 1 << 20 /* bytes, as of a model's file */ };

static bool is_file(const char *model)
{
    const size_t length = strlen(model);
    return length > 4 && strcmp(model + length - 4, ".net") == 0;
}

/* --- writing ------------------------------------------------------------------------------------------------- */

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

static void print_classes(const task *t, sink *k)
{
    json j = {.write = sink_write, .user = k};
    json_open(&j, NULL, '[');
    for (int i = 0; i < t->classes; i++)
        json_text(&j, NULL, t->class_name[i]);
    json_close(&j, ']');
}

static const char *classes_text(const task *t, pool *p)
{
    sink counted = {0}, filled = {0};
    print_classes(t, &counted);
    if ((filled.to = pool_get(p, counted.used + 1, 1)))
        print_classes(t, &filled);
    return filled.to;
}

static brasa_status read_network(pool *p, const char *path, const char **out)
{
    char *text = pool_get(p, MOST_NETWORK + 2, 1);
    FILE *file = text ? fopen(path, "rbe") : NULL;
    if (!file)
        return text ? fail(p->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno))
                    : fail_memory(p->ctx, MOST_NETWORK);
    const size_t got = fread(text, 1, MOST_NETWORK + 1, file);
    const bool bad = ferror(file) || got > MOST_NETWORK;
    fclose(file);
    *out = text;
    return bad ? fail(p->ctx, BRASA_BAD_FILE, "%s: cannot be read again", path) : BRASA_OK;
}

brasa_status notes_make(training *t)
{
    const task *k = &t->task;
    pool *p = &t->unit.pool;
    const char *model = k->settings.model, *slash = strrchr(model, '/'), *text[NOTES] = {NULL};
    tensor_note *list = pool_get(p, NOTES + 1, sizeof *list);
    const shape input = {.rank = k->shape[1] ? 3 : 1, .dim = {k->shape[0], k->shape[1], k->shape[2]}};
    text[MODEL] = is_file(model) && slash ? slash + 1 : model;
    text[DIALECT] = k->settings.dialect;
    text[CLASSES] = classes_text(k, p);
    text[TRANSFORM] = k->settings.transform;
    text[INPUT] = pool_text(p, "%s", shape_print(&input).text);
    if (!list || !text[CLASSES] || !text[INPUT])
        return fail_memory(p->ctx, 0);
    brasa_status status = is_file(model) ? read_network(p, t->model, &text[NETWORK]) : BRASA_OK;
    int count = 0;
    for (int i = 0; i < NOTES; i++)
        if (text[i])
            list[count++] = (tensor_note){keys[i], text[i]};
    t->unit.notes = list;
    return status;
}

/* --- reading ------------------------------------------------------------------------------------------------- */

static brasa_status read_notes(const safetensors *f, run_info *out)
{
    char *text[NOTES];
    for (int i = 0; i < NOTES; i++) {
        const char *note = safetensors_note(f, keys[i]);
        text[i] = note ? pool_text(&out->pool, "%s", note) : NULL;
        if (note && !text[i])
            return fail_memory(f->ctx, strlen(note));
        const bool needed = i == NETWORK ? is_file(text[MODEL]) : i != INPUT;
        if (needed && !note)
            return fail(f->ctx, BRASA_BAD_FILE,
                        "%s: no '%s' in its metadata: an older version or another framework wrote it; give the "
                        "folder of its run instead",
                        f->path, keys[i]);
    }
    out->settings.model = out->model = text[MODEL];
    out->settings.dialect = text[DIALECT];
    out->settings.transform = text[TRANSFORM];
    out->network = is_file(text[MODEL]) ? text[NETWORK] : NULL;
    json_scan s = {.ctx = f->ctx,
                   .path = f->path,
                   .part = " of brasa.classes",
                   .text = text[CLASSES],
                   .at = text[CLASSES],
                   .end = text[CLASSES] + strlen(text[CLASSES])};
    brasa_status status = run_read_classes(&s, out);
    if (status == BRASA_OK && (json_peek(&s) || s.at < s.end || !out->classes))
        status = json_refuse(&s, s.at, "expected one list of names, and nothing more");
    return status;
}

brasa_status notes_read(brasa_context *ctx, const char *path, run_info *out)
{
    safetensors *f = NULL;
    *out = (run_info){.pool = {.ctx = ctx}, .folder = path, .created = "", .hash = ""};
    brasa_status status = safetensors_open(ctx, path, &f);
    if (status == BRASA_OK)
        status = read_notes(f, out);
    safetensors_close(f);
    return status;
}

bool notes_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}
