/* account.c - see account.h. */
#include "lab/account.h"

#include "core/json_scan.h"
#include "lab/results.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MOST_EPOCHS = 100000, MOST_FUNCTIONS = 1000 }; /* that are kept: who says that it did more is no runner */

account account_start(pool *p, account_owed owed)
{
    return (account){.pool = p,
                     .owed = owed,
                     .started_at = NAN,
                     .import_s = NAN,
                     .first_step_s = NAN,
                     .accuracy = NAN,
                     .device_peak = -1,
                     .profile_steps = -1,
                     .profile_s = NAN,
                     .phase = "import"};
}

static const char *known_phase(const char *word)
{
    static const char *const known[] = {"load", "first_step", "warmup", "epoch", "evaluation", "profile"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (word && strcmp(known[i], word) == 0)
            return known[i];
    return "other";
}

/* A copy in our pool; false: out of memory. */
static bool keep(account *a, const char **to, const char *text)
{
    return !text || (*to = pool_text(a->pool, "%s", text));
}

bool account_add_detail(account *a, const char *key, const char *value)
{
    const char *rest = a->detail && a->detail[0] == '{' ? a->detail + 1 : "}";
    rest += strspn(rest, " \t\r\n"); /* all that JSON lets stand between */
    const char *all = pool_text(a->pool, "{\"%s\": \"%s\"%s%s", key, value, *rest == '}' ? "" : ", ", rest);
    a->detail = all ? all : a->detail;
    return all;
}

/* The runner's details, with Python's version among them. */
static bool keep_detail(account *a, const lab_line *l)
{
    static const char plain[] = "0123456789.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+- ";
    if (!keep(a, &a->detail, l->detail) || !l->python || l->python[strspn(l->python, plain)])
        return a->detail || !l->detail;
    return account_add_detail(a, "python", l->python);
}

/* The first one is kept. A run that ends badly has a better reason than this: hence it is not told at once. */
static void note_wrong(account *a, const char *format, ...) BRASA_PRINTF(2, 3);
static void note_wrong(account *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!a->wrong[0])
        vsnprintf(a->wrong, sizeof a->wrong, format, args);
    va_end(args);
}

static bool is_time(double seconds)
{
    return isfinite(seconds) && seconds >= 0;
}

static bool is_share(double value)
{
    return value >= 0 && value <= 1 + 1e-6; /* some divide floats */
}

static void check_images(account *a, const char *what, const lab_line *l, int64_t owed)
{
    if (a->owed.epochs && l->images < 0)
        note_wrong(a, "%s %lld told of no images", what, (long long)l->epoch);
    else if (a->owed.epochs && l->images != owed)
        note_wrong(a, "%s %lld had %lld of %lld images", what, (long long)l->epoch, (long long)l->images,
                   (long long)owed);
}

static void check_epoch(account *a, const lab_line *l)
{
    if (l->epoch != a->epochs + 1)
        note_wrong(a, "epoch %lld came where epoch %d was due", (long long)l->epoch, a->epochs + 1);
    if (l->seconds == 0)
        note_wrong(a, "epoch %lld took no time", (long long)l->epoch);
    check_images(a, "epoch", l, a->owed.images);
    if (a->owed.epochs && !isfinite(l->loss))
        note_wrong(a, "the loss of epoch %lld is no finite number", (long long)l->epoch);
    if (!isnan(l->accuracy) && !is_share(l->accuracy))
        note_wrong(a, "the accuracy of epoch %lld is %g: from 0 to 1 was expected", (long long)l->epoch, l->accuracy);
}

