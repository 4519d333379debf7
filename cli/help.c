/* help.c - `brasa help` and --help: pages made from the tables of verbs, options, layers, optimizers, models, sources
 * of data and variables. */
#include "describe.h"
#include "environment.h"

#include "core/nearest.h"
#include "data/transform.h"
#include "lab/experiment.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDENT = 4 };

void help_short(FILE *to)
{
    fprintf(to, "brasa %s - trains neural networks\n\nusage: brasa VERB ...\n\n", brasa_version());
    for (int i = 0; verb_at(i); i++)
        fprintf(to, "  %-11s %s\n", verb_at(i)->name, verb_at(i)->summary);
    fprintf(to, "\n`brasa VERB --help` tells more. `brasa help layers`, `optimizers` and `models`\n"
                "list what a network is made of, `brasa help data` where it learns from, `brasa\n"
                "help environment` what variables do. `brasa --version` prints the version.\n");
}

static option_meaning meaning_of(const verb *v, const option_def *def)
{
    for (size_t i = 0; i < sizeof v->means / sizeof v->means[0] && v->means[i].name; i++)
        if (strcmp(v->means[i].name, def->name) == 0)
            return v->means[i];
    return (option_meaning){def->name, def->value, def->help};
}

void help_verb(const verb *v)
{
    heading("brasa %s - %s", v->name, v->summary);
    printf("\nusage: brasa %s%s%s [options]\n\n", v->name, *v->words ? " " : "", v->words);
    for (const option_def *def = option_table; def->name; def++) {
        if (!option_taken(v->options, def))
            continue;
        char name[32];
        const option_meaning m = meaning_of(v, def);
        snprintf(name, sizeof name, "--%s%s%s", m.name, m.value ? " " : "", m.value ? m.value : "");
        printf("  %-18s ", name);
        wrapped(21, 21, m.help);
    }
    if (v->details) {
        printf("\n");
        wrapped(0, 0, v->details);
    }
    printf("\nexamples:\n");
    for (const char *line = v->examples; *line; line += strspn(line, "\n")) {
        printf("  %.*s\n", (int)strcspn(line, "\n"), line);
        line += strcspn(line, "\n");
    }
}

/* --- layers and optimizers ------------------------------------------------------------------------------------- */

/* Attributes as each dialect sets them. NULL: out of memory. */
static char *all_defaults(const op_def *op)
{
    int count = 0;
    while (dialect_at(count))
        count++;
    char *attrs = calloc((size_t)count, op->attr_size + 1);
    for (int d = 0; attrs && d < count && op->fields; d++) {
        fields_set_defaults(op->fields, attrs + (size_t)d * op->attr_size);
        if (op->set_defaults)
            op->set_defaults(attrs + (size_t)d * op->attr_size, dialect_at(d));
    }
    return attrs;
}

/* "default 0.1", with the dialects that differ: "default 0.1, tfkeras 0.01". */
static void format_default(const op_def *op, const field *f, const char *attrs, char *out, size_t size)
{
    figure first = print_field(f, attrs);
    size_t used = (size_t)snprintf(out, size, "default %s", first.text);
    for (int d = 1; dialect_at(d) && used < size; d++) {
        figure other = print_field(f, attrs + (size_t)d * op->attr_size);
        if (strcmp(first.text, other.text) != 0)
            used += (size_t)snprintf(out + used, size - used, ", %s %s", dialect_at(d)->name, other.text);
    }
}

static void help_fields(const op_def *op)
{
    char *attrs = all_defaults(op);
    for (const field *f = op->fields; f && f->name; f++) {
        char text[640], initial[256] = "must be given";
        if (f->initial && attrs)
            format_default(op, f, attrs, initial, sizeof initial);
        snprintf(text, sizeof text, "%s (%s; %s)", f->help, print_range(f).text, initial);
        printf("%*s%-13s ", INDENT, "", f->name);
        wrapped(INDENT + 14, INDENT + 14, text);
    }
    free(attrs);
}

/* The words and what may stand behind them without a name: "conv2d or conv channels [size]". */
static void help_line(const op_def *op)
{
    char line[256];
    size_t used =
        (size_t)snprintf(line, sizeof line, "%s%s%s", op->name, op->alias ? " or " : "", op->alias ? op->alias : "");
    for (const field *f = op->fields; f && f->name && used < sizeof line; f++)
        if (f->positional)
            used += (size_t)snprintf(line + used, sizeof line - used, f->initial ? " [%s]" : " %s", f->name);
    heading("%s", line);
}

static int help_layers(const options *o)
{
    (void)o;
    printf("A layer is a word, its values in order, then key=value; name=... names it. It\n"
           "takes the result of the line before, or the results it names: `x = add $a $b`.\n"
           "The text is the same in model files and in brasa_apply.\n\n");
    for (int i = 0; op_at(i); i++) {
        if (!op_at(i)->help)
            continue;
        help_line(op_at(i));
        printf("%*s", INDENT - 2, "");
        wrapped(INDENT - 2, INDENT - 2, op_at(i)->help);
        help_fields(op_at(i));
    }
    heading("classify classes");
    printf("  the end of a classifier: dense, softmax cross-entropy and accuracy, with the\n"
           "  outputs logits, probs, loss and accuracy\n");
    return DONE;
}

