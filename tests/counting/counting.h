/* counting.h - a device that counts its calls and forwards them to the CPU. */
#ifndef TEST_COUNTING_H
#define TEST_COUNTING_H

#include "device/device.h"

typedef struct counting {
    device device;
    device *cpu;
    int memory, copies, streams, steps; /* calls: of get and put, copies, waits and events, steps that ran */
} counting;

/* Whether the next device says that its memory is its own, as a GPU's is: the host keeps a copy of the state then. */
extern bool counting_own_memory;

brasa_status counting_open(brasa_context *ctx, device **out);

#endif
