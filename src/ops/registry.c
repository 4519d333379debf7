/* registry.c - the table of ops, and kernels by what they are for. */
#include "device/cpu/cpu.h"
#include "device/device.h"
#ifdef BRASA_ONEDNN
#include "device/cpu/onednn.h"
#endif

#include <string.h>

#define OP(name) extern const op_def *const name##_parts[];
#include "ops/ops.def"

/* Each a list of an op and its parts. */
static const op_def *const *const ops[] = {
#define OP(name) name##_parts,
#include "ops/ops.def"
};

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
