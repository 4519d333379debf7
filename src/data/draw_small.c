/* draw_small.c - handwritten digits of 28 x 28, and coloured shapes of 32 x 32: of the sizes of MNIST and CIFAR. */
#include "data/draw.h"

#include <math.h>

/* --- digits: strokes whose points are shaken, in a box that is turned, sheared and moved ----------------------- */

enum { MOST_POINTS = 13 };

/* x, y in hundredths of the box, from the upper left corner. */
static const struct stroke {
    int points;
    unsigned char at[MOST_POINTS][2];
} strokes[10] = {
    {11,
     {{50, 7}, {28, 18}, {20, 38}, {20, 62}, {28, 82}, {50, 93}, {72, 82}, {80, 62}, {80, 38}, {72, 18}, {50, 7}}},
    {3, {{35, 25}, {55, 8}, {55, 92}}},
    {8, {{22, 28}, {30, 12}, {50, 7}, {70, 14}, {76, 30}, {70, 46}, {22, 92}, {80, 92}}},
    {9, {{25, 15}, {50, 7}, {73, 18}, {72, 36}, {48, 47}, {75, 60}, {76, 80}, {50, 93}, {22, 83}}},
    {4, {{62, 93}, {62, 7}, {20, 65}, {82, 65}}},
    {8, {{75, 8}, {30, 8}, {26, 45}, {52, 40}, {76, 55}, {75, 78}, {50, 93}, {22, 85}}},
    {9, {{68, 10}, {42, 22}, {27, 50}, {27, 75}, {48, 93}, {72, 80}, {72, 60}, {50, 48}, {28, 62}}},
    {3, {{20, 8}, {80, 8}, {45, 93}}},
    {13,
     {{50, 48},
      {28, 36},
      {28, 18},
      {50, 7},
      {72, 18},
      {72, 36},
      {50, 48},
      {25, 62},
      {25, 82},
      {50, 93},
      {75, 82},
      {75, 62},
      {50, 48}}},
    {8, {{72, 38}, {50, 52}, {28, 40}, {28, 20}, {50, 7}, {72, 20}, {72, 50}, {60, 93}}},
};

/* From a point to a line between two others. */
static float distance(float x, float y, const float a[2], const float b[2])
{
    const float dx = b[0] - a[0], dy = b[1] - a[1], length = dx * dx + dy * dy;
    const float share = length > 0 ? clamp01(((x - a[0]) * dx + (y - a[1]) * dy) / length) : 0;
    const float ex = x - a[0] - share * dx, ey = y - a[1] - share * dy;
    return sqrtf(ex * ex + ey * ey);
}

void draw_digit(uint64_t seed, int32_t sample, int class, picture *p)
{
    const struct stroke *s = &strokes[class];
    pen hand = pen_for(seed, DRAW_DIGITS, sample);
    const float side = (float)p->width, wide = pen_between(&hand, 0.45f, 0.75f) * side;
    const float high = pen_between(&hand, 0.6f, 0.8f) * side, lean = pen_between(&hand, -0.35f, 0.35f);
    const float turn = pen_between(&hand, -0.2f, 0.2f), cx = side / 2 + pen_between(&hand, -2, 2);
    const float cy = side / 2 + pen_between(&hand, -2, 2), thick = pen_between(&hand, 0.6f, 1.7f);
    const float ink = pen_between(&hand, 170, 255);
    float point[MOST_POINTS][2];
    for (int i = 0; i < s->points; i++) {
        const float x = ((float)s->at[i][0] / 100 - 0.5f + pen_between(&hand, -0.06f, 0.06f)) * wide;
        const float y = ((float)s->at[i][1] / 100 - 0.5f + pen_between(&hand, -0.05f, 0.05f)) * high;
        point[i][0] = cx + x - lean * y;
        point[i][1] = cy + y + turn * x;
    }
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            float nearest = side;
            for (int i = 0; i + 1 < s->points; i++) {
                const float d = distance((float)x, (float)y, point[i], point[i + 1]);
                nearest = d < nearest ? d : nearest;
            }
            const float grey = ink * clamp01(thick + 0.5f - nearest) + pen_between(&hand, 0, 12);
            p->pixels[y * p->width + x] = (unsigned char)(grey > 255 ? 255 : grey);
        }
}

