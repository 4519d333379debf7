/* fake_cudnn.h - what stands in for cuDNN, in a test that has the files that call it: engines that the test makes up,
 * which take their time by the clock of cudart.h. Descriptors are counted; one that is used after its end, or before
 * it is finished, fails the test.
 */
#ifndef TEST_FAKE_CUDNN_H
#define TEST_FAKE_CUDNN_H

#include "cudart.h"
#include "test.h"

#include "device/cuda/cudnn.h"

/* An engine in one configuration, as the heuristics list it. Its knobs are 1, 2, ..., at `value`, `value` + 1, ... */
typedef struct made_engine {
    int64_t index;
    int way;
    enum { LIST_A, LIST_B, LIST_FALLBACK } list;
    int knobs;
    int64_t value;
    unsigned notes, behaves; /* bit n: it has that note */
    bool silent;             /* it does not tell its notes */
    int64_t workspace;
    double ms;           /* in a recorded graph */
    double starting;     /* more, where it is started by itself */
    double loading;      /* more, the first time */
    cudnnStatus_t plans; /* what a plan of it says when it is made */
    cudnnStatus_t runs;  /* what it says when it is run */
    enum { CAN_BE_RECORDED, REFUSES_TO_BE, SPOILS_THE_GRAPH } recording;
    enum { WRITES_WHAT_IS_RIGHT, WRITES_WHAT_IS_WRONG, WRITES_NOTHING } writes;
} made_engine;

enum { MOST_ENGINES = 64, MOST_GIVEN = 64 /* knobs */, RIGHT = 0x55, WRONG = 0x66 /* results */ };

/* A descriptor. */
typedef struct thing {
    cudnnBackendDescriptorType_t type;
    bool finished, handle;
    int way;                 /* of a graph */
    struct thing *graph;     /* that an engine, a configuration, a plan or a list is for */
    const made_engine *made; /* what these are of */
    int64_t index;
    cudnnBackendHeurMode_t mode;
    int knobs;
    struct cudnn_knob knob[MOST_GIVEN];
    int64_t uids[CUDNN_MOST_TENSORS], count;
    char *data[CUDNN_MOST_TENSORS], *workspace;
    struct thing *next;
} thing;

static struct {
    const made_engine *made;
    int count;
    thing *things;      /* all that are there */
    int calls, fail_at; /* the call that fails, from 1; 0: none */
    int planned, executed;
    int ran[MOST_ENGINES];          /* times that each was started */
    cudaError_t error;              /* of CUDA's, that a run which fails leaves behind; 0: it does not know why */
    unsigned asked;                 /* bit i: that list was */
    bool old;                       /* a plan wants the handle; else it does not take it */
    cudnnHandle_t handle;           /* that all should be for */
    unsigned uses[CUDNN_MOST_WAYS]; /* bit i: the way has tensor i */
    int result;                     /* the tensor that engines write, and its bytes */
    int64_t bytes;
} fake;

/* --- descriptors ----------------------------------------------------------------------------------------------- */

static bool is_there(const thing *t)
{
    const thing *known = fake.things;
    while (known && known != t)
        known = known->next;
    return known != NULL;
}

