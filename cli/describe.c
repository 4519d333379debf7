/* describe.c - see describe.h. */
#include "describe.h"

#include <stdio.h>
#include <string.h>

static void print_pads(figure *out, const pads *p)
{
    if (p->same)
        snprintf(out->text, sizeof out->text, "same");
    else if (p->top == p->left && p->top == p->bottom && p->top == p->right)
        snprintf(out->text, sizeof out->text, p->top ? "%d" : "valid", p->top);
    else
        snprintf(out->text, sizeof out->text, "%d,%d,%d,%d", p->top, p->left, p->bottom, p->right);
}

static void print_reals(figure *out, const reals *r)
{
    size_t used = 0;
    for (int i = 0; i < r->count && used < sizeof out->text; i++)
        used += (size_t)snprintf(out->text + used, sizeof out->text - used, "%s%s", i ? "," : "",
                                 print_number(r->value[i]).text);
}

figure print_field(const field *f, const void *attr)
{
    const void *at = (const char *)attr + f->offset;
    figure out = {""};
    switch (f->type) {
    case FIELD_INT:
        snprintf(out.text, sizeof out.text, "%d", *(const int *)at);
        break;
    case FIELD_REAL:
        return print_number(*(const double *)at);
    case FIELD_BOOL:
        snprintf(out.text, sizeof out.text, "%s", *(const bool *)at ? "yes" : "no");
        break;
    case FIELD_PAIR: {
        const pair *p = at;
        snprintf(out.text, sizeof out.text, p->h == p->w ? "%d" : "%dx%d", p->h, p->w);
        break;
    }
    case FIELD_PADS:
        print_pads(&out, at);
        break;
    case FIELD_REALS:
        print_reals(&out, at);
        break;
    case FIELD_WORD:
        snprintf(out.text, sizeof out.text, "%s", f->words[*(const int *)at]);
        break;
    }
    return out;
}

/* A bound: 65,536 and 0.999. */
static figure print_bound(double value)
{
    return value == (double)(int64_t)value ? print_count((int64_t)value) : print_number(value);
}

field_range print_range(const field *f)
{
    static const char *const forms[] = {
        [FIELD_INT] = "a whole number",
        [FIELD_REAL] = "a number",
        [FIELD_BOOL] = "yes or no",
        [FIELD_PAIR] = "N or HxW",
        [FIELD_PADS] = "valid, same, 1, 1x2 or top,left,bottom,right",
        [FIELD_REALS] = "numbers with commas between them",
    };
    field_range out = {""};
    size_t used = 0;
    if (f->type == FIELD_WORD) {
        for (int i = 0; f->words[i] && used < sizeof out.text; i++)
            used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%s", i ? ", " : "", f->words[i]);
        return out;
    }
    bool number = f->type == FIELD_INT || f->type == FIELD_REAL, bounds = f->low != 0 || f->high != 0;
    if (!number || !bounds)
        used = (size_t)snprintf(out.text, sizeof out.text, "%s%s", forms[f->type], bounds ? ", each " : "");
    if (bounds && f->high >= 1e15)
        snprintf(out.text + used, sizeof out.text - used, "at least %s", print_bound(f->low).text);
    else if (bounds)
        snprintf(out.text + used, sizeof out.text - used, "%s to %s", print_bound(f->low).text,
                 print_bound(f->high).text);
    return out;
}
