/* process.c - see process.h.
 *
 * One loop waits for output and for the monitor's next look. What ends a run early - its time, its memory, a line
 * that is none, the user - sets its status once; then it is asked to end (SIGTERM), and after a while made to
 * (SIGKILL). When the runner is over, others may still hold its pipes: they get a moment, then they are ended.
 */
#define _GNU_SOURCE
#include "lab/process.h"

#include "core/json_scan.h"
#include "core/numeric.h"
#include "lab/lab.h"
#include "lab/proc.h"
#include "lab/spawn.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_LINE = 1 << 20, MOST_OUTPUT = 16 << 20, PIECE = 1 << 16, TAIL = 4096 };
/* Seconds: from SIGTERM to SIGKILL; for those who hold the pipes of a runner that is over; till nothing but a process
 * that the kernel itself holds can be left. */
static const double usual_grace = 3, drain = 0.5, give_up = 20;

typedef struct running {
    brasa_context *ctx;
    const process_request *request;
    process_result *result;
    spawned process;
    monitor *monitor;
    pool scratch;
    char *output;
    size_t used, size, parsed; /* of the output: bytes there, room, bytes in whole lines */
    char tail[2 * TAIL];
    size_t tail_used;
    double start, asked, over; /* when it was started, told to end, and over; 0: not yet */
    bool forced;               /* not asked, but made to end */
    int how;
    int64_t oom_kills;
    group group;
} running;

/* --- how it ends --------------------------------------------------------------------------------------------- */

static brasa_status settle(running *u, const char *status, const char *reason)
{
    if (u->result->status)
        return BRASA_OK;
    u->result->status = status;
    u->result->reason = pool_text(&u->result->pool, "%s", reason);
    return u->result->reason ? BRASA_OK : fail_memory(u->ctx, strlen(reason));
}

/* Settles it, and tells all of them to end. */
static brasa_status end_it(running *u, const char *status, const char *reason, bool force)
{
    if (!u->asked) {
        u->asked = lab_now();
        u->forced = force;
        monitor_signal(u->monitor, force ? SIGKILL : SIGTERM);
    }
    return settle(u, status, reason);
}

static double grace_of(const running *u)
{
    return u->request->grace > 0 ? u->request->grace : usual_grace;
}

static brasa_status check_limits(running *u, double now)
{
    const process_request *r = u->request;
    char text[160];
    if (r->stop && *r->stop)
        return end_it(u, "stopped", "stopped by the user", false);
    if (r->seconds > 0 && now - u->start > r->seconds) {
        snprintf(text, sizeof text, "not over after %.6g s, while in phase '%s'", r->seconds,
                 u->result->account.phase);
        return end_it(u, "timeout", text, false);
    }
    if (monitor_over(u->monitor)) {
        snprintf(text, sizeof text, "over the limit of %s, in phase '%s'", numeric_bytes((double)r->memory).text,
                 u->result->account.phase);
        return end_it(u, "memory", text, true);
    }
    return BRASA_OK;
}

/* Those that live on are made to end, again and again: meanwhile they may have started others. */
static void press(running *u, double now)
{
    const bool others = u->over > 0 && now > u->over + drain;
    if (others || (u->asked && (u->forced || now > u->asked + grace_of(u))))
        monitor_signal(u->monitor, SIGKILL);
}

static const char *last_line(running *u)
{
    char *end = u->tail + u->tail_used;
    while (end > u->tail && (end[-1] == '\n' || end[-1] == '\r'))
        *--end = '\0';
    char *start = end;
    while (start > u->tail && start[-1] != '\n' && start[-1] != '\r')
        start--;
    return start;
}

static brasa_status settle_signal(running *u, int number)
{
    char text[200];
    const bytes_text had = numeric_bytes((double)monitor_memory(u->monitor));
    if (number == SIGKILL && u->oom_kills >= 0 && proc_oom_kills() > u->oom_kills) {
        snprintf(text, sizeof text, "ended by the kernel: the machine was out of memory (it had %s)", had.text);
        return settle(u, "memory", text);
    }
    snprintf(text, sizeof text, "ended by signal %d (%s)%s%s%s", number, strsignal(number),
             number == SIGKILL ? ": out of memory? It had " : "", number == SIGKILL ? had.text : "", "");
    return settle(u, "killed", text);
}

