/* hash.h - a number for some bytes: FNV-1a, 64 bits. To tell things apart, not to protect them. */
#ifndef CORE_HASH_H
#define CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

static const uint64_t HASH_START = UINT64_C(0xCBF29CE484222325);

static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001B3);
    return hash;
}

#endif
