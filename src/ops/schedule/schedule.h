/* schedule.h - the learning rate of a step, from the number t of steps done before it: for the CPU and for devices.
 *
 *     warm-up    rate (t + 1) / warmup                                          for t < warmup; after it:
 *     constant   rate
 *     step       rate gamma^(t / every), rounded down: cuts lie at whole multiples of `every`, warm-up included
 *     cosine     floor + (rate - floor) (1 + cos(pi u / T)) / 2                 u = t - warmup, T = steps - warmup,
 *                                                                               and `floor` from then on
 * All of it divided by 1 + decay t: the optimizer's own decay in time. Computed in double, once a step.
 */
#ifndef OPS_SCHEDULE_H
#define OPS_SCHEDULE_H

#include "core/on_device.h"
#include "ops/optimizer.h"

#include <math.h>

enum { SCHEDULE_CONSTANT, SCHEDULE_STEP, SCHEDULE_COSINE };

static inline ON_DEVICE double schedule_before_decay(const schedule_attr *a, double t)
{
    const double pi = 3.14159265358979323846;
    if (t < a->warmup)
        return a->rate * (t + 1) / a->warmup;
    if (a->kind == SCHEDULE_STEP)
        return a->rate * pow(a->gamma, floor(t / a->every));
    if (a->kind == SCHEDULE_COSINE) {
        const double u = (t - a->warmup) / (a->steps - a->warmup);
        return u >= 1 ? a->floor : a->floor + (a->rate - a->floor) * (1 + cos(pi * u)) / 2;
    }
    return a->rate;
}

static inline ON_DEVICE double schedule_at(const schedule_attr *a, int64_t steps)
{
    const double t = (double)steps;
    return schedule_before_decay(a, t) / (1 + a->decay * t);
}

#endif
