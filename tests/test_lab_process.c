/* test_lab_process.c - runs of a fake peer that fails in every way: each ends, says why, and leaves nobody behind. */
#define _GNU_SOURCE
#include "counted.h"
#include "lab_python.h"

#include "lab/process.h"

#include <errno.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

enum { MB = 1 << 20 };

static const char *const good_lines =
    "{\"event\":\"start\",\"at\":10}\n"
    "{\"event\":\"imported\",\"at\":12.5,\"framework\":\"F\",\"version\":\"1\",\"python\":\"3.11\",\"detail\":{\"a\":"
    "1}}\n"
    "{\"event\":\"phase\",\"at\":13,\"phase\":\"epoch\",\"epoch\":1}\n"
    "{\"event\":\"epoch\",\"at\":14,\"epoch\":1,\"seconds\":3,\"images\":5,\"steps\":2,\"loss\":null,\"accuracy\":0."
    "5}\n"
    "{\"event\":\"epoch\",\"at\":15,\"epoch\":2,\"seconds\":1,\"images\":5,\"steps\":2,\"loss\":0.25,\"accuracy\":"
    "null}\n"
    "{\"event\":\"evaluation\",\"at\":16,\"epoch\":2,\"seconds\":0.5,\"images\":3,\"accuracy\":0.75,\"loss\":1}\n"
    "{\"event\":\"epoch\",\"at\":17,\"epoch\":3,\"seconds\":2,\"images\":5,\"steps\":2,\"loss\":0.125}\n"
    "{\"event\":\"something new\",\"at\":18,\"deep\":[{\"x\":[1,2]}]}\n"
    "{\"event\":\"done\",\"at\":19}\n";

/* What a test ran last. */
static process_result got;

/* No process is left that we would have to wait for. */
static void drop_result(void)
{
    process_free(&got);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
    CHECK_INT(errno, ECHILD);
}

static void end(void)
{
    drop_result();
    stop();
}

AROUND_EACH(start, end)

static brasa_status run(const char *const *argv, process_request r)
{
    drop_result();
    r.argv = argv;
    return process_run(ctx, &r, &got);
}

static brasa_status run_shell(const char *script, process_request r)
{
    return run((const char *const[]){"/bin/sh", "-c", script, in_folder("lines"), NULL}, r);
}

TEST(lines_become_figures)
{
    write_file(in_folder("lines"), good_lines, strlen(good_lines));
    CHECK_STATUS(run_shell("cat \"$0\"; echo said so >&2", (process_request){.seconds = 20}), BRASA_OK);
    CHECK_TEXT(got.status, "done");
    CHECK(!got.reason);
    CHECK_INT(got.bytes, strlen(good_lines));
    CHECK_TEXT(got.output, good_lines);
    CHECK_TEXT(got.tail, "said so\n");
    const account *a = &got.account;
    CHECK_CLOSE(a->import_s, 2.5, 1e-9);
    CHECK_TEXT(a->framework, "F");
    CHECK_TEXT(a->detail, "{\"python\": \"3.11\", \"a\":1}");
    REQUIRE(a->epochs == 3);
    CHECK(isnan(a->epoch[0].loss) && isnan(a->epoch[1].accuracy) && isnan(a->epoch[0].eval_s));
    CHECK_CLOSE(a->epoch[1].eval_accuracy, 0.75, 0);
    CHECK_CLOSE(account_epoch_s(a), 2, 0);
    CHECK_CLOSE(account_eval_s(a), 0.5, 0);
    CHECK_CLOSE(a->accuracy, 0.75, 0);
    CHECK(isnan(a->first_step_s));
    CHECK(got.totals.peak_rss != 0);                     /* -1, where it was over before anybody looked */
    CHECK(isnan(got.totals.share) || got.seconds > 0.9); /* of milliseconds nobody can tell what watching cost */
}

/* Details with nothing in them but white space get no comma. */
TEST(details_that_are_empty)
{
    static const char *const blanks[] = {"", " ", "\\t", " \\r \\t"};
    for (size_t i = 0; i < sizeof blanks / sizeof blanks[0]; i++) {
        CASE("'%s'", blanks[i]);
        char script[200];
        snprintf(script, sizeof script,
                 "printf '{\"event\":\"imported\",\"at\":1,\"python\":\"3.11\",\"detail\":{%s}}\\n'; "
                 "echo '{\"event\":\"done\",\"at\":2}'",
                 blanks[i]);
        CHECK_STATUS(run_shell(script, (process_request){.seconds = 20}), BRASA_OK);
        CHECK_TEXT(got.status, "done");
        CHECK_TEXT(got.account.detail, "{\"python\": \"3.11\"}");
    }
}

