/* device.c - the table of devices, their names, and how a context opens one. */
#define _GNU_SOURCE /* dladdr */
#include "device/device.h"
#include "core/shared.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the table ----------------------------------------------------------------------------------------------- */

/* A device that is part of the program has `open`; others are opened from brasa_<name>.so. */
typedef struct device_row {
    const char *name;
    bool several; /* numbered: "cuda:1" */
    brasa_status (*open)(brasa_context *ctx, device **out);
} device_row;

#ifndef BRASA_DEVICES /* a test's table, with rows of its own */
#define BRASA_DEVICES "device/devices.def"
#endif

#define DEVICE(name, open) brasa_status open(brasa_context *ctx, device **out);
#define DEVICE_LIBRARY(name)
#include BRASA_DEVICES
#undef DEVICE
#undef DEVICE_LIBRARY

/* The first is every context's until it asks for another. */
static const device_row device_rows[] = {
#define DEVICE(name, open)   {name, false, open},
#define DEVICE_LIBRARY(name) {name, true, NULL},
#include BRASA_DEVICES
#undef DEVICE
#undef DEVICE_LIBRARY
    {NULL}};

/* --- the library --------------------------------------------------------------------------------------------- */

enum { PATH_SIZE = 4096 };

/* The folder of the program or library that this code is in. A program that was found by PATH has no folder in its
 * name: the system knows its file. */
static void own_folder(char folder[PATH_SIZE / 2])
{
    Dl_info here;
    snprintf(folder, PATH_SIZE / 2, "%s",
             dladdr((const void *)(uintptr_t)&own_folder, &here) && here.dli_fname ? here.dli_fname : "");
    if (!strchr(folder, '/')) {
        const ssize_t length = readlink("/proc/self/exe", folder, PATH_SIZE / 2 - 1);
        folder[length > 0 ? length : 0] = '\0';
    }
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(folder, PATH_SIZE / 2, ".");
}

/* Beside the program or library that this code is in, where a build leaves it; where it is installed, as seen from
 * the library and from the program; or in $BRASA_BACKENDS alone, for both in other places. */
static void *open_library(const char *name, char *why, size_t why_size)
{
    static const char *const places[] = {"", "/brasa", "/../" BRASA_LIBDIR "/brasa"};
    char folder[PATH_SIZE / 2], path[PATH_SIZE];
    const char *given = getenv("BRASA_BACKENDS");
    given = given && *given ? given : NULL;
    own_folder(folder);
    for (int i = 0; i < (given ? 1 : 3); i++) {
        snprintf(path, sizeof path, "%.2000s%s/brasa_%s.so", given ? given : folder, places[i], name);
        if (access(path, R_OK) != 0)
            continue;
        const char *wrong = NULL;
        void *file = shared_open(path, &wrong);
        if (!file)
            snprintf(why, why_size, "%.200s cannot be opened: %.280s", path, wrong);
        return file;
    }
    if (given)
        snprintf(why, why_size, "there is no brasa_%s.so in %.300s, where BRASA_BACKENDS says that it is", name,
                 given);
    else
        snprintf(why, why_size,
                 "this build has no brasa_%s.so: it is made where CUDA's compiler and cuDNN's headers are "
                 "(see docs/cuda.md)",
                 name);
    return NULL;
}

static const backend *open_backend(const char *name, void **file, char *why, size_t why_size)
{
    static const backend_sizes sizes = BACKEND_SIZES;
    *file = open_library(name, why, why_size);
    const backend *b = *file ? (const backend *)dlsym(*file, "brasa_backend") : NULL;
    if (b && strcmp(b->version, BACKEND_VERSION) == 0 && memcmp(&b->sizes, &sizes, sizeof sizes) == 0)
        return b;
    if (*file) {
        snprintf(why, why_size, "brasa_%s.so is of another build than this program: build both again", name);
        dlclose(*file);
    }
    *file = NULL;
    return NULL;
}

/* --- a device of a context ----------------------------------------------------------------------------------- */

/* In the context's slot LIBRARY_DEVICE. */
typedef struct opened {
    const device_row *row;
    void *library; /* NULL: it is part of the program */
    device *device;
    kernel *kernels; /* a library's, */
    const kernel *lists[2];
} opened;

static void release(brasa_context *ctx, void *data)
{
    opened *o = data;
    if (o->device)
        o->device->close(o->device);
    mem_put(ctx, o->kernels);
    if (o->library)
        dlclose(o->library);
    mem_put(ctx, o);
}

static const op_def *find_op(const char *name)
{
    for (int i = 0; op_at(i); i++)
        if (strcmp(op_at(i)->name, name) == 0)
            return op_at(i);
    return NULL;
}

/* The backend's lists as one, with the ops that their names stand for. */
static brasa_status list_kernels(brasa_context *ctx, const backend *b, opened *o)
{
    size_t count = 0;
    for (int l = 0; b->kernels[l]; l++)
        for (const backend_kernel *k = b->kernels[l]; k->op; k++)
            count++;
    o->kernels = mem_get(ctx, (count + 1) * sizeof *o->kernels);
    if (!o->kernels)
        return fail_memory(ctx, count * sizeof *o->kernels);
    count = 0;
    for (int l = 0; b->kernels[l]; l++)
        for (const backend_kernel *k = b->kernels[l]; k->op; k++) {
            o->kernels[count] = k->kernel;
            o->kernels[count].op = find_op(k->op);
            if (!o->kernels[count++].op)
                return fail(ctx, BRASA_INTERNAL, "the kernel %s is for '%s', which is no op", k->kernel.name, k->op);
        }
    o->lists[0] = o->kernels;
    o->device->kernels = o->lists;
    return BRASA_OK;
}

