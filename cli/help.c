/* help.c - `brasa help` and --help: pages made from the tables of verbs, options, layers, optimizers, models, sources
 * of data and variables. */
#include "describe.h"
#include "environment.h"

#include "core/nearest.h"
#include "data/transform.h"
#include "lab/experiment.h"

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

/* "default 0.1", with the dialects that differ: "default 0.1, tfkeras 0.01". */
static void format_default(brasa_list list, const char *entry, int index, const brasa_field *f, char *out,
                           size_t size)
{
    brasa_entry d = {.size = sizeof d};
    brasa_field other = {.size = sizeof other};
    size_t used = (size_t)snprintf(out, size, "default %s", f->value);
    for (int i = 1; brasa_entry_at(BRASA_DIALECTS, i, &d) && used < size; i++)
        if (brasa_field_at(list, entry, d.name, index, &other) && strcmp(f->value, other.value) != 0)
            used += (size_t)snprintf(out + used, size - used, ", %s %s", d.name, other.value);
}

static void help_fields(brasa_list list, const char *entry)
{
    brasa_field f = {.size = sizeof f};
    for (int i = 0; brasa_field_at(list, entry, NULL, i, &f); i++) {
        char text[640], initial[256] = "must be given";
        if (!f.required)
            format_default(list, entry, i, &f, initial, sizeof initial);
        snprintf(text, sizeof text, "%s (%s; %s)", f.help, print_range(&f).text, initial);
        printf("%*s%-13s ", INDENT, "", f.name);
        wrapped(INDENT + 14, INDENT + 14, text);
    }
}

/* The words and what may stand behind them without a name: "conv2d or conv channels [size]". */
static void help_line(brasa_list list, const brasa_entry *e)
{
    char line[256];
    brasa_field f = {.size = sizeof f};
    size_t used =
        (size_t)snprintf(line, sizeof line, "%s%s%s", e->name, e->alias ? " or " : "", e->alias ? e->alias : "");
    for (int i = 0; brasa_field_at(list, e->name, NULL, i, &f) && used < sizeof line; i++)
        if (f.positional)
            used += (size_t)snprintf(line + used, sizeof line - used, f.required ? " %s" : " [%s]", f.name);
    heading("%s", line);
}

/* All entries of a list: the words, a sentence, the dialects that lack it, the fields. */
static void help_entries(brasa_list list)
{
    brasa_entry e = {.size = sizeof e}, d = e;
    brasa_field f = {.size = sizeof f};
    for (int i = 0; brasa_entry_at(list, i, &e); i++) {
        help_line(list, &e);
        printf("%*s", INDENT - 2, "");
        wrapped(INDENT - 2, INDENT - 2, e.help);
        for (int k = 1; brasa_entry_at(BRASA_DIALECTS, k, &d); k++)
            if (brasa_field_at(list, e.name, NULL, 0, &f) && !brasa_field_at(list, e.name, d.name, 0, &f))
                printf("%*snot in the dialect %s\n", INDENT - 2, "", d.name);
        help_fields(list, e.name);
    }
}

static int help_layers(const options *o)
{
    (void)o;
    printf("A layer is a word, its values in order, then key=value; name=... names it. It\n"
           "takes the result of the line before, or the results it names: `x = add $a $b`.\n"
           "The text is the same in model files and in brasa_apply.\n\n");
    help_entries(BRASA_LAYERS);
    return DONE;
}

static int help_optimizers(const options *o)
{
    (void)o;
    printf("An optimizer is its name and key=value: --optimizer \"sgd lr=0.01 momentum=0.9\".\n"
           "Where the default of lr is 0, the dialect has none and it must be given.\n\n");
    help_entries(BRASA_OPTIMIZERS);
    printf("\nThe rate may follow a schedule: brasa_session_options.schedule.\n\n");
    help_entries(BRASA_SCHEDULES);
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
    for (const field *t = transform_fields; t->name; t++) {
        char text[400];
        brasa_field f;
        field_describe(t, NULL, &f);
        snprintf(text, sizeof text, "%s (%s; default %s)", f.help, print_range(&f).text, f.value);
        printf("%*s%-13s ", INDENT - 2, "", f.name);
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
