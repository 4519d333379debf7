/* clip_scale.c - what gradients are multiplied with so that the norm of all of them together stays within a limit.
 *
 * Squares are summed in double; every tensor is cut into a fixed number of parts, so the result does not depend on
 * the number of threads. A norm that is not a number makes the scale NaN too: a broken step must not look like a good
 * one.
 */
#include "ops/clip_scale/clip_scale.h"

#include <math.h>

#ifndef REAL /* once, before the kernels */

enum { LANES = 64, SUMS = 16 };

#endif
#ifdef REAL

/* The sum of the squares of part `lane` of a tensor. */
static double NAME(lane_squares)(const REAL *src, int64_t count, int64_t lane)
{
    double sum[SUMS] = {0}; /* so many at once: the compiler may use vectors without reordering anything */
    int64_t i = count * lane / LANES;
    const int64_t end = count * (lane + 1) / LANES;
    for (; i + SUMS <= end; i += SUMS)
        for (int j = 0; j < SUMS; j++)
            sum[j] += (double)src[i + j] * src[i + j];
    for (; i < end; i++)
        sum[0] += (double)src[i] * src[i];
    for (int half = SUMS / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            sum[j] += sum[j + half];
    return sum[0];
}

/* item: a lane */
static void NAME(clip_scale_range)(const step *s, int64_t begin, int64_t end)
{
    double *part = s->workspace;
    for (int64_t lane = begin; lane < end; lane++) {
        part[lane] = 0;
        for (int k = 0; k < s->nin; k++)
            part[lane] += NAME(lane_squares)(s->in[k].data, s->in[k].count, lane);
    }
}

/* in: gradients ...; out: scalar; workspace: a sum for each lane */
static brasa_status NAME(clip_scale)(const step *s)
{
    const double *part = s->workspace;
    double all = 0, work = 0;
    for (int k = 0; k < s->nin; k++)
        work += (double)s->in[k].count;
    step_for(s, LANES, work, NAME(clip_scale_range));
    for (int lane = 0; lane < LANES; lane++)
        all += part[lane];
    *(REAL *)s->out[0].data = (REAL)clip_scale_of(s->attr, sqrt(all));
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/clip_scale/clip_scale.c"
#include "ops/wide.h"

static brasa_status infer(infer_args *a)
{
    a->out[0] = (shape){0};
    return BRASA_OK;
}

static int64_t workspace(const graph *g, const node *n)
{
    (void)g;
    (void)n;
    return LANES * (int64_t)sizeof(double);
}

const op_def clip_scale_op = {.name = "clip_scale", .attr_size = sizeof(clip_attr), .infer = infer};

const op_def *const clip_scale_parts[] = {&clip_scale_op, NULL};
const kernel clip_scale_wide[] = {WIDE_(clip_scale_op, clip_scale, .workspace = workspace), {0}};

#endif
