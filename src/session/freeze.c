/* freeze.c - parameters that stay as they are.
 *
 * To a program a frozen parameter is a buffer: it has no gradient, so the way back ends where nothing before is
 * trained, and neither update nor slots. To the user it stays a parameter, in files too. Batch norm goes on measuring
 * its running statistics, which are buffers anyway.
 */
#include "core/nearest.h"
#include "session/session.h"

#include <string.h>

/* Whether the name is what the pattern of `length` says: '*' stands for any text, '?' for any character. Where it
 * goes wrong, only the last '*' need take more: the time is at most the product of the lengths. */
static bool matches(const char *pattern, size_t length, const char *name)
{
    const char *const end = pattern + length, *behind = NULL, *taken = NULL;
    while (*name) {
        if (pattern < end && *pattern == '*') {
            behind = ++pattern;
            taken = name;
        } else if (pattern < end && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (behind) {
            pattern = behind;
            name = ++taken;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}

/* The next pattern of a list from *at on, without blanks around it; moves *at behind it; 0 at the end. */
static size_t next_pattern(const char **at, const char **pattern)
{
    *pattern = *at + strspn(*at, ", \t");
    const size_t length = strcspn(*pattern, ", \t");
    *at = *pattern + length;
    return length;
}

static bool frozen(const char *list, const char *name)
{
    const char *pattern;
    for (size_t length; (length = next_pattern(&list, &pattern)) > 0;)
        if (matches(pattern, length, name))
            return true;
    return false;
}

/* The parameter whose name begins most like the pattern does. */
static const char *most_like(const graph *g, const char *pattern, size_t length)
{
    char word[24] = "", cut[24];
    const char *best = "";
    nearest n = {.word = word};
    for (size_t i = 0; i < length && i + 1 < sizeof word && !strchr("*?", pattern[i]); i++)
        word[i] = pattern[i];
    for (int v = 0; v < g->nvalues; v++) {
        if (g->values[v].kind != VALUE_PARAM)
            continue;
        const bool first = !n.best;
        const int before = n.distance;
        memset(cut, 0, sizeof cut);
        strncpy(cut, g->values[v].name, strlen(word));
        nearest_offer(&n, cut);
        if (first || n.distance < before)
            best = g->values[v].name;
    }
    return best;
}

brasa_status freeze_read(brasa_session *s, const char *list)
{
    const graph *g = s->source;
    const char *at = list, *pattern;
    for (size_t length; (length = next_pattern(&at, &pattern)) > 0;) {
        bool found = false;
        for (int v = 0; v < g->nvalues && !found; v++)
            found = g->values[v].kind == VALUE_PARAM && matches(pattern, length, g->values[v].name);
        if (!found)
            return fail(s->ctx, BRASA_NOT_FOUND, "freeze: no parameter is called '%.*s'; the nearest is '%s'",
                        (int)length, pattern, most_like(g, pattern, length));
    }
    s->freeze = pool_text(&s->pool, "%s", list);
    return s->freeze ? BRASA_OK : fail_memory(s->ctx, strlen(list) + 1);
}

void freeze_apply(const brasa_session *s, graph *g)
{
    for (int v = 0; v < g->nvalues && s->freeze; v++)
        if (g->values[v].kind == VALUE_PARAM && frozen(s->freeze, g->values[v].name))
            g->values[v].kind = VALUE_BUFFER;
}
