/* nearest.c - edit distance with transpositions over words of up to 31 letters. */
#include "core/nearest.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 31 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int distance(const char *a, int na, const char *b, int nb)
{
    int d[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= na; i++) {
        for (int j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            int same = a[i - 1] == b[j - 1] ? 0 : 1;
            d[i][j] = least(d[i - 1][j - 1] + same, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[na][nb];
}

void nearest_offer(nearest *n, const char *candidate)
{
    int nw = (int)strlen(n->word), nc = (int)strlen(candidate);
    if (nw > LONGEST || nc > LONGEST)
        return;
    int d = distance(n->word, nw, candidate, nc);
    if (nw >= 3 && strncmp(n->word, candidate, (size_t)nw) == 0)
        d = 1; /* an abbreviation */
    if (!n->best || d < n->distance) {
        n->best = candidate;
        n->distance = d;
    }
}

const char *nearest_found(const nearest *n)
{
    int allowed = n->word[0] ? 1 + (int)strlen(n->word) / 4 : 0;
    return n->best && n->distance <= allowed ? n->best : NULL;
}

nearest_text nearest_hint(const nearest *n)
{
    nearest_text t = {""};
    const char *found = nearest_found(n);
    if (found)
        snprintf(t.text, sizeof t.text, ", did you mean '%s'?", found);
    return t;
}
