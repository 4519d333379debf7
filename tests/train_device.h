/* train_device.h - trainings on a device: one that does everything as late as it may (fake/cuda.c), with the CPU's
 * reference kernels; a training on the CPU with the same ones says what is right. With BRASA_TEST_DEVICE=cuda it is a
 * real one: see device.h. */
#ifndef TEST_TRAIN_DEVICE_H
#define TEST_TRAIN_DEVICE_H

#include "trainings.h"

#include "device.h"

#include <stdlib.h>

/* Weights differ where nodes were fused otherwise: by rounding. */
#define ROUNDING (device_wanted() ? 5e-3 : 1e-4)

static inline void start_on(const char *name)
{
    if (!device_wanted()) {
        setenv("BRASA_BACKENDS", TEST_FAKE_FOLDER, 1);
        setenv("BRASA_ISA", "ref", 1);
    }
    start();
    if (brasa_context_use(ctx, name) != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s", brasa_context_error(ctx));
}

#endif
