/* device.h - devices other than this CPU.
 *
 * A backend is a shared library beside the program, brasa_<name>.so, opened when a context asks for one of its
 * devices; so one program runs on machines with and without a GPU. It brings memory, copies, a queue in which kernels
 * are started, and kernels: files in the ops' folders, listed in ops.def as those of the CPU are. Graph passes,
 * networks, training and the program know nothing more of a device than this page.
 *
 * Library and program are made of the same sources: they share structures, and what is in core/ is linked into both.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "ops/op.h"

typedef struct device device;

/* A device has two streams: steps run in one, and so does all else that names none; the other one is for copies that
 * are under way meanwhile. The work in a stream is done in order; one stream waits for the other by events alone. */
typedef enum device_stream { STREAM_COMPUTE, STREAM_COPIES } device_stream;

/* A point in a stream. */
typedef struct device_event device_event;

/* One that a context works on. What gives numbers to the host waits for them, but for the `later` ones. */
struct device {
    char name[80];         /* "cuda:0 NVIDIA H200" */
    char about[160];       /* versions: "driver 13.0, cuDNN 9.14.0, cuBLASLt 13.1" */
    char missing[480];     /* what is not there and what that costs, or "": a reason for each library */
    char warning[240];     /* what it cannot do as it should from now on; who tells it makes it "" */
    char address[24];      /* on the PCI bus, "0000:3b:00.0", by which NVML knows it; "": it has none */
    const kernel *kernels; /* fastest first for each op, ended by one without a name */
    unsigned fuse;         /* which of FUSE_ACTIVATIONS, ... its kernels can do */
    bool gather_updates;   /* it runs updates faster if they stand together: see gather.c */
    uint64_t memory;       /* bytes that it has */
    void *queue;           /* step.queue */
    void *data;            /* the backend's own */

    /* Memory for tensors, aligned to 256; NULL: there is not so much. */
    void *(*get)(device *d, size_t bytes);
    void (*put)(device *d, void *block);
    /* Bytes of its memory that are free now. */
    uint64_t (*free_memory)(device *d);
    /* From the host: when it comes back, `from` may change. To the host: waits for all that was started before. */
    brasa_status (*copy_in)(device *d, void *to, const void *from, size_t bytes);
    brasa_status (*copy_out)(device *d, void *to, const void *from, size_t bytes);
    brasa_status (*copy)(device *d, void *to, const void *from, size_t bytes);
    brasa_status (*clear)(device *d, void *to, size_t bytes);
    brasa_status (*wait)(device *d);

    /* Memory of the host that the device reads and writes by itself; NULL: there is not so much. */
    void *(*get_pinned)(device *d, size_t bytes);
    void (*put_pinned)(device *d, void *block);
    /* Starts a copy from pinned memory, or to it. Both sides are the device's until an event behind it has passed. */
    brasa_status (*copy_async)(device *d, device_stream q, void *to, const void *from, size_t bytes);
    device_event *(*event_new)(device *d);
    void (*event_free)(device *d, device_event *m);
    /* Puts an event behind all that was started in a stream. */
    brasa_status (*event_record)(device *d, device_stream q, device_event *m);
    /* Has a stream, or the host, wait until an event has passed, as it was recorded last. One that was never recorded
     * has passed. */
    brasa_status (*stream_wait)(device *d, device_stream q, device_event *m);
    brasa_status (*event_wait)(device *d, device_event *m);

    /* Runs steps in their order. *record is NULL the first time; the device keeps there what makes it quicker the
     * next time (a recorded graph), until forget: the steps and their addresses stay the same so long. */
    brasa_status (*run)(device *d, step *steps, int count, void **record);
    void (*forget)(device *d, void *record);
    /* Runs the first of these steps and those that `run` would start together with it; tells how many that were, and
     * how long the device took for them. */
    brasa_status (*time)(device *d, const step *steps, int count, int *ran, int64_t *nanoseconds);
    /* Runs one step again and again, as it runs in a recorded graph, and takes `times` times. NULL: `time` does. */
    brasa_status (*repeat)(device *d, const step *s, int times, int64_t *nanoseconds);

