/* share.h - tests that take long can be shared out: BRASA_TEST_SHARE=2/4 takes every fourth of the cases, from the
 * second on, so that those of 1/4 to 4/4 are all. BRASA_TEST_ONCE=yes asks for each kernel once in a case, for tools
 * under which a kernel takes long. After test.h. */
#ifndef TEST_SHARE_H
#define TEST_SHARE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the share has the case; `turn` counts a test's cases from 0. */
static inline bool in_share(int turn)
{
    const char *text = getenv("BRASA_TEST_SHARE");
    int which = 1, of = 1;
    if (text && *text && (sscanf(text, "%d/%d", &which, &of) != 2 || which < 1 || which > of)) {
        test_fail(__FILE__, __LINE__, "BRASA_TEST_SHARE: expected one like 2/4, got '%s'", text);
        which = of = 1;
    }
    return turn % of == which - 1;
}

static inline bool run_once(void)
{
    const char *text = getenv("BRASA_TEST_ONCE");
    return text && strcmp(text, "yes") == 0;
}

#endif
