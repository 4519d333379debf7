/* test_softgpu_cudnn_refuses.c - what the library that stands in for cuDNN on the software GPU refuses, with words,
 * and what it tells of its engines. */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_SOFT_CUDNN /* where CUDA's compiler is */

#include "softgpu_cudnn_rig.h"

/* A parameter is wrong, and the library says which. */
#define CHECK_BAD(call) check_status(call, 2000, #call, __LINE__)
/* Nothing is wrong, but it is not to be had. */
#define CHECK_UNSUPPORTED(call) check_status(call, 3000, #call, __LINE__)

static void check_status(cudnnStatus_t got, int kind, const char *call, int line)
{
    const char *words = dnn_words();
    if (CUDNN_STATUS_CATEGORY((int)got) != kind || !*words)
        test_fail(__FILE__, line, "%s is %d, \"%s\"", call, (int)got, words);
}

static const shape_of usual = {1, 8, 6, 6, 4, 3, 3, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, NHWC, SOFT_F32};

typedef struct tensors {
    lying x, w, y, bias;
} tensors;

static tensors lie_all(const shape_of *s)
{
    return (tensors){.x = lie(s->n, s->c, s->h, s->w, s->layout, s->type),
                     .w = lie(s->k, s->c / s->groups, s->r, s->s, s->layout, s->type),
                     .y = lie(s->n, s->k, out_size(s, 0), out_size(s, 1), s->layout, s->type),
                     .bias = lie(1, s->k, 1, 1, s->layout, s->type)};
}

/* --- attributes ------------------------------------------------------------------------------------------------ */

TEST(attributes)
{
    const int64_t one = 1, many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    const int32_t word = 0;
    int64_t got[4], count;
    tensors t = lie_all(&usual);
    descriptor d = make_tensor_with(X, &t.x, false, 16), other = NULL;
    CASE("of another type");
    CHECK_BAD(dnn.BackendSetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_DOUBLE, 1, &one));
    CHECK_BAD(dnn.BackendSetAttribute(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_INT64, 1, &one));
    CASE("of another descriptor");
    CHECK_BAD(dnn.BackendSetAttribute(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one));
    CASE("too many, or none");
    CHECK_BAD(dnn.BackendSetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2, many));
    CHECK_BAD(dnn.BackendSetAttribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 9, many));
    CHECK_BAD(dnn.BackendSetAttribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0, many));
    CASE("nowhere");
    CHECK_BAD(dnn.BackendSetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, NULL));
    CHECK_BAD(dnn.BackendSetAttribute(NULL, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &one));
    CHECK_BAD(dnn.BackendSetAttribute(dnn.handle, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &one));
    CASE("asked for before it is finalized");
    CHECK_BAD(dnn.BackendGetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &count, got));
    CASE("asked for behind it");
    dnn_finish(d);
    CHECK_INT(dnn.BackendGetAttribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, &count, got), 0);
    CHECK(count == 4 && memcmp(got, t.x.dim, sizeof got) == 0);
    CASE("set behind it");
    CHECK_BAD(dnn.BackendSetAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &one));
    CASE("finalized twice");
    CHECK_BAD(dnn.BackendFinalize(d));
    CASE("only asked for");
    other = dnn_make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    CHECK_BAD(dnn.BackendSetAttribute(other, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 1, &word));
    CASE("a descriptor of another type, or none");
    CHECK_BAD(
        dnn.BackendSetAttribute(other, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &d));
    CHECK_BAD(dnn.BackendSetAttribute(other, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &dnn.handle));
    CASE("a handle that is none");
    other = dnn_make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    CHECK_BAD(dnn.BackendSetAttribute(other, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d));
    CASE("a kind of descriptor that is not there");
    CHECK_UNSUPPORTED(dnn.BackendCreateDescriptor(CUDNN_BACKEND_RNG_DESCRIPTOR, &other));
    CHECK_BAD(dnn.BackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, NULL));
}

