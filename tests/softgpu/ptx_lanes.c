/* ptx_lanes.c - arithmetic on the lanes of a warp: see ptx_ops.def, and ptx.h for how registers lie.
 *
 * Each instruction is a loop over 32 lanes, which the compiler makes vectors of. Where some lanes do not take part,
 * theirs are computed as well, and not kept.
 */
#define _GNU_SOURCE
#include "ptx_run.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* --- what C has no sign for ------------------------------------------------------------------------------------ */

static inline uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Numbers that are not normal count as zero. */
static inline float flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* a * b + c, rounded down. The product is exact in double, and so is what the sum is off by. */
static inline float fma_down(float a, float b, float c)
{
    const double p = (double)a * b, s = p + c, back = s - p, off = (p - (s - back)) + (c - back);
    const float f = (float)s;
    return (double)f > s || ((double)f == s && off < 0) ? nextafterf(f, -INFINITY) : f;
}

static inline int32_t to_s32(double whole)
{
    return whole != whole ? 0 : whole >= 0x1p31 ? INT32_MAX : whole < -0x1p31 ? INT32_MIN : (int32_t)whole;
}

/* Of what is no number: the least, unlike of floats. */
static inline int32_t to_s32_f64(double whole)
{
    return whole != whole ? INT32_MIN : to_s32(whole);
}

/* To nearest, or even; from and to bits. */
static inline uint32_t to_bf16(uint32_t bits)
{
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* Four of the eight bytes of a and b. */
static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t which)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t n = which >> 4 * i & 15;
        uint32_t byte = (uint32_t)(bytes >> 8 * (n & 7)) & 255;
        if (n & 8)
            byte = byte & 128 ? 255 : 0;
        out |= byte << 8 * i;
    }
    return out;
}

/* --- the table ------------------------------------------------------------------------------------------------- */

/* How a type is computed with, how it lies in a register, its letter. */
typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
typedef float f32;
typedef double f64;
#define IN_u16     uint32_t
#define IN_u32     uint32_t
#define IN_s32     int32_t
#define IN_u64     uint64_t
#define IN_s64     int64_t
#define IN_f32     float
#define IN_f64     double
#define LETTER_u16 "2"
#define LETTER_u32 "4"
#define LETTER_s32 "4"
#define LETTER_u64 "8"
#define LETTER_s64 "8"
#define LETTER_f32 "4"
#define LETTER_f64 "8"

#define EACH_LANE   _Pragma("omp simd") for (int l = 0; l < LANES; l++)
#define PASTE(x, y) x##y

/* Most of the time all lanes take part. */
#define WORK(function, D, operands, before, expression)                                                              \
    static void run_##function(warp *w, const instruction *i, uint32_t lanes)                                        \
    {                                                                                                                \
        PASTE(IN_, D) *d = target(w, i->d);                                                                          \
        operands;                                                                                                    \
        if (lanes == ALL_LANES)                                                                                      \
            EACH_LANE                                                                                                \
            {                                                                                                        \
                before;                                                                                              \
                d[l] = (PASTE(IN_, D))(D)(expression);                                                               \
            }                                                                                                        \
        else                                                                                                         \
            EACH_LANE                                                                                                \
            {                                                                                                        \
                before;                                                                                              \
                const PASTE(IN_, D) x = (PASTE(IN_, D))(D)(expression), kept = d[l];                                 \
                d[l] = lanes >> l & 1 ? x : kept;                                                                    \
            }                                                                                                        \
    }
#define OPERAND(T, name) const PASTE(IN_, T) *from_##name = source(w, i->name)
#define TAKE(T, name)    const T name = (T)from_##name[l]

#define ONE(function, name, D, A, expression) WORK(function, D, OPERAND(A, a), TAKE(A, a), expression)
#define TWO(function, name, D, A, B, expression)                                                                     \
    WORK(function, D, OPERAND(A, a); OPERAND(B, b), TAKE(A, a); TAKE(B, b), expression)
#define THREE(function, name, D, A, B, C, expression)                                                                \
    WORK(function, D, OPERAND(A, a); OPERAND(B, b); OPERAND(C, c), TAKE(A, a); TAKE(B, b); TAKE(C, c), expression)
