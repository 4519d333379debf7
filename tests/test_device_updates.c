/* test_device_updates.c - optimizers on a device, on weights that are stored as SPLIT_F32: the same as on
 * floats, bit by bit, as long as their slots are. See device.h; without BRASA_TEST_DEVICE there is nothing to test.
 * BRASA_TEST_SHARE: see share.h.
 */
#define _GNU_SOURCE /* readlink, setenv */
#include "test.h"
#include "device.h"
#include "files.h"
#include "graph/exec.h"
#include "run.h"
#include "share.h"
#include "session/session.h"

/* --- one update ------------------------------------------------------------------------------------------------ */

/* Sizes that end within a quad, and within a piece of a launch. */
enum { HEIGHT = 67, WIDTH = 131, COUNT = HEIGHT * WIDTH };

/* A program of one node, the update of one parameter, and its state: floats here, on the device as it is kept. */
typedef struct updating {
    program p;
    int wei, grad, rate, steps, slot[MAX_SLOTS], slots;
    int64_t *offset, bytes;
    char *there;
} updating;

static void *attr_of(graph *g, const optimizer_def *o, const char *settings)
{
    void *attr = pool_get(&g->pool, 1, o->op->attr_size);
    fields_set_defaults(o->op->fields, attr);
    o->op->set_defaults(attr, g->dialect);
    CHECK_STATUS(fields_parse(g->ctx, o->op->name, o->op->fields, attr, settings), BRASA_OK);
    return attr;
}

static int add_state(updating *u, value_kind kind, const shape *s, const char *name)
{
    return graph_value(&u->p.graph, kind, F32, s, name);
}

static void updating_make(updating *u, const optimizer_def *o, const char *settings, bool split)
{
    const shape s = shape_2(HEIGHT, WIDTH), scalar = {0};
    const char *names[MAX_SLOTS];
    graph *g = &u->p.graph;
    *u = (updating){0};
    graph_init(g, device_context());
    g->real = F32;
    g->precision = BRASA_BF16;
    void *attr = attr_of(g, o, settings);
    u->wei = add_state(u, VALUE_PARAM, &s, "wei");
    u->grad = add_state(u, VALUE_BUFFER, &s, "grad");
    u->rate = add_state(u, VALUE_BUFFER, &scalar, "rate");
    u->steps = graph_counter(g);
    u->slots = o->slots(attr, names);
    int in[UPDATE_SLOTS + MAX_SLOTS] = {u->wei, u->grad, u->rate, u->steps}, out[1 + MAX_SLOTS] = {u->wei};
    for (int k = 0; k < u->slots; k++)
        in[UPDATE_SLOTS + k] = out[1 + k] = u->slot[k] = add_state(u, VALUE_SLOT, &s, names[k]);
    g->values[u->wei].format.storage = split ? SPLIT_F32 : F32;
    g->values[u->wei].settled = true;
    emit_into(g, o->op, "update", attr, UPDATE_SLOTS + u->slots, in, 1 + u->slots, out);
    CHECK_STATUS(pass_select(g, NULL), BRASA_OK);
    CHECK_STATUS(pass_plan(g, true, &u->p.plan), BRASA_OK);
    CHECK_STATUS(program_prepare(&u->p), BRASA_OK);
    u->offset = calloc((size_t)g->nvalues + 1, sizeof *u->offset);
    for (int v = 0; v < g->nvalues; v++) {
        g->values[v].state = v;
        u->offset[v] = u->bytes;
        u->bytes += (g->values[v].bytes + 255) / 256 * 256;
    }
    CHECK((u->there = tensors_get(g->ctx, (size_t)u->bytes)) != NULL);
    CHECK_STATUS(tensors_clear(g->ctx, u->there, (size_t)u->bytes), BRASA_OK);
    CHECK_STATUS(program_link(&u->p, u->there, u->offset, u->there), BRASA_OK);
}

static void updating_free(updating *u)
{
    program_forget(&u->p);
    tensors_put(u->p.graph.ctx, u->there);
    graph_clear(&u->p.graph);
    free(u->offset);
}

