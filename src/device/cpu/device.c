/* device.c - the CPU as a device: its memory is the host's, its streams are in order, and what a call starts is done
 * when it returns. Steps are run by the step loop itself (graph/exec.c). */
#include "device/device.h"
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <string.h>

static void *cpu_get(device *d, size_t bytes)
{
    return mem_get_large(d->data, bytes);
}

static void cpu_put(device *d, void *block)
{
    mem_put_large(d->data, block);
}

static void *cpu_get_pinned(device *d, size_t bytes)
{
    return mem_get(d->data, bytes);
}

static void cpu_put_pinned(device *d, void *block)
{
    mem_put(d->data, block);
}

static brasa_status cpu_copy(device *d, void *to, const void *from, size_t bytes)
{
    (void)d;
    memcpy(to, from, bytes);
    return BRASA_OK;
}

static brasa_status cpu_copy_async(device *d, device_stream q, void *to, const void *from, size_t bytes)
{
    (void)q;
    return cpu_copy(d, to, from, bytes);
}

static brasa_status cpu_clear(device *d, void *to, size_t bytes)
{
    (void)d;
    memset(to, 0, bytes);
    return BRASA_OK;
}

static brasa_status cpu_wait(device *d)
{
    (void)d;
    return BRASA_OK;
}

/* All events have passed. */
static device_event *cpu_event_new(device *d)
{
    return (device_event *)d;
}

static void cpu_event_free(device *d, device_event *m)
{
    (void)d, (void)m;
}

static brasa_status cpu_event_in_stream(device *d, device_stream q, device_event *m)
{
    (void)d, (void)q, (void)m;
    return BRASA_OK;
}

static brasa_status cpu_event_wait(device *d, device_event *m)
{
    (void)d, (void)m;
    return BRASA_OK;
}

static void cpu_close(device *d)
{
    mem_put(d->data, d);
}

brasa_status cpu_open(brasa_context *ctx, device **out)
{
    device *d = *out = mem_get(ctx, sizeof *d);
    if (!d)
        return fail_memory(ctx, sizeof *d);
    *d = (device){.name = "cpu",
                  .data = ctx,
                  .kernels = cpu_kernels,
                  .host_memory = true,
                  .float64 = true,
                  .precisions = 1u << BRASA_F32,
                  .fuse = FUSE_ALL,
                  .get = cpu_get,
                  .put = cpu_put,
                  .copy_in = cpu_copy,
                  .copy_out = cpu_copy,
                  .copy = cpu_copy,
                  .clear = cpu_clear,
                  .wait = cpu_wait,
                  .get_pinned = cpu_get_pinned,
                  .put_pinned = cpu_put_pinned,
                  .copy_async = cpu_copy_async,
                  .event_new = cpu_event_new,
                  .event_free = cpu_event_free,
                  .event_record = cpu_event_in_stream,
                  .stream_wait = cpu_event_in_stream,
                  .event_wait = cpu_event_wait,
                  .close = cpu_close};
    snprintf(d->where, sizeof d->where, "%d thread%s", ctx->threads, ctx->threads == 1 ? "" : "s");
    return BRASA_OK;
}
