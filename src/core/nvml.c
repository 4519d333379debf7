/* nvml.c - see nvml.h. Functions and structures are those of NVIDIA's documentation; each has kept its form since it
 * got its name, as a new form gets a new number. */
#include "core/nvml.h"
#include "core/shared.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Results; 0 is success. */
enum { TOO_SMALL = 7 };

typedef struct memory_info {
    unsigned long long total, left, used;
} memory_info;

typedef struct utilization {
    unsigned gpu, memory;
} utilization;

typedef struct process_info {
    unsigned pid;
    unsigned long long bytes; /* all bits set: unknown */
    unsigned gpu_instance, compute_instance;
} process_info;

struct nvml {
    void *library;
    char why[160];
    const char *(*error_text)(int);
    int (*init)(void), (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, nvml_gpu **);
    int (*by_address)(const char *, nvml_gpu **);
    int (*driver)(char *, unsigned);
    int (*name)(nvml_gpu *, char *, unsigned);
    int (*memory)(nvml_gpu *, memory_info *);
    int (*utilization)(nvml_gpu *, utilization *);
    int (*power)(nvml_gpu *, unsigned *);            /* milliwatts */
    int (*energy)(nvml_gpu *, unsigned long long *); /* millijoules */
    int (*processes)(nvml_gpu *, unsigned *, process_info *);
};

/* Notes why; false. */
static bool failed(nvml *n, const char *what, int result)
{
    const char *text = n->error_text ? n->error_text(result) : NULL;
    snprintf(n->why, sizeof n->why, "not readable: NVML says of the %s: %.100s", what, text ? text : "an error");
    return false;
}

static bool lacks(nvml *n, const char *what)
{
    snprintf(n->why, sizeof n->why, "not readable: the driver's NVML is too old to tell the %s", what);
    return false;
}

/* POSIX has functions fit into a pointer to data; C does not. */
static void find(nvml *n, const char *name, void *function)
{
    void *found = dlsym(n->library, name);
    if (found)
        memcpy(function, &found, sizeof found);
}

static void find_all(nvml *n)
{
    find(n, "nvmlErrorString", &n->error_text);
    find(n, "nvmlInit_v2", &n->init);
    find(n, "nvmlShutdown", &n->shutdown);
    find(n, "nvmlDeviceGetCount_v2", &n->count);
    find(n, "nvmlDeviceGetHandleByIndex_v2", &n->by_index);
    find(n, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_address);
    find(n, "nvmlSystemGetDriverVersion", &n->driver);
    find(n, "nvmlDeviceGetName", &n->name);
    find(n, "nvmlDeviceGetMemoryInfo", &n->memory);
    find(n, "nvmlDeviceGetUtilizationRates", &n->utilization);
    find(n, "nvmlDeviceGetPowerUsage", &n->power);
    find(n, "nvmlDeviceGetTotalEnergyConsumption", &n->energy);
    find(n, "nvmlDeviceGetComputeRunningProcesses_v2", &n->processes);
    find(n, "nvmlDeviceGetComputeRunningProcesses_v3", &n->processes); /* the same form, and newer */
}

/* The library's file, or NULL: it is not wanted. */
static const char *library_name(void)
{
    const char *given = getenv("BRASA_NVML");
    if (!given || !*given)
        return "libnvidia-ml.so.1";
    return strcmp(given, "off") == 0 ? NULL : given;
}

nvml *nvml_open(char *why, int size)
{
    const char *name = library_name();
    nvml *n = calloc(1, sizeof *n);
    if (!n) {
        snprintf(why, (size_t)size, "not readable: no memory");
        return NULL;
    }
    const char *wrong = NULL;
    n->library = name ? shared_open(name, &wrong) : NULL;
    if (!name) {
        snprintf(n->why, sizeof n->why, "not readable: BRASA_NVML is off");
    } else if (!n->library) {
        snprintf(n->why, sizeof n->why, "not readable: NVML of NVIDIA's driver: %.110s", wrong);
    } else {
        find_all(n);
        const bool whole = n->init && n->shutdown && n->count && n->by_index && n->by_address;
        const int result = whole ? n->init() : 0;
        if (whole && result == 0)
            return n;
        if (whole)
            failed(n, "driver", result);
        else
            lacks(n, "GPUs");
    }
    snprintf(why, (size_t)size, "%s", n->why);
    if (n->library)
        dlclose(n->library);
    free(n);
    return NULL;
}

