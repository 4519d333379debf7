/* test_softgpu_cudnn.c - the library that stands in for cuDNN on the software GPU: all of its engines against sums in
 * doubles, what they differ in, and when the work is done. What it refuses is test_softgpu_cudnn_refuses.c's. */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_SOFT_CUDNN /* where CUDA's compiler is */

#include "softgpu_cudnn_rig.h"

/* --- a convolution with its memory ------------------------------------------------------------------------------ */

typedef struct setting {
    shape_of s;
    what of;
    lying x, w, y, bias;
    void *workspace;
    double *sums, *absolute; /* of what is made, in the order of its dimensions */
} setting;

enum { WORKSPACE = 16 << 20 };

static lying *result_of(setting *t)
{
    return t->of == FORWARD ? &t->y : t->of == DATA ? &t->x : &t->w;
}

/* Elements of what is made, in the order of its dimensions. */
static int64_t elements(const lying *t)
{
    return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

static int64_t place_of(const lying *t, int64_t i)
{
    const int64_t w = i % t->dim[3], h = i / t->dim[3] % t->dim[2], c = i / t->dim[3] / t->dim[2] % t->dim[1];
    return at_of(t, i / t->dim[3] / t->dim[2] / t->dim[1], c, h, w);
}

/* Adds one term of a sum. */
static void add_term(setting *t, int64_t n, int64_t c, int64_t h, int64_t w, int64_t k, int64_t depth, int64_t r,
                     int64_t s, int64_t oh, int64_t ow)
{
    const lying *x = &t->x, *v = &t->w, *y = &t->y, *to = result_of(t);
    const double in = t->of == DATA ? 0 : soft_read(x->at, x->type, at_of(x, n, c, h, w));
    const double tap = t->of == WEIGHTS ? 0 : soft_read(v->at, v->type, at_of(v, k, depth, r, s));
    const double out = t->of == FORWARD ? 0 : soft_read(y->at, y->type, at_of(y, n, k, oh, ow));
    const double term = t->of == FORWARD ? in * tap : t->of == DATA ? out * tap : in * out;
    const int64_t i = t->of == FORWARD ? ((n * to->dim[1] + k) * to->dim[2] + oh) * to->dim[3] + ow
                      : t->of == DATA  ? ((n * to->dim[1] + c) * to->dim[2] + h) * to->dim[3] + w
                                       : ((k * to->dim[1] + depth) * to->dim[2] + r) * to->dim[3] + s;
    t->sums[i] += term;
    t->absolute[i] += fabs(term);
}

/* All sums in doubles, straight from what a convolution is. */
static void expect(setting *t)
{
    const shape_of *s = &t->s;
    const int64_t depth = t->w.dim[1], width = s->k / s->groups;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t k = 0; k < s->k; k++)
            for (int64_t oh = 0; oh < t->y.dim[2]; oh++)
                for (int64_t ow = 0; ow < t->y.dim[3]; ow++)
                    for (int64_t r = 0; r < s->r; r++)
                        for (int64_t q = 0; q < s->s; q++) {
                            const int64_t h = oh * s->stride[0] - s->before[0] + r * s->dilation[0];
                            const int64_t w = ow * s->stride[1] - s->before[1] + q * s->dilation[1];
                            for (int64_t d = 0; d < depth && h >= 0 && h < s->h && w >= 0 && w < s->w; d++)
                                add_term(t, n, k / width * depth + d, h, w, k, d, r, q, oh, ow);
                        }
}

static void set_up(setting *t, const shape_of *s, what of)
{
    *t = (setting){.s = *s, .of = of};
    t->x = lie(s->n, s->c, s->h, s->w, s->layout, s->type);
    t->w = lie(s->k, s->c / s->groups, s->r, s->s, s->layout, s->type);
    t->y = lie(s->n, s->k, out_size(s, 0), out_size(s, 1), s->layout, s->type);
    t->bias = lie(1, s->k, 1, 1, NHWC, s->type);
    lying *const all[] = {&t->x, &t->w, &t->y, &t->bias};
    for (int i = 0; i < 4; i++) {
        all[i]->at = rig_memory((size_t)all[i]->count * 4);
        rig_fill(all[i]->at, all[i]->type, all[i]->count, (uint32_t)i + 1);
    }
    t->workspace = rig_memory(WORKSPACE);
    t->sums = calloc((size_t)elements(result_of(t)), sizeof *t->sums);
    t->absolute = calloc((size_t)elements(result_of(t)), sizeof *t->absolute);
    expect(t);
}

static void tear_down(setting *t)
{
    free(t->x.at);
    free(t->w.at);
    free(t->y.at);
    free(t->bias.at);
    free(t->workspace);
    free(t->sums);
    free(t->absolute);
    dnn_clear();
}

