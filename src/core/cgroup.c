/* cgroup.c - reads /proc/self/cgroup and /sys/fs/cgroup. */
#include "core/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double cgroup_quota(const char *cpu_max)
{
    char *end;
    double quota = strtod(cpu_max, &end);
    if (end == cpu_max || quota <= 0)
        return 0;
    double period = strtod(end, NULL);
    return period > 0 ? quota / period : 0;
}

static double read_limit(const char *text)
{
    double limit = strtod(text, NULL);              /* "max" reads as 0: no limit */
    return limit > 0 && limit < 0x1p62 ? limit : 0; /* version 1 writes -1 or a huge number for none */
}

static double limit_in(const char *path, double (*read)(const char *))
{
    char line[128] = "";
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (!fgets(line, (int)sizeof line, file))
        line[0] = '\0';
    fclose(file);
    return read(line);
}

/* This process's group: "/a/b" from a line "4:memory:/a/b" (version 1) or "0::/a/b" (version 2, controller ""). */
static void find_group(const char *controller, char *group, size_t size)
{
    char line[512];
    size_t length = strlen(controller);
    FILE *list = fopen("/proc/self/cgroup", "re");
    group[0] = '\0';
    while (list && fgets(line, (int)sizeof line, list)) {
        const char *names = strchr(line, ':');
        if (names && strncmp(names + 1, controller, length) == 0 && names[1 + length] == ':')
            snprintf(group, size, "%.*s", (int)strcspn(names + 2 + length, "\n"), names + 2 + length);
    }
    if (list)
        fclose(list);
}

/* The smallest limit that the group, or one above it, sets in `file`. */
static double least_limit(const char *controller, const char *file, double (*read)(const char *))
{
    char group[512], path[768];
    find_group(controller, group, sizeof group);
    double least = 0;
    for (char *slash = group;; *slash = '\0') {
        snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s/%s", controller, group, file);
        double limit = limit_in(path, read);
        if (limit > 0 && (least == 0 || limit < least))
            least = limit;
        if (!(slash = strrchr(group, '/')))
            return least;
    }
}

double cgroup_cpus(void)
{
    double quota = least_limit("", "cpu.max", cgroup_quota);
    if (quota > 0)
        return quota;
    double period = limit_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us", read_limit);
    return period > 0 ? limit_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", read_limit) / period : 0;
}

double cgroup_memory(void)
{
    double limit = least_limit("", "memory.max", read_limit);
    return limit > 0 ? limit : least_limit("memory", "memory.limit_in_bytes", read_limit);
}
