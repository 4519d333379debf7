/* constant.c - numbers that never change: a scalar, such as the gradient of the loss by itself, whose attribute is a
 * double; and a vector, such as the weights of classes. */
#include "ops/op.h"

#ifdef REAL

static brasa_status NAME(constant)(const step *s)
{
    *(REAL *)s->out[0].data = (REAL) * (const double *)s->attr;
    return BRASA_OK;
}

static brasa_status NAME(constants)(const step *s)
{
    const constants_attr *t = s->attr;
    for (int64_t i = 0; i < t->count; i++)
        ((REAL *)s->out[0].data)[i] = (REAL)t->values[i];
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

static brasa_status infer_vector(infer_args *a)
{
    a->out[0] = shape_1(((const constants_attr *)a->attr)->count);
    return BRASA_OK;
}

const op_def constant_op = {.name = "constant", .attr_size = sizeof(double), .infer = infer};
const op_def constants_op = {.name = "constants", .attr_size = sizeof(constants_attr), .infer = infer_vector};

const op_def *const constant_parts[] = {&constant_op, &constants_op, NULL};
const kernel constant_ref[] = {REFERENCE(constant_op, constant), REFERENCE(constants_op, constants), {0}};

#endif
