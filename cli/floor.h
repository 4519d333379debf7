/* floor.h - what a training step on a GPU takes at least: its convolutions and products by the fastest kernel that
 * there is for each, and one pass over memory for everything else. */
#ifndef CLI_FLOOR_H
#define CLI_FLOOR_H

#include "network.h"

typedef struct floor_time {
    int products; /* nodes that multiply: convolutions, dense layers, and their gradients */
    double products_seconds;
    double rest_bytes;       /* that the other nodes read and write */
    double bytes_per_second; /* measured */
} floor_time;

bool floor_is_product(const op_def *op);
/* Sets f->bytes_per_second: copies within the device's memory, what is read and what is written counted. Returns an
 * exit code, the message told. */
int floor_measure_memory(floor_time *f, brasa_context *ctx);
double floor_rest_seconds(const floor_time *f);
double floor_seconds(const floor_time *f);

#endif