/* A peak between two looks ends nothing: it is seen here. What the kernel holds it also counts, shared pages once. */
static brasa_status settle_peak(running *u)
{
    char text[200];
    const int64_t limit = u->request->memory;
    const bytes_text most = numeric_bytes((double)limit);
    int64_t peak = group_peak(&u->group);
    const monitor_limit found =
        u->group.version ? (peak > limit ? LIMIT_PASSED : LIMIT_KEPT) : monitor_kept(u->monitor, &peak);
    if (found == LIMIT_PASSED) {
        snprintf(text, sizeof text, "over the limit of %s, between two looks: it had %s", most.text,
                 numeric_bytes((double)peak).text);
        return settle(u, "memory", text);
    }
    snprintf(text, sizeof text, "over before its memory could be looked at: whether it kept to %s is not known",
             most.text);
    return found == LIMIT_UNKNOWN ? settle(u, "failed", text) : BRASA_OK;
}

/* What the runner's lines and its end say, where nothing was settled before. */
static brasa_status settle_end(running *u)
{
    account *a = &u->result->account;
    char text[300];
    if (group_kills(&u->group) > 0) { /* one of its processes, where not itself */
        snprintf(text, sizeof text, "ended by the kernel: over the limit of %s",
                 numeric_bytes((double)u->request->memory).text);
        return settle(u, "memory", text);
    }
    if (WIFSIGNALED(u->how))
        return settle_signal(u, WTERMSIG(u->how));
    const int code = WEXITSTATUS(u->how);
    if (a->failed)
        return settle(u, a->out_of_memory ? "memory" : "failed", a->why);
    if (code != 0) {
        snprintf(text, sizeof text, "ended with exit code %d%s%s", code, u->tail_used ? ": " : "",
                 text_short(last_line(u)).text);
        return settle(u, "failed", text);
    }
    if (a->refused)
        return settle(u, "refused", a->why);
    if (u->parsed < u->used) {
        snprintf(text, sizeof text, "its output ends in the middle of line %d", a->lines + 1);
        return settle(u, "failed", text);
    }
    if (!a->done && (!u->request->check || a->lines == 0)) {
        snprintf(text, sizeof text, "ended without saying that it was done, after %d line%s", a->lines,
                 a->lines == 1 ? "" : "s");
        return settle(u, "failed", text);
    }
    if (*account_missing(a))
        return settle(u, "failed", a->wrong);
    brasa_status status = u->request->memory ? settle_peak(u) : BRASA_OK;
    if (status == BRASA_OK && !u->result->status)
        u->result->status = "done";
    return status;
}

/* --- output -------------------------------------------------------------------------------------------------- */

static brasa_status take_lines(running *u)
{
    brasa_status status = BRASA_OK;
    char *end;
    while (status == BRASA_OK && !u->result->status &&
           (end = memchr(u->output + u->parsed, '\n', u->used - u->parsed))) {
        lab_line line;
        status = account_line(&u->result->account, &u->scratch, u->output + u->parsed,
                              (size_t)(end - u->output) - u->parsed, &line);
        u->parsed = (size_t)(end - u->output) + 1;
        if (status == BRASA_OK && u->request->line)
            u->request->line(u->request->user, &line);
        pool_free(&u->scratch);
    }
    if (status != BRASA_OK && status != BRASA_OUT_OF_MEMORY)
        return end_it(u, "failed", brasa_context_error(u->ctx), false);
    return status;
}

static brasa_status make_room(running *u)
{
    if (u->used + PIECE < u->size)
        return BRASA_OK;
    const size_t size = u->size ? 2 * u->size : 4 * PIECE;
    char *grown = pool_get(&u->result->pool, size, 1);
    if (!grown)
        return fail_memory(u->ctx, size);
    if (u->used)
        memcpy(grown, u->output, u->used);
    u->output = grown;
    u->size = size;
    return BRASA_OK;
}

