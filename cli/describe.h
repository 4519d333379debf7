/* describe.h - the settings of layers, optimizers and dialects in words, from their lists of fields. */
#ifndef CLI_DESCRIBE_H
#define CLI_DESCRIBE_H

#include "cli.h"

#include "core/fields.h"

/* The field's value in `attr`. */
figure print_field(const field *f, const void *attr);

typedef struct field_range {
    char text[256];
} field_range;
/* What a field takes: "1 to 65,536", "yes or no", "zero, one, he_normal". */
field_range print_range(const field *f);

#endif
