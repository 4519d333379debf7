/* split.c - see split.h. */
#define _POSIX_C_SOURCE 200809L
#include "data/split.h"
#include "core/random.h"
#include "core/replace.h"
#include "data/streams.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

brasa_status split_parse(brasa_context *ctx, const char *text, split_options *out)
{
    int train = 0, test = 0, used = 0;
    if (strcmp(text, "all") == 0) {
        out->kind = SPLIT_ALL;
    } else if (strcmp(text, "parts") == 0) {
        out->kind = SPLIT_PARTS;
    } else if (sscanf(text, "%2d/%2d%n", &train, &test, &used) == 2 && !text[used] && train > 0 && test > 0 &&
               train + test == 100) {
        out->kind = SPLIT_SHARE;
        out->share = train;
    } else {
        return fail(ctx, BRASA_BAD_ARGUMENT, "split: expected all, parts, or two percentages such as 70/30, got '%s'",
                    text);
    }
    return BRASA_OK;
}

/* --- making ---------------------------------------------------------------------------------------------------- */

static brasa_status check(const dataset *d, const split_options *o)
{
    brasa_context *ctx = d->ctx;
    if (o->kind == SPLIT_PARTS && d->parts < 2)
        return fail(ctx, BRASA_BAD_ARGUMENT, "split: '%s' has no test part; take a share, such as 70/30", d->spec);
    if (o->kind == SPLIT_SHARE && (o->share < 1 || o->share > 99))
        return fail(ctx, BRASA_BAD_ARGUMENT, "split: expected 1 to 99 percent, got %d", o->share);
    if (o->kind == SPLIT_FOLDS && (o->folds < 2 || o->folds > d->count))
        return fail(ctx, BRASA_BAD_ARGUMENT, "folds: expected 2 to %d, the number of samples, got %d", (int)d->count,
                    o->folds);
    if (o->kind == SPLIT_FOLDS && (o->fold < 0 || o->fold >= o->folds))
        return fail(ctx, BRASA_BAD_ARGUMENT, "fold: expected 0 to %d, got %d", o->folds - 1, o->fold);
    return BRASA_OK;
}

/* All samples, in the order in which they are shared out: shuffled, and then class after class. */
static brasa_status arrange(const dataset *d, const split_options *o, int32_t **out)
{
    brasa_context *ctx = d->ctx;
    int32_t *all = mem_get(ctx, (size_t)d->count * sizeof *all);
    int32_t *sorted = mem_get(ctx, (size_t)d->count * sizeof *sorted);
    int32_t *place = mem_get(ctx, ((size_t)d->classes + 1) * sizeof *place);
    const bool ok = all && sorted && place;
    for (int32_t i = 0; ok && i < d->count; i++)
        all[i] = i;
    if (ok && !o->no_shuffle)
        data_shuffle(all, d->count, o->seed, STREAM_SPLIT, 0);
    if (ok && !o->no_stratify) {
        for (int32_t i = 0; i < d->count; i++)
            place[d->label[i] + 1]++;
        for (int c = 0; c < d->classes; c++)
            place[c + 1] += place[c];
        for (int32_t i = 0; i < d->count; i++)
            sorted[place[d->label[all[i]]]++] = all[i];
        int32_t *unsorted = all;
        all = sorted;
        sorted = unsorted;
    }
    mem_put(ctx, sorted);
    mem_put(ctx, place);
    if (!ok)
        mem_put(ctx, all);
    *out = ok ? all : NULL;
    return ok ? BRASA_OK : fail_memory(ctx, (size_t)d->count * sizeof *all);
}

/* Which fold the sample, or group of samples, at this place is in; of a share, 0 is the one that tests. Where classes
 * follow each other, dealing samples out in turn gives each class its share, and all folds their size, to within one
 * sample. */
static int64_t fold_at(const split_options *o, int64_t place, int64_t count)
{
    if (o->kind == SPLIT_SHARE) {
        const int64_t percent = 100 - o->share;
        if (o->no_stratify) /* the last ones, rounded up: scikit-learn's */
            return place < count - (count * percent + 99) / 100;
        return (place + 1) * percent / 100 == place * percent / 100;
    }
    if (!o->no_stratify)
        return place % o->folds;
    const int64_t size = count / o->folds, larger = count % o->folds; /* folds with one sample more come first */
    return place < larger * (size + 1) ? place / (size + 1) : larger + (place - larger * (size + 1)) / size;
}

/* Every fold must have samples, and so must both lists of a share: else an accuracy would be that of nothing. All
 * folds are looked at whichever is wanted, so that the first one tells and not the last. */
