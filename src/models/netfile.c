/* netfile.c - a network as a text file: a layer a line.
 *
 *     # comments start with #
 *     dialect keras2            # before the first layer; torch where it is missing
 *     input 3 32 32             # channels, height, width; one number: features; name=left: what to feed it by
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

enum {
    MAX_FILE = 1 << 20,
    MAX_LINE = 400,
    MAX_SETTINGS = MAX_LINE + 16 /* a number more */,
    MAX_INPUTS = 64,
    MAX_NAMES = 4096
};

typedef struct reader {
    graph *g;
    int classes;     /* replaces the number after classify; 0: does not */
    bool classified; /* there was a classify line */
    brasa_tensor last;
    struct named *names;
    int count, capacity;
} reader;

struct named {
    const char *name;
    brasa_tensor tensor;
};

/* What stands behind the first word of a line. */
typedef struct line_rest {
    brasa_tensor inputs[MAX_INPUTS]; /* the $names, or the result before */
    int count;                       /* of them */
    bool given;                      /* there were $names */
    char name[MAX_LINE + 2];         /* of name=, or "" */
    char settings[MAX_SETTINGS];     /* the other words, a blank behind each */
} line_rest;

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

/* One word of a line behind the first. */
static brasa_status read_word(reader *r, const char *word, line_rest *rest)
{
    if (strncmp(word, "name=", 5) == 0) {
        if (!word[5] || rest->name[0])
            return refuse(r, fail(r->g->ctx, BRASA_BAD_ARGUMENT, "%s", word[5] ? "two names" : "name=: no name"));
        strcpy(rest->name, word + 5); /* it fits: it is part of the line; so do the settings */
        return BRASA_OK;
    }
    if (word[0] != '$') {
        strcat(strcat(rest->settings, word), " ");
        return BRASA_OK;
    }
    if (rest->count == MAX_INPUTS)
        return refuse(r, fail(r->g->ctx, BRASA_BAD_ARGUMENT, "more than %d inputs", MAX_INPUTS));
    rest->given = true;
    return lookup(r, word + 1, &rest->inputs[rest->count++]);
}

static brasa_status read_rest(reader *r, char *words, line_rest *rest)
{
    rest->count = 0;
    rest->given = false;
    rest->name[0] = rest->settings[0] = '\0';
    while (*(words += strspn(words, " \t"))) {
        const char *word = words;
        words += strcspn(words, " \t");
        if (*words)
            *words++ = '\0';
        brasa_status status = read_word(r, word, rest);
        if (status != BRASA_OK)
            return status;
    }
    if (!rest->given)
        rest->inputs[rest->count++] = r->last;
    return BRASA_OK;
}

/* Without the last blank. */
static int settings_length(const line_rest *rest)
{
    const size_t length = strlen(rest->settings);
    return length ? (int)length - 1 : 0;
}

static brasa_tensor make_input(reader *r, const line_rest *rest)
{
    graph *g = r->g;
    int size[3], count = rest->given ? -1 : read_numbers(rest->settings, size);
    const char *name = rest->name[0]                                                   ? rest->name
                       : graph_find(g, "image") >= 0 || graph_find(g, "features") >= 0 ? "input"
                                                                                       : NULL;
    if (count == 3)
        return brasa_input(g, name ? name : "image", size[0], size[1], size[2]);
    if (count == 1)
        return brasa_input_vector(g, name ? name : "features", size[0]);
    refuse(r, fail(g->ctx, BRASA_BAD_ARGUMENT,
                   "input: expected channels, height and width, or one number of features; got '%.*s'",
                   settings_length(rest), rest->settings));
    return (brasa_tensor){g, -1};
}

static brasa_tensor make_labels(reader *r, const line_rest *rest)
{
    int size[3];
    if (!rest->given && read_numbers(rest->settings, size) == 1)
        return brasa_labels(r->g, rest->name[0] ? rest->name : "label", size[0]);
    refuse(r, fail(r->g->ctx, BRASA_BAD_ARGUMENT, "labels: expected the number of classes, got '%.*s'",
                   settings_length(rest), rest->settings));
    return (brasa_tensor){r->g, -1};
}

/* `output NAME` and `loss` make nothing, and hand on the result before them. */
static brasa_tensor mark(reader *r, const char *word, line_rest *rest)
{
    const bool loss = strcmp(word, "loss") == 0;
    const int length = settings_length(rest);
    rest->settings[length] = '\0';
    if (rest->count != 1 || rest->name[0] || (loss ? length != 0 : strchr(rest->settings, ' ') != NULL))
        refuse(r, fail(r->g->ctx, BRASA_BAD_ARGUMENT, "%s: expected %s and at most one $input, got '%s'", word,
                       loss ? "no settings" : "one name", rest->settings));
    else if (loss)
        brasa_set_loss(rest->inputs[0]);
    else
        brasa_output(rest->inputs[0], rest->settings);
    return rest->inputs[0];
}

