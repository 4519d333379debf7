/* moving_average.c - running = (1 - share) running + share scale stat.
 *
 * With `debias`, as in Caffe, running is the mean of all values so far, each weighing (1 - share) as much as the one
 * after it. After n of them the weights add up to F = (1 - (1 - share)^n) / share, so the newest has the share 1 / F:
 * 1 at first, then ever closer to `share`. With a share of 0 that is the plain mean, 1 / n.
 */
#include "ops/moving_average/moving_average.h"

#ifdef REAL

/* in: running, stat, steps done; out: running */
static brasa_status NAME(moving_average)(const step *s)
{
    const moving_average_attr *t = s->attr;
    const REAL *old = s->in[0].data, *stat = s->in[1].data;
    const int64_t *steps = s->in[2].data;
    REAL *running = s->out[0].data;
    const int64_t count = shape_count(&s->out[0].shape);
    const double share = moving_average_share(t, *steps + 1);
    for (int64_t i = 0; i < count; i++)
        running[i] = (REAL)((1 - share) * old[i] + share * t->scale * stat[i]);
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/moving_average/moving_average.c"
#include "ops/real.h"

const op_def moving_average_op = {.name = "moving_average", .attr_size = sizeof(moving_average_attr)};

const op_def *const moving_average_parts[] = {&moving_average_op, NULL};
const kernel moving_average_ref[] = {REFERENCE(moving_average_op, moving_average), {0}};

#endif
