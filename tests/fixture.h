/* fixture.h - reads tests/fixtures, and draws the numbers that the scripts in tests/tools drew.
 *
 * A fixture is text: the first word of a line says what the line is, numbers and words are parted by spaces, longer
 * texts by ";". The scripts tell the lines of their files.
 */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include "core/random.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Streams of RANDOM_TEST; parameter i has stream i. */
enum { STREAM_INPUT = 1000, STREAM_LABEL = 2000, STREAM_PROJECTION = 3000, STREAM_BUFFER = 4000 };

typedef struct fixture {
    FILE *file;
    char *at; /* what is left of the line */
    char line[16384];
} fixture;

/* name: "torch/mnist_cnn.txt" */
static inline bool fixture_open(fixture *f, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/fixtures/%s", BRASA_SOURCE_DIR, name);
    *f = (fixture){.file = fopen(path, "r")};
    f->at = f->line;
    if (!f->file)
        printf("cannot read %s\n", path);
    return f->file;
}

static inline void fixture_close(fixture *f)
{
    if (f->file)
        fclose(f->file);
}

/* The next word of the line, "" at its end. In place, until the next line is read. */
static inline const char *fixture_word(fixture *f)
{
    char *word = f->at + strspn(f->at, " ;");
    f->at = word + strcspn(word, " ;");
    if (*f->at)
        *f->at++ = 0;
    return word;
}

/* Goes to the next line and returns its first word, NULL after the last line. */
static inline const char *fixture_next(fixture *f)
{
    if (!fgets(f->line, sizeof f->line, f->file))
        return NULL;
    f->line[strcspn(f->line, "\n")] = 0;
    f->at = f->line;
    return fixture_word(f);
}

static inline double fixture_real(fixture *f)
{
    char *end;
    const char *word = fixture_word(f);
    double x = strtod(word, &end);
    return *word && !*end ? x : NAN; /* NaN is close to nothing, so a broken file fails its test */
}

/* "1x28x28" to sizes; returns how many. */
static inline int fixture_sizes(fixture *f, int64_t size[6])
{
    char *at = (char *)fixture_word(f);
    int count = 0;
    while (*at && count < 6) {
        size[count++] = strtoll(at, &at, 10);
        at += *at == 'x';
    }
    return count;
}

/* The next text up to ";" or the line's end, without the spaces around it. */
static inline void fixture_text(fixture *f, char *out, size_t size)
{
    f->at += strspn(f->at, " ;");
    size_t length = strcspn(f->at, ";"), used = length;
    while (used && f->at[used - 1] == ' ')
        used--;
    snprintf(out, size, "%.*s", (int)used, f->at);
    f->at += length + (f->at[length] == ';');
}

/* Element `index` of a stream, uniform in [low, high), rounded to float: where both sides start from. */
static inline double draw(uint64_t seed, uint32_t stream, int64_t index, double low, double high)
{
    const random_stream s = {.seed = seed, .purpose = RANDOM_TEST, .stream = stream};
    return (float)random_uniform(&s, (uint64_t)index, low, high);
}

#endif
