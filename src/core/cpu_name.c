/* cpu_name.c - see cpu_name.h. */
#include "core/cpu_name.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

/* 48 letters in three leaves. */
static void read_name(cpu_text *out)
{
    unsigned words[12] = {0};
    for (unsigned leaf = 0; leaf < 3; leaf++) {
        unsigned *w = words + 4 * leaf;
        if (!__get_cpuid(0x80000002u + leaf, &w[0], &w[1], &w[2], &w[3]))
            return;
    }
    memcpy(out->text, words, sizeof words);
}
#else

/* ARM's cores have a number. */
static void read_name(cpu_text *out)
{
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "re");
    if (file && !fgets(out->text, (int)sizeof out->text, file))
        out->text[0] = '\0';
    if (file)
        fclose(file);
}
#endif

cpu_text cpu_name(void)
{
    cpu_text raw = {""}, out = {"unknown"};
    read_name(&raw);
    size_t used = 0;
    for (const char *c = raw.text; *c; c++) /* blanks once, and none at the ends */
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
