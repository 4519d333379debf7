/* class_weights.c - what each class counts in the loss: as the user says, or so that all classes count the same.
 *
 * Weights are above 0: a batch that only has samples without weight would have no loss. */
#include "core/numeric.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rare classes count more: the samples of each class have the same weight in all, those of the whole list a mean
 * of 1. A class without samples counts 1: nothing is learned of it anyway. */
static brasa_status balance(training *t)
{
    unit *u = &t->unit;
    const int32_t *label = t->task.set->label;
    const int classes = t->task.classes;
    int32_t *count = pool_get(&u->pool, (size_t)classes, sizeof *count);
    if (!count)
        return fail_memory(t->task.ctx, (size_t)classes * sizeof *count);
    for (int32_t i = 0; i < u->split.trains; i++)
        count[label[u->split.train[i]]]++;
    for (int k = 0; k < classes; k++)
        u->class_weights[k] = count[k] ? (float)((double)u->split.trains / ((double)classes * count[k])) : 1;
    return BRASA_OK;
}

/* The numbers of a list with commas; how many there are, or -1: one is no number, or not above 0. */
static int read_numbers(const char *text, float *out, int most)
{
    int count = 0;
    for (;; count++) {
        char *end;
        const float x = strtof(text, &end);
        if (end == text || (*end && *end != ',') || !isfinite(x) || !(x > 0))
            return -1;
        if (count < most)
            out[count] = x;
        if (!*end)
            return count + 1;
        text = end + 1;
    }
}

brasa_status unit_weigh_classes(training *t)
{
    unit *u = &t->unit;
    const char *text = t->task.settings.class_weights;
    const int classes = t->task.classes;
    if (!text)
        return BRASA_OK;
    u->class_weights = pool_get(&u->pool, (size_t)classes, sizeof *u->class_weights);
    if (!u->class_weights)
        return fail_memory(t->task.ctx, (size_t)classes * sizeof *u->class_weights);
    if (strcmp(text, "balanced") == 0)
        return balance(t);
    const numeric_state locale = numeric_enter();
    const int count = read_numbers(text, u->class_weights, classes);
    numeric_leave(locale);
    if (count == classes)
        return BRASA_OK;
    if (count > 0)
        return fail(t->task.ctx, BRASA_BAD_ARGUMENT, "class weights: there are %d classes, but %d numbers: %.100s",
                    classes, count, text);
    return fail(t->task.ctx, BRASA_BAD_ARGUMENT,
                "class weights: expected 'balanced', or a number above 0 for each of the %d classes, as in 1,2.5; "
                "got '%.100s'",
                classes, text);
}