static brasa_status check_sizes(const dataset *d, const split_options *o, const int32_t *size, int64_t found)
{
    const bool folds = o->kind == SPLIT_FOLDS;
    const int count = folds ? o->folds : 2;
    char groups[64] = "";
    int empty = 0;
    while (empty < count && size[empty])
        empty++;
    if (empty == count)
        return BRASA_OK;
    if (d->group)
        snprintf(groups, sizeof groups, " in %d groups that stay together", (int)found);
    if (folds)
        return fail(d->ctx, BRASA_BAD_ARGUMENT, "folds: of %d folds, fold %d has no sample: there are %d samples%s",
                    o->folds, empty + 1, (int)d->count, groups);
    return fail(d->ctx, BRASA_BAD_ARGUMENT, "split: %d/%d leaves no sample to %s: there are %d samples%s", o->share,
                100 - o->share, empty ? "train on" : "test on", (int)d->count, groups);
}

/* The groups that have samples. */
static int64_t count_groups(const dataset *d, int32_t *seen)
{
    int64_t found = 0;
    for (int32_t i = 0; i < d->count; i++)
        found += !seen[d->group[i]]++;
    memset(seen, 0, (size_t)d->groups * sizeof *seen);
    return found;
}

/* tested[i]: whether the sample at place i tests. Groups are dealt out like samples, as the first of each comes. */
static brasa_status choose(const dataset *d, const split_options *o, const int32_t *all, bool *tested)
{
    const int64_t wanted = o->kind == SPLIT_FOLDS ? o->fold : 0;
    const size_t folds = o->kind == SPLIT_FOLDS ? (size_t)o->folds : 2, groups = d->group ? (size_t)d->groups : 0;
    int32_t *size = mem_get(d->ctx, (folds + groups) * sizeof *size), *fold_of = size + folds; /* plus 1; 0: open */
    if (!size)
        return fail_memory(d->ctx, (folds + groups) * sizeof *size);
    const int64_t found = d->group ? count_groups(d, fold_of) : d->count;
    int64_t dealt = 0;
    for (int32_t i = 0; i < d->count; i++) {
        int32_t *known = d->group ? &fold_of[d->group[all[i]]] : NULL;
        const int64_t fold = known && *known ? *known - 1 : fold_at(o, dealt++, found);
        if (known)
            *known = (int32_t)fold + 1;
        tested[i] = fold == wanted;
        size[fold]++;
    }
    const brasa_status status = check_sizes(d, o, size, found);
    mem_put(d->ctx, size);
    return status;
}

static brasa_status make_room(split *s, int32_t trains, int32_t tested)
{
    s->train = mem_get(s->ctx, ((size_t)trains + 1) * sizeof *s->train);
    s->test = mem_get(s->ctx, ((size_t)tested + 1) * sizeof *s->test);
    return s->train && s->test ? BRASA_OK : fail_memory(s->ctx, (size_t)trains * sizeof *s->train);
}

static brasa_status share_out(const dataset *d, const split_options *o, split *s)
{
    int32_t *all, count = 0;
    bool *tested = mem_get(d->ctx, (size_t)d->count * sizeof *tested);
    if (!tested)
        return fail_memory(d->ctx, (size_t)d->count * sizeof *tested);
    brasa_status status = arrange(d, o, &all);
    if (status == BRASA_OK)
        status = choose(d, o, all, tested);
    for (int32_t i = 0; i < d->count && status == BRASA_OK; i++)
        count += tested[i];
    if (status == BRASA_OK)
        status = make_room(s, d->count - count, count);
    for (int32_t i = 0; i < d->count && status == BRASA_OK; i++) {
        if (tested[i])
            s->test[s->tests++] = all[i];
        else
            s->train[s->trains++] = all[i];
    }
    mem_put(d->ctx, tested);
    mem_put(d->ctx, all);
    return status;
}

static brasa_status take_parts(const dataset *d, const split_options *o, split *s)
{
    const int32_t trains = o->kind == SPLIT_ALL ? d->count : d->part[0].count;
    brasa_status status = make_room(s, trains, d->count - trains);
    for (int32_t i = 0; i < d->count && status == BRASA_OK; i++) {
        if (i < trains)
            s->train[s->trains++] = i;
        else
            s->test[s->tests++] = i;
    }
    return status;
}

brasa_status split_make(const dataset *d, const split_options *o, split *out)
{
    *out = (split){.ctx = d->ctx};
    brasa_status status = check(d, o);
    if (status == BRASA_OK)
        status = o->kind == SPLIT_SHARE || o->kind == SPLIT_FOLDS ? share_out(d, o, out) : take_parts(d, o, out);
    if (status != BRASA_OK)
        split_free(out);
    return status;
}

void split_free(split *s)
{
    if (!s->ctx)
        return;
    mem_put(s->ctx, s->train);
    mem_put(s->ctx, s->test);
    *s = (split){0};
}

