/* netjson.c - from JSON to a graph: see netjson.h. The file may come from anywhere: layers are checked by the
 * builder, as those of a model file are. */
#include "lab/netjson.h"

#include "core/json_scan.h"
#include "core/numeric.h"
#include "lab/lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 100000, SETTINGS_SIZE = 400 };

bool netjson_has_op(const char *op)
{
    static const char *const ops[] = {
        "conv2d", "dense",   "batchnorm", "relu",    "relu6",   "leaky_relu",     "sigmoid",
        "tanh",   "gelu",    "softmax",   "maxpool", "avgpool", "global_avgpool", "adaptive_avgpool",
        "lrn",    "dropout", "flatten",   "reshape", "add",     "concat",         "multiply"};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (strcmp(ops[i], op) == 0)
            return true;
    return false;
}

/* --- settings: back to the words of a model file ------------------------------------------------------------- */

typedef struct words {
    char text[SETTINGS_SIZE];
    size_t used;
} words;

static brasa_status add_words(json_scan *s, words *w, const char *text)
{
    const int length = snprintf(w->text + w->used, sizeof w->text - w->used, "%s", text);
    w->used += (size_t)length;
    return w->used < sizeof w->text ? BRASA_OK : json_refuse(s, s->at, "settings that are too long");
}

/* [7, 7] is 7x7, [3, 3, 3, 3] is 3,3,3,3. */
static brasa_status read_sizes(json_scan *s, words *w)
{
    uint64_t sizes[4];
    int count = 0;
    char text[32];
    brasa_status status = json_read_numbers(s, sizes, 4, &count);
    for (int i = 0; i < count && status == BRASA_OK; i++) {
        snprintf(text, sizeof text, "%s%llu", !i ? "" : count == 2 ? "x" : ",", (unsigned long long)sizes[i]);
        status = add_words(s, w, text);
    }
    return status;
}

static brasa_status read_setting(json_scan *s, char *key, void *user)
{
    words *w = user;
    char number[40], *text = number;
    double real;
    bool yes;
    brasa_status status = add_words(s, w, w->used ? " " : "");
    if (status == BRASA_OK)
        status = add_words(s, w, key);
    if (status == BRASA_OK)
        status = add_words(s, w, "=");
    if (status != BRASA_OK)
        return status;
    const char first = json_peek(s);
    if (first == '[')
        return read_sizes(s, w);
    if (first == '"') {
        status = json_read_text(s, &text);
    } else if (first == 't' || first == 'f') {
        status = json_read_bool(s, &yes);
        text = status == BRASA_OK && yes ? "yes" : "no";
    } else if ((status = json_read_real(s, &real)) == BRASA_OK) {
        const numeric_state locale = numeric_enter();
        snprintf(number, sizeof number, "%.9g", real);
        if (strtod(number, NULL) != real)
            snprintf(number, sizeof number, "%.17g", real);
        numeric_leave(locale);
    }
    return status == BRASA_OK ? add_words(s, w, text) : status;
}

/* --- reading ------------------------------------------------------------------------------------------------- */

typedef struct reader {
    netjson *n;
    netjson_node *node; /* the one in hand */
} reader;

static brasa_status read_input(json_scan *s, void *user)
{
    reader *r = user;
    char *name;
    brasa_status status = json_read_text(s, &name);
    if (status != BRASA_OK)
        return status;
    const char **grown = pool_grow(&r->n->pool, r->node->inputs, r->node->ninputs, &r->node->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(s->ctx, sizeof *grown);
    r->node->inputs = grown;
    grown[r->node->ninputs++] = name;
    return BRASA_OK;
}

static brasa_status read_node_member(json_scan *s, char *key, void *user)
{
    reader *r = user;
    if (strcmp(key, "name") == 0)
        return json_read_text(s, (char **)&r->node->name);
    if (strcmp(key, "op") == 0)
        return json_read_text(s, (char **)&r->node->op);
    if (strcmp(key, "output") == 0)
        return json_read_text(s, (char **)&r->node->output);
    if (strcmp(key, "inputs") == 0)
        return json_read_list(s, read_input, r);
    if (strcmp(key, "settings") != 0)
        return json_skip(s);
    words w = {.used = 0};
    brasa_status status = json_read_object(s, read_setting, &w);
    if (status == BRASA_OK && !(r->node->settings = pool_text(&r->n->pool, "%s", w.text)))
        status = fail_memory(s->ctx, w.used);
    return status;
}

static brasa_status read_node(json_scan *s, void *user)
{
    reader *r = user;
    netjson *n = r->n;
    const char *start = s->at;
    netjson_node *grown = pool_grow(&n->pool, n->nodes, n->count, &n->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(s->ctx, sizeof *grown);
    if (n->count == MOST_NODES)
        return json_refuse(s, start, "more layers than a network has");
    n->nodes = grown;
    r->node = &n->nodes[n->count++];
    *r->node = (netjson_node){.settings = ""};
    brasa_status status = json_read_object(s, read_node_member, r);
    if (status == BRASA_OK && (!r->node->name || !r->node->op || !r->node->output || !r->node->ninputs))
        status = json_refuse(s, start, "a node without name, op, inputs or output");
    if (status == BRASA_OK && !netjson_has_op(r->node->op))
        status = json_refuse(s, start, "a node whose op is not known");
    return status;
}

static brasa_status read_shape(json_scan *s, netjson *n)
{
    uint64_t sizes[3] = {0};
    int count = 0;
    brasa_status status = json_read_numbers(s, sizes, 3, &count);
    for (int i = 0; i < 3 && status == BRASA_OK; i++) {
        n->input[i] = (int)sizes[i];
        if (sizes[i] > 1 << 28 || (i < count && !sizes[i]))
            status = json_refuse(s, s->at, "an input of no size that there is");
    }
    return status == BRASA_OK && count == 2 ? json_refuse(s, s->at, "expected 1 or 3 sizes") : status;
}

static brasa_status read_member(json_scan *s, char *key, void *user)
{
    netjson *n = user;
    uint64_t number = 0;
    brasa_status status = BRASA_OK;
    if (strcmp(key, "name") == 0)
        return json_read_text(s, (char **)&n->name);
    if (strcmp(key, "dialect") == 0)
        return json_read_text(s, (char **)&n->dialect);
    if (strcmp(key, "input") == 0)
        return read_shape(s, n);
    if (strcmp(key, "nodes") == 0)
        return json_read_list(s, read_node, &(reader){.n = n});
    if (strcmp(key, "classes") != 0 && strcmp(key, "parameters") != 0)
        return json_skip(s);
    status = json_read_number(s, &number);
    if (strcmp(key, "parameters") == 0)
        n->parameters = (int64_t)number;
    else
        n->classes = number > 1 << 28 ? 0 : (int)number;
    return status;
}

brasa_status netjson_read(brasa_context *ctx, const char *path, netjson *out)
{
    *out = (netjson){.pool = {.ctx = ctx}, .path = path};
    char *text = NULL;
    size_t length = 0;
    brasa_status status = lab_read_file(&out->pool, path, &text, &length);
    json_scan s = {.ctx = ctx, .path = path, .text = text, .at = text, .end = text + length};
    if (status == BRASA_OK)
        status = json_read_object(&s, read_member, out);
    if (status == BRASA_OK && json_peek(&s))
        status = json_refuse(&s, s.at, "more than one network");
    if (status == BRASA_OK && (!out->name || !out->dialect || !out->count || !out->classes || !out->input[0]))
        status = fail(ctx, BRASA_BAD_FILE, "%s: name, dialect, classes, input or nodes are missing", path);
    return status;
}

void netjson_free(netjson *n)
{
    pool_free(&n->pool);
}

const netjson_node *netjson_find(const netjson *n, const char *name)
{
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->nodes[i].name, name) == 0)
            return &n->nodes[i];
    return NULL;
}

