/* group.c - see group.h, and cgroup-v2 in the kernel's documentation. */
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

/* A group of its own below `parent`, which must pass the memory controller on. */
static bool make_below(group *g, const char *parent, int64_t bytes)
{
    char text[512], procs[700];
    if (!read_in(parent, "cgroup.subtree_control", text, sizeof text) || !strstr(text, "memory"))
        return false;
    snprintf(g->path, sizeof g->path, "%.600s/brasa-lab-%ld", parent, (long)getpid());
    if (mkdir(g->path, 0755) != 0)
        return false;
    snprintf(procs, sizeof procs, "%s/cgroup.procs", g->path);
    snprintf(text, sizeof text, "%lld", (long long)bytes);
    if (write_in(g->path, "memory.max", text))
        g->procs = open(procs, O_WRONLY | O_CLOEXEC);
    if (g->procs < 0)
        rmdir(g->path);
    else
        write_in(g->path, "memory.oom.group", "1"); /* all of them or none */
    return g->procs >= 0;
}

group group_make(int64_t bytes)
{
    group g = {.path = "", .procs = -1};
    char text[600], own[700];
    if (!bytes || !read_in("/proc/self", "cgroup", text, sizeof text) || strncmp(text, "0::/", 4) != 0)
        return g; /* none wished, or not version 2 alone */
    snprintf(own, sizeof own, GROUPS "%.*s", (int)strcspn(text + 3, "\n"), text + 3);
    if (make_below(&g, own, bytes))
        return g;
    char *slash = strrchr(own, '/');
    if (slash && slash >= own + strlen(GROUPS)) {
        *slash = '\0';
        if (make_below(&g, own, bytes))
            return g;
    }
    g.path[0] = '\0';
    return g;
}

int64_t group_kills(const group *g)
{
    char text[512];
    const char *at =
        g->path[0] && read_in(g->path, "memory.events", text, sizeof text) ? strstr(text, "oom_kill ") : NULL;
    return at ? strtoll(at + strlen("oom_kill "), NULL, 10) : 0;
}

void group_remove(group *g)
{
    if (g->procs >= 0)
        close(g->procs);
    if (g->path[0])
        rmdir(g->path);
    *g = (group){.path = "", .procs = -1};
}
