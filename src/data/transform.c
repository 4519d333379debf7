/* transform.c - see transform.h.
 *
 * Resizing is Pillow's, and so torchvision's: a triangle as wide as a pixel of the smaller picture, first along the
 * rows, then along the columns, rounded to bytes after each. Only what the crop leaves is computed.
 */
#include "data/transform.h"
#include "core/pixel.h"
#include "data/source.h"
#include "data/streams.h"

#include <math.h>
#include <string.h>

#define AT(member) offsetof(transform, member)
static const char *const flips[] = {"none", "horizontal", "vertical", NULL};

const field transform_fields[] = {
    {"resize", FIELD_INT, AT(resize), "0", 0, 4096, NULL, false, "pixels of the shorter side; 0: stays"},
    {"crop", FIELD_PAIR, AT(crop), "0", 0, 4096, NULL, false, "height x width that are cut out; 0: all of a side"},
    {"random_crop", FIELD_BOOL, AT(random_crop), "no", 0, 0, NULL, false, "in training cut out anywhere"},
    {"flip", FIELD_WORD, AT(flip), "none", 0, 0, flips, false, "in training, every other picture"},
    {"channels", FIELD_INT, AT(channels), "0", 0, 3, NULL, false, "1: grey, 3: colour; 0: as they come"},
    {"scale", FIELD_REAL, AT(scale), "0.00392156862745098", 1e-9, 1e9, NULL, false, "pixels are multiplied by it"},
    {"mean", FIELD_REALS, AT(mean), "0", -1e9, 1e9, NULL, false, "then less this, of each channel"},
    {"std", FIELD_REALS, AT(std), "1", 1e-9, 1e9, NULL, false, "then divided by this, of each channel"},
    {0},
};

/* --- sizes --------------------------------------------------------------------------------------------------- */

/* What resizing makes of a picture's size: the longer side is rounded down. */
static void resized(const transform *t, int height, int width, int *rows, int *columns)
{
    const int shorter = height < width ? height : width;
    *rows = t->resize ? (int)((int64_t)height * t->resize / shorter) : height;
    *columns = t->resize ? (int)((int64_t)width * t->resize / shorter) : width;
}

bool transform_fits(const transform *t, int height, int width)
{
    int rows, columns;
    resized(t, height, width, &rows, &columns);
    return t->crop.h <= rows && t->crop.w <= columns;
}

brasa_status transform_shape(brasa_context *ctx, const transform *t, const dataset *d, int out[3])
{
    out[0] = t->channels && !d->numbers ? t->channels : d->channels;
    out[1] = d->height;
    out[2] = d->width;
    if (d->numbers)
        return BRASA_OK;
    if (t->channels == 2)
        return fail(ctx, BRASA_BAD_ARGUMENT, "transform: channels: expected 1 or 3, got 2");
    if ((t->mean.count != 1 && t->mean.count != out[0]) || (t->std.count != 1 && t->std.count != out[0]))
        return fail(ctx, BRASA_BAD_ARGUMENT, "transform: mean and std: expected 1 or %d numbers, got %d and %d",
                    out[0], t->mean.count, t->std.count);
    if (d->varied && (!t->crop.h || !t->crop.w))
        return fail(ctx, BRASA_BAD_ARGUMENT,
                    "transform: pictures of various sizes need a crop, as in resize=256 crop=224");
    if (d->varied && (t->resize < t->crop.h || t->resize < t->crop.w))
        return fail(ctx, BRASA_BAD_ARGUMENT,
                    "transform: a crop of %dx%d needs a resize to at least its size, got resize=%d", t->crop.h,
                    t->crop.w, t->resize);
    int rows = 0, columns = 0;
    if (!d->varied)
        resized(t, d->height, d->width, &rows, &columns);
    out[1] = t->crop.h ? t->crop.h : rows;
    out[2] = t->crop.w ? t->crop.w : columns;
    if (!d->varied && (out[1] > rows || out[2] > columns))
        return fail(ctx, BRASA_BAD_ARGUMENT, "transform: a crop of %dx%d out of pictures of %dx%d", out[1], out[2],
                    rows, columns);
    return BRASA_OK;
}

/* Of what is left over when the middle is cut out, the part before it: half, rounded to even as torchvision does. */
static int before(int whole, int part)
{
    const int half = (whole - part) / 2;
    return (whole - part) % 2 && half % 2 ? half + 1 : half;
}

/* --- resizing ------------------------------------------------------------------------------------------------ */

/* The pixels that output pixel i of `out` is made of, from *first on, and their weights; returns how many. */
static int weigh(int i, int in, int out, int *first, float *weight)
{
    const double scale = (double)in / out, reach = scale > 1 ? scale : 1, centre = (i + 0.5) * scale;
    const int low = (int)(centre - reach + 0.5), high = (int)(centre + reach + 0.5);
    const int begin = low > 0 ? low : 0, end = high < in ? high : in;
    double sum = 0;
    for (int k = begin; k < end; k++) {
        const double away = fabs((k + 0.5 - centre) / reach), share = away < 1 ? 1 - away : 0;
        weight[k - begin] = (float)share;
        sum += share;
    }
    for (int k = begin; k < end; k++)
        weight[k - begin] = (float)((double)weight[k - begin] / sum);
    *first = begin;
    return end - begin;
}

