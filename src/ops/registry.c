/* registry.c - the tables made of ops.def. The only place that knows which features this build has. */
#include "device/device.h"
#ifdef BRASA_ONEDNN
#include "device/cpu/onednn.h"
#endif

#include <string.h>

/* First reading: declarations. */
#define OP(name)  extern const op_def *const name##_parts[];
#define REF(name) extern const kernel name##_ref[];
#define CUDA(name)
#define WIDE(name) extern const kernel name##_wide[];
#ifdef BRASA_ONEDNN
#define ONEDNN(name) extern const kernel name##_onednn[];
#else
#define ONEDNN(name)
#endif
#ifdef BRASA_SIMD
#define SIMD(name) extern const kernel name##_avx512[], name##_avx2[];
#else
#define SIMD(name)
#endif
#include "ops/ops.def"
#undef OP
#undef REF
#undef WIDE
#undef CUDA
#undef ONEDNN
#undef SIMD

/* Second reading: one flat list, an op followed by its kernel lists, fastest first. */
static const struct row {
    const op_def *const *parts; /* NULL-terminated, the op itself first; NULL in a kernel row */
    const kernel *kernels;      /* ended by a kernel with no name; NULL in an op row */
} rows[] = {
#define OP(name)  {.parts = name##_parts},
#define REF(name) {.kernels = name##_ref},
#define CUDA(name)
#define WIDE(name) {.kernels = name##_wide},
#ifdef BRASA_ONEDNN
#define ONEDNN(name) {.kernels = name##_onednn},
#else
#define ONEDNN(name)
#endif
#ifdef BRASA_SIMD
#define SIMD(name) {.kernels = name##_avx512}, {.kernels = name##_avx2},
#else
#define SIMD(name)
#endif
#include "ops/ops.def"
#undef OP
#undef REF
#undef WIDE
#undef CUDA
#undef ONEDNN
#undef SIMD
};

enum { ROWS = sizeof rows / sizeof rows[0] };

const op_def *op_at(int index)
{
    for (int r = 0; r < ROWS; r++)
        for (const op_def *const *part = rows[r].parts; part && *part; part++)
            if (index-- == 0)
                return *part;
    return NULL;
}

const op_def *op_find(const char *word)
{
    for (int i = 0; op_at(i); i++) {
        const op_def *op = op_at(i);
        if (op->help && (strcmp(op->name, word) == 0 || (op->alias && strcmp(op->alias, word) == 0)))
            return op;
    }
    return NULL;
}

const kernel *kernel_next(const brasa_context *ctx, const op_def *op, dtype real, const kernel *after)
{
    bool passed = !after;
    if (ctx && ctx->device) {
        for (const kernel *k = after ? after + 1 : ctx->device->kernels; k->name; k++)
            if (k->op == op && k->real == real)
                return k;
        return NULL;
    }
    for (int r = 0; r < ROWS; r++) {
        for (const kernel *k = rows[r].kernels; k && k->name; k++) {
            if (passed && k->op == op && k->real == real)
                return k;
            passed = passed || k == after;
        }
    }
    return NULL;
}

const kernel *kernel_find(const brasa_context *ctx, const op_def *op, dtype real, const char *name)
{
    const kernel *k = kernel_next(ctx, op, real, NULL);
    while (k && strcmp(k->name, name) != 0)
        k = kernel_next(ctx, op, real, k);
    return k;
}

bool kernel_named(const brasa_context *ctx, const char *text)
{
    for (int i = 0; op_at(i); i++)
        for (dtype real = F32; real <= F64; real++)
            for (const kernel *k = NULL; (k = kernel_next(ctx, op_at(i), real, k)) != NULL;)
                if (strstr(k->name, text))
                    return true;
    return false;
}

const char *library_onednn(void)
{
#ifdef BRASA_ONEDNN
    return onednn_version();
#else
    return NULL;
#endif
}
