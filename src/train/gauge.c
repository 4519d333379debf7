/* gauge.c - see gauge.h. */
#include "train/gauge.h"
#include "device/device.h"

#include <math.h>
#include <stdio.h>

#define LOOK_EVERY 0.25 /* seconds; utilization is what the driver saw in the last sixth to whole of a second */

static void note_failure(gauge *g)
{
    snprintf(g->why, sizeof g->why, "%s", nvml_why(g->library));
}

static void give_up(gauge *g)
{
    note_failure(g);
    nvml_close(g->library);
    g->library = NULL;
}

void gauge_open(gauge *g, const brasa_context *ctx)
{
    const device *d = ctx->device;
    *g = (gauge){.library = NULL};
    if (!d->telemetry)
        return;
    if (!d->address[0]) {
        snprintf(g->why, sizeof g->why, "not readable: the device has no address on the PCI bus");
        return;
    }
    g->library = nvml_open(g->why, sizeof g->why);
    if (g->library && !(g->gpu = nvml_by_address(g->library, d->address)))
        give_up(g);
}

void gauge_close(gauge *g)
{
    nvml_close(g->library);
    g->library = NULL;
}

void gauge_begin(gauge *g)
{
    g->memory_looks = g->busy_looks = 0;
    g->busy = g->memory = 0;
    g->next = 0;
}

void gauge_look(gauge *g, double now)
{
    uint64_t used, total;
    int percent;
    if (!g->library || now < g->next)
        return;
    g->next = now + LOOK_EVERY;
    const bool memory = nvml_memory(g->library, g->gpu, &used, &total);
    if (memory) {
        g->memory_looks++;
        g->memory = fmax(g->memory, (double)used);
    } else {
        note_failure(g);
    }
    if (nvml_utilization(g->library, g->gpu, &percent)) {
        g->busy_looks++;
        g->busy += percent;
    } else if (memory) {
        note_failure(g);
    } else {
        give_up(g);
    }
}

void gauge_end(gauge *g, double *memory, double *utilization)
{
    gauge_look(g, INFINITY); /* at least once */
    *memory = g->memory_looks ? g->memory : NAN;
    *utilization = g->busy_looks ? g->busy / g->busy_looks : NAN;
}
