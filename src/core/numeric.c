/* numeric.c - see numeric.h. */
#define _POSIX_C_SOURCE 200809L
#include "core/numeric.h"

#include <locale.h>

numeric_state numeric_enter(void)
{
    /* The C library keeps the "C" locale as a constant: this hands out that one. */
    return (numeric_state){uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0))};
}

void numeric_leave(numeric_state state)
{
    freelocale(uselocale(state.before));
}
