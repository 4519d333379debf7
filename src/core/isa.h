/* isa.h - the instruction sets that kernels are written for. */
#ifndef CORE_ISA_H
#define CORE_ISA_H

#include <stdbool.h>

/* In rising order: a machine that has one has all before it. ISA_ANY is plain C. */
typedef enum isa { ISA_ANY, ISA_AVX2, ISA_AVX512 } isa;

/* What this machine has (AVX2 with FMA; AVX-512 F, BW, DQ, VL), cut down by the environment variable BRASA_ISA:
 * ref, avx2 or avx512. */
isa isa_available(void);
/* Whether BRASA_ISA is unset or one of these words; another one is passed over, and brasa doctor says so. */
bool isa_limit_known(void);
const char *isa_name(isa i);

#endif