/* The most pixels that one is made of. */
static int most_taps(int in, int out)
{
    return 2 * (in / out + 2) + 2;
}

static unsigned char rounded(float x)
{
    return (unsigned char)(x < 0 ? 0 : x > 255 ? 255 : x + 0.5f);
}

/* Columns left ... left + width - 1 of rows that are `out` wide, from those of p, `in` wide; rows y0 ... y1 - 1. */
static void along_rows(const picture *p, int out, int left, int y0, int y1, picture *to, float *weight)
{
    const int c = p->channels;
    for (int x = 0; x < to->width; x++) {
        int first;
        const int taps = weigh(left + x, p->width, out, &first, weight);
        for (int y = y0; y < y1; y++) {
            const unsigned char *from = p->pixels + ((size_t)y * (size_t)p->width + (size_t)first) * (size_t)c;
            unsigned char *at = to->pixels + ((size_t)(y - y0) * (size_t)to->width + (size_t)x) * (size_t)c;
            float sum[3] = {0};
            for (int k = 0; k < taps; k++, from += c)
                for (int i = 0; i < c; i++)
                    sum[i] += weight[k] * (float)from[i];
            for (int i = 0; i < c; i++)
                at[i] = rounded(sum[i]);
        }
    }
}

/* Rows top ... of columns that are `out` high, from `in` of which `from` holds those from y0 on. */
static void along_columns(const picture *from, int in, int out, int top, int y0, picture *to, float *weight,
                          float *sum)
{
    const size_t row = (size_t)to->width * (size_t)to->channels;
    for (int y = 0; y < to->height; y++) {
        int first;
        const int taps = weigh(top + y, in, out, &first, weight);
        memset(sum, 0, row * sizeof *sum);
        for (int k = 0; k < taps; k++) {
            const unsigned char *line = from->pixels + (size_t)(first + k - y0) * row;
            for (size_t i = 0; i < row; i++)
                sum[i] += weight[k] * (float)line[i];
        }
        for (size_t i = 0; i < row; i++)
            to->pixels[(size_t)y * row + i] = rounded(sum[i]);
    }
}

static void swap(picture *a, picture *b)
{
    const picture first = *a;
    *a = *b;
    *b = first;
    b->least = a->least = first.least;
}

/* The region at (top, left) of size height x width of p resized to rows x columns, in p. */
static brasa_status resize(brasa_context *errors, picture *p, int rows, int columns, int top, int left, int height,
                           int width, picture *spare)
{
    const int taps = most_taps(p->height, rows) + most_taps(p->width, columns), c = p->channels, in = p->height;
    int y0, last;
    size_t sums = (size_t)width * (size_t)c;
    brasa_status status = picture_file(errors, spare, ((size_t)taps + sums) * sizeof(float));
    if (status != BRASA_OK)
        return status;
    float *weight = (float *)(void *)spare->file, *sum = weight + taps;
    weigh(top, in, rows, &y0, weight);
    const int y1 = weigh(top + height - 1, in, rows, &last, weight) + last;
    if ((status = picture_shape(errors, spare, c, y1 - y0, width)) != BRASA_OK)
        return status;
    along_rows(p, columns, left, y0, y1, spare, weight);
    if ((status = picture_shape(errors, p, c, height, width)) != BRASA_OK)
        return status;
    along_columns(spare, in, rows, top, y0, p, weight, sum);
    return BRASA_OK;
}

static void cut(picture *p, int top, int left, int height, int width)
{
    const size_t c = (size_t)p->channels;
    for (int y = 0; y < height; y++) /* towards the beginning, so that nothing is written over before it is read */
        memmove(p->pixels + (size_t)y * (size_t)width * c,
                p->pixels + ((size_t)(top + y) * (size_t)p->width + (size_t)left) * c, (size_t)width * c);
    p->height = height;
    p->width = width;
}

/* Grey to colour: three times the same. Colour to grey: the weights of ITU-R 601, as Pillow has them. */
static brasa_status set_channels(brasa_context *errors, int channels, picture *p, picture *spare)
{
    const size_t pixels = (size_t)p->height * (size_t)p->width;
    brasa_status status = picture_shape(errors, spare, channels, p->height, p->width);
    if (status != BRASA_OK)
        return status;
    for (size_t i = 0; i < pixels; i++) {
        const unsigned char *from = p->pixels + i * (size_t)p->channels;
        if (channels == 1)
            spare->pixels[i] = (unsigned char)((19595 * from[0] + 38470 * from[1] + 7471 * from[2] + 0x8000) >> 16);
        else
            memset(spare->pixels + 3 * i, from[0], 3);
    }
    swap(p, spare);
    return BRASA_OK;
}

/* What stays of a side in every epoch. A narrow picture may become very long: then a random crop is out of its middle
 * part. */
static int fixed_side(const transform *t, int crop, int whole)
{
    if (!crop)
        return whole;
    return !t->random_crop ? crop : whole < MAX_SIDE ? whole : MAX_SIDE;
}

