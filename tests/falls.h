/* falls.h - a network learns one batch by heart: its loss falls to a fraction of what it was.
 *
 * The batch is two pictures, noise on two different grounds, with two labels. Adam's rate is one that every network
 * can take as it is first made. Dropout makes single losses jump, so the last five are averaged.
 */
#ifndef TEST_FALLS_H
#define TEST_FALLS_H

#include "test.h"

#include <stdlib.h>

enum { BATCH = 2, CLASSES = 10, LAST = 5 };

static inline void draw_pictures(float *images, int64_t planes, int64_t plane)
{
    uint32_t state = 1;
    for (int64_t i = 0; i < planes * plane; i++) {
        state = state * 1664525 + 1013904223;
        images[i] = (float)(state >> 8) / 0x1p24f - (i / plane % 2 ? 0 : 1); /* three planes: the next one differs */
    }
}

static inline brasa_status train_on(brasa_session *s, const float *images, int steps, double *first, double *last)
{
    static const int32_t labels[BATCH] = {3, 7};
    brasa_status status = BRASA_OK;
    for (int i = 0; i < steps && status == BRASA_OK; i++) {
        float loss = 0;
        status = brasa_train_step(s, images, labels, &loss);
        *first = i == 0 ? loss : *first;
        *last += i >= steps - LAST ? (double)loss / LAST : 0;
    }
    return status;
}

/* The last losses of so many steps are at most the first one divided by `factor`. */
static inline void check_falls(const char *model, int steps, double factor)
{
    brasa_model_info info = {.size = sizeof info, .name = ""};
    CASE("%s", model);
    for (int m = 0; strcmp(info.name, model) != 0 && brasa_model_at(m, &info); m++)
        ;
    const int64_t planes = (int64_t)BATCH * info.input[0], plane = (int64_t)info.input[1] * info.input[2];
    float *images = malloc((size_t)(planes * plane) * sizeof *images);
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    OWNED(brasa_session) *s = NULL;
    brasa_session_options o = {.size = sizeof o, .batch = BATCH, .optimizer = "adam lr=1e-4", .seed = 1};
    double first = 0, last = 0;
    draw_pictures(images, planes, plane);
    CHECK_STATUS(brasa_model_build(g, model, CLASSES), BRASA_OK);
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    if (s)
        CHECK_STATUS(train_on(s, images, steps, &first, &last), BRASA_OK);
    if (tests.verbose)
        printf("%s: %.3f to %.3g in %d steps\n", model, first, last, steps);
    if (!(last * factor < first))
        test_fail(__FILE__, __LINE__, "the loss went from %.4g to %.4g in %d steps, expected a %gth of it", first,
                  last, steps, factor);
    free(images);
}

#endif
