/* context.c - memory hooks and error text. */
#define _DEFAULT_SOURCE /* madvise */
#include "core/context.h"
#include "core/threads.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *default_alloc(void *user, size_t bytes)
{
    (void)user;
    return malloc(bytes);
}

static void default_release(void *user, void *block)
{
    (void)user;
    free(block);
}

brasa_status context_make(const brasa_context_options *options, brasa_context **out)
{
    brasa_context_options o;
    if (out)
        *out = NULL;
    if (!out || options_take(NULL, &o, sizeof o, options, "brasa_context_options") != BRASA_OK || o.threads < 0 ||
        o.threads > MOST_THREADS || (o.alloc == NULL) != (o.release == NULL))
        return BRASA_BAD_ARGUMENT;

    void *(*alloc)(void *, size_t) = o.alloc ? o.alloc : default_alloc;
    brasa_context *ctx = alloc(o.user, sizeof *ctx);
    if (!ctx)
        return BRASA_OUT_OF_MEMORY;
    memset(ctx, 0, sizeof *ctx);
    ctx->alloc = alloc;
    ctx->release = o.release ? o.release : default_release;
    ctx->user = o.user;
    ctx->isa = isa_available();
    ctx->threads = o.threads ? threads_granted(o.threads) : threads_available();
    *out = ctx;
    return BRASA_OK;
}

void brasa_context_free(brasa_context *ctx)
{
    if (!ctx)
        return;
    for (int i = 0; i < LIBRARIES; i++)
        if (ctx->library[i].data)
            ctx->library[i].release(ctx, ctx->library[i].data);
    ctx->release(ctx->user, ctx);
}

const char *brasa_context_error(const brasa_context *ctx)
{
    return ctx ? ctx->error
               : "there is no context: brasa_context_new was out of memory, or refused its options: size must be "
                 "sizeof(brasa_context_options), threads from 0 to 1024, alloc and release both set or both NULL";
}

int32_t brasa_context_threads(const brasa_context *ctx)
{
    return ctx ? ctx->threads : 0;
}

const char *brasa_version(void)
{
    return BRASA_VERSION;
}

const char *brasa_status_text(brasa_status status)
{
    switch (status) {
    case BRASA_OK:
        return "ok";
    case BRASA_OUT_OF_MEMORY:
        return "out of memory";
    case BRASA_BAD_ARGUMENT:
        return "bad argument";
    case BRASA_BAD_SHAPE:
        return "bad shape";
    case BRASA_BAD_FILE:
        return "bad file";
    case BRASA_NOT_FOUND:
        return "not found";
    case BRASA_NO_KERNEL:
        return "no kernel";
    case BRASA_WRONG_STATE:
        return "wrong state";
    case BRASA_INTERNAL:
        return "internal error";
    }
    return "unknown status";
}

void *mem_get(brasa_context *ctx, size_t bytes)
{
    void *block = ctx->alloc(ctx->user, bytes);
    if (block)
        memset(block, 0, bytes);
    return block;
}

/* Only pages that lie in the block as a whole: it takes no more memory than it would with small ones. */
static void prefer_huge_pages(char *block, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    enum { HUGE_PAGE = 2 << 20 };
    const size_t before = (HUGE_PAGE - (uintptr_t)block % HUGE_PAGE) % HUGE_PAGE;
    if (bytes >= before + HUGE_PAGE)
        (void)madvise(block + before, (bytes - before) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* a wish */
#else
    (void)block, (void)bytes;
#endif
}

/* The allocator's block begins before the first aligned byte, where its address stands: allocators align to it. */
void *mem_get_large(brasa_context *ctx, size_t bytes)
{
    char *block = bytes <= SIZE_MAX - MEM_ALIGN ? ctx->alloc(ctx->user, bytes + MEM_ALIGN) : NULL;
    if (!block)
        return NULL;
    char *start = block + MEM_ALIGN - (uintptr_t)block % MEM_ALIGN;
    memcpy(start - sizeof block, &block, sizeof block);
    if (ctx->alloc == default_alloc) /* what a program gives is its own */
        prefer_huge_pages(start, bytes);
    return start;
}

void mem_put_large(brasa_context *ctx, void *start)
{
    void *block = NULL;
    if (start)
        memcpy(&block, (char *)start - sizeof block, sizeof block);
    mem_put(ctx, block);
}

void mem_put(brasa_context *ctx, void *block)
{
    if (block)
        ctx->release(ctx->user, block);
}

brasa_status fail(brasa_context *ctx, brasa_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (ctx)
        vsnprintf(ctx->error, sizeof ctx->error, format, args);
    va_end(args);
    return status;
}

brasa_status fail_null(brasa_context *ctx, const char *call, const char *what)
{
    return fail(ctx, BRASA_BAD_ARGUMENT, "%s: NULL was given: it needs %s", call, what);
}

brasa_status fail_memory(brasa_context *ctx, size_t bytes)
{
    if (bytes == 0) /* one of several pieces */
        return fail(ctx, BRASA_OUT_OF_MEMORY, "out of memory");
    return fail(ctx, BRASA_OUT_OF_MEMORY, "out of memory: %zu bytes were asked for", bytes);
}

void fail_prefix(brasa_context *ctx, const char *format, ...)
{
    char text[ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    int used = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (used < 0 || (size_t)used >= sizeof text - 3)
        return;
    if (snprintf(text + used, sizeof text - (size_t)used, ": %s", ctx->error) >
        0) /* the end of a long text is lost */
        memcpy(ctx->error, text, sizeof text);
}