    /* What its libraries chose by the clock is kept on disk. `record` writes what was chosen for programs of this
     * context, for a run's record; `recall` reads such a file: what it says holds for programs that are made from now
     * on. One that is not there says nothing. After `disuse` what was chosen so far is none of the run's, unless it
     * was recalled. NULL: nothing is chosen. */
    brasa_status (*record)(device *d, const char *path);
    brasa_status (*recall)(device *d, const char *path);
    void (*disuse)(device *d);
    /* While nodes are given their kernels: which one that is, and who is told before a library's are timed for it, as
     * in brasa_tuning. NULL: nobody. */
    bool (*watch)(void *user, int64_t done, int64_t total, const char *note);
    void *watcher;
    int64_t chosen, to_choose;

    void (*close)(device *d);
};

/* What a library offers for a problem in one way, and what came of it. */
typedef struct device_way {
    int engines;         /* that may be taken */
    int compiled;        /* left out: they would be compiled every time */
    int timed;           /* configurations of these engines that ran */
    int64_t nanoseconds; /* of the fastest; 0: none ran */
    int64_t workspace;   /* its bytes */
} device_way;

enum { DEVICE_MOST_WAYS = 2, DEVICE_ENGINE_SIZE = 200 };

/* A choice that a kernel made by the clock when its node was opened: for explain. */
typedef struct device_choice {
    const char *problem; /* in words: nodes of the same share it */
    int ways, taken;
    const char *name[DEVICE_MOST_WAYS];
    device_way way[DEVICE_MOST_WAYS];
    char engine[DEVICE_ENGINE_SIZE]; /* that was taken */
} device_choice;

/* A kernel that a backend lists: the op by its name, as `kernel.op` is known to the program only. */
typedef struct backend_kernel {
    const char *op; /* NULL ends the list */
    kernel kernel;
} backend_kernel;

/* Structures that library and program share: enough to tell a library of another build apart. */
typedef struct backend_sizes {
    size_t context, graph, value, node, step, kernel, device;
} backend_sizes;
#define BACKEND_SIZES                                                                                                \
    {                                                                                                                \
        sizeof(brasa_context), sizeof(graph), sizeof(value), sizeof(node), sizeof(step), sizeof(kernel),             \
            sizeof(device)                                                                                           \
    }

#define BACKEND_VERSION BRASA_VERSION " " BRASA_SHARED /* cmake/shared_headers.cmake */

/* What a backend's library exports, as `brasa_backend`. */
typedef struct backend {
    /* brasa_version and a hash of the headers that are shared, and the sizes of what is in them: those of the
     * program, or it is refused. */
    const char *version;
    backend_sizes sizes;
    const backend_kernel *const *kernels; /* the lists of all ops; NULL ends them */
    /* Opens device number `index`; the text says what is missing and what to do about it. */
    brasa_status (*open)(brasa_context *ctx, int index, device **out);
    /* One line for each device or for what is missing: `brasa doctor` prints it. Returns how many there are. */
    int (*list)(void (*say)(void *user, const char *line), void *user);
} backend;

/* What `brasa doctor` says of a backend: as backend.list, or why it cannot be opened. */
int backend_list(const char *name, void (*say)(void *user, const char *line), void *user);

/* --- the host's memory and a device's, in one form: without a device these are memcpy and memset --------------- */

/* mem_get_large, or memory of the device. */
void *tensors_get(brasa_context *ctx, size_t bytes, char **start);
void tensors_put(brasa_context *ctx, void *block);
brasa_status tensors_clear(brasa_context *ctx, void *to, size_t bytes);
/* From one place of it to another. */
brasa_status tensors_copy(brasa_context *ctx, void *to, const void *from, size_t bytes);
/* From the host and to it. */
brasa_status device_copy_in(brasa_context *ctx, void *to, const void *from, size_t bytes);
brasa_status device_copy_out(brasa_context *ctx, void *to, const void *from, size_t bytes);

#endif
