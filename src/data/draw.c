/* draw.c - see draw.h. */
#include "data/draw.h"

void noise_make(noise *n, pen *p)
{
    for (int y = 0; y < LATTICE; y++)
        for (int x = 0; x < LATTICE; x++)
            n->value[y][x] = pen_between(p, 0, 1);
}

static float smooth_at(const noise *n, float x, float y)
{
    const float shift = 1024 * LATTICE; /* so that cutting off the fraction rounds down */
    const int left = (int)(x + shift), top = (int)(y + shift);
    float u = x + shift - (float)left, v = y + shift - (float)top;
    u = u * u * (3 - 2 * u);
    v = v * v * (3 - 2 * v);
    const float *upper = n->value[top % LATTICE], *lower = n->value[(top + 1) % LATTICE];
    const int l = left % LATTICE, r = (left + 1) % LATTICE;
    const float a = upper[l] + (upper[r] - upper[l]) * u, b = lower[l] + (lower[r] - lower[l]) * u;
    return a + (b - a) * v;
}

float noise_at(const noise *n, float x, float y, int octaves)
{
    float sum = 0, weight = 0, share = 1;
    for (int i = 0; i < octaves; i++, share /= 2) {
        sum += share * smooth_at(n, x + 7.3f * (float)i, y + 3.1f * (float)i);
        weight += share;
        x *= 2;
        y *= 2;
    }
    return sum / weight;
}

static unsigned char over(unsigned char under, float above, float alpha)
{
    const float sum = (float)under + (above - (float)under) * alpha + 0.5f;
    return (unsigned char)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

void blend(picture *p, int x, int y, colour c, float alpha)
{
    if (x < 0 || y < 0 || x >= p->width || y >= p->height || alpha <= 0)
        return;
    unsigned char *to = p->pixels + ((size_t)y * (size_t)p->width + (size_t)x) * 3;
    alpha = alpha > 1 ? 1 : alpha;
    to[0] = over(to[0], c.r, alpha);
    to[1] = over(to[1], c.g, alpha);
    to[2] = over(to[2], c.b, alpha);
}
