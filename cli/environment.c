/* environment.c - see environment.h. */
#define _POSIX_C_SOURCE 200809L
#include "environment.h"
#include "cli.h"

#include "core/isa.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_isa(const char *value)
{
    for (isa i = ISA_ANY; i <= ISA_AVX512; i++)
        if (strcmp(value, isa_name(i)) == 0)
            return true;
    return false;
}

static bool is_switch(const char *value)
{
    return strcmp(value, "on") == 0 || strcmp(value, "off") == 0;
}

static bool is_folder(const char *value)
{
    struct stat st;
    return stat(value, &st) == 0 && S_ISDIR(st.st_mode);
}

static const char passed_over[] = "it is passed over";

static const variable variables[] = {
    {"BRASA_BACKENDS", "a folder", "where brasa_cuda.so is, for GPUs; without it, beside the program", is_folder,
     "no GPU will be found"},
    {"BRASA_CACHE", "a folder, or off",
     "where times of kernels are kept; without it, $XDG_CACHE_HOME/brasa or ~/.cache/brasa", NULL, NULL},
    {"BRASA_CGROUP", "a folder",
     "a control group, of version 1 or 2, in which the lab may make others that keep `mem`; without it, the user's "
     "own "
     "of version 2",
     is_folder, "the lab looks ten times a second"},
    {"BRASA_CPU_INDEX", "an address, or off",
     "of builds for the CPU, which `brasa lab install pytorch` asks first on machines without a GPU; without it, "
     "PyTorch's own",
     NULL, NULL},
    {"BRASA_CUBLASLT", "a file, a folder, or off", "libcublasLt; without it, where libraries usually are", NULL,
     NULL},
    {"BRASA_CUDNN", "a file, a folder, or off", "libcudnn, in the same way", NULL, NULL},
    {"BRASA_ISA", "ref, avx2 or avx512", "the most that kernels, and oneDNN's, may use of the processor", is_isa,
     passed_over},
    {"BRASA_LAB", "a folder",
     "with the lab's runners and locks; without it, share/brasa/lab/peers beside the program, or what it was built "
     "from",
     NULL, NULL},
    {"BRASA_NVML", "a file, or off", "libnvidia-ml.so.1, which tells a GPU's memory, utilization and energy", NULL,
     NULL},
    {"BRASA_PEERS", "a folder",
     "where `brasa lab install` puts frameworks; without it, $XDG_DATA_HOME/brasa/peers or "
     "~/.local/share/brasa/peers",
     NULL, NULL},
    {"BRASA_TUNE", "on or off", "off: kernels are not timed, as with --no-tune", is_switch, passed_over},
};
enum { VARIABLES = sizeof variables / sizeof variables[0] };

const variable *variable_at(int index)
{
    return index >= 0 && index < VARIABLES ? &variables[index] : NULL;
}

void environment_check(void)
{
    for (int i = 0; i < VARIABLES; i++) {
        const variable *v = &variables[i];
        const char *value = getenv(v->name);
        if (value && *value && v->fits && !v->fits(value))
            complain(DONE, "note: %s: expected %s, got '%.200s': %s", v->name, v->takes, value, v->otherwise);
    }
}