TEST(programs_that_are_not_there)
{
    CHECK_STATUS(run((const char *const[]){in_folder("no-python"), "x", NULL}, (process_request){0}), BRASA_OK);
    CHECK_TEXT(got.status, "failed");
    CHECK_HAS(got.reason, "it cannot be started");
    CHECK_HAS(got.reason, "No such file");
}

/* The user's settings that would make a framework faster or slower stay outside; the lab's own come in. */
TEST(speed_is_not_inherited)
{
    static const char *const out[] = {
        "TF_ENABLE_ONEDNN_OPTS",
        "JAX_DISABLE_JIT",
        "XLA_FLAGS",
        "TORCHINDUCTOR_MAX_AUTOTUNE",
        "TORCH_LOGS",
        "PYTORCH_ALLOC_CONF",
        "DNNL_VERBOSE",
        "ONEDNN_MAX_CPU_ISA",
        "AESARA_FLAGS",
        "AESARARC",
        "THEANO_FLAGS",
        "KERAS_BACKEND",
        "MXNET_CUDNN_AUTOTUNE",
        "FLAGS_use_mkldnn",
        "MALLOC_ARENA_MAX",
        "GLIBC_TUNABLES",
        "LD_PRELOAD",
        "CUBLAS_WORKSPACE_CONFIG",
        "CUDNN_LOGLEVEL_DBG",
        "NVIDIA_TF32_OVERRIDE",
    };
    static const char *const in[] = {"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "BRASA_TORCH_PYTHON", "FAKE_NVML_GB"};
    const int outs = sizeof out / sizeof out[0], ins = sizeof in / sizeof in[0];
    const char *const more[] = {"TF_NUM_INTEROP_THREADS=3", NULL};
    char line[64];
    for (int i = 0; i < outs + ins; i++)
        setenv(i < outs ? out[i] : in[i - outs], "of_the_user", 1);
    CHECK_STATUS(run_shell("env | grep -e of_the_user -e ^TF_ >&2; echo '{\"event\":\"done\",\"at\":1}'",
                           (process_request){.environment = more}),
                 BRASA_OK);
    for (int i = 0; i < outs + ins; i++) {
        const char *name = i < outs ? out[i] : in[i - outs];
        CASE("%s", name);
        snprintf(line, sizeof line, "%s=of_the_user\n", name);
        CHECK((strstr(got.tail, line) != NULL) == (i >= outs));
        unsetenv(name);
    }
    CHECK_HAS(got.tail, "TF_NUM_INTEROP_THREADS=3\n");
}

TEST(environment_is_clean)
{
    setenv("OMP_NUM_THREADS", "7", 1);
    setenv("PYTHONPATH", "/nowhere", 1);
    setenv("KEPT", "yes", 1);
    const char *const more[] = {"ADDED=1", NULL};
    const char *script = "env >&2; pwd >&2; read x || echo nothing to read >&2; echo '{\"event\":\"done\",\"at\":1}'";
    CHECK_STATUS(run_shell(script, (process_request){.environment = more, .folder = "/"}), BRASA_OK);
    CHECK_TEXT(got.status, "done");
    CHECK(!strstr(got.tail, "OMP_NUM_THREADS") && !strstr(got.tail, "PYTHONPATH"));
    CHECK_HAS(got.tail, "KEPT=yes");
    CHECK_HAS(got.tail, "ADDED=1");
    CHECK_HAS(got.tail, "PYTHONNOUSERSITE=1");
    CHECK_HAS(got.tail, "\n/\n");
    CHECK_HAS(got.tail, "nothing to read");
}

/* --- the fake peer ------------------------------------------------------------------------------------------- */

static brasa_status run_peer(const char *variant, const char *more, process_request r)
{
    char text[300];
    snprintf(text, sizeof text, "{\"mode\": \"train\", \"variant\": \"%s\"%s}", variant, more);
    write_file(in_folder("e.json"), text, strlen(text));
    return run((const char *const[]){find_python(), "-S", BRASA_SOURCE_DIR "/tests/tools/fake_peer.py",
                                     in_folder("e.json"), NULL},
               r);
}

TEST(every_way_to_fail)
{
    static const struct {
        const char *variant, *more;
        double seconds;
        int64_t memory;
        const char *status, *reason;
    } rows[] = {
        {"good", "", 60, 0, "done", NULL},
        {"refused", "", 60, 0, "refused", "no such device here"},
        {"failed", "", 60, 0, "failed", "it did not work"},
        {"memory_failed", "", 60, 0, "memory", "it did not work"},
        {"exit3", "", 60, 0, "failed", "exit code 3"},
        {"early", "", 60, 0, "failed", "without saying that it was done, after 3 lines"},
        {"nothing", "", 60, 0, "failed", "without saying that it was done, after 0 lines"},
        {"garbage", "", 60, 0, "failed", "line 4 of its output is no line of a runner: 'Traceback"},
        {"halfline", "", 60, 0, "failed", "ends in the middle of line 4"},
        {"nan", "", 60, 0, "failed", "line 4 of its output"},
        {"flood", "", 60, 0, "failed", "longer than 16 MB"},
        {"stderr", "", 60, 0, "done", NULL},
        {"hang", "", 0.5, 0, "timeout", "not over after 0.5 s, while in phase 'build'"},
        {"silent", "", 0.2, 0, "timeout", "not over after 0.2 s, while in phase 'import'"},
        {"stubborn", "", 0.5, 0, "timeout", "not over after 0.5 s"},
        {"eats", ", \"fake_bytes\": 2000000000", 60, 150 * MB, "memory", "over the limit of 157 MB"},
        {"crash", "", 60, 0, "killed", "signal 11"},
        {"killed", "", 60, 0, "killed", "out of memory? It had "},
        {"children", "", 60, 0, "done", NULL},
    };
    PYTHON_OR_SKIP();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].variant);
        CHECK_STATUS(run_peer(rows[i].variant, rows[i].more,
                              (process_request){.seconds = rows[i].seconds, .grace = 0.3, .memory = rows[i].memory}),
                     BRASA_OK);
        CHECK_TEXT(got.status, rows[i].status);
        if (rows[i].reason)
            CHECK_HAS(got.reason, rows[i].reason);
        else
            CHECK_TEXT(got.reason ? got.reason : "none", "none");
        CHECK(got.seconds < 30);
        if (strcmp(rows[i].variant, "stderr") == 0) {
            CHECK(strlen(got.tail) > 4000 && strlen(got.tail) <= 4096);
            CHECK_HAS(got.tail, "nobody reads, and .\n");
        }
        if (strcmp(rows[i].variant, "eats") == 0)
            CHECK(got.totals.peak_rss > 150 * MB && got.totals.peak_rss < 1500 * MB);
        if (strcmp(rows[i].variant, "children") == 0)
            CHECK(got.totals.children >= 2);
    }
}