TEST(missing)
{
    tensors t = lie_all(&usual);
    for (int i = 0; i < 7; i++) {
        CASE("a window's attribute %d", i);
        CHECK_BAD(dnn.BackendFinalize(make_window(&usual, i)));
    }
    CASE("all of a tensor's");
    CHECK_BAD(dnn.BackendFinalize(dnn_make(CUDNN_BACKEND_TENSOR_DESCRIPTOR)));
    CASE("a convolution's");
    descriptor d = dnn_make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR), x = make_tensor(X, &t.x, false);
    DNN_PUT(d, OPERATION_CONVOLUTION_FORWARD_X, BACKEND_DESCRIPTOR, x);
    CHECK_BAD(dnn.BackendFinalize(d));
    CASE("a descriptor that is not finalized");
    descriptor window = make_window(&usual, -1);
    CHECK_BAD(dnn.BackendSetAttribute(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &window));
}

TEST(wrong_tensors)
{
    static const struct {
        const char *what;
        int dims, strides;
        int64_t dim, stride, alignment;
        cudnnDataType_t type;
        bool bad; /* else it is not supported */
    } rows[] = {{"no elements", 4, 4, 0, 1, 16, CUDNN_DATA_FLOAT, true},
                {"no stride", 4, 4, 2, 0, 16, CUDNN_DATA_FLOAT, true},
                {"another number of strides", 4, 3, 2, 1, 16, CUDNN_DATA_FLOAT, true},
                {"alignment", 4, 4, 2, 1, 12, CUDNN_DATA_FLOAT, true},
                {"less than an element's alignment", 4, 4, 2, 1, 2, CUDNN_DATA_FLOAT, true},
                {"bytes", 4, 4, 2, 1, 16, CUDNN_DATA_INT8, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int64_t dim[4] = {2, rows[i].dim, 2, 2}, stride[4] = {8, rows[i].stride, 4, 2}, uid = 1;
        CASE("%s", rows[i].what);
        descriptor d = dnn_make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        DNN_PUT(d, TENSOR_DATA_TYPE, DATA_TYPE, rows[i].type);
        dnn_put(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rows[i].dims, dim);
        dnn_put(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rows[i].strides, stride);
        DNN_PUT(d, TENSOR_UNIQUE_ID, INT64, uid);
        DNN_PUT(d, TENSOR_BYTE_ALIGNMENT, INT64, rows[i].alignment);
        if (rows[i].bad)
            CHECK_BAD(dnn.BackendFinalize(d));
        else
            CHECK_UNSUPPORTED(dnn.BackendFinalize(d));
        dnn_clear();
    }
}

/* --- operations and graphs -------------------------------------------------------------------------------------- */

/* One dimension of x, w or y is another one, in each of the three products. */
TEST(shapes)
{
    static const struct {
        int tensor, axis, add;
    } rows[] = {{0, 0, 1}, {0, 1, 1}, {0, 2, 1}, {0, 3, -1}, {1, 0, 1}, {1, 1, 1}, {1, 1, -1},
                {1, 2, 1}, {1, 3, 1}, {2, 0, 1}, {2, 1, -1}, {2, 2, 1}, {2, 3, -1}};
    for (int of = FORWARD; of <= WEIGHTS; of++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            tensors t = lie_all(&usual);
            lying *const all[] = {&t.x, &t.w, &t.y};
            CASE("product %d, tensor %d, axis %d", of, rows[i].tensor, rows[i].axis);
            all[rows[i].tensor]->dim[rows[i].axis] += rows[i].add;
            descriptor window = dnn_finish(make_window(&usual, -1)), x = make_tensor(X, &t.x, false),
                       w = make_tensor(WEI, &t.w, false), y = make_tensor(Y, &t.y, false);
            CHECK_BAD(dnn.BackendFinalize(make_convolution((what)of, window, x, w, y, 1, 0)));
            dnn_clear();
        }
}

/* A graph with something wrong in it: what is not said is right. */
typedef struct wrong {
    const char *name;
    what of;
    float beta;
    bool twice, alone, unread, in_memory, same_uid, virtual_factor, virtual_bias, mixed, bad_bias, bad;
} wrong;

static cudnnStatus_t try_graph(const wrong *r)
{
    tensors t = lie_all(&usual);
    lying other = t.w, inside = t.y;
    other.type = r->mixed ? SOFT_BF16 : SOFT_F32;
    t.bias.dim[1] -= r->bad_bias;
    descriptor window = dnn_finish(make_window(&usual, -1)), x = make_tensor(X, &t.x, r->virtual_factor),
               w = make_tensor(r->same_uid ? X : WEI, &other, false), y = make_tensor(Y, &t.y, r->unread),
               sums = make_tensor(SUMS, &inside, !r->in_memory), b = make_tensor(BIAS, &t.bias, r->virtual_bias),
               ops[3] = {NULL};
    int count = 0;
    descriptor conv = make_convolution(r->of, window, x, w, r->of == FORWARD ? sums : y, 1, r->beta);
    cudnnStatus_t status = dnn.BackendFinalize(conv);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (!r->alone)
        ops[count++] = conv;
    if (r->twice)
        ops[count++] = dnn_finish(make_convolution(r->of, window, x, w, sums, 1, 0));
    if (r->bad_bias) {
        descriptor d = dnn_make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        descriptor how = dnn_make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
        const cudnnDataType_t type = CUDNN_DATA_FLOAT;
        DNN_PUT(how, POINTWISE_MODE, POINTWISE_MODE, mode);
        DNN_PUT(how, POINTWISE_MATH_PREC, DATA_TYPE, type);
        dnn_finish(how);
        DNN_PUT(d, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, how);
        DNN_PUT(d, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, sums);
        DNN_PUT(d, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, b);
        DNN_PUT(d, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, y);
        return dnn.BackendFinalize(d);
    }
    ops[count++] = make_step(sums, b, y, NULL);
    return dnn.BackendFinalize(make_graph(ops, count));
}

TEST(graphs)
{
    static const wrong rows[] = {
        {.name = "two convolutions", .twice = true},
        {.name = "no convolution", .alone = true},
        {.name = "nothing reads the result", .unread = true},
        {.name = "what is between is in memory", .in_memory = true},
        {.name = "two tensors have one uid", .same_uid = true, .bad = true},
        {.name = "a factor is nowhere", .virtual_factor = true, .bad = true},
        {.name = "a bias is nowhere", .virtual_bias = true},
        {.name = "beta, and no memory", .beta = 1, .bad = true},
        {.name = "factors of two types", .mixed = true, .bad = true},
        {.name = "a bias of another size", .bad_bias = true, .bad = true},
        {.name = "a step behind a gradient", .of = WEIGHTS},
    };
    CASE("nothing is wrong");
    CHECK_INT(try_graph(&(wrong){.of = FORWARD}), 0);
    dnn_clear();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        if (rows[i].bad)
            CHECK_BAD(try_graph(&rows[i]));
        else
            CHECK_UNSUPPORTED(try_graph(&rows[i]));
        dnn_clear();
    }
}