static void put(const updating *u, int v, const float *from)
{
    const value *x = &u->p.graph.values[v];
    const int64_t count = shape_count(&x->shape);
    uint16_t *both = calloc(1, (size_t)x->bytes);
    for (int64_t i = 0; x->format.storage == SPLIT_F32 && i < count; i++)
        split_store(both, split_plane(count), i, from[i]);
    CHECK_STATUS(device_copy_in(u->p.graph.ctx, u->there + u->offset[v],
                                x->format.storage == SPLIT_F32 ? (const void *)both : (const void *)from,
                                (size_t)x->bytes),
                 BRASA_OK);
    free(both);
}

static void take(const updating *u, int v, float *to)
{
    const value *x = &u->p.graph.values[v];
    const int64_t count = shape_count(&x->shape);
    uint16_t *both = calloc(1, (size_t)x->bytes);
    CHECK_STATUS(device_copy_out(u->p.graph.ctx, both, u->there + u->offset[v], (size_t)x->bytes), BRASA_OK);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)both[i] << 16;
        if (x->format.storage == SPLIT_F32)
            to[i] = split_load(both, split_plane(count), i);
        else if (x->format.storage == BF16)
            memcpy(&to[i], &bits, sizeof bits);
        else
            memcpy(&to[i], (const float *)(const void *)both + i, sizeof *to);
    }
    free(both);
}

