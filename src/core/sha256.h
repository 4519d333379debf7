/* sha256.h - the hash that names data: FIPS 180-4. Of files and sets; some hundred megabytes a second. */
#ifndef CORE_SHA256_H
#define CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_TEXT = 65 };

typedef struct sha256 {
    uint32_t state[8];
    uint64_t bytes; /* taken so far */
    unsigned char block[64];
} sha256;

void sha256_start(sha256 *h);
void sha256_add(sha256 *h, const void *data, size_t bytes);
void sha256_end(sha256 *h, unsigned char out[SHA256_BYTES]);
/* 64 hexadecimal digits and a zero. */
void sha256_print(const unsigned char hash[SHA256_BYTES], char out[SHA256_TEXT]);

#endif
