/* cuda.c - a device that is none: brasa_cuda.so for tests, found by BRASA_BACKENDS. Its memory is the host's, its
 * kernels are the CPU's reference ones, so that everything around a device can be tested where there is no GPU.
 *
 * It does what it is given as late as it may: a step or a copy is only noted, and done when somebody waits for it or
 * for what comes after it. Who writes over memory that a copy has still to read, or reads what was not waited for,
 * gets wrong numbers here, every time. With FAKE_CUDA_COPIES=early its second queue does the opposite: it copies as
 * soon as marks let it, into memory that somebody may have still to read.
 *
 * FAKE_CUDA_WARNING is what it warns of when a program runs for the second time.
 *
 * FAKE_CUDA_MEMORY is the size of its memory in bytes, 16 GiB without it. FAKE_CUDA_KERNELS names the real
 * brasa_cuda.so, whose kernels it then has: plans are those of a Hopper without cuDNN and cuBLASLt, and nothing runs.
 */
#define _GNU_SOURCE
#ifdef FAKE_CUDA_PLANS
#include "device/cuda/cuda.h"
#endif
#include "device/device.h"
#include "core/threads.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the queues ------------------------------------------------------------------------------------------------ */

typedef struct task {
    enum { TASK_COPY, TASK_CLEAR, TASK_RUN, TASK_SET, TASK_FOLLOW } kind;
    void *to;
    const void *from;
    size_t bytes;
    void *owned; /* freed afterwards, or NULL */
    const step *steps;
    int count;
    device_event *event;
    int64_t turn; /* of the device_event */
} task;

/* It has been set so many times, and passed so many times. */
struct device_event {
    device_stream where;
    int64_t set, passed;
};

typedef struct queue {
    task *tasks;
    int first, count, capacity;
} queue;

typedef struct block {
    void *data;
    size_t bytes;
} block;

typedef struct fake {
    device device;
    brasa_context *ctx;
    queue queues[2];
    bool early;
    block *blocks;
    int nblocks, block_capacity;
    uint64_t used;
    bool warned;         /* of FAKE_CUDA_WARNING */
    bool plans;          /* kernels of the real library: nothing can run */
    brasa_status status; /* of what was done late */
    void *queue;         /* of such kernels */
} fake;

/* This library's own copy of an op: kernels compare addresses. */
static const op_def *own_op(const op_def *op)
{
    for (int i = 0; op_at(i); i++)
        if (strcmp(op_at(i)->name, op->name) == 0)
            return op_at(i);
    return NULL;
}

static brasa_status run_one(const step *s)
{
    node n = *s->node;
    step own = *s;
    n.op = own_op(n.op);
    own.node = &n;
    return s->kernel->run(&own);
}

static brasa_status run_steps(const fake *f, const step *steps, int count)
{
    int threads = 1;
    threads_state saved;
    if (f->plans)
        return fail(f->ctx, BRASA_INTERNAL, "the fake device has kernels to plan with only");
    for (int i = 0; i < count; i++)
        threads = steps[i].threads > threads ? steps[i].threads : threads;
    brasa_status status = threads_enter(f->ctx, threads, &saved);
    if (status != BRASA_OK)
        return status;
    for (int i = 0; i < count && status == BRASA_OK; i++)
        status = run_one(&steps[i]);
    threads_leave(saved, threads);
    return status;
}

/* Of SGD: that it is there makes updates stand side by side. */
static brasa_status run_many(const step *const *steps, int count)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; i < count && status == BRASA_OK; i++)
        status = run_one(steps[i]);
    return status;
}

static void pass(fake *f, const device_event *m, int64_t turn);

static void do_task(fake *f, task *t)
{
    if (t->kind == TASK_COPY)
        memmove(t->to, t->from, t->bytes);
    else if (t->kind == TASK_CLEAR)
        memset(t->to, 0, t->bytes);
    else if (t->kind == TASK_SET)
        t->event->passed = t->turn;
    else if (t->kind == TASK_FOLLOW)
        pass(f, t->event, t->turn);
    else if (f->status == BRASA_OK)
        f->status = run_steps(f, t->steps, t->count);
    free(t->owned);
}

