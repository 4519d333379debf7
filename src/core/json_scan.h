/* json_scan.h - a strict reader of JSON text whose form is known beforehand: the caller asks for what must come next.
 *
 * So nothing nests deeper than the caller's own calls, and nothing is kept: texts are decoded in place (they only get
 * shorter). Anything else is refused with its place. Nothing is allocated.
 */
#ifndef CORE_JSON_SCAN_H
#define CORE_JSON_SCAN_H

#include "core/context.h"

typedef struct json_scan {
    brasa_context *ctx;
    const char *path;      /* for messages */
    const char *part;      /* of the file, for messages too: ", in the header"; NULL: all of it */
    int64_t place;         /* of text[0] in the file, for messages */
    char *text, *at, *end; /* the whole, what comes next, behind the last letter */
} json_scan;

static const uint64_t JSON_MOST = UINT64_C(1) << 62; /* the largest number: the sum of two still fits */

/* "<path>: byte <place of where><part>: <what>" */
brasa_status json_refuse(const json_scan *s, const char *where, const char *what);

/* The next letter that is no blank, not taken yet; 0 at the end. */
char json_peek(json_scan *s);
/* Takes the next letter, which must be this one. */
brasa_status json_expect(json_scan *s, char letter);
/* A text, decoded, with a zero behind it; it holds no other zero. */
brasa_status json_read_text(json_scan *s, char **out);
/* A number that a double holds. */
brasa_status json_read_real(json_scan *s, double *out);
brasa_status json_read_bool(json_scan *s, bool *out);
/* A whole number without sign, at most JSON_MOST. */
brasa_status json_read_number(json_scan *s, uint64_t *out);
/* Any value, passed over; at most JSON_DEEP objects and lists within each other. */
enum { JSON_DEEP = 16 };
brasa_status json_skip(json_scan *s);
/* [1, 2, 3]: at most `most` numbers. */
brasa_status json_read_numbers(json_scan *s, uint64_t *out, int most, int *count);
/* [..., ...]: `element` reads each. */
brasa_status json_read_list(json_scan *s, brasa_status (*element)(json_scan *s, void *user), void *user);
/* {"key": ..., ...}: `member` reads the value of each key. */
brasa_status json_read_object(json_scan *s, brasa_status (*member)(json_scan *s, char *key, void *user), void *user);

/* Bytes of the UTF-8 letter at p, or 0 where there is none: overlong, a surrogate, beyond U+10FFFF, cut off. */
int utf8_length(const char *p, const char *end);
/* Whether a text is UTF-8 without control characters: fit for a name, and for a terminal. */
bool text_printable(const char *text);
/* A printable text, cut after 120 bytes and a whole letter. By value, to stand in an argument list. */
typedef struct short_text {
    char text[124];
} short_text;
short_text text_short(const char *text);

#endif
