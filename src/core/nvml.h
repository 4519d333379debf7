/* nvml.h - what an NVIDIA GPU says of itself: memory, how busy it is, power, energy. NVML, the driver's library, is
 * opened at run time, so that nothing is needed to build, and a machine without a GPU only has a reason why there are
 * no figures. $BRASA_NVML names another file than libnvidia-ml.so.1, or is "off".
 *
 * It numbers GPUs in another order than CUDA does, and knows nothing of CUDA_VISIBLE_DEVICES: a GPU that something
 * runs on is found by its PCI address. Reading takes up to a millisecond or so, and wakes a GPU that sleeps. */
#ifndef CORE_NVML_H
#define CORE_NVML_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nvml nvml;         /* the library */
typedef struct nvml_gpu nvml_gpu; /* a GPU; valid until the library is closed */

/* What a process has in a GPU's memory. */
typedef struct nvml_process {
    int pid;
    uint64_t bytes;
} nvml_process;

/* The library, opened and ready; NULL: `why` says in one line what is missing ("not readable: ..."). */
nvml *nvml_open(char *why, int size);
void nvml_close(nvml *n);

int nvml_count(nvml *n);
/* NULL: there is none. */
nvml_gpu *nvml_by_index(nvml *n, int index);
nvml_gpu *nvml_by_address(nvml *n, const char *address); /* "0000:3b:00.0" */

/* Each tells whether it could be read; why not, nvml_why says. */
bool nvml_driver(nvml *n, char *version, int size);
bool nvml_name(nvml *n, nvml_gpu *g, char *name, int size);              /* "NVIDIA H200" */
bool nvml_memory(nvml *n, nvml_gpu *g, uint64_t *used, uint64_t *total); /* bytes, of all that runs there */
bool nvml_utilization(nvml *n, nvml_gpu *g,
                      int *percent); /* of the last sixth of a second to second: some kernel ran */
bool nvml_power(nvml *n, nvml_gpu *g, double *watts);
bool nvml_energy(nvml *n, nvml_gpu *g, double *joules); /* since the driver was loaded */
/* Up to `most` of the processes that compute there; returns how many there are, or -1. In a container, where other
 * numbers are in use, their numbers may be those of the machine. */
int nvml_processes(nvml *n, nvml_gpu *g, nvml_process *list, int most);
/* "not readable: ..." of the last call that failed. */
const char *nvml_why(const nvml *n);

#endif
