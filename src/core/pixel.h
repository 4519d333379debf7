/* pixel.h - what number a pixel becomes: by the same text, and to the same bit, on the host and on GPUs. */
#ifndef CORE_PIXEL_H
#define CORE_PIXEL_H

#include "core/on_device.h"

/* In doubles, without a product that is added to before it is rounded: nvcc would make one. */
static inline ON_DEVICE float pixel_number(int pixel, double scale, double mean, double std)
{
#ifdef __CUDA_ARCH__
    return (float)__ddiv_rn(__dsub_rn(__dmul_rn((double)pixel, scale), mean), std);
#else
    return (float)((pixel * scale - mean) / std);
#endif
}

#endif
