/* cases.c - from the text of a case to a graph. */
#include "ops/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "2x3x8x8", or "scalar". */
static shape read_shape(const char *word)
{
    shape s = {0}, bad = {.rank = -1};
    if (strcmp(word, "scalar") == 0)
        return s;
    for (;;) {
        char *end;
        if (s.rank == MAX_RANK || *word < '0' || *word > '9')
            return bad;
        s.dim[s.rank++] = strtoll(word, &end, 10);
        if (*end == '\0')
            return s;
        if (*end != 'x')
            return bad;
        word = end + 1;
    }
}

bool case_next_shape(const char **text, shape *out, int *labels)
{
    char word[96];
    *text += strspn(*text, " ");
    size_t length = strcspn(*text, " ");
    if (length == 0)
        return false;
    snprintf(word, sizeof word, "%.*s", (int)length, *text);
    *text += length;
    *labels = strncmp(word, "labels:", 7) == 0 ? atoi(word + 7) : 0;
    *out = *labels ? (shape){0} : read_shape(word);
    return true;
}

static const initializer between_ones = {START_UNIFORM, -1, 1};

/* One input; `first` is the shape of input 0, whose rows the labels belong to. */
static int make_input(graph *g, const shape *s, const shape *first, int labels, int index)
{
    char name[16];
    snprintf(name, sizeof name, "x%d", index);
    if (s->rank < 0) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "a case's input %s is not a shape", name));
        return -1;
    }
    if (labels) {
        shape rows = shape_1(first->dim[0]);
        int v = graph_value(g, VALUE_INPUT, I32, &rows, "label");
        if (v >= 0)
            g->values[v].classes = labels;
        return v;
    }
    int v = graph_value(g, VALUE_PARAM, g->real, s, name);
    if (v >= 0)
        g->values[v].start = between_ones;
    return v;
}

int case_inputs(graph *g, const op_case *c, int *in)
{
    shape s, first = {0};
    const char *text = c->in;
    int labels, count = 0;
    if (c->dialect) {
        const dialect *d = dialect_find(c->dialect);
        if (!d) {
            graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "a case names an unknown dialect '%s'", c->dialect));
            return -1;
        }
        g->dialect = d;
    }
    while (case_next_shape(&text, &s, &labels)) {
        if (count == CASE_MAX_IN) {
            graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "a case has more than %d inputs", CASE_MAX_IN));
            return -1;
        }
        if (count == 0)
            first = s;
        in[count] = make_input(g, &s, &first, labels, count);
        if (in[count] < 0)
            return -1;
        count++;
    }
    return count;
}

int case_layer(graph *g, const op_def *op, const op_case *c, int nin, const int *in)
{
    void *attr = op->attr_size ? pool_get(&g->pool, 1, op->attr_size) : NULL;
    if (op->attr_size && !attr) {
        graph_stick(g, fail_memory(g->ctx, op->attr_size));
        return -1;
    }
    static const field none[] = {{0}};
    const field *fields = op->fields ? op->fields : none;
    fields_set_defaults(fields, attr);
    if (op->set_defaults)
        op->set_defaults(attr, g->dialect);
    brasa_status status = fields_parse(g->ctx, op->name, fields, attr, c->layer ? c->layer : "");
    if (status != BRASA_OK) {
        graph_stick(g, status);
        return -1;
    }
    return graph_apply(g, op, op->name, attr, nin, in);
}

static void set_output(graph *g, int v, const char *name)
{
    g->values[v].output = true;
    if (!g->values[v].name)
        g->values[v].name = name;
}

void case_loss(graph *g, int y)
{
    if (y < 0 || g->status != BRASA_OK)
        return;
    set_output(g, y, "y");
    if (g->values[y].type != g->real)
        return;
    g->loss = y;
    if (g->values[y].shape.rank == 0)
        return;

    shape s = g->values[y].shape;
    int target = graph_value(g, VALUE_BUFFER, g->real, &s, "target");
    if (target < 0)
        return;
    g->values[target].start = between_ones;
    const op_case mse = {.layer = ""};
    g->loss = case_layer(g, op_find("mse"), &mse, 2, (int[]){y, target});
    if (g->loss >= 0)
        set_output(g, g->loss, "loss");
}

brasa_status case_build(graph *g, const op_def *op, const op_case *c)
{
    int in[CASE_MAX_IN];
    int nin = case_inputs(g, c, in);
    if (nin >= 0)
        case_loss(g, case_layer(g, op, c, nin, in));
    return g->status;
}
