/* catalog.c - brasa_entry_at and brasa_field_at: layers, optimizers, schedules and dialects with their fields. */
#include "ops/optimizer.h"

#include <string.h>

/* Not an op: brasa_apply makes several of it. */
static const field classify_fields[] = {{"classes", FIELD_INT, 0, NULL, 1, 1 << 28, NULL, true, "number of classes"},
                                        {0}};
static const op_def classify = {.name = "classify",
                                .help =
                                    "the end of a classifier: dense, softmax cross-entropy and accuracy, with the "
                                    "outputs logits, probs, loss and accuracy",
                                .min_in = 1,
                                .max_in = 1,
                                .attr_size = sizeof(int),
                                .fields = classify_fields};

/* One entry of a list; what it is made of says of which one. */
typedef struct found {
    brasa_entry entry;
    const op_def *op;
    const optimizer_def *optimizer;
    const dialect *dialect;
} found;

static bool layer_at(int32_t index, found *out)
{
    const op_def *op = NULL;
    for (int i = 0; index >= 0 && (op = op_at(i)) != NULL; i++)
        if (op->help && index-- == 0)
            break;
    out->op = op ? op : index == 0 ? &classify : NULL;
    if (out->op)
        out->entry = (brasa_entry){.name = out->op->name,
                                   .alias = out->op->alias,
                                   .help = out->op->help,
                                   .min_inputs = out->op->min_in,
                                   .max_inputs = out->op->max_in};
    return out->op != NULL;
}

static bool optimizer_entry_at(int32_t index, found *out)
{
    out->optimizer = optimizer_at(index);
    out->op = out->optimizer ? out->optimizer->op : NULL;
    if (out->op)
        out->entry = (brasa_entry){.name = out->op->name, .help = out->optimizer->help};
    return out->op != NULL;
}

static bool schedule_at(int32_t index, found *out)
{
    for (int i = 0; i <= index; i++)
        if (!schedule_words[i])
            return false;
    if (index < 0)
        return false;
    out->op = &schedule_op;
    out->entry = (brasa_entry){.name = schedule_words[index], .help = schedule_help[index]};
    return true;
}

static bool dialect_entry_at(int32_t index, found *out)
{
    out->dialect = dialect_at(index);
    if (out->dialect)
        out->entry = (brasa_entry){.name = out->dialect->name, .help = out->dialect->summary};
    return out->dialect != NULL;
}

static bool find_at(brasa_list list, int32_t index, found *out)
{
    static bool (*const lists[])(int32_t index, found * out) = {[BRASA_LAYERS] = layer_at,
                                                                [BRASA_OPTIMIZERS] = optimizer_entry_at,
                                                                [BRASA_SCHEDULES] = schedule_at,
                                                                [BRASA_DIALECTS] = dialect_entry_at};
    *out = (found){.op = NULL};
    return (size_t)list < (sizeof lists / sizeof lists[0]) && lists[list](index, out);
}

static bool find(brasa_list list, const char *name, int32_t *index, found *out)
{
    for (*index = 0; name && find_at(list, *index, out); ++*index)
        if (strcmp(out->entry.name, name) == 0 || (out->entry.alias && strcmp(out->entry.alias, name) == 0))
            return true;
    return false;
}

bool brasa_entry_at(brasa_list list, int32_t index, brasa_entry *out)
{
    found f;
    return find_at(list, index, &f) && options_give(NULL, out, &f.entry, sizeof f.entry, "brasa_entry") == BRASA_OK;
}

/* The index-th field; a kind of schedule has but some of its op's. */
static const field *pick(const found *f, int32_t kind, int32_t index)
{
    const field *list = f->dialect ? dialect_fields : f->op->fields;
    for (int i = 0; list && list[i].name && index >= 0; i++)
        if ((f->op != &schedule_op || (i > 0 && schedule_reads(kind, i))) && index-- == 0)
            return &list[i];
    return NULL;
}

bool brasa_field_at(brasa_list list, const char *entry, const char *name, int32_t index, brasa_field *out)
{
    union {
        max_align_t align;
        char bytes[512];
    } attr = {.bytes = {0}};
    found f;
    int32_t place;
    brasa_field told;
    const dialect *d = name ? dialect_find(name) : dialect_at(0);
    if (!d || !find(list, entry, &place, &f) || (f.optimizer && f.optimizer->exists && !f.optimizer->exists(d)))
        return false;
    const field *of = pick(&f, place, index);
    if (!of || (f.op && f.op->attr_size > sizeof attr))
        return false;
    if (f.op) {
        fields_set_defaults(f.op->fields, &attr);
        if (f.op->set_defaults)
            f.op->set_defaults(&attr, d);
    }
    field_describe(of, f.op ? (const void *)&attr : f.dialect, &told);
    return options_give(NULL, out, &told, sizeof told, "brasa_field") == BRASA_OK;
}
