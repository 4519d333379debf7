/* guard.c - see guard.h. */
#define _GNU_SOURCE
#include "lab/guard.h"

#include "lab/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A process that the kernel itself holds may not end: nobody waits for it longer than ROUNDS pauses. */
enum { MARK = 80, PIECE = 1 << 16, MOST_LISTED = 1 << 16, MOST_FILES = 1024, ROUNDS = 500, PAUSE_NS = 10000000 };

static const char variable[] = "GUARDED_BY_BRASA";

/* --- in the guard -------------------------------------------------------------------------------------------- */

/* Whether a process was started with "NAME=value" in its environment; one that is over has none. */
static bool is_marked(pid_t pid, const char *mark)
{
    static char piece[MARK + PIECE];
    char path[64];
    const size_t length = strlen(mark) + 1; /* with the zero behind it */
    size_t kept = 0;
    ssize_t got;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !found && (got = read(fd, piece + kept, PIECE)) > 0) {
        const size_t held = kept + (size_t)got;
        found = memmem(piece, held, mark, length) != NULL;
        kept = held < length ? held : length - 1; /* it may go on in the next piece */
        memmove(piece, piece + held - kept, kept);
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/* Again and again, as those who are ended may have started others meanwhile: till a round finds nobody. */
static void end_marked(const char *mark)
{
    static pid_t list[MOST_LISTED];
    DIR *all = opendir("/proc");
    bool any = all != NULL;
    for (int round = 0; any && round < ROUNDS; round++) {
        const int count = proc_list(all, list, MOST_LISTED);
        any = false;
        for (int i = 0; i < count; i++)
            if (list[i] != getpid() && is_marked(list[i], mark)) {
                kill(list[i], SIGKILL);
                any = true;
            }
        nanosleep(&(struct timespec){.tv_nsec = any ? PAUSE_NS : 0}, NULL);
    }
}

/* Of a session of its own, so that what ends the lab's does not reach it, and with nothing open that others wait to
 * see closed. */
static void watch(int from, const char *mark)
{
    char word;
    ssize_t got;
    setsid();
    for (int fd = 0; fd < MOST_FILES; fd++)
        if (fd != from)
            close(fd);
    if (chdir("/") != 0)
        _exit(1);
    while ((got = read(from, &word, 1)) < 0 && errno == EINTR)
        ;
    if (got != 1)
        end_marked(mark);
    _exit(0);
}

/* --- in the lab ---------------------------------------------------------------------------------------------- */

bool guard_start(guard *out)
{
    char value[MARK / 2], mark[MARK];
    struct timespec now;
    int ends[2];
    *out = (guard){.pid = -1, .end = -1};
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(value, sizeof value, "%ld-%lld.%09ld", (long)getpid(), (long long)now.tv_sec, now.tv_nsec);
    snprintf(mark, sizeof mark, "%s=%s", variable, value);
    if (setenv(variable, value, 1) != 0 || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    out->pid = fork();
    if (out->pid == 0)
        watch(ends[0], mark);
    const int why = errno;
    close(ends[0]);
    out->end = ends[1];
    if (out->pid < 0) {
        close(ends[1]);
        errno = why;
    }
    return out->pid > 0;
}

void guard_end(guard *g)
{
    if (g->pid <= 0)
        return;
    const bool told = write(g->end, "", 1) == 1;
    close(g->end);
    while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    g->pid = told ? 0 : -1;
}