static brasa_status add_epoch(account *a, const lab_line *l)
{
    brasa_context *ctx = a->pool->ctx;
    if (l->epoch < 0 || !is_time(l->seconds) || a->epochs == MOST_EPOCHS)
        return fail(ctx, BRASA_BAD_FILE, "an epoch needs its number and its seconds");
    check_epoch(a, l);
    store_epoch *grown = pool_grow(a->pool, a->epoch, a->epochs, &a->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(ctx, (size_t)a->epochs * sizeof *grown);
    a->epoch = grown;
    a->device_peak = l->device_peak > a->device_peak ? l->device_peak : a->device_peak;
    a->epoch[a->epochs++] = (store_epoch){.epoch = l->epoch,
                                          .seconds = l->seconds,
                                          .images = l->images,
                                          .steps = l->steps,
                                          .loss = l->loss,
                                          .accuracy = l->accuracy,
                                          .eval_s = NAN,
                                          .eval_accuracy = NAN};
    return BRASA_OK;
}

static void check_evaluation(account *a, const lab_line *l, const store_epoch *last)
{
    const long long epoch = (long long)l->epoch;
    if (!last || l->epoch != last->epoch)
        note_wrong(a, "an evaluation of epoch %lld came after epoch %lld", epoch, last ? (long long)last->epoch : 0);
    else if (!isnan(last->eval_accuracy))
        note_wrong(a, "epoch %lld was evaluated twice", epoch);
    if (!is_time(l->seconds))
        note_wrong(a, "the evaluation of epoch %lld told no seconds", epoch);
    if (isnan(l->accuracy))
        note_wrong(a, "the evaluation of epoch %lld told no accuracy", epoch);
    else if (!is_share(l->accuracy))
        note_wrong(a, "the accuracy after epoch %lld is %g: from 0 to 1 was expected", epoch, l->accuracy);
    check_images(a, "the evaluation of epoch", l, a->owed.tests);
}

static void add_evaluation(account *a, const lab_line *l)
{
    store_epoch *last = a->epochs ? &a->epoch[a->epochs - 1] : NULL;
    check_evaluation(a, l, last);
    a->accuracy = l->accuracy;
    if (last && last->epoch == l->epoch) {
        last->eval_s = l->seconds;
        last->eval_accuracy = l->accuracy;
    }
}

const char *account_missing(account *a)
{
    const int64_t due = a->owed.epochs;
    for (int i = 0; i < a->epochs && i < due && a->owed.tests > 0; i++)
        if (isnan(a->epoch[i].eval_accuracy))
            note_wrong(a, "epoch %d was not evaluated", i + 1);
    if (due && a->epochs != due)
        note_wrong(a, "it said that it was done after %d of %lld epochs", a->epochs, (long long)due);
    return a->wrong;
}

static brasa_status add_function(account *a, const lab_line *l)
{
    brasa_context *ctx = a->pool->ctx;
    if (!l->name || !(l->seconds >= 0) || a->functions == MOST_FUNCTIONS)
        return fail(ctx, BRASA_BAD_FILE, "a function needs its name and its seconds");
    store_function *grown = pool_grow(a->pool, a->function, a->functions, &a->function_capacity, sizeof *grown);
    const char *name = grown ? pool_text(a->pool, "%s", l->name) : NULL;
    if (!name)
        return fail_memory(ctx, (size_t)a->functions * sizeof *grown);
    a->function = grown;
    a->function[a->functions++] = (store_function){.name = name, .seconds = l->seconds, .calls = l->calls};
    return BRASA_OK;
}

static brasa_status take(account *a, const lab_line *l)
{
    bool kept = true;
    if (a->done)
        note_wrong(a, "line %d came after it had said that it was done", a->lines);
    switch (l->event) {
    case LINE_START:
        a->started_at = l->at;
        break;
    case LINE_IMPORTED:
        a->import_s = l->at - a->started_at;
        a->phase = "build";
        kept = keep(a, &a->framework, l->framework) && keep(a, &a->version, l->version) && keep_detail(a, l);
        break;
    case LINE_REFUSED:
    case LINE_FAILED:
        a->refused = l->event == LINE_REFUSED;
        a->failed = !a->refused;
        a->out_of_memory = a->failed && l->kind && strcmp(l->kind, "memory") == 0;
        kept = keep(a, &a->why, l->why ? l->why : "it did not say why");
        break;
    case LINE_PHASE:
        a->phase = known_phase(l->phase);
        break;
    case LINE_FIRST_STEP:
        if (!is_time(l->seconds))
            note_wrong(a, "the first step told no seconds");
        a->first_step_s = l->seconds;
        break;
    case LINE_EPOCH:
        return add_epoch(a, l);
    case LINE_EVALUATION:
        add_evaluation(a, l);
        break;
    case LINE_PROFILE:
        a->profile_steps = l->steps;
        a->profile_s = l->seconds;
        kept = keep(a, &a->profile_why, l->why);
        break;
    case LINE_FUNCTION:
        return add_function(a, l);
    case LINE_DONE:
        a->done = true;
        break;
    default:
        break;
    }
    return kept ? BRASA_OK : fail_memory(a->pool->ctx, 0);
}

/* A line as a message can show it: its start, what cannot be shown as dots. */
static short_text shown(const char *text, size_t length)
{
    char start[64];
    const size_t cut = length < sizeof start ? length : sizeof start - 1;
    for (size_t i = 0; i < cut; i++)
        start[i] = (char)(text[i] >= 0x20 && text[i] < 0x7F ? text[i] : '.');
    start[cut] = '\0';
    return text_short(start);
}

brasa_status account_line(account *a, pool *scratch, const char *text, size_t length, lab_line *l)
{
    brasa_context *ctx = a->pool->ctx;
    a->lines++;
    brasa_status status = lab_line_read(scratch, text, length, l);
    if (status == BRASA_OK)
        status = take(a, l);
    if (status == BRASA_OK || status == BRASA_OUT_OF_MEMORY)
        return status;
    char why[ERROR_TEXT_SIZE];
    const char *prefix = "a runner's line: ", *said = brasa_context_error(ctx);
    strcpy(why, strncmp(said, prefix, strlen(prefix)) == 0 ? said + strlen(prefix) : said);
    return fail(ctx, BRASA_BAD_FILE, "line %d of its output is no line of a runner: '%s' (%s)", a->lines,
                shown(text, length).text, why);
}

/* --- medians ------------------------------------------------------------------------------------------------- */

/* Of a member of the epochs, those that are not there left out. */
static double median(const account *a, size_t offset)
{
    pool p = {.ctx = a->pool->ctx};
    double *v = pool_get(&p, (size_t)a->epochs + 1, sizeof *v);
    for (int i = 0; v && i < a->epochs; i++)
        v[i] = *(const double *)(const void *)((const char *)&a->epoch[i] + offset);
    const double result = v ? spread_of(v, a->epochs).median : NAN;
    pool_free(&p);
    return result;
}

double account_epoch_s(const account *a)
{
    return median(a, offsetof(store_epoch, seconds));
}

double account_eval_s(const account *a)
{
    return median(a, offsetof(store_epoch, eval_s));
}
