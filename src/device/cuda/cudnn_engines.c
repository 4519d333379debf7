/* cudnn_engines.c - which of cuDNN's engines computes a graph of operations: see cudnn.h.
 *
 * What the heuristics list and may be taken is timed (cudnn_trial.c); what cannot be timed, for want of memory say,
 * is left to the heuristics. */
#include "device/cuda/cudnn_parts.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_ALIKE = 4,   /* of what is timed, the same engine in other configurations */
    FEWEST_TAKEN = 3, /* else another list is asked for */
    MOST_NOTES = 32,
};

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
    cudnn_set *s = &p->made, of_handle = {.lib = s->lib};
    p->plan = cudnn_make(s, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (!p->plan)
        return false;
    /* Old versions want it; new ones know it from the graph, and may say so, which is no failure. */
    cudnn_put(&of_handle, p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->lib->handle);
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
    return cudnn_heard(c, c->BackendExecute(c->handle, p->plan, pack));
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
static int list_engines(race *r, descriptor graph_of, cudnnBackendHeurMode_t mode,
                        cudnn_plan *list[CUDNN_MOST_LISTED])
{
    descriptor configs[CUDNN_MOST_LISTED];
    cudnn_set s = {.lib = r->lib};
    descriptor h = cudnn_make(&s, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnn_put_one(&s, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_of);
    cudnn_put(&s, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    cudnn_finish(&s, h);
    int64_t count = cudnn_get(&s, h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
    int made = 0;
    for (; made < count && made < CUDNN_MOST_LISTED; made++) {
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
    bool known = what == UNWANTED || r->nseen == CUDNN_MOST_LISTED;
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
    cudnn_plan *list[CUDNN_MOST_LISTED];
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

/* --- choosing -------------------------------------------------------------------------------------------------- */

/* What is noted for a run in which no engine could be run: it goes on without. */
static const char none_ran[] = "none";

/* The plan that was chosen before, or NULL. */
static cudnn_plan *recall(race *r)
{
    tuner *t = r->problem->tuner;
    choice *c = t ? choices_find(t, r->lib->machine, r->problem->key) : NULL;
    r->without = c && c->recorded && c->words && strcmp(c->words, none_ran) == 0;
    if (r->without)
        c->used = true;
    cudnn_plan *p = c && c->words && !r->without ? new_plan(r) : NULL;
    if (!p)
        return NULL;
    if (cudnn_parse_engine(c->words, r->problem->ways, &p->engine, p->found)) {
        const descriptor graph_of = r->problem->describe(r->problem->user, p->engine.way, &p->graph);
        if (p->graph.status == CUDNN_STATUS_SUCCESS && take_known(p, r->problem, graph_of)) {
            c->used = true;
            p->choice = c;
            return p;
        }
    }
    cudnn_plan_free(r->queue->ctx, p);
    r->starved = r->lib->starved && c->recorded; /* no run goes on with another one */
    return NULL;
}

/* Keeps what came of a race: for this run alone, if it may be otherwise when there is memory. */
static choice *keep(const race *r, const char *words, bool unsettled)
{
    const choice made = {
        .machine = r->lib->machine, .problem = r->problem->key, .words = words, .unsettled = unsettled};
    choice *kept;
    (void)tuner_put(r->problem->tuner, &made, &kept); /* without memory it is made again */
    return kept;
}

static void remember(const race *r, cudnn_plan *p)
{
    char words[CHOICE_WORDS_SIZE];
    read_knobs(&p->made, p->made.made[0], &p->engine);
    if (p->engine.knobs < 0)
        return;
    cudnn_print_engine(&p->engine, r->problem->ways, r->found, words);
    memcpy(p->found, r->found, sizeof p->found);
    p->choice = keep(r, words, r->lacking);
}

bool cudnn_tell_choice(const cudnn_plan *p, int ways, const char *const *names, device_choice *out)
{
    char words[CHOICE_WORDS_SIZE];
    if (!p->choice)
        return false;
    *out = (device_choice){.problem = p->choice->problem, .ways = ways, .taken = p->engine.way};
    for (int i = 0; i < ways; i++) {
        out->name[i] = names[i];
        out->way[i] = p->found[i];
    }
    cudnn_print_engine(&p->engine, 0, NULL, words);
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
    const bool timed = p->tuner && p->tuner->measure;
    cuda_enter(q);
    q->cudnn->starved = false;
    *out = recall(&r);
    if (*out || r.without)
        return *out ? BRASA_OK : BRASA_NO_KERNEL;
    if (timed && (r.stopped = tuner_begin(p->tuner)) != BRASA_OK)
        return r.stopped;
    for (int way = 0; way < (timed ? p->ways : 1) && !r.starved; way++)
        gather(&r, way, timed ? CUDNN_MOST_TAKEN : 1);
    r.lacking = q->cudnn->starved;
    const int winner = r.starved ? -1 : timed ? cudnn_race(&r) : first_plan(&r);
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
    if (r.stopped != BRASA_OK)
        return r.stopped;
    if (r.starved)
        return fail(q->ctx, BRASA_OUT_OF_MEMORY, "out of memory: cuDNN's engines for '%.100s'", p->key);
    /* One that was not timed is noted, too, unless a run that goes on takes it anyway: the first. */
    if (timed && *out && (winner > 0 || r.found[(*out)->engine.way].timed))
        remember(&r, *out);
    else if (timed && r.count && !*out)
        (void)keep(&r, none_ran, true);
    return *out ? BRASA_OK : BRASA_NO_KERNEL;
}
