/* test_introspect.c - what a program can learn of this build, a graph and a session, as other languages walk it. */
#include "test.h"

#include "session/session.h"

#include <stdlib.h>

/* Every entry and field is complete, and a layer's own texts read its fields back. */
TEST(lists)
{
    static const struct {
        brasa_list list;
        const char *first, *last;
        int least;
    } rows[] = {{BRASA_LAYERS, NULL, "classify", 25},
                {BRASA_OPTIMIZERS, "sgd", "adamw", 5},
                {BRASA_SCHEDULES, "constant", "cosine", 3},
                {BRASA_DIALECTS, "torch", "caffe", 4}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        brasa_entry e = {.size = sizeof e}, last = e;
        brasa_field f = {.size = sizeof f};
        int count = 0;
        for (; brasa_entry_at(rows[r].list, count, &e); count++) {
            CASE("%d %s", (int)rows[r].list, e.name);
            last = e;
            CHECK(e.help && *e.help);
            if (count == 0 && rows[r].first)
                CHECK_TEXT(e.name, rows[r].first);
            int fields = 0;
            for (; brasa_field_at(rows[r].list, e.name, NULL, fields, &f); fields++) {
                CHECK(f.name && f.help && *f.help && f.type);
                CHECK_INT(f.required, !f.value[0]);
                CHECK_INT(!strcmp(f.type, "choice"), f.choices != NULL);
            }
            CHECK(!brasa_field_at(rows[r].list, e.name, NULL, -1, &f));
            CHECK(rows[r].list == BRASA_LAYERS || fields > 0);
        }
        CASE("%d as a whole", (int)rows[r].list);
        CHECK_TEXT(last.name, rows[r].last);
        CHECK(count >= rows[r].least && !brasa_entry_at(rows[r].list, -1, &e));
    }
}

/* The default that a field tells is the one that is used. */
TEST(fields)
{
    static const struct {
        brasa_list list;
        const char *entry, *dialect, *field, *type, *value;
        double high;
        bool positional;
    } rows[] = {
        {BRASA_LAYERS, "conv2d", NULL, "channels", "int", "", 1 << 28, true},
        {BRASA_LAYERS, "conv", NULL, "stride", "size", "1", 0, false},
        {BRASA_LAYERS, "conv2d", NULL, "pad", "padding", "valid", 0, false},
        {BRASA_LAYERS, "batchnorm", NULL, "epsilon", "real", "1e-5", 0, false},
        {BRASA_LAYERS, "batchnorm", "tfkeras", "epsilon", "real", "0.001", 0, false},
        {BRASA_LAYERS, "classify", NULL, "classes", "int", "", 1 << 28, true},
        {BRASA_OPTIMIZERS, "sgd", "keras2", "lr", "real", "0.01", 1e6, true},
        {BRASA_OPTIMIZERS, "adamw", NULL, "weight_decay", "real", "0.01", 1e6, false},
        {BRASA_SCHEDULES, "step", NULL, "every", "int", "0", 2147483647, false},
        {BRASA_SCHEDULES, "cosine", NULL, "warmup", "int", "0", 2147483647, false},
        {BRASA_DIALECTS, "caffe", NULL, "same", "choice", "mirror", 0, false},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s %s %s", rows[r].entry, rows[r].dialect ? rows[r].dialect : "", rows[r].field);
        brasa_field f = {.size = sizeof f, .name = ""};
        for (int i = 0; brasa_field_at(rows[r].list, rows[r].entry, rows[r].dialect, i, &f); i++)
            if (strcmp(f.name, rows[r].field) == 0)
                break;
        CHECK_TEXT(f.name, rows[r].field);
        CHECK_TEXT(f.type, rows[r].type);
        CHECK_TEXT(f.value, rows[r].value);
        CHECK_INT(f.positional, rows[r].positional);
        if (rows[r].high > 0)
            CHECK(f.limited && f.high == rows[r].high);
    }
}

TEST(what_does_not_exist)
{
    brasa_entry e = {.size = sizeof e};
    brasa_field f = {.size = sizeof f};
    CHECK(!brasa_entry_at((brasa_list)4, 0, &e) && !brasa_entry_at((brasa_list)-1, 0, &e));
    CHECK(!brasa_entry_at(BRASA_LAYERS, 0, NULL) && !brasa_entry_at(BRASA_LAYERS, 0, &(brasa_entry){.size = 0}));
    CHECK(!brasa_field_at(BRASA_LAYERS, "nonsense", NULL, 0, &f) && !brasa_field_at(BRASA_LAYERS, NULL, NULL, 0, &f));
    CHECK(!brasa_field_at(BRASA_LAYERS, "conv2d", "nonsense", 0, &f));
    CHECK(!brasa_field_at(BRASA_OPTIMIZERS, "adamw", "keras2", 0, &f)); /* which has none */
    for (int i = 0; brasa_field_at(BRASA_SCHEDULES, "step", NULL, i, &f); i++)
        CHECK(strcmp(f.name, "kind") != 0 && strcmp(f.name, "floor") != 0);
}

TEST(devices)
{
    brasa_device_info d = {.size = sizeof d};
    for (int i = 0; brasa_device_at(i, &d); i++) {
        CASE("%s", d.name);
        brasa_context *ctx = NULL;
        REQUIRE(brasa_context_new(NULL, &ctx) == BRASA_OK);
        CHECK(d.about[0] && (i || strcmp(d.name, "cpu") == 0));
        CHECK_STATUS(brasa_context_use(ctx, d.name), BRASA_OK);
        brasa_context_free(ctx);
    }
    CHECK(brasa_device_at(0, &d) && !brasa_device_at(-1, &d) && !brasa_device_at(100, &d));
}

