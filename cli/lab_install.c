/* lab_install.c - `brasa lab install`: says what it would do and asks, then makes environments for frameworks. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"
#include "signals.h"

#include "lab/guard.h"
#include "lab/install.h"

#include <errno.h>

#include <string.h>
#include <unistd.h>

enum { MOST = 16 };

typedef struct showing {
    progress p;
    char last[200];
} showing;

/* Ctrl-C reaches us alone: what we started has a group of its own. */
static bool show(void *user, const char *doing, const char *line)
{
    showing *s = user;
    if (line)
        snprintf(s->last, sizeof s->last, "%.180s", line + strspn(line, " "));
    progress_show(&s->p, "%s: %s", doing, print_fitted(s->last, 39, false).text);
    return !stop_asked;
}

/* yes: whatever begins with a y. */
static bool agreed(const options *o)
{
    char answer[16];
    if (o->yes)
        return true;
    printf("Install? [y/N] ");
    fflush(stdout);
    return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static void tell_plan(const install_plan *n)
{
    print_line("%s: Python %s (%s), up to %s in %s%s", n->def->name, n->python_version, n->python,
               print_bytes((double)n->bytes).text, n->place,
               n->gpu     ? ", the build for GPUs"
               : n->index ? ", the build for the CPU"
                          : "");
}

static void tell_done(const install_plan *n, const peer *one)
{
    const char *kind = !n->index ? "" : strstr(one->version, "+cpu") ? ", the build for the CPU" : ", PyPI's build";
    print_line("%s %s is installed%s", n->def->name, one->version, kind);
}

/* One after the other; what fails does not stop the others. */
static int install_all(pool *p, const options *o, const install_plan *plans, int count)
{
    int code = DONE;
    for (int i = 0; i < count && !stop_asked; i++) {
        showing s = {.p = progress_start(o->quiet)};
        peer one;
        const brasa_status status = install_run(p, &plans[i], &(install_watch){show, &s}, &one);
        progress_end(&s.p);
        if (status != BRASA_OK)
            code = complain(FAILED, "%s", brasa_context_error(p->ctx));
        else if (one.why)
            code = complain(FAILED, "%s: %s", plans[i].def->name, one.why);
        else
            tell_done(&plans[i], &one);
        fflush(stdout);
    }
    return stop_asked ? STOPPED : code;
}

static bool is_planned(const install_plan *plans, int count, const peer_def *def)
{
    for (int i = 0; i < count; i++)
        if (plans[i].def == def)
            return true;
    return false;
}

static int install_named(pool *p, const options *o)
{
    install_plan plans[MOST];
    int count = 0, code = DONE;
    int64_t bytes = 0;
    for (int i = 0; i < o->words; i++) {
        const peer_def *def;
        install_plan *n = &plans[count];
        if (peer_def_find(p->ctx, o->word[i], &def) != BRASA_OK)
            return complain(MISUSED, "%s", brasa_context_error(p->ctx));
        if (is_planned(plans, count, def))
            continue;
        if (install_prepare(p, def, o->device, n) != BRASA_OK) {
            code = complain(FAILED, "%s", brasa_context_error(p->ctx));
        } else if (n->there) {
            print_line("%s is in %s already; --remove takes it away", def->name, n->place);
        } else {
            tell_plan(n);
            bytes += n->bytes;
            count++;
        }
    }
    if (!count)
        return code;
    const int64_t room = plans[0].available;
    if (room >= 0)
        print_line("%s in all, %s are free", print_bytes((double)bytes).text, print_bytes((double)room).text);
    if (room >= 0 && room < bytes)
        return complain(FAILED, "not enough room in %s", plans[0].parent);
    if (!o->yes && !isatty(STDIN_FILENO))
        return complain(MISUSED, "nobody is there to ask: --yes installs");
    if (!agreed(o))
        return complain(FAILED, "nothing was installed");
    const int result = install_all(p, o, plans, count);
    return result == DONE ? code : result;
}

static int remove_named(pool *p, const options *o)
{
    int code = DONE;
    for (int i = 0; i < o->words; i++) {
        const peer_def *def;
        if (peer_def_find(p->ctx, o->word[i], &def) != BRASA_OK)
            return complain(MISUSED, "%s", brasa_context_error(p->ctx));
        if (install_remove(p, def) != BRASA_OK)
            code = complain(FAILED, "%s", brasa_context_error(p->ctx));
        else
            print_line("%s is removed", def->name);
    }
    return code;
}

int run_lab_install(const options *o)
{
    brasa_context *ctx = NULL;
    guard g;
    if (o->device && strcmp(o->device, "cpu") != 0 && strcmp(o->device, "cuda") != 0)
        return complain(MISUSED, "--device: expected cpu or cuda, got '%.60s'", o->device);
    if (!guard_start(&g))
        return complain(FAILED, "no process can be started: %s", strerror(errno));
    if (brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx) != BRASA_OK)
        return complain(FAILED, "out of memory");
    pool p = {.ctx = ctx};
    catch_signals();
    const int code = o->remove ? remove_named(&p, o) : install_named(&p, o);
    pool_free(&p);
    brasa_context_free(ctx);
    guard_end(&g);
    return code;
}
