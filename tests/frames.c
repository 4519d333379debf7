/* frames.c - linked into the program of test_frames.py: writes stacks of kernels, one for each depth, to the file
 * that FRAMES names. A line has addresses in the program, the kernel's first. */
#define _GNU_SOURCE
#include "ops/op.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>

typedef void range_function(const step *s, int64_t begin, int64_t end);
void __real_step_for(const step *s, int64_t items, double work, range_function *range);
void __wrap_step_for(const step *s, int64_t items, double work, range_function *range);
int main(int argc, char **argv);

static void write_stack(FILE *file)
{
    static bool seen[64];
    void *at[63];
    Dl_info program;
    const int count = backtrace(at, 63);
    if (seen[count] || !dladdr((void *)(intptr_t)main, &program))
        return;
    seen[count] = true;
    for (int i = 2; i < count; i++) /* those before are in this file */
        fprintf(file, "0x%tx ", (char *)at[i] - 1 - (char *)program.dli_fbase);
    fprintf(file, "\n");
    fflush(file);
}

/* Kernels call this, of the linker's option --wrap. */
void __wrap_step_for(const step *s, int64_t items, double work, range_function *range)
{
    static FILE *file;
    const char *path = getenv("FRAMES");
    if (path && (file = file ? file : fopen(path, "we")))
        write_stack(file);
    __real_step_for(s, items, work, range);
}