int netjson_layers(const netjson *n)
{
    int layers = 0;
    for (int i = 0; i < n->count; i++)
        layers += strcmp(n->nodes[i].op, "conv2d") == 0 || strcmp(n->nodes[i].op, "dense") == 0;
    return layers;
}

/* --- building ------------------------------------------------------------------------------------------------ */

static brasa_tensor find_value(const netjson *n, brasa_tensor image, const brasa_tensor *made, int before,
                               const char *name)
{
    if (strcmp(name, "image") == 0)
        return image;
    for (int i = before - 1; i >= 0; i--)
        if (strcmp(n->nodes[i].output, name) == 0)
            return made[i];
    return (brasa_tensor){image.graph, -1};
}

static brasa_status build_node(const netjson *n, brasa_graph *g, bool whole, brasa_tensor image, brasa_tensor *made,
                               int i)
{
    const netjson_node *x = &n->nodes[i];
    pool p = {.ctx = n->pool.ctx};
    brasa_tensor *in = pool_get(&p, (size_t)x->ninputs, sizeof *in);
    brasa_status status = in ? BRASA_OK : fail_memory(p.ctx, sizeof *in);
    for (int k = 0; k < x->ninputs && status == BRASA_OK; k++) {
        in[k] = find_value(n, image, made, i, x->inputs[k]);
        if (in[k].id < 0)
            status = fail(p.ctx, BRASA_BAD_FILE, "%s: node '%s': there is no '%s' before it", n->path, x->name,
                          x->inputs[k]);
    }
    if (status == BRASA_OK && !whole && strcmp(x->op, "dropout") == 0)
        made[i] = in[0];
    else if (status == BRASA_OK)
        made[i] = brasa_apply_n(g, in, x->ninputs, "%s %s name=%s", x->op, x->settings, x->name);
    pool_free(&p);
    return status == BRASA_OK ? brasa_graph_status(g) : status;
}

/* As `classify` ends a network. */
static void build_end(const netjson *n, brasa_graph *g, brasa_tensor logits)
{
    brasa_tensor both[] = {logits, brasa_labels(g, "label", n->classes)};
    brasa_output(logits, "logits");
    brasa_set_loss(brasa_apply_n(g, both, 2, "softmax_cross_entropy name=loss"));
    brasa_output(brasa_apply_n(g, both, 2, "accuracy name=accuracy"), "accuracy");
}

brasa_status netjson_build(const netjson *n, brasa_graph *g, bool whole, brasa_tensor *values)
{
    pool p = {.ctx = n->pool.ctx};
    brasa_tensor *made = values ? values : pool_get(&p, (size_t)n->count, sizeof *made);
    brasa_status status = made ? brasa_graph_set_dialect(g, n->dialect) : fail_memory(p.ctx, sizeof *made);
    if (status == BRASA_OK) {
        const brasa_tensor image = n->input[1] ? brasa_input(g, "image", n->input[0], n->input[1], n->input[2])
                                               : brasa_input_vector(g, "image", n->input[0]);
        for (int i = 0; i < n->count && status == BRASA_OK; i++)
            status = build_node(n, g, whole, image, made, i);
        if (status == BRASA_OK)
            build_end(n, g, made[n->count - 1]);
    }
    if (status == BRASA_OK)
        status = brasa_graph_status(g);
    pool_free(&p);
    return status;
}
