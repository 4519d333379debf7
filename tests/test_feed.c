/* test_feed.c - inputs lie as the first layer reads them; what is fed in the plain order, or by a loader that writes
 * them so, trains to the same bits. */
#include "test.h"
#include "task.h"
#include "data/loader.h"
#include "session/session.h"

enum { CLASSES = 10, SIDE = 8, BATCH = 6, STEPS = 4 };

static brasa_graph *network(brasa_context *ctx, int channels, int side)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_tensor x = brasa_input(g, "image", channels, side, side);
    x = brasa_maxpool(brasa_relu(brasa_apply(x, "conv 18 3x3 pad=1 name=a")), 2);
    brasa_apply(brasa_flatten(x), "classify %d name=b", CLASSES);
    return g;
}

/* All parameters, in a row. */
static float *read_params(brasa_graph *g, brasa_session *s)
{
    float *all = calloc((size_t)brasa_graph_param_total(g), sizeof *all);
    brasa_value_info p = {.size = sizeof p};
    for (int64_t i = 0, at = 0; all && brasa_graph_param_at(g, (int32_t)i, &p); i++) {
        int64_t count = 1;
        for (int d = 0; d < p.rank; d++)
            count *= p.shape[d];
        CHECK_STATUS(brasa_param_get(s, p.name, all + at, count), BRASA_OK);
        at += count;
    }
    return all;
}

static void check_same(brasa_graph *g, const float *a, const float *b)
{
    CHECK(a && b && memcmp(a, b, (size_t)brasa_graph_param_total(g) * sizeof *a) == 0);
}

/* The samples of a task as the session has its input, and how many bytes that are. */
static float *as_stored(const brasa_session *s, const task *t, const shape *of, size_t *bytes)
{
    const layout l = session_input_layout(s, "image");
    float *stored = calloc((size_t)layout_count(&l, of), sizeof *stored);
    int64_t index[MAX_RANK] = {0}, i = 0;
    do
        stored[layout_offset(&l, of, index)] = t->images[i++];
    while (index_next(of, index));
    *bytes = (size_t)layout_count(&l, of) * sizeof *stored;
    return stored;
}

/* Batches of two sizes, fed in one of both ways; returns the parameters, and the loss of the last step. */
static float *train(brasa_graph *g, int channels, int64_t parts, bool stored, float *loss)
{
    brasa_session *s = NULL;
    const brasa_session_options o = {
        .size = sizeof o, .batch = BATCH, .micro_batches = parts, .seed = 3, .optimizer = "sgd lr=0.1"};
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    for (int i = 0; s && i < STEPS; i++) {
        const int size = i % 2 ? BATCH - 1 : BATCH, pixels = channels * SIDE * SIDE;
        const shape of = shape_4(size, channels, SIDE, SIDE);
        OWNED(task) t = task_new(CLASSES, pixels, size, 0.5);
        size_t bytes;
        task_fill(&t, i * BATCH);
        float *also = as_stored(s, &t, &of, &bytes);
        CHECK_STATUS(brasa_use(s, i < STEPS - 1, size), BRASA_OK);
        if (stored)
            CHECK_STATUS(session_feed(s, "image", also, bytes), BRASA_OK);
        else
            CHECK_STATUS(brasa_feed(s, "image", t.images, (size_t)(size * pixels) * sizeof(float)), BRASA_OK);
        CHECK_STATUS(brasa_feed(s, "label", t.labels, (size_t)size * sizeof *t.labels), BRASA_OK);
        CHECK_STATUS(i < STEPS - 1 ? brasa_train(s) : brasa_evaluate(s), BRASA_OK);
        CHECK_STATUS(brasa_fetch(s, "loss", loss, sizeof *loss), BRASA_OK);
        free(also);
    }
    float *params = s ? read_params(g, s) : NULL;
    brasa_session_free(s);
    return params;
}

static int reorders_of_inputs(const graph *g)
{
    int count = 0;
    for (int i = 0; i < g->nnodes; i++)
        count += g->nodes[i].op == &reorder_op && g->values[g->nodes[i].in[0]].kind == VALUE_INPUT;
    return count;
}

