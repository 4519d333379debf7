/* draw_fire.c - scenes with fire, with smoke, or with neither.
 *
 * Every class gets the same skies, grounds and things that look alike at a glance: sunsets, autumn trees and orange
 * cars have the colours of fire, clouds, fog and grey walls those of smoke. What tells the classes apart is the shape
 * and the texture of flames and plumes, anywhere in the scene and of any size: a network has to look, a weight a
 * pixel is not enough. Lengths are in parts of the picture's height.
 */
#include "data/draw.h"

#include <math.h>

enum { FIRE, NEITHER, SMOKE };

typedef struct scene {
    pen pen;
    noise noise;
    picture *p;
    float unit;    /* pixels of the picture's height */
    float horizon; /* row */
    bool night;
} scene;

static float any(scene *s, float low, float high)
{
    return pen_between(&s->pen, low, high);
}

static float distance(float x, float y)
{
    return sqrtf(x * x + y * y);
}

/* --- the scene ----------------------------------------------------------------------------------------------- */

static void draw_sky(scene *s)
{
    static const colour above[] = {{70, 120, 200}, {150, 160, 170}, {70, 70, 120}, {10, 12, 28}, {120, 170, 220}};
    static const colour below[] = {{180, 205, 230}, {200, 200, 205}, {245, 150, 70}, {35, 35, 55}, {225, 215, 195}};
    const int kind = pen_pick(&s->pen, 5);
    const float bright = any(s, 0.75f, 1.1f), shift = any(s, 0, 60);
    s->night = kind == 3;
    s->horizon = any(s, 0.35f, 0.7f) * s->unit;
    for (int y = 0; y < s->p->height; y++)
        for (int x = 0; x < s->p->width; x++) {
            colour c = mix(above[kind], below[kind], clamp01((float)y / s->horizon));
            const float grain =
                0.95f + 0.1f * noise_at(&s->noise, (float)x / s->unit * 40 + shift, (float)y / s->unit * 90, 1);
            c = mix((colour){0, 0, 0}, c, bright * grain);
            blend(s->p, x, y, c, 1);
        }
}

/* Stretched along the horizon, where a plume rises. */
static void draw_clouds(scene *s)
{
    const float shift = any(s, 0, 50), wide = any(s, 1.5f, 3), cover = any(s, 0.42f, 0.6f);
    const float grey = any(s, 90, 240), depth = any(s, 0.4f, 1) * s->horizon;
    for (int y = 0; y < (int)depth; y++)
        for (int x = 0; x < s->p->width; x++) {
            const float n = noise_at(&s->noise, (float)x / s->unit * wide + shift, (float)y / s->unit * wide * 3, 4);
            const float light = grey * (0.8f + 0.4f * n);
            blend(s->p, x, y, (colour){light, light, light}, (n - cover) * 5 * (1 - (float)y / depth));
        }
}

static void draw_ground(scene *s)
{
    static const colour near[] = {{60, 80, 40}, {110, 90, 60}, {90, 90, 92}, {150, 130, 90}, {70, 60, 50}};
    const int kind = pen_pick(&s->pen, 5);
    const float shift = any(s, 0, 50), hills = any(s, 0, 0.15f), bright = (s->night ? 0.35f : 1) * any(s, 0.7f, 1.2f);
    for (int x = 0; x < s->p->width; x++) {
        const float rise = hills * s->unit * noise_at(&s->noise, (float)x / s->unit * 2 + shift, 5, 3);
        for (int y = (int)(s->horizon - rise); y < s->p->height; y++) {
            const float n = noise_at(&s->noise, (float)x / s->unit * 12 + shift, (float)y / s->unit * 24, 3);
            blend(s->p, x, y, mix((colour){0, 0, 0}, near[kind], bright * (0.7f + 0.6f * n)), 1);
        }
    }
}

/* --- things that are neither -------------------------------------------------------------------------------- */

static void draw_box(scene *s, float left, float top, float right, float bottom, colour c)
{
    for (int y = (int)top; y < (int)bottom; y++)
        for (int x = (int)left; x < (int)right; x++)
            blend(s->p, x, y, c, 1);
}

static void draw_disc(scene *s, float cx, float cy, float radius, colour c, float glow)
{
    const float reach = radius * (1 + glow);
    for (int y = (int)(cy - reach); y <= (int)(cy + reach); y++)
        for (int x = (int)(cx - reach); x <= (int)(cx + reach); x++) {
            const float d = distance((float)x - cx, (float)y - cy);
            const float halo = glow > 0 ? 0.6f * clamp01((reach - d) / (reach - radius)) : 0;
            blend(s->p, x, y, c, d <= radius ? 1 : halo * halo);
        }
}

