/* memory.h - the GPU's memory: blocks of the host's, known by their addresses. What is in a new one is not left open
 * here: all its bytes are POISON, which makes NaNs of floats. */
#ifndef SOFTGPU_MEMORY_H
#define SOFTGPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POISON = 0xff };

typedef enum memory_kind { OF_THE_GPU, OF_THE_HOST /* which the GPU reads and writes by itself */ } memory_kind;

typedef struct memory_block {
    char *start;
    size_t bytes;
    memory_kind kind;
    int device; /* whose it is */
} memory_block;

/* NULL: there is not so much. */
void *memory_get(size_t bytes, memory_kind kind, int device);
/* False: there is no such block. */
bool memory_put(void *start, memory_kind kind);
/* The block that an address is in, or NULL. */
const memory_block *memory_find(const void *at);
/* Whether bytes from `at` on are in one block; bytes of the host's that are not such memory are not. */
bool memory_has(const void *at, size_t bytes);
/* Whether a device may read and write them: its own, or the host's. */
bool memory_reached(const void *at, size_t bytes, int device);
size_t memory_used(void), memory_total(void);

#endif
