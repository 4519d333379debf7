/* dropout_simd.c - dropout with as many groups of random numbers at once as a vector has lanes.
 *
 * The cost is Philox's ten rounds, each with two products of 64 bits. So the groups are held in two halves, those of
 * the even and of the odd lanes, in lanes of 64 bits: a product is then one instruction, which reads the lower 32
 * bits only, and what is left in the upper ones does no harm.
 */
#include "device/cpu/simd.h"
#include "ops/dropout/dropout.h"

typedef uint32_t words __attribute__((vector_size(BLOCK * sizeof(uint32_t))));

/* random_at for a half: words 0 to 3 of its groups. */
static inline void draw_half(const random_stream *s, vec64 group, vec64 out[4])
{
    const vec64 m0 = vec64_all(0xD2511F53), m1 = vec64_all(0xCD9E8D57);
    vec64 c0 = group, c1 = group >> 32, c2 = vec64_all(s->step);
    vec64 c3 = vec64_all((uint32_t)s->purpose << 24 | (s->stream & 0xFFFFFF));
    uint32_t k0 = (uint32_t)s->seed, k1 = (uint32_t)(s->seed >> 32);
    for (int round = 0; round < 10; round++) {
        const vec64 p0 = vec64_multiply(c0, m0), p1 = vec64_multiply(c2, m1);
        c0 = (p1 >> 32) ^ c1 ^ vec64_all(k0);
        c1 = p1;
        c2 = (p0 >> 32) ^ c3 ^ vec64_all(k1);
        c3 = p0;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Words 0 to 3 of the groups of all lanes. */
static inline void draw(const random_stream *s, vec64 even, vec64 odd, words out[4])
{
    vec64 a[4], b[4];
    draw_half(s, even, a);
    draw_half(s, odd, b);
    for (int j = 0; j < 4; j++)
        out[j] = (words)((a[j] & vec64_all(0xFFFFFFFF)) | b[j] << 32);
}

typedef struct mask {
    random_stream stream;
    int32_t limit;
    float factor;
} mask;

static mask mask_of(const step *s)
{
    return (mask){dropout_stream(s), (int32_t)dropout_limit(s->attr), (float)dropout_factor(s->attr)};
}

/* What each element is multiplied by. */
static inline vec factors(const mask *m, words w)
{
    return vec_choose((veci)(w >> 8) >= m->limit, vec_all(m->factor), (vec){0});
}

/* Word j of the groups in the lanes of w[j] becomes four words that follow each other: vector i has, in each quarter
 * (half, with eight lanes), those of the i-th of its four lanes. */
static inline void interleave(const words w[4], words out[4])
{
#ifdef SIMD_AVX512
#define PAIRS(low, a, b) (words) _mm512_unpack##low##_epi32((__m512i)(a), (__m512i)(b))
#define FOURS(low, a, b) (words) _mm512_unpack##low##_epi64((__m512i)(a), (__m512i)(b))
#else
#define PAIRS(low, a, b) (words) _mm256_unpack##low##_epi32((__m256i)(a), (__m256i)(b))
#define FOURS(low, a, b) (words) _mm256_unpack##low##_epi64((__m256i)(a), (__m256i)(b))
#endif
    const words a = PAIRS(lo, w[0], w[1]), b = PAIRS(lo, w[2], w[3]);
    const words c = PAIRS(hi, w[0], w[1]), d = PAIRS(hi, w[2], w[3]);
    out[0] = FOURS(lo, a, b);
    out[1] = FOURS(hi, a, b);
    out[2] = FOURS(lo, c, d);
    out[3] = FOURS(hi, c, d);
#undef PAIRS
#undef FOURS
}

/* Which group a lane draws, counted from the item's first, so that `interleave` puts them in their order. */
static inline uint64_t group_of(int lane)
{
    return (uint64_t)(lane % 4 * (BLOCK / 4) + lane / 4);
}

/* item: BLOCK groups, which follow each other; the first may begin before the tensor does */
static void plain_range(const step *s, int64_t begin, int64_t end)
{
    const mask m = mask_of(s);
    const int64_t before = dropout_first(s), shift = before % 4, count = s->out[0].count;
    vec64 even, odd;
    for (int l = 0; l < BLOCK; l += 2) {
        even[l / 2] = (uint64_t)(before / 4 + begin * BLOCK) + group_of(l);
        odd[l / 2] = (uint64_t)(before / 4 + begin * BLOCK) + group_of(l + 1);
    }
    for (int64_t item = begin; item < end; item++, even += BLOCK, odd += BLOCK) {
        words w[4], in_order[4];
        draw(&m.stream, even, odd, w);
        interleave(w, in_order);
        _Alignas(64) float keep[4 * BLOCK];
        for (int j = 0; j < 4; j++)
            *(vec *)(keep + j * BLOCK) = factors(&m, in_order[j]);
        const int64_t first = item * 4 * BLOCK - shift, skip = first < 0 ? -first : 0;
        const float *src = (const float *)s->in[0].data + first;
        float *dst = (float *)s->out[0].data + first;
        if (skip == 0 && count - first >= 4 * BLOCK)
            for (int64_t i = 0; i < 4 * BLOCK; i++)
                dst[i] = src[i] * keep[i];
        else
            for (int64_t i = skip; i < (count - first < 4 * BLOCK ? count - first : 4 * BLOCK); i++)
                dst[i] = src[i] * keep[i];
    }
}

/* The planes of a block begin anywhere in their first group: the lane's pixel p is word p + shift of its groups. */
typedef struct planes {
    vec64 even, odd; /* their first groups */
    words shift;
} planes;

static planes planes_at(int64_t first_plane, int64_t HW)
{
    planes p;
    for (int l = 0; l < BLOCK; l++) {
        const uint64_t first = (uint64_t)((first_plane + l) * HW);
        p.shift[l] = (uint32_t)(first % 4);
        if (l % 2)
            p.odd[l / 2] = first / 4;
        else
            p.even[l / 2] = first / 4;
    }
    return p;
}

/* A lane's word is one of four that follow each other. */
static inline words shifted(const words w[4], words shift)
{
    words out = {0};
    for (uint32_t j = 0; j < 4; j++)
        out |= w[j] & (words)(shift == j);
    return out;
}

/* item: a block of planes. Two groups of each lane are at hand, for four pixels may reach from one into the next. */
static void blocked_range(const step *s, int64_t begin, int64_t end)
{
    const mask m = mask_of(s);
    const int64_t C = s->in[0].shape.dim[1], HW = shape_span(&s->in[0].shape, 2, 4), blocks = blocks_of(C);
    const int64_t before = dropout_first(s) / HW;
    for (int64_t item = begin; item < end; item++) {
        const planes p = planes_at(before + item / blocks * C + item % blocks * BLOCK, HW);
        const vec *src = (const vec *)s->in[0].data + item * HW;
        vec *dst = (vec *)s->out[0].data + item * HW;
        words w[8];
        draw(&m.stream, p.even, p.odd, w + 4);
        for (int64_t i = 0; i < HW; i += 4) {
            const uint64_t next = (uint64_t)i / 4 + 1;
            for (int j = 0; j < 4; j++)
                w[j] = w[j + 4];
            draw(&m.stream, p.even + next, p.odd + next, w + 4);
            for (int64_t j = 0; j < 4 && i + j < HW; j++)
                dst[i + j] = src[i + j] * factors(&m, shifted(w + j, p.shift));
        }
    }
}

static brasa_status dropout(const step *s)
{
    const shape *x = &s->in[0].shape;
    if (s->in[0].format.layout.nblocks)
        step_for(s, x->dim[0] * blocks_of(x->dim[1]), dropout_work(s), blocked_range);
    else
        step_for(s, (dropout_first(s) % 4 + s->out[0].count + 4 * BLOCK - 1) / (4 * BLOCK), dropout_work(s),
                 plain_range);
    return BRASA_OK;
}

const kernel SIMD_TABLE(dropout)[] = {
    SIMD_ROW("dropout", dropout_op, .supports = simd_matches, .formats = cpu_formats, .run = dropout),
    {0},
};
