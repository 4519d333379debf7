/* cpu_name.c - see cpu_name.h. */
#include "core/cpu_name.h"

#include <string.h>

/* Blanks once, and none at the ends; "unknown" for nothing. */
static cpu_text tidy(const char *raw)
{
    cpu_text out = {"unknown"};
    size_t used = 0;
    for (const char *c = raw; *c && used < sizeof out.text - 1; c++)
        if (*c > ' ' && *c <= '~')
            out.text[used++] = *c;
        else if (used && out.text[used - 1] != ' ')
            out.text[used++] = ' ';
    while (used && out.text[used - 1] == ' ')
        used--;
    if (used)
        out.text[used] = '\0';
    return used ? out : (cpu_text){"unknown"};
}

/* What stands behind "key :" in a line, or NULL. */
static const char *value_of(const char *line, const char *key)
{
    const size_t length = strlen(key);
    if (strncmp(line, key, length) != 0)
        return NULL;
    line += length + strspn(line + length, " \t");
    return *line == ':' ? line + 1 : NULL;
}

cpu_text cpu_name_read(FILE *info)
{
    static const char *const keys[] = {"model name",  "uarch",    "cpu",         "CPU implementer",
                                       "CPU variant", "CPU part", "CPU revision"};
    enum { KEYS = sizeof keys / sizeof keys[0], NAMES = 3 }; /* of which there is one, or none */
    char line[1024], found[KEYS][64] = {""}, all[KEYS * 65 + 1] = "";
    while (fgets(line, (int)sizeof line, info))
        for (int k = 0; k < KEYS; k++) {
            const char *value = found[k][0] ? NULL : value_of(line, keys[k]);
            if (value)
                snprintf(found[k], sizeof found[k], "%.63s", tidy(value).text);
        }
    for (int k = 0, numbers = 0; k < KEYS; k++)
        if (found[k][0])
            strcat(strcat(all, k >= NAMES && numbers++ ? "/" : " "), found[k]);
    return tidy(all);
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

/* 48 letters in three leaves, and the numbers in another one: /proc/cpuinfo would take milliseconds. */
cpu_text cpu_name(void)
{
    unsigned words[12] = {0}, signature = 0, other[3];
    char name[sizeof words + 1] = "", all[sizeof name + 40];
    for (unsigned leaf = 0; leaf < 3; leaf++) {
        unsigned *w = words + 4 * leaf;
        if (!__get_cpuid(0x80000002u + leaf, &w[0], &w[1], &w[2], &w[3]))
            break;
    }
    memcpy(name, words, sizeof words);
    if (!__get_cpuid(1, &signature, &other[0], &other[1], &other[2]))
        return tidy(name);
    unsigned family = signature >> 8 & 15, model = signature >> 4 & 15;
    if (family == 15)
        family += signature >> 20 & 255;
    if (family >= 6)
        model += (signature >> 16 & 15) << 4;
    snprintf(all, sizeof all, "%s %u/%u/%u", name, family, model, signature & 15);
    return tidy(all);
}

#else

cpu_text cpu_name(void)
{
    FILE *info = fopen("/proc/cpuinfo", "re");
    if (!info)
        return tidy("");
    const cpu_text name = cpu_name_read(info);
    fclose(info);
    return name;
}
#endif