static const struct row {
    const char *name, *settings;
} rows[] = {
    {"sgd", "lr=0.01 weight_decay=0.1"},
    {"sgd", "lr=0.01 momentum=0.9"},
    {"sgd", "lr=0.01 momentum=0.9 nesterov=yes weight_decay=0.1"},
    {"rmsprop", "lr=0.01"},
    {"rmsprop", "lr=0.01 momentum=0.5"},
    {"adadelta", "lr=0.5"},
    {"adam", "lr=0.01 weight_decay=0.1"},
    {"adamw", "lr=0.01"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const optimizer_def *optimizer_named(const char *name)
{
    int i = 0;
    while (strcmp(optimizer_at(i)->op->name, name) != 0)
        i++;
    return optimizer_at(i);
}

/* Whether it keeps its slots in 16 bits, of split weights. */
static bool rounds(const struct row *row)
{
    return strcmp(row->name, "sgd") == 0;
}

static void compare_slots(const struct row *row, const updating *floats, const updating *split, int turn)
{
    static float x[COUNT], y[COUNT];
    for (int k = 0; k < floats->slots; k++) {
        take(floats, floats->slot[k], x);
        take(split, split->slot[k], y);
        for (int i = 0; i < COUNT - 1; i++) {
            uint32_t bits;
            memcpy(&bits, &x[i], sizeof bits);
            if (rounds(row) && turn == 0) { /* to nearest, or even */
                bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000;
                memcpy(&x[i], &bits, sizeof bits);
            }
            const bool near = rounds(row) && turn > 0 && fabsf(x[i] - y[i]) <= 0.02f * fabsf(x[i]) + 1e-3f;
            if (!near && memcmp(&x[i], &y[i], sizeof *x) != 0) {
                test_fail(__FILE__, __LINE__, "after update %d slot %d of %d is %g, and %g beside split weights",
                          turn + 1, k, i, (double)x[i], (double)y[i]);
                break;
            }
        }
    }
}

static bool same_bits(const float *x, const float *y, int count)
{
    return memcmp(x, y, (size_t)count * sizeof *x) == 0;
}

/* Three updates, the last one of which is replayed. One weight is NaN, others are as large and as small as can be. */
static void compare_updates(const struct row *row)
{
    static const uint32_t kinds[] = {0x7F7FFFFF, 0xFF7F8000, 0x7F7F8000, 1, 0x80000001, 0x3F808000, 0x3F818000};
    static float wei[COUNT], grad[COUNT], x[COUNT], y[COUNT];
    const random_stream r = {.seed = 3, .purpose = RANDOM_TEST};
    const float rate = 0.01f;
    updating u[2];
    for (int i = 0; i < COUNT; i++) {
        wei[i] = (float)random_normal(&r, (uint64_t)i);
        grad[i] = (float)random_normal(&r, (uint64_t)(COUNT + i));
    }
    memcpy(wei, kinds, sizeof kinds);
    memset(grad, 0, sizeof kinds);
    wei[COUNT - 1] = NAN;
    for (int k = 0; k < 2; k++) {
        updating_make(&u[k], optimizer_named(row->name), row->settings, k == 1);
        put(&u[k], u[k].wei, wei);
        put(&u[k], u[k].grad, grad);
        put(&u[k], u[k].rate, &rate);
    }
    for (int turn = 0; turn < 3; turn++) {
        for (int k = 0; k < 2; k++)
            CHECK_STATUS(program_run(&u[k].p), BRASA_OK);
        take(&u[0], u[0].wei, x);
        take(&u[1], u[1].wei, y);
        CHECK(isnan(x[COUNT - 1]) && isnan(y[COUNT - 1]));
        for (int i = 0; i < COUNT - 1; i++) {
            const bool near = rounds(row) && turn > 0 && fabsf(x[i] - y[i]) <= 1e-3f * (1 + fabsf(x[i]));
            if (!near && !same_bits(&x[i], &y[i], 1)) {
                test_fail(__FILE__, __LINE__, "after update %d weight %d is %.9g, and %.9g split", turn + 1, i,
                          (double)x[i], (double)y[i]);
                break;
            }
        }
        compare_slots(row, &u[0], &u[1], turn);
    }
    updating_free(&u[0]);
    updating_free(&u[1]);
}

TEST(split)
{
    DEVICE_ONLY();
    for (int i = 0; i < ROWS; i++) {
        if (!in_share(i))
            continue;
        CASE("%s %s", rows[i].name, rows[i].settings);
        compare_updates(&rows[i]);
    }
}

/* --- sessions -------------------------------------------------------------------------------------------------- */

enum { BATCH = 6, CLASSES = 5, SIDE = 8, PIXELS = 3 * SIDE * SIDE };

/* Convolutions, batch norm, dense layers of a size that is a multiple of 8, and of one that is none. */
static run run_start(brasa_context *ctx, brasa_session_options o)
{
    run r = {.g = brasa_graph_new(ctx), .t = task_new(CLASSES, PIXELS, BATCH, 0.3)};
    brasa_tensor x = brasa_apply(brasa_input(r.g, "image", 3, SIDE, SIDE), "conv 16 3x3 pad=1 name=first");
    x = brasa_relu(brasa_batchnorm(brasa_apply(x, "conv 16 3x3 pad=1 bias=no name=second")));
    x = brasa_apply(brasa_flatten(brasa_maxpool(x, 2)), "dense 48 name=third");
    x = brasa_apply(brasa_relu(x), "dense 21 name=fourth");
    brasa_apply(brasa_relu(x), "classify %d name=fc", CLASSES);
    o.batch = BATCH;
    o.seed = 3;
    run_session(&r, &o);
    return r;
}

static void run_steps(run *r, int first, int count, float *losses)
{
    for (int i = first; r->s && i < first + count; i++) {
        task_fill(&r->t, i * r->t.batch);
        if (brasa_train_step(r->s, r->t.images, r->t.labels, &losses[i]) != BRASA_OK)
            test_fail(__FILE__, __LINE__, "%s", brasa_session_error(r->s));
    }
}

/* All state of floats has the same bits. */
static void compare_bits(run *a, run *b)
{
    for (int i = 0; i < a->s->nstates; i++) {
        const state *st = &a->s->states[i];
        const int64_t count = shape_count(&st->shape);
        if (st->type != F32 || st->kind == VALUE_SUM)
            continue;
        float *x = calloc((size_t)count + 1, sizeof *x), *y = calloc((size_t)count + 1, sizeof *y);
        CHECK_STATUS(brasa_param_get(a->s, st->name, x, count), BRASA_OK);
        CHECK_STATUS(brasa_param_get(b->s, st->name, y, count), BRASA_OK);
        if (!same_bits(x, y, (int)count))
            test_fail(__FILE__, __LINE__, "%s differs", st->name);
        free(x);
        free(y);
    }
}

/* Reorders of weights in the program of a step. */
static int copies_of_weights(const run *r)
{
    const graph *g = &r->s->current->graph;
    int count = 0;
    for (int i = 0; i < g->nnodes; i++)
        count += g->nodes[i].op == &reorder_op && g->values[g->nodes[i].in[0]].kind == VALUE_PARAM &&
                 g->values[g->nodes[i].in[0]].shape.rank > 1;
    return count;
}

/* From one session to another by a file. */
static void hand_over(run *from, run *to)
{
    const brasa_load_options all = {.size = sizeof all, .what = BRASA_CHECKPOINT};
    const char *path = in_folder("handed_over.safetensors");
    CHECK_STATUS(brasa_session_save(from->s, path, BRASA_CHECKPOINT), BRASA_OK);
    CHECK_STATUS(brasa_session_load(to->s, path, &all, NULL), BRASA_OK);
}

/* Weights are copied by no node, and learn; a checkpoint goes on to the bit, also after a way over the CPU. */
TEST(sessions)
{
    enum { STEPS = 20 };
    DEVICE_ONLY();
    OWNED(brasa_context) *cpu = NULL;
    CHECK_STATUS(brasa_context_new(NULL, &cpu), BRASA_OK);
    for (int i = 0; cpu && i < ROWS; i++) {
        if (!in_share(i))
            continue;
        char optimizer[100];
        float x[STEPS] = {0}, y[STEPS] = {0};
        snprintf(optimizer, sizeof optimizer, "%s %s", rows[i].name, rows[i].settings);
        CASE("%s", optimizer);
        brasa_session_options o = {.size = sizeof o, .optimizer = optimizer};
        run between = run_start(cpu, o);
        o.precision = BRASA_BF16;
        run a = run_start(device_context(), o), b = run_start(device_context(), o);
        if (a.s && b.s && between.s) {
            CHECK_INT(copies_of_weights(&a), 0);
            run_steps(&a, 0, STEPS / 2, x);
            hand_over(&a, &between);
            compare_bits(&a, &between);
            hand_over(&between, &b);
            compare_bits(&a, &b);
            run_steps(&a, STEPS / 2, STEPS / 2, x);
            run_steps(&b, STEPS / 2, STEPS / 2, y);
            CHECK(same_bits(x + STEPS / 2, y + STEPS / 2, STEPS / 2));
            CHECK(x[STEPS - 1] < x[0]);
            compare_bits(&a, &b);
        }
        run_end(&a);
        run_end(&b);
        run_end(&between);
    }
}

/* --- dense layers whose gradient is not stored ----------------------------------------------------------------- */

/* A layer of so many inputs and outputs; what comes before it wants the gradient of its data. */
static run dense_start(int inputs, int outputs, int batch, brasa_session_options o)
{
    run r = {.g = brasa_graph_new(device_context()), .t = task_new(CLASSES, 24, batch, 0.3)};
    brasa_tensor x = brasa_apply(brasa_input_vector(r.g, "x", 24), "dense %d name=before", inputs);
    x = brasa_apply(brasa_relu(x), "dense %d name=large", outputs);
    brasa_apply(brasa_relu(x), "classify %d name=fc", CLASSES);
    o.batch = batch;
    o.seed = 3;
    run_session(&r, &o);
    return r;
}

static const node *node_of(const run *r, const char *op, const char *layer)
{
    const graph *g = &r->s->current->graph;
    for (int i = 0; i < g->nnodes; i++)
        if (strcmp(g->nodes[i].op->name, op) == 0 && strcmp(g->nodes[i].name, layer) == 0)
            return &g->nodes[i];
    return NULL;
}

static const char *kernel_of(const run *r, const char *op, const char *layer)
{
    const node *n = node_of(r, op, layer);
    return n ? n->kernel->name : "none";
}

/* How far the steps of `got` lead from those of `want`, as part of what these changed since `before`. */
static double off(run *got, run *want, run *before, const char *name)
{
    const int64_t count = shape_count(&session_state(want->s, name)->shape);
    float *x[3];
    run *from[3] = {got, want, before};
    double change = 0, apart = 0;
    for (int k = 0; k < 3; k++) {
        x[k] = calloc((size_t)count, sizeof *x[k]);
        CHECK_STATUS(brasa_param_get(from[k]->s, name, x[k], count), BRASA_OK);
    }
    for (int64_t i = 0; i < count; i++) {
        const double moved = (double)x[1][i] - (double)x[2][i], wrong = (double)x[0][i] - (double)x[1][i];
        change += moved * moved;
        apart += wrong * wrong;
    }
    for (int k = 0; k < 3; k++)
        free(x[k]);
    return change > 0 ? sqrt(apart / change) : INFINITY;
}

/* After a step, in which only gradients differ, by how they are rounded: stored ones by 2^-9. After two more the
 * signs before some ReLUs do, too. */
static void compare_layer(run *got, run *want, run *before, bool floats)
{
    static const char *const names[] = {"large.weight", "large.bias", "before.weight", "large.weight/momentum"};
    float losses[3];
    for (int turn = 0; turn < (run_once() ? 1 : 2); turn++) {
        const double bound = turn ? (floats ? 0.05 : 0.3) : (floats ? 1e-3 : 2e-2);
        run_steps(got, turn, turn ? 2 : 1, losses);
        run_steps(want, turn, turn ? 2 : 1, losses);
        for (int k = 0; k < 4; k++) {
            if (!session_state(want->s, names[k]))
                continue;
            const double part = off(got, want, before, names[k]);
            if (!(part <= bound))
                test_fail(__FILE__, __LINE__, "%s is off by %.3g of its change, allowed %.3g", names[k], part, bound);
        }
    }
}

TEST(large_dense)
{
    static const struct layer {
        int inputs, outputs, batch;
        int32_t precision;
        const char *optimizer, *kernels, *kernel;
        bool data; /* the gradient of the data is made with it */
    } layers[] = {
        {1024, 1037, 1, BRASA_BF16, "sgd lr=0.1 momentum=0.9", NULL, "dense_update_small_cuda", true},
        {1024, 1037, 2, BRASA_BF16, "sgd lr=0.1", NULL, "dense_update_small_cuda", true},
        {1000, 1100, 3, BRASA_BF16, "sgd lr=0.1 momentum=0.9 nesterov=yes weight_decay=0.01", NULL,
         "dense_update_small_cuda", true},
        {9224, 130, 4, BRASA_BF16, "sgd lr=0.1 momentum=0.9", NULL, "dense_update_small_cuda", true},
        {264, 4100, 7, BRASA_BF16, "sgd lr=0.1 momentum=0.9", NULL, "dense_update_small_cuda", false},
        {1024, 1037, 1, BRASA_BF16, "adam lr=0.01", NULL, "none", false},
        {1028, 1037, 1, BRASA_BF16, "sgd lr=0.1 momentum=0.9", NULL, "none", false},
        {1024, 1037, 1, BRASA_F32, "sgd lr=0.1 momentum=0.9", NULL, "none", false},
        {1024, 1037, 16, BRASA_BF16, "sgd lr=0.1 momentum=0.9", NULL, "none", false}, /* a small one */
        {16384, 1100, 16, BRASA_BF16, "sgd lr=0.1 momentum=0.9", NULL, "dense_update_cublaslt", false},
        {16384, 1100, 16, BRASA_BF16, "sgd lr=0.1 momentum=0.9", "dense_update_cuda", "dense_update_cuda", false},
        {4104, 4100, 9, BRASA_BF16, "adam lr=0.01", NULL, "dense_update_cublaslt", false},
        {8200, 1100, 33, BRASA_F32, "sgd lr=0.1 momentum=0.9", NULL, "dense_update_cublaslt", false},
        {8200, 1100, 33, BRASA_F32, "rmsprop lr=0.01", "dense_update_cuda", "dense_update_cuda", false},
    };
    DEVICE_ONLY();
    for (int i = 0; i < (int)(sizeof layers / sizeof layers[0]); i++) {
        const struct layer *l = &layers[i];
        if (!in_share(i))
            continue;
        CASE("%d x %d, batch %d, %s, %s", l->inputs, l->outputs, l->batch, l->optimizer, l->kernel);
        brasa_session_options o = {
            .size = sizeof o, .optimizer = l->optimizer, .precision = l->precision, .kernels = l->kernels};
        run got = dense_start(l->inputs, l->outputs, l->batch, o);
        o.kernels = NULL;
        o.no_fusion = true;
        run want = dense_start(l->inputs, l->outputs, l->batch, o);
        run before = dense_start(l->inputs, l->outputs, l->batch, o);
        if (got.s && want.s && before.s) {
            const bool has_library = strstr(device_context()->device->about, "cuBLASLt");
            if (has_library || strcmp(l->kernel, "dense_update_cublaslt") != 0)
                CHECK_TEXT(kernel_of(&got, "dense_update", "large"), l->kernel);
            CHECK_TEXT(kernel_of(&want, "dense_update", "large"), "none");
            CHECK_INT(strcmp(kernel_of(&got, "dense_grad_data", "large"), "none") == 0, l->data);
            compare_layer(&got, &want, &before, l->precision == BRASA_F32);
        }
        run_end(&got);
        run_end(&want);
        run_end(&before);
    }
}

/* What the library chose for it by the clock is told, for explain --tuned. */
TEST(choice_of_large_dense)
{
    DEVICE_ONLY();
    if (!strstr(device_context()->device->about, "cuBLASLt"))
        SKIP("no cuBLASLt");
    const char *word = getenv("BRASA_TUNE");
    char *before = word ? strdup(word) : NULL;
    unsetenv("BRASA_TUNE");
    setenv("BRASA_CACHE", "off", 1);
    const brasa_tuning clock = {.size = sizeof clock, .measure = true};
    run r = dense_start(
        16384, 1100, 16,
        SIZED(brasa_session_options, .optimizer = "sgd lr=0.1", .precision = BRASA_BF16, .tuning = &clock));
    const node *n = r.s ? node_of(&r, "dense_update", "large") : NULL;
    device_choice c;
    if (CHECK(n && n->kernel->choice && n->kernel->choice(n->state, &c)))
        CHECK_HAS(c.problem, "product bf16 16384x");
    run_end(&r);
    unsetenv("BRASA_CACHE");
    if (before)
        setenv("BRASA_TUNE", before, 1);
    free(before);
}

/* Numbers come back as they were given, NaN as NaN. */
TEST(numbers_of_all_kinds)
{
    static const uint32_t kinds[] = {0x7F800001, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 0x7F7FFFFF,
                                     0x80000000, 1,          0x3F808000, 0x3F818000, 0xBF80FFFF};
    enum { NUMBERS = 16 * 3 * 9 };
    float x[NUMBERS] = {0}, y[NUMBERS];
    DEVICE_ONLY();
    run r = run_start(device_context(), SIZED(brasa_session_options, .precision = BRASA_BF16));
    memcpy(x, kinds, sizeof kinds);
    if (r.s) {
        CHECK_STATUS(brasa_param_set(r.s, "first.weight", x, NUMBERS), BRASA_OK);
        CHECK_STATUS(brasa_param_get(r.s, "first.weight", y, NUMBERS), BRASA_OK);
        for (int i = 0; i < NUMBERS; i++)
            CHECK(isnan(x[i]) ? isnan(y[i]) : memcmp(&x[i], &y[i], sizeof *x) == 0);
    }
    run_end(&r);
}
