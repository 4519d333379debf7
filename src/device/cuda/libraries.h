/* libraries.h - cuDNN and cuBLASLt, opened at run time where they are found: the system's, or those in the nvidia
 * folders of a Python environment. Without them our own kernels do the work; device.missing says what that costs. */
#ifndef DEVICE_CUDA_LIBRARIES_H
#define DEVICE_CUDA_LIBRARIES_H

#include "device/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

/* Begins to use a library that is open. Returns why it will not do, in words that stay, or NULL: it does. */
typedef const char *(*library_start)(void *user, void *file);

/* libraries.c: opens libraries by the beginning of their file name ("libcudnn.so.9") until one will do. False: none
 * does; *why, unless it has words already, becomes those about the first that was there. */
bool library_find(const char *file, library_start start, void *user, const char **why);

/* Adds to device->missing why a library is not there, or what there is none of, and what that costs. */
void library_missing(device *d, const char *why, const char *none, const char *cost);

/* One more part of a list in words. */
static inline void add_words(char *text, size_t size, const char *between, const char *words)
{
    const size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s", length ? between : "", words);
}

/* Sets queue->cudnn, or leaves NULL; adds to device->about or device->missing. */
void cudnn_open(cuda_queue *q, device *d);
void cudnn_close(cuda_queue *q);
/* The same of queue->cublaslt. */
void cublaslt_open(cuda_queue *q, device *d);
void cublaslt_close(cuda_queue *q);

#endif