void nvml_close(nvml *n)
{
    if (!n)
        return;
    n->shutdown();
    dlclose(n->library);
    free(n);
}

const char *nvml_why(const nvml *n)
{
    return n->why;
}

int nvml_count(nvml *n)
{
    unsigned count = 0;
    const int result = n->count(&count);
    if (result != 0)
        failed(n, "number of GPUs", result);
    return result == 0 ? (int)count : 0;
}

nvml_gpu *nvml_by_index(nvml *n, int index)
{
    nvml_gpu *g = NULL;
    const int result = n->by_index((unsigned)index, &g);
    return result == 0 || failed(n, "GPU", result) ? g : NULL;
}

nvml_gpu *nvml_by_address(nvml *n, const char *address)
{
    nvml_gpu *g = NULL;
    const int result = n->by_address(address, &g);
    return result == 0 || failed(n, "GPU", result) ? g : NULL;
}

bool nvml_driver(nvml *n, char *version, int size)
{
    if (!n->driver)
        return lacks(n, "driver's version");
    const int result = n->driver(version, (unsigned)size);
    return result == 0 || failed(n, "driver's version", result);
}

bool nvml_name(nvml *n, nvml_gpu *g, char *name, int size)
{
    if (!n->name)
        return lacks(n, "name");
    const int result = n->name(g, name, (unsigned)size);
    return result == 0 || failed(n, "name", result);
}

bool nvml_memory(nvml *n, nvml_gpu *g, uint64_t *used, uint64_t *total)
{
    memory_info m = {0};
    if (!n->memory)
        return lacks(n, "memory");
    const int result = n->memory(g, &m);
    *used = m.used;
    *total = m.total;
    return result == 0 || failed(n, "memory", result);
}

bool nvml_utilization(nvml *n, nvml_gpu *g, int *percent)
{
    utilization u = {0};
    if (!n->utilization)
        return lacks(n, "utilization");
    const int result = n->utilization(g, &u);
    *percent = (int)u.gpu;
    return result == 0 || failed(n, "utilization", result);
}

bool nvml_power(nvml *n, nvml_gpu *g, double *watts)
{
    unsigned milliwatts = 0;
    if (!n->power)
        return lacks(n, "power");
    const int result = n->power(g, &milliwatts);
    *watts = milliwatts * 1e-3;
    return result == 0 || failed(n, "power", result);
}

bool nvml_energy(nvml *n, nvml_gpu *g, double *joules)
{
    unsigned long long millijoules = 0;
    if (!n->energy)
        return lacks(n, "energy");
    const int result = n->energy(g, &millijoules);
    *joules = (double)millijoules * 1e-3;
    return result == 0 || failed(n, "energy", result);
}

int nvml_processes(nvml *n, nvml_gpu *g, nvml_process *list, int most)
{
    enum { MOST = 256 };
    process_info found[MOST];
    unsigned count = MOST;
    if (!n->processes) {
        lacks(n, "processes");
        return -1;
    }
    const int result = n->processes(g, &count, found);
    if (result == TOO_SMALL || count > MOST) /* then nothing is written */
        snprintf(n->why, sizeof n->why, "not readable: more than %d processes compute there", MOST);
    else if (result != 0)
        failed(n, "processes", result);
    if (result != 0 || count > MOST)
        return -1;
    for (unsigned i = 0; i < count && (int)i < most; i++)
        list[i] = (nvml_process){(int)found[i].pid, found[i].bytes == ~0ull ? 0 : found[i].bytes};
    return (int)count;
}
