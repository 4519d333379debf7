/* softmax_cross_entropy_simd.c - the loss with as many classes at once as a vector has lanes, and exp of our own.
 *
 * For the loss without smoothing and class weights, which is what nearly all networks have. The sum of a row's
 * exponentials is kept in float, in BLOCK running sums; the losses are added up in double, as the reference does.
 */
#include "device/cpu/simd.h"
#include "ops/softmax_cross_entropy/softmax_cross_entropy.h"

#include <math.h>

/* e^x for x <= 0: x = n ln 2 + r with |r| <= ln 2 / 2, where eight terms of the series leave 6e-9 of the value. What
 * would be denormal is zero; NaN stays NaN. */
static inline vec exp_below(vec x)
{
    const vec least = vec_all(-87.33f), magic = vec_all(0x1.8p23f); /* adding it rounds to an integer */
    const vec from = vec_choose((veci)(x < least), least, x);
    const vec shifted = from * 1.44269504f + magic, n = shifted - magic;
    const vec r = from - n * 0.693359375f - n * -2.12194440e-4f; /* ln 2 in two parts, the first of nine bits */
    vec sum = vec_all(1.0f / 5040);
    sum = sum * r + 1.0f / 720;
    sum = sum * r + 1.0f / 120;
    sum = sum * r + 1.0f / 24;
    sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1;
    sum = sum * r + 1;
    const vec power = (vec)(((veci)shifted - (veci)magic + 127) << 23);
    return vec_choose((veci)(x < least), (vec){0}, sum * power);
}

static inline float largest_lane(vec x)
{
#ifdef SIMD_AVX512
    return _mm512_reduce_max_ps((__m512)x);
#else
    float top = x[0];
    for (int l = 1; l < BLOCK; l++)
        top = x[l] > top ? x[l] : top;
    return top;
#endif
}

/* dst = softmax of a row; returns the loss of its label. */
static inline double row_loss(const float *src, float *dst, int64_t C, int64_t label)
{
    const vec none = vec_all(-INFINITY); /* what is beyond the end of the row counts nothing */
    vec top = none, sum = {0};
    for (int64_t c = 0; c < C; c += BLOCK) {
        const vec x = load_lanes(src + c, first_lanes(C - c), none);
        top = vec_choose((veci)(x > top), x, top);
    }
    const float most = largest_lane(top);
    for (int64_t c = 0; c < C; c += BLOCK) {
        const lane_mask here = first_lanes(C - c);
        const vec e = exp_below(load_lanes(src + c, here, none) - most);
        store_lanes(dst + c, e, here);
        sum += e;
    }
    const float total = sum_lanes(sum);
    const vec inverse = vec_all(1 / total);
    for (int64_t c = 0; c < C; c += BLOCK) {
        const lane_mask here = first_lanes(C - c);
        store_lanes(dst + c, load_lanes(dst + c, here, none) * inverse, here);
    }
    return label < 0 || label >= C ? (double)NAN : (double)most + (double)logf(total) - (double)src[label];
}

/* item: a lane */
static void loss_range(const step *s, int64_t begin, int64_t end)
{
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    const float *src = s->in[0].data;
    const int32_t *labels = s->in[1].data;
    float *dst = s->out[1].data;
    double *part = s->workspace;
    for (int64_t lane = begin; lane < end; lane++) {
        part[lane] = 0;
        for (int64_t n = N * lane / LANES; n < N * (lane + 1) / LANES; n++)
            part[lane] += row_loss(src + n * C, dst + n * C, C, labels[n]);
    }
}

/* in: src (logits), labels; out: loss, dst (probabilities); workspace: a sum for each lane */
static brasa_status softmax_cross_entropy(const step *s)
{
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    const double *part = s->workspace;
    double sum = 0;
    step_for(s, LANES, (double)(N * C) * 2, loss_range);
    for (int lane = 0; lane < LANES; lane++)
        sum += part[lane];
    *(float *)s->out[0].data = (float)(sum / (double)N);
    return BRASA_OK;
}

static bool supports(const graph *g, const node *n)
{
    const loss_attr *t = n->attr;
    return simd_matches(g, n) && t->smoothing == 0 && !t->weights;
}

const kernel SIMD_TABLE(softmax_cross_entropy)[] = {
    SIMD_ROW("softmax_cross_entropy", softmax_cross_entropy_op, .supports = supports, .workspace = loss_workspace,
             .run = softmax_cross_entropy),
    {0},
};
