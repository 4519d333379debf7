/* cuda_host.h - the host's part of an open GPU, on the stand-in for CUDA's runtime (cudart.h), without kernels and
 * without cuDNN. In the one file of a test that has it. */
#ifndef TEST_CUDA_HOST_H
#define TEST_CUDA_HOST_H

#include "cudart.h"

#include "device/cuda/gpu.h"
#include "device/cuda/libraries.h"

extern const backend brasa_backend;

#define CUDA(all) all
#define LIST(name)                                                                                                   \
    extern const backend_kernel name##_cuda[];                                                                       \
    __attribute__((weak)) const backend_kernel name##_cuda[1] = {{0}};
#include "ops/ops.def"

void cudnn_open(cuda_queue *q, device *d)
{
    (void)q;
    (void)d;
}

void cudnn_close(cuda_queue *q)
{
    (void)q;
}

#endif
