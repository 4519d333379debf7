/* describe.c - see describe.h. */
#include "describe.h"

#include <stdio.h>
#include <string.h>

/* A bound: 65,536 and 0.999. */
static figure print_bound(double value)
{
    return value == (double)(int64_t)value ? print_count((int64_t)value) : print_number(value);
}

field_range print_range(const brasa_field *f)
{
    static const char *const forms[][2] = {{"int", "a whole number"},
                                           {"real", "a number"},
                                           {"bool", "yes or no"},
                                           {"size", "N or HxW"},
                                           {"padding", "valid, same, 1, 1x2 or top,left,bottom,right"},
                                           {"reals", "numbers with commas between them"}};
    field_range out = {""};
    size_t used = 0;
    for (int i = 0; f->choices && f->choices[i] && used < sizeof out.text; i++)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%s", i ? ", " : "", f->choices[i]);
    for (int i = 0; !f->choices && i < 6; i++) {
        if (strcmp(forms[i][0], f->type) == 0 && (i > 1 || !f->limited))
            used = (size_t)snprintf(out.text, sizeof out.text, "%s%s", forms[i][1], f->limited ? ", each " : "");
    }
    if (f->limited && f->high >= 1e15)
        snprintf(out.text + used, sizeof out.text - used, "at least %s", print_bound(f->low).text);
    else if (f->limited)
        snprintf(out.text + used, sizeof out.text - used, "%s to %s", print_bound(f->low).text,
                 print_bound(f->high).text);
    return out;
}