/* --- engines --------------------------------------------------------------------------------------------------- */

static descriptor make_usual_graph(void)
{
    tensors t = lie_all(&usual);
    descriptor window = dnn_finish(make_window(&usual, -1)), x = make_tensor(X, &t.x, false),
               w = make_tensor(WEI, &t.w, false), y = make_tensor(Y, &t.y, false),
               op = dnn_finish(make_convolution(FORWARD, window, x, w, y, 1, 0));
    return dnn_finish(make_graph(&op, 1));
}

/* Not finished yet. */
static descriptor make_engine(descriptor graph, int64_t index)
{
    descriptor d = dnn_make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    DNN_PUT(d, ENGINE_OPERATION_GRAPH, BACKEND_DESCRIPTOR, graph);
    DNN_PUT(d, ENGINE_GLOBAL_INDEX, INT64, index);
    return d;
}

/* The same. */
static descriptor make_config(descriptor engine, int count, const cudnnBackendKnobType_t *types,
                              const int64_t *values)
{
    descriptor d = dnn_make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), choices[4];
    DNN_PUT(d, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, engine);
    for (int i = 0; i < count; i++) {
        choices[i] = dnn_make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        DNN_PUT(choices[i], KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, types[i]);
        DNN_PUT(choices[i], KNOB_CHOICE_KNOB_VALUE, INT64, values[i]);
        dnn_finish(choices[i]);
    }
    if (count)
        dnn_put(d, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, choices);
    return d;
}

