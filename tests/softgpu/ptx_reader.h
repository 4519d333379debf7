/* ptx_reader.h - what ptx_read.c and ptx_names.c share: where a kernel is read, and the names in it. */
#ifndef SOFTGPU_PTX_READER_H
#define SOFTGPU_PTX_READER_H

#include "ptx_text.h"

enum {
    MOST_RANGES = 64,
    MOST_SYMBOLS = 512,
    MOST_INLINED = 64,
    CONSTANT_SLOTS = 1 << 14, /* of the table that finds them */
    MOST_CONSTANTS = 4 << 20, /* bytes */
};

/* "%r" and 0 .. count - 1 behind it, or one name alone. */
typedef struct range {
    token prefix;
    int count; /* -1: one name */
    place first;
    int stride, depth;
} range;

typedef struct symbol {
    token name;
    memory_space space;
    int64_t at, bytes;
    int depth;
} symbol;

typedef struct label {
    token name;
    int instance; /* of an inlined function; 0: the kernel */
    int at;       /* of an instruction */
} label;

typedef struct reader {
    ptx_kernel *k;
    const ptx_module *module;
    text t;
    int depth, instance, instances;
    range ranges[MOST_RANGES];
    int nranges;
    symbol symbols[MOST_SYMBOLS];
    int nsymbols;
    label *labels, *jumps;
    int nlabels, njumps, label_room, jump_room;
    int64_t *hash; /* of constants: value, width and place */
    int nhash;
} reader;

/* Bytes of a register in a warp; 0 bytes a lane: a predicate, which begins a line of the cache, too. */
int register_stride(int bytes);
place new_register(ptx_kernel *k, int bytes);
/* .reg .b32 %r<12>; or .reg .b16 low, high; */
void declare_registers(reader *r);
/* Of a block, or of each lane. */
void declare_memory(reader *r, memory_space space);
symbol *add_symbol(reader *r, token name, memory_space space, int64_t at, int64_t bytes);
const symbol *find_symbol(const reader *r, token t);
/* Whether a register of 64 bits comes: what is loaded or converted may be narrower. */
bool is_wide(reader *r);
/* What ends with a scope: names of registers and of memory. */
void leave_scope(reader *r);
/* A register, a number, or the address of memory. */
place operand_of(reader *r, token t, int bytes);
place operand(reader *r, int bytes);
/* {%r1, %r2}; returns how many. */
int operands(reader *r, place list[MOST_LIST], int bytes);
/* [%rd1+16], [name+4], [name]; a name's address is part of the offset. */
void address(reader *r, instruction *i);

#endif
