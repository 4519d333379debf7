/* softgpu_rig.h - what the tests of the software GPU's libraries share: a stream that does nothing until it is told
 * to, numbers, and what a result may be off by. Include it after test.h. */
#ifndef TEST_SOFTGPU_RIG_H
#define TEST_SOFTGPU_RIG_H

#include "softgpu/soft.h"

#include <dlfcn.h>

/* --- the stream ------------------------------------------------------------------------------------------------ */

enum { RIG_MOST_TASKS = 64 };

static struct {
    int tasks, capturing;
    struct {
        cudaHostFn_t run;
        void *user;
    } task[RIG_MOST_TASKS];
    soft_span owned; /* all that is the GPU's memory, if there is something */
} rig;

__attribute__((visibility("default"))) cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t run,
                                                                      void *user)
{
    (void)stream;
    if (rig.tasks == RIG_MOST_TASKS)
        return cudaErrorUnknown;
    rig.task[rig.tasks].run = run;
    rig.task[rig.tasks++].user = user;
    return cudaSuccess;
}

__attribute__((visibility("default"))) cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                                                         enum cudaStreamCaptureStatus *to)
{
    (void)stream;
    *to = rig.capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

__attribute__((visibility("default"))) int softgpu_owns(const void *at, size_t bytes)
{
    const uintptr_t from = (uintptr_t)rig.owned.at, place = (uintptr_t)at;
    return !rig.owned.at || (place >= from && place + bytes <= from + rig.owned.bytes);
}

/* Does what is in the stream, as often as a graph is launched that it was captured into. */
static inline void rig_run(int times)
{
    for (int n = 0; n < times; n++)
        for (int i = 0; i < rig.tasks; i++)
            rig.task[i].run(rig.task[i].user);
    rig.tasks = 0;
}

/* The functions of a library, looked for by their names. */
static inline void *rig_open(const char *path)
{
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!file)
        printf("%s\n", dlerror());
    return file;
}

static inline bool rig_take(void *file, const char *name, void *to)
{
    void *found = dlsym(file, name);
    memcpy(to, &found, sizeof found);
    return found != NULL;
}

/* --- numbers --------------------------------------------------------------------------------------------------- */

/* Between -1 and 1, as they are stored; the same for the same seed. */
static inline void rig_fill(void *to, soft_type type, int64_t count, uint32_t seed)
{
    uint32_t state = seed * 2654435761u + 12345;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        soft_write(to, type, i, (float)(int32_t)state * 0x1p-31f);
    }
}

/* What a sum may be off by, whose terms' absolute values have this sum; `fraction`: the bits to which factors are
 * rounded. */
static inline double rig_allowed(double expected, double absolute, soft_type stored, int fraction)
{
    return absolute * (ldexp(1, -19) + ldexp(fraction ? 2 : 0, -fraction - 1)) +
           (stored == SOFT_BF16 ? fabs(expected) * ldexp(1, -8) : 0) + 1e-30;
}

/* Memory that lies at a multiple of 256 bytes. */
static inline void *rig_memory(size_t bytes)
{
    void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    if (memory)
        memset(memory, 0xff, bytes);
    return memory;
}

#endif