/* Large JPEG files are decoded at less than their size, with sides rounded up: the longer side may then get a pixel
 * more. The shorter one has t->resize of them. */
int64_t transform_bytes(const transform *t, int channels, int height, int width)
{
    int rows, columns;
    resized(t, height, width, &rows, &columns);
    const int64_t pixels = (int64_t)fixed_side(t, t->crop.h, rows) * fixed_side(t, t->crop.w, columns);
    return channels * (pixels + (t->random_crop ? t->resize : 0));
}

brasa_status transform_fixed(brasa_context *errors, const transform *t, picture *p, picture *spare)
{
    int rows, columns;
    resized(t, p->height, p->width, &rows, &columns);
    if (!transform_fits(t, p->height, p->width))
        return fail(errors, BRASA_BAD_SHAPE, "a crop of %dx%d does not fit into %dx%d pixels", t->crop.h, t->crop.w,
                    rows, columns);
    const int height = fixed_side(t, t->crop.h, rows), width = fixed_side(t, t->crop.w, columns);
    const int top = before(rows, height), left = before(columns, width);
    brasa_status status = BRASA_OK;
    if (t->channels && t->channels != p->channels)
        status = set_channels(errors, t->channels, p, spare);
    if (status == BRASA_OK && (rows != p->height || columns != p->width))
        return resize(errors, p, rows, columns, top, left, height, width, spare);
    if (status == BRASA_OK && (height != p->height || width != p->width))
        cut(p, top, left, height, width);
    return status;
}

/* --- into a batch -------------------------------------------------------------------------------------------- */

void transform_table(const transform *t, transform_target *g)
{
    for (int c = 0; c < g->shape[0] && c < 3; c++) {
        const double mean = t->mean.value[t->mean.count > 1 ? c : 0], std = t->std.value[t->std.count > 1 ? c : 0];
        for (int i = 0; i < 256; i++)
            g->table[c][i] = pixel_number(i, t->scale, mean, std);
    }
}

transform_cut transform_choose(const transform *t, int height, int width, const transform_draw *draw, const int of[3])
{
    const random_stream s = {draw->seed, RANDOM_DATA, STREAM_CHANGE, draw->epoch};
    const random_group r = random_at(&s, (uint64_t)draw->sample);
    const bool anywhere = draw->train && t->random_crop;
    return (transform_cut){.height = height,
                           .width = width,
                           .top = anywhere ? data_below(r.word[1], height - of[1] + 1) : before(height, of[1]),
                           .left = anywhere ? data_below(r.word[2], width - of[2] + 1) : before(width, of[2]),
                           .flip = draw->train && r.word[0] >> 31 ? t->flip : FLIP_NONE};
}

void transform_write(const transform *t, const picture *p, const transform_draw *draw, const transform_target *g,
                     int64_t n)
{
    const int channels = g->shape[0], height = g->shape[1], width = g->shape[2];
    const transform_cut cut = transform_choose(t, p->height, p->width, draw, g->shape);
    const bool across = cut.flip == FLIP_HORIZONTAL;
    float *const to = g->to + n * g->sample;
    for (int y = 0; y < height; y++) {
        const int row = cut.top + (cut.flip == FLIP_VERTICAL ? height - 1 - y : y);
        const unsigned char *from =
            p->pixels + ((size_t)row * (size_t)p->width + (size_t)cut.left) * (size_t)channels;
        const int step = across ? -channels : channels;
        from += across ? (width - 1) * channels : 0;
        for (int c = 0; c < channels; c++) {
            float *line = to + g->axis[0][c] + g->axis[1][y];
            for (int x = 0; x < width; x++)
                line[g->axis[2][x]] = g->table[c][from[x * step + c]];
        }
    }
}

brasa_status transform_picture(brasa_context *ctx, const transform *t, picture *p, const int of[3], float *out)
{
    const shape one = shape_4(1, of[0], of[1], of[2]);
    const size_t bytes = (size_t)layout_table_size(&one) * sizeof(int64_t);
    transform_target g = {.to = out, .shape = {of[0], of[1], of[2]}};
    picture spare = {0};
    int64_t *table = mem_get(ctx, bytes);
    brasa_status status = table ? transform_fixed(ctx, t, p, &spare) : fail_memory(ctx, bytes);
    if (status == BRASA_OK && (p->channels != of[0] || p->height < of[1] || p->width < of[2]))
        status = fail(ctx, BRASA_BAD_SHAPE, "the picture is %dx%dx%d, expected %dx%dx%d: see the transform",
                      p->channels, p->height, p->width, of[0], of[1], of[2]);
    if (status == BRASA_OK) {
        layout_table_fill(&(layout){0}, &one, table);
        g.axis[0] = table + 1;
        g.axis[1] = g.axis[0] + of[0];
        g.axis[2] = g.axis[1] + of[1];
        transform_table(t, &g);
        transform_write(t, p, &(transform_draw){0}, &g, 0);
    }
    picture_free(ctx, &spare);
    mem_put(ctx, table);
    return status;
}