/* Of many channels convolutions read blocks, which pad 20 of them. No program reorders its input. */
TEST(first_layers)
{
    static const int channels[] = {1, 3, 16, 20};
    OWNED(brasa_context) *ctx = context_of(2);
    const bool blocks = library_onednn() && ctx->isa >= ISA_AVX2;
    for (size_t c = 0; c < sizeof channels / sizeof channels[0]; c++) {
        CASE("%d channels", channels[c]);
        OWNED(brasa_graph) *g = network(ctx, channels[c], SIDE);
        brasa_session *s = NULL;
        CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .batch = BATCH), &s), BRASA_OK);
        REQUIRE(s);
        const layout l = session_input_layout(s, "image");
        CHECK_INT(layout_plain(&l), !blocks || channels[c] < 4);
        for (int train = 0; train < 2; train++) {
            CHECK_STATUS(brasa_use(s, train, BATCH + 1), BRASA_OK);
            CHECK_INT(reorders_of_inputs(&s->current->graph), 0);
        }
        CHECK_STATUS(session_feed(s, "image", "", 7), BRASA_BAD_SHAPE);
        brasa_session_free(s);
        float loss[4] = {0};
        for (int way = 0; way < 2; way++) {
            CASE("%d channels%s", channels[c], way ? ", in parts" : "");
            float *plain = train(g, channels[c], way ? 3 : 1, false, &loss[2 * way]);
            float *stored = train(g, channels[c], way ? 3 : 1, true, &loss[2 * way + 1]);
            check_same(g, plain, stored);
            CHECK_CLOSE(loss[2 * way], loss[2 * way + 1], 0);
            free(plain);
            free(stored);
        }
        CHECK_CLOSE(loss[0], loss[2], 1e-5);
    }
}

/* Three epochs of what a loader gives. `l` is what a first layer would want; it is put in the place of what the first
 * program settled on, which the others keep. */
static float *load_and_train(brasa_context *ctx, brasa_graph *g, const layout *l)
{
    static const int32_t list[] = {7, 3, 21, 0, 15, 9, 11, 4, 18, 2, 13, 6};
    transform t;
    dataset *d = NULL;
    feeder *f = NULL;
    loader *from = NULL;
    brasa_session *s = NULL;
    fields_set_defaults(transform_fields, &t);
    t.flip = FLIP_HORIZONTAL;
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .batch = 1, .optimizer = "adam"), &s), BRASA_OK);
    CHECK_STATUS(dataset_open(ctx, "synth:cifar10,n=24", &d), BRASA_OK);
    graph *first = &s->programs->graph;
    first->values[graph_find(first, "image")].format.layout = *l;
    const feeder_options o = {.set = d, .transform = &t, .layout = session_input_layout(s, "image")};
    CHECK_STATUS(feeder_new(ctx, &o, &f), BRASA_OK);
    CHECK_STATUS(loader_new(f, &(loader_options){.list = list, .count = 12, .batch = 5, .train = true}, &from),
                 BRASA_OK);
    for (int i = 0; from && i < 9; i++) {
        const batch *b = NULL;
        CHECK_STATUS(loader_next(from, &b), BRASA_OK);
        CHECK_STATUS(brasa_use(s, true, b->size), BRASA_OK);
        CHECK_INT(reorders_of_inputs(&s->current->graph),
                  !layout_plain(l)); /* this layer wants it plain, after all */
        CHECK_STATUS(session_feed(s, "image", b->input, b->input_bytes), BRASA_OK);
        CHECK_STATUS(brasa_feed(s, "label", b->labels, (size_t)b->size * sizeof *b->labels), BRASA_OK);
        CHECK_STATUS(brasa_train(s), BRASA_OK);
    }
    float *params = read_params(g, s);
    loader_free(from);
    feeder_free(f);
    dataset_close(d);
    brasa_session_free(s);
    return params;
}

TEST(loaders)
{
    static const layout layouts[] = {
        {.permuted = 1, .order = {0, 2, 3, 1}},
        {.nblocks = 1, .axis = {1}, .block = {8}},
    };
    OWNED(brasa_context) *ctx = context_of(2);
    OWNED(brasa_graph) *g = network(ctx, 3, 32);
    float *plain = load_and_train(ctx, g, &(layout){0});
    for (int i = 0; i < 2; i++) {
        CASE("%s", layout_print(&layouts[i], 4, "nchw").text);
        float *other = load_and_train(ctx, g, &layouts[i]);
        check_same(g, plain, other);
        free(other);
    }
    free(plain);
}
