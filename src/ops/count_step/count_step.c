/* count_step.c - one more training step is done. The last node of a training program: the others read the old count.
 */
#include "ops/op.h"

#ifdef REAL

/* in: steps done (i64); out: the same value */
static brasa_status NAME(count_step)(const step *s)
{
    *(int64_t *)s->out[0].data = *(const int64_t *)s->in[0].data + 1;
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/count_step/count_step.c"
#include "ops/real.h"

const op_def count_step_op = {.name = "count_step"};

const op_def *const count_step_parts[] = {&count_step_op, NULL};
const kernel count_step_ref[] = {REFERENCE(count_step_op, count_step), {0}};

#endif
