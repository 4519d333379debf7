/* accumulate.c - sums over the parts of a batch, and what they come to: the means over the batch.
 *
 * A batch that is too large for the memory is computed in parts. The program of a part adds each gradient, and each
 * scalar that is to be read, to a sum, multiplied by what the part counts; after the last part another program
 * divides the sums by what all parts count.
 */
#include "ops/op.h"

#ifdef REAL

static void NAME(accumulate_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *src = s->in[1].data;
    const REAL factor = s->nin > 3 ? *(const REAL *)s->in[3].data : 1;
    REAL *sum = s->out[0].data;
    if (*(const int64_t *)s->in[2].data == 0)
        for (int64_t i = begin; i < end; i++)
            sum[i] = factor * src[i];
    else
        for (int64_t i = begin; i < end; i++)
            sum[i] += factor * src[i];
}

/* in: sum, src, samples in earlier parts (0: this is the first, the sum starts with it) [, factor (scalar)];
 * out: sum += factor x src */
SPLIT_STEP(NAME(accumulate), NAME(accumulate_range), s->out[0].count, (double)s->out[0].count)

static void NAME(mean_range)(const step *s, int64_t begin, int64_t end)
{
    const REAL *sum = s->in[0].data;
    const arg *by = &s->in[1];
    const REAL divisor = by->format.storage == I64 ? (REAL) * (const int64_t *)by->data : *(const REAL *)by->data;
    REAL *dst = s->out[0].data;
    for (int64_t i = begin; i < end; i++)
        dst[i] = sum[i] / divisor;
}

/* in: sum, divisor (scalar, real or i64); out: their quotient, which may be the sum itself */
SPLIT_STEP(NAME(mean), NAME(mean_range), s->out[0].count, (double)s->out[0].count)

#else

#define REAL_SOURCE "ops/accumulate/accumulate.c"
#include "ops/wide.h"

const op_def accumulate_op = {.name = "accumulate"};
const op_def mean_op = {.name = "mean", .infer = infer_same};

const op_def *const accumulate_parts[] = {&accumulate_op, &mean_op, NULL};
const kernel accumulate_wide[] = {WIDE(accumulate_op, accumulate), WIDE(mean_op, mean), {0}};

#endif