static void take_first(fake *f, queue *q)
{
    task t = q->tasks[q->first++];
    if (--q->count == 0)
        q->first = 0;
    do_task(f, &t);
}

/* What the second queue may do without anybody waiting for it. */
static void hurry(fake *f)
{
    queue *q = &f->queues[STREAM_COPIES];
    while (f->early && q->count) {
        const task *t = &q->tasks[q->first];
        if (t->kind == TASK_FOLLOW && t->event->passed < t->turn)
            return;
        take_first(f, q);
    }
}

static void take_step(fake *f)
{
    take_first(f, &f->queues[STREAM_COMPUTE]);
    hurry(f);
}

/* Does what stands before a mark. */
static void pass(fake *f, const device_event *m, int64_t turn)
{
    while (m->passed < turn && f->queues[m->where].count) {
        if (m->where == STREAM_COMPUTE)
            take_step(f);
        else
            take_first(f, &f->queues[STREAM_COPIES]);
    }
}

static brasa_status add(fake *f, device_stream where, task t)
{
    queue *q = &f->queues[where];
    if (q->first + q->count == q->capacity) {
        const int capacity = q->capacity ? 2 * q->capacity : 64;
        task *grown = realloc(q->tasks, (size_t)capacity * sizeof *grown);
        if (!grown) {
            free(t.owned);
            return fail_memory(f->ctx, (size_t)capacity * sizeof *grown);
        }
        q->tasks = grown;
        q->capacity = capacity;
    }
    q->tasks[q->first + q->count++] = t;
    hurry(f);
    return BRASA_OK;
}

static void do_steps(fake *f)
{
    while (f->queues[STREAM_COMPUTE].count)
        take_step(f);
}

/* As on a GPU, of the queue of steps alone. */
static brasa_status wait_all(device *d)
{
    fake *f = d->data;
    do_steps(f);
    const brasa_status status = f->status;
    f->status = BRASA_OK;
    return status;
}

static device_event *event_new(device *d)
{
    (void)d;
    return calloc(1, sizeof(device_event));
}

static void event_free(device *d, device_event *m)
{
    fake *f = d->data;
    pass(f, m, m->set);
    free(m);
}

static brasa_status event_record(device *d, device_stream where, device_event *m)
{
    m->where = where;
    m->set++;
    return add(d->data, where, (task){.kind = TASK_SET, .event = m, .turn = m->set});
}

static brasa_status stream_wait(device *d, device_stream where, device_event *m)
{
    return add(d->data, where, (task){.kind = TASK_FOLLOW, .event = m, .turn = m->set});
}

static brasa_status event_wait(device *d, device_event *m)
{
    fake *f = d->data;
    pass(f, m, m->set);
    const brasa_status status = f->status;
    f->status = BRASA_OK;
    return status;
}

/* --- memory ---------------------------------------------------------------------------------------------------- */

