/* energy.c - see energy.h, and Documentation/power/powercap in the kernel's sources. */
#define _GNU_SOURCE
#include "lab/energy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_in(const char *folder, const char *zone, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/%s", folder, zone, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static bool read_text(int fd, char *text, size_t size)
{
    const ssize_t got = fd < 0 ? -1 : pread(fd, text, size - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

static bool read_value(int fd, double *out)
{
    char text[64], *end;
    if (!read_text(fd, text, sizeof text))
        return false;
    *out = (double)strtoull(text, &end, 10);
    return end > text;
}

/* Packages are "intel-rapl:0", "intel-rapl:1", on AMD's processors, too; parts of them have a second colon. */
static bool is_package(const char *folder, const char *zone)
{
    char name[64];
    if (strncmp(zone, "intel-rapl:", 11) != 0 || strchr(zone + 11, ':'))
        return false;
    const int fd = open_in(folder, zone, "name");
    const bool package = read_text(fd, name, sizeof name) && strncmp(name, "package", 7) == 0;
    if (fd >= 0)
        close(fd);
    return package;
}

static bool take(energy *e, const char *folder, const char *zone)
{
    const int k = e->packages, range = open_in(folder, zone, "max_energy_range_uj");
    const int fd = open_in(folder, zone, "energy_uj");
    if (fd < 0)
        snprintf(e->why, sizeof e->why, "not readable: %s/%.40s/energy_uj: %s", folder, zone, strerror(errno));
    const bool good = read_value(range, &e->range[k]) && read_value(fd, &e->last[k]);
    if (range >= 0)
        close(range);
    if (good)
        e->fd[e->packages++] = fd;
    else if (fd >= 0)
        close(fd);
    return good;
}

void energy_open(energy *e, const char *folder)
{
    *e = (energy){.packages = 0};
    snprintf(e->why, sizeof e->why, "not readable: the machine has no %s/intel-rapl:*", folder);
    DIR *list = opendir(folder);
    bool good = true;
    for (struct dirent *d; list && good && e->packages < MOST_PACKAGES && (d = readdir(list));)
        if (is_package(folder, d->d_name))
            good = take(e, folder, d->d_name);
    if (list)
        closedir(list);
    if (!good) /* a part of the processors would be no figure at all */
        energy_close(e);
}

void energy_read(energy *e)
{
    for (int i = 0; i < e->packages; i++) {
        double now;
        if (!read_value(e->fd[i], &now))
            continue;
        e->joules += (now >= e->last[i] ? now - e->last[i] : now + e->range[i] - e->last[i]) * 1e-6;
        e->last[i] = now;
    }
}

void energy_close(energy *e)
{
    for (int i = 0; i < e->packages; i++)
        close(e->fd[i]);
    e->packages = 0;
}