TEST(engines)
{
    static const cudnnBackendKnobType_t types[2] = {CUDNN_KNOB_TYPE_TILEK, CUDNN_KNOB_TYPE_TILEK};
    static const int64_t values[2] = {2, 9};
    descriptor graph = make_usual_graph();
    CASE("an engine that is not there");
    CHECK_UNSUPPORTED(dnn.BackendFinalize(make_engine(graph, 1000)));
    CHECK_UNSUPPORTED(dnn.BackendFinalize(make_engine(graph, -1)));
    CASE("one for another graph");
    CHECK_UNSUPPORTED(dnn.BackendFinalize(make_engine(graph, CARELESS)));
    descriptor cores = dnn_finish(make_engine(graph, CORES));
    CASE("a knob that is not there");
    CHECK_BAD(dnn.BackendFinalize(make_config(dnn_finish(make_engine(graph, PLAIN)), 1, types, values)));
    CASE("a knob that is turned too far");
    CHECK_BAD(dnn.BackendFinalize(make_config(cores, 1, types, values + 1)));
    CASE("a knob that is turned twice");
    CHECK_BAD(dnn.BackendFinalize(make_config(cores, 2, types, (const int64_t[]){1, 1})));
    CASE("no plan");
    descriptor config = dnn_finish(make_config(dnn_finish(make_engine(graph, UNPLANNED)), 0, NULL, NULL));
    CHECK_UNSUPPORTED(dnn.BackendFinalize(make_plan(config)));
}

/* Configurations that the heuristics list can be made again, from what is told of them. */
TEST(told)
{
    descriptor configs[MOST_LISTED], graph = make_usual_graph();
    const int count = list_configs(graph, CUDNN_HEUR_MODE_A, configs);
    CHECK(count > 5);
    for (int i = 0; i < count; i++) {
        const int64_t index = index_of(configs[i]);
        int64_t knobs = 0, notes = 0, behaves = 0, values[4];
        cudnnBackendKnobType_t types[4];
        cudnnBackendNumericalNote_t note[8];
        cudnnBackendBehaviorNote_t behavior[8];
        CASE("engine %d", (int)index);
        descriptor choices[4], engine = dnn_finish(make_engine(graph, index));
        for (int k = 0; k < 4; k++)
            choices[k] = dnn_make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        CHECK_INT(dnn.BackendGetAttribute(configs[i], CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 4, &knobs, choices),
                  0);
        for (int64_t k = 0; k < knobs; k++) {
            int64_t one = 0;
            CHECK_INT(dnn.BackendGetAttribute(choices[k], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                                              &one, &types[k]),
                      0);
            CHECK_INT(dnn.BackendGetAttribute(choices[k], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
                                              &one, &values[k]),
                      0);
        }
        dnn_finish(make_config(engine, (int)knobs, types, values));
        CHECK_INT(dnn.BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 8,
                                          &notes, note),
                  0);
        CHECK_INT(dnn.BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, 8,
                                          &behaves, behavior),
                  0);
        CHECK(index != VARIES || (notes == 1 && note[0] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
        CHECK(index != CORES || (notes == 1 && note[0] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && knobs == 2));
        CHECK(index != PLAIN || (notes == 0 && knobs == 1));
        CHECK((behaves > 0 && behavior[0] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) == (index == COMPILED));
    }
    CASE("a descriptor that is no longer empty");
    int64_t some = 0;
    CHECK_BAD(dnn.BackendGetAttribute(configs[0], CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &some, &configs[1]));
}

/* --- calls ----------------------------------------------------------------------------------------------------- */

static cudnnStatus_t execute(descriptor plan, int64_t count, const int64_t *uids, void *const *data, void *workspace)
{
    return dnn.BackendExecute(dnn.handle, plan, make_pack(count, uids, data, workspace));
}

