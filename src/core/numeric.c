/* numeric.c - see numeric.h. */
#define _POSIX_C_SOURCE 200809L
#include "core/numeric.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>

numeric_state numeric_enter(void)
{
    /* The C library keeps the "C" locale as a constant: this hands out that one. */
    return (numeric_state){uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0))};
}

void numeric_leave(numeric_state state)
{
    freelocale(uselocale(state.before));
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
