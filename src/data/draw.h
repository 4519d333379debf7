/* draw.h - what drawing pictures takes: random numbers in a row, smooth noise, blending. The picture of a number is
 * always the same, on every machine: only +, -, *, / and sqrt on floats are used, which C rounds in one way, and the
 * arguments of a call and the members of a list hold one random number each, for compilers take them in any order. */
#ifndef DATA_DRAW_H
#define DATA_DRAW_H

#include "core/random.h"
#include "data/dataset.h"

/* The version of all drawings, a part of what a drawn set is known by: whoever changes what is drawn raises it. A
 * test holds pictures of each kind against it. */
enum { DRAWING_VERSION = 1 };

/* Numbers in a row, of one sample. */
typedef struct pen {
    random_stream stream;
    uint64_t next;
} pen;

/* One stream a kind of picture; part of what a spec means, so they never change. */
typedef enum drawing { DRAW_FIRE = 1, DRAW_DIGITS, DRAW_SHAPES, DRAW_LETTER, DRAW_LETTER_CLASS } drawing;

static inline pen pen_for(uint64_t seed, drawing kind, int32_t sample)
{
    /* Streams 2^16 and up: the loader's are below. */
    return (pen){{seed, RANDOM_DATA, (uint32_t)kind << 16, (uint32_t)sample}, 0};
}

static inline float pen_between(pen *p, float low, float high)
{
    return (float)random_uniform(&p->stream, p->next++, (double)low, (double)high);
}

/* 0 to count - 1. */
static inline int pen_pick(pen *p, int count)
{
    return (int)pen_between(p, 0, (float)count);
}

static inline bool pen_chance(pen *p, float probability)
{
    return pen_between(p, 0, 1) < probability;
}

enum { LATTICE = 64 };
/* Random values on a grid that repeats, smooth in between. */
typedef struct noise {
    float value[LATTICE][LATTICE];
} noise;

void noise_make(noise *n, pen *p);
/* In [0, 1]; features about 1 wide, with `octaves` finer ones on top. */
float noise_at(const noise *n, float x, float y, int octaves);

typedef struct colour {
    float r, g, b; /* 0 to 255 */
} colour;

static inline float clamp01(float x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static inline colour mix(colour a, colour b, float share)
{
    return (colour){a.r + (b.r - a.r) * share, a.g + (b.g - a.g) * share, a.b + (b.b - a.b) * share};
}

/* Lays a colour over a pixel; outside of the picture nothing happens. */
void blend(picture *p, int x, int y, colour c, float alpha);

/* The kinds of pictures. The size and channels of p are set; pixels are written. */
void draw_fire(uint64_t seed, int32_t sample, int class, picture *p);               /* fire, neither, smoke */
void draw_digit(uint64_t seed, int32_t sample, int class, picture *p);              /* 28 x 28 x 1 */
void draw_shape(uint64_t seed, int32_t sample, int class, int classes, picture *p); /* 32 x 32 x 3 */

#endif
