/* fields.h - the attributes of an op, an optimizer or a schedule: one struct, one list of its fields.
 *
 * The list is what model files, brasa_apply, the command line, the help texts and explain read and write
 * attributes through, so an op states them once.
 */
#ifndef CORE_FIELDS_H
#define CORE_FIELDS_H

#include "core/context.h"
#include "core/json.h"

typedef struct pair { /* "3" or "3x5" */
    int h, w;
} pair;

typedef struct pads { /* "valid", "same", "1", "1x2" (height, width) or "0,1,0,1" (top, left, bottom, right) */
    bool same;        /* the four numbers are worked out by infer */
    int top, left, bottom, right;
} pads;

enum { MAX_REALS = 8 };
typedef struct reals { /* "1,0.3,0.3" */
    int count;
    double value[MAX_REALS];
} reals;

typedef enum field_type {
    FIELD_INT,  /* int */
    FIELD_REAL, /* double */
    FIELD_BOOL, /* bool: yes or no; the bare name means yes */
    FIELD_PAIR,
    FIELD_PADS,
    FIELD_REALS,
    FIELD_WORD, /* int: the index in `words` */
} field_type;

typedef struct field {
    const char *name;
    field_type type;
    size_t offset;
    const char *initial;      /* the default as text; NULL: must be given */
    double low, high;         /* allowed range of each number; both 0: any */
    const char *const *words; /* of FIELD_WORD, NULL-terminated */
    bool positional;          /* may be given without its name, in the order of the list */
    const char *help;
    bool starts; /* says what parameters start as: no kernel sees it */
} field;

/* Lists end with a field whose name is NULL. Fills `attr` from the defaults; required fields stay zero.
 * Defaults are the project's own text, so this cannot fail. */
void fields_set_defaults(const field *list, void *attr);

/* Reads "64 3x3 stride=2 bias=no" into `attr`. `what` names the owner in messages ("conv2d"). */
brasa_status fields_parse(brasa_context *ctx, const char *what, const field *list, void *attr, const char *text);

/* Writes one field, or each of a list, as a member of the open JSON object. */
void field_to_json(json *j, const field *f, const void *attr);
void fields_to_json(json *j, const field *list, const void *attr);

/* A field for brasa_field_at, with its value in `attr`; attr NULL: its default. */
void field_describe(const field *f, const void *attr, brasa_field *out);

/* Two attribute structs of the same list, field by field. */
bool fields_equal(const field *list, const void *a, const void *b);

#endif
