/* floor.c - see floor.h. */
#include "floor.h"

#include "device/device.h"

#include <string.h>

enum { MOST_BYTES = 512 << 20, LEAST_BYTES = 16 << 20, COPIES = 20, ROUNDS = 5 };

bool floor_is_product(const op_def *op)
{
    static const char *const kinds[] = {"conv2d", "dense", "depthwise"}; /* and what begins so: their gradients */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(op->name, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

/* Two pieces of the same size, as large as caches do not hold them; 0: there is no memory. */
static size_t get_pieces(brasa_context *ctx, char *piece[2])
{
    device *d = ctx->device;
    for (size_t bytes = MOST_BYTES; bytes >= LEAST_BYTES; bytes /= 2) {
        piece[0] = d->get(d, bytes);
        piece[1] = piece[0] ? d->get(d, bytes) : NULL;
        if (piece[1])
            return bytes;
        if (piece[0])
            d->put(d, piece[0]);
    }
    return 0;
}

static brasa_status copy_often(device *d, char *const piece[2], size_t bytes, double *seconds)
{
    brasa_status status = d->wait(d);
    const double start = clock_seconds();
    for (int i = 0; i < COPIES && status == BRASA_OK; i++)
        status = d->copy(d, piece[1], piece[0], bytes);
    if (status == BRASA_OK)
        status = d->wait(d);
    *seconds = clock_seconds() - start;
    return status;
}

int floor_measure_memory(floor_time *f, brasa_context *ctx)
{
    device *d = ctx->device;
    char *piece[2];
    double best = 0;
    const size_t bytes = get_pieces(ctx, piece);
    if (!bytes)
        return complain(FAILED, "there is no memory to measure the GPU's bandwidth in");
    brasa_status status = d->clear(d, piece[0], bytes);
    for (int i = 0; i <= ROUNDS && status == BRASA_OK; i++) { /* the first one warms up */
        double seconds = 0;
        status = copy_often(d, piece, bytes, &seconds);
        const double rate = 2.0 * (double)bytes * COPIES / seconds;
        best = i && rate > best ? rate : best;
    }
    d->put(d, piece[0]);
    d->put(d, piece[1]);
    f->bytes_per_second = best;
    return status == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_context_error(ctx));
}

double floor_rest_seconds(const floor_time *f)
{
    return f->rest_bytes / f->bytes_per_second;
}

double floor_seconds(const floor_time *f)
{
    return f->products_seconds + floor_rest_seconds(f);
}
