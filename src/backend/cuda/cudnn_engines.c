/* cudnn_engines.c - which of cuDNN's engines computes a graph of operations: see cudnn.h.
 *
 * Engines are timed as they will run, in a recorded CUDA graph: at batch 1 an engine of three small kernels would be
 * charged for starting them one by one otherwise, and one that cannot be recorded shows here. The tensors are scratch
 * memory with small random numbers. What cannot be timed, for want of memory say, is left to cuDNN's heuristics.
 *
 * An engine's workspace is charged, as if that were time: a session holds the largest of all its nodes', and would
 * grow by many MB for a microsecond otherwise. What other nodes take is not looked at, so that a problem has one
 * answer, whichever network asks first. */
#include "backend/cuda/cudnn.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_LISTED = 256, /* of the heuristics: the best come first, but those without tensor cores far behind */
    MOST_TAKEN = 10,   /* of these, for each way, to be timed */
    MOST_ALIKE = 4,    /* of them, the same engine in other configurations */
    FEWEST_TAKEN = 3,  /* else another list is asked for */
    RUNS = 5,          /* whose median counts */
    FEW_RUNS = 3,      /* the same where one takes long */
    MOST_REPEATS = 16, /* within a run */
    MOST_NOTES = 32,
};
/* A run takes about so many milliseconds where an engine is quicker than that. */
static const float run_length = 0.5f;
/* What is slower than the best one so far by this factor is not timed again, where it takes a while; the first run,
 * which loads code, may take longer. */
static const float hopeless = 1.5f, hopeless_first = 4, long_first = 100;
/* Milliseconds for a byte of workspace: about what it takes to touch it once, where memory moves 4 TB/s (H200: 4.8).
 * 0.25 microseconds a MB. */
static const float byte_charge = 1 / 4e9f;

/* --- plans ----------------------------------------------------------------------------------------------------- */

static bool note_allowed(const cudnn_problem *p, cudnnBackendNumericalNote_t note)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return false;
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
        return p->precision != BRASA_BF16;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return p->precision != BRASA_F32;
    default:
        return true;
    }
}

/* Whether what an engine computes is what we want; where cuDNN does not say, it is not. */
static bool notes_allowed(const cudnn_set *s, const cudnn_problem *p, descriptor engine)
{
    cudnnBackendNumericalNote_t notes[MOST_NOTES];
    const int64_t count =
        cudnn_get(s, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES, notes);
    bool allowed = count >= 0 && count <= MOST_NOTES;
    for (int64_t i = 0; i < count && allowed; i++)
        allowed = note_allowed(p, notes[i]);
    return allowed;
}

