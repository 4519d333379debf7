/* netfile.c - a network as a text file: a layer a line.
 *
 *     # comments start with #
 *     dialect keras2            # before the first layer; torch where it is missing
 *     input 3 32 32             # channels, height, width; one number: features
 *     conv 64 3x3 pad=same      # takes the result of the line before
 *     a = conv $x 32 1x1        # names a result, and takes a named one
 *     x = concat $a $b
 *     output NAME               # keeps the last result readable under this name
 *     classify 10               # logits, loss, accuracy
 * For other endings: `y = labels 10`, any layer with several $inputs, and `loss`, which marks the last result.
 * Settings are those of brasa_apply. Nothing in a file can do more than make layers.
 */
#include "core/nearest.h"
#include "graph/graph.h"
#include "models/model.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 20, MAX_LINE = 400, MAX_INPUTS = 64, MAX_NAMES = 4096 };

typedef struct reader {
    graph *g;
    int classes; /* replaces the number after classify; 0: does not */
    brasa_tensor last;
    struct named {
        const char *name;
        brasa_tensor tensor;
    } * names;
    int count, capacity;
} reader;

static brasa_status refuse(reader *r, brasa_status status)
{
    graph_stick(r->g, status);
    return status;
}

static brasa_status lookup(reader *r, const char *name, brasa_tensor *out)
{
    nearest n = {.word = name};
    for (int i = r->count - 1; i >= 0; i--) {
        if (strcmp(r->names[i].name, name) == 0) {
            *out = r->names[i].tensor;
            return BRASA_OK;
        }
        nearest_offer(&n, r->names[i].name);
    }
    return refuse(r, fail(r->g->ctx, BRASA_NOT_FOUND, "no result is called '%s' above this line%s", name,
                          nearest_hint(&n).text));
}

static brasa_status name_result(reader *r, const char *name, brasa_tensor t)
{
    if (r->count == MAX_NAMES)
        return refuse(r, fail(r->g->ctx, BRASA_BAD_FILE, "more than %d names", MAX_NAMES));
    struct named *grown = pool_grow(&r->g->pool, r->names, r->count, &r->capacity, sizeof *grown);
    char *copy = pool_text(&r->g->pool, "%s", name);
    if (!grown || !copy)
        return refuse(r, fail_memory(r->g->ctx, sizeof *grown));
    r->names = grown;
    r->names[r->count++] = (struct named){copy, t};
    return BRASA_OK;
}

/* Up to three whole numbers; returns how many, or -1 where the text is something else. */
static int read_numbers(const char *text, int out[3])
{
    int count = 0;
    while (*(text += strspn(text, " \t"))) {
        char *end;
        errno = 0;
        long number = strtol(text, &end, 10);
        if (end == text || errno || number < 1 || number > 1 << 28 || count == 3 ||
            (*end && !isspace((unsigned char)*end)))
            return -1;
        out[count++] = (int)number;
        text = end;
    }
    return count;
}

static brasa_tensor make_input(reader *r, const char *settings)
{
    graph *g = r->g;
    int size[3], count = read_numbers(settings, size);
    const char *name = graph_find(g, "image") < 0 && graph_find(g, "features") < 0 ? NULL : "input";
    if (count == 3)
        return brasa_input(g, name ? name : "image", size[0], size[1], size[2]);
    if (count == 1)
        return brasa_input_vector(g, name ? name : "features", size[0]);
    refuse(r, fail(g->ctx, BRASA_BAD_ARGUMENT,
                   "input: expected channels, height and width, or one number of features; "
                   "got '%s'",
                   settings));
    return (brasa_tensor){g, -1};
}

static brasa_tensor make_labels(reader *r, const char *settings)
{
    int size[3];
    if (read_numbers(settings, size) == 1)
        return brasa_labels(r->g, "label", size[0]);
    refuse(r, fail(r->g->ctx, BRASA_BAD_ARGUMENT, "labels: expected the number of classes, got '%s'", settings));
    return (brasa_tensor){r->g, -1};
}

/* The inputs of a line: its $names, or the result before it. The rest of the words are the settings. */
static brasa_status read_inputs(reader *r, char *words, brasa_tensor *inputs, int *count, char *settings)
{
    *count = 0;
    settings[0] = '\0';
    while (*(words += strspn(words, " \t"))) {
        char *word = words;
        words += strcspn(words, " \t");
        if (*words)
            *words++ = '\0';
        if (word[0] != '$') {
            strcat(strcat(settings, word), " "); /* fits: it is part of the line */
            continue;
        }
        if (*count == MAX_INPUTS)
            return refuse(r, fail(r->g->ctx, BRASA_BAD_ARGUMENT, "more than %d inputs", MAX_INPUTS));
        brasa_status status = lookup(r, word + 1, &inputs[(*count)++]);
        if (status != BRASA_OK)
            return status;
    }
    if (*count == 0)
        inputs[(*count)++] = r->last;
    return BRASA_OK;
}

