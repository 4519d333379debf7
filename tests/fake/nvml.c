/* nvml.c - stands in for NVIDIA's libnvidia-ml.so.1 in tests: one GPU with known figures. What it uses grows by a
 * joule with each question for its energy. FAKE_NVML_FAILS names a function that fails, FAKE_NVML_PID the process
 * that has memory there; without it, it is the one that asks. FAKE_NVML_GB is what all have there, FAKE_NVML_NAME the
 * GPU's name. With FAKE_NVML_FAILS=first the first question for a process takes a while of the processor, and does
 * not find it; with FAKE_NVML_FAILS=second every second one takes a while. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int fails(const char *name)
{
    const char *given = getenv("FAKE_NVML_FAILS");
    return given && strcmp(given, name) == 0 ? 3 : 0; /* NVML_ERROR_NOT_SUPPORTED */
}

static int the_gpu;

EXPORT const char *nvmlErrorString(int result);
const char *nvmlErrorString(int result)
{
    return result == 3 ? "Not Supported" : result == 6 ? "Not Found" : "Unknown Error";
}

EXPORT int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    return fails("init");
}

EXPORT int nvmlShutdown(void);
int nvmlShutdown(void)
{
    return 0;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 1;
    return fails("count");
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu)
{
    *gpu = &the_gpu;
    return index == 0 ? 0 : 6;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **gpu);
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **gpu)
{
    *gpu = &the_gpu;
    return strcmp(address, "0000:01:00.0") == 0 ? 0 : 6;
}

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned size);
int nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    strncpy(version, "580.1", size);
    return fails("version");
}

EXPORT int nvmlDeviceGetName(void *gpu, char *name, unsigned size);
int nvmlDeviceGetName(void *gpu, char *name, unsigned size)
{
    (void)gpu;
    const char *given = getenv("FAKE_NVML_NAME");
    strncpy(name, given ? given : "Fake GPU", size);
    return fails("name");
}

EXPORT int nvmlDeviceGetMemoryInfo(void *gpu, unsigned long long *memory);
int nvmlDeviceGetMemoryInfo(void *gpu, unsigned long long *memory)
{
    const char *given = getenv("FAKE_NVML_GB");
    const unsigned long long used = given ? (unsigned long long)atoi(given) : 12;
    (void)gpu;
    memory[0] = 80ull << 30;
    memory[1] = (80 - used) << 30;
    memory[2] = used << 30;
    return fails("memory");
}

EXPORT int nvmlDeviceGetUtilizationRates(void *gpu, unsigned *percent);
int nvmlDeviceGetUtilizationRates(void *gpu, unsigned *percent)
{
    (void)gpu;
    percent[0] = 37;
    percent[1] = 5;
    return fails("utilization");
}

EXPORT int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts);
int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts)
{
    (void)gpu;
    *milliwatts = 250500;
    return fails("power");
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules);
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules)
{
    static unsigned long long used = 5000000;
    (void)gpu;
    *millijoules = used += 1000;
    return fails("energy");
}

typedef struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned instances[2];
} process;

static void compute_for(clock_t time)
{
    for (const clock_t end = clock() + time; clock() < end;)
        ;
}

static int is_first(const char *pid)
{
    static char known[16];
    if (!fails("first") || !pid || strcmp(pid, known) == 0)
        return 0;
    strncpy(known, pid, sizeof known - 1);
    compute_for(CLOCKS_PER_SEC / 15);
    return 1;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count, process *list);
int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count, process *list)
{
    const char *pid = getenv("FAKE_NVML_PID");
    (void)gpu;
    if (*count < 1)
        return 7;
    static int asked;
    if (fails("second") && asked++ % 2)
        compute_for(CLOCKS_PER_SEC / 100);
    *count = !is_first(pid);
    if (!*count)
        return 0;
    list[0] = (process){pid ? (unsigned)atoi(pid) : (unsigned)getpid(), 3ull << 30, {~0u, ~0u}};
    return fails("processes");
}
