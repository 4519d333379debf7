/* answers.c - see answers.h. */
#include "train/answers.h"
#include "backend/backend.h"

enum { PLACES = MOST_LATE + 1, NUMBERS = 2 };

struct answers {
    brasa_context *ctx;
    float *numbers;     /* NUMBERS of each place: loss and accuracy */
    mark *mark[PLACES]; /* of a device: they are there when it is passed */
    int32_t samples[PLACES];
    int first, count; /* places in use, in a ring */
};

brasa_status answers_new(brasa_context *ctx, answers **out)
{
    device *d = ctx->device;
    answers *a = *out = mem_get(ctx, sizeof *a);
    if (!a)
        return fail_memory(ctx, sizeof *a);
    a->ctx = ctx;
    a->numbers = host_get(ctx, PLACES * NUMBERS * sizeof *a->numbers);
    bool made = a->numbers != NULL;
    for (int i = 0; d && i < PLACES; i++)
        made = (a->mark[i] = d->mark_new(d)) && made;
    return made ? BRASA_OK : fail_memory(ctx, PLACES * NUMBERS * sizeof *a->numbers);
}

void answers_free(answers *a)
{
    if (!a)
        return;
    device *d = a->ctx->device;
    (void)answers_drop(a);
    for (int i = 0; i < PLACES; i++)
        if (a->mark[i])
            d->mark_free(d, a->mark[i]);
    host_put(a->ctx, a->numbers);
    mem_put(a->ctx, a);
}

int answers_late(const answers *a)
{
    return a->ctx->device ? MOST_LATE : 0;
}

brasa_status answers_ask(answers *a, brasa_session *s, int32_t samples)
{
    device *d = a->ctx->device;
    const int i = (a->first + a->count) % PLACES;
    float *to = a->numbers + i * NUMBERS;
    brasa_status status = session_fetch_later(s, "loss", &to[0]);
    if (status == BRASA_OK)
        status = session_fetch_later(s, "accuracy", &to[1]);
    if (status == BRASA_OK && d)
        status = d->mark_set(d, QUEUE_STEPS, a->mark[i]);
    a->samples[i] = samples;
    a->count++;
    return status;
}

int answers_waiting(const answers *a)
{
    return a->count;
}

brasa_status answers_take(answers *a, float *loss, float *accuracy, int32_t *samples)
{
    device *d = a->ctx->device;
    const int i = a->first;
    const brasa_status status = d ? d->mark_wait(d, a->mark[i]) : BRASA_OK;
    *loss = a->numbers[i * NUMBERS];
    *accuracy = a->numbers[i * NUMBERS + 1];
    *samples = a->samples[i];
    a->first = (a->first + 1) % PLACES;
    a->count--;
    return status;
}

brasa_status answers_drop(answers *a)
{
    brasa_status status = BRASA_OK;
    while (a->count) {
        float loss, accuracy;
        int32_t samples;
        const brasa_status one = answers_take(a, &loss, &accuracy, &samples);
        status = status == BRASA_OK ? one : status;
    }
    return status;
}
