/* build.c - the public calls that describe a network. Each is thin: the work is graph_apply's. */
#include "core/nearest.h"
#include "core/numeric.h"
#include "graph/graph.h"
#include "ops/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LAYER_TEXT = 512, MAX_NAME = 160 };

/* --- graphs ------------------------------------------------------------------------------------------------ */

brasa_graph *brasa_graph_new(brasa_context *context)
{
    brasa_context *ctx = context;
    if (!ctx && brasa_context_new(NULL, &ctx) != BRASA_OK)
        return NULL;
    graph *g = mem_get(ctx, sizeof *g);
    if (!g) {
        if (!context)
            brasa_context_free(ctx);
        return NULL;
    }
    graph_init(g, ctx);
    g->owns_ctx = !context;
    return g;
}

void brasa_graph_free(brasa_graph *g)
{
    if (!g)
        return;
    brasa_context *ctx = g->ctx;
    bool owns = g->owns_ctx;
    graph_clear(g);
    mem_put(ctx, g);
    if (owns)
        brasa_context_free(ctx);
}

brasa_status brasa_graph_status(const brasa_graph *g)
{
    return g ? g->status : BRASA_BAD_ARGUMENT;
}

const char *brasa_graph_error(const brasa_graph *g)
{
    if (!g)
        return "there is no graph: brasa_graph_new returns NULL if it is out of memory";
    return g->status != BRASA_OK ? g->error : g->ctx->error;
}

brasa_status brasa_graph_set_dialect(brasa_graph *g, const char *name)
{
    if (!g || !name)
        return fail_null(g ? g->ctx : NULL, __func__, "a graph and a name");
    const dialect *d = dialect_find(name);
    if (g->status != BRASA_OK)
        return g->status;
    if (!d) {
        nearest n = {.word = name};
        for (int i = 0; dialect_at(i); i++)
            nearest_offer(&n, dialect_at(i)->name);
        graph_stick(g, fail(g->ctx, BRASA_NOT_FOUND, "no dialect '%s'%s", name, nearest_hint(&n).text));
    } else if (g->nnodes) {
        graph_stick(g, fail(g->ctx, BRASA_WRONG_STATE, "the dialect must be set before the first layer"));
    } else {
        g->dialect = d;
    }
    return g->status;
}

void brasa_graph_scope(brasa_graph *g, const char *prefix)
{
    if (!g)
        return;
    const char *copy = pool_text(&g->pool, "%s", prefix ? prefix : "");
    if (copy)
        g->scope = copy;
    else
        graph_stick(g, fail_memory(g->ctx, 0));
}

/* --- inputs, outputs, the loss ---------------------------------------------------------------------------------- */

/* No name, or one that the library gives: the step counter, gradients, the optimizer's memory. */
static bool refuse_name(graph *g, const char *name)
{
    if (!name)
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "the name of an input or output is NULL"));
    const size_t length = name ? strlen(name) : 0;
    if (!name)
        return true;
    if (strcmp(name, STEPS_NAME) != 0 && !strchr(name, '/') &&
        (length < 5 || strcmp(name + length - 5, ".grad") != 0))
        return false;
    graph_stick(g,
                fail(g->ctx, BRASA_BAD_ARGUMENT,
                     "a value cannot be called '%s': '" STEPS_NAME "', '*.grad' and names with '/' are the library's",
                     name));
    return true;
}

static brasa_tensor make_input(graph *g, const char *name, dtype type, const shape *s)
{
    if (!g || refuse_name(g, name))
        return (brasa_tensor){g, -1};
    int v = graph_value(g, VALUE_INPUT, type, s, name);
    if (v >= 0)
        g->values[v].batched = true;
    return (brasa_tensor){g, v};
}

brasa_tensor brasa_input(brasa_graph *g, const char *name, int32_t channels, int32_t height, int32_t width)
{
    shape s = shape_4(1, channels, height, width);
    return make_input(g, name, F32, &s);
}

brasa_tensor brasa_input_vector(brasa_graph *g, const char *name, int32_t features)
{
    shape s = shape_2(1, features);
    return make_input(g, name, F32, &s);
}

brasa_tensor brasa_labels(brasa_graph *g, const char *name, int32_t classes)
{
    shape s = shape_1(1);
    if (g && classes < 1)
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "'%s': there must be at least one class, got %d",
                            name ? name : "", classes));
    brasa_tensor t = make_input(g, name, I32, &s);
    if (t.id >= 0)
        g->values[t.id].classes = classes;
    return t;
}

/* The graph of a tensor that may be used, or NULL where an earlier call failed already. */
static graph *usable(brasa_tensor x)
{
    graph *g = x.graph;
    if (!g || g->status != BRASA_OK)
        return NULL;
    if (x.id < 0 || x.id >= g->nvalues) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "tensor %d is not one of this graph's", x.id));
        return NULL;
    }
    return g;
}