OWNER(setting, *x, tear_down(x))

/* The graph of the convolution, and of what is done to its sums: bias, or bias and relu. */
static descriptor describe(const setting *t, float alpha, float beta, bool bias, const clip *c)
{
    lying inside = t->y;
    inside.type = SOFT_F32;
    descriptor window = dnn_finish(make_window(&t->s, -1)), x = make_tensor(X, &t->x, false),
               w = make_tensor(WEI, &t->w, false), y = make_tensor(Y, &t->y, false), ops[3];
    if (!bias) {
        ops[0] = dnn_finish(make_convolution(t->of, window, x, w, y, alpha, beta));
        return dnn_finish(make_graph(ops, 1));
    }
    descriptor sums = make_tensor(SUMS, &inside, true), b = make_tensor(BIAS, &t->bias, false),
               all = c ? make_tensor(ALL, &inside, true) : y;
    ops[0] = dnn_finish(make_convolution(t->of, window, x, w, sums, alpha, beta));
    ops[1] = make_step(sums, b, all, NULL);
    if (c)
        ops[2] = make_step(all, NULL, y, c);
    return dnn_finish(make_graph(ops, c ? 3 : 2));
}

static descriptor pack_of(const setting *t, bool bias)
{
    const int64_t uids[] = {BIAS, X, Y, WEI};
    void *const data[] = {t->bias.at, t->x.at, t->y.at, t->w.at};
    return make_pack(bias ? 4 : 3, uids + !bias, data + !bias, t->workspace);
}

/* Starts a configuration's plan; false: there is none. */
static bool start(const setting *t, descriptor config, bool bias)
{
    descriptor plan = make_plan(config);
    if (dnn.BackendFinalize(plan) != CUDNN_STATUS_SUCCESS)
        return false;
    CHECK(workspace_of(plan) <= WORKSPACE);
    if (dnn.BackendExecute(dnn.handle, plan, pack_of(t, bias)) != CUDNN_STATUS_SUCCESS)
        test_fail(__FILE__, __LINE__, "%s", dnn_words());
    return true;
}

/* Bits of fraction that an engine's factors have, 0: all. */
static int fraction_of(const setting *t, int64_t index)
{
    return index == CORES && t->s.type == SOFT_F32 ? 10 : index == ROUNDED || index == TILES ? 3 : 0;
}

static double after(double sum, double bias, const clip *c)
{
    sum += bias;
    if (c && sum <= c->lower)
        return c->lower + c->slope * (sum - c->lower);
    return c && c->upper != 0 && sum > c->upper ? c->upper : sum;
}

static void check_result(setting *t, int64_t index, float alpha, float beta, const void *before, bool bias,
                         const clip *c)
{
    const lying *to = result_of(t);
    int wrong = 0;
    for (int64_t i = 0; i < elements(to); i++) {
        const double got = soft_read(to->at, to->type, place_of(to, i)),
                     was = soft_read(before, to->type, place_of(to, i)),
                     more = bias ? soft_read(t->bias.at, t->bias.type, i / to->dim[3] / to->dim[2] % to->dim[1]) : 0,
                     sum = after(alpha * t->sums[i] + beta * was, more, c);
        wrong += !(fabs(got - sum) <= rig_allowed(sum, fabs(alpha * t->absolute[i]) + fabs(beta) + fabs(more),
                                                  to->type, fraction_of(t, index)));
    }
    CHECK_INT(wrong, 0);
    for (int64_t i = 0; i < to->count && t->s.layout == WIDE; i++) /* what lies between is left alone */
        if (i % (to->dim[1] + 5) >= to->dim[1])
            wrong += soft_read(to->at, to->type, i) != soft_read(before, to->type, i);
    CHECK_INT(wrong, 0);
}

/* All configurations, of all lists: their work is done late, and twice if that is the same. */
static void check_all(setting *t, const char *name, float alpha, float beta, bool bias, const clip *c)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};
    lying *to = result_of(t);
    const size_t bytes = (size_t)to->count * soft_size(to->type);
    void *before = rig_memory(bytes);
    memcpy(before, to->at, bytes);
    for (int m = 0; m < 3; m++) {
        descriptor configs[MOST_LISTED];
        const int count = list_configs(describe(t, alpha, beta, bias, c), modes[m], configs);
        CHECK(count > 0);
        dnn_clear();
        for (int i = 0; i < count; i++) {
            list_configs(describe(t, alpha, beta, bias, c), modes[m], configs);
            const int64_t index = index_of(configs[i]);
            CASE("%s, list %d, engine %d", name, m, (int)index);
            memcpy(to->at, before, bytes);
            CHECK(start(t, configs[i], bias) == (index != UNPLANNED));
            CHECK(memcmp(to->at, before, bytes) == 0);
            dnn_clear();
            if (rig.tasks == 0)
                continue;
            rig_run(beta == 0 ? 2 : 1);
            check_result(t, index, alpha, beta, before, bias, c);
        }
    }
    free(before);
}

