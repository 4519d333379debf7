/* kernels.c - the CPU's column of ops.def: the kernels that this build has. */
#include "device/cpu/cpu.h"

#define CPU(words) words
#define REF(name)  extern const kernel name##_ref[];
#define WIDE(name) extern const kernel name##_wide[];
#ifdef BRASA_ONEDNN
#define ONEDNN(name) extern const kernel name##_onednn[];
#endif
#ifdef BRASA_SIMD
#define SIMD(name) extern const kernel name##_avx512[], name##_avx2[];
#endif
#include "ops/ops.def"

const kernel *const cpu_kernels[] = {
#define CPU(words) words
#define REF(name)  name##_ref,
#define WIDE(name) name##_wide,
#ifdef BRASA_ONEDNN
#define ONEDNN(name) name##_onednn,
#endif
#ifdef BRASA_SIMD
#define SIMD(name) name##_avx512, name##_avx2,
#endif
#include "ops/ops.def"
    NULL};
