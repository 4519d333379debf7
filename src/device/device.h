/* device.h - what a device is: memory, copies, streams, events, kernels and timing of one place that computes.
 *
 * A context has one device, at first the CPU (cpu/device.c). Code outside this folder asks for what a device can do,
 * by the fields below, never which one it is.
 *
 * Other devices are in backends. A backend is a shared library beside the program, brasa_<name>.so, opened when a
 * context asks for one of its devices; so one program runs on machines with and without a GPU. Its kernels are files
 * in the ops' folders, listed in ops.def as those of the CPU are.
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

enum { DEVICE_MOST_PENDING = 2 };

/* One that a context works on. What gives numbers to the host waits for them, but for the `later` ones. */
struct device {
    char name[80];     /* "cpu", "cuda:0 NVIDIA H200" */
    char where[80];    /* for headings: "2 threads"; the name, if the device leaves it empty */
    char about[160];   /* versions: "driver 13.0, cuDNN 9.14.0, cuBLASLt 13.1"; "": those of the program */
    char missing[480]; /* what is not there and what that costs, or "": a reason for each library */
    char warning[240]; /* what it cannot do as it should from now on; who tells it makes it "" */
    char address[24];  /* on the PCI bus, "0000:3b:00.0", by which NVML knows it; "": it has none */
    uint64_t memory;   /* bytes that it has; 0: the host's */
    void *queue;       /* step.queue */
    void *data;        /* the device's own */

    /* Kernel lists, ended by NULL: fastest first for each op, each list ended by a kernel without a name. */
    const kernel *const *kernels;

    /* What it can do. */
    bool host_memory;    /* its memory is the host's, which reads and writes tensors where they are */
    bool takes_images;   /* it crops, flips and normalizes images, which come as bytes */
    bool self_tuning;    /* its libraries choose kernels by the clock, unless a session says otherwise */
    bool any_threads;    /* results are the same with any number of threads */
    bool telemetry;      /* memory in use and utilization are readable while it works, by its address */
    bool float64;        /* it computes in double, too */
    bool gather_updates; /* it runs updates faster if they stand together: see gather.c */
    unsigned precisions; /* that it computes in: 1 << BRASA_F32, ... */
    unsigned fuse;       /* which of FUSE_ACTIVATIONS, ... its kernels can do */
    int most_pending;    /* steps that may be started before the results of the first are read: DEVICE_MOST_PENDING */

    /* Memory for tensors, aligned for the device's vectors; NULL: there is not so much. */
    void *(*get)(device *d, size_t bytes);
    void (*put)(device *d, void *block);
    /* Bytes of its memory that are free now. NULL: its memory is the host's. */
    uint64_t (*free_memory)(device *d);
    /* From the host: when it comes back, `from` may change. To the host: waits for all that was started before. */
    brasa_status (*copy_in)(device *d, void *to, const void *from, size_t bytes);
    brasa_status (*copy_out)(device *d, void *to, const void *from, size_t bytes);
    brasa_status (*copy)(device *d, void *to, const void *from, size_t bytes);
    brasa_status (*clear)(device *d, void *to, size_t bytes);
    brasa_status (*wait)(device *d);

    /* Memory of the host that the device reads and writes by itself, zeroed; NULL: there is not so much. */
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
     * next time (a recorded graph), until forget: the steps and their addresses stay the same so long. NULL: the host
     * runs each step's kernel. */
    brasa_status (*run)(device *d, step *steps, int count, void **record);
    void (*forget)(device *d, void *record);
    /* Runs the first of these steps and those that `run` would start together with it; tells how many that were, and
     * how long the device took for them. NULL: the host runs one, and looks at its own clock. */
    brasa_status (*time)(device *d, const step *steps, int count, int *ran, int64_t *nanoseconds);
    /* Runs one step again and again, as it runs in a recorded graph, and takes `times` times. NULL: `time` does. */
    brasa_status (*repeat)(device *d, const step *s, int times, int64_t *nanoseconds);

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

/* A device's name as brasa_context_use takes it, of the name in a run's record: "cuda:0" of "cuda:0 NVIDIA H200".
 * NULL, which records of older versions have, is "cpu". */
typedef struct device_word {
    char text[80];
} device_word;
device_word device_recorded(const char *name);
/* What computes, wherever in the machine it is: "NVIDIA H200" of "cuda:0 NVIDIA H200". */
const char *device_kind(const char *name);
/* Whether two such names are the same in all they say. */
bool device_same(const char *name, const char *other);

/* --- memory of a context's device ------------------------------------------------------------------------------ */

void *tensors_get(brasa_context *ctx, size_t bytes);
void tensors_put(brasa_context *ctx, void *block);
brasa_status tensors_clear(brasa_context *ctx, void *to, size_t bytes);
/* From one place of it to another. */
brasa_status tensors_copy(brasa_context *ctx, void *to, const void *from, size_t bytes);
/* From the host and to it. */
brasa_status device_copy_in(brasa_context *ctx, void *to, const void *from, size_t bytes);
brasa_status device_copy_out(brasa_context *ctx, void *to, const void *from, size_t bytes);

#endif