static brasa_tensor make_layer(reader *r, const char *word, char *words)
{
    brasa_tensor none = {r->g, -1}, inputs[MAX_INPUTS];
    char settings[MAX_LINE + 2];
    int count;
    if (read_inputs(r, words, inputs, &count, settings) != BRASA_OK)
        return none;
    if (inputs[0].id < 0) {
        refuse(r, fail(r->g->ctx, BRASA_BAD_FILE, "'%s' has nothing to work on: begin with an input line", word));
        return none;
    }
    if (strcmp(word, "output") == 0) {
        settings[strcspn(settings, " ")] = '\0';
        brasa_output(inputs[0], settings);
        return inputs[0];
    }
    if (strcmp(word, "loss") == 0) {
        brasa_set_loss(inputs[0]);
        return inputs[0];
    }
    if (r->classes && strcmp(word, "classify") == 0) {
        const char *rest = settings + strcspn(settings, " ");
        return brasa_apply_n(r->g, inputs, count, "classify %d %s", r->classes, rest);
    }
    return brasa_apply_n(r->g, inputs, count, "%s %s", word, settings);
}

/* "name = " at the start of a line; moves *text behind it. */
static bool read_assignment(char **text, char **name)
{
    char *equals = strchr(*text, '=');
    char *end = *text + strspn(*text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    if (!equals || end == *text || end + strspn(end, " \t") != equals || (equals == end && equals[1] != ' '))
        return false;
    *name = *text;
    *end = '\0';
    *text = equals + 1 + strspn(equals + 1, " \t");
    return true;
}

static brasa_status read_line(reader *r, char *line)
{
    graph *g = r->g;
    line[strcspn(line, "#\r")] = '\0';
    line += strspn(line, " \t");
    if (!*line)
        return BRASA_OK;
    char *name = NULL;
    read_assignment(&line, &name);
    char *rest = line + strcspn(line, " \t");
    if (*rest)
        *rest++ = '\0';
    rest += strspn(rest, " \t");

    if (strcmp(line, "dialect") == 0) {
        rest[strcspn(rest, " \t")] = '\0';
        return brasa_graph_set_dialect(g, rest);
    }
    brasa_tensor t = strcmp(line, "input") == 0    ? make_input(r, rest)
                     : strcmp(line, "labels") == 0 ? make_labels(r, rest)
                                                   : make_layer(r, line, rest);
    if (g->status == BRASA_OK && name)
        name_result(r, name, t);
    r->last = t;
    return g->status;
}

static brasa_status read_text(reader *r, const char *path, char *text, size_t size)
{
    int number = 0;
    for (char *line = text; line < text + size;) {
        size_t length = strcspn(line, "\n");
        char *next = line + length + 1;
        number++;
        brasa_status status = BRASA_OK;
        line[length] = '\0';
        if (length > MAX_LINE)
            status = refuse(r, fail(r->g->ctx, BRASA_BAD_FILE, "a line of %zu letters; at most %d are allowed",
                                    length, MAX_LINE));
        else
            status = read_line(r, line);
        if (status != BRASA_OK) {
            graph_where(r->g, path, number);
            return status;
        }
        line = next;
    }
    return BRASA_OK;
}

/* The whole file with a zero behind it, from the graph's pool. */
static brasa_status load(graph *g, const char *path, char **text, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return fail(g->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(errno));
    char *buffer = pool_get(&g->pool, MAX_FILE + 2, 1);
    size_t got = buffer ? fread(buffer, 1, MAX_FILE + 1, file) : 0;
    bool bad = ferror(file) != 0;
    int reason = errno;
    fclose(file);
    if (!buffer)
        return fail_memory(g->ctx, MAX_FILE);
    if (bad)
        return fail(g->ctx, BRASA_BAD_FILE, "%s: %s", path, strerror(reason));
    if (got > MAX_FILE)
        return fail(g->ctx, BRASA_BAD_FILE, "%s: larger than %d bytes: not a model file", path, MAX_FILE);
    if (memchr(buffer, '\0', got))
        return fail(g->ctx, BRASA_BAD_FILE, "%s: holds a zero byte: not a text file", path);
    buffer[got] = '\0';
    *text = buffer;
    *size = got;
    return BRASA_OK;
}

brasa_status netfile_build(brasa_graph *g, const char *path, int classes)
{
    char *text = NULL;
    size_t size = 0;
    brasa_status status = load(g, path, &text, &size);
    if (status != BRASA_OK) {
        graph_stick(g, status);
        return status;
    }
    reader r = {.g = g, .classes = classes, .last = {g, -1}};
    status = read_text(&r, path, text, size);
    if (status == BRASA_OK && !g->nnodes)
        graph_stick(g, fail(g->ctx, BRASA_BAD_FILE, "%s: no layer in it", path));
    return g->status;
}
