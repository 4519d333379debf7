/* numeric.c - see numeric.h. */
#define _POSIX_C_SOURCE 200809L
#include "core/numeric.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

numeric_state numeric_enter(void)
{
    /* The C library keeps the "C" locale as a constant: this hands out that one. */
    return (numeric_state){uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0))};
}

void numeric_leave(numeric_state state)
{
    freelocale(uselocale(state.before));
}

void numeric_number(double value, char text[COUNT_TEXT])
{
    snprintf(text, COUNT_TEXT, "%.7g", value);
    char *power = strchr(text, 'e');
    if (power) { /* 1e-05 */
        char *digits = power + 2, *from = digits + strspn(digits, "0");
        memmove(digits, from, strlen(from) + 1);
    }
}

void numeric_count(int64_t value, char text[COUNT_TEXT])
{
    char digits[COUNT_TEXT];
    const int count = snprintf(digits, sizeof digits, "%" PRId64, value);
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0 && digits[i - 1] != '-')
            *text++ = ',';
        *text++ = digits[i];
    }
    *text = '\0';
}

bytes_text numeric_bytes(double bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    bytes_text b;
    int unit = 0;
    for (; bytes >= 999.5 && unit < 5; unit++)
        bytes /= 1000;
    const int digits = !unit || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
    const numeric_state locale = numeric_enter();
    snprintf(b.text, sizeof b.text, "%.*f %s", digits, bytes, units[unit]);
    numeric_leave(locale);
    return b;
}