#define COMPARE(function, name, T, expression)                                                                       \
    static void run_##function(warp *w, const instruction *i, uint32_t lanes)                                        \
    {                                                                                                                \
        OPERAND(T, a);                                                                                               \
        OPERAND(T, b);                                                                                               \
        uint32_t *d = target(w, i->d), found = 0;                                                                    \
        for (int l = 0; l < LANES; l++) {                                                                            \
            TAKE(T, a);                                                                                              \
            TAKE(T, b);                                                                                              \
            found |= (uint32_t)(expression) << l;                                                                    \
        }                                                                                                            \
        *d = (*d & ~lanes) | (found & lanes);                                                                        \
    }
#define SELECT(function, name, T)                                                                                    \
    WORK(function, T, OPERAND(T, a); OPERAND(T, b);                                                                  \
         const uint32_t which = *(const uint32_t *)source(w, i->c), TAKE(T, a); TAKE(T, b), which >> l & 1 ? a : b)
#include "ptx_ops.def"
#undef ONE
#undef TWO
#undef THREE
#undef COMPARE
#undef SELECT

/* Predicates: one bit a lane. */
#define PREDICATES(function, expression)                                                                             \
    static void run_##function(warp *w, const instruction *i, uint32_t lanes)                                        \
    {                                                                                                                \
        const uint32_t a = *(const uint32_t *)source(w, i->a);                                                       \
        const uint32_t b = i->b == NO_PLACE ? 0 : *(const uint32_t *)source(w, i->b);                                \
        uint32_t *d = target(w, i->d);                                                                               \
        (void)b;                                                                                                     \
        *d = (*d & ~lanes) | ((expression)&lanes);                                                                   \
    }
PREDICATES(and_pred, a &b)
PREDICATES(or_pred, a | b)
PREDICATES(xor_pred, a ^ b)
PREDICATES(not_pred, ~a)
PREDICATES(mov_pred, a)

/* Sums that carry from one word to the next; `wide` has the carry in bit 32. */
#define CARRIES(function, takes, gives, expression)                                                                  \
    static void run_##function(warp *w, const instruction *i, uint32_t lanes)                                        \
    {                                                                                                                \
        const uint32_t *from_a = source(w, i->a), *from_b = source(w, i->b);                                         \
        const uint32_t *from_c = i->c == NO_PLACE ? from_b : source(w, i->c);                                        \
        uint32_t *d = target(w, i->d), carry = 0;                                                                    \
        for (int l = 0; l < LANES; l++) {                                                                            \
            const uint64_t a = from_a[l], b = from_b[l], c = from_c[l], in = takes ? w->carry >> l & 1 : 0;          \
            (void)c;                                                                                                 \
            const uint64_t wide = (expression);                                                                      \
            carry |= (uint32_t)(wide >> 32 & 1) << l;                                                                \
            if (lanes >> l & 1)                                                                                      \
                d[l] = (uint32_t)wide;                                                                               \
        }                                                                                                            \
        if (gives)                                                                                                   \
            w->carry = (w->carry & ~lanes) | (carry & lanes);                                                        \
    }
CARRIES(add_cc, 0, 1, a + b + in)
CARRIES(addc, 1, 0, a + b + in)
CARRIES(addc_cc, 1, 1, a + b + in)
CARRIES(sub_cc, 0, 1, a - b - in)
CARRIES(subc, 1, 0, a - b - in)
CARRIES(subc_cc, 1, 1, a - b - in)
CARRIES(mad_lo_cc, 0, 1, (a * b & UINT32_MAX) + c + in)
CARRIES(madc_lo_cc, 1, 1, (a * b & UINT32_MAX) + c + in)
CARRIES(madc_hi, 1, 0, (a * b >> 32) + c + in)
CARRIES(madc_hi_cc, 1, 1, (a * b >> 32) + c + in)