/* Who says that it is done has told of all its epochs, images and evaluations. */
TEST(done_is_who_told_of_all)
{
    static const struct {
        const char *variant, *reason;
    } rows[] = {
        {"good", NULL},
        {"only_done", "it said that it was done after 0 of 2 epochs"},
        {"one_epoch", "it said that it was done after 1 of 2 epochs"},
        {"few_images", "epoch 2 had 7 of 48 images"},
        {"few_tests", "the evaluation of epoch 2 had 5 of 12 images"},
        {"again", "epoch 1 came where epoch 2 was due"},
        {"after_done", "line 16 came after it had said that it was done"},
        {"untested", "epoch 2 was not evaluated"},
        {"twice_tested", "epoch 2 was evaluated twice"},
        {"accuracy", "the accuracy after epoch 2 is 3.5: from 0 to 1 was expected"},
        {"no_accuracy", "the evaluation of epoch 2 told no accuracy"},
        {"diverged", "the loss of epoch 2 is no finite number"},
        {"no_time", "epoch 2 took no time"},
    };
    PYTHON_OR_SKIP();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].variant);
        const process_request owes = {.seconds = 60, .owed = {.epochs = 2, .images = 48, .tests = 12}};
        CHECK_STATUS(run_peer(rows[i].variant, "", owes), BRASA_OK);
        CHECK_TEXT(got.status, rows[i].reason ? "failed" : "done");
        CHECK_TEXT(got.reason ? got.reason : "none", rows[i].reason ? rows[i].reason : "none");
    }
}