/* Closed: nothing more comes. */
static void close_end(int *fd)
{
    close(*fd);
    *fd = -1;
}

/* One piece, so that a runner that floods us cannot keep us from looking at it. Once it is settled what comes is
 * dropped. */
static brasa_status read_output(running *u)
{
    char text[80];
    brasa_status status = make_room(u);
    if (status != BRASA_OK)
        return status;
    const ssize_t got = read(u->process.output, u->output + u->used, PIECE);
    if (got == 0)
        close_end(&u->process.output);
    if (got <= 0 || u->result->status)
        return BRASA_OK;
    u->used += (size_t)got;
    if ((status = take_lines(u)) != BRASA_OK)
        return status;
    if (u->used - u->parsed > MOST_LINE) {
        snprintf(text, sizeof text, "line %d of its output is longer than 1 MB", u->result->account.lines + 1);
        return end_it(u, "failed", text, false);
    }
    return u->used > MOST_OUTPUT ? end_it(u, "failed", "its output is longer than 16 MB", false) : BRASA_OK;
}

static void read_errors(running *u)
{
    char piece[TAIL];
    const ssize_t got = read(u->process.errors, piece, sizeof piece);
    if (got == 0)
        close_end(&u->process.errors);
    if (got <= 0)
        return;
    if (u->tail_used + (size_t)got >= sizeof u->tail) {
        const size_t kept = u->tail_used < TAIL - 1 ? u->tail_used : TAIL - 1;
        memmove(u->tail, u->tail + u->tail_used - kept, kept);
        u->tail_used = kept;
    }
    memcpy(u->tail + u->tail_used, piece, (size_t)got);
    u->tail_used += (size_t)got;
}

/* The last TAIL bytes, what is no text made dots, from a whole letter on. */
static void clean_tail(running *u)
{
    char *at = u->tail + (u->tail_used > TAIL ? u->tail_used - TAIL : 0), *end = u->tail + u->tail_used,
         *to = u->tail;
    while (at < end && ((unsigned char)*at & 0xC0) == 0x80)
        at++;
    while (at < end) {
        const int length = utf8_length(at, end);
        const bool shown = length > 1 || *at == '\n' || *at == '\t' || *at == '\r' || (length && *at >= 0x20);
        if (!shown)
            *at = '.';
        for (int i = 0; i < (shown ? length : 1); i++)
            *to++ = *at++;
    }
    *to = '\0';
    u->tail_used = (size_t)(to - u->tail);
}

/* --- the loop ------------------------------------------------------------------------------------------------ */

/* Waits until something can be read or the next look is due; the wait is short while an end is awaited. */
static brasa_status wait_and_read(running *u, double now)
{
    enum { SHORT_MS = 10 };
    const double until = (monitor_due(u->monitor) - now) * 1000;
    int timeout = until > 0 ? (int)until + 1 : 0;
    if ((u->asked || u->over || (u->process.output < 0 && u->process.errors < 0)) && timeout > SHORT_MS)
        timeout = SHORT_MS;
    struct pollfd list[2] = {{.fd = u->process.output, .events = POLLIN},
                             {.fd = u->process.errors, .events = POLLIN}};
    if (poll(list, 2, timeout) <= 0)
        return BRASA_OK;
    if (list[1].revents)
        read_errors(u);
    return list[0].revents ? read_output(u) : BRASA_OK;
}

/* Over is a run when the runner is, and nobody is left of it, and the pipes are read. Those whose parents are gone
 * are ours to wait for, once the last look has seen that. */