static void *get(device *d, size_t bytes)
{
    fake *f = d->data;
    const size_t whole = (bytes + 256) / 256 * 256;
    if (f->used + whole > d->memory)
        return NULL;
    if (f->nblocks == f->block_capacity) {
        const int capacity = f->block_capacity ? 2 * f->block_capacity : 16;
        block *grown = realloc(f->blocks, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        f->blocks = grown;
        f->block_capacity = capacity;
    }
    void *data = aligned_alloc(256, whole);
    if (!data)
        return NULL;
    f->blocks[f->nblocks++] = (block){data, whole};
    f->used += whole;
    return data;
}

static void put(device *d, void *data)
{
    fake *f = d->data;
    do_steps(f);
    while (f->queues[STREAM_COPIES].count)
        take_first(f, &f->queues[STREAM_COPIES]);
    for (int i = 0; i < f->nblocks; i++)
        if (f->blocks[i].data == data) {
            f->used -= f->blocks[i].bytes;
            f->blocks[i] = f->blocks[--f->nblocks];
            break;
        }
    free(data);
}

/* The host's own. */
static void *get_pinned(device *d, size_t bytes)
{
    (void)d;
    void *pinned = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (pinned)
        memset(pinned, 0, bytes);
    return pinned;
}

static void put_pinned(device *d, void *data)
{
    (void)d;
    free(data);
}

static uint64_t free_memory(device *d)
{
    const fake *f = d->data;
    return d->memory - f->used;
}

static brasa_status copy(device *d, void *to, const void *from, size_t bytes)
{
    fake *f = d->data;
    return add(f, STREAM_COMPUTE, (task){.kind = TASK_COPY, .to = to, .from = from, .bytes = bytes});
}

static brasa_status copy_async(device *d, device_stream where, void *to, const void *from, size_t bytes)
{
    return add(d->data, where, (task){.kind = TASK_COPY, .to = to, .from = from, .bytes = bytes});
}

static brasa_status copy_in(device *d, void *to, const void *from, size_t bytes)
{
    fake *f = d->data;
    void *owned = malloc(bytes + 1);
    if (!owned)
        return fail_memory(f->ctx, bytes);
    memcpy(owned, from, bytes);
    return add(f, STREAM_COMPUTE, (task){.kind = TASK_COPY, .to = to, .from = owned, .bytes = bytes, .owned = owned});
}

static brasa_status copy_out(device *d, void *to, const void *from, size_t bytes)
{
    const brasa_status status = wait_all(d);
    memcpy(to, from, bytes);
    return status;
}

static brasa_status clear(device *d, void *to, size_t bytes)
{
    fake *f = d->data;
    return add(f, STREAM_COMPUTE, (task){.kind = TASK_CLEAR, .to = to, .bytes = bytes});
}

/* --- steps ----------------------------------------------------------------------------------------------------- */

static brasa_status run(device *d, step *steps, int count, void **record)
{
    fake *f = d->data;
    const char *warning = getenv("FAKE_CUDA_WARNING");
    if (*record && warning && !f->warned) {
        f->warned = true;
        snprintf(d->warning, sizeof d->warning, "%s", warning);
    }
    *record = steps; /* anything: so that forget is called, which waits */
    return add(f, STREAM_COMPUTE, (task){.kind = TASK_RUN, .steps = steps, .count = count});
}

static void forget(device *d, void *record)
{
    (void)record;
    (void)wait_all(d);
}

/* Updates that stand side by side run together, as on a GPU: each launch takes a microsecond. */
static brasa_status time_steps(device *d, const step *steps, int count, int *ran, int64_t *nanoseconds)
{
    brasa_status status = wait_all(d);
    *ran = 1;
    while (*ran < count && steps[0].kernel->run_many && steps[*ran].kernel == steps[0].kernel)
        ++*ran;
    *nanoseconds = 1000;
    return status == BRASA_OK ? run_steps(d->data, steps, *ran) : status;
}

/* --- opening --------------------------------------------------------------------------------------------------- */

enum { MOST_KERNELS = 1024 };
static backend_kernel kernels[MOST_KERNELS + 1]; /* ended by one that is zero */
static const backend_kernel *lists[2] = {kernels, NULL};
static void *real_library;
static const backend *real;

/* A kernel of the real library that asks the GPU for memory gets none here, and needs none. */
static brasa_status open_to_plan(graph *g, node *n)
{
    for (int l = 0; real->kernels[l]; l++)
        for (const backend_kernel *k = real->kernels[l]; k->op; k++) {
            if (strcmp(k->kernel.name, n->kernel->name) != 0)
                continue;
            const brasa_status status = k->kernel.open(g, n);
            if (status == BRASA_INTERNAL)
                n->state = NULL;
            return status == BRASA_INTERNAL ? BRASA_OK : status;
        }
    return BRASA_NO_KERNEL;
}

/* Before anybody reads brasa_backend. */
__attribute__((constructor)) static void find_kernels(void)
{
    const char *path = getenv("FAKE_CUDA_KERNELS");
    int count = 0;
    real_library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    real = real_library ? dlsym(real_library, "brasa_backend") : NULL;
    for (int l = 0; real && real->kernels[l]; l++)
        for (const backend_kernel *k = real->kernels[l]; k->op && count < MOST_KERNELS; k++) {
            kernels[count] = *k;
            kernels[count++].kernel.open = k->kernel.open ? open_to_plan : NULL;
        }
    for (int i = 0; !real && op_at(i); i++)
        for (const kernel *k = NULL; (k = kernel_next(NULL, op_at(i), F32, k)) != NULL && count < MOST_KERNELS;)
            if (k->isa == ISA_ANY && strstr(k->name, "_ref")) {
                kernels[count] = (backend_kernel){op_at(i)->name, *k};
                kernels[count++].kernel.run_many = strcmp(op_at(i)->name, "sgd") == 0 ? run_many : NULL;
            }
}

static void close_device(device *d)
{
    fake *f = d->data;
    (void)wait_all(d);
    for (int i = 0; i < f->nblocks; i++)
        free(f->blocks[i].data);
    for (int i = 0; i < 2; i++)
        free(f->queues[i].tasks);
    free(f->blocks);
    free(f->queue);
    free(f);
}

/* Of such a GPU as the figures in the docs are of. */
static bool make_queue(fake *f)
{
#ifdef FAKE_CUDA_PLANS
    cuda_queue *q = calloc(1, sizeof *q);
    if (q)
        *q = (cuda_queue){.ctx = f->ctx, .processors = 132, .most_shared = 227 << 10, .major = 9};
    f->queue = q;
    return q != NULL;
#else
    (void)f;
    return true;
#endif
}

static brasa_status open_device(brasa_context *ctx, int index, device **out)
{
    const char *memory = getenv("FAKE_CUDA_MEMORY"), *copies = getenv("FAKE_CUDA_COPIES");
    if (index > 0)
        return fail(ctx, BRASA_NOT_FOUND, "cuda:%d: this machine has 1 GPU, numbered from 0", index);
    fake *f = calloc(1, sizeof *f);
    if (!f)
        return fail_memory(ctx, sizeof *f);
    f->ctx = ctx;
    f->early = copies && strcmp(copies, "early") == 0;
    f->plans = real != NULL;
    if (f->plans && !make_queue(f)) {
        free(f);
        return fail_memory(ctx, sizeof *f);
    }
    f->device = (device){.name = "cuda:0 fake",
                         .about = "no GPU: a stand-in for tests",
                         .address = "0000:01:00.0", /* that of fake/nvml.c's */
                         .fuse = FUSE_ACTIVATIONS | FUSE_RESIDUALS | FUSE_FLAT | FUSE_FOLD | FUSE_POOLS | FUSE_SUMS,
                         .takes_images = true,
                         .self_tuning = true,
                         .any_threads = true,
                         .telemetry = true,
                         .gather_updates = true,
                         .precisions = 1u << BRASA_F32 | 1u << BRASA_TF32 | 1u << BRASA_BF16,
                         .most_pending = DEVICE_MOST_PENDING,
                         .memory = memory ? strtoull(memory, NULL, 10) : 16ull << 30,
                         .queue = f->queue,
                         .data = f,
                         .get = get,
                         .put = put,
                         .free_memory = free_memory,
                         .copy_in = copy_in,
                         .copy_out = copy_out,
                         .copy = copy,
                         .clear = clear,
                         .wait = wait_all,
                         .get_pinned = get_pinned,
                         .put_pinned = put_pinned,
                         .copy_async = copy_async,
                         .event_new = event_new,
                         .event_free = event_free,
                         .event_record = event_record,
                         .stream_wait = stream_wait,
                         .event_wait = event_wait,
                         .run = run,
                         .forget = forget,
                         .time = time_steps,
                         .close = close_device};
    *out = &f->device;
    return BRASA_OK;
}

static int list(void (*say)(void *user, const char *line), void *user)
{
    const char *line = getenv("FAKE_CUDA_LINE");
    say(user, line ? line : "cuda:0 fake, a stand-in for tests");
    return 1;
}

BRASA_API const backend brasa_backend;
const backend brasa_backend = {
    .version = BACKEND_VERSION, .sizes = BACKEND_SIZES, .kernels = lists, .open = open_device, .list = list};
