/* spawn.c - see spawn.h. Between fork and exec only calls that are safe after a fork of many threads. */
#define _GNU_SOURCE
#include "lab/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* --- the environment ----------------------------------------------------------------------------------------- */

/* Whether a variable of ours would change what a runner measures, or what it finds. Where libraries and GPUs are
 * (LD_LIBRARY_PATH, CUDA_VISIBLE_DEVICES) is the machine's affair, and stays. */
static bool left_out(const char *variable)
{
    static const char *const starts[] = {
        "PYTHONPATH=",
        "PYTHONHOME=",
        "PYTHONSTARTUP=",
        "PYTHONNOUSERSITE=",
        "PYTHONDONTWRITEBYTECODE=",
        /* threads and libraries of mathematics */
        "OMP_",
        "GOMP_",
        "KMP_",
        "MKL_",
        "OPENBLAS_",
        "GOTO_",
        "BLIS_",
        "VECLIB_",
        "NUMEXPR_",
        "DNNL_",
        "ONEDNN_",
        "CUBLAS_",
        "CUBLASLT_",
        "CUDNN_",
        "NVIDIA_TF32_OVERRIDE=",
        /* switches of frameworks; AESARA and THEANO: AESARARC is one, too */
        "TF_",
        "KERAS_",
        "JAX_",
        "XLA_",
        "TORCH",
        "PYTORCH_",
        "MXNET_",
        "FLAGS_",
        "AESARA",
        "THEANO",
        /* how memory is taken, and what is loaded before all */
        "MALLOC_",
        "GLIBC_TUNABLES=",
        "LD_PRELOAD=",
    };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(variable, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

static char **environment_for(pool *p, const char *const *more)
{
    size_t count = 0, used = 0;
    while (environ && environ[count])
        count++;
    for (size_t i = 0; more && more[i]; i++)
        count++;
    char **out = pool_get(p, count + 3, sizeof *out);
    for (size_t i = 0; out && environ && environ[i]; i++)
        if (!left_out(environ[i]))
            out[used++] = environ[i];
    if (out) {
        out[used++] = "PYTHONNOUSERSITE=1";
        out[used++] = "PYTHONDONTWRITEBYTECODE=1";
    }
    for (size_t i = 0; out && more && more[i]; i++)
        out[used++] = (char *)more[i];
    return out;
}

/* --- the process --------------------------------------------------------------------------------------------- */

typedef struct pipes {
    int output[2], errors[2], failure[2];
} pipes;

static void close_pipes(pipes *p, int end)
{
    int *const all[] = {p->output, p->errors, p->failure};
    for (int i = 0; i < 3; i++)
        if (all[i][end] >= 0) {
            close(all[i][end]);
            all[i][end] = -1;
        }
}

enum { APART = -1 }; /* told in the place of an error, which is positive */

/* Into the group; who may not goes on without. */
static bool join(const group *g, int failure)
{
    const int apart = APART;
    return !g || g->procs < 0 || write(g->procs, "0", 1) == 1 || write(failure, &apart, sizeof apart) > 0;
}

/* In the child: becomes the program, or tells why not. */
static void become(const spawn_request *r, char **environment, const pipes *p, pid_t parent)
{
    static const int usual[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGXFSZ, SIGQUIT};
    sigset_t none;
    const int nothing = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it was gone already */
        _exit(1);
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        signal(usual[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    bool good = nothing >= 0 && dup2(nothing, 0) >= 0 && dup2(p->output[1], 1) >= 0 &&
                dup2(r->together ? p->output[1] : p->errors[1], 2) >= 0;
    good = good && join(r->group, p->failure[1]);
    if (good && r->folder)
        good = chdir(r->folder) == 0;
    if (good)
        execvpe(r->argv[0], (char *const *)r->argv, environment);
    const int why = errno;
    if (write(p->failure[1], &why, sizeof why) < 0)
        _exit(126);
    _exit(127);
}

/* The error that the child told, or 0 once it has become the program. */
static int wait_for_program(int failure, bool *apart)
{
    int why = 0;
    ssize_t got;
    while (((got = read(failure, &why, sizeof why)) < 0 && errno == EINTR) || (got > 0 && why == APART))
        *apart = *apart || got > 0;
    return got == (ssize_t)sizeof why ? why : 0;
}

brasa_status spawn(pool *p, const spawn_request *r, spawned *out)
{
    pipes s = {{-1, -1}, {-1, -1}, {-1, -1}};
    *out = (spawned){.output = -1, .errors = -1};
    char **environment = environment_for(p, r->environment);
    if (!environment)
        return fail_memory(p->ctx, 0);
    const pid_t self = getpid();
    const bool piped = pipe2(s.output, O_CLOEXEC) == 0 && (r->together || pipe2(s.errors, O_CLOEXEC) == 0) &&
                       pipe2(s.failure, O_CLOEXEC) == 0;
    out->pid = piped ? fork() : -1;
    if (out->pid < 0) {
        const int why = errno;
        close_pipes(&s, 0);
        close_pipes(&s, 1);
        return fail(p->ctx, BRASA_WRONG_STATE, "no process can be started: %s", strerror(why));
    }
    if (out->pid == 0)
        become(r, environment, &s, self);
    close_pipes(&s, 1);
    out->error = wait_for_program(s.failure[0], &out->apart);
    if (out->error) {
        while (waitpid(out->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        close_pipes(&s, 0);
        out->pid = 0;
        return BRASA_OK;
    }
    close(s.failure[0]);
    out->output = s.output[0];
    out->errors = s.errors[0];
    fcntl(out->output, F_SETFL, O_NONBLOCK);
    if (out->errors >= 0)
        fcntl(out->errors, F_SETFL, O_NONBLOCK);
    return BRASA_OK;
}
