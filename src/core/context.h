/* context.h - what every other part carries: memory, the last error, the size of the thread pool.
 *
 * One thread at a time uses a context and what was made from it, so nothing here is locked.
 */
#ifndef CORE_CONTEXT_H
#define CORE_CONTEXT_H

#include "brasa.h"
#include "core/isa.h"
#include "core/options.h"

enum { ERROR_TEXT_SIZE = 1024, MOST_THREADS = 1024, MEM_ALIGN = 64 };

/* What a backend keeps for a context: handles of a library, made on first use, released with the context. */
typedef struct library {
    void *data;
    void (*release)(brasa_context *ctx, void *data);
} library;
typedef enum library_id { LIBRARY_ONEDNN, LIBRARY_DEVICE, LIBRARIES } library_id;

struct brasa_context {
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
    int threads;
    isa isa;               /* the best that kernels may use */
    struct device *device; /* where sessions compute: the CPU, until brasa_context_use names another */
    library library[LIBRARIES];
    char error[ERROR_TEXT_SIZE]; /* fixed, so that running out of memory can be told too */
};

/* Zeroed memory from the context's allocator, or NULL. */
void *mem_get(brasa_context *ctx, size_t bytes);
void mem_put(brasa_context *ctx, void *block);
/* Memory for tensors, aligned for vectors (MEM_ALIGN), or NULL; not zeroed. The system is asked for huge pages: with
 * small ones a pass over weights waits for the page table (alexnet at batch 1: 12 %). */
void *mem_get_large(brasa_context *ctx, size_t bytes);
void mem_put_large(brasa_context *ctx, void *start);

/* device.c: memory that the context's device copies from and to by itself, zeroed (device.h). */
void *pinned_get(brasa_context *ctx, size_t bytes);
void pinned_put(brasa_context *ctx, void *block);

/* A context without a device; brasa_context_new (device.c) opens the CPU for it. */
brasa_status context_make(const brasa_context_options *options, brasa_context **out);

/* Sets the error text, unless ctx is NULL, and returns `status`: `return fail(ctx, BRASA_BAD_SHAPE, "...")`. */
brasa_status fail(brasa_context *ctx, brasa_status status, const char *format, ...) BRASA_PRINTF(3, 4);
brasa_status fail_memory(brasa_context *ctx, size_t bytes);
/* For public calls: `call`, __func__, was given a NULL where it needs one of `what`, "a session and a name". */
brasa_status fail_null(brasa_context *ctx, const char *call, const char *what);
/* Puts `prefix: ` before the error text, where a caller knows more (the file and line, say). */
void fail_prefix(brasa_context *ctx, const char *format, ...) BRASA_PRINTF(2, 3);

#endif