/* What a name stands for: "cpu", "cuda", "cuda:1". */
typedef struct place {
    const device_row *row; /* NULL: it is no device's name */
    int index;
} place;

static place parse(const char *name)
{
    for (const device_row *r = device_rows; r->name; r++) {
        const size_t word = strlen(r->name);
        if (strncmp(name, r->name, word) != 0)
            continue;
        if (!name[word])
            return (place){r, 0};
        const char *number = name + word + 1;
        const size_t digits = strspn(number, "0123456789");
        if (r->several && name[word] == ':' && digits > 0 && digits < 5 && !number[digits] &&
            (digits == 1 || number[0] != '0'))
            return (place){r, atoi(number)};
    }
    return (place){NULL};
}

static brasa_status open_at(brasa_context *ctx, const char *name, place at, opened *o)
{
    if (!ctx)
        return BRASA_BAD_ARGUMENT;
    char why[512] = "";
    if (at.row->open)
        return at.row->open(ctx, &o->device);
    const backend *b = open_backend(at.row->name, &o->library, why, sizeof why);
    const brasa_status status =
        b ? b->open(ctx, at.index, &o->device) : fail(ctx, BRASA_NOT_FOUND, "%s: %s", name, why);
    return status == BRASA_OK ? list_kernels(ctx, b, o) : status;
}

/* Takes the device in place of the one that the context has. */
static brasa_status use(brasa_context *ctx, const char *name, place at)
{
    library *slot = &ctx->library[LIBRARY_DEVICE];
    opened *o = mem_get(ctx, sizeof *o);
    if (!o)
        return fail_memory(ctx, sizeof *o);
    o->row = at.row;
    const brasa_status status = open_at(ctx, name, at, o);
    if (status != BRASA_OK) {
        release(ctx, o);
        return status;
    }
    if (slot->data)
        slot->release(ctx, slot->data);
    *slot = (library){o, release};
    ctx->device = o->device;
    if (!ctx->device->where[0])
        snprintf(ctx->device->where, sizeof ctx->device->where, "%s", ctx->device->name);
    return BRASA_OK;
}

brasa_status brasa_context_new(const brasa_context_options *options, brasa_context **out)
{
    brasa_status status = context_make(options, out);
    if (status != BRASA_OK)
        return status;
    status = use(*out, device_rows[0].name, (place){&device_rows[0], 0});
    if (status != BRASA_OK) {
        brasa_context_free(*out);
        *out = NULL;
    }
    return status;
}

brasa_status brasa_context_use(brasa_context *ctx, const char *name)
{
    if (!ctx)
        return BRASA_BAD_ARGUMENT;
    const opened *now = ctx->library[LIBRARY_DEVICE].data;
    if (now->row != &device_rows[0])
        return fail(ctx, BRASA_WRONG_STATE, "this context works on %s already", ctx->device->name);
    const place at = parse(name ? name : "");
    if (!at.row)
        return fail(ctx, BRASA_BAD_ARGUMENT, "device: expected cpu, cuda or cuda:1, got '%.40s'", name ? name : "");
    return at.row == &device_rows[0] ? BRASA_OK : use(ctx, name, at);
}

device_word device_recorded(const char *name)
{
    device_word n;
    name = name ? name : device_rows[0].name;
    snprintf(n.text, sizeof n.text, "%.*s", (int)strcspn(name, " "), name);
    return n;
}

bool device_same(const char *name, const char *other)
{
    return strcmp(name ? name : device_rows[0].name, other ? other : device_rows[0].name) == 0;
}

const char *device_kind(const char *name)
{
    name = name ? name : device_rows[0].name;
    const char *blank = strchr(name, ' ');
    return blank ? blank + 1 : name;
}

int backend_list(const char *name, void (*say)(void *user, const char *line), void *user)
{
    char why[512] = "";
    void *file;
    const backend *b = open_backend(name, &file, why, sizeof why);
    if (!b) {
        say(user, why);
        return 0;
    }
    const int count = b->list(say, user);
    dlclose(file);
    return count;
}

/* --- memory -------------------------------------------------------------------------------------------------- */

void *tensors_get(brasa_context *ctx, size_t bytes)
{
    return ctx->device->get(ctx->device, bytes);
}

void tensors_put(brasa_context *ctx, void *block)
{
    if (block)
        ctx->device->put(ctx->device, block);
}

brasa_status tensors_clear(brasa_context *ctx, void *to, size_t bytes)
{
    return ctx->device->clear(ctx->device, to, bytes);
}

brasa_status tensors_copy(brasa_context *ctx, void *to, const void *from, size_t bytes)
{
    return ctx->device->copy(ctx->device, to, from, bytes);
}

brasa_status device_copy_in(brasa_context *ctx, void *to, const void *from, size_t bytes)
{
    return ctx->device->copy_in(ctx->device, to, from, bytes);
}

brasa_status device_copy_out(brasa_context *ctx, void *to, const void *from, size_t bytes)
{
    return ctx->device->copy_out(ctx->device, to, from, bytes);
}

void *pinned_get(brasa_context *ctx, size_t bytes)
{
    return ctx->device->get_pinned(ctx->device, bytes);
}

void pinned_put(brasa_context *ctx, void *block)
{
    if (block)
        ctx->device->put_pinned(ctx->device, block);
}
