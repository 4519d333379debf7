/* group.c - see group.h, and cgroup-v1/memory and cgroup-v2 in the kernel's documentation. */
#define _GNU_SOURCE
#include "lab/group.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUPS "/sys/fs/cgroup"

static bool read_in(const char *folder, const char *name, char *text, size_t size)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got >= 0;
}

static bool write_in(const char *folder, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

static const struct names {
    const char *limit, *swap, *peak, *kills;
} names[] = {
    [1] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"},
    [2] = {"memory.max", "memory.swap.max", "memory.peak", "memory.events"}};

/* Of a group that others with a limit can be made in; 0: it is none. */
static int version_of(const char *parent)
{
    char text[512];
    if (read_in(parent, "cgroup.subtree_control", text, sizeof text))
        return strstr(text, "memory") ? 2 : 0;
    return read_in(parent, names[1].limit, text, sizeof text) ? 1 : 0;
}

static bool make_below(group *g, const char *parent, int64_t bytes)
{
    char text[32], procs[700];
    const int version = version_of(parent);
    snprintf(g->path, sizeof g->path, "%.600s/brasa-lab-%ld", parent, (long)getpid());
    rmdir(g->path); /* of one with our number that was killed */
    if (!version || mkdir(g->path, 0755) != 0)
        return false;
    snprintf(procs, sizeof procs, "%s/cgroup.procs", g->path);
    snprintf(text, sizeof text, "%lld", (long long)bytes);
    if (write_in(g->path, names[version].limit, text))
        g->procs = open(procs, O_WRONLY | O_CLOEXEC);
    if (g->procs < 0) {
        rmdir(g->path);
        return false;
    }
    g->version = version;
    /* What does not fit is to fail, not to swap. Version 1 counts both together. A kernel may lack the file. */
    write_in(g->path, names[version].swap, version == 1 ? text : "0");
    write_in(g->path, "memory.oom.group", "1"); /* all of them or none; of version 2 */
    return true;
}

/* In our own group of version 2, whose line may be the last of many, or the one above it. */
static bool make_in_own(group *g, int64_t bytes)
{
    char text[4096], own[700];
    read_in("/proc/self", "cgroup", text, sizeof text);
    char *line = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
    if (!line)
        return false;
    line = strchr(line, '/');
    snprintf(own, sizeof own, GROUPS "%.*s", (int)strcspn(line, "\n"), line);
    if (make_below(g, own, bytes))
        return true;
    char *slash = strrchr(own, '/');
    if (!slash || slash < own + strlen(GROUPS))
        return false;
    *slash = '\0';
    return make_below(g, own, bytes);
}

group group_make(int64_t bytes)
{
    group g = {.path = "", .procs = -1};
    const char *named = getenv("BRASA_CGROUP");
    if (bytes && !(named && *named ? make_below(&g, named, bytes) : make_in_own(&g, bytes)))
        g.path[0] = '\0';
    return g;
}

int64_t group_kills(const group *g)
{
    char text[512];
    const char *at =
        g->version && read_in(g->path, names[g->version].kills, text, sizeof text) ? strstr(text, "oom_kill ") : NULL;
    return at ? strtoll(at + strlen("oom_kill "), NULL, 10) : 0;
}

int64_t group_peak(const group *g)
{
    char text[64];
    return g->version && read_in(g->path, names[g->version].peak, text, sizeof text) && *text
               ? strtoll(text, NULL, 10)
               : -1;
}

void group_remove(group *g)
{
    if (g->procs >= 0)
        close(g->procs);
    if (g->path[0])
        rmdir(g->path);
    *g = (group){.path = "", .procs = -1};
}
