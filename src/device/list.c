/* list.c - brasa_device_at: the devices that this process can use. */
#include "core/cpu_name.h"
#include "device/device.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {
#define DEVICE(name, open)   name,
#define DEVICE_LIBRARY(name) name,
#include "device/devices.def"
#undef DEVICE
#undef DEVICE_LIBRARY
};

typedef struct listed {
    const char *name;
    int32_t index; /* of those that are left */
    bool found;
    brasa_device_info info;
} listed;

/* "cuda:0 NVIDIA H200, ...": the name, then what it is or why it cannot be used. */
static void take_line(void *user, const char *line)
{
    listed *l = user;
    const char *about = strchr(line, ' ');
    const size_t length = strlen(l->name);
    if (!about || strncmp(line, l->name, length) != 0 || line[length] != ':' || strstr(line, ": cannot be used: ") ||
        l->index-- != 0)
        return;
    l->found = true;
    snprintf(l->info.name, sizeof l->info.name, "%.*s", (int)(about - line), line);
    snprintf(l->info.about, sizeof l->info.about, "%s", about + 1);
}

bool brasa_device_at(int32_t index, brasa_device_info *out)
{
    listed l = {.index = index - 1, .found = index == 0};
    if (l.found) {
        snprintf(l.info.name, sizeof l.info.name, "%s", names[0]);
        snprintf(l.info.about, sizeof l.info.about, "%s", cpu_name().text);
    }
    for (size_t i = 1; i < sizeof names / sizeof names[0] && index > 0 && !l.found; i++) {
        l.name = names[i];
        (void)backend_list(names[i], take_line, &l);
    }
    return l.found && options_give(NULL, out, &l.info, sizeof l.info, "brasa_device_info") == BRASA_OK;
}
