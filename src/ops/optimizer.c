/* optimizer.c - the list of optimizers. */
#include "ops/optimizer.h"

static const optimizer_def *const optimizers[] = {
    &sgd_optimizer, &rmsprop_optimizer, &adadelta_optimizer, &adam_optimizer, &adamw_optimizer,
};
enum { OPTIMIZERS = sizeof optimizers / sizeof optimizers[0] };

const optimizer_def *optimizer_at(int index)
{
    return index >= 0 && index < OPTIMIZERS ? optimizers[index] : NULL;
}

bool optimizer_is(const op_def *op)
{
    for (int i = 0; i < OPTIMIZERS; i++)
        if (optimizers[i]->op == op)
            return true;
    return false;
}
