/* cudnn_engines.c - the engines of the library that stands in for cuDNN, and its heuristics.
 *
 * They add up in different orders, so that bits tell which one was taken, and by which of its configurations. Some
 * are traps, which a careful caller leaves out by their notes, or by a look at what they compute.
 */
#include "soft_cudnn.h"

#include <stdio.h>

enum { PLAIN, CORES, SPLIT, VARIES, COMPILED, ROUNDED, CARELESS, TILES, UNRECORDABLE, UNPLANNED };

#define NOTE(name)     (1u << CUDNN_NUMERICAL_NOTE_##name)
#define BEHAVIOR(name) (1u << CUDNN_BEHAVIOR_NOTE_##name)
const engine soft_engines[ENGINES] = {
    [PLAIN] = {.knobs = 1, .knob = {{CUDNN_KNOB_TYPE_TILE_SIZE, 0, 2, 2}}},
    [CORES] = {.notes = NOTE(TENSOR_CORE),
               .knobs = 2,
               .knob = {{CUDNN_KNOB_TYPE_TILEK, 0, 2, 1}, {CUDNN_KNOB_TYPE_STAGES, 1, 4, 3}},
               .tensor_cores = true},
    [SPLIT] = {.knobs = 1, .knob = {{CUDNN_KNOB_TYPE_SPLIT_K_BUF, 2, 8, 3}}},
    [VARIES] = {.notes = NOTE(NONDETERMINISTIC), .varies = true},
    [COMPILED] = {.behaves = BEHAVIOR(RUNTIME_COMPILATION) | BEHAVIOR(SUPPORTS_CUDA_GRAPH_NATIVE_API)},
    [ROUNDED] = {.notes = NOTE(REDUCED_PRECISION_REDUCTION), .rounded = true},
    [CARELESS] = {.careless = true},
    [TILES] = {.notes = NOTE(WINOGRAD) | NOTE(WINOGRAD_TILE_6x6), .rounded = true},
    [UNRECORDABLE] = {.unrecordable = true},
    [UNPLANNED] = {.unplanned = true},
};

static bool takes(const problem *p, int64_t index)
{
    const int64_t groups = p->sums.x.dim[1] / p->sums.w.dim[1];
    bool relu = false;
    for (int i = 0; i < p->steps; i++)
        relu = relu || p->step[i].how.mode == CUDNN_POINTWISE_RELU_FWD;
    switch (index) {
    case CORES:
        return p->sums.w.dim[1] % 4 == 0 && p->sums.w.dim[0] / groups % 4 == 0;
    case TILES:
        return p->sums.w.dim[2] == 3 && p->sums.w.dim[3] == 3 && p->sums.window.stride[0] == 1;
    case CARELESS:
        return relu;
    default:
        return index >= 0 && index < ENGINES;
    }
}

/* --- configurations -------------------------------------------------------------------------------------------- */

int64_t soft_piece(const config *c)
{
    static _Atomic int runs;
    static const int64_t pieces[ENGINES] = {
        [PLAIN] = 16,     [CORES] = 32, [SPLIT] = 256,        [COMPILED] = 96, [ROUNDED] = 64,
        [CARELESS] = 256, [TILES] = 64, [UNRECORDABLE] = 160, [UNPLANNED] = 64};
    if (soft_engines[c->engine].varies)
        return 16 + runs++ % 13 * 8;
    return c->engine == PLAIN || c->engine == CORES ? pieces[c->engine] << c->knob[0] : pieces[c->engine];
}

int64_t soft_splits(const config *c)
{
    return c->engine == SPLIT ? c->knob[0] : 1;
}

int64_t soft_workspace(const problem *p, const config *c)
{
    const tensor *t = p->sums.product == FORWARD ? &p->sums.y : p->sums.product == DATA ? &p->sums.x : &p->sums.w;
    const int64_t sums = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
    return soft_splits(c) > 1 ? soft_splits(c) * sums * (int64_t)sizeof(float) : 0;
}