TEST(samples_have_phases)
{
    PYTHON_OR_SKIP();
    CHECK_STATUS(run_peer("slow", ", \"epochs\": 2, \"fake_s\": 0.6", (process_request){.seconds = 60}), BRASA_OK);
    CHECK_TEXT(got.status, "done");
    int epochs = 0;
    for (int i = 0; i < got.count; i++)
        epochs += strcmp(got.samples[i].phase, "epoch") == 0;
    CHECK(epochs >= 4);
    CHECK_INT(got.account.epochs, 2);
    CHECK(got.totals.peak_rss > 4 * MB && got.totals.threads_max >= 1);
    CHECK(got.totals.share < 0.05); /* it is short: starting counts */
}

/* --- ends ---------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop_now;

static void stop_it(int signal)
{
    (void)signal;
    stop_now = 1;
}

TEST(stopped_by_the_user)
{
    stop_now = 0;
    signal(SIGALRM, stop_it);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 300000}}, NULL);
    CHECK_STATUS(run_shell("sleep 30 & sleep 30", (process_request){.stop = &stop_now}), BRASA_OK);
    CHECK_TEXT(got.status, "stopped");
    CHECK(got.seconds < 10);
}

/* Children that hold the pipes, in sessions of their own, do not keep a run from ending. */
TEST(nobody_stays_behind)
{
    const char *script = "setsid sleep 40 & setsid sh -c 'trap \"\" TERM; sleep 40' & "
                         "sleep 0.3; echo '{\"event\":\"done\",\"at\":1}'";
    CHECK_STATUS(run_shell(script, (process_request){.seconds = 30}), BRASA_OK);
    CHECK_TEXT(got.status, "done");
    CHECK(got.seconds < 10);
    CHECK(got.totals.children >= 2);
}

TEST(long_lines)
{
    CHECK_STATUS(run_shell("head -c 3000000 /dev/zero | tr '\\0' x; sleep 30", (process_request){.seconds = 30}),
                 BRASA_OK);
    CHECK_TEXT(got.status, "failed");
    CHECK_HAS(got.reason, "line 1 of its output is longer than 1 MB");
    CHECK(got.seconds < 10);
}

/* A lab that is killed takes its runner along. */
TEST(runner_dies_with_the_lab)
{
    char path[300], line[32] = "";
    snprintf(path, sizeof path, "%s", in_folder("pid"));
    const pid_t lab = fork();
    if (lab == 0) {
        char script[400];
        snprintf(script, sizeof script, "echo $$ > %s; exec sleep 30", path);
        run_shell(script, (process_request){.seconds = 30});
        _exit(0);
    }
    FILE *f = NULL;
    for (int i = 0; i < 500 && !line[0]; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        if ((f = fopen(path, "r"))) {
            if (!fgets(line, sizeof line, f))
                line[0] = '\0';
            fclose(f);
        }
    }
    kill(lab, SIGKILL);
    waitpid(lab, NULL, 0);
    const pid_t runner = (pid_t)atol(line);
    REQUIRE(runner > 0);
    bool gone = false;
    for (int i = 0; i < 300 && !gone; i++) {
        char state = '?', stat[64];
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        snprintf(stat, sizeof stat, "/proc/%ld/stat", (long)runner);
        gone = !(f = fopen(stat, "r"));
        if (f) {
            gone = fscanf(f, "%*d %*s %c", &state) == 1 && state == 'Z'; /* whoever waits for it may be slow */
            fclose(f);
        }
    }
    CHECK(gone);
}

TEST(memory_runs_out)
{
    int refused = 0;
    write_file(in_folder("lines"), good_lines, strlen(good_lines));
    for (int at = 1; at < 40 && memory.calls >= at - 1; at++) { /* till all are granted */
        memory.calls = 0;
        memory.fail_at = at;
        brasa_status status = run_shell("cat \"$0\"", (process_request){.seconds = 20});
        CHECK(status == BRASA_OK || status == BRASA_OUT_OF_MEMORY);
        refused += status == BRASA_OUT_OF_MEMORY;
    }
    memory.fail_at = 0;
    CHECK(refused > 3);
}
