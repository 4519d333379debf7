/* safetensors_types.c - element types of safetensors files. Bytes are put together by hand, low ones first, so that
 * it does not matter how this machine orders them; compilers make one load or store of it. */
#include "session/safetensors.h"

#include <string.h>

static uint32_t get_16(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get_32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get_64(const unsigned char *p)
{
    return get_32(p) | (uint64_t)get_32(p + 4) << 32;
}

static void put_32(unsigned char *p, uint32_t bits)
{
    p[0] = (unsigned char)bits;
    p[1] = (unsigned char)(bits >> 8);
    p[2] = (unsigned char)(bits >> 16);
    p[3] = (unsigned char)(bits >> 24);
}

static void put_64(unsigned char *p, uint64_t bits)
{
    put_32(p, (uint32_t)bits);
    put_32(p + 4, (uint32_t)(bits >> 32));
}

static void decode_f16(const unsigned char *from, int count, number *to)
{
    for (int i = 0; i < count; i++)
        to[i].real = f16_load(get_16(from + 2 * i));
}

static void decode_bf16(const unsigned char *from, int count, number *to)
{
    for (int i = 0; i < count; i++)
        to[i].real = bf16_load(get_16(from + 2 * i));
}

static void decode_f32(const unsigned char *from, int count, number *to)
{
    for (int i = 0; i < count; i++)
        to[i].real = float_of_bits(get_32(from + 4 * i));
}

static void decode_f64(const unsigned char *from, int count, number *to)
{
    for (int i = 0; i < count; i++) {
        const uint64_t bits = get_64(from + 8 * i);
        memcpy(&to[i].real, &bits, sizeof bits);
    }
}

static void decode_i64(const unsigned char *from, int count, number *to)
{
    for (int i = 0; i < count; i++) {
        const uint64_t bits = get_64(from + 8 * i);
        memcpy(&to[i].whole, &bits, sizeof bits);
    }
}

static void decode_i32(const unsigned char *from, int count, number *to)
{
    for (int i = 0; i < count; i++) {
        const uint32_t bits = get_32(from + 4 * i);
        int32_t x;
        memcpy(&x, &bits, sizeof x);
        to[i].whole = x;
    }
}

static void decode_u8(const unsigned char *from, int count, number *to)
{
    for (int i = 0; i < count; i++)
        to[i].whole = from[i];
}

static void encode_f32(const number *from, int count, unsigned char *to)
{
    for (int i = 0; i < count; i++) {
        const float x = (float)from[i].real;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        put_32(to + 4 * i, bits);
    }
}

static void encode_f64(const number *from, int count, unsigned char *to)
{
    for (int i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &from[i].real, sizeof bits);
        put_64(to + 8 * i, bits);
    }
}

static void encode_i64(const number *from, int count, unsigned char *to)
{
    for (int i = 0; i < count; i++)
        put_64(to + 8 * i, (uint64_t)from[i].whole);
}

static void encode_i32(const number *from, int count, unsigned char *to)
{
    for (int i = 0; i < count; i++)
        put_32(to + 4 * i, (uint32_t)from[i].whole);
}

static void encode_u8(const number *from, int count, unsigned char *to)
{
    for (int i = 0; i < count; i++)
        to[i] = (unsigned char)from[i].whole;
}

/* Those whose elements are whole bytes. */
static const tensor_type types[] = {
    {"F32", 4, false, decode_f32, encode_f32},
    {"F64", 8, false, decode_f64, encode_f64},
    {"F16", 2, false, decode_f16, NULL},
    {"BF16", 2, false, decode_bf16, NULL},
    {"I64", 8, true, decode_i64, encode_i64},
    {"BOOL", 1, true, NULL, NULL},
    {"U8", 1, true, decode_u8, encode_u8},
    {"I8", 1, true, NULL, NULL},
    {"U16", 2, true, NULL, NULL},
    {"I16", 2, true, NULL, NULL},
    {"U32", 4, true, NULL, NULL},
    {"I32", 4, true, decode_i32, encode_i32},
    {"U64", 8, true, NULL, NULL},
    {"F8_E4M3", 1, false, NULL, NULL},
    {"F8_E5M2", 1, false, NULL, NULL},
    {"F8_E8M0", 1, false, NULL, NULL},
    {"C64", 8, false, NULL, NULL},
};

const tensor_type *tensor_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const tensor_type *tensor_type_of(dtype type)
{
    return tensor_type_find(type == F32 ? "F32" : type == F64 ? "F64" : type == I64 ? "I64" : "I32");
}

bool tensor_floats_raw(void)
{
    const float one = 1;
    unsigned char bytes[sizeof one];
    memcpy(bytes, &one, sizeof one);
    return bytes[2] == 0x80 && bytes[3] == 0x3F;
}