static bool is_over(running *u, double now)
{
    if (!u->over && monitor_reap(u->monitor, &u->how))
        u->over = now;
    if (!u->over)
        return u->asked && now > u->asked + grace_of(u) + give_up;
    if (now > u->over + drain + give_up)
        return true;
    const int living = monitor_signal(u->monitor, 0);
    monitor_reap(u->monitor, &u->how);
    const bool pipes = u->process.output >= 0 || u->process.errors >= 0;
    return living == 0 && monitor_left(u->monitor) == 0 && (!pipes || now > u->over + drain);
}

/* What fails here, for want of memory, is told once the runner is over. */
static brasa_status loop(running *u)
{
    brasa_status first = BRASA_OK;
    for (double now = lab_now(); !is_over(u, now); now = lab_now()) {
        brasa_status status = wait_and_read(u, now);
        if (status == BRASA_OK)
            status = monitor_look(u->monitor, u->result->account.phase);
        if (status == BRASA_OK && !u->over)
            status = check_limits(u, now);
        if (status != BRASA_OK && first == BRASA_OK) {
            first = status;
            end_it(u, "failed", "", true);
        }
        press(u, now);
    }
    return first;
}

/* Who kept the limit is one of the run's details: the kernel lets no peak pass, looks are apart. */
static bool tell_keeper(running *u)
{
    static const char *const keepers[] = {"looks, ten a second", "the kernel (cgroup v1)", "the kernel (cgroup v2)"};
    return account_add_detail(&u->result->account, "memory_limit_kept_by", keepers[u->group.version]);
}

static brasa_status watch(running *u)
{
    monitor_follow(u->monitor, u->process.pid);
    brasa_status status = loop(u);
    clean_tail(u);
    if (status == BRASA_OK)
        status = settle_end(u);
    if (status == BRASA_OK && u->request->memory && !tell_keeper(u))
        status = fail_memory(u->ctx, 0);
    u->result->seconds = (u->over > 0 ? u->over : lab_now()) - u->start;
    if (status == BRASA_OK)
        status =
            monitor_results(u->monitor, &u->result->pool, &u->result->totals, &u->result->samples, &u->result->count);
    return status;
}

static brasa_status hand_over(running *u)
{
    process_result *r = u->result;
    r->output =
        u->output ? u->output : ""; /* a zero is behind it: there is always room for more, and pools are zeroed */
    r->bytes = u->used;
    r->tail = pool_text(&r->pool, "%s", u->tail);
    if (u->output)
        u->output[u->used] = '\0';
    return r->tail ? BRASA_OK : fail_memory(u->ctx, TAIL);
}

brasa_status process_run(brasa_context *ctx, const process_request *r, process_result *out)
{
    *out = (process_result){.pool = {.ctx = ctx}};
    out->account = account_start(&out->pool, r->owed);
    running u = {.ctx = ctx, .request = r, .result = out, .scratch = {.ctx = ctx}, .oom_kills = proc_oom_kills()};
    u.group = group_make(r->memory);
    u.process.output = u.process.errors = -1;
    const spawn_request start = {
        .argv = r->argv, .environment = r->environment, .folder = r->folder, .group = &u.group};
    brasa_status status = monitor_start(ctx, &(monitor_options){.memory = r->memory, .gpu = r->gpu}, &u.monitor);
    if (status == BRASA_OK)
        status = spawn(&out->pool, &start, &u.process);
    if (u.process.apart)
        group_remove(&u.group); /* and the monitor looks */
    u.start = lab_now();
    if (status == BRASA_OK && u.process.pid == 0) {
        char text[300];
        snprintf(text, sizeof text, "it cannot be started: %.200s: %s", r->argv[0], strerror(u.process.error));
        status = settle(&u, "failed", text);
        out->totals = monitor_nothing();
    } else if (status == BRASA_OK) {
        status = watch(&u);
    }
    if (status == BRASA_OK)
        status = hand_over(&u);
    if (u.process.output >= 0)
        close(u.process.output);
    if (u.process.errors >= 0)
        close(u.process.errors);
    monitor_end(u.monitor);
    group_remove(&u.group);
    pool_free(&u.scratch);
    return status;
}

void process_free(process_result *r)
{
    pool_free(&r->pool);
}
