/* cudnn_rig.h - for tests of how cuDNN's engines are chosen: a problem, which the engines of fake_cudnn.h compute,
 * and a choice with what holds of every one.
 *
 *     static const made_engine engines[] = {{.index = 1, .ms = 2}, {.index = 2, .ms = 1}};
 *     OPEN(engines);
 *     CHECK_INT(choose().index, 2);
 *     rig_close();
 */
#ifndef TEST_CUDNN_RIG_H
#define TEST_CUDNN_RIG_H

#include "device/cuda/cudnn.h"
#include "device/cuda/libraries.h"

#include "fake_cudnn.h"
#include "files.h"
#include "heap.h"

enum { GPU = 1 };
enum { OF_X, OF_W, OF_Y, OF_B, TENSORS };

static struct {
    double finish;          /* milliseconds of what follows the first way's engines */
    bool filled;            /* the tensors are */
    int starts[2], ends[2]; /* times that `before` and `after` were called, for each way */
    heap heap;
    brasa_context *ctx;
    tuner *tuner;
    cuda_queue queue;
    cudnn lib;
    cudnn_problem problem;
} rig;

/* --- what is not looked at here -------------------------------------------------------------------------------- */

bool library_find(const char *file, library_start start, void *user, const char **why)
{
    (void)file;
    (void)start;
    (void)user;
    (void)why;
    return false;
}

void library_missing(device *d, const char *why, const char *none, const char *cost)
{
    (void)d;
    (void)why;
    (void)none;
    (void)cost;
}

void cuda_enter(const cuda_queue *q)
{
    (void)cudaSetDevice(q->index);
}

/* --- a problem: y = x + w, or, in another way, y = relu(x + b) ------------------------------------------------- */

static descriptor rig_describe(const void *user, int way, cudnn_set *s)
{
    const shape like = shape_4(1, 2, 3, 4);
    descriptor tensor[TENSORS], ops[2];
    CHECK(user == &rig && way >= 0 && way < rig.problem.ways);
    for (int i = 0; i < TENSORS; i++)
        tensor[i] = cudnn_tensor(s, i + 1, CUDNN_DATA_FLOAT, &like, false);
    if (way == 0) {
        ops[0] = cudnn_add(s, tensor[OF_X], tensor[OF_W], tensor[OF_Y]);
    } else {
        descriptor sums = cudnn_tensor(s, TENSORS + 1, CUDNN_DATA_FLOAT, &like, true);
        ops[0] = cudnn_add(s, tensor[OF_X], tensor[OF_B], sums);
        ops[1] = cudnn_relu(s, sums, tensor[OF_Y]);
    }
    return cudnn_operations(s, ops, way + 1);
}

/* Results look right before anything is computed. */
static void rig_fill(const void *user, void *const *data)
{
    CHECK(user == &rig);
    rig.filled = true;
    for (int i = 0; i < TENSORS; i++)
        memset(data[i], RIGHT, (size_t)rig.problem.bytes[i]);
}

static void rig_before(const void *user, int way, void *const *data)
{
    CHECK(user == &rig && data[OF_X] && rig.filled);
    rig.starts[way]++;
}

static void rig_after(const void *user, int way, void *const *data)
{
    CHECK(user == &rig && data[OF_X]);
    rig.ends[way]++;
    cudart_work(way == 0 ? rig.finish : 0);
}

static bool rig_accepts(const void *user, int way, void *const *data)
{
    CHECK(user == &rig && way < rig.problem.ways);
    return *(const char *)data[OF_Y] == RIGHT;
}

/* --- for tests ------------------------------------------------------------------------------------------------- */

/* A session with a tuner of its own: with what earlier ones have kept, or with a record alone, without the clock. */
static inline void next_session(const char *record)
{
    char cache[300];
    snprintf(cache, sizeof cache, "%s", in_folder("cache"));
    const brasa_tuning wish = {.measure = !record, .cache = record ? NULL : cache, .record = record};
    tuner_free(rig.tuner);
    CHECK_STATUS(tuner_new(rig.ctx, "GPU", &wish, &rig.tuner), BRASA_OK);
    rig.problem.tuner = rig.tuner;
}

