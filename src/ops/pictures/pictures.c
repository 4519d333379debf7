/* pictures.c - cuts pictures out of larger ones, mirrors them and makes numbers of their bytes: what a data set's
 * transform does on the host, on the device that computes. Lowering puts it in the place of an input
 * (graph.pictures): four times fewer bytes go there, and a set that fits stays there as it is.
 */
#include "ops/pictures/pictures.h"
#include "core/pixel.h"

#ifdef REAL

/* item: a row of a picture */
static void NAME(pictures_range)(const step *s, int64_t begin, int64_t end)
{
    const pictures_attr *t = s->attr;
    const pictures_view *views = s->in[0].data;
    const int64_t height = t->height, width = t->width, channels = t->channels;
    for (int64_t item = begin; item < end; item++) {
        const int64_t n = item / height, y = item % height;
        const pictures_view v = views[n];
        const unsigned char *from = (const unsigned char *)(uintptr_t)v.pixels;
        from += (v.mirrored == PICTURES_DOWN ? height - 1 - y : y) * v.row;
        for (int64_t c = 0; c < channels; c++) {
            REAL *to = (REAL *)s->out[0].data + ((n * channels + c) * height + y) * width;
            for (int64_t x = 0; x < width; x++) {
                const int64_t at = v.mirrored == PICTURES_ACROSS ? width - 1 - x : x;
                to[x] = (REAL)pixel_number(from[at * channels + c], t->scale, t->mean[c], t->std[c]);
            }
        }
    }
}

/* in: views N x VIEW_NUMBERS (i64); out: N x C x H x W */
static brasa_status NAME(pictures)(const step *s)
{
    const pictures_attr *t = s->attr;
    const int64_t rows = s->out[0].shape.dim[0] * t->height;
    step_for(s, rows, (double)(rows * t->width * t->channels), NAME(pictures_range));
    return BRASA_OK;
}

#else

#define REAL_SOURCE "ops/pictures/pictures.c"
#include "ops/real.h"

static brasa_status infer(infer_args *a)
{
    const pictures_attr *t = a->attr;
    if (a->in[0].rank != 2 || a->in[0].dim[1] != VIEW_NUMBERS)
        return infer_fail(a, "expected %d numbers of each picture", (int)VIEW_NUMBERS);
    a->out[0] = shape_4(a->in[0].dim[0], t->channels, t->height, t->width);
    return BRASA_OK;
}

const op_def pictures_op = {
    .name = "pictures", .min_in = 1, .max_in = 1, .attr_size = sizeof(pictures_attr), .infer = infer};

const op_def *const pictures_parts[] = {&pictures_op, NULL};
const kernel pictures_ref[] = {REFERENCE(pictures_op, pictures), {0}};

#endif
