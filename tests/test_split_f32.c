/* test_split_f32.c - split weights (core/split_f32.h), and what a session makes of state that a device stores
 * otherwise.
 *
 * The device is this process: its kernels are the CPU's references, but that dense layers compute with weights in 16
 * bits. They read them so, which keeps them split; or they read floats, and round them. Both must learn the same,
 * bit by bit. What a GPU's kernels do with them is test_device.c's business.
 */
#define _GNU_SOURCE /* mkdtemp */
#include "test.h"
#include "files.h"
#include "task.h"
#include "session/session.h"

#include "device/device.h"
#include "ops/dense/dense.h"

/* --- single numbers -------------------------------------------------------------------------------------------- */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Every upper half, and the lower ones at the edges. */
TEST(every_bit)
{
    static const uint16_t lower[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
    for (uint32_t u = 0; u < 0x10000 && !tests.failed; u++)
        for (int l = 0; l < 6 && !tests.failed; l++) {
            const uint32_t bits = u << 16 | lower[l];
            uint16_t both[2 * 32];
            split_store(both, 32, 5, float_of(bits));
            const float back = split_load(both, 32, 5), near = float_of((uint32_t)both[5] << 16);
            if (isnan(float_of(bits))) {
                CHECK(isnan(back) && isnan(near));
                continue;
            }
            CHECK_INT(bits_of(back), bits);
            if (isfinite(float_of(bits)) && isfinite(near)) { /* no other number of 16 bits is nearer */
                const double off = fabs((double)near - (double)float_of(bits));
                const double above = float_of((u + 1) << 16), below = float_of(u << 16);
                CHECK(off <= fabs(below - (double)float_of(bits)));
                CHECK(!isfinite(above) || off <= fabs(above - (double)float_of(bits)));
            }
        }
}

TEST(bytes)
{
    const format split = format_plain(SPLIT_F32), view = format_plain(storage_view(SPLIT_F32));
    const shape s = shape_2(3, 11);
    CHECK_INT(view.storage, BF16);
    CHECK_INT(format_bytes(&split, &s), 2 * 2 * 64);
    CHECK_INT(format_bytes(&view, &s), 2 * 33);
}

/* What a type holds comes back, and is the nearest of its numbers to what lies between. */
TEST(storage)
{
    static const dtype types[] = {BF16, F16};
    for (int t = 0; t < 2; t++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t x[4] = {(uint16_t)bits}, next[4] = {(uint16_t)(bits + 1)}, back[4] = {0}; /* room for any type */
            const double here = storage_load(types[t], x, 0, 0), above = storage_load(types[t], next, 0, 0);
            storage_store(types[t], back, 0, 0, here);
            if (isnan(here) ? !isnan(storage_load(types[t], back, 0, 0)) : back[0] != x[0])
                test_fail(__FILE__, __LINE__, "%s %04x comes back as %04x", dtype_name(types[t]), x[0], back[0]);
            if (!isfinite(here) || !isfinite(above) || (next[0] & 0x7FFF) == 0)
                continue;
            storage_store(types[t], back, 0, 0, (here + above) / 2); /* to even where two are as near */
            CHECK_INT(back[0], bits & 1 ? next[0] : x[0]);
        }
    uint8_t pixel[8];
    static const double pixels[][2] = {{-3, 0}, {0.4, 0}, {0.5, 1}, {254.7, 255}, {1e9, 255}};
    for (size_t i = 0; i < sizeof pixels / sizeof pixels[0]; i++) {
        storage_store(U8, pixel, 0, 0, pixels[i][0]);
        CHECK_INT(pixel[0], pixels[i][1]);
    }
    const float large[] = {65519, 65520, -1e9f}, wanted[] = {65504, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++)
        CHECK(f16_load(f16_store(large[i])) == wanted[i]);
}

/* --- a device that is none ------------------------------------------------------------------------------------- */

enum { MOST_KERNELS = 256 };

typedef struct near_device {
    device device;
    const kernel *lists[2];
    kernel kernels[MOST_KERNELS];
    int count;
} near_device;

static void *near_get(device *d, size_t bytes)
{
    (void)d;
    return aligned_alloc(256, (bytes + 255) / 256 * 256);
}

static void near_put(device *d, void *block)
{
    (void)d;
    free(block);
}

static brasa_status near_copy(device *d, void *to, const void *from, size_t bytes)
{
    (void)d;
    memcpy(to, from, bytes);
    return BRASA_OK;
}

static brasa_status near_clear(device *d, void *to, size_t bytes)
{
    (void)d;
    memset(to, 0, bytes);
    return BRASA_OK;
}

static brasa_status near_run(device *d, step *steps, int count, void **record)
{
    brasa_status status = BRASA_OK;
    (void)d;
    (void)record;
    for (int i = 0; i < count && status == BRASA_OK; i++)
        status = steps[i].kernel->run(&steps[i]);
    return status;
}

/* The CPU's last kernel, the reference. */
static const kernel *reference(const op_def *op)
{
    const kernel *last = NULL;
    for (const kernel *k = NULL; (k = kernel_next(NULL, op, F32, k)) != NULL;)
        last = k;
    return last;
}

/* Where the weights stand among the inputs of a dense layer, or of its gradient. */
static int weights_of(const op_def *op)
{
    return op == &dense_op ? 1 : 0;
}

static void dense_formats(const graph *g, const node *n, format *in, format *out)
{
    (void)g;
    in[weights_of(n->op)].storage = BF16;
    out[0].storage = F32;
}

/* To the upper half, as split weights are, or as a device rounds. */
static void round_all(float *x, int64_t count, bool split)
{
    for (int64_t i = 0; i < count; i++)
        x[i] =
            split ? float_of((uint32_t)split_upper(split_whole(bits_of(x[i]))) << 16) : bf16_load(bf16_store(x[i]));
}

/* On weights that are floats, rounded here. */
static brasa_status run_rounded(const step *s)
{
    arg args[4];
    step rounded = *s;
    rounded.in = args;
    memcpy(args, s->in, (size_t)s->nin * sizeof *args);
    arg *wei = &args[weights_of(s->node->op)];
    const size_t bytes = (size_t)wei->count * sizeof(float);
    wei->data = memcpy(malloc(bytes), wei->data, bytes);
    round_all(wei->data, wei->count, true);
    const brasa_status status = reference(s->node->op)->run(&rounded);
    free(wei->data);
    return status;
}

static bool rounds_slots(const op_def *op)
{
    return op == sgd_optimizer.op;
}

/* As optimizer.cuh's. */
static void update_formats(const graph *g, const node *n, format *in, format *out)
{
    in[0].storage = out[0].storage = g->values[n->in[0]].format.storage;
    for (int k = 1; k < n->nout; k++)
        in[UPDATE_SLOTS + k - 1].storage = out[k].storage = rounds_slots(n->op) ? precision_slot(in[0].storage) : F32;
}

/* Slots that are floats, rounded here as others are when they are stored. */
static brasa_status update_rounded(const step *s)
{
    const brasa_status status = reference(s->node->op)->run(s);
    for (int k = 1; k < s->nout && s->out[0].shape.rank > 1 && rounds_slots(s->node->op); k++)
        round_all(s->out[k].data, s->out[k].count, false);
    return status;
}

static void add_kernel(near_device *d, kernel k)
{
    if (CHECK(d->count + 1 < MOST_KERNELS))
        d->kernels[d->count++] = k;
}

/* A context that works on the device; split: weights are kept so. */
static brasa_context *device_new(near_device *d, bool split)
{
    brasa_context *ctx = NULL;
    *d = (near_device){.device = {.name = "this process",
                                  .kernels = d->lists,
                                  .memory = UINT64_C(1) << 40,
                                  .get = near_get,
                                  .put = near_put,
                                  .self_tuning = true,
                                  .precisions = 1u << BRASA_F32 | 1u << BRASA_BF16,
                                  .copy_in = near_copy,
                                  .copy_out = near_copy,
                                  .copy = near_copy,
                                  .clear = near_clear,
                                  .run = near_run},
                       .lists = {d->kernels}};
    for (int i = 0; op_at(i); i++) {
        const kernel *from = reference(op_at(i));
        if (!from)
            continue;
        kernel k = *from;
        if (k.op == &dense_op || k.op == &dense_grad_data_op) {
            k.formats = split ? dense_formats : NULL;
            k.run = split ? k.run : run_rounded;
        }
        if (optimizer_is(k.op)) {
            k.any_layout = false;
            k.formats = update_formats;
            k.run = split ? k.run : update_rounded;
        }
        k.any_storage = k.formats || k.op == &reorder_op; /* all others take floats, and make them */
        add_kernel(d, k);
    }
    CHECK_STATUS(brasa_context_new(NULL, &ctx), BRASA_OK);
    ctx->device = &d->device;
    return ctx;
}

static void device_free(brasa_context *ctx)
{
    ctx->device = NULL;
    brasa_context_free(ctx);
}

/* --- sessions -------------------------------------------------------------------------------------------------- */

enum { CLASSES = 5, FEATURES = 13, BATCH = 6 };

typedef struct run {
    near_device device;
    brasa_context *ctx;
    brasa_graph *g;
    brasa_session *s;
    task t;
} run;

static void run_start(run *r, bool split, brasa_session_options o)
{
    r->ctx = device_new(&r->device, split);
    r->g = brasa_graph_new(r->ctx);
    r->t = task_new(CLASSES, FEATURES, BATCH, 0.3);
    brasa_tensor x = brasa_apply(brasa_input_vector(r->g, "x", FEATURES), "dense 11 name=first");
    x = brasa_apply(brasa_relu(x), "dense 17 name=second");
    brasa_apply(brasa_relu(x), "classify %d name=last", CLASSES);
    o.batch = BATCH;
    o.precision = BRASA_BF16;
    if (brasa_session_new(r->g, &o, &r->s) != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s", brasa_graph_error(r->g));
}

static void run_end(run *r)
{
    brasa_session_free(r->s);
    brasa_graph_free(r->g);
    device_free(r->ctx);
    task_free(&r->t);
}

static void run_steps(run *r, int first, int count, float *losses)
{
    for (int i = first; r->s && i < first + count; i++) {
        task_fill(&r->t, i * BATCH);
        CHECK_STATUS(brasa_train_step(r->s, r->t.images, r->t.labels, &losses[i]), BRASA_OK);
    }
}

/* All state of floats, by its bits. */
static void compare(run *a, run *b)
{
    for (int i = 0; a->s && b->s && i < a->s->nstates; i++) {
        const state *st = &a->s->states[i];
        float x[400], y[400];
        const int64_t count = shape_count(&st->shape);
        if (st->type != F32 || st->kind == VALUE_SUM || !CHECK(count <= 400))
            continue;
        CHECK_STATUS(brasa_param_get(a->s, st->name, x, count), BRASA_OK);
        CHECK_STATUS(brasa_param_get(b->s, st->name, y, count), BRASA_OK);
        if (memcmp(x, y, (size_t)count * sizeof *x) != 0)
            test_fail(__FILE__, __LINE__, "%s differs", st->name);
    }
}

static const state *state_of(const run *r, const char *name)
{
    const state *st = session_state(r->s, name);
    if (!st)
        test_fail(__FILE__, __LINE__, "there is no state '%s'", name);
    return st;
}

static int reorders(const run *r)
{
    int count = 0;
    for (int i = 0; i < r->s->current->graph.nnodes; i++)
        count += r->s->current->graph.nodes[i].op == &reorder_op;
    return count;
}

static const struct row {
    const char *optimizer;
    double clip;
    int parts;
    const char *freeze;
} rows[] = {
    {"sgd lr=0.05 weight_decay=0.01", 0, 0, NULL},
    {"sgd lr=0.05 momentum=0.9", 0, 0, NULL},
    {"sgd lr=0.05 momentum=0.9 nesterov=yes", 0.1, 0, NULL},
    {"rmsprop momentum=0.5", 0, 0, NULL},
    {"adadelta", 0, 0, NULL},
    {"adam", 0, 0, NULL},
    {"adamw", 1, 0, NULL},
    {"adam", 0, 3, NULL},
    {"sgd lr=0.05 momentum=0.9", 0, 0, "second.*"},
};
enum { ROWS = sizeof rows / sizeof rows[0], STEPS = 20 };

static brasa_session_options options_of(const struct row *row)
{
    return SIZED(brasa_session_options, .optimizer = row->optimizer, .clip_norm = row->clip,
                 .micro_batches = row->parts, .freeze = row->freeze);
}

TEST(learns_the_same)
{
    for (int i = 0; i < ROWS; i++) {
        CASE("%s, clip %g, %d parts, freeze %s", rows[i].optimizer, rows[i].clip, rows[i].parts,
             rows[i].freeze ? rows[i].freeze : "none");
        static run a, b;
        float x[STEPS] = {0}, y[STEPS] = {0};
        run_start(&a, true, options_of(&rows[i]));
        run_start(&b, false, options_of(&rows[i]));
        if (a.s && b.s) {
            CHECK_INT(state_of(&a, "first.weight")->format.storage, SPLIT_F32);
            CHECK_INT(state_of(&a, "second.weight")->format.storage, SPLIT_F32);
            CHECK_INT(state_of(&a, "first.bias")->format.storage, F32);
            CHECK_INT(state_of(&b, "first.weight")->format.storage, F32);
            if (strstr(rows[i].optimizer, "sgd") && strstr(rows[i].optimizer, "momentum")) {
                CHECK_INT(state_of(&a, "first.weight/momentum")->there, 2 * 11 * FEATURES);
                CHECK_INT(state_of(&a, "first.bias/momentum")->there, 4 * 11);
            }
            CHECK_INT(reorders(&a), 0);
            run_steps(&a, 0, STEPS, x);
            run_steps(&b, 0, STEPS, y);
            CHECK(x[STEPS - 1] < x[0]);
            CHECK(memcmp(x, y, sizeof x) == 0);
            compare(&a, &b);
        }
        run_end(&a);
        run_end(&b);
    }
}

/* A checkpoint in the middle, and on from it. */
TEST(goes_on)
{
    const brasa_load_options all = {.size = sizeof all, .what = BRASA_CHECKPOINT};
    for (int i = 0; i < ROWS; i++) {
        CASE("%s, clip %g", rows[i].optimizer, rows[i].clip);
        static run a, b;
        const char *path = in_folder("half_way.safetensors");
        float x[STEPS] = {0}, y[STEPS] = {0};
        run_start(&a, true, options_of(&rows[i]));
        run_start(&b, true, options_of(&rows[i]));
        run_steps(&a, 0, STEPS / 2, x);
        if (a.s && b.s) {
            CHECK_STATUS(brasa_session_save(a.s, path, BRASA_CHECKPOINT), BRASA_OK);
            CHECK_STATUS(brasa_session_load(b.s, path, &all, NULL), BRASA_OK);
        }
        run_steps(&a, STEPS / 2, STEPS / 2, x);
        run_steps(&b, STEPS / 2, STEPS / 2, y);
        CHECK(memcmp(x + STEPS / 2, y + STEPS / 2, sizeof x / 2) == 0);
        compare(&a, &b);
        run_end(&a);
        run_end(&b);
    }
}

TEST(numbers_of_all_kinds)
{
    static const uint32_t kinds[] = {0x7F800001, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 0x7F7FFFFF,
                                     0x80000000, 1,          0x3F808000, 0x3F818000, 0xBF80FFFF};
    const int count = 11 * FEATURES;
    static run r;
    float x[11 * FEATURES] = {0}, y[11 * FEATURES] = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        x[i] = float_of(kinds[i]);
    run_start(&r, true, (brasa_session_options){.size = sizeof(brasa_session_options)});
    if (r.s) {
        CHECK_STATUS(brasa_param_set(r.s, "first.weight", x, count), BRASA_OK);
        CHECK_STATUS(brasa_param_get(r.s, "first.weight", y, count), BRASA_OK);
    }
    for (int i = 0; i < count; i++)
        CHECK(isnan(x[i]) ? isnan(y[i]) : bits_of(x[i]) == bits_of(y[i]));
    run_end(&r);
}

/* More than is moved at a time, and no multiple of anything. */
TEST(large)
{
    enum { ROW = 1031, COUNT = 1021 * ROW };
    static near_device d;
    brasa_context *ctx = device_new(&d, true);
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_session *s = NULL;
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    brasa_apply(brasa_input_vector(g, "x", ROW), "classify 1021 name=wide");
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .precision = BRASA_BF16), &s), BRASA_OK);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i / 7 - 50000;
    if (s) {
        CHECK_STATUS(brasa_param_set(s, "wide.weight", x, COUNT), BRASA_OK);
        CHECK_STATUS(brasa_param_get(s, "wide.weight", y, COUNT), BRASA_OK);
        CHECK(memcmp(x, y, COUNT * sizeof *x) == 0);
    }
    brasa_session_free(s);
    brasa_graph_free(g);
    device_free(ctx);
    free(x);
    free(y);
}