/* --- shapes ---------------------------------------------------------------------------------------------------- */

/* Whether a point, within +-1, is inside. */
static bool inside(int shape, float u, float v)
{
    const float r = u * u + v * v, a = fabsf(u), b = fabsf(v);
    switch (shape) {
    case 0:
        return r < 0.64f;
    case 1:
        return a < 0.7f && b < 0.7f;
    case 2: /* a triangle that stands */
        return v < 0.6f && v > 2 * a - 0.9f;
    case 3:
        return (a < 0.25f && b < 0.85f) || (b < 0.25f && a < 0.85f);
    case 4:
        return r < 0.72f && r > 0.25f;
    case 5:
        return a + b < 0.85f;
    case 6:
        return b < 0.3f && a < 0.95f;
    case 7: /* a crescent */
        return r < 0.7f && (u - 0.4f) * (u - 0.4f) + v * v > 0.45f;
    case 8: /* two dots */
        return (a - 0.5f) * (a - 0.5f) + v * v < 0.14f;
    default: /* an X */
        return fabsf(a - b) < 0.3f && a < 0.8f && b < 0.8f;
    }
}

static colour any_colour(pen *hand)
{
    const float r = pen_between(hand, 0, 255), g = pen_between(hand, 0, 255);
    return (colour){r, g, pen_between(hand, 0, 255)};
}

/* One that can be told from another. */
static colour unlike(pen *hand, colour other)
{
    const colour c = any_colour(hand);
    const float d = fabsf(c.r - other.r) + fabsf(c.g - other.g) + fabsf(c.b - other.b);
    const colour far = {other.r < 128 ? 240 : 15, other.g < 128 ? 240 : 15, other.b < 128 ? 240 : 15};
    return d < 150 ? mix(c, far, 0.6f) : c;
}

/* Ten classes: the shape. A hundred: also the colour of its stripes, in ten steps around the colour circle. */
static colour stripe_colour(int step)
{
    static const colour circle[] = {{230, 40, 40},  {230, 140, 30}, {230, 220, 40}, {120, 210, 40}, {40, 160, 60},
                                    {40, 200, 190}, {40, 110, 220}, {90, 50, 200},  {190, 60, 210}, {235, 235, 235}};
    return circle[step];
}

void draw_shape(uint64_t seed, int32_t sample, int class, int classes, picture *p)
{
    pen hand = pen_for(seed, DRAW_SHAPES, sample);
    noise n;
    noise_make(&n, &hand);
    const colour ground = any_colour(&hand), other = any_colour(&hand), own = unlike(&hand, ground);
    const int shape = classes == 10 ? class : class / 10;
    const colour face = classes == 10 ? own : mix(stripe_colour(class % 10), own, 0.15f);
    const float side = (float)p->width, size = pen_between(&hand, 0.25f, 0.45f) * side;
    const float cx = side / 2 + pen_between(&hand, -5, 5), cy = side / 2 + pen_between(&hand, -5, 5);
    const float t = pen_between(&hand, -0.18f, 0.18f), c = (1 - t * t) / (1 + t * t), s = 2 * t / (1 + t * t);
    const float alpha = pen_between(&hand, 0.55f, 1), stretch = pen_between(&hand, 0.75f, 1.3f);
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            const float dx = ((float)x - cx) / size, dy = ((float)y - cy) / size * stretch;
            blend(p, x, y, mix(ground, other, 0.6f * noise_at(&n, (float)x / 6, (float)y / 6, 3)), 1);
            if (inside(shape, c * dx + s * dy, c * dy - s * dx))
                blend(p, x, y, face, alpha);
            const float grain = pen_between(&hand, 0, 255);
            blend(p, x, y, (colour){grain, grain, grain}, 0.1f);
        }
}
