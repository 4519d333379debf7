/* alarms.c - what the studies needed somebody to notice: labels that cannot be learned, rates that do nothing,
 * numbers that went wrong, and results that guessing would give, too. */
#include "device/device.h"
#include "train/checkpoint.h"
#include "train/record.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void alarms_keep(alarm_list *l, pool *p, const char *pattern, ...)
{
    char text[ERROR_TEXT_SIZE];
    va_list args;
    va_start(args, pattern);
    vsnprintf(text, sizeof text, pattern, args);
    va_end(args);
    for (int i = 0; i < l->count; i++)
        if (strcmp(l->text[i], text) == 0)
            return;
    if (l->count < MOST_ALARMS && (l->text[l->count] = pool_text(p, "%s", text)))
        l->count++;
}

/* --- before the first step ----------------------------------------------------------------------------------- */

/* The share of the commonest class in a list: what always naming it would get right. */
static double commonest(const training *t, const int32_t *list, int32_t count)
{
    int32_t most = 0;
    int32_t *per_class = mem_get(t->task.ctx, (size_t)t->task.classes * sizeof *per_class);
    for (int32_t i = 0; per_class && i < count; i++) {
        const int32_t n = ++per_class[t->task.set->label[list[i]]];
        most = n > most ? n : most;
    }
    mem_put(t->task.ctx, per_class);
    return count ? (double)most / count : 0;
}

static void tell_missing(training *t, const char *which, const int32_t *list, int32_t count)
{
    int first;
    const int missing = split_missing(t->task.set, list, count, &first);
    if (missing == 1)
        train_say(t, BRASA_ON_WARNING, "the class '%s' is not among the samples to %s", t->task.class_name[first],
                  which);
    else if (missing > 1)
        train_say(t, BRASA_ON_WARNING, "%d classes, '%s' the first, are not among the samples to %s", missing,
                  t->task.class_name[first], which);
}

/* Adadelta finds its own step and expects a rate of 1; tf.keras starts it at 0.001, which made a study's MNIST end at
 * 82 % instead of 99 %. */
static void tell_rate(training *t)
{
    const brasa_session *s = t->unit.session;
    const optimizer_attr *attr = s->optimizer_attr;
    if (s->optimizer == &adadelta_optimizer && attr->rate < 0.1)
        train_say(t, BRASA_ON_WARNING,
                  "Adadelta with a rate of %g (the default of the dialect '%s' is %g) learns next to nothing: it is "
                  "meant to run with lr=1",
                  attr->rate, t->task.settings.dialect, t->task.graph->dialect->adadelta_rate);
}

brasa_status alarms_before(training *t)
{
    const split *s = &t->unit.split;
    const int32_t *label = t->task.set->label;
    int32_t same = 1;
    while (same < s->trains && label[s->train[same]] == label[s->train[0]])
        same++;
    if (t->task.classes < 2 || same == s->trains)
        return fail(t->task.ctx, BRASA_BAD_ARGUMENT,
                    "%s: all %d samples to train on are of the class '%s': there is nothing to learn",
                    t->task.settings.data, (int)s->trains, t->task.class_name[label[s->train[0]]]);
    tell_missing(t, "train on", s->train, s->trains);
    if (s->tests)
        tell_missing(t, "test on", s->test, s->tests);
    tell_rate(t);
    return BRASA_OK;
}

/* --- after a step -------------------------------------------------------------------------------------------- */

/* What it warns of is no alarm. */
void alarms_of_device(training *t)
{
    device *d = t->task.ctx->device;
    if (!d->warning[0])
        return;
    train_say(t, BRASA_ON_NOTE, "%s", d->warning);
    d->warning[0] = '\0';
}

/* --- after an epoch ------------------------------------------------------------------------------------------ */

/* Looked at after a quarter of the epochs, when something should have been learned, but not before the third, and
 * after the last one. Luck counts: two deviations of as many guesses, but on a few samples not more than half of what
 * always naming the commonest class gets wrong. All right is not guessed. */
