/* task.h - a made-up task that a network can learn: every class is a random picture, every sample one of them under
 * noise. Samples are numbered; a number always gives the same sample. */
#ifndef TEST_TASK_H
#define TEST_TASK_H

#include "test.h"

#include "core/random.h"

#include <stdint.h>
#include <stdlib.h>

typedef struct task {
    int classes, pixels; /* of a sample: channels x height x width, or features */
    int batch;
    double noise; /* its deviation; the class pictures lie within +-1 */
    float *images;
    int32_t *labels;
} task;

static inline task task_new(int classes, int pixels, int batch, double noise)
{
    task t = {.classes = classes, .pixels = pixels, .batch = batch, .noise = noise};
    t.images = calloc((size_t)batch * (size_t)pixels, sizeof *t.images);
    t.labels = calloc((size_t)batch, sizeof *t.labels);
    return t;
}

static inline void task_free(task *t)
{
    free(t->images);
    free(t->labels);
}

OWNER(task, *x, task_free(x))

/* Fills the batch with the samples from number `first` on. */
static inline void task_fill(task *t, int first)
{
    const random_stream classes = {.seed = 5, .purpose = RANDOM_DATA}, picks = {.seed = 6, .purpose = RANDOM_DATA};
    for (int b = 0; b < t->batch; b++) {
        const random_stream noise = {.seed = 7, .purpose = RANDOM_DATA, .stream = (uint32_t)(first + b)};
        t->labels[b] = (int32_t)random_uniform(&picks, (uint64_t)(first + b), 0, t->classes);
        for (int i = 0; i < t->pixels; i++) {
            double pixel =
                random_uniform(&classes, (uint64_t)t->labels[b] * (uint64_t)t->pixels + (uint64_t)i, -1, 1);
            t->images[b * t->pixels + i] = (float)(pixel + t->noise * random_normal(&noise, (uint64_t)i));
        }
    }
}

#endif
