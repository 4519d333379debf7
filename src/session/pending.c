/* pending.c - see pending.h. */
#include "session/pending.h"
#include "device/device.h"

#include <string.h>

enum { PLACES = DEVICE_MOST_PENDING + 1, NUMBERS = 2 };

typedef struct place {
    device_event *event; /* the numbers are there when it is passed */
    float *numbers;      /* loss and accuracy, or logits */
    dtype type;          /* of logits, as they were brought */
    int32_t *labels;
    int32_t samples;
} place;

struct pending {
    brasa_context *ctx;
    int classes; /* 0: of training */
    float *numbers;
    int32_t *labels; /* of evaluation: a loader writes over its own */
    place place[PLACES];
    int places, first, count; /* in use, in a ring */
};

static bool make_places(pending *a, int64_t samples)
{
    device *d = a->ctx->device;
    const size_t each = a->classes ? (size_t)samples * (size_t)a->classes : NUMBERS, places = (size_t)a->places;
    a->numbers = pinned_get(a->ctx, places * each * sizeof *a->numbers);
    if (a->classes)
        a->labels = mem_get(a->ctx, places * (size_t)samples * sizeof *a->labels);
    bool made = a->numbers && (a->labels || !a->classes);
    for (int i = 0; i < a->places && made; i++) {
        a->place[i].numbers = a->numbers + (size_t)i * each;
        a->place[i].labels = a->classes ? a->labels + i * samples : NULL;
        made = (a->place[i].event = d->event_new(d)) != NULL;
    }
    return made;
}

brasa_status pending_new(brasa_context *ctx, int64_t samples, int classes, pending **out)
{
    pending *a = *out = mem_get(ctx, sizeof *a);
    if (!a)
        return fail_memory(ctx, sizeof *a);
    a->ctx = ctx;
    a->classes = classes;
    a->places = pending_depth(a) + 1;
    if (make_places(a, samples))
        return BRASA_OK;
    return fail_memory(ctx, (size_t)(a->places * samples) * (size_t)(classes + 1) * sizeof *a->numbers);
}

void pending_free(pending *a)
{
    if (!a)
        return;
    device *d = a->ctx->device;
    (void)pending_drop(a);
    for (int i = 0; i < a->places; i++)
        if (a->place[i].event)
            d->event_free(d, a->place[i].event);
    pinned_put(a->ctx, a->numbers);
    mem_put(a->ctx, a->labels);
    mem_put(a->ctx, a);
}

int pending_depth(const pending *a)
{
    return a->ctx->device->most_pending;
}

brasa_status pending_add(pending *a, brasa_session *s, const batch *b)
{
    device *d = a->ctx->device;
    place *p = &a->place[(a->first + a->count) % a->places];
    brasa_status status;
    if (a->classes) {
        memcpy(p->labels, b->labels, (size_t)b->size * sizeof *p->labels);
        status = session_fetch_async(s, "logits", p->numbers, (int64_t)b->size * a->classes, &p->type);
    } else {
        status = session_fetch_async(s, "loss", &p->numbers[0], 1, &p->type);
        if (status == BRASA_OK)
            status = session_fetch_async(s, "accuracy", &p->numbers[1], 1, &p->type);
    }
    if (status == BRASA_OK)
        status = d->event_record(d, STREAM_COMPUTE, p->event);
    p->samples = b->size;
    a->count++;
    return status;
}

int pending_count(const pending *a)
{
    return a->count;
}

/* Makes floats of numbers that came in 16 bits, in their place: from the last one on, as floats take more room. */
static void widen(float *numbers, int64_t count)
{
    for (int64_t i = count - 1; i >= 0; i--) {
        uint16_t half;
        memcpy(&half, (const char *)numbers + i * (int64_t)sizeof half, sizeof half);
        numbers[i] = bf16_load(half);
    }
}

brasa_status pending_take(pending *a, step_result *out)
{
    device *d = a->ctx->device;
    place *p = &a->place[a->first];
    const brasa_status status = d->event_wait(d, p->event);
    *out = (step_result){.samples = p->samples};
    if (a->classes) {
        if (p->type == BF16)
            widen(p->numbers, (int64_t)p->samples * a->classes);
        out->logits = p->numbers;
        out->labels = p->labels;
    } else {
        out->loss = p->numbers[0];
        out->accuracy = p->numbers[1];
    }
    a->first = (a->first + 1) % a->places;
    a->count--;
    return status;
}

brasa_status pending_drop(pending *a)
{
    brasa_status status = BRASA_OK;
    while (a->count) {
        step_result unread;
        const brasa_status one = pending_take(a, &unread);
        status = status == BRASA_OK ? one : status;
    }
    return status;
}
