/* test_lab_group.c - limits of memory that the kernel keeps, in control groups that are folders of plain files: what
 * is written to them, what is read back, and what becomes of a run. And limits that the kernel does not keep. */
#define _GNU_SOURCE
#include "counted.h"

#include "lab/group.h"
#include "lab/process.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MB = 1 << 20 };

/* --- groups of files ----------------------------------------------------------------------------------------- */

static const char *const files[][7] = {
    [1] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"},
    [2] = {"memory.max", "memory.swap.max", "memory.peak", "memory.events", "memory.oom.group"}};
static int version;    /* of the groups that are made */
static bool closed_up; /* nobody may join them */

static const char *within(const char *place, const char *name)
{
    static char path[400];
    snprintf(path, sizeof path, "%.350s/%.40s", place, name);
    return path;
}

/* In the place of the library's: a new group has its files, as the kernel's have. */
int mkdir(const char *path, mode_t mode)
{
    const int made = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (made != 0 || !strstr(path, "brasa-lab-"))
        return made;
    for (int i = 0; i < 7 && files[version][i]; i++)
        write_file(within(path, files[version][i]), "0\n", 2);
    if (closed_up)
        return symlink("/dev/full", within(path, "cgroup.procs"));
    write_file(within(path, "cgroup.procs"), "", 0);
    return 0;
}

/* A folder that groups of this version can be made in. */
static void parent_of(int of, bool refuses)
{
    char path[300];
    version = of;
    closed_up = refuses;
    snprintf(path, sizeof path, "%s", in_folder(refuses ? "closed" : of == 1 ? "first" : "second"));
    syscall(SYS_mkdirat, AT_FDCWD, path, 0755);
    if (of == 1)
        write_file(within(path, "memory.limit_in_bytes"), "9\n", 2);
    else
        write_file(within(path, "cgroup.subtree_control"), "cpu memory\n", 11);
    setenv("BRASA_CGROUP", path, 1);
}

/* What a file of the group has now, without the end of its line. */
static const char *has(const char *name)
{
    static char text[64];
    char path[400];
    snprintf(path, sizeof path, "%s/brasa-lab-%ld/%s", getenv("BRASA_CGROUP"), (long)getpid(), name);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(text, sizeof text, f))
        text[0] = '\0';
    if (f)
        fclose(f);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static void forget_group(void)
{
    char path[400];
    snprintf(path, sizeof path, "%s/brasa-lab-%ld", getenv("BRASA_CGROUP"), (long)getpid());
    for (int i = 0; i < 7 && files[version][i]; i++)
        unlink(within(path, files[version][i]));
    unlink(within(path, "cgroup.procs"));
    rmdir(path);
    unlink(within(getenv("BRASA_CGROUP"), "memory.limit_in_bytes"));
    unlink(within(getenv("BRASA_CGROUP"), "cgroup.subtree_control"));
    rmdir(getenv("BRASA_CGROUP"));
    unsetenv("BRASA_CGROUP");
}

TEST(limits_are_written)
{
    for (int of = 1; of <= 2; of++) {
        CASE("version %d", of);
        start();
        parent_of(of, false);
        group g = group_make(123456789);
        CHECK_INT(g.version, of);
        CHECK(g.procs >= 0);
        CHECK_TEXT(has(files[of][0]), "123456789");
        CHECK_TEXT(has(files[of][1]), of == 1 ? "123456789" : "0"); /* nothing swaps */
        CHECK_INT(group_kills(&g), 0);
        CHECK_INT(group_peak(&g), 0);
        group_remove(&g);
        CHECK_INT(g.version, 0);
        CHECK_INT(group_peak(&g), -1);
        forget_group();
        stop();
    }
    start();
    setenv("BRASA_CGROUP", in_folder("nowhere"), 1);
    CHECK_INT(group_make(1000).version, 0);
    setenv("BRASA_CGROUP", "/tmp", 1); /* a folder that is no group */
    CHECK_INT(group_make(1000).version, 0);
    unsetenv("BRASA_CGROUP");
    CHECK_INT(group_make(0).version, 0);
    stop();
}

/* --- runs in them -------------------------------------------------------------------------------------------- */

static brasa_status run_shell(const char *script, int64_t most, process_result *out)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    return process_run(ctx, &(process_request){.argv = argv, .memory = most, .seconds = 60}, out);
}

#define DONE  "echo '{\"event\":\"done\",\"at\":1}'"
#define GROUP "cd \"$BRASA_CGROUP\"/brasa-lab-*; "

TEST(what_the_kernel_tells_counts)
{
    static const struct {
        int version;
        bool closed;
        const char *script, *status, *reason, *detail;
    } rows[] = {
        {2, false, DONE, "done", NULL, "{\"memory_limit_kept_by\": \"the kernel (cgroup v2)\"}"},
        {1, false, DONE, "done", NULL, "{\"memory_limit_kept_by\": \"the kernel (cgroup v1)\"}"},
        {2, false, GROUP "echo 'low 0 oom_kill 1' > memory.events; exit 1", "memory",
         "ended by the kernel: over the limit of 105 MB", "cgroup v2"},
        {1, false, GROUP "echo oom_kill 2 > memory.oom_control; kill -9 $$", "memory",
         "ended by the kernel: over the limit of 105 MB", "cgroup v1"},
        {2, false, GROUP "echo 900000000 > memory.peak; " DONE, "memory",
         "over the limit of 105 MB, between two looks: it had 900 MB", "cgroup v2"},
        {2, true, DONE, "done", NULL, "looks, ten a second"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%d: %s", (int)i, rows[i].script);
        start();
        process_result r;
        parent_of(rows[i].version, rows[i].closed);
        CHECK_STATUS(run_shell(rows[i].script, 100 * MB, &r), BRASA_OK);
        CHECK_TEXT(r.status, rows[i].status);
        CHECK_TEXT(r.reason ? r.reason : "none", rows[i].reason ? rows[i].reason : "none");
        CHECK_HAS(r.account.detail, rows[i].detail);
        if (!rows[i].closed)
            CHECK_TEXT(has("cgroup.procs"), "0"); /* it joined */
        process_free(&r);
        forget_group();
        stop();
    }
}

/* --- runs that are looked at --------------------------------------------------------------------------------- */

/* Of some 100 ms, often between two looks. */
TEST(short_peaks_do_not_pass)
{
    for (int i = 0; i < 4; i++) {
        start();
        process_result r;
        setenv("BRASA_CGROUP", "/nowhere", 1);
        CHECK_STATUS(run_shell("dd if=/dev/zero of=/dev/null bs=300M count=1 2>/dev/null; " DONE, 100 * MB, &r),
                     BRASA_OK);
        CHECK_TEXT(r.status, "memory");
        CHECK_HAS(r.reason, "over the limit of 105 MB");
        CHECK_HAS(r.account.detail, "\"memory_limit_kept_by\": \"looks, ten a second\"");
        process_free(&r);
        CHECK_STATUS(run_shell("sleep 0.4; " DONE, 100 * MB, &r), BRASA_OK);
        CHECK_TEXT(r.status, "done");
        process_free(&r);
        CHECK_STATUS(run_shell(DONE, MB / 2, &r), BRASA_OK);
        CHECK(strcmp(r.status, "done") != 0); /* seen, or over before */
        process_free(&r);
        unsetenv("BRASA_CGROUP");
        stop();
    }
}
