/* gpu.h - a GPU that is open: what cuda.c, memory.c and steps.c share. */
#ifndef DEVICE_CUDA_GPU_H
#define DEVICE_CUDA_GPU_H

#include "device/cuda/cuda.h"

/* Copies from the host go through pieces of memory that the GPU can read by itself, in turn: as many as the steps
 * that are started ahead need, each of which is fed several tensors, so that none of them waits for a step to be
 * over. */
enum { PIECES = 8, PIECE_BYTES = 2 << 20 };

typedef struct cuda_device {
    device device;
    cuda_queue queue;
    char *pinned[PIECES];
    cudaEvent_t sent[PIECES]; /* the piece may be written again */
    int next;
    cudaEvent_t begin, end;
    cudaStream_t copies; /* STREAM_COPIES */
    bool warned;         /* that there is no memory for graphs */
} cuda_device;

/* The GPU behind a device: from now on this thread's calls are for it. */
static inline cuda_device *gpu_of(device *d)
{
    cuda_device *c = (cuda_device *)d->data;
    cuda_enter(&c->queue);
    return c;
}

/* Set the functions of device.h that these files have. */
void cuda_offer_memory(device *d);
void cuda_offer_steps(device *d);

#endif