void brasa_output(brasa_tensor x, const char *name)
{
    graph *g = usable(x);
    if (!g)
        return;
    value *v = &g->values[x.id];
    if (name && !name[0])
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "an output needs a name to be read under"));
    if (g->status != BRASA_OK || refuse_name(g, name))
        return;
    if (v->name || graph_find(g, name) >= 0) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "cannot name an output '%s': %s '%s'", name,
                            v->name ? "the value is already called" : "there is another value called",
                            v->name ? v->name : name));
        return;
    }
    v->name = pool_text(&g->pool, "%s", name);
    v->output = true;
    if (!v->name)
        graph_stick(g, fail_memory(g->ctx, strlen(name) + 1));
}

void brasa_set_loss(brasa_tensor x)
{
    graph *g = usable(x);
    if (!g)
        return;
    if (g->values[x.id].shape.rank != 0) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_SHAPE, "the loss must be a scalar, not %s",
                            shape_print(&g->values[x.id].shape).text));
        return;
    }
    if (g->loss >= 0) {
        graph_stick(g, fail(g->ctx, BRASA_WRONG_STATE, "the graph has a loss: add several up with weighted_sum"));
        return;
    }
    g->loss = x.id;
    if (!g->values[x.id].name)
        brasa_output(x, "loss");
}

int32_t brasa_tensor_shape(brasa_tensor x, int64_t out[6])
{
    graph *g = usable(x);
    if (!g)
        return -1;
    const shape *s = &g->values[x.id].shape;
    if (out)
        memcpy(out, s->dim, (size_t)s->rank * sizeof s->dim[0]);
    return s->rank;
}

/* --- layers ----------------------------------------------------------------------------------------------- */

/* A layer's text in parts: "conv 64 3x3 name=stem" is the word "conv", the name "stem" and the settings "64 3x3". */
typedef struct layer_text {
    char word[MAX_NAME], name[MAX_NAME], settings[MAX_LAYER_TEXT];
} layer_text;

static brasa_status split_layer(graph *g, const char *text, layer_text *out)
{
    size_t used = 0;
    *out = (layer_text){{0}, {0}, {0}};
    for (bool first = true; *(text += strspn(text, " \t")); first = false) {
        size_t length = strcspn(text, " \t");
        bool name = !first && strncmp(text, "name=", 5) == 0;
        const char *from = name ? text + 5 : text;
        size_t part = name ? length - 5 : length;
        char *to = first ? out->word : name ? out->name : out->settings + used;
        size_t room = first || name ? MAX_NAME : MAX_LAYER_TEXT - used;
        if (part + 2 > room)
            return fail(g->ctx, BRASA_BAD_ARGUMENT, "a layer's text is too long: '%.60s...'", text);
        memcpy(to, from, part);
        to[part] = '\0';
        if (!first && !name) {
            used += part;
            out->settings[used++] = ' ';
        }
        text += length;
    }
    return BRASA_OK;
}

static brasa_tensor classify(brasa_tensor x, const char *name, const char *classes);

static brasa_status refuse_word(graph *g, const char *word)
{
    nearest n = {.word = word};
    for (int i = 0; op_at(i); i++) {
        if (op_at(i)->help)
            nearest_offer(&n, op_at(i)->name);
        if (op_at(i)->help && op_at(i)->alias)
            nearest_offer(&n, op_at(i)->alias);
    }
    nearest_offer(&n, "classify");
    return fail(g->ctx, BRASA_NOT_FOUND, "there is no layer '%s'%s", word, nearest_hint(&n).text);
}

static brasa_tensor apply_text(graph *g, const brasa_tensor *inputs, int count, const char *text)
{
    brasa_tensor none = {g, -1};
    layer_text t;
    brasa_status status = split_layer(g, text, &t);
    if (status == BRASA_OK && strcmp(t.word, "classify") == 0) {
        if (count == 1)
            return classify(inputs[0], t.name, t.settings);
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "classify: takes 1 input, got %d", count));
        return none;
    }
    const op_def *op = op_find(t.word);
    if (status == BRASA_OK && !op)
        status = refuse_word(g, t.word);
    void *attr = status == BRASA_OK && op->attr_size ? pool_get(&g->pool, 1, op->attr_size) : NULL;
    int *in = pool_get(&g->pool, (size_t)count + 1, sizeof *in);
    if (status == BRASA_OK && (!in || (op->attr_size && !attr)))
        status = fail_memory(g->ctx, op->attr_size);
    if (status == BRASA_OK) {
        static const field no_fields[] = {{0}};
        const field *fields = op->fields ? op->fields : no_fields;
        fields_set_defaults(fields, attr);
        if (op->set_defaults)
            op->set_defaults(attr, g->dialect);
        status = fields_parse(g->ctx, op->name, fields, attr, t.settings);
    }
    if (status != BRASA_OK) {
        graph_stick(g, status);
        return none;
    }
    for (int i = 0; i < count; i++)
        in[i] = inputs[i].id;
    return (brasa_tensor){g, graph_apply(g, op, t.name, attr, count, in)};
}

