/* registry.c - the tables made of ops.def. The only place that knows which features this build has. */
#include "device/cpu/cpu.h"
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

/* Second reading: the ops, each a list of itself and its parts. */
static const op_def *const *const ops[] = {
#define OP(name) name##_parts,
#define REF(name)
#define CUDA(name)
#define WIDE(name)
#define ONEDNN(name)
#define SIMD(name)
#include "ops/ops.def"
#undef OP
#undef REF
#undef WIDE
#undef ONEDNN
#undef SIMD
};

/* Third reading: the CPU's kernels. */
const kernel *const cpu_kernels[] = {
#define OP(name)
#define REF(name)  name##_ref,
#define WIDE(name) name##_wide,
#ifdef BRASA_ONEDNN
#define ONEDNN(name) name##_onednn,
#else
#define ONEDNN(name)
#endif
#ifdef BRASA_SIMD
#define SIMD(name) name##_avx512, name##_avx2,
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
    NULL};

enum { OPS = sizeof ops / sizeof ops[0] };

const op_def *op_at(int index)
{
    for (int o = 0; o < OPS; o++)
        for (const op_def *const *part = ops[o]; *part; part++)
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
    for (const kernel *const *list = ctx ? ctx->device->kernels : cpu_kernels; *list; list++)
        for (const kernel *k = *list; k->name; k++) {
            if (passed && k->op == op && k->real == real)
                return k;
            passed = passed || k == after;
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
