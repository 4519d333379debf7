/* counting.c - see counting.h. */
#include "counting.h"
#include "core/threads.h"
#include "device/cpu/cpu.h"

#include <string.h>

bool counting_own_memory;

/* The CPU, behind a call that is counted. */
static device *at(device *d, int *calls)
{
    ++*calls;
    return ((counting *)d)->cpu;
}
#define COUNT(of, call, ...)                                                                                         \
    device *cpu = at(d, &((counting *)d)->of);                                                                       \
    return cpu->call(cpu, __VA_ARGS__)

static void *get(device *d, size_t bytes)
{
    COUNT(memory, get, bytes);
}

static void put(device *d, void *block)
{
    device *cpu = at(d, &((counting *)d)->memory);
    cpu->put(cpu, block);
}

static uint64_t free_memory(device *d)
{
    return d->memory;
}

static brasa_status copy_in(device *d, void *to, const void *from, size_t bytes)
{
    COUNT(copies, copy_in, to, from, bytes);
}

static brasa_status copy_out(device *d, void *to, const void *from, size_t bytes)
{
    COUNT(copies, copy_out, to, from, bytes);
}

static brasa_status clear(device *d, void *to, size_t bytes)
{
    COUNT(copies, clear, to, bytes);
}

static brasa_status copy_async(device *d, device_stream q, void *to, const void *from, size_t bytes)
{
    COUNT(copies, copy_async, q, to, from, bytes);
}

static brasa_status event_record(device *d, device_stream q, device_event *m)
{
    COUNT(streams, event_record, q, m);
}

static brasa_status event_wait(device *d, device_event *m)
{
    COUNT(streams, event_wait, m);
}

static brasa_status run(device *d, step *steps, int count, void **record)
{
    counting *c = (counting *)d;
    int threads = 1;
    threads_state saved;
    (void)record;
    for (int i = 0; i < count; i++)
        threads = steps[i].threads > threads ? steps[i].threads : threads;
    brasa_status status = threads_enter(d->data, threads, &saved);
    for (int i = 0; i < count && status == BRASA_OK; i++, c->steps++)
        status = steps[i].kernel->run(&steps[i]);
    threads_leave(saved, threads);
    return status;
}

static void close_device(device *d)
{
    counting *c = (counting *)d;
    c->cpu->close(c->cpu);
    mem_put(d->data, c);
}

brasa_status counting_open(brasa_context *ctx, device **out)
{
    counting *c = mem_get(ctx, sizeof *c);
    const brasa_status status = c ? cpu_open(ctx, &c->cpu) : fail_memory(ctx, sizeof *c);
    if (status != BRASA_OK) {
        mem_put(ctx, c);
        return status;
    }
    device *d = *out = &c->device;
    *d = *c->cpu; /* what is not counted is the CPU's */
    strcpy(d->name, "counting");
    d->get = get;
    d->put = put;
    d->copy_in = copy_in;
    d->copy_out = copy_out;
    d->clear = clear;
    d->copy_async = copy_async;
    d->event_record = event_record;
    d->event_wait = event_wait;
    d->run = run;
    d->close = close_device;
    if (counting_own_memory) {
        d->host_memory = false;
        d->memory = UINT64_C(1) << 40;
        d->free_memory = free_memory;
        d->most_pending = DEVICE_MOST_PENDING;
    }
    return BRASA_OK;
}
