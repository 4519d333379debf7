/* line.c - see line.h. */
#include "lab/line.h"

#include "core/json_scan.h"

#include <math.h>
#include <string.h>

static const char *const events[] = {
    [LINE_START] = "start",     [LINE_IMPORTED] = "imported",
    [LINE_REFUSED] = "refused", [LINE_BUILT] = "built",
    [LINE_BATCH] = "batch",     [LINE_OUTPUT] = "output",
    [LINE_LOSS] = "loss",       [LINE_PARAM] = "param",
    [LINE_NOISE] = "noise",     [LINE_NOISE_PARAM] = "noise_param",
    [LINE_PHASE] = "phase",     [LINE_FIRST_STEP] = "first_step",
    [LINE_EPOCH] = "epoch",     [LINE_EVALUATION] = "evaluation",
    [LINE_PROFILE] = "profile", [LINE_FUNCTION] = "function",
    [LINE_DONE] = "done",       [LINE_FAILED] = "failed",
};

typedef struct reader {
    pool *pool;
    lab_line *line;
    bool known; /* its event was given */
} reader;

static brasa_status read_event(json_scan *s, reader *r)
{
    char *word;
    brasa_status status = json_read_text(s, &word);
    if (status != BRASA_OK)
        return status;
    r->known = true;
    r->line->event = 0;
    while (r->line->event < LINE_OTHER && strcmp(events[r->line->event], word) != 0)
        r->line->event++;
    return BRASA_OK;
}

static bool is_null(json_scan *s)
{
    return json_peek(s) == 'n';
}

static brasa_status read_whole(json_scan *s, int64_t *out)
{
    double number;
    if (is_null(s))
        return json_skip(s);
    brasa_status status = json_read_real(s, &number);
    if (status == BRASA_OK && (number != floor(number) || number < 0 || number > 9e15))
        return json_refuse(s, s->at, "expected a whole number");
    *out = status == BRASA_OK ? (int64_t)number : -1;
    return status;
}

static brasa_status read_label(json_scan *s, void *user)
{
    reader *r = user;
    lab_line *l = r->line;
    uint64_t number;
    brasa_status status = json_read_number(s, &number);
    if (status != BRASA_OK || number > INT32_MAX)
        return status == BRASA_OK ? json_refuse(s, s->at, "a label that is too large") : status;
    int32_t *grown = pool_grow(r->pool, l->labels, l->nlabels, &l->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(s->ctx, sizeof *grown);
    l->labels = grown;
    l->labels[l->nlabels++] = (int32_t)number;
    return BRASA_OK;
}

static brasa_status read_shape(json_scan *s, shape *out)
{
    uint64_t sizes[MAX_RANK];
    brasa_status status = json_read_numbers(s, sizes, MAX_RANK, &out->rank);
    for (int i = 0; i < out->rank && status == BRASA_OK; i++)
        out->dim[i] = (int64_t)sizes[i];
    return status;
}

/* Any value, as the text that it is. */
static brasa_status read_raw(json_scan *s, pool *p, const char *original, const char **out)
{
    json_peek(s);
    const char *start = s->at;
    brasa_status status = json_skip(s); /* which decodes texts in place: hence the original */
    if (status == BRASA_OK && !(*out = pool_text(p, "%.*s", (int)(s->at - start), original + (start - s->text))))
        status = fail_memory(s->ctx, (size_t)(s->at - start));
    return status;
}

typedef struct scanned {
    reader r;
    const char *original;
} scanned;

static brasa_status read_member(json_scan *s, char *key, void *user)
{
    scanned *x = user;
    lab_line *l = x->r.line;
    const struct {
        const char *key;
        const char **to;
    } texts[] = {{"framework", &l->framework}, {"version", &l->version}, {"python", &l->python}, {"why", &l->why},
                 {"kind", &l->kind},           {"phase", &l->phase},     {"node", &l->node},     {"name", &l->name}};
    const struct {
        const char *key;
        double *to;
    } reals[] = {{"at", &l->at},     {"sum", &l->sum},           {"mean", &l->mean},      {"rms", &l->rms},
                 {"loss", &l->loss}, {"accuracy", &l->accuracy}, {"seconds", &l->seconds}};
    const struct {
        const char *key;
        int64_t *to;
    } wholes[] = {{"parameters", &l->parameters},
                  {"trainable", &l->trainable},
                  {"layers", &l->layers},
                  {"step", &l->step},
                  {"epoch", &l->epoch},
                  {"images", &l->images},
                  {"steps", &l->steps},
                  {"calls", &l->calls},
                  {"device_peak", &l->device_peak}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i].key, key) == 0)
            return is_null(s) ? json_skip(s) : json_read_text(s, (char **)texts[i].to);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        if (strcmp(reals[i].key, key) == 0)
            return is_null(s) ? json_skip(s) : json_read_real(s, reals[i].to);
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++)
        if (strcmp(wholes[i].key, key) == 0)
            return read_whole(s, wholes[i].to);
    if (strcmp(key, "event") == 0)
        return read_event(s, &x->r);
    if (strcmp(key, "labels") == 0)
        return json_read_list(s, read_label, &x->r);
    if (strcmp(key, "shape") == 0)
        return read_shape(s, &l->shape);
    if (strcmp(key, "detail") == 0)
        return read_raw(s, x->r.pool, x->original, &l->detail);
    return json_skip(s);
}

brasa_status lab_line_read(pool *p, const char *text, size_t length, lab_line *out)
{
    *out = (lab_line){.at = NAN, .sum = NAN, .mean = NAN, .rms = NAN, .loss = NAN, .accuracy = NAN, .seconds = NAN};
    out->parameters = out->trainable = out->layers = out->step = out->epoch = out->images = out->steps = -1;
    out->calls = out->device_peak = -1;
    char *copy = pool_get(p, length + 1, 1);
    if (!copy)
        return fail_memory(p->ctx, length);
    memcpy(copy, text, length);
    json_scan s = {.ctx = p->ctx, .path = "a runner's line", .text = copy, .at = copy, .end = copy + length};
    scanned x = {.r = {.pool = p, .line = out}, .original = text};
    brasa_status status = json_read_object(&s, read_member, &x);
    if (status == BRASA_OK && json_peek(&s))
        status = json_refuse(&s, s.at, "more than one object");
    if (status == BRASA_OK && !x.r.known)
        status = json_refuse(&s, s.text, "an object without \"event\"");
    return status;
}
