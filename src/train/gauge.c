/* gauge.c - see gauge.h. */
#include "train/gauge.h"
#include "backend/backend.h"

#include <math.h>
#include <stdio.h>

#define LOOK_EVERY 0.25 /* seconds; utilization is what the driver saw in the last sixth to whole of a second */

static void give_up(gauge *g, const char *why)
{
    snprintf(g->why, sizeof g->why, "%s", why);
    nvml_close(g->library);
    g->library = NULL;
}

void gauge_open(gauge *g, const device *d)
{
    *g = (gauge){.library = NULL};
    if (!d)
        return;
    if (!d->address[0]) {
        snprintf(g->why, sizeof g->why, "not readable: the device has no address on the PCI bus");
        return;
    }
    g->library = nvml_open(g->why, sizeof g->why);
    if (g->library && !(g->gpu = nvml_by_address(g->library, d->address)))
        give_up(g, nvml_why(g->library));
}

void gauge_close(gauge *g)
{
    nvml_close(g->library);
    g->library = NULL;
}

void gauge_begin(gauge *g)
{
    g->looks = 0;
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
    if (!nvml_memory(g->library, g->gpu, &used, &total) || !nvml_utilization(g->library, g->gpu, &percent)) {
        give_up(g, nvml_why(g->library));
        return;
    }
    g->looks++;
    g->busy += percent;
    g->memory = fmax(g->memory, (double)used);
}

void gauge_end(gauge *g, double *memory, double *utilization)
{
    gauge_look(g, INFINITY); /* at least once */
    *memory = g->looks ? g->memory : NAN;
    *utilization = g->looks ? g->busy / g->looks : NAN;
}
