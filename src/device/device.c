/* device.c - opens backends, and moves bytes between the host and what they bring. */
#define _GNU_SOURCE /* dladdr */
#include "device/device.h"
#include "core/shared.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

typedef struct opened {
    void *library;
    device *device;
    kernel *kernels;
} opened;

static void release(brasa_context *ctx, void *data)
{
    opened *o = data;
    if (o->device)
        o->device->close(o->device);
    ctx->device = NULL;
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
    o->device->kernels = o->kernels;
    return BRASA_OK;
}

/* "cuda" or "cuda:1": the number, or -1. */
static int device_number(const char *name)
{
    const size_t word = strlen("cuda");
    if (strncmp(name, "cuda", word) != 0)
        return -1;
    if (!name[word])
        return 0;
    const size_t digits = strspn(name + word + 1, "0123456789");
    const bool good = name[word] == ':' && digits > 0 && digits < 5 && !name[word + 1 + digits] &&
                      (digits == 1 || name[word + 1] != '0');
    return good ? atoi(name + word + 1) : -1;
}

brasa_status brasa_context_use(brasa_context *ctx, const char *name)
{
    char why[512] = "";
    library *slot = &ctx->library[LIBRARY_DEVICE];
    if (slot->data)
        return fail(ctx, BRASA_WRONG_STATE, "this context works on %s already", ctx->device->name);
    if (name && strcmp(name, "cpu") == 0)
        return BRASA_OK;
    const int index = name ? device_number(name) : -1;
    if (index < 0)
        return fail(ctx, BRASA_BAD_ARGUMENT, "device: expected cpu, cuda or cuda:1, got '%.40s'", name ? name : "");
    opened *o = mem_get(ctx, sizeof *o);
    if (!o)
        return fail_memory(ctx, sizeof *o);
    const backend *b = open_backend("cuda", &o->library, why, sizeof why);
    brasa_status status = b ? b->open(ctx, index, &o->device) : fail(ctx, BRASA_NOT_FOUND, "%s: %s", name, why);
    if (status == BRASA_OK)
        status = list_kernels(ctx, b, o);
    if (status != BRASA_OK) {
        release(ctx, o);
        return status;
    }
    *slot = (library){o, release};
    ctx->device = o->device;
    return BRASA_OK;
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

void *tensors_get(brasa_context *ctx, size_t bytes, char **start)
{
    if (!ctx->device)
        return mem_get_large(ctx, bytes, start);
    return *start = ctx->device->get(ctx->device, bytes);
}

void tensors_put(brasa_context *ctx, void *block)
{
    if (!ctx->device)
        mem_put(ctx, block);
    else if (block)
        ctx->device->put(ctx->device, block);
}

void *pinned_get(brasa_context *ctx, size_t bytes)
{
    void *block = ctx->device ? ctx->device->get_pinned(ctx->device, bytes) : mem_get(ctx, bytes);
    if (ctx->device && block)
        memset(block, 0, bytes);
    return block;
}

void pinned_put(brasa_context *ctx, void *block)
{
    if (!ctx->device)
        mem_put(ctx, block);
    else if (block)
        ctx->device->put_pinned(ctx->device, block);
}

brasa_status tensors_clear(brasa_context *ctx, void *to, size_t bytes)
{
    if (ctx->device)
        return ctx->device->clear(ctx->device, to, bytes);
    memset(to, 0, bytes);
    return BRASA_OK;
}

brasa_status tensors_copy(brasa_context *ctx, void *to, const void *from, size_t bytes)
{
    if (ctx->device)
        return ctx->device->copy(ctx->device, to, from, bytes);
    memcpy(to, from, bytes);
    return BRASA_OK;
}

brasa_status device_copy_in(brasa_context *ctx, void *to, const void *from, size_t bytes)
{
    if (ctx->device)
        return ctx->device->copy_in(ctx->device, to, from, bytes);
    memcpy(to, from, bytes);
    return BRASA_OK;
}

brasa_status device_copy_out(brasa_context *ctx, void *to, const void *from, size_t bytes)
{
    if (ctx->device)
        return ctx->device->copy_out(ctx->device, to, from, bytes);
    memcpy(to, from, bytes);
    return BRASA_OK;
}
