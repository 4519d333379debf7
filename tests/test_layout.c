/* test_layout.c - layouts, and the reorders that select places between them.
 *
 * Networks are also run with weights and inputs laid out otherwise than the kernels read them: select must place the
 * reorders, one for each weight however many nodes read it, and the result must not change by a bit.
 */
#include "test.h"

#include "core/random.h"
#include "graph/exec.h"
#include "session/session.h"

#include <stdlib.h>

static const layout nchw16c = {.nblocks = 1, .axis = {1}, .block = {16}};
static const layout nhwc = {.permuted = 1, .order = {0, 2, 3, 1}};
static const layout oihw16i16o = {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}};
static const layout oihw4i16o4i = {.nblocks = 3, .axis = {1, 0, 1}, .block = {4, 16, 4}};
static const layout plain = {0};

TEST(names)
{
    CHECK_TEXT(layout_print(&plain, 4, "nchw").text, "nchw");
    CHECK_TEXT(layout_print(&nchw16c, 4, "nchw").text, "nChw16c");
    CHECK_TEXT(layout_print(&nhwc, 4, "nchw").text, "nhwc");
    CHECK_TEXT(layout_print(&oihw16i16o, 4, "oihw").text, "OIhw16i16o");
    CHECK_TEXT(layout_print(&oihw4i16o4i, 4, "oihw").text, "OIhw4i16o4i");
    CHECK_TEXT(layout_print(&plain, 0, "nchw").text, "plain");
    const layout blocks = layout_in_blocks(1, 16);
    CHECK(layout_equal(&blocks, &nchw16c));
}

TEST(known_offsets)
{
    const shape s = shape_4(2, 20, 3, 5);
    const int64_t index[MAX_RANK] = {1, 17, 2, 4};
    CHECK_INT(layout_offset(&plain, &s, index), ((1 * 20 + 17) * 3 + 2) * 5 + 4);
    CHECK_INT(layout_offset(&nhwc, &s, index), ((1 * 3 + 2) * 5 + 4) * 20 + 17);
    CHECK_INT(layout_offset(&nchw16c, &s, index), (((1 * 2 + 1) * 3 + 2) * 5 + 4) * 16 + 1);
    CHECK_INT(layout_count(&nchw16c, &s), 2 * 32 * 3 * 5);
    const shape w = shape_4(20, 33, 1, 1);
    const int64_t at[MAX_RANK] = {18, 32, 0, 0};
    CHECK_INT(layout_offset(&oihw16i16o, &w, at), (1 * 3 + 2) * 256 + 0 * 16 + 2);
    CHECK_INT(layout_count(&oihw16i16o, &w), 32 * 48);
}

/* Every element has a place of its own, inside the count. */
TEST(one_place_each)
{
    const layout *all[] = {&plain, &nchw16c, &nhwc, &oihw16i16o, &oihw4i16o4i};
    const shape shapes[] = {shape_4(1, 1, 1, 1), shape_4(2, 3, 4, 5), shape_4(17, 33, 2, 3), shape_4(16, 16, 1, 1)};
    for (int l = 0; l < 5; l++) {
        for (int i = 0; i < 4; i++) {
            CASE("%s of %s", layout_print(all[l], 4, "nchw").text, shape_print(&shapes[i]).text);
            int64_t count = layout_count(all[l], &shapes[i]), index[MAX_RANK] = {0}, places = 0;
            char *taken = calloc((size_t)count, 1);
            do {
                int64_t at = layout_offset(all[l], &shapes[i], index);
                CHECK(at >= 0 && at < count && !taken[at]);
                if (at >= 0 && at < count)
                    taken[at] = 1;
                places++;
            } while (index_next(&shapes[i], index));
            CHECK_INT(places, shape_count(&shapes[i]));
            free(taken);
        }
    }
}

/* --- a program run with other layouts ------------------------------------------------------------------------ */

typedef struct run {
    program p;
    char *state, *transient;
    int64_t *offset;
} run;

/* A value's bytes, plain, into the layout it has. */
static void pack(const value *v, char *to, const float *from)
{
    int64_t index[MAX_RANK] = {0}, i = 0;
    memset(to, 0, (size_t)v->bytes);
    do
        ((float *)(void *)to)[layout_offset(&v->format.layout, &v->shape, index)] = from[i++];
    while (index_next(&v->shape, index));
}

