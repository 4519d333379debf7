/* isa.c - see isa.h. */
#include "core/isa.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {[ISA_ANY] = "ref", [ISA_AVX2] = "avx2", [ISA_AVX512] = "avx512"};

const char *isa_name(isa i)
{
    return names[i];
}

static isa isa_of_machine(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return ISA_ANY;
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return wide ? ISA_AVX512 : ISA_AVX2;
#else
    return ISA_ANY;
#endif
}

isa isa_available(void)
{
    isa found = isa_of_machine();
    const char *limit = getenv("BRASA_ISA");
    for (isa i = ISA_ANY; limit && i < found; i++)
        if (strcmp(limit, names[i]) == 0)
            return i;
    return found;
}
