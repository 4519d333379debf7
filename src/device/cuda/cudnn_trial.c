/* cudnn_trial.c - engines of cuDNN, tried and timed: see cudnn_parts.h.
 *
 * Engines are timed as they will run, in a recorded CUDA graph: at batch 1 an engine of three small kernels would be
 * charged for starting them one by one otherwise, and one that cannot be recorded shows here. The tensors are scratch
 * memory with small random numbers.
 *
 * An engine's workspace is charged, as if that were time: a session holds the largest of all its nodes', and would
 * grow by many MB for a microsecond otherwise. What other nodes take is not looked at, so that a problem has one
 * answer, whichever network asks first. */
#include "device/cuda/cudnn_parts.h"

enum {
    RUNS = 5,          /* whose median counts */
    FEW_RUNS = 3,      /* the same where one takes long */
    MOST_REPEATS = 16, /* within a run */
};
/* A run takes about so many milliseconds where an engine is quicker than that. */
static const float run_length = 0.5f;
/* What is slower than the best one so far by this factor is not timed again, where it takes a while; the first run,
 * which loads code, may take longer. */
static const float hopeless = 1.5f, hopeless_first = 4, long_first = 100;
/* Milliseconds for a byte of workspace: about what it takes to touch it once, where memory moves 4 TB/s (H200: 4.8).
 * 0.25 microseconds a MB. */
static const float byte_charge = 1 / 4e9f;

typedef struct stage {
    cudaEvent_t begin, end;
    void *data[CUDNN_MOST_TENSORS], *workspace;
    int64_t room; /* bytes of the workspace */
    char *memory;
} stage;

static size_t align_up(int64_t bytes)
{
    return ((size_t)bytes + 255) / 256 * 256;
}

/* Memory for the tensors; false: there is not so much. */
static bool set_up(const race *r, stage *t)
{
    const cudnn_problem *p = r->problem;
    size_t all = 0, at = 0;
    for (int i = 0; i < CUDNN_MOST_TENSORS; i++)
        all += align_up(p->bytes[i]);
    if (cudaMalloc((void **)&t->memory, all + 256) != cudaSuccess) {
        t->memory = NULL;
        return false;
    }
    for (int i = 0; i < CUDNN_MOST_TENSORS; i++) {
        t->data[i] = t->memory + at;
        at += align_up(p->bytes[i]);
    }
    if (cudaEventCreate(&t->begin) != cudaSuccess || cudaEventCreate(&t->end) != cudaSuccess)
        return false;
    p->fill(p->user, t->data);
    return cudaStreamSynchronize(r->queue->stream) == cudaSuccess;
}

static void free_workspace(stage *t)
{
    if (t->workspace)
        cudaFree(t->workspace);
    t->workspace = NULL;
    t->room = 0;
}

/* Memory for a plan's workspace; false: there is not so much. It grows with what is tried, so that one plan that
 * wants a lot does not keep the others from being timed. */
static bool make_room(stage *t, const cudnn_plan *p)
{
    if (p->workspace <= t->room)
        return true;
    free_workspace(t);
    if (cudaMalloc(&t->workspace, align_up(p->workspace)) != cudaSuccess) {
        t->workspace = NULL;
        (void)cudaGetLastError(); /* or the next plan seems to have failed */
        return false;
    }
    t->room = p->workspace;
    return true;
}

static void clear_up(stage *t)
{
    if (t->begin)
        cudaEventDestroy(t->begin);
    if (t->end)
        cudaEventDestroy(t->end);
    free_workspace(t);
    if (t->memory)
        cudaFree(t->memory);
    (void)cudaGetLastError(); /* of engines that failed, or of memory that there is not */
}

static bool run_once(const race *r, const stage *t, const cudnn_plan *p, descriptor pack)
{
    const cudnn_problem *problem = r->problem;
    problem->before(problem->user, p->engine.way, t->data);
    if (cudnn_start(r->lib, p, pack) != CUDNN_STATUS_SUCCESS)
        return false;
    problem->after(problem->user, p->engine.way, t->data);
    return true;
}

/* Ends the time that `begin` has started. */
static bool read_clock(const race *r, const stage *t, float *took)
{
    return cudaEventRecord(t->end, r->queue->stream) == cudaSuccess && cudaEventSynchronize(t->end) == cudaSuccess &&
           cudaEventElapsedTime(took, t->begin, t->end) == cudaSuccess;
}

static float median(float *times, int count)
{
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && times[k] < times[k - 1]; k--) {
            const float larger = times[k - 1];
            times[k - 1] = times[k];
            times[k] = larger;
        }
    return times[count / 2];
}