void alarms_after(training *t, const brasa_epoch *f, bool last)
{
    const unit *u = &t->unit;
    const bool tested = u->split.tests > 0;
    const int64_t quarter = (t->task.settings.epochs + 3) / 4;
    if (!last && (f->epoch != quarter || quarter < 3))
        return;
    const int32_t count = tested ? u->split.tests : u->split.trains;
    const double share = commonest(t, tested ? u->split.test : u->split.train, count);
    const double accuracy = tested ? f->test_accuracy : f->accuracy;
    const double lucky = fmin(share + 2 * sqrt(share * (1 - share) / count), (1 + share) / 2);
    if (accuracy > lucky || accuracy >= 1)
        return;
    train_say(t, BRASA_ON_WARNING,
              "after epoch %lld the accuracy is %.2f %%, no better than guessing (always naming the commonest of %d "
              "classes gives %.2f %%, with luck %.2f %%): look at the labels, the split and the learning rate",
              (long long)f->epoch, 100 * accuracy, t->task.classes, 100 * share, 100 * lucky);
}

/* --- numbers that went wrong --------------------------------------------------------------------------------- */

static bool all_finite(dtype type, const void *data, int64_t count)
{
    const uint16_t all_ones = 0x7F80; /* the exponent of what is not finite, in the upper half of a float */
    if (type == F32)
        for (int64_t i = 0; i < count; i++)
            if (!isfinite(((const float *)data)[i]))
                return false;
    if (storage_view(type) == BF16)
        for (int64_t i = 0; i < count; i++)
            if ((((const uint16_t *)data)[i] & all_ones) == all_ones)
                return false;
    return true;
}

bool session_finite(const brasa_session *s)
{
    for (int i = 0; i < s->nstates; i++) {
        const state *st = &s->states[i];
        if (st->kind == VALUE_SUM) /* of the last step: nothing that lasts */
            continue;
        if (session_pull(s, st) != BRASA_OK ||
            !all_finite(st->type, session_state_data(s, st), st->bytes / (int64_t)dtype_size(st->type)))
            return false;
    }
    return true;
}

/* How the elements of a tensor lie: pieces without gaps. What is no part of another tensor is one piece; of a part,
 * each sample is one, or, where channels lie side by side, each pixel. */
typedef struct pieces {
    int64_t samples, pixels;         /* pieces of a sample */
    int64_t length;                  /* elements of a piece */
    int64_t next_sample, next_pixel; /* from one to the next, in elements */
} pieces;

static pieces pieces_of(const arg *a)
{
    const int last = a->shape.rank - 1;
    const int64_t samples = a->shape.rank ? a->shape.dim[0] : 1;
    const layout *l = &a->format.layout;
    if (a->sample == a->count / samples)
        return (pieces){.samples = 1, .pixels = 1, .length = a->count};
    const bool side_by_side = l->permuted && !l->nblocks && last > 0 && l->order[last] == 1;
    const int64_t length = side_by_side ? a->shape.dim[1] : a->count / samples;
    return (pieces){.samples = samples,
                    .pixels = a->count / samples / length,
                    .length = length,
                    .next_sample = a->sample,
                    .next_pixel = a->pixel};
}

/* The same of what a step made; what is not in the host's memory is copied for it, with what lies between. */
brasa_status output_finite(brasa_context *ctx, const arg *a, bool *out)
{
    const pieces p = pieces_of(a);
    const int64_t size = (int64_t)dtype_size(a->format.storage);
    const size_t bytes =
        (size_t)(((p.samples - 1) * p.next_sample + (p.pixels - 1) * p.next_pixel + p.length) * size);
    const bool here = ctx->device->host_memory;
    char *copy = here ? NULL : mem_get(ctx, bytes + 1);
    if (!here && !copy)
        return fail_memory(ctx, bytes);
    const brasa_status status = copy ? device_copy_out(ctx, copy, a->data, bytes) : BRASA_OK;
    const char *data = copy ? copy : a->data;
    *out = true;
    for (int64_t i = 0; i < p.samples * p.pixels && *out && status == BRASA_OK; i++) {
        const int64_t at = i / p.pixels * p.next_sample + i % p.pixels * p.next_pixel;
        *out = all_finite(a->format.storage, data + at * size, p.length);
    }
    mem_put(ctx, copy);
    return status;
}