static void draw_house(scene *s)
{
    const float w = any(s, 0.1f, 0.4f) * s->unit, h = any(s, 0.1f, 0.45f) * s->unit, grey = any(s, 60, 200);
    const float left = any(s, -0.1f, 1.2f) * s->unit, bottom = s->horizon + any(s, 0, 0.2f) * s->unit;
    const float green = any(s, 0.85f, 1), blue = any(s, 0.75f, 1);
    const colour wall = {grey, grey * green, grey * blue};
    const bool lit = s->night && pen_chance(&s->pen, 0.7f);
    draw_box(s, left, bottom - h, left + w, bottom, mix((colour){0, 0, 0}, wall, s->night ? 0.4f : 1));
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 3; column++) {
            const float x = left + w * (0.12f + 0.3f * (float)column), y = bottom - h * (0.93f - 0.24f * (float)row);
            const colour pane = lit && pen_chance(&s->pen, 0.5f) ? (colour){250, 200, 90} : (colour){40, 50, 65};
            draw_box(s, x, y, x + w * 0.15f, y + h * 0.12f, pane);
        }
}

/* A car, a container, a sign. */
static void draw_vehicle(scene *s)
{
    static const colour paints[] = {{225, 95, 20}, {205, 35, 25}, {240, 180, 40}, {170, 170, 175}, {90, 95, 100}};
    const float bright = s->night ? 0.5f : any(s, 0.8f, 1);
    const colour paint = mix((colour){0, 0, 0}, paints[pen_pick(&s->pen, 5)], bright);
    const float w = any(s, 0.12f, 0.4f) * s->unit, h = w * any(s, 0.3f, 0.6f);
    const float left = any(s, 0, 1.1f) * s->unit, bottom = s->horizon + any(s, 0.1f, 0.4f) * s->unit;
    draw_box(s, left, bottom - h, left + w, bottom, paint);
    draw_box(s, left + w * 0.2f, bottom - h * 1.5f, left + w * 0.75f, bottom - h,
             mix(paint, (colour){40, 50, 60}, 0.4f));
    draw_disc(s, left + w * 0.22f, bottom, h * 0.25f, (colour){20, 20, 22}, 0);
    draw_disc(s, left + w * 0.78f, bottom, h * 0.25f, (colour){20, 20, 22}, 0);
}

/* A round crown of leaves, in autumn often in the colours of fire. */
static void draw_tree(scene *s)
{
    static const colour leaves[] = {{235, 140, 30}, {215, 70, 20}, {245, 200, 60}, {60, 100, 40}, {90, 120, 50}};
    const colour a = leaves[pen_pick(&s->pen, 5)], b = leaves[pen_pick(&s->pen, 3)];
    const float r = any(s, 0.08f, 0.25f) * s->unit, cx = any(s, 0, 1.33f) * s->unit;
    const float bottom = s->horizon + any(s, 0, 0.25f) * s->unit, cy = bottom - r * 1.7f, shift = any(s, 0, 50);
    draw_box(s, cx - r * 0.1f, cy, cx + r * 0.1f, bottom, (colour){60, 45, 35});
    for (int y = (int)(cy - r * 1.3f); y <= (int)(cy + r * 1.3f); y++)
        for (int x = (int)(cx - r * 1.3f); x <= (int)(cx + r * 1.3f); x++) {
            const float d = distance((float)x - cx, (float)y - cy) / r;
            const float n = noise_at(&s->noise, (float)x / r * 4 + shift, (float)y / r * 4, 3);
            const colour c = mix((colour){20, 20, 10}, mix(a, b, n), (s->night ? 0.4f : 1) * (0.5f + 0.8f * n));
            blend(s->p, x, y, c, (1.1f - d + (n - 0.5f) * 0.8f) * 8);
        }
}

static void draw_sun(scene *s)
{
    const float r = any(s, 0.03f, 0.1f) * s->unit;
    const colour c = pen_chance(&s->pen, 0.6f) ? (colour){255, 215, 120} : (colour){250, 160, 60};
    const float glow = any(s, 1, 3), cy = s->horizon - any(s, -0.2f, 2) * r;
    draw_disc(s, any(s, 0, 1.33f) * s->unit, cy, r, c, glow);
}

static void draw_fog(scene *s)
{
    const float middle = s->horizon + any(s, -0.1f, 0.2f) * s->unit, half = any(s, 0.05f, 0.2f) * s->unit;
    const float grey = any(s, 140, 225), shift = any(s, 0, 50), most = any(s, 0.3f, 0.8f);
    for (int y = (int)(middle - half); y < (int)(middle + half); y++)
        for (int x = 0; x < s->p->width; x++) {
            const float n = noise_at(&s->noise, (float)x / s->unit * 1.5f + shift, (float)y / s->unit * 6, 2);
            const float share = 1 - fabsf((float)y - middle) / half;
            blend(s->p, x, y, (colour){grey, grey, grey}, most * share * (0.5f + n));
        }
}

static void draw_lamps(scene *s)
{
    const int count = 1 + pen_pick(&s->pen, 4);
    for (int i = 0; i < count; i++) {
        const float glow = any(s, 2, 5), green = any(s, 160, 235), blue = any(s, 60, 180);
        const float r = any(s, 0.008f, 0.03f) * s->unit, cy = any(s, 0.2f, 0.9f) * s->unit;
        draw_disc(s, any(s, 0, 1.33f) * s->unit, cy, r, (colour){255, green, blue}, glow);
    }
}