/* Some runs of `repeats` times in a recorded graph; false: it cannot be recorded. */
static bool time_recorded(const race *r, const stage *t, const cudnn_plan *p, descriptor pack, int repeats,
                          float *took)
{
    const cudaStream_t stream = r->queue->stream;
    const int runs = *took > 20 * run_length ? FEW_RUNS : RUNS;
    float times[RUNS];
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t ready = NULL;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return false;
    bool good = true;
    for (int i = 0; i < repeats && good; i++)
        good = run_once(r, t, p, pack);
    good = cudaStreamEndCapture(stream, &recorded) == cudaSuccess && good;
    good = good && cudaGraphInstantiate(&ready, recorded, 0) == cudaSuccess;
    good = good && cudaGraphLaunch(ready, stream) == cudaSuccess;
    for (int i = 0; i < runs && good; i++)
        good = cudaEventRecord(t->begin, stream) == cudaSuccess && cudaGraphLaunch(ready, stream) == cudaSuccess &&
               read_clock(r, t, &times[i]);
    if (ready)
        cudaGraphExecDestroy(ready);
    if (recorded)
        cudaGraphDestroy(recorded);
    if (good)
        *took = median(times, runs) / (float)repeats;
    return good;
}

/* REFUSED: it runs, but its results will not do, or it takes far too long. */
typedef enum trial { TIMED, FAILED, REFUSED } trial;

/* Milliseconds of one plan. `best` is the least so far. */
static trial time_plan(const race *r, const stage *t, const cudnn_plan *p, float best, float *took)
{
    const cudnn_problem *problem = r->problem;
    const int64_t bytes = problem->bytes[problem->result];
    const cudaStream_t stream = r->queue->stream;
    cudnn_set s = {.lib = r->lib};
    const descriptor pack = cudnn_pack(&s, problem->uses[p->engine.way], t->data, t->workspace);
    bool good = s.status == CUDNN_STATUS_SUCCESS, will_do = true;
    good = good &&
           cudaMemsetAsync(t->data[problem->result], 0, bytes < 256 ? (size_t)bytes : 256, stream) == cudaSuccess;
    for (int i = 0; i < 2 && good && will_do; i++) {
        good = cudaEventRecord(t->begin, stream) == cudaSuccess && run_once(r, t, p, pack) && read_clock(r, t, took);
        if (i == 0 && good)
            will_do = problem->accepts(problem->user, p->engine.way, t->data) &&
                      (*took < long_first || *took < hopeless_first * best);
    }
    if (good && will_do && (*took < run_length || *took < hopeless * best)) {
        const float wanted = run_length / (*took > 1e-4f ? *took : 1e-4f);
        const int repeats = wanted < 1 ? 1 : wanted > MOST_REPEATS ? MOST_REPEATS : (int)wanted;
        good = time_recorded(r, t, p, pack, repeats, took);
    }
    cudnn_free(&s);
    return !good ? FAILED : will_do ? TIMED : REFUSED;
}

/* The best of a way is that which costs least, its workspace included. */
static void note_time(race *r, const cudnn_plan *p, float milliseconds, float cost)
{
    device_way *w = &r->found[p->engine.way];
    if (!w->timed++ || cost < r->cost[p->engine.way]) {
        r->cost[p->engine.way] = cost;
        w->nanoseconds = (int64_t)(milliseconds * 1e6f);
        w->workspace = p->workspace;
    }
}

/* Whether what has just failed may do another time. */
static bool lacks_memory(const race *r)
{
    const bool starved = r->lib->starved;
    r->lib->starved = false;
    return cuda_lacks_memory() || starved;
}

/* Whose workspace alone costs more than the best one is not run. */
int cudnn_race(race *r)
{
    stage t = {0};
    int winner = -1, unseen = -1;
    float best = 1e30f, missed = best; /* the least that one costs which could not be timed */
    const bool ready = r->count && set_up(r, &t);
    r->lib->starved = false;
    for (int i = 0; i < r->count && r->stopped == BRASA_OK; i++) {
        const cudnn_plan *p = r->plan[i];
        const float charge = (float)p->workspace * byte_charge;
        float took = 0;
        if (charge >= best)
            continue;
        const bool room = ready && make_room(&t, p);
        const trial came = room ? time_plan(r, &t, p, best, &took) : FAILED;
        if (came == TIMED) {
            note_time(r, p, took, took + charge);
            winner = took + charge < best ? i : winner;
            best = took + charge < best ? took + charge : best;
        } else if (!room || (came == FAILED && lacks_memory(r))) {
            unseen = unseen < 0 && !room && p->engine.way == 0 ? i : unseen;
            missed = charge < missed ? charge : missed;
        }
        r->stopped = tuner_go_on(r->problem->tuner);
    }
    clear_up(&t);
    r->lacking = r->lacking || missed < best;
    return r->stopped != BRASA_OK ? -1 : winner >= 0 ? winner : unseen;
}