/* Whether plans with the engine are compiled, every time. */
static bool is_compiled(const cudnn_set *s, descriptor engine)
{
    cudnnBackendBehaviorNote_t notes[MOST_NOTES];
    const int64_t count =
        cudnn_get(s, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, MOST_NOTES, notes);
    bool compiled = false;
    for (int64_t i = 0; i < count && i < MOST_NOTES; i++)
        compiled = compiled || notes[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    return compiled;
}

/* The knobs of a configuration that cuDNN made, so that they can be kept. */
static void read_knobs(cudnn_set *s, descriptor config, cudnn_engine *e)
{
    descriptor choices[CUDNN_MOST_KNOBS];
    e->knobs = -1;
    for (int i = 0; i < CUDNN_MOST_KNOBS; i++)
        choices[i] = cudnn_make(s, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    const int64_t count = cudnn_get(s, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                    CUDNN_MOST_KNOBS, choices);
    if (count > CUDNN_MOST_KNOBS)
        return;
    for (int64_t i = 0; i < count; i++) {
        cudnnBackendKnobType_t type;
        struct cudnn_knob *k = &e->knob[i];
        if (cudnn_get(s, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) < 0 ||
            cudnn_get(s, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &k->value) < 0)
            return;
        k->type = (int)type;
    }
    e->knobs = (int)count;
}

/* The plan of a configuration; false: the engine does not take it, or wants too much memory. */
static bool make_plan(cudnn_plan *p, const cudnn_problem *problem, descriptor config)
{
    cudnn_set *s = &p->made;
    p->plan = cudnn_make(s, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (!p->plan)
        return false;
    /* Old versions want it; new ones know it from the graph, and may say so. */
    (void)s->lib->BackendSetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                      &s->lib->handle);
    cudnn_put_one(s, p->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    cudnn_finish(s, p->plan);
    return cudnn_get(s, p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &p->workspace) >= 0 &&
           p->workspace >= 0 && p->workspace <= problem->most_workspace;
}

typedef enum listed { UNWANTED, READY, COMPILED } listed;

/* Reads which engine one of the heuristics' configurations is of, the first descriptor of p->made. */
static listed read_listed(cudnn_plan *p, const cudnn_problem *problem, int way)
{
    cudnn_set *s = &p->made;
    descriptor engine = cudnn_make(s, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    p->engine.way = way;
    if (cudnn_get(s, s->made[0], CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine) < 0 ||
        cudnn_get(s, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &p->engine.index) < 0 ||
        !notes_allowed(s, problem, engine))
        return UNWANTED;
    return is_compiled(s, engine) ? COMPILED : READY;
}

/* A plan of p->engine, for this graph. */
static bool take_known(cudnn_plan *p, const cudnn_problem *problem, descriptor graph_of)
{
    cudnn_set *s = &p->made;
    const cudnn_engine *e = &p->engine;
    descriptor choices[CUDNN_MOST_KNOBS], engine = cudnn_make(s, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnn_put_one(s, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_of);
    cudnn_put(s, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &e->index);
    cudnn_finish(s, engine);
    for (int i = 0; i < e->knobs; i++) {
        const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)e->knob[i].type;
        choices[i] = cudnn_make(s, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        cudnn_put(s, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
        cudnn_put(s, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &e->knob[i].value);
        cudnn_finish(s, choices[i]);
    }
    descriptor config = cudnn_make(s, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    cudnn_put_one(s, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (e->knobs)
        cudnn_put(s, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, e->knobs, choices);
    cudnn_finish(s, config);
    return s->status == CUDNN_STATUS_SUCCESS && notes_allowed(s, problem, engine) && make_plan(p, problem, config);
}

descriptor cudnn_pack(cudnn_set *s, unsigned uses, void *const *data, void *workspace)
{
    int64_t uids[CUDNN_MOST_TENSORS], count = 0;
    void *used[CUDNN_MOST_TENSORS];
    for (int i = 0; i < CUDNN_MOST_TENSORS; i++)
        if (uses >> i & 1) {
            uids[count] = i + 1;
            used[count++] = data[i];
        }
    descriptor d = cudnn_make(s, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    cudnn_put(s, d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, used);
    cudnn_put(s, d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids);
    cudnn_put(s, d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    cudnn_finish(s, d);
    return d;
}

cudnnStatus_t cudnn_start(cudnn *c, const cudnn_plan *p, descriptor pack)
{
    return c->BackendExecute(c->handle, p->plan, pack);
}

void cudnn_plan_free(brasa_context *ctx, cudnn_plan *p)
{
    if (!p)
        return;
    cudnn_free(&p->made);
    cudnn_free(&p->graph);
    mem_put(ctx, p);
}

/* --- the candidates -------------------------------------------------------------------------------------------- */

typedef struct race {
    cuda_queue *queue;
    cudnn *lib;
    const cudnn_problem *problem;
    cudnn_set graph[CUDNN_MOST_WAYS]; /* of all plans of a way; the winner takes its own along */
    int count;
    cudnn_plan *plan[CUDNN_MOST_WAYS * MOST_TAKEN];
    device_way found[CUDNN_MOST_WAYS];
    float cost[CUDNN_MOST_WAYS]; /* of the best of each way */
    int64_t seen[MOST_LISTED];   /* engines of the way that is gathered, each once */
    int nseen;
    bool starved; /* of the host's memory: an engine that is not looked at might have won */
} race;

static cudnn_plan *new_plan(race *r)
{
    cudnn_plan *p = mem_get(r->queue->ctx, sizeof *p);
    if (p)
        p->made.lib = p->graph.lib = r->lib;
    else
        r->starved = true;
    return p;
}

/* The configurations that a mode of the heuristics lists for a graph, as the first descriptors of new plans. */
static int list_engines(race *r, descriptor graph_of, cudnnBackendHeurMode_t mode, cudnn_plan *list[MOST_LISTED])
{
    descriptor configs[MOST_LISTED];
    cudnn_set s = {.lib = r->lib};
    descriptor h = cudnn_make(&s, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnn_put_one(&s, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_of);
    cudnn_put(&s, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    cudnn_finish(&s, h);
    int64_t count = cudnn_get(&s, h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
    int made = 0;
    for (; made < count && made < MOST_LISTED; made++) {
        cudnn_plan *p = new_plan(r);
        if (!p || !(configs[made] = cudnn_make(&p->made, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR))) {
            cudnn_plan_free(r->queue->ctx, p);
            break;
        }
        list[made] = p;
    }
    if (made)
        count = cudnn_get(&s, h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, made, configs);
    for (; made > 0 && made > count; made--)
        cudnn_plan_free(r->queue->ctx, list[made - 1]);
    cudnn_free(&s);
    return made;
}

static int count_alike(const race *r, const cudnn_plan *p)
{
    int count = 0;
    for (int i = 0; i < r->count; i++)
        count += r->plan[i]->engine.way == p->engine.way && r->plan[i]->engine.index == p->engine.index;
    return count;
}

/* Counts an engine that is seen for the first time. */
static void note_engine(race *r, const cudnn_plan *p, listed what)
{
    bool known = what == UNWANTED || r->nseen == MOST_LISTED;
    for (int i = 0; i < r->nseen && !known; i++)
        known = r->seen[i] == p->engine.index;
    if (known)
        return;
    r->seen[r->nseen++] = p->engine.index;
    device_way *w = &r->found[p->engine.way];
    *(what == READY ? &w->engines : &w->compiled) += 1;
}

/* Adds the best of a mode's list, `most` of them; returns how many. */
static int take_engines(race *r, int way, descriptor graph_of, cudnnBackendHeurMode_t mode, bool compiled, int most)
{
    cudnn_plan *list[MOST_LISTED];
    const int count = list_engines(r, graph_of, mode, list), before = r->count;
    for (int i = 0; i < count; i++) {
        cudnn_plan *p = list[i];
        const listed what = read_listed(p, r->problem, way);
        note_engine(r, p, what);
        if (r->count - before < most && (what == READY || (what == COMPILED && compiled)) &&
            count_alike(r, p) < MOST_ALIKE && make_plan(p, r->problem, p->made.made[0]))
            r->plan[r->count++] = p;
        else
            cudnn_plan_free(r->queue->ctx, p);
    }
    return r->count - before;
}

/* The engines of a way: from the next list where the last one had too few. */
static void gather(race *r, int way, int most)
{
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};
    const int fewest = most < FEWEST_TAKEN ? most : FEWEST_TAKEN;
    cudnn_set *s = &r->graph[way];
    s->lib = r->lib;
    r->nseen = 0;
    const descriptor graph_of = r->problem->describe(r->problem->user, way, s);
    int taken = 0;
    for (int i = 0; i < 3 && taken < fewest && s->status == CUDNN_STATUS_SUCCESS; i++)
        taken += take_engines(r, way, graph_of, modes[i], false, most - taken);
    for (int i = 0; i < 3 && !taken && way == 0 && s->status == CUDNN_STATUS_SUCCESS; i++)
        taken += take_engines(r, way, graph_of, modes[i], true, fewest);
}

/* --- the clock ------------------------------------------------------------------------------------------------- */

typedef struct stage {
    cudaEvent_t begin, end;
    void *data[CUDNN_MOST_TENSORS], *workspace;
    char *memory;
} stage;

static size_t align_up(int64_t bytes)
{
    return ((size_t)bytes + 255) / 256 * 256;
}

/* Memory for the tensors and the largest workspace; false: there is not so much. */
static bool set_up(const race *r, stage *t)
{
    const cudnn_problem *p = r->problem;
    size_t all = 0, most = 0, at = 0;
    for (int i = 0; i < CUDNN_MOST_TENSORS; i++)
        all += align_up(p->bytes[i]);
    for (int i = 0; i < r->count; i++)
        most = align_up(r->plan[i]->workspace) > most ? align_up(r->plan[i]->workspace) : most;
    if (cudaMalloc((void **)&t->memory, all + most + 256) != cudaSuccess) {
        t->memory = NULL;
        (void)cudaGetLastError();
        return false;
    }
    for (int i = 0; i < CUDNN_MOST_TENSORS; i++) {
        t->data[i] = t->memory + at;
        at += align_up(p->bytes[i]);
    }
    t->workspace = t->memory + at;
    if (cudaEventCreate(&t->begin) != cudaSuccess || cudaEventCreate(&t->end) != cudaSuccess)
        return false;
    p->fill(p->user, t->data);
    return cudaStreamSynchronize(r->queue->stream) == cudaSuccess;
}

static void clear_up(stage *t)
{
    if (t->begin)
        cudaEventDestroy(t->begin);
    if (t->end)
        cudaEventDestroy(t->end);
    cudaFree(t->memory);
    (void)cudaGetLastError(); /* of engines that failed */
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
    else
        (void)cudaGetLastError();
    return good;
}

/* Milliseconds of one plan, or false where it fails or its results will not do. `best` is the least so far. */
static bool time_plan(const race *r, const stage *t, const cudnn_plan *p, float best, float *took)
{
    const cudnn_problem *problem = r->problem;
    const int64_t bytes = problem->bytes[problem->result];
    const cudaStream_t stream = r->queue->stream;
    cudnn_set s = {.lib = r->lib};
    const descriptor pack = cudnn_pack(&s, problem->uses[p->engine.way], t->data, t->workspace);
    bool good = s.status == CUDNN_STATUS_SUCCESS;
    good = good &&
           cudaMemsetAsync(t->data[problem->result], 0, bytes < 256 ? (size_t)bytes : 256, stream) == cudaSuccess;
    for (int i = 0; i < 2 && good; i++) {
        good = cudaEventRecord(t->begin, stream) == cudaSuccess && run_once(r, t, p, pack) && read_clock(r, t, took);
        if (i == 0)
            good = good && problem->accepts(problem->user, p->engine.way, t->data) &&
                   (*took < long_first || *took < hopeless_first * best);
    }
    if (good && (*took < run_length || *took < hopeless * best)) {
        const float wanted = run_length / (*took > 1e-4f ? *took : 1e-4f);
        const int repeats = wanted < 1 ? 1 : wanted > MOST_REPEATS ? MOST_REPEATS : (int)wanted;
        good = time_recorded(r, t, p, pack, repeats, took);
    }
    cudnn_free(&s);
    return good;
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

/* The number of the plan that costs least, its workspace included, or -1 where none could be run; *ran: they were
 * tried. Whose workspace alone costs more than that is not run. */
static int run_race(race *r, bool *ran)
{
    stage t = {0};
    int winner = -1;
    float best = 1e30f;
    *ran = set_up(r, &t);
    for (int i = 0; i < r->count && *ran; i++) {
        const float charge = (float)r->plan[i]->workspace * byte_charge;
        float took = 0;
        if (charge >= best || !time_plan(r, &t, r->plan[i], best, &took))
            continue;
        note_time(r, r->plan[i], took, took + charge);
        if (took + charge < best) {
            best = took + charge;
            winner = i;
        }
    }
    clear_up(&t);
    return winner;
}

/* --- choosing -------------------------------------------------------------------------------------------------- */

/* The plan that was chosen before, or NULL. */
static cudnn_plan *recall(race *r)
{
    kept_line *line =
        kept_find(r->queue->kept, r->lib->machine, r->problem->key, r->problem->choosing == CHOOSE_RECORDED);
    cudnn_plan *p = line ? new_plan(r) : NULL;
    if (!p)
        return NULL;
    if (cudnn_parse_engine(line->value, r->problem->ways, &p->engine, p->found)) {
        const descriptor graph_of = r->problem->describe(r->problem->user, p->engine.way, &p->graph);
        if (p->graph.status == CUDNN_STATUS_SUCCESS && take_known(p, r->problem, graph_of)) {
            line->used = true;
            p->choice = line;
            return p;
        }
    }
    cudnn_plan_free(r->queue->ctx, p);
    return NULL;
}

/* Keeps what came of a race. */
static void remember(const race *r, cudnn_plan *p)
{
    char words[KEPT_VALUE_SIZE];
    read_knobs(&p->made, p->made.made[0], &p->engine);
    if (p->engine.knobs < 0)
        return;
    cudnn_print_engine(&p->engine, r->problem->ways, r->found, words);
    memcpy(p->found, r->found, sizeof p->found);
    p->choice = kept_put(r->queue->kept, r->lib->machine, r->problem->key, words);
}

bool cudnn_tell_choice(const cudnn_plan *p, int ways, const char *const *names, device_choice *out)
{
    char words[KEPT_VALUE_SIZE];
    if (!p->choice)
        return false;
    *out = (device_choice){.problem = p->choice->problem, .ways = ways, .taken = p->engine.way};
    for (int i = 0; i < ways; i++) {
        out->name[i] = names[i];
        out->way[i] = p->found[i];
    }
    cudnn_print_engine(&p->engine, 0, NULL, words); /* the line may be another run's by now */
    snprintf(out->engine, sizeof out->engine, "%.*s", DEVICE_ENGINE_SIZE - 1, strchr(words, ' ') + 1);
    return true;
}

/* The first plan of the first way: what is right without a look at it. */
static int first_plan(const race *r)
{
    return r->count && r->plan[0]->engine.way == 0 ? 0 : -1;
}

brasa_status cudnn_choose(cuda_queue *q, const cudnn_problem *p, cudnn_plan **out)
{
    race r = {.queue = q, .lib = q->cudnn, .problem = p};
    const bool timed = p->choosing == CHOOSE_TIMED;
    cuda_enter(q);
    *out = p->choosing == CHOOSE_FIRST ? NULL : recall(&r);
    if (*out)
        return BRASA_OK;
    for (int way = 0; way < (timed ? p->ways : 1) && !r.starved; way++)
        gather(&r, way, timed ? MOST_TAKEN : 1);
    bool ran = false;
    int winner = timed && r.count && !r.starved ? run_race(&r, &ran) : -1;
    if (!ran && !r.starved)
        winner = first_plan(&r);
    for (int i = 0; i < r.count; i++) {
        if (i == winner)
            *out = r.plan[i];
        else
            cudnn_plan_free(q->ctx, r.plan[i]);
    }
    for (int way = 0; way < CUDNN_MOST_WAYS; way++) {
        if (*out && (*out)->engine.way == way)
            (*out)->graph = r.graph[way];
        else if (r.graph[way].lib)
            cudnn_free(&r.graph[way]);
    }
    if (r.starved)
        return fail_memory(q->ctx, sizeof **out);
    if (ran && *out)
        remember(&r, *out);
    return *out ? BRASA_OK : BRASA_NO_KERNEL;
}
