/* settings.c - see settings.h. */
#include "train/settings.h"

#include "device/device.h"
#include "core/hash.h"
#include "core/numeric.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum setting_type { TEXT, INT, REAL, BOOL } setting_type;

typedef struct setting {
    const char *name;
    setting_type type;
    size_t offset;
    bool free; /* may differ in a run that goes on: decides how long or where, not what is learned in a step */
} setting;

#define AT(member) offsetof(brasa_trainer_options, member)

static const setting list[] = {
    {"model", TEXT, AT(model), false},
    {"data", TEXT, AT(data), true}, /* its content counts, which has a hash of its own */
    {"split", TEXT, AT(split), false},
    {"folds", INT, AT(folds), false},
    {"fold", INT, AT(fold), false},
    {"no_stratify", BOOL, AT(no_stratify), false},
    {"no_shuffle", BOOL, AT(no_shuffle), false},
    {"transform", TEXT, AT(transform), false},
    {"no_augment", BOOL, AT(no_augment), false},
    {"skip_bad", BOOL, AT(skip_unreadable), false},
    {"dialect", TEXT, AT(dialect), false},
    {"weights", TEXT, AT(weights), true},
    {"epochs", INT, AT(epochs), true},
    {"batch", INT, AT(batch), false},
    {"mem", INT, AT(memory_limit), true}, /* the parts of a batch count, which the checkpoint tells */
    {"optimizer", TEXT, AT(optimizer), false},
    {"schedule", TEXT, AT(schedule), false},
    {"clip_norm", REAL, AT(clip_norm), false},
    {"freeze", TEXT, AT(freeze), false},
    {"class_weights", TEXT, AT(class_weights), false},
    {"deterministic", BOOL, AT(deterministic), false},
    {"no_tune", BOOL, AT(no_tune), true},
    {"patience", INT, AT(patience), true},
    {"keep", TEXT, AT(keep), true},
    {"save_every", REAL, AT(save_every), true},
    {"seed", INT, AT(seed), false},
    {"threads", INT, AT(threads), true},
    {"device", TEXT, AT(device), true}, /* a checkpoint may move from one to another, and tells so */
    {"precision", TEXT, AT(precision), true},
};
enum { SETTINGS = sizeof list / sizeof list[0] };

static brasa_status check_range(brasa_context *ctx, const char *name, int64_t number, int64_t low, int64_t high)
{
    if (number >= low && number <= high)
        return BRASA_OK;
    return fail(ctx, BRASA_BAD_ARGUMENT, "%s: expected a number from %lld to %lld, got %lld", name, (long long)low,
                (long long)high, (long long)number);
}

static brasa_status check_keep(brasa_context *ctx, const char *keep)
{
    if (!keep || strcmp(keep, "best") == 0 || strcmp(keep, "last") == 0)
        return BRASA_OK;
    const size_t digits = strspn(keep, "0123456789");
    if (digits > 0 && digits <= 4 && !keep[digits] && atoi(keep) > 0)
        return BRASA_OK;
    return fail(ctx, BRASA_BAD_ARGUMENT, "keep: expected best, last or a number from 1 to 9999, got '%.40s'", keep);
}

static const char *const precisions[] = {[BRASA_F32] = "f32", [BRASA_TF32] = "tf32", [BRASA_BF16] = "bf16"};
enum { PRECISIONS = sizeof precisions / sizeof precisions[0] };

const char *precision_word(int32_t precision)
{
    return precisions[precision];
}

brasa_status precision_read(brasa_context *ctx, const char *word, int32_t *out)
{
    int32_t found = BRASA_F32;
    while (word && found < PRECISIONS && strcmp(precisions[found], word) != 0)
        found++;
    if (found == PRECISIONS)
        return fail(ctx, BRASA_BAD_ARGUMENT, "precision: expected f32, tf32 or bf16, got '%.20s'", word);
    if (!(ctx->device->precisions & 1u << found))
        return fail(ctx, BRASA_BAD_ARGUMENT, "precision %s is for GPUs: the CPU computes in f32", word);
    *out = found;
    return BRASA_OK;
}

/* What is recorded is what is used: a number that loses digits in run.json loses them before the training, too. */
static double as_recorded(double x)
{
    char text[40];
    const numeric_state locale = numeric_enter();
    snprintf(text, sizeof text, "%.9g", x);
    x = strtod(text, NULL);
    numeric_leave(locale);
    return x;
}