/* --- results --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    shape_of s;
    float alpha, beta;
} shapes[] = {
    {"1x1", {2, 17, 5, 6, 20, 1, 1, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, NHWC, SOFT_F32}, 1, 0},
    {"3x3", {1, 8, 7, 9, 12, 3, 3, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, NHWC, SOFT_F32}, 1, 0},
    {"3x3 bf16", {2, 64, 6, 6, 32, 3, 3, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, NHWC, SOFT_BF16}, 1, 0},
    {"3x3 nchw", {2, 5, 6, 7, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, NCHW, SOFT_F32}, 0.5f, 0},
    {"3x3 with more between", {1, 4, 6, 5, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, WIDE, SOFT_BF16}, 1, 0},
    {"first layer", {1, 3, 23, 21, 16, 7, 7, {2, 2}, {3, 3}, {3, 3}, {1, 1}, 1, NHWC, SOFT_BF16}, 1, 0},
    {"1x1 stride 2", {2, 16, 8, 7, 8, 1, 1, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 1, NHWC, SOFT_F32}, 1, 0},
    {"3x3 stride 2", {1, 1, 9, 10, 3, 3, 3, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, NHWC, SOFT_F32}, 1, 0.5f},
    {"uneven", {1, 6, 11, 9, 5, 4, 2, {3, 1}, {0, 1}, {2, 0}, {1, 1}, 1, NHWC, SOFT_F32}, 1, 0},
    {"dilated", {1, 4, 13, 12, 8, 3, 3, {1, 1}, {2, 3}, {2, 3}, {2, 3}, 1, NHWC, SOFT_F32}, 1, 0},
    {"dilated, stride 2", {1, 4, 13, 15, 8, 3, 3, {2, 4}, {1, 2}, {1, 2}, {2, 2}, 1, NHWC, SOFT_F32}, 1, 0},
    {"groups", {2, 12, 5, 5, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 4, NHWC, SOFT_F32}, 1, 0},
    {"depthwise", {1, 8, 6, 6, 8, 3, 3, {2, 1}, {1, 1}, {1, 1}, {1, 1}, 8, NHWC, SOFT_BF16}, 1, 0},
    {"many channels", {1, 300, 3, 3, 280, 1, 1, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, NHWC, SOFT_F32}, 1, 0},
};

TEST(results)
{
    static const char *const products[] = {"forward", "data", "weights"};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int of = FORWARD; of <= WEIGHTS; of++) {
            char name[100];
            OWNED(setting) t;
            snprintf(name, sizeof name, "%s, %s", shapes[i].name, products[of]);
            set_up(&t, &shapes[i].s, (what)of);
            check_all(&t, name, shapes[i].alpha, shapes[i].beta, false, NULL);
        }
}

/* What is done to the sums before they are stored. */
TEST(steps)
{
    static const struct {
        const char *name;
        bool relu;
        clip clip;
        soft_type type;
        int groups;
    } rows[] = {{"bias", false, {0}, SOFT_F32, 1},
                {"bias, bf16", false, {0}, SOFT_BF16, 1},
                {"relu", true, {true, 0, 0, 0}, SOFT_F32, 1},
                {"relu, bf16", true, {true, 0, 0, 0}, SOFT_BF16, 1},
                {"a clipped and leaking relu", true, {false, -0.5, 0.75, 0.25}, SOFT_F32, 1},
                {"bias in groups", false, {0}, SOFT_F32, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const shape_of s = {2, 8, 6, 5, 20, 3, 3, {1, 1}, {1, 1}, {1, 1}, {1, 1}, rows[i].groups, NHWC, rows[i].type};
        OWNED(setting) t;
        set_up(&t, &s, FORWARD);
        check_all(&t, rows[i].name, 1, 0, true, rows[i].relu ? &rows[i].clip : NULL);
    }
}

/* --- engines --------------------------------------------------------------------------------------------------- */

static const shape_of usual = {2, 64, 6, 6, 16, 3, 3, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, NHWC, SOFT_F32};

/* Runs an engine with its first knob set, unless that is -1. */
static void run_engine(const setting *t, descriptor graph, int64_t index, cudnnBackendKnobType_t type, int64_t value)
{
    descriptor engine = dnn_make(CUDNN_BACKEND_ENGINE_DESCRIPTOR),
               config = dnn_make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    DNN_PUT(engine, ENGINE_OPERATION_GRAPH, BACKEND_DESCRIPTOR, graph);
    DNN_PUT(engine, ENGINE_GLOBAL_INDEX, INT64, index);
    dnn_finish(engine);
    DNN_PUT(config, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, engine);
    if (value >= 0) {
        descriptor choice = dnn_make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        DNN_PUT(choice, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, type);
        DNN_PUT(choice, KNOB_CHOICE_KNOB_VALUE, INT64, value);
        dnn_finish(choice);
        DNN_PUT(config, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, choice);
    }
    CHECK(start(t, dnn_finish(config), false));
    rig_run(1);
}

/* The choices show in the bits, which are the same each time but for one engine. */
TEST(orders)
{
    static const struct {
        int64_t index, value;
        cudnnBackendKnobType_t type;
    } rows[] = {
        {PLAIN, -1, 0}, {PLAIN, 1, CUDNN_KNOB_TYPE_TILE_SIZE},   {CORES, -1, 0},    {CORES, 0, CUDNN_KNOB_TYPE_TILEK},
        {SPLIT, -1, 0}, {SPLIT, 5, CUDNN_KNOB_TYPE_SPLIT_K_BUF}, {COMPILED, -1, 0}, {ROUNDED, -1, 0},
        {VARIES, -1, 0}};
    enum { ROWS = sizeof rows / sizeof rows[0], COUNT = 2 * 6 * 6 * 16 };
    static float bits[ROWS][COUNT];
    OWNED(setting) t;
    set_up(&t, &usual, FORWARD);
    for (int i = 0; i < ROWS; i++) {
        CASE("engine %d, knob %d", (int)rows[i].index, (int)rows[i].value);
        descriptor graph = describe(&t, 1, 0, false, NULL);
        run_engine(&t, graph, rows[i].index, rows[i].type, rows[i].value);
        memcpy(bits[i], t.y.at, sizeof bits[i]);
        run_engine(&t, graph, rows[i].index, rows[i].type, rows[i].value);
        CHECK((memcmp(bits[i], t.y.at, sizeof bits[i]) == 0) == (rows[i].index != VARIES));
        for (int k = 0; k < i; k++)
            CHECK(memcmp(bits[i], bits[k], sizeof bits[i]) != 0);
        dnn_clear();
    }
}

/* What comes out of an activation is NaN, where that is asked for, but for the engine that does not care. */
TEST(nan)
{
    const clip clips[2] = {{.nan = false}, {.nan = true}};
    OWNED(setting) t;
    set_up(&t, &usual, FORWARD);
    ((float *)t.w.at)[0] = NAN;
    for (int kept = 0; kept < 2; kept++) {
        descriptor configs[MOST_LISTED];
        const int count = list_configs(describe(&t, 1, 0, true, &clips[kept]), CUDNN_HEUR_MODE_A, configs);
        bool careless = false;
        for (int i = 0; i < count; i++) {
            const int64_t index = index_of(configs[i]);
            if (!start(&t, configs[i], true))
                continue;
            rig_run(1);
            careless = careless || index == CARELESS;
            CHECK_INT(isnan(((const float *)t.y.at)[at_of(&t.y, 0, 0, 3, 3)]) != 0, kept && index != CARELESS);
        }
        CHECK(careless);
        dnn_clear();
    }
}

/* Factors keep 10 bits on tensor cores, all of them elsewhere, and in 16 bits what they have. */
TEST(tf32)
{
    const float exact = 1 + 0x1p-10f + 0x1p-11f + 0x1p-20f;
    const shape_of s = {1, 4, 1, 1, 4, 1, 1, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, NHWC, SOFT_F32};
    OWNED(setting) t;
    set_up(&t, &s, FORWARD);
    for (int i = 0; i < 4; i++) {
        ((float *)t.x.at)[i] = i ? 0 : exact;
        ((float *)t.w.at)[i] = 1;
    }
    descriptor graph = describe(&t, 1, 0, false, NULL);
    run_engine(&t, graph, PLAIN, 0, -1);
    CHECK(((const float *)t.y.at)[0] == exact);
    run_engine(&t, graph, CORES, 0, -1);
    CHECK(((const float *)t.y.at)[0] == 1 + 0x1p-9f);
}

TEST(end)
{
    CHECK(dnn.GetVersion() >= 90000);
    CHECK_HAS(dnn.GetErrorString(CUDNN_STATUS_BAD_PARAM), "BAD_PARAM");
    CHECK_INT(dnn.Destroy(dnn.handle), 0);
    dnn.handle = NULL;
    CHECK(dnn.Destroy(NULL) != 0);
}

#else

TEST(softgpu_cudnn)
{
    SKIP("built without CUDA");
}

#endif
