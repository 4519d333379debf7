/* describe.h - the fields of layers, optimizers and dialects in words. */
#ifndef CLI_DESCRIBE_H
#define CLI_DESCRIBE_H

#include "cli.h"

typedef struct field_range {
    char text[256];
} field_range;
/* What a field takes: "1 to 65,536", "yes or no", "zero, one, he_normal". */
field_range print_range(const brasa_field *f);

#endif