/* Runs a program node by node, to the first whose result is not finite; that one is `found`. */
static brasa_status find_bad(program *p, void *found)
{
    const node **bad = found;
    brasa_status status = BRASA_OK;
    int64_t time;
    for (int i = 0; i < p->nsteps && status == BRASA_OK && !*bad; i++) {
        const step *at = &p->steps[i];
        status = program_repeat(p, i, 1, &time);
        for (int k = 0; k < at->nout && status == BRASA_OK && !*bad; k++) {
            bool finite = true;
            status = output_finite(p->graph.ctx, &at->out[k], &finite);
            if (!finite)
                *bad = at->node;
        }
    }
    return status;
}

/* Steps repeat to the bit, so the bad one can be looked at from inside. */
static brasa_status find_node(training *t, const char *path, train_place *good, const node **out)
{
    unit *u = &t->unit;
    checkpoint_note note;
    const checkpoint_terms terms = unit_terms(t);
    const batch *b;
    brasa_status status = checkpoint_load(u->session, path, good, &terms, &note);
    if (status == BRASA_OK)
        status = loader_seek(u->train, good->epoch, good->done);
    for (int64_t left = u->place.done - good->done; left >= 0 && status == BRASA_OK; left--) {
        status = train_feed_next(t, &b);
        if (status == BRASA_OK)
            status = session_step(u->session, true, left ? NULL : find_bad, out);
    }
    if (status == BRASA_OK)
        status = checkpoint_load(u->session, path, good, &terms, &note);
    return status;
}

brasa_status alarms_not_finite(training *t, double loss)
{
    static const char *const parts[] = {
        [ROLE_FORWARD] = "on the way forward", [ROLE_GRADIENT] = "in its gradient", [ROLE_UPDATE] = "in its update"};
    unit *u = &t->unit;
    const node *bad = NULL;
    train_place good = {0};
    char place[256] = "", text[900], what[40] = "the weights are not finite";
    if (!isfinite(loss))
        snprintf(what, sizeof what, "the loss is %s", isnan(loss) ? "not a number" : "infinite");
    if (!train_writes(t)) /* there is no state to go back to */
        return fail(
            t->task.ctx, BRASA_WRONG_STATE,
            "epoch %lld, step %lld: %s. Try a smaller learning rate or clip_norm; with a run folder, the layer "
            "is found that makes the first such numbers",
            (long long)u->place.epoch + 1, (long long)u->place.done + 1, what);
    t->begun = true;
    brasa_status status = pending_drop(u->pending); /* of steps behind the bad one */
    if (status == BRASA_OK)
        status = find_node(t, u->checkpoint, &good, &bad);
    if (status != BRASA_OK)
        return status;
    if (bad)
        snprintf(place, sizeof place, "; the first numbers that are not finite are made by layer '%.100s' (%s) %s",
                 bad->name ? bad->name : bad->op->name, bad->op->name, parts[bad->role]);
    snprintf(text, sizeof text,
             "epoch %lld, step %lld: %s%s. Try a smaller learning rate or --clip-norm. The last good "
             "state, epoch %lld, step %lld, is in %.200s",
             (long long)u->place.epoch + 1, (long long)u->place.done + 1, what, place, (long long)good.epoch + 1,
             (long long)good.done, u->checkpoint);
    alarms_keep(&u->alarms, &u->pool, "%s", text); /* told as the error */
    u->place = good;
    if (!run_has(u->folder, WEIGHTS_FILE))
        status = unit_save_weights(t);
    if (status == BRASA_OK)
        status = record_page(t);
    if (status == BRASA_OK)
        status = record_result(t, text);
    return status == BRASA_OK ? fail(t->task.ctx, BRASA_WRONG_STATE, "%s", text) : status;
}
