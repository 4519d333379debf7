/* constant.c - a scalar that never changes, such as the gradient of the loss by itself. Its attribute is a double. */
#include "ops/op.h"

#ifdef REAL

static brasa_status NAME(constant)(const step *s)
{
    *(REAL *)s->out[0].data = (REAL) * (const double *)s->attr;
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/constant/constant.c"
#include "ops/real.h"

static brasa_status infer(infer_args *a)
{
    a->out[0] = (shape){0};
    return BRASA_OK;
}

const op_def constant_op = {.name = "constant", .attr_size = sizeof(double), .infer = infer};

const op_def *const constant_parts[] = {&constant_op, NULL};
const kernel constant_ref[] = {REFERENCE(constant_op, constant), {0}};

#endif
