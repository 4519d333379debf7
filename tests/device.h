/* device.h - tests on a device: BRASA_TEST_DEVICE=cuda says on which one, BRASA_TEST_PRECISION=f32, tf32 or bf16 how
 * it computes; without that, in each of them. After test.h, in a file that begins with _GNU_SOURCE.
 *
 * The backend's library is looked for in the folder above the test's own, where a build has it, unless
 * $BRASA_BACKENDS says otherwise. A device that is not there is no failure: the tests say what is missing.
 */
#ifndef TEST_DEVICE_H
#define TEST_DEVICE_H

#include "device/device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How a device computes, and what it may differ by from the reference in double, relative to the largest element: as
 * much as the CPU's kernels may times `factor`, or `least`, if that is more. */
typedef struct device_row {
    const char *name;
    int32_t precision;
    double factor, least;
} device_row;

/* By precision. */
static const device_row device_rows[] = {
    /* Floats, as on the CPU, but sums are made in other orders, of more and shorter pieces. */
    {"f32", BRASA_F32, 4, 0},
    /* Factors of 10 bits of fraction are off by 2^-11 when rounded, by 2^-10 when cut: 0.001. A gradient meets two
     * such products. */
    {"tf32", BRASA_TF32, 4, 2e-3},
    /* What is stored has 7 bits of fraction and is off by 2^-8: 0.004. A gradient is made of what was stored twice or
     * three times (the output, its gradient, and itself), and sums of few of them may cancel. */
    {"bf16", BRASA_BF16, 4, 4e-2},
    {0},
};

/* Of a run without a device. */
static const device_row device_none[] = {{"cpu", BRASA_F32, 1, 0}, {0}};

/* The device's name, or NULL: the CPU is tested. */
static inline const char *device_wanted(void)
{
    const char *name = getenv("BRASA_TEST_DEVICE");
    return name && *name && strcmp(name, "cpu") != 0 ? name : NULL;
}

/* What to test, ended by a row without a name. */
static inline const device_row *device_wanted_rows(void)
{
    static device_row one[2];
    const char *only = getenv("BRASA_TEST_PRECISION");
    if (!device_wanted())
        return device_none;
    if (!only || !*only)
        return device_rows;
    for (const device_row *r = device_rows; r->name; r++)
        if (strcmp(r->name, only) == 0)
            one[0] = *r;
    if (!one[0].name)
        test_fail(__FILE__, __LINE__, "BRASA_TEST_PRECISION: expected f32, tf32 or bf16, got '%s'", only);
    return one;
}

static inline double device_tolerance(const device_row *r, double of_cpu)
{
    return fmax(of_cpu * r->factor, r->least);
}

static struct {
    brasa_context *ctx;
    char missing[600];
} device_opened;

/* The folder above that of the program: where brasa_cuda.so is in a build. */
static inline void device_set_folder(void)
{
    char path[2048];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 4);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash) {
        memcpy(slash, "/..", 4);
        setenv("BRASA_BACKENDS", path, 0);
    }
}

/* A context that computes on the device, the same for all tests of the program; NULL: none is wanted, or it is not
 * there, and device_opened.missing says why. */
static inline brasa_context *device_context(void)
{
    if (device_opened.ctx || device_opened.missing[0] || !device_wanted())
        return device_opened.ctx;
    device_set_folder();
    brasa_context *made = NULL;
    CHECK_STATUS(brasa_context_new(NULL, &made), BRASA_OK);
    const brasa_status status = made ? brasa_context_use(made, device_wanted()) : BRASA_OUT_OF_MEMORY;
    if (status == BRASA_OK)
        return device_opened.ctx = made;
    snprintf(device_opened.missing, sizeof device_opened.missing, "no CUDA device: %.500s",
             made ? brasa_context_error(made) : "");
    if (status != BRASA_NOT_FOUND) /* it is there, and does not work */
        test_fail(__FILE__, __LINE__, "%s", device_opened.missing);
    brasa_context_free(made);
    return NULL;
}

/* Leaves a test that is to run on a device that is not there. */
#define DEVICE_OR_SKIP()                                                                                             \
    do                                                                                                               \
        if (device_wanted() && !device_context())                                                                    \
            SKIP(device_opened.missing);                                                                             \
    while (0)

/* The same for tests of devices alone. */
#define DEVICE_ONLY()                                                                                                \
    do                                                                                                               \
        if (!device_context())                                                                                       \
            SKIP(device_wanted() ? device_opened.missing : "BRASA_TEST_DEVICE is not set");                          \
    while (0)

/* Leaves a test that has nothing to do with kernels, where a device is tested. */
#define HOST_OR_SKIP()                                                                                               \
    do                                                                                                               \
        if (device_wanted())                                                                                         \
            SKIP("it is the same on every device");                                                                  \
    while (0)

#endif
