/* test_lab_group_kernel.c - limits of memory that the kernel really keeps, where a control group may be made here. */
#define _GNU_SOURCE
#include "counted.h"

#include "lab/group.h"
#include "lab/process.h"

#include <unistd.h>

enum { MB = 1 << 20 };

#define DONE "echo '{\"event\":\"done\",\"at\":1}'"

/* Of version 1, which the lab takes only where it is told to: the group that this process is in. */
static void name_own_group(void)
{
    char line[1000], path[1200] = "";
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *own = strstr(line, ":memory:/");
        if (own)
            snprintf(path, sizeof path, "/sys/fs/cgroup/memory%.*s", (int)strcspn(own + 8, "\n"), own + 8);
    }
    if (f)
        fclose(f);
    if (*path && access(path, W_OK) == 0)
        setenv("BRASA_CGROUP", path, 0);
}

static brasa_status run_shell(const char *script, int64_t most, process_result *out)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    return process_run(ctx, &(process_request){.argv = argv, .memory = most, .seconds = 60}, out);
}

/* What takes more than it may is ended by the kernel, whether it is the runner or one that it has started; what takes
 * less is not. */
TEST(the_kernel_keeps_limits)
{
    static const struct {
        const char *script, *status, *reason;
    } rows[] = {
        {"head -c 20000000 /dev/zero | tail -c 20000000 | wc -c >/dev/null; " DONE, "done", NULL},
        {"exec awk 'BEGIN { s = \"x\"; while (length(s) < 400000000) s = s s }'", "memory", "limit of 105 MB"},
        {"head -c 400000000 /dev/zero | tail -c 400000000 | wc -c >/dev/null; " DONE, "memory", "limit of 105 MB"},
    };
    name_own_group();
    group made = group_make(100 * MB);
    const int version = made.version;
    char path[1000], words[40];
    snprintf(path, sizeof path, "%s", made.path);
    group_remove(&made);
    if (!version)
        SKIP("no control group can be made here (BRASA_CGROUP names one)");
    CHECK(access(path, F_OK) != 0); /* nothing is left of it */
    snprintf(words, sizeof words, "the kernel (cgroup v%d)", version);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].script);
        start();
        process_result r;
        CHECK_STATUS(run_shell(rows[i].script, 100 * MB, &r), BRASA_OK);
        CHECK_TEXT(r.status, rows[i].status);
        CHECK(!r.reason == !rows[i].reason);
        if (r.reason && rows[i].reason)
            CHECK_HAS(r.reason, rows[i].reason);
        CHECK_HAS(r.account.detail, words);
        CHECK(access(path, F_OK) != 0);
        process_free(&r);
        stop();
    }
}