static void rig_open(const made_engine *made_up, int count)
{
    static char handle;
    memset(&rig, 0, sizeof rig);
    memset(&fake, 0, sizeof fake);
    memset(&cudart, 0, sizeof cudart);
    cudart.expected = GPU;
    remove(in_folder("cache"));
    brasa_context_options o = {
        .size = sizeof o, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &rig.heap};
    if (!CHECK(count <= MOST_ENGINES) || !CHECK(brasa_context_new(&o, &rig.ctx) == BRASA_OK))
        exit(1);
    rig.lib = fake_cudnn;
    rig.lib.ctx = rig.ctx;
    rig.lib.handle = (cudnnHandle_t)(void *)&handle;
    snprintf(rig.lib.machine, sizeof rig.lib.machine, "GPU, cuDNN 9.14.0");
    rig.queue = (cuda_queue){.ctx = rig.ctx, .index = GPU, .cudnn = &rig.lib};
    rig.problem =
        (cudnn_problem){.key = "the problem",
                        .precision = BRASA_TF32,
                        .most_workspace = INT64_C(1) << 30,
                        .ways = 2,
                        .uses = {1u << OF_X | 1u << OF_W | 1u << OF_Y, 1u << OF_X | 1u << OF_B | 1u << OF_Y},
                        .describe = rig_describe,
                        .bytes = {96, 96, 300, 16},
                        .result = OF_Y,
                        .fill = rig_fill,
                        .before = rig_before,
                        .after = rig_after,
                        .accepts = rig_accepts,
                        .user = &rig};
    fake.made = made_up;
    fake.count = count;
    fake.handle = rig.lib.handle;
    fake.result = OF_Y;
    fake.bytes = rig.problem.bytes[OF_Y];
    memcpy(fake.uses, rig.problem.uses, sizeof fake.uses);
    next_session(NULL);
}

#define OPEN(made_up) rig_open(made_up, (int)(sizeof(made_up) / sizeof *(made_up)))

static void rig_close(void)
{
    tuner_free(rig.tuner);
    brasa_context_free(rig.ctx);
    CHECK(!fake.things);
    CHECK_INT(rig.heap.live, 0);
    CHECK_INT(cudart.live, 0);
}

/* What came of a choice. */
typedef struct outcome {
    brasa_status status;
    int way;
    int64_t index, value; /* -1: there is no plan */
    bool kept, tells;     /* that it was chosen by the clock, and of what */
    bool final;           /* it is kept for all, and not for this run alone */
    device_choice told;
    int calls, executed; /* of cuDNN for it; times that an engine was started */
} outcome;

/* A plan runs once it was chosen: all that it needs is there. */
static void run_plan(const cudnn_plan *plan)
{
    static char tensor[TENSORS][512];
    const made_engine *e = ((const thing *)plan->plan)->made;
    void *data[CUDNN_MOST_TENSORS] = {tensor[OF_X], tensor[OF_W], tensor[OF_Y], tensor[OF_B]}, *workspace = NULL;
    cudnn_set s = {.lib = &rig.lib};
    if (plan->workspace && !CHECK(posix_memalign(&workspace, 256, (size_t)plan->workspace) == 0))
        return;
    CHECK_INT(plan->workspace, e->workspace);
    CHECK_INT(plan->engine.index, e->index);
    CHECK_INT(plan->engine.way, e->way);
    const descriptor pack = cudnn_pack(&s, rig.problem.uses[plan->engine.way], data, workspace);
    CHECK_INT(s.status, CUDNN_STATUS_SUCCESS);
    CHECK_INT(cudnn_start(&rig.lib, plan, pack), e->runs);
    cudart.last = cudaSuccess;
    cudnn_free(&s);
    free(workspace);
}

/* Chooses an engine, and proves what holds of every choice: all that was taken for it is given back, its errors are
 * left to nobody, and the plan runs. Calls that are to fail do so while it chooses. */
static outcome choose(void)
{
    static const char *const names[] = {"alone", "fused"};
    static char nothing;
    outcome o = {.index = -1, .value = -1};
    cudnn_plan *plan = (void *)&nothing;
    cudart_gpu = !GPU; /* another thread's work was for that */
    fake.executed = fake.planned = fake.calls = cudart.calls = 0;
    fake.asked = 0;
    rig.filled = false;
    o.status = cudnn_choose(&rig.queue, &rig.problem, &plan);
    o.calls = fake.calls;
    o.executed = fake.executed;
    fake.fail_at = cudart.fail_at = rig.heap.fail_at = 0;
    CHECK((o.status == BRASA_OK) == (plan != NULL));
    CHECK_INT(cudart.live, 0);
    CHECK_INT(cudart.strays, 0);
    CHECK_INT(cudart.last, cudaSuccess);
    CHECK(!cudart.recording);
    if (!plan)
        return o;
    o.way = plan->engine.way;
    o.index = plan->engine.index;
    o.value = ((const thing *)plan->plan)->made->value;
    o.kept = plan->choice != NULL;
    o.final = plan->choice && !plan->choice->unsettled;
    o.tells = cudnn_tell_choice(plan, rig.problem.ways, names, &o.told);
    run_plan(plan);
    cudnn_plan_free(rig.ctx, plan);
    CHECK(!fake.things);
    return o;
}

#endif