/* One line for each value: "image f32 4x1x28x28; label i32 4 of 10; ". */
static void list_values(const brasa_session *s, bool outputs, char *text, size_t size)
{
    brasa_value_info v = {.size = sizeof v};
    static const char *const types[] = {[BRASA_TYPE_F32] = "f32", [BRASA_TYPE_F64] = "f64", [BRASA_TYPE_I32] = "i32"};
    size_t used = 0;
    for (int i = 0; outputs ? brasa_session_output_at(s, i, &v) : brasa_session_input_at(s, i, &v); i++) {
        used += (size_t)snprintf(text + used, size - used, "%s %s", v.name, types[v.type]);
        for (int d = 0; d < v.rank; d++)
            used += (size_t)snprintf(text + used, size - used, "%c%lld", d ? 'x' : ' ', (long long)v.shape[d]);
        used += v.classes ? (size_t)snprintf(text + used, size - used, " of %d", (int)v.classes) : 0;
        used += (size_t)snprintf(text + used, size - used, "; ");
    }
}

TEST(sessions)
{
    static const struct {
        const char *name;
        brasa_session_options o;
        bool training;
        const char *inputs, *outputs;
    } rows[] = {
        {"training",
         {.batch = 4},
         true,
         "image f32 4x1x6x6; label i32 4 of 3; ",
         "logits f32 4x3; loss f32; probs f32 4x3; accuracy f32; "},
        {"evaluation",
         {.batch = 4},
         false,
         "image f32 7x1x6x6; label i32 7 of 3; ",
         "logits f32 7x3; loss f32; probs f32 7x3; accuracy f32; "},
        {"inference", {.inference = true}, false, "image f32 7x1x6x6; ", "logits f32 7x3; probs f32 7x3; "},
        {"double",
         {.batch = 4, .float64 = true},
         true,
         "image f64 4x1x6x6; label i32 4 of 3; ",
         "logits f64 4x3; loss f64; probs f64 4x3; accuracy f64; "},
        {"micro-batches",
         {.batch = 4, .micro_batches = 2},
         true,
         "image f32 4x1x6x6; label i32 4 of 3; ",
         "loss f32; accuracy f32; "},
        {"a plan",
         {.batch = 4, .plan_only = true},
         true,
         "image f32 4x1x6x6; label i32 4 of 3; ",
         "logits f32 4x3; loss f32; probs f32 4x3; accuracy f32; "},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s", rows[r].name);
        brasa_graph *g = brasa_graph_new(NULL);
        brasa_classify(brasa_flatten(brasa_relu(brasa_conv2d(brasa_input(g, "image", 1, 6, 6), 5, 3, 0))), 3);
        brasa_session *s = NULL;
        brasa_session_options o = rows[r].o;
        o.size = sizeof o;
        CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
        if (s && !o.plan_only)
            CHECK_STATUS(brasa_use(s, rows[r].training, rows[r].training ? 4 : 7), BRASA_OK);
        char text[400] = "";
        list_values(s, false, text, sizeof text);
        CHECK_TEXT(text, rows[r].inputs);
        list_values(s, true, text, sizeof text);
        CHECK_TEXT(text, rows[r].outputs);
        brasa_session_free(s);
        brasa_graph_free(g);
    }
}

TEST(nodes)
{
    brasa_graph *g = brasa_graph_new(NULL);
    const brasa_tensor x = brasa_input(g, "image", 2, 6, 6);
    brasa_apply(x, "conv2d 5 3 name=stem");
    brasa_classify(brasa_apply(x, "flatten"), 3);
    static const struct {
        const char *op, *name;
        int inputs, outputs, rank;
    } rows[] = {{"conv2d", "stem", 3, 1, 4},
                {"flatten", NULL, 1, 1, 2},
                {"dense", NULL, 3, 1, 2},
                {"softmax_cross_entropy", "loss", 2, 2, 0},
                {"accuracy", "accuracy", 2, 1, 0}};
    brasa_node_info n = {.size = sizeof n};
    int32_t i = 0;
    for (; brasa_graph_node_at(g, i, &n); i++) {
        REQUIRE(i < (int32_t)(sizeof rows / sizeof rows[0]));
        CASE("%s", rows[i].op);
        CHECK_TEXT(n.op, rows[i].op);
        CHECK_TEXT(n.name, rows[i].name ? rows[i].name : n.name);
        CHECK(n.input_count == rows[i].inputs && n.output_count == rows[i].outputs && n.rank == rows[i].rank);
        int64_t sizes[6];
        CHECK_INT(brasa_tensor_shape((brasa_tensor){g, n.outputs[0]}, sizes), n.rank);
        CHECK(memcmp(sizes, n.shape, (size_t)n.rank * sizeof sizes[0]) == 0);
        CHECK(i != 0 || n.inputs[0] == x.id);
        CHECK_INT(n.line, 0);
    }
    CHECK_INT(i, sizeof rows / sizeof rows[0]);
    CHECK(!brasa_graph_node_at(g, -1, &n) && !brasa_graph_node_at(NULL, 0, &n) && !brasa_graph_node_at(g, 0, NULL));
    brasa_graph_free(g);
}
