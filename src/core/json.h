/* json.h - a writer of JSON text, straight to a sink. Commas and quoting are its business; bytes
 * that are no UTF-8 become U+FFFD. */
#ifndef CORE_JSON_H
#define CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct json {
    bool (*write)(void *user, const char *text, size_t length);
    void *user;
    bool failed;     /* the sink refused; the rest is dropped */
    unsigned filled; /* bit d: the open object or array at depth d has an element */
    int depth;       /* at most 31 */
} json;

/* key is NULL inside an array and at the top. */
void json_open(json *j, const char *key, char bracket);      /* '{' or '[' */
void json_close(json *j, char bracket);                      /* '}' or ']' */
void json_text(json *j, const char *key, const char *value); /* NULL becomes null */
void json_int(json *j, const char *key, int64_t value);
void json_real(json *j, const char *key, double value);  /* not finite becomes null: JSON has no word for it */
void json_exact(json *j, const char *key, double value); /* the same, so that reading gives the same number again */
void json_bool(json *j, const char *key, bool value);
void json_raw(json *j, const char *key, const char *value); /* JSON text, as it is */

#endif