/* They are in order. */
static bool is_bad(const dataset_report *r, int32_t sample)
{
    int32_t low = 0, high = r->nbad;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (r->bad[middle].sample == sample)
            return true;
        if (r->bad[middle].sample < sample)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static int32_t drop(int32_t *list, int32_t count, const dataset_report *r)
{
    int32_t left = 0;
    for (int32_t i = 0; i < count; i++)
        if (!is_bad(r, list[i]))
            list[left++] = list[i];
    return left;
}

void split_drop(split *s, const dataset_report *r)
{
    s->trains = drop(s->train, s->trains, r);
    s->tests = drop(s->test, s->tests, r);
}

int split_missing(const dataset *d, const int32_t *list, int32_t count, int *first)
{
    unsigned char seen[MAX_CLASSES / 8] = {0}; /* a bit a class */
    int missing = 0;
    for (int32_t i = 0; i < count; i++)
        seen[d->label[list[i]] / 8] |= (unsigned char)(1 << d->label[list[i]] % 8);
    for (int c = d->classes - 1; c >= 0; c--)
        if (!(seen[c / 8] >> c % 8 & 1)) {
            missing++;
            *first = c;
        }
    return missing;
}

/* --- files ----------------------------------------------------------------------------------------------------- */

static brasa_status write_list(replacement *r, const char *word, const int32_t *list, int32_t count)
{
    char line[32];
    int length = snprintf(line, sizeof line, "%s %d\n", word, (int)count);
    brasa_status status = replace_write(r, line, (size_t)length);
    for (int32_t i = 0; i < count && status == BRASA_OK; i++) {
        length = snprintf(line, sizeof line, "%d\n", (int)list[i]);
        status = replace_write(r, line, (size_t)length);
    }
    return status;
}

brasa_status split_write(const split *s, const char *path)
{
    replacement r;
    brasa_status status = replace_begin(&r, s->ctx, path);
    if (status == BRASA_OK)
        status = write_list(&r, "train", s->train, s->trains);
    if (status == BRASA_OK)
        status = write_list(&r, "test", s->test, s->tests);
    return replace_end(&r, status);
}

typedef struct reading {
    brasa_context *ctx;
    const char *path;
    FILE *f;
    int line;
    bool *seen; /* samples in either list */
} reading;

/* A line that is a whole number from 0 to `most`, perhaps behind a word and a blank. */
static brasa_status read_line(reading *r, const char *word, int32_t most, int32_t *out)
{
    char text[64], *end = text;
    const size_t length = strlen(word);
    r->line++;
    if (fgets(text, sizeof text, r->f) && strncmp(text, word, length) == 0) {
        const char *digits = text + length + (length > 0 && text[length] == ' ');
        const long value = digits[0] >= '0' && digits[0] <= '9' ? strtol(digits, &end, 10) : -1;
        if (value >= 0 && value <= most && end != digits && (*end == '\n' || !*end)) {
            *out = (int32_t)value;
            return BRASA_OK;
        }
    }
    return fail(r->ctx, BRASA_BAD_FILE, "%s: line %d: expected %s%sa number from 0 to %d", r->path, r->line, word,
                length ? " and " : "", (int)most);
}

static brasa_status read_list(reading *r, const dataset *d, const char *word, int32_t **list, int32_t *count)
{
    int32_t wanted = 0;
    brasa_status status = read_line(r, word, d->count, &wanted);
    if (status != BRASA_OK)
        return status;
    if (!(*list = mem_get(r->ctx, ((size_t)wanted + 1) * sizeof **list)))
        return fail_memory(r->ctx, (size_t)wanted * sizeof **list);
    for (; *count < wanted && status == BRASA_OK; ++*count) {
        int32_t sample = 0;
        status = read_line(r, "", d->count - 1, &sample);
        if (status == BRASA_OK && r->seen[sample])
            return fail(r->ctx, BRASA_BAD_FILE, "%s: line %d: sample %d for the second time", r->path, r->line,
                        (int)sample);
        (*list)[*count] = sample;
        r->seen[sample] = true;
    }
    return status;
}

brasa_status split_read(const dataset *d, const char *path, split *out)
{
    *out = (split){.ctx = d->ctx};
    reading r = {.ctx = d->ctx, .path = path, .f = fopen(path, "re")};
    if (!r.f)
        return fail(d->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    r.seen = mem_get(d->ctx, (size_t)d->count * sizeof *r.seen);
    brasa_status status = r.seen ? BRASA_OK : fail_memory(d->ctx, (size_t)d->count);
    if (status == BRASA_OK)
        status = read_list(&r, d, "train", &out->train, &out->trains);
    if (status == BRASA_OK)
        status = read_list(&r, d, "test", &out->test, &out->tests);
    if (status == BRASA_OK && fgetc(r.f) != EOF)
        status = fail(d->ctx, BRASA_BAD_FILE, "%s: line %d: expected the end", path, r.line + 1);
    fclose(r.f);
    mem_put(d->ctx, r.seen);
    if (status != BRASA_OK)
        split_free(out);
    return status;
}