/* --- fire and smoke ------------------------------------------------------------------------------------------ */

static colour flame_colour(float heat)
{
    static const colour steps[] = {{150, 30, 8}, {230, 85, 15}, {252, 165, 35}, {255, 225, 110}, {255, 250, 215}};
    const float place = clamp01(heat) * 3.99f;
    const int i = (int)place;
    return mix(steps[i], steps[i + 1], place - (float)i);
}

static void draw_flame(scene *s, float cx, float bottom, float height)
{
    const float half = height * any(s, 0.25f, 0.5f), shift = any(s, 0, 50), lean = any(s, -0.3f, 0.3f);
    const float wild = any(s, 0.6f, 1.3f);
    for (int y = (int)(bottom - 1.4f * height); y <= (int)(bottom + 0.05f * height); y++)
        for (int x = (int)(cx - 2 * half); x <= (int)(cx + 2 * half); x++) {
            const float v = (bottom - (float)y) / height;
            const float swirl = noise_at(&s->noise, (float)x / half * 1.5f + shift, v * 3 + shift, 3) - 0.5f;
            const float u = ((float)x - cx) / half - lean * v + swirl * wild * (0.5f + 1.3f * v);
            const float tongue = noise_at(&s->noise, u * 2.2f + shift, v * 1.4f + 9, 2) - 0.5f;
            const float heat = 1.05f - fabsf(u) * (0.9f + 0.8f * clamp01(v)) - clamp01(v) * 0.75f + tongue * 1.5f;
            blend(s->p, x, y, flame_colour(heat),
                  clamp01(heat * 6) * clamp01((v + 0.1f * u * u - swirl * 0.15f) * 12));
        }
}

static void draw_plume(scene *s, float cx, float bottom, float width, float most)
{
    const float shift = any(s, 0, 50), wind = any(s, -1.2f, 1.2f), grey = any(s, 35, 225);
    const float height = any(s, 0.5f, 1.2f) * s->unit, fine = any(s, 2, 4) / width;
    for (int y = (int)(bottom - height); y <= (int)bottom; y++)
        for (int x = 0; x < s->p->width; x++) {
            const float v = (bottom - (float)y) / height, half = width * (0.25f + 1.3f * v);
            const float u = ((float)x - cx - wind * v * v * height) / half;
            if (u < -1.6f || u > 1.6f)
                continue;
            const float n = noise_at(&s->noise, (float)x * fine + shift, (float)y * fine + shift, 4);
            const float light = grey * (0.6f + 0.8f * n), thick = 1 - u * u * 0.6f + (n - 0.5f) * 2.6f - 0.25f;
            blend(s->p, x, y, (colour){light, light, light * 1.03f}, most * clamp01(thick * 2) * (1 - 0.5f * v));
        }
}

static void draw_subject(scene *s, int class)
{
    const float cx = any(s, 0.25f, 1.1f) * s->unit, bottom = s->horizon + any(s, -0.05f, 0.35f) * s->unit;
    const bool both = pen_chance(&s->pen, 0.4f); /* a fire may smoke */
    if (class == SMOKE || (class == FIRE && both)) {
        const float most = any(s, 0.7f, 1);
        draw_plume(s, cx, bottom, any(s, 0.1f, 0.3f) * s->unit, most);
    }
    if (class != FIRE)
        return;
    const int flames = 1 + pen_pick(&s->pen, 3);
    const float height = any(s, 0.3f, 0.75f) * s->unit;
    draw_disc(s, cx, bottom - height * 0.3f, height * 0.05f, (colour){255, 150, 50}, any(s, 5, 14));
    for (int i = 0; i < flames; i++) {
        const float high = height * any(s, 0.6f, 1);
        draw_flame(s, cx + any(s, -0.5f, 0.5f) * height * (float)i, bottom, high);
    }
}

static void draw_things(scene *s)
{
    static void (*const things[])(scene *) = {draw_house, draw_vehicle, draw_tree, draw_tree, draw_lamps};
    const int count = pen_pick(&s->pen, 4);
    for (int i = 0; i < count; i++)
        things[pen_pick(&s->pen, 5)](s);
}

void draw_fire(uint64_t seed, int32_t sample, int class, picture *p)
{
    scene s = {.pen = pen_for(seed, DRAW_FIRE, sample), .p = p, .unit = (float)p->height};
    noise_make(&s.noise, &s.pen);
    draw_sky(&s);
    if (pen_chance(&s.pen, 0.35f))
        draw_sun(&s);
    if (pen_chance(&s.pen, 0.6f))
        draw_clouds(&s);
    draw_ground(&s);
    draw_things(&s);
    if (pen_chance(&s.pen, 0.35f))
        draw_fog(&s);
    draw_subject(&s, class);
    if (pen_chance(&s.pen, 0.15f))
        draw_tree(&s);
}