/* What every call begins with. */
static cudnnStatus_t enter(const thing *t)
{
    if (++fake.calls == fake.fail_at)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    return CHECK(is_there(t)) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static cudnnStatus_t make_thing(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *to)
{
    if (++fake.calls == fake.fail_at)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    thing *t = calloc(1, sizeof *t);
    t->type = type;
    t->next = fake.things;
    *to = fake.things = t;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t end_thing(cudnnBackendDescriptor_t d)
{
    thing **at = &fake.things;
    while (*at && *at != d)
        at = &(*at)->next;
    if (!CHECK(*at != NULL))
        return CUDNN_STATUS_BAD_PARAM;
    *at = (*at)->next;
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

/* Descriptors that are given to another one. */
static bool are_finished(const cudnnBackendDescriptor_t *list, int64_t count)
{
    bool all = true;
    for (int64_t i = 0; i < count && all; i++)
        all = CHECK(is_there(list[i])) && CHECK(((const thing *)list[i])->finished);
    return all;
}

static void copy_knobs(thing *t, const cudnnBackendDescriptor_t *list, int64_t count)
{
    t->knobs = (int)count;
    for (int i = 0; i < t->knobs && i < MOST_GIVEN; i++)
        t->knob[i] = ((const thing *)list[i])->knob[0];
}

static cudnnStatus_t set_attribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, int64_t count, const void *from)
{
    thing *t = d;
    const cudnnStatus_t status = enter(t);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    const cudnnBackendDescriptor_t *list = type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? from : NULL;
    if (!CHECK(!t->finished) || (list && !are_finished(list, count)))
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    switch (name) {
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE:
        CHECK(*(const cudnnHandle_t *)from == fake.handle);
        break;
    case CUDNN_ATTR_OPERATIONGRAPH_OPS:
        t->way = (int)count - 1;
        break;
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
    case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
        t->graph = list[0];
        break;
    case CUDNN_ATTR_ENGINEHEUR_MODE:
        t->mode = *(const cudnnBackendHeurMode_t *)from;
        break;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        t->index = *(const int64_t *)from;
        CHECK(t->index >= 0);
        break;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
        t->knob[0].type = (int)*(const cudnnBackendKnobType_t *)from;
        break;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
        t->knob[0].value = *(const int64_t *)from;
        break;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
        copy_knobs(t, list, count);
        break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
        t->graph = ((const thing *)list[0])->graph;
        t->made = ((const thing *)list[0])->made;
        break;
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
        t->handle = *(const cudnnHandle_t *)from == fake.handle;
        return fake.old ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
        t->count = count;
        memcpy(t->uids, from, (size_t)count * sizeof t->uids[0]);
        break;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
        memcpy(t->data, from, (size_t)count * sizeof t->data[0]);
        break;
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
        t->workspace = *(char *const *)from;
        break;
    default: /* of tensors and operations, which are not looked at */
        break;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* --- engines --------------------------------------------------------------------------------------------------- */

static bool has_knobs(const made_engine *e, const thing *config)
{
    bool same = e->knobs == config->knobs;
    for (int i = 0; i < e->knobs && same; i++)
        same = config->knob[i].type == i + 1 && config->knob[i].value == e->value + i;
    return same;
}

/* One of a graph's: any of this index, or that of a configuration; NULL: there is none. */
static const made_engine *find_engine(const thing *of, int64_t index, const thing *config)
{
    for (int i = 0; i < fake.count; i++)
        if (fake.made[i].way == of->way && fake.made[i].index == index &&
            (!config || has_knobs(&fake.made[i], config)))
            return &fake.made[i];
    return NULL;
}

static cudnnStatus_t finish_thing(cudnnBackendDescriptor_t d)
{
    thing *t = d;
    cudnnStatus_t status = enter(t);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (t->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        fake.planned++;
        status = fake.old && !t->handle ? CUDNN_STATUS_BAD_PARAM : t->made->plans;
    } else if (t->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR) {
        t->made = find_engine(t->graph, t->index, NULL);
        status = t->made ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    } else if (t->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) {
        t->made = find_engine(t->graph, t->made->index, t);
        status = t->made ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    }
    t->finished = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* Makes a descriptor what is asked for, as if it had been finished by hand. */
static thing *give(cudnnBackendDescriptor_t d, cudnnBackendDescriptorType_t type, const thing *from,
                   const made_engine *made_of)
{
    thing *t = d;
    if (!CHECK(is_there(t)) || !CHECK(t->type == type) || !CHECK(!t->finished))
        return t;
    t->graph = from->graph;
    t->made = made_of;
    t->finished = true;
    return t;
}

static int64_t give_listed(const thing *t, int64_t count, const cudnnBackendDescriptor_t *to)
{
    const int list = t->mode == CUDNN_HEUR_MODE_A ? LIST_A : t->mode == CUDNN_HEUR_MODE_B ? LIST_B : LIST_FALLBACK;
    int64_t found = 0;
    fake.asked |= 1u << list;
    for (int i = 0; i < fake.count; i++) {
        const made_engine *e = &fake.made[i];
        if (e->way != t->graph->way || (int)e->list != list)
            continue;
        if (found < count)
            give(to[found], CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, t, e);
        found++;
    }
    return found;
}

static int64_t give_notes(unsigned notes, int64_t count, unsigned *to)
{
    int64_t found = 0;
    for (unsigned note = 32; note-- > 0;) {
        if (!(notes >> note & 1))
            continue;
        if (found < count)
            to[found] = note;
        found++;
    }
    return found;
}

static int64_t give_knobs(const thing *t, int64_t count, const cudnnBackendDescriptor_t *to)
{
    for (int i = 0; i < t->made->knobs && i < count; i++)
        give(to[i], CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, t, t->made)->knob[0] =
            (struct cudnn_knob){i + 1, t->made->value + i};
    return t->made->knobs;
}

static cudnnStatus_t get_attribute(cudnnBackendDescriptor_t const d, cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, int64_t count, int64_t *got, void *to)
{
    const thing *t = d;
    const cudnnStatus_t status = enter(t);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (!CHECK(t->finished))
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    const cudnnBackendDescriptor_t *list = type == CUDNN_TYPE_BACKEND_DESCRIPTOR ? to : NULL;
    *got = 1;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        *got = give_listed(t, count, list);
        break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        give(list[0], CUDNN_BACKEND_ENGINE_DESCRIPTOR, t, t->made);
        break;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
        *got = give_knobs(t, count, list);
        break;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        *(int64_t *)to = t->made->index;
        break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        *got = give_notes(t->made->notes, count, to);
        return t->made->silent ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
        *got = give_notes(t->made->behaves, count, to);
        break;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
        *(cudnnBackendKnobType_t *)to = (cudnnBackendKnobType_t)t->knob[0].type;
        break;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
        *(int64_t *)to = t->knob[0].value;
        break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *(int64_t *)to = t->made->workspace;
        break;
    default:
        test_fail(__FILE__, __LINE__, "attribute %d is not known", (int)name);
        return CUDNN_STATUS_BAD_PARAM;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* Whether a pack is for a way's tensors; its result is *y then. */
static bool fits(const thing *pack, int way, char **y)
{
    unsigned uses = 0;
    for (int64_t i = 0; i < pack->count; i++) {
        uses |= 1u << (pack->uids[i] - 1);
        *y = pack->uids[i] == fake.result + 1 ? pack->data[i] : *y;
    }
    return uses == fake.uses[way] && *y;
}

static cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    const thing *p = plan, *v = pack;
    cudnnStatus_t status = enter(p);
    char *y = NULL;
    if (status == CUDNN_STATUS_SUCCESS && !(CHECK(is_there(v)) && CHECK(is_there(p->graph)) && CHECK(v->finished) &&
                                            CHECK(fits(v, p->graph->way, &y)) && CHECK(handle == fake.handle)))
        status = CUDNN_STATUS_BAD_PARAM;
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    const made_engine *e = p->made;
    int *ran = &fake.ran[e - fake.made];
    fake.executed++;
    if (cudart.recording && e->recording == REFUSES_TO_BE)
        return CUDNN_STATUS_NOT_SUPPORTED;
    cudart.spoilt = cudart.recording && (cudart.spoilt || e->recording == SPOILS_THE_GRAPH);
    if (e->runs != CUDNN_STATUS_SUCCESS) {
        cudart.last = fake.error ? fake.error : cudaErrorUnknown; /* a kernel that was not started says so */
        return e->runs;
    }
    if (e->workspace && CHECK(v->workspace != NULL) && CHECK((uintptr_t)v->workspace % 256 == 0))
        v->workspace[0] = v->workspace[e->workspace - 1] = 1;
    if (!cudart.recording && e->writes != WRITES_NOTHING)
        memset(y, e->writes == WRITES_WHAT_IS_RIGHT ? RIGHT : WRONG, (size_t)fake.bytes);
    cudart_work(e->ms + (cudart.recording ? 0 : e->starting) + (*ran ? 0 : e->loading));
    ++*ran;
    return CUDNN_STATUS_SUCCESS;
}

static const char *error_words(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "success" : "an error";
}

static void last_error_words(char *to, size_t size)
{
    snprintf(to, size, "and why");
}

/* The functions that are called once it is open. */
static const cudnn fake_cudnn = {.GetErrorString = error_words,
                                 .GetLastErrorString = last_error_words,
                                 .BackendCreateDescriptor = make_thing,
                                 .BackendDestroyDescriptor = end_thing,
                                 .BackendSetAttribute = set_attribute,
                                 .BackendGetAttribute = get_attribute,
                                 .BackendFinalize = finish_thing,
                                 .BackendExecute = execute};

#endif
