/* cublaslt_words.c - findings in words: see cublaslt_parts.h. */
#include "device/cuda/cublaslt_parts.h"

#include <stdio.h>
#include <string.h>

void cublaslt_name(const cublaslt_product *p, char to[LT_PROBLEM_SIZE])
{
    static const char *const extras[] = {[LT_NOTHING] = "",
                                         [LT_BIAS] = " bias",
                                         [LT_RELU] = " relu",
                                         [LT_BIAS_RELU] = " bias relu",
                                         [LT_BIAS_GRADIENT] = " bias gradient"};
    char line[40] = "";
    if (p->line_b)
        snprintf(line, sizeof line, " line %lld", (long long)p->line_b);
    snprintf(to, LT_PROBLEM_SIZE, "product %s %lldx%lldx%lld %c%c%s%s",
             p->bf16   ? "bf16"
             : p->tf32 ? "tf32"
                       : "f32",
             (long long)p->m, (long long)p->n, (long long)p->k, p->turn_a ? 't' : 'n', p->turn_b ? 't' : 'n', line,
             extras[p->extra]);
}

void cublaslt_print(const finding *f, char to[CHOICE_WORDS_SIZE])
{
    const unsigned char *bytes = (const unsigned char *)&f->algorithm;
    if (!f->found) {
        snprintf(to, CHOICE_WORDS_SIZE, "none");
        return;
    }
    for (size_t i = 0; i < sizeof f->algorithm; i++)
        snprintf(to + 2 * i, 3, "%02x", bytes[i]);
    snprintf(to + 2 * sizeof f->algorithm, CHOICE_WORDS_SIZE - 2 * sizeof f->algorithm, " %d %d %lld %zu", f->listed,
             f->timed, (long long)f->nanoseconds, f->workspace);
}

static int digit_of(char letter)
{
    return letter >= '0' && letter <= '9' ? letter - '0' : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

bool cublaslt_parse(const char *words, finding *f)
{
    unsigned char *bytes = (unsigned char *)&f->algorithm;
    int end = 0;
    long long nanoseconds = 0;
    if (strcmp(words, "none") == 0)
        return true;
    for (size_t i = 0; i < sizeof f->algorithm; i++) {
        const int high = digit_of(words[0]), low = high < 0 ? -1 : digit_of(words[1]);
        if (low < 0)
            return false;
        bytes[i] = (unsigned char)(high * 16 + low);
        words += 2;
    }
    f->found =
        sscanf(words, " %4d %4d %18lld %18zu%n", &f->listed, &f->timed, &nanoseconds, &f->workspace, &end) == 4;
    f->nanoseconds = nanoseconds;
    return f->found && !words[end] && nanoseconds >= 0 && f->workspace <= LT_MOST_WORKSPACE;
}