static brasa_tensor apply_va(graph *g, const brasa_tensor *inputs, int count, const char *pattern, va_list args)
{
    char text[MAX_LAYER_TEXT];
    if (!pattern) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "the text of a layer is NULL"));
        return (brasa_tensor){g, -1};
    }
    const numeric_state locale = numeric_enter();
    int length = vsnprintf(text, sizeof text, pattern, args);
    numeric_leave(locale);
    if (length < 0 || (size_t)length >= sizeof text) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "a layer's text is too long: '%.60s...'", text));
        return (brasa_tensor){g, -1};
    }
    return apply_text(g, inputs, count, text);
}

brasa_tensor brasa_apply(brasa_tensor x, const char *pattern, ...)
{
    graph *g = usable(x);
    if (!g)
        return (brasa_tensor){x.graph, -1};
    va_list args;
    va_start(args, pattern);
    brasa_tensor y = apply_va(g, &x, 1, pattern, args);
    va_end(args);
    return y;
}

brasa_tensor brasa_apply_n(brasa_graph *g, const brasa_tensor *inputs, int32_t count, const char *pattern, ...)
{
    if (g && (count < 0 || (count && !inputs)))
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "a layer of %d inputs was given %s", (int)count,
                            inputs ? "a list of them" : "NULL"));
    for (int i = 0; g && i < count && g->status == BRASA_OK; i++) {
        if (inputs[i].graph != g)
            graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "input %d belongs to another graph", i + 1));
        usable(inputs[i]);
    }
    if (!g || g->status != BRASA_OK)
        return (brasa_tensor){g, -1};
    va_list args;
    va_start(args, pattern);
    brasa_tensor y = apply_va(g, inputs, count, pattern, args);
    va_end(args);
    return y;
}

/* --- shortcuts -------------------------------------------------------------------------------------------- */

brasa_tensor brasa_conv2d(brasa_tensor x, int32_t channels, int32_t size, int32_t padding)
{
    if (padding == BRASA_SAME)
        return brasa_apply(x, "conv2d %d %d pad=same", channels, size);
    return brasa_apply(x, "conv2d %d %d pad=%d", channels, size, padding);
}

brasa_tensor brasa_dense(brasa_tensor x, int32_t features)
{
    return brasa_apply(x, "dense %d", features);
}

brasa_tensor brasa_batchnorm(brasa_tensor x)
{
    return brasa_apply(x, "batchnorm");
}

brasa_tensor brasa_relu(brasa_tensor x)
{
    return brasa_apply(x, "relu");
}

brasa_tensor brasa_maxpool(brasa_tensor x, int32_t size)
{
    return brasa_apply(x, "maxpool %d", size);
}

brasa_tensor brasa_avgpool(brasa_tensor x, int32_t size)
{
    return brasa_apply(x, "avgpool %d", size);
}

brasa_tensor brasa_global_avgpool(brasa_tensor x)
{
    return brasa_apply(x, "global_avgpool");
}

brasa_tensor brasa_dropout(brasa_tensor x, float probability)
{
    /* Seven digits: 0.2f means 0.2, not 0.200000003, also in a session in double. */
    return brasa_apply(x, "dropout %.7g", (double)probability);
}

brasa_tensor brasa_flatten(brasa_tensor x)
{
    return brasa_apply(x, "flatten");
}

brasa_tensor brasa_add(brasa_tensor a, brasa_tensor b)
{
    if (!a.graph)
        return a;
    return brasa_apply_n(a.graph, (brasa_tensor[]){a, b}, 2, "add");
}

brasa_tensor brasa_concat(brasa_graph *g, const brasa_tensor *inputs, int32_t count)
{
    return brasa_apply_n(g, inputs, count, "concat");
}

/* The end of a classifier. `classes` is a number as text, so that a wrong one is refused by the dense layer's fields.
 */
static brasa_tensor classify(brasa_tensor x, const char *name, const char *classes)
{
    graph *g = x.graph;
    brasa_tensor logits =
        name[0] ? brasa_apply(x, "dense %s name=%s", classes, name) : brasa_apply(x, "dense %s", classes);
    if (!usable(logits))
        return logits;
    const shape *s = &g->values[logits.id].shape;
    brasa_tensor label = brasa_labels(g, "label", (int32_t)s->dim[1]);
    brasa_output(logits, "logits");
    brasa_tensor both[] = {logits, label};
    brasa_tensor loss = brasa_apply_n(g, both, 2, "softmax_cross_entropy name=loss");
    brasa_tensor accuracy = brasa_apply_n(g, both, 2, "accuracy name=accuracy");
    if (!usable(accuracy))
        return accuracy;
    brasa_set_loss(loss);
    brasa_output((brasa_tensor){g, g->nodes[g->values[loss.id].producer].out[1]}, "probs");
    brasa_output(accuracy, "accuracy");
    return logits;
}

brasa_tensor brasa_classify(brasa_tensor x, int32_t classes)
{
    return brasa_apply(x, "classify %d", classes);
}