cudnnStatus_t soft_finish_engine(body *b)
{
    const int64_t index = soft_int(b, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    b->problem = soft_body(b, CUDNN_ATTR_ENGINE_OPERATION_GRAPH)->problem;
    if (!takes(&b->problem, index))
        return soft_refuse(CUDNN_STATUS_NOT_SUPPORTED, "engine %lld does not take this graph", (long long)index);
    b->config.engine = (int)index;
    for (int i = 0; i < MOST_KNOBS; i++)
        b->config.knob[i] = soft_engines[index].knob[i].usual;
    return CUDNN_STATUS_SUCCESS;
}

/* Knobs that are not set are as the engine has them. */
cudnnStatus_t soft_finish_config(body *b)
{
    const body *of = soft_body(b, CUDNN_ATTR_ENGINECFG_ENGINE);
    const attribute *choices = soft_attribute(b, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
    const engine *e = &soft_engines[of->config.engine];
    unsigned set = 0;
    b->problem = of->problem;
    b->config = of->config;
    for (int64_t i = 0; choices && i < choices->count; i++) {
        const body *choice = ((body *const *)choices->values)[i];
        const int64_t type = soft_int(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
                      value = soft_int(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
        int k = 0;
        while (k < e->knobs && (int64_t)e->knob[k].type != type)
            k++;
        if (k == e->knobs || value < e->knob[k].least || value > e->knob[k].most)
            return soft_refuse(CUDNN_STATUS_BAD_PARAM, "engine %d has no knob %lld that can be %lld",
                               of->config.engine, (long long)type, (long long)value);
        if (set >> k & 1)
            return soft_refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "knob %lld is set twice", (long long)type);
        set |= 1u << k;
        b->config.knob[k] = value;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t soft_finish_plan(body *b)
{
    const body *of = soft_body(b, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    b->problem = of->problem;
    b->config = of->config;
    if (soft_engines[b->config.engine].unplanned)
        return soft_refuse(CUDNN_STATUS_NOT_SUPPORTED, "engine %d has no plan for this graph", b->config.engine);
    return CUDNN_STATUS_SUCCESS;
}

/* --- answers --------------------------------------------------------------------------------------------------- */

int64_t soft_answer(const body *b, cudnnBackendAttributeName_t name, int64_t *to)
{
    const engine *e = &soft_engines[b->config.engine];
    const unsigned notes = name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE  ? e->notes
                           : name == CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE ? e->behaves
                                                                     : 0;
    int64_t count = 0;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        *to = soft_workspace(&b->problem, &b->config);
        return 1;
    }
    for (int32_t note = 0; note < 32; note++)
        if (notes >> note & 1)
            ((int32_t *)to)[count++] = note;
    return count;
}

/* --- the heuristics -------------------------------------------------------------------------------------------- */

/* The best first; with the first knob set, unless that is -1. */
typedef struct entry {
    cudnnBackendHeurMode_t mode;
    int engine, knob;
} entry;

static const entry entries[] = {
    {CUDNN_HEUR_MODE_A, CARELESS, -1},    {CUDNN_HEUR_MODE_A, UNPLANNED, -1},
    {CUDNN_HEUR_MODE_A, VARIES, -1},      {CUDNN_HEUR_MODE_A, CORES, -1},
    {CUDNN_HEUR_MODE_A, ROUNDED, -1},     {CUDNN_HEUR_MODE_A, TILES, -1},
    {CUDNN_HEUR_MODE_A, PLAIN, -1},       {CUDNN_HEUR_MODE_A, SPLIT, -1},
    {CUDNN_HEUR_MODE_A, CORES, 2},        {CUDNN_HEUR_MODE_A, UNRECORDABLE, -1},
    {CUDNN_HEUR_MODE_A, COMPILED, -1},    {CUDNN_HEUR_MODE_B, CORES, 0},
    {CUDNN_HEUR_MODE_B, SPLIT, 5},        {CUDNN_HEUR_MODE_B, PLAIN, 0},
    {CUDNN_HEUR_MODE_FALLBACK, PLAIN, 1}, {CUDNN_HEUR_MODE_FALLBACK, COMPILED, -1},
};

/* The body of one knob's choice. */
static body *make_choice(const knob *k, int64_t value)
{
    body *b = soft_new(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    if (b && soft_put(b, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &k->type) &&
        soft_put(b, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value)) {
        b->finished = true;
        return b;
    }
    soft_release(b);
    return NULL;
}

/* A configuration, its engine and the choices of all knobs. */
static body *make_config(const body *graph, const entry *of)
{
    const engine *e = &soft_engines[of->engine];
    const int64_t index = of->engine;
    body *b = soft_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), *made = soft_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    body *choices[MOST_KNOBS] = {NULL};
    bool good = b && made &&
                soft_put(made, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph) &&
                soft_put(made, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index) &&
                soft_finish_engine(made) == CUDNN_STATUS_SUCCESS;
    for (int i = 0; i < e->knobs && good; i++) {
        const bool chosen = i == 0 && of->knob >= 0;
        good = (choices[i] = make_choice(&e->knob[i], chosen ? of->knob : e->knob[i].usual)) != NULL;
    }
    if (good) {
        made->finished = true;
        good = soft_put(b, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &made) &&
               (!e->knobs ||
                soft_put(b, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, e->knobs, choices)) &&
               soft_finish_config(b) == CUDNN_STATUS_SUCCESS;
    }
    for (int i = 0; i < MOST_KNOBS; i++)
        soft_release(choices[i]);
    soft_release(made);
    if (good)
        b->finished = true;
    else
        soft_release(b);
    return good ? b : NULL;
}

body *soft_result(const body *heuristics, int64_t i, int64_t *all)
{
    const int64_t mode = soft_int(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE);
    const body *graph = soft_body(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    const entry *found = NULL;
    *all = 0;
    for (size_t k = 0; k < sizeof entries / sizeof entries[0]; k++)
        if ((int64_t)entries[k].mode == mode && takes(&heuristics->problem, entries[k].engine))
            found = (*all)++ == i ? &entries[k] : found;
    return found ? make_config(graph, found) : NULL;
}