brasa_status settings_complete(brasa_context *ctx, brasa_trainer_options *s)
{
    s->dialect = s->dialect ? s->dialect : "torch";
    s->optimizer = s->optimizer ? s->optimizer : TRAIN_OPTIMIZER;
    s->schedule = s->schedule ? s->schedule : "constant";
    s->epochs = s->epochs ? s->epochs : 10;
    s->batch = s->batch ? s->batch : 32;
    s->save_every = s->save_every != 0 ? as_recorded(s->save_every) : TRAIN_SAVE_EVERY;
    s->clip_norm = as_recorded(s->clip_norm);
    s->threads = brasa_context_threads(ctx);
    s->device = ctx->device->name;
    s->precision = s->precision ? s->precision : precision_word(BRASA_F32);
    if (!s->model || !s->data)
        return fail(ctx, BRASA_BAD_ARGUMENT, "a training needs a model and data");
    brasa_status status = check_range(ctx, "epochs", s->epochs, 1, 1000000);
    if (status == BRASA_OK)
        status = check_range(ctx, "batch", s->batch, 1, 65536);
    if (status == BRASA_OK)
        status = check_range(ctx, "seed", s->seed, 0, (int64_t)JSON_MOST);
    if (status == BRASA_OK)
        status = check_range(ctx, "mem", s->memory_limit, 0, (int64_t)JSON_MOST);
    if (status == BRASA_OK && s->folds)
        status = check_range(ctx, "folds", s->folds, 2, 1000);
    if (status == BRASA_OK && s->fold && !s->folds)
        status = fail(ctx, BRASA_BAD_ARGUMENT, "fold: there are no folds");
    if (status == BRASA_OK && s->fold)
        status = check_range(ctx, "fold", s->fold, 1, s->folds);
    if (status == BRASA_OK)
        status = check_keep(ctx, s->keep);
    if (status == BRASA_OK)
        status = precision_read(ctx, s->precision, &(int32_t){0});
    if (status == BRASA_OK && s->folds && s->split)
        status = fail(ctx, BRASA_BAD_ARGUMENT, "a split and folds: give one of them");
    return status;
}

brasa_status settings_copy(pool *p, brasa_trainer_options *s)
{
    for (int i = 0; i < SETTINGS; i++) {
        const char **text = (void *)((char *)s + list[i].offset);
        if (list[i].type == TEXT && *text && !(*text = pool_text(p, "%s", *text)))
            return fail_memory(p->ctx, 0);
    }
    return BRASA_OK;
}

bool settings_schedule_ends(const brasa_trainer_options *s)
{
    const char *at = s->schedule + strspn(s->schedule, " ");
    return strncmp(at, "cosine", 6) == 0 && !strstr(at, "steps=");
}

static const void *member(const brasa_trainer_options *s, const setting *t)
{
    return (const char *)s + t->offset;
}

static void write_one(json *j, const brasa_trainer_options *s, const setting *t)
{
    if (t->type == TEXT)
        json_text(j, t->name, *(const char *const *)member(s, t));
    else if (t->type == INT)
        json_int(j, t->name, *(const int64_t *)member(s, t));
    else if (t->type == REAL)
        json_real(j, t->name, *(const double *)member(s, t));
    else
        json_bool(j, t->name, *(const bool *)member(s, t));
}

bool settings_at(const brasa_trainer_options *s, int index, const char **name, char *text, size_t size)
{
    if (index < 0 || index >= SETTINGS)
        return false;
    const setting *t = &list[index];
    const char *words = t->type == TEXT ? *(const char *const *)member(s, t) : NULL;
    *name = t->name;
    const numeric_state locale = numeric_enter();
    if (t->type == TEXT)
        snprintf(text, size, "%s", words ? words : "none");
    else if (t->type == INT)
        snprintf(text, size, "%lld", (long long)*(const int64_t *)member(s, t));
    else if (t->type == REAL)
        snprintf(text, size, "%g", *(const double *)member(s, t));
    else
        snprintf(text, size, "%s", *(const bool *)member(s, t) ? "yes" : "no");
    numeric_leave(locale);
    return true;
}

void settings_json(json *j, const brasa_trainer_options *s)
{
    for (int i = 0; i < SETTINGS; i++)
        write_one(j, s, &list[i]);
}

static brasa_status read_text(json_scan *s, pool *p, const char **out)
{
    char *text;
    if (json_peek(s) == 'n') /* null: not given */
        return json_skip(s);
    brasa_status status = json_read_text(s, &text);
    if (status == BRASA_OK && !(*out = pool_text(p, "%s", text)))
        status = fail_memory(p->ctx, strlen(text) + 1);
    return status;
}

static brasa_status read_int(json_scan *s, int64_t *out)
{
    uint64_t number;
    brasa_status status = json_read_number(s, &number);
    if (status == BRASA_OK)
        *out = (int64_t)number;
    return status;
}

brasa_status settings_read(json_scan *s, char *key, void *reader)
{
    const settings_reader *r = reader;
    for (int i = 0; i < SETTINGS; i++) {
        if (strcmp(list[i].name, key) != 0)
            continue;
        void *to = (char *)r->out + list[i].offset;
        return list[i].type == TEXT   ? read_text(s, r->pool, to)
               : list[i].type == INT  ? read_int(s, to)
               : list[i].type == REAL ? json_read_real(s, to)
                                      : json_read_bool(s, to);
    }
    return json_skip(s);
}

static bool digest(void *user, const char *text, size_t length)
{
    uint64_t *hash = user;
    *hash = hash_bytes(*hash, text, length);
    return true;
}

uint64_t settings_digest(const brasa_trainer_options *s)
{
    uint64_t hash = HASH_START;
    json j = {.write = digest, .user = &hash};
    json_open(&j, NULL, '{');
    for (int i = 0; i < SETTINGS; i++)
        if (!list[i].free)
            write_one(&j, s, &list[i]);
    json_close(&j, '}');
    return hash;
}
