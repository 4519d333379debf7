/* command.c - see command.h. */
#define _GNU_SOURCE
#include "lab/command.h"

#include "lab/lab.h"
#include "lab/spawn.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAUSE_MS = 100 };

typedef struct line {
    char text[400]; /* longer ones are cut */
    size_t used;
} line;

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
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
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

/* Waits for it, and ends what it left behind. */
static int end_of(pid_t child, bool force)
{
    int state = 0;
    if (force)
        kill(-child, SIGKILL);
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    kill(-child, SIGKILL);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

brasa_status command_run(brasa_context *ctx, const command *c, command_result *out)
{
    pool p = {.ctx = ctx};
    spawned child;
    *out = (command_result){.code = 127};
    brasa_status status = spawn(&p, &(spawn_request){.argv = c->argv, .together = true}, &child);
    if (status == BRASA_OK && child.pid) {
        listen_to(c, child.output, out);
        close(child.output);
        out->code = end_of(child.pid, out->late || out->stopped);
    } else if (status == BRASA_OK) {
        snprintf(out->last, sizeof out->last, "%s", strerror(child.error));
    }
    pool_free(&p);
    return status;
}
