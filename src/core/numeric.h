/* numeric.h - numbers with a point, whatever locale the program that uses us has set.
 *
 * strtod and printf write and read "0,25" in a German locale. Whoever turns numbers into text, or text into numbers,
 * does it between these two calls; they change the locale of the calling thread alone, and allocate nothing.
 */
#ifndef CORE_NUMERIC_H
#define CORE_NUMERIC_H

#include <stdint.h>

typedef struct numeric_state {
    void *before;
} numeric_state;

numeric_state numeric_enter(void);
void numeric_leave(numeric_state state);

/* 1,199,882 */
enum { COUNT_TEXT = 32 };
void numeric_count(int64_t value, char text[COUNT_TEXT]);

/* 0.001, 1e-5: seven digits at most. To be called after numeric_enter, where a program may have set a locale. */
void numeric_number(double value, char text[COUNT_TEXT]);

/* 512 B, 13.7 MB: three digits, units of 10^3, 10^6, ... bytes. By value, to stand in an argument list. */
typedef struct bytes_text {
    char text[24];
} bytes_text;
bytes_text numeric_bytes(double bytes);

#endif
