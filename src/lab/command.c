/* command.c - see command.h. */
#define _GNU_SOURCE
#include "lab/command.h"

#include "lab/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAUSE_MS = 100 };

typedef struct line {
    char text[400]; /* longer ones are cut */
    size_t used;
} line;

/* In the child: only what is allowed after a fork of a program with threads. */
static void become(const command *c, int from, int to)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    if (dup2(from, 0) >= 0 && dup2(to, 1) >= 0 && dup2(to, 2) >= 0)
        execvp(c->argv[0], (char *const *)c->argv);
    _exit(127);
}

static brasa_status start(brasa_context *ctx, const command *c, pid_t *child, int *output)
{
    int ends[2];
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        const int reason = errno;
        if (nothing >= 0)
            close(nothing);
        return fail(ctx, BRASA_BAD_FILE, "%s: %s", c->argv[0], strerror(reason));
    }
    if (c->log)
        fflush(c->log); /* what waits in it would be written twice */
    if ((*child = fork()) == 0)
        become(c, nothing, ends[1]);
    const int reason = errno;
    close(nothing);
    close(ends[1]);
    *output = ends[0];
    if (*child > 0)
        return BRASA_OK;
    close(ends[0]);
    return fail(ctx, BRASA_BAD_FILE, "%s: %s", c->argv[0], strerror(reason));
}

/* A piece of the output, line by line; false where `heard` wants no more. */
static bool take(const command *c, line *l, const char *data, size_t bytes, command_result *out)
{
    bool on = true;
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] != '\n' && data[i] != '\r') {
            if (l->used < sizeof l->text - 1)
                l->text[l->used++] = data[i];
            continue;
        }
        l->text[l->used] = '\0';
        if (l->used)
            memcpy(out->last, l->text, l->used + 1);
        if (l->used && c->heard)
            on = c->heard(c->user, l->text) && on;
        l->used = 0;
    }
    return on;
}

/* Until the output ends, the time is over, or somebody says stop. */
static void listen_to(const command *c, int output, command_result *out)
{
    const double end = c->seconds > 0 ? lab_now() + c->seconds : 0;
    struct pollfd p = {.fd = output, .events = POLLIN};
    line l = {.used = 0};
    char data[4096];
    for (;;) {
        const int ready = poll(&p, 1, PAUSE_MS);
        out->late = end > 0 && lab_now() > end;
        if (out->late || (ready < 0 && errno != EINTR))
            break;
        if (ready <= 0) {
            if ((out->stopped = c->heard && !c->heard(c->user, NULL)))
                break;
            continue;
        }
        const ssize_t got = read(output, data, sizeof data);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if (c->log)
            fwrite(data, 1, (size_t)got, c->log);
        if ((out->stopped = !take(c, &l, data, (size_t)got, out)))
            break;
    }
    take(c, &l, "\n", 1, out);
}

brasa_status command_run(brasa_context *ctx, const command *c, command_result *out)
{
    pid_t child = -1;
    int output = -1, state = 0;
    *out = (command_result){0};
    brasa_status status = start(ctx, c, &child, &output);
    if (status != BRASA_OK)
        return status;
    listen_to(c, output, out);
    close(output);
    if (out->late || out->stopped)
        kill(-child, SIGKILL);
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    kill(-child, SIGKILL); /* what it left behind */
    out->code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return BRASA_OK;
}
