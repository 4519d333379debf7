/* ptx.h - kernels as NVIDIA's compiler writes them for a GPU that it does not know (PTX), read into instructions that
 * work on the 32 threads of a warp at once: "lanes". Only what our kernels are compiled to is known; anything else is
 * refused when the kernel is first started, by line and name, and never guessed at.
 *
 * A register holds a value for each lane: 32 x 4 bytes, or 8 for types of 64 bits; those of 16 bits take 4, too. A
 * predicate is 32 bits, one a lane. Constants lie in the kernel, spread over 32 lanes, and are read like registers.
 */
#ifndef SOFTGPU_PTX_H
#define SOFTGPU_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the shared memory begins whose size a launch tells: behind all that a kernel can have else. */
enum { DYNAMIC_SHARED = 1 << 16 };
enum { PLAIN_SHARED = 48 << 10 }; /* bytes of a block, unless a kernel may have more: cudaFuncSetAttribute */
enum { LANES = 32, MOST_LIST = 4 };
#define ALL_LANES 0xffffffffu

typedef struct warp warp;
typedef struct instruction instruction;

/* Bytes from the start of a warp's registers; or, marked, of the kernel's constants. */
typedef uint32_t place;
#define IN_CONSTANTS 0x80000000u
#define NO_PLACE     0x7fffffffu

typedef void lane_work(warp *w, const instruction *i, uint32_t lanes);

typedef enum instruction_kind {
    PLAIN,   /* work for each lane, then the next instruction */
    BRANCH,  /* to `target` */
    BARRIER, /* of all threads of the block */
    MEET,    /* lanes of `a` wait for each other before the work: shfl.sync */
    RETURN,  /* these lanes have ended */
} instruction_kind;

/* What memory instructions are about. */
typedef enum memory_space { GLOBAL, SHARED, LOCAL, PARAMETER } memory_space;

struct instruction {
    lane_work *work;
    place d, a, b, c;
    place list[MOST_LIST]; /* of a vector */
    int64_t offset;        /* of an address */
    uint8_t kind, space, count, size;
    bool wide, spreads;    /* a load: into a register of 64 bits; its sign */
    bool guarded, negated; /* for lanes whose predicate `guard` is true, or false */
    place guard;
    int target, line;
};

/* Memory of a kernel's own, or of all of its module. */
typedef struct ptx_symbol {
    char *name;
    uint8_t space;
    int64_t at, bytes; /* GLOBAL: at an address */
} ptx_symbol;

typedef struct ptx_kernel {
    char *name;
    size_t registers; /* bytes for a warp */
    char *constants;  /* aligned to 64 */
    size_t constant_bytes;
    instruction *code; /* NULL: not read yet */
    int count, room;
    int params; /* number of arguments, and of each where it lies and its bytes */
    int param_at[64], param_bytes[64], param_total;
    int64_t shared, local; /* bytes of a block, without what a launch adds; of a lane */
    int cell;              /* bytes of the smallest access to shared memory */
    int most_threads;      /* of a block, as compiled for; 0: it does not say */
    bool moves_shared;     /* any instruction on shared memory */
    bool unreadable;       /* which has been told */
    place special[16];     /* by special_register; NO_PLACE: not used */
    int64_t most_dynamic;  /* that a launch may ask for: cudaFuncSetAttribute */
    const struct ptx_module *module;
    const char *from, *to; /* its text */
    struct ptx_kernel *next;
} ptx_kernel;

typedef enum special_register {
    TID_X,
    TID_Y,
    TID_Z,
    NTID_X,
    NTID_Y,
    NTID_Z,
    CTAID_X,
    CTAID_Y,
    CTAID_Z,
    NCTAID_X,
    NCTAID_Y,
    NCTAID_Z,
    SPECIALS
} special_register;

typedef struct ptx_module {
    char *text; /* comments are blanks in it */
    ptx_kernel *kernels;
    ptx_symbol *globals;
    int nglobals;
    int64_t shared; /* bytes of its own */
    struct ptx_module *next;
} ptx_module;

/* Takes over `words`, which end with a zero. NULL: `why` says what is wrong. */
ptx_module *ptx_open(char *words, char *why, size_t size);
void ptx_close(ptx_module *m);
ptx_kernel *ptx_find(ptx_module *m, const char *name);
/* Reads a kernel's code; false: `why` says what is not understood. */
bool ptx_read(ptx_kernel *k, char *why, size_t size);

/* --- how an instruction is known (ptx_lanes.c, ptx_memory.c) --------------------------------------------------- */

/* "add.s32" and the widths of its operands: '2', '4' and '8' bytes, 'p' a predicate. */
typedef struct known_instruction {
    const char *name, *operands;
    lane_work *work;
} known_instruction;

const known_instruction *ptx_known(const char *name);
/* Loads and stores of `size` bytes. */
lane_work *ptx_memory_work(bool store, memory_space space, int size);
lane_work *ptx_atomic_work(const char *operation);
/* mov with a list on one side: 16 or 32 bits each. */
lane_work *ptx_join_work(int size), *ptx_split_work(int size);
lane_work ptx_clock_work, ptx_shuffle_work;

#endif
