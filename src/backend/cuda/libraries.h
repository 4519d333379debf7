/* libraries.h - cuDNN and cuBLASLt, opened at run time where they are found: the system's, or those in the nvidia
 * folders of a Python environment. Without them our own kernels do the work; device.missing says what that costs. */
#ifndef BACKEND_CUDA_LIBRARIES_H
#define BACKEND_CUDA_LIBRARIES_H

#include "backend/cuda/cuda.h"

/* libraries.c: a library by the beginning of its file name ("libcudnn.so.9"), or NULL; *where is "" or its path. */
void *library_find(const char *file, char *where, size_t size);

/* Sets queue->cudnn, or leaves NULL; adds to device->about or device->missing. */
void cudnn_open(cuda_queue *q, device *d);
void cudnn_close(cuda_queue *q);
/* The same of queue->cublaslt. */
void cublaslt_open(cuda_queue *q, device *d);
void cublaslt_close(cuda_queue *q);
/* Drops what it has found out about products: another run's record may say otherwise. */
void cublaslt_forget(cuda_queue *q);

#endif
