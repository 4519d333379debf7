/* isa.h - the instruction sets that kernels are written for. */
#ifndef CORE_ISA_H
#define CORE_ISA_H

/* In rising order: a machine that has one has all before it. ISA_ANY is plain C. */
typedef enum isa { ISA_ANY, ISA_AVX2, ISA_AVX512 } isa;

/* What this machine has (AVX2 with FMA; AVX-512 F, BW, DQ, VL), cut down by the environment variable BRASA_ISA:
 * ref, avx2 or avx512. Another word is passed over, and the program says so. oneDNN is held to it (onednn.c). */
isa isa_available(void);
const char *isa_name(isa i);

#endif