/* Puts r->classes in the place of the number: the first word that is no key=value, or features=. */
static void replace_classes(const reader *r, char *settings)
{
    char others[MAX_LINE + 2] = "";
    bool replaced = false;
    for (char *word = settings; *word;) {
        const size_t length = strcspn(word, " ") + 1;
        if (strncmp(word, "features=", 9) != 0 && (replaced || memchr(word, '=', length)))
            strncat(others, word, length);
        else
            replaced = true;
        word += length;
    }
    snprintf(settings, MAX_SETTINGS, "%d %s", r->classes, others);
}

static brasa_tensor make_classifier(reader *r, line_rest *rest)
{
    graph *g = r->g;
    const char *name = rest->name;
    if (r->classified)
        refuse(r, fail(g->ctx, BRASA_BAD_ARGUMENT,
                       "a second classify: more losses are made of dense, labels, cross_entropy and weighted_sum"));
    else if (rest->count != 1)
        refuse(r, fail(g->ctx, BRASA_BAD_ARGUMENT, "classify: takes 1 input, got %d", rest->count));
    if (g->status != BRASA_OK)
        return (brasa_tensor){g, -1};
    r->classified = true;
    if (r->classes)
        replace_classes(r, rest->settings);
    brasa_tensor logits = brasa_apply(rest->inputs[0], "classify %s%s%s", rest->settings, *name ? "name=" : "", name);
    if (g->status != BRASA_OK)
        fail_prefix(g->ctx, "classify");
    return logits;
}

static brasa_tensor make_layer(reader *r, const char *word, line_rest *rest)
{
    const char *name = rest->name;
    if (rest->inputs[0].id < 0) {
        refuse(r, fail(r->g->ctx, BRASA_BAD_FILE, "'%s' has nothing to work on: begin with an input line", word));
        return (brasa_tensor){r->g, -1};
    }
    if (strcmp(word, "output") == 0 || strcmp(word, "loss") == 0)
        return mark(r, word, rest);
    if (strcmp(word, "classify") == 0)
        return make_classifier(r, rest);
    return brasa_apply_n(r->g, rest->inputs, rest->count, "%s %s%s%s", word, rest->settings, *name ? "name=" : "",
                         name);
}

/* "name = " at the start of a line; moves *text behind it. */
static bool read_assignment(char **text, char **name)
{
    char *equals = strchr(*text, '=');
    char *end = *text + strspn(*text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    if (!equals || end == *text || end + strspn(end, " \t") != equals)
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
        for (char *end = rest + strlen(rest); end > rest && isspace((unsigned char)end[-1]);)
            *--end = '\0';
        return brasa_graph_set_dialect(g, rest);
    }
    line_rest words;
    if (read_rest(r, rest, &words) != BRASA_OK)
        return g->status;
    brasa_tensor t = strcmp(line, "input") == 0    ? make_input(r, &words)
                     : strcmp(line, "labels") == 0 ? make_labels(r, &words)
                                                   : make_layer(r, line, &words);
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
        const int before = r->g->nnodes;
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
        for (int i = before; i < r->g->nnodes; i++)
            r->g->nodes[i].line = number;
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
    const size_t mark =
        got >= 3 && memcmp(buffer, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* some editors' byte order mark */
    *text = buffer + mark;
    *size = got - mark;
    return BRASA_OK;
}

static brasa_status build(brasa_graph *g, const char *path, char *text, size_t size, int classes)
{
    if (!(g->file = pool_text(&g->pool, "%s", path))) {
        graph_stick(g, fail_memory(g->ctx, strlen(path) + 1));
        return g->status;
    }
    reader r = {.g = g, .classes = classes, .last = {g, -1}};
    brasa_status status = read_text(&r, path, text, size);
    if (status == BRASA_OK && !g->nnodes)
        graph_stick(g, fail(g->ctx, BRASA_BAD_FILE, "%s: no layer in it", path));
    if (g->status == BRASA_OK && classes && !r.classified)
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "%s: has no classify line whose %d classes could be chosen",
                            path, classes));
    return g->status;
}

brasa_status netfile_build(brasa_graph *g, const char *path, int classes)
{
    char *text = NULL;
    size_t size = 0;
    brasa_status status = load(g, path, &text, &size);
    if (status == BRASA_OK)
        return build(g, path, text, size, classes);
    graph_stick(g, status);
    return status;
}

brasa_status netfile_build_text(brasa_graph *g, const char *path, const char *text, int classes)
{
    const size_t size = strlen(text);
    char *copy = size <= MAX_FILE ? pool_text(&g->pool, "%s", text) : NULL;
    if (copy)
        return build(g, path, copy, size, classes);
    graph_stick(g, size <= MAX_FILE ? fail_memory(g->ctx, size)
                                    : fail(g->ctx, BRASA_BAD_FILE, "%s: larger than %d bytes", path, MAX_FILE));
    return g->status;
}
