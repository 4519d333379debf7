/* cudnn_words.c - an engine and what was found out on the way to it in words, for a choice: see cudnn.h.
 *
 *     0 38 2=5 13=1 | 9 2 8 12300 4096 | 4 1 0 0 0
 *
 * The way, the engine and its knobs; then for each way: engines that may be taken, those that would be compiled, how
 * many were timed, the nanoseconds of the fastest, and its workspace. */
#include "device/cuda/cudnn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    char *to;
    int length;
} text;

#define ADD(t, ...)                                                                                                  \
    ((t)->length += (t)->length < CHOICE_WORDS_SIZE                                                                  \
                        ? snprintf((t)->to + (t)->length, (size_t)(CHOICE_WORDS_SIZE - (t)->length), __VA_ARGS__)    \
                        : 0)

void cudnn_print_engine(const cudnn_engine *e, int ways, const device_way *found, char to[CHOICE_WORDS_SIZE])
{
    text t = {to, 0};
    ADD(&t, "%d %lld", e->way, (long long)e->index);
    for (int i = 0; i < e->knobs; i++)
        ADD(&t, " %d=%lld", e->knob[i].type, (long long)e->knob[i].value);
    for (int i = 0; i < ways; i++)
        ADD(&t, " | %d %d %d %lld %lld", found[i].engines, found[i].compiled, found[i].timed,
            (long long)found[i].nanoseconds, (long long)found[i].workspace);
}

/* A number that ends at one of these, or with the text; moves *at behind it. */
static bool read_number(const char **at, const char *ends, int64_t *to)
{
    char *end;
    errno = 0;
    const long long number = strtoll(*at, &end, 10);
    if (end == *at || errno || (*end && !strchr(ends, *end)) || strchr(" \t", **at))
        return false;
    *to = number;
    *at = end;
    return true;
}

static bool read_word(const char **at, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

/* " | 9 2 8 12300 4096" */
static bool parse_way(const char **at, device_way *w)
{
    int64_t number[5];
    if (!read_word(at, " |"))
        return false;
    for (int i = 0; i < 5; i++)
        if (!read_word(at, " ") || !read_number(at, " ", &number[i]) || number[i] < 0 || (i < 3 && number[i] > 10000))
            return false;
    *w = (device_way){(int)number[0], (int)number[1], (int)number[2], number[3], number[4]};
    return true;
}

bool cudnn_parse_engine(const char *words, int ways, cudnn_engine *e, device_way *found)
{
    int64_t way, type;
    *e = (cudnn_engine){0};
    if (!read_number(&words, " ", &way) || !read_word(&words, " ") || !read_number(&words, " ", &e->index) ||
        way < 0 || way >= ways || e->index < 0)
        return false;
    e->way = (int)way;
    for (; *words == ' ' && words[1] != '|'; e->knobs++) {
        words++;
        if (e->knobs == CUDNN_MOST_KNOBS || !read_number(&words, "=", &type) || !read_word(&words, "=") ||
            !read_number(&words, " ", &e->knob[e->knobs].value) || type < 0 || type > 10000)
            return false;
        e->knob[e->knobs].type = (int)type;
    }
    for (int i = 0; i < ways; i++)
        if (!parse_way(&words, &found[i]))
            return false;
    return !*words;
}