static int help_optimizers(const options *o)
{
    (void)o;
    printf("An optimizer is its name and key=value: --optimizer \"sgd lr=0.01 momentum=0.9\".\n"
           "Where the default of lr is 0, the dialect has none and it must be given.\n\n");
    for (int i = 0; optimizer_at(i); i++) {
        const optimizer_def *def = optimizer_at(i);
        help_line(def->op);
        for (int d = 0; def->exists && dialect_at(d); d++)
            if (!def->exists(dialect_at(d)))
                printf("%*snot in the dialect %s\n", INDENT - 2, "", dialect_at(d)->name);
        help_fields(def->op);
    }
    printf("\nThe rate may follow a schedule: brasa_session_options.schedule.\n\n");
    help_line(&schedule_op);
    help_fields(&schedule_op);
    return DONE;
}

static int help_models(const options *o)
{
    int code = run_models(o);
    printf("\nYour own network is a text file whose name ends in .net, a layer a line:\n\n"
           "  # comments start with #\n"
           "  dialect keras2          whose defaults, before the first layer (torch)\n"
           "  input 3 32 32           channels, height, width; one number: features\n"
           "  conv 64 3x3 pad=same    takes the result of the line before\n"
           "  a = conv $x 32 1x1      names a result, and takes a named one\n"
           "  x = concat $a $b\n"
           "  output NAME             keeps the last result readable under this name\n"
           "  classify 10             logits, loss, accuracy\n\n"
           "For other endings: `y = labels 10`, any layer, then `loss`, which marks the last\n"
           "result. `brasa help layers` lists the words.\n");
    return code;
}

static int help_data(const options *o)
{
    (void)o;
    printf("DATA is a source, a colon, a path or a name, then settings with commas between\n"
           "them.\n\n");
    for (int i = 0; source_at(i); i++) {
        heading("%s", source_at(i)->form);
        printf("%*s", INDENT - 2, "");
        wrapped(INDENT - 2, INDENT - 2, source_at(i)->summary);
    }
    printf("\nPictures are made ready by a transform, such as \"resize=256 crop=224\".\n\n");
    for (const field *f = transform_fields; f->name; f++) {
        char text[400];
        snprintf(text, sizeof text, "%s (%s; default %s)", f->help, print_range(f).text, f->initial);
        printf("%*s%-13s ", INDENT - 2, "", f->name);
        wrapped(INDENT + 12, INDENT + 12, text);
    }
    printf("\n`brasa data info`, `data make` and `data get` work with data sets.\n");
    return DONE;
}

static int help_experiments(const options *o)
{
    const char *name, *takes;
    (void)o;
    printf("An experiment of the lab is a preset or a text file, a field a line. Lists make\n"
           "a grid: each network with each data set, each batch, ... in each framework.\n\n"
           "  # comments start with #\n"
           "  network    alexnet vgg16\n"
           "  data       synth:fire,n=791 \"images:My photos\"\n"
           "  batch      1 16..64          numbers; FIRST..LAST doubles, with /STEP it adds\n"
           "  small.data synth:fire,n=24   counts in place of `data` with --scale small\n"
           "  experiment NAME              begins a block; lines above the first one hold\n"
           "                               for all of them\n\n");
    for (int i = 0; experiment_field_at(i, &name, &takes); i++) {
        printf("  %-10s ", name);
        wrapped(13, 13, takes);
    }
    printf("\n");
    heading("presets");
    for (int i = 0; lab_preset_at(i); i++) {
        printf("  %-16s ", lab_preset_at(i)->name);
        wrapped(19, 19, lab_preset_at(i)->summary);
    }
    return DONE;
}

static int help_environment(const options *o)
{
    (void)o;
    printf("These variables are read where they are set.\n\n");
    for (int i = 0; variable_at(i); i++) {
        const char *now = getenv(variable_at(i)->name);
        heading("%s=%s", variable_at(i)->name, variable_at(i)->takes);
        printf("%*s", INDENT - 2, "");
        wrapped(INDENT - 2, INDENT - 2, variable_at(i)->help);
        if (now && *now)
            print_line("%*snow: %s", INDENT - 2, "", now);
    }
    return DONE;
}

/* --- the verb --------------------------------------------------------------------------------------------------- */

static const struct topic {
    const char *name;
    int (*print)(const options *o);
} topics[] = {{"layers", help_layers}, {"optimizers", help_optimizers},   {"models", help_models},
              {"data", help_data},     {"experiments", help_experiments}, {"environment", help_environment}};
enum { TOPICS = sizeof topics / sizeof topics[0] };

/* "bench" or "bench step": the verbs whose name begins with these words. */
static bool help_matching(const char *words)
{
    size_t length = strlen(words);
    int shown = 0;
    for (int i = 0; verb_at(i); i++) {
        const verb *v = verb_at(i);
        if (strncmp(v->name, words, length) != 0 || (v->name[length] && v->name[length] != ' '))
            continue;
        printf(shown++ ? "\n" : "");
        help_verb(v);
    }
    return shown > 0;
}

int run_help(const options *o)
{
    if (o->words == 0) {
        help_short(stdout);
        return DONE;
    }
    char words[128];
    snprintf(words, sizeof words, "%s%s%s", o->word[0], o->words > 1 ? " " : "", o->words > 1 ? o->word[1] : "");
    for (int i = 0; i < TOPICS; i++)
        if (strcmp(topics[i].name, words) == 0)
            return topics[i].print(o);
    if (help_matching(words))
        return DONE;
    nearest n = {.word = words};
    for (int i = 0; i < TOPICS; i++)
        nearest_offer(&n, topics[i].name);
    for (int i = 0; verb_at(i); i++)
        nearest_offer(&n, verb_at(i)->name);
    return complain(MISUSED, "help: there is no page '%s'%s", words, nearest_hint(&n).text);
}
