/* device.h - where a verb computes, and how: --device and --precision. */
#ifndef CLI_DEVICE_H
#define CLI_DEVICE_H

#include "cli.h"

/* These return an exit code, the message told. */

/* The context computes on the device of that name; NULL: on the CPU. */
int device_use(brasa_context *ctx, const char *name);
/* BRASA_F32, ... of --precision; NULL: BRASA_F32. After device_use: the CPU has that one alone. */
int device_precision(brasa_context *ctx, const char *word, int32_t *out);

/* "2 threads", or "cuda:0 NVIDIA H200, bf16". By value, to stand in an argument list. */
typedef struct place_text {
    char text[120];
} place_text;
place_text print_place(const brasa_context *ctx, int32_t precision);
/* The members "device", "precision" and, of a device with libraries of its own, "device_about": their versions. */
void place_json(json *j, const brasa_context *ctx, int32_t precision);
/* Notes what the device cannot do as it should from now on, if there is something. */
void device_tell(brasa_context *ctx);

#endif
