/* sha256.c - see sha256.h. */
#include "core/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static void take_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t far = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        const uint32_t near = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + far + w[i - 7] + near;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        const uint32_t mixed = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25), choice = (e & f) ^ (~e & g);
        const uint32_t first = h + mixed + choice + constants[i] + w[i];
        const uint32_t other = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22), most = (a & b) ^ (a & c) ^ (b & c);
        h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + other + most;
    }
    const uint32_t sums[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += sums[i];
}

void sha256_start(sha256 *h)
{
    /* Of the square roots of the first eight primes. */
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(h->state, first, sizeof first);
    h->bytes = 0;
}

void sha256_add(sha256 *h, const void *data, size_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        const size_t used = h->bytes % 64;
        if (used == 0 && bytes >= 64) {
            take_block(h->state, from);
            h->bytes += 64, from += 64, bytes -= 64;
            continue;
        }
        const size_t piece = bytes < 64 - used ? bytes : 64 - used;
        memcpy(h->block + used, from, piece);
        h->bytes += piece, from += piece, bytes -= piece;
        if (h->bytes % 64 == 0)
            take_block(h->state, h->block);
    }
}

void sha256_end(sha256 *h, unsigned char out[SHA256_BYTES])
{
    unsigned char tail[72] = {0x80};
    const uint64_t bits = h->bytes * 8;
    const size_t zeros = (119 - h->bytes % 64) % 64 + 1; /* with the 0x80, up to the last 8 bytes of a block */
    for (int i = 0; i < 8; i++)
        tail[zeros + (size_t)i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(h, tail, zeros + 8);
    for (int i = 0; i < SHA256_BYTES; i++)
        out[i] = (unsigned char)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_print(const unsigned char hash[SHA256_BYTES], char out[SHA256_TEXT])
{
    for (int i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = "0123456789abcdef"[hash[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[hash[i] & 15];
    }
    out[SHA256_TEXT - 1] = '\0';
}
