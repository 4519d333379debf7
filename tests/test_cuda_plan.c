/* test_cuda_plan.c - what the kernels of brasa_cuda.so make of a network's memory, as far as that can be planned
 * without a GPU: the device is a stand-in without cuDNN and cuBLASLt, and nothing runs.
 */
#define _GNU_SOURCE /* readlink, setenv */
#include "test.h"

#if __has_include(<cuda_runtime.h>)

#include "device/cuda/cuda.h"
#include "device.h"
#include "session/session.h"

#include <dlfcn.h>

/* --- the stand-in ---------------------------------------------------------------------------------------------- */

enum { MOST_KERNELS = 512 };

static struct {
    void *library;
    cuda_queue queue;
    device device;
    const kernel *lists[2];
    kernel kernels[MOST_KERNELS];
} stand_in = {.queue = {.processors = 132, .most_shared = 227 << 10, .major = 9}};

static void *get(device *d, size_t bytes)
{
    (void)d;
    return malloc(bytes + 1);
}

static void put(device *d, void *block)
{
    (void)d;
    free(block);
}

static brasa_status clear(device *d, void *to, size_t bytes)
{
    (void)d;
    memset(to, 0, bytes);
    return BRASA_OK;
}

static const op_def *op_named(const char *name)
{
    for (int i = 0; op_at(i); i++)
        if (strcmp(op_at(i)->name, name) == 0)
            return op_at(i);
    return NULL;
}

static bool list_kernels(const backend *b)
{
    int count = 0;
    for (int l = 0; b->kernels[l]; l++)
        for (const backend_kernel *k = b->kernels[l]; k->op && count + 1 < MOST_KERNELS; k++) {
            stand_in.kernels[count] = k->kernel;
            stand_in.kernels[count].op = op_named(k->op);
            if (!strstr(k->kernel.name, "cudnn")) /* which opens the library */
                count++;
        }
    stand_in.kernels[count] = (kernel){0};
    stand_in.lists[0] = stand_in.kernels;
    return CHECK(count + 1 < MOST_KERNELS);
}

