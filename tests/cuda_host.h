/* cuda_host.h - the host's part of an open GPU, on the stand-in for CUDA's runtime (cudart.h), without kernels and
 * without cuDNN. In the one file of a test that has it; kept.c goes before it, as it has words that are types here.
 */
#ifndef TEST_CUDA_HOST_H
#define TEST_CUDA_HOST_H

#include "cudart.h"

#ifndef BRASA_VERSION
#define BRASA_VERSION "none"
#endif
#ifndef BRASA_SHARED
#define BRASA_SHARED "none"
#endif
#include "device/cuda/cuda.c"
#include "device/cuda/memory.c"
#include "device/cuda/steps.c"

#define CUDA(all)  all
#define LIST(name) const backend_kernel name##_cuda[1];
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
