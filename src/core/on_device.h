/* on_device.h - ON_DEVICE stands before the inline functions of headers that kernels of a GPU call too: both then
 * compute by the same text. To a C compiler it is nothing. */
#ifndef CORE_ON_DEVICE_H
#define CORE_ON_DEVICE_H

#ifdef __CUDACC__
#define ON_DEVICE __host__ __device__
#else
#define ON_DEVICE
#endif

#endif