static void run_fence(warp *w, const instruction *i, uint32_t lanes)
{
    (void)w;
    (void)i;
    (void)lanes;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

const known_instruction *ptx_known(const char *name)
{
#define ONE(function, name, D, A, expression)    {name, LETTER_##D LETTER_##A, run_##function},
#define TWO(function, name, D, A, B, expression) {name, LETTER_##D LETTER_##A LETTER_##B, run_##function},
#define THREE(function, name, D, A, B, C, expression)                                                                \
    {name, LETTER_##D LETTER_##A LETTER_##B LETTER_##C, run_##function},
#define COMPARE(function, name, T, expression) {name, "p" LETTER_##T LETTER_##T, run_##function},
#define SELECT(function, name, T)              {name, LETTER_##T LETTER_##T LETTER_##T "p", run_##function},
    static const known_instruction all[] = {
#include "ptx_ops.def"
        {"and.pred", "ppp", run_and_pred},
        {"or.pred", "ppp", run_or_pred},
        {"xor.pred", "ppp", run_xor_pred},
        {"not.pred", "pp", run_not_pred},
        {"mov.pred", "pp", run_mov_pred},
        {"add.cc.u32", "444", run_add_cc},
        {"addc.u32", "444", run_addc},
        {"addc.cc.u32", "444", run_addc_cc},
        {"sub.cc.u32", "444", run_sub_cc},
        {"subc.u32", "444", run_subc},
        {"subc.cc.u32", "444", run_subc_cc},
        {"mad.lo.cc.u32", "4444", run_mad_lo_cc},
        {"madc.lo.cc.u32", "4444", run_madc_lo_cc},
        {"madc.hi.u32", "4444", run_madc_hi},
        {"madc.hi.cc.u32", "4444", run_madc_hi_cc},
        {"membar.gl", "", run_fence},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

/* --- between lanes, and lists ---------------------------------------------------------------------------------- */

/* What comes from a lane that takes no part is left open: a NaN here. */
void ptx_shuffle_work(warp *w, const instruction *i, uint32_t lanes)
{
    enum { NOBODY = 0x7fbadbad, WHOLE = LANES - 1 };
    const uint32_t *from = source(w, i->b), *distance = source(w, i->c);
    uint32_t *d = target(w, i->d), got[LANES];
    const uint32_t *within = source(w, i->list[1]);
    for (unsigned l = 0; l < LANES; l++) {
        if ((lanes >> l & 1) && (within[l] != WHOLE || distance[l] >= LANES)) {
            fault_at(w, i, (int)l, "a shuffle within a part of a warp, which is not known");
            return;
        }
        const unsigned other = (l ^ distance[l]) % LANES;
        got[l] = lanes >> other & 1 ? from[other] : NOBODY;
    }
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1)
            d[l] = got[l];
    if (i->list[0] != NO_PLACE) /* whether there is such a lane: there is */
        *(uint32_t *)target(w, i->list[0]) |= lanes;
}

void ptx_clock_work(warp *w, const instruction *i, uint32_t lanes)
{
    struct timespec now;
    uint64_t *d = target(w, i->d);
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1)
            d[l] = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void join_16(warp *w, const instruction *i, uint32_t lanes)
{
    const uint32_t *low = source(w, i->list[0]), *high = source(w, i->list[1]);
    uint32_t *d = target(w, i->d);
    EACH_LANE
    {
        const uint32_t x = (low[l] & 0xffff) | high[l] << 16, kept = d[l];
        d[l] = lanes >> l & 1 ? x : kept;
    }
}

static void join_32(warp *w, const instruction *i, uint32_t lanes)
{
    const uint32_t *low = source(w, i->list[0]), *high = source(w, i->list[1]);
    uint64_t *d = target(w, i->d);
    EACH_LANE
    {
        const uint64_t x = low[l] | (uint64_t)high[l] << 32, kept = d[l];
        d[l] = lanes >> l & 1 ? x : kept;
    }
}

static void split_32(warp *w, const instruction *i, uint32_t lanes)
{
    const uint64_t *from = source(w, i->a);
    uint32_t *low = target(w, i->list[0]), *high = target(w, i->list[1]);
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) {
            low[l] = (uint32_t)from[l];
            high[l] = (uint32_t)(from[l] >> 32);
        }
}

static void split_16(warp *w, const instruction *i, uint32_t lanes)
{
    const uint32_t *from = source(w, i->a);
    uint32_t *low = target(w, i->list[0]), *high = target(w, i->list[1]);
    for (int l = 0; l < LANES; l++)
        if (lanes >> l & 1) {
            const uint32_t both = from[l];
            low[l] = both & 0xffff;
            high[l] = both >> 16;
        }
}

lane_work *ptx_join_work(int size)
{
    return size == 2 ? join_16 : size == 4 ? join_32 : NULL;
}

lane_work *ptx_split_work(int size)
{
    return size == 2 ? split_16 : size == 4 ? split_32 : NULL;
}