/* A context whose device has the kernels of brasa_cuda.so; NULL: this build has none. */
static brasa_context *context_new(void)
{
    char path[2200];
    brasa_context *ctx = NULL;
    device_set_folder();
    snprintf(path, sizeof path, "%.2000s/brasa_cuda.so", getenv("BRASA_BACKENDS") ? getenv("BRASA_BACKENDS") : ".");
    if (!stand_in.library && access(path, R_OK) == 0 && !(stand_in.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        test_fail(__FILE__, __LINE__, "%s", dlerror());
    const backend *b = stand_in.library ? dlsym(stand_in.library, "brasa_backend") : NULL;
    if (!b || !list_kernels(b))
        return NULL;
    CHECK_STATUS(brasa_context_new(NULL, &ctx), BRASA_OK);
    stand_in.queue.ctx = ctx;
    stand_in.device = (device){.name = "a stand-in",
                               .kernels = stand_in.lists,
                               .precisions = 1u << BRASA_F32 | 1u << BRASA_TF32 | 1u << BRASA_BF16,
                               .gather_updates = true,
                               .fuse = FUSE_ACTIVATIONS | FUSE_RESIDUALS | FUSE_FLAT | FUSE_FOLD | FUSE_UPDATES |
                                       FUSE_POOLS | FUSE_SUMS,
                               .queue = &stand_in.queue,
                               .get = get,
                               .put = put,
                               .clear = clear};
    ctx->device = &stand_in.device;
    return ctx;
}

static void context_free(brasa_context *ctx)
{
    ctx->device = NULL;
    brasa_context_free(ctx);
}

/* --- plans ----------------------------------------------------------------------------------------------------- */

static int count_nodes(const brasa_session *s, const char *op)
{
    int count = 0;
    for (int i = 0; i < s->current->graph.nnodes; i++)
        count += strcmp(s->current->graph.nodes[i].op->name, op) == 0;
    return count;
}

/* Reorders of matrices and of kernels of convolutions. */
static int copies_of_weights(const brasa_session *s)
{
    const graph *g = &s->current->graph;
    int count = 0;
    for (int i = 0; i < g->nnodes; i++) {
        const value *v = g->nodes[i].nin ? &g->values[g->nodes[i].in[0]] : NULL;
        count += g->nodes[i].op == &reorder_op && v->kind == VALUE_PARAM && v->shape.rank > 1;
    }
    return count;
}

static int64_t parameters(const brasa_session *s)
{
    int64_t count = 0;
    for (int i = 0; i < s->nstates; i++)
        count += s->states[i].kind == VALUE_PARAM ? shape_count(&s->states[i].shape) : 0;
    return count;
}

typedef struct plan_row {
    const char *network, *optimizer;
    int batch;
    int32_t precision;
    double clip;
    int parts;
    /* what must come of it: bytes of state for a parameter, megabytes of gradients at the fullest moment, nodes */
    double state;
    int64_t gradients;
    int updates;
} plan_row;

static void check_plan(brasa_context *ctx, const plan_row *row)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_session *s = NULL;
    brasa_memory m = {.size = sizeof m};
    const brasa_session_options o = {.size = sizeof o,
                                     .batch = row->batch,
                                     .optimizer = row->optimizer,
                                     .precision = row->precision,
                                     .clip_norm = row->clip,
                                     .micro_batches = row->parts,
                                     .plan_only = true};
    brasa_model_build(g, row->network, 3);
    if (brasa_session_new(g, &o, &s) != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s", brasa_graph_error(g));
    if (s) {
        CHECK_STATUS(brasa_session_memory(s, &m), BRASA_OK);
        if (tests.verbose)
            printf("%s: batch %d, %.0f MB: weights %.0f, optimizer %.0f, activations %.0f, gradients %.0f, workspace "
                   "%.0f\n",
                   row->network, row->batch, (double)m.total / 1e6, (double)m.weights / 1e6,
                   (double)m.optimizer / 1e6, (double)m.activations / 1e6, (double)m.gradients / 1e6,
                   (double)m.workspace / 1e6);
        const double bytes = (double)(m.weights + m.optimizer) / (double)parameters(s);
        if (!(bytes <= row->state + 0.05 && bytes >= row->state - 0.05)) /* vectors are floats, and all is aligned */
            test_fail(__FILE__, __LINE__, "a parameter takes %.2f bytes, expected %.2f", bytes, row->state);
        if ((int64_t)m.gradients > row->gradients * 1000000)
            test_fail(__FILE__, __LINE__, "gradients take %.0f MB, expected at most %lld", (double)m.gradients / 1e6,
                      (long long)row->gradients);
        CHECK_INT(count_nodes(s, "dense_update"), row->updates);
        CHECK_INT(count_nodes(s, "conv2d_update"), 0);
        CHECK_INT(row->precision == BRASA_BF16 ? copies_of_weights(s) : 0, 0);
    }
    brasa_session_free(s);
    brasa_graph_free(g);
}

TEST(memory)
{
    static const char sgd[] = "sgd lr=0.01 momentum=0.9";
    static const plan_row rows[] = {
        {"vgg16", sgd, 1, BRASA_BF16, 0, 0, 6, 45, 2},
        {"vgg16", sgd, 100, BRASA_BF16, 0, 0, 6, 250, 2},
        {"alexnet", sgd, 1, BRASA_BF16, 0, 0, 6, 10, 2},
        {"alexnet", sgd, 100, BRASA_BF16, 0, 0, 6, 50, 2},
        {"resnet50", sgd, 1, BRASA_BF16, 0, 0, 6, 45, 0},
        {"mobilenet_v2", sgd, 1, BRASA_BF16, 0, 0, 6.05, 15, 0}, /* kernels of depthwise convolutions are floats */
        {"googlenet", sgd, 1, BRASA_BF16, 0, 0, 6, 25, 0},
        {"alexnet", "adam", 1, BRASA_BF16, 0, 0, 12, 130, 0},
        {"alexnet", "adam", 100, BRASA_BF16, 0, 0, 12, 50, 2},
        {"alexnet", sgd, 1, BRASA_F32, 0, 0, 8, 260, 0},
        /* All gradients are wanted at once, or are kept over the parts of a batch. */
        {"alexnet", sgd, 1, BRASA_BF16, 1, 0, 6, 130, 0},
        {"alexnet", sgd, 100, BRASA_BF16, 0, 4, 6, 130, 0},
    };
    brasa_context *ctx = context_new();
    if (!ctx)
        SKIP("this build has no brasa_cuda.so");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s, %s, batch %d%s%s", rows[i].network, rows[i].optimizer, rows[i].batch,
             rows[i].clip ? ", clipped" : "", rows[i].parts ? ", in parts" : "");
        check_plan(ctx, &rows[i]);
    }
    context_free(ctx);
}

#else

TEST(memory)
{
    SKIP("CUDA's headers are not here");
}

#endif