static float *drawn(const shape *s, uint32_t stream)
{
    int64_t count = shape_count(s);
    float *data = malloc((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)random_uniform(&(random_stream){1, RANDOM_TEST, stream, 0}, (uint64_t)i, -0.5, 0.5);
    return data;
}

/* Compiles a model for evaluation with the given layouts of weights and pictures, runs it on drawn numbers. Returns
 * the number of reorders; logits has room for batch x classes. */
static int run_with(brasa_context *ctx, const char *model, int batch, const layout *weights, const layout *picture,
                    float *logits, size_t bytes)
{
    brasa_graph *source = brasa_graph_new(ctx);
    CHECK_STATUS(brasa_model_build(source, model, 0), BRASA_OK);
    run r = {0};
    graph *g = &r.p.graph;
    graph_init(g, ctx);
    CHECK_STATUS(pass_lower(g, source, batch, false), BRASA_OK);
    for (int v = 0; v < g->nvalues; v++) {
        value *x = &g->values[v];
        if (x->producer >= 0 || x->shape.rank != 4)
            continue;
        x->format.layout = x->kind == VALUE_INPUT ? *picture : *weights;
        x->settled = true;
    }
    CHECK_STATUS(pass_fuse(g), BRASA_OK);
    CHECK_STATUS(pass_prune(g), BRASA_OK);
    CHECK_STATUS(pass_select(g, "_ref"), BRASA_OK);
    CHECK_STATUS(pass_plan(g, true, &r.p.plan), BRASA_OK);
    int64_t size = 0;
    r.offset = calloc((size_t)g->nvalues, sizeof *r.offset);
    for (int v = 0; v < g->nvalues; v++) {
        value *x = &g->values[v];
        if (x->kind != VALUE_PARAM && x->kind != VALUE_BUFFER)
            continue;
        x->state = v;
        r.offset[v] = size;
        size += (x->bytes + 63) / 64 * 64;
    }
    CHECK_STATUS(program_prepare(&r.p), BRASA_OK);
    r.state = aligned_alloc(PLAN_ALIGN, (size_t)size + PLAN_ALIGN);
    r.transient = aligned_alloc(PLAN_ALIGN, (size_t)r.p.plan.bytes);
    memset(r.transient, 0xFF, (size_t)r.p.plan.bytes);
    for (int v = 0; v < g->nvalues; v++) {
        const value *x = &g->values[v];
        if (x->producer >= 0 || x->type != F32 || x->kind == VALUE_TEMP)
            continue;
        float *data = drawn(&x->shape, (uint32_t)v);
        bool variance = strstr(x->name, "running_var");
        for (int64_t i = 0; variance && i < shape_count(&x->shape); i++)
            data[i] += 1;
        pack(x, x->state >= 0 ? r.state + r.offset[v] : r.transient + x->offset, data);
        free(data);
    }
    int label = graph_find(g, "label");
    memset(r.transient + g->values[label].offset, 0, (size_t)g->values[label].bytes);
    CHECK_STATUS(program_link(&r.p, r.state, r.offset, r.transient), BRASA_OK);
    CHECK_STATUS(program_run(&r.p), BRASA_OK);
    memcpy(logits, r.transient + g->values[graph_find(g, "logits")].offset, bytes);
    int reorders = 0;
    for (int i = 0; i < g->nnodes; i++)
        reorders += g->nodes[i].op == &reorder_op;
    free(r.state);
    free(r.transient);
    free(r.offset);
    graph_clear(g);
    brasa_graph_free(source);
    return reorders;
}

TEST(reorders_change_nothing)
{
    const struct {
        const char *model;
        int convolutions;
    } rows[] = {{"mnist_cnn", 2}, {"tiny_resnet", 6}, {"tiny_inception", 7}};
    const layout *weights[] = {&oihw16i16o, &oihw4i16o4i, &nhwc}, *pictures[] = {&nchw16c, &nhwc};
    OWNED(brasa_context) *ctx = context_of(0);
    for (int m = 0; m < 3; m++) {
        float expected[30], got[30];
        CASE("%s plain", rows[m].model);
        CHECK_INT(run_with(ctx, rows[m].model, 3, &plain, &plain, expected, sizeof expected), 0);
        CHECK(expected[0] == expected[0] && expected[0] != expected[1]);
        for (int w = 0; w < 3; w++) {
            for (int p = 0; p < 2; p++) {
                CASE("%s %s %s", rows[m].model, layout_print(weights[w], 4, "oihw").text,
                     layout_print(pictures[p], 4, "nchw").text);
                /* One for each weight, one for the picture, though the first layers of branches share their input. */
                CHECK_INT(run_with(ctx, rows[m].model, 3, weights[w], pictures[p], got, sizeof got),
                          rows[m].convolutions + 1);
                CHECK(memcmp(expected, got, sizeof got) == 0);
            }
        }
    }
}