TEST(calls)
{
    enum { BYTES = 1 << 16 };
    static _Alignas(256) char memory[4 * BYTES];
    static const int64_t uids[3] = {X, WEI, Y};
    void *const right[3] = {memory, memory + BYTES, memory + 2 * BYTES}, *const workspace = memory + 3 * BYTES;
    void *moved[3];
    descriptor graph = make_usual_graph(),
               config = dnn_finish(make_config(dnn_finish(make_engine(graph, SPLIT)), 0, NULL, NULL)),
               plan = dnn_finish(make_plan(config));
    CHECK(workspace_of(plan) == 3 * 4 * 36 * 4);
    CASE("nothing is wrong, and the same once more is the same task");
    CHECK_INT(execute(plan, 3, uids, right, workspace), 0);
    CHECK_INT(execute(plan, 3, uids, right, workspace), 0);
    CHECK(rig.tasks == 2 && rig.task[0].user == rig.task[1].user);
    rig.tasks = 0;
    CASE("a tensor is not there");
    CHECK_BAD(execute(plan, 2, uids, right, workspace));
    CASE("a tensor is nowhere");
    memcpy(moved, right, sizeof moved);
    moved[1] = NULL;
    CHECK_BAD(execute(plan, 3, uids, moved, workspace));
    CASE("a tensor is not aligned");
    moved[1] = memory + BYTES + 8;
    CHECK_BAD(execute(plan, 3, uids, moved, workspace));
    CASE("the result lies in a factor");
    moved[1] = right[1];
    moved[2] = memory + 64;
    CHECK_BAD(execute(plan, 3, uids, moved, workspace));
    CASE("the workspace lies in a factor");
    CHECK_BAD(execute(plan, 3, uids, right, memory + BYTES));
    CASE("no workspace, and one that is not aligned");
    CHECK_BAD(execute(plan, 3, uids, right, NULL));
    CHECK_BAD(execute(plan, 3, uids, right, memory + 3 * BYTES + 16));
    CASE("the end of the workspace is not the GPU's");
    rig.owned = (soft_span){memory, 3 * BYTES + 3 * 4 * 36 * 4 - 1};
    CHECK_INT(execute(plan, 3, uids, right, workspace), CUDNN_STATUS_EXECUTION_FAILED);
    CHECK(*dnn_words());
    rig.owned = (soft_span){0};
    CASE("no plan, no pack, no handle");
    CHECK_BAD(dnn.BackendExecute(dnn.handle, config, make_pack(3, uids, right, workspace)));
    CHECK_BAD(dnn.BackendExecute(dnn.handle, plan, config));
    CHECK_BAD(dnn.BackendExecute(NULL, plan, make_pack(3, uids, right, workspace)));
    CASE("an engine that cannot be captured");
    config = dnn_finish(make_config(dnn_finish(make_engine(graph, UNRECORDABLE)), 0, NULL, NULL));
    descriptor other = dnn_finish(make_plan(config));
    CHECK_INT(workspace_of(other), 0);
    rig.capturing = 1;
    CHECK_UNSUPPORTED(execute(other, 3, uids, right, NULL));
    CHECK_INT(execute(plan, 3, uids, right, workspace), 0);
    rig.capturing = rig.tasks = 0;
    CHECK_INT(execute(other, 3, uids, right, NULL), 0);
    CASE("an engine that is to fail");
    setenv("SOFTGPU_CUDNN_FAILS", "2", 1);
    CHECK_INT(execute(plan, 3, uids, right, workspace), CUDNN_STATUS_EXECUTION_FAILED);
    unsetenv("SOFTGPU_CUDNN_FAILS");
    rig.tasks = 0;
}

TEST(packs)
{
    static char memory[64];
    static const int64_t uids[2] = {1, 1};
    void *const data[2] = {memory, memory};
    for (int more = 0; more < 2; more++) {
        CASE("%s", more ? "one uid twice" : "fewer uids than addresses");
        descriptor d = dnn_make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        dnn_put(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1 + more, uids);
        dnn_put(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 2, data);
        CHECK_BAD(dnn.BackendFinalize(d));
    }
    dnn_clear();
    CHECK_INT(dnn.Destroy(dnn.handle), 0);
    dnn.handle = NULL;
}

#else

TEST(softgpu_cudnn_refuses)
{
    SKIP("built without CUDA");
}

#endif
