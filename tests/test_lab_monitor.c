/* test_lab_monitor.c - the sampler of a process tree: what processes do here is known, so its figures are, too. */
#define _GNU_SOURCE
#include "counted.h"

#include "lab/energy.h"
#include "lab/gpu.h"
#include "lab/monitor.h"
#include "lab/proc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { MB = 1 << 20 };

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_for(double seconds)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - floor(seconds)))},
              NULL);
}

/* Computes until this thread has used so much processor time. */
static void spin(double seconds)
{
    struct timespec t;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while ((double)t.tv_sec + 1e-9 * (double)t.tv_nsec < seconds);
}

/* Memory that is really there, and stays. */
static char *touch(size_t bytes)
{
    char *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        _exit(9);
    memset(m, 1, bytes);
    return m;
}

static pid_t run_child(void (*what)(void))
{
    const pid_t pid = fork();
    if (pid == 0) {
        what();
        _exit(0);
    }
    return pid;
}

/* Looks until the first process is over, or so long; whether it is over. */
static bool follow(monitor *m, double seconds)
{
    int how;
    const double end = now_seconds() + seconds;
    while (!monitor_reap(m, &how)) {
        if (now_seconds() > end)
            return false;
        sleep_for(0.01);
        CHECK_STATUS(monitor_look(m, "epoch"), BRASA_OK);
    }
    return true;
}

static void end_all(monitor *m)
{
    int how;
    while (monitor_signal(m, SIGKILL) > 0 || !monitor_reap(m, &how) || monitor_left(m) > 0)
        sleep_for(0.01);
}

/* What a test watches, and what came of it. */
static monitor *watched;
static monitor_totals totals;
static store_sample *samples;
static int sample_count;

/* Watches a child that does this; false: it cannot. */
static bool watch_child(void (*what)(void), int64_t limit)
{
    if (!CHECK(monitor_start(ctx, &(monitor_options){.memory = limit}, &watched) == BRASA_OK))
        return false;
    monitor_follow(watched, run_child(what));
    return true;
}

static void end_watching(void)
{
    monitor_end(watched);
    watched = NULL;
}

static void take_results(void)
{
    CHECK_STATUS(monitor_results(watched, &scratch, &totals, &samples, &sample_count), BRASA_OK);
    end_watching();
}

static void end(void)
{
    end_watching();
    unsetenv("BRASA_NVML");
    unsetenv("FAKE_NVML_FAILS");
    stop();
}

AROUND_EACH(start, end)

/* --- figures ------------------------------------------------------------------------------------------------- */

static void *wait_in_thread(void *user)
{
    for (int i = 0; i < 110; i++)
        sleep_for(0.01);
    return user;
}

static void work_a_while(void)
{
    pthread_t t[3];
    touch(64 * MB);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, wait_in_thread, NULL);
    spin(0.3);
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
}

TEST(figures_of_one_process)
{
    REQUIRE(watch_child(work_a_while, 0));
    CHECK(follow(watched, 20));
    take_results();
    CHECK(totals.cpu_seconds >= 0.29 && totals.cpu_seconds < 2);
    CHECK(totals.peak_rss >= 64 * MB && totals.peak_rss < 400 * MB);
    CHECK(totals.peak_pss >= 64 * MB && totals.peak_pss <= totals.peak_rss);
    CHECK_INT(totals.threads_max, 4);
    CHECK_INT(totals.children, 0);
    CHECK(totals.ctx_switches >= 200); /* three threads that slept 110 times each */
    CHECK(totals.faults > 10);
    CHECK(totals.cpu_mean > 0.05 && totals.cpu_mean < 4);
    CHECK(totals.share >= 0 && totals.share < 0.05);
    CHECK(totals.gpu_peak == -1 && isnan(totals.gpu_busy) && !totals.gpu_why); /* nobody asked */
    CHECK(isnan(totals.energy_j) == (totals.energy_why != NULL));
    REQUIRE(sample_count >= 3);
    double cpu = 0, before = 0;
    int64_t switches = 0;
    for (int i = 0; i < sample_count; i++) {
        CHECK(samples[i].at > before);
        CHECK_TEXT(samples[i].phase, "epoch");
        CHECK_INT(samples[i].processes, 1);
        cpu += samples[i].cpu * (samples[i].at - before);
        switches += samples[i].ctx;
        before = samples[i].at;
    }
    CHECK(cpu > 0.15 && cpu < 2);
    CHECK(switches > 50);
}

static void pause_and_end(void)
{
    touch(100 * MB);
    sleep_for(2.5);
}

TEST(costs_less_than_a_hundredth)
{
    REQUIRE(watch_child(pause_and_end, 0));
    int how;
    while (!monitor_reap(watched, &how)) { /* as process.c does: asleep until the next look */
        const double pause = monitor_due(watched) - now_seconds();
        sleep_for(pause > 0 ? pause : 0);
        CHECK_STATUS(monitor_look(watched, "epoch"), BRASA_OK);
    }
    take_results();
    CHECK(totals.share < 0.01);
    CHECK(sample_count >= 15 && sample_count <= 30); /* ten a second, if the machine lets us */
}

/* --- trees --------------------------------------------------------------------------------------------------- */

static void spin_short(void)
{
    spin(0.02);
}

static void many_short_children(void)
{
    for (int i = 0; i < 20; i++)
        waitpid(run_child(spin_short), NULL, 0);
}

TEST(no_samples_of_who_is_over)
{
    int how;
    REQUIRE(watch_child(spin_short, 0));
    siginfo_t ended;
    CHECK_INT(waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT), 0); /* it is over, and stays in the list */
    for (int i = 0; i < 4; i++) {
        sleep_for(0.11);
        CHECK_STATUS(monitor_look(watched, "epoch"), BRASA_OK);
    }
    CHECK(monitor_reap(watched, &how));
    take_results();
    CHECK_INT(sample_count, 0);
    CHECK(totals.cpu_seconds >= 0.01);
}

TEST(time_of_short_lived_children_counts)
{
    REQUIRE(watch_child(many_short_children, 0));
    CHECK(follow(watched, 20));
    take_results();
    CHECK(totals.cpu_seconds >= 0.38);
    CHECK(totals.children >= 1 && totals.children <= 20);
}

static void sleep_long(void)
{
    sleep_for(30);
}

/* A grandchild in a session of its own, whose parent goes. */
static void leave_one_behind(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            sleep_long();
        _exit(0);
    }
    sleep_for(0.3);
}

TEST(orphans_are_found_and_ended)
{
    int how;
    const pid_t bystander = run_child(sleep_long); /* ours, but not of the tree */
    REQUIRE(watch_child(leave_one_behind, 0));
    CHECK(follow(watched, 20));
    CHECK_INT(monitor_signal(watched, 0), 1);
    end_all(watched);
    CHECK(monitor_reap(watched, &how));
    CHECK_INT(monitor_signal(watched, 0), 0);
    end_watching();
    CHECK_INT(waitpid(bystander, &how, WNOHANG), 0); /* it lives */
    kill(bystander, SIGKILL);
    CHECK_INT(waitpid(bystander, &how, 0), bystander);
    CHECK_INT(waitpid(-1, &how, WNOHANG), -1); /* and nobody else is left */
}

static void pause_for_a_second(void)
{
    sleep_for(1);
}

static void sleep_shortly(void)
{
    sleep_for(0.2);
}

static void share_with_a_child(void)
{
    touch(48 * MB);
    run_child(sleep_long);
    sleep_long();
}

TEST(shared_pages_count_once)
{
    int asked = 0;
    bool over = false;
    REQUIRE(watch_child(share_with_a_child, 72 * MB));
    /* Asking finds it, however seldom a busy machine looks. */
    for (int i = 0; i < 1000 && monitor_signal(watched, 0) < 2; i++)
        CHECK(!follow(watched, 0.01));
    for (int i = 0; i < 100; i++) {
        CHECK(!follow(watched, 0.01));
        over = over || monitor_over(watched);
    }
    end_all(watched);
    take_results();
    if (totals.peak_pss < 0)
        SKIP("PSS cannot be read here");
    CHECK(totals.peak_rss > 90 * MB);
    CHECK(totals.peak_pss > 48 * MB && totals.peak_pss < 72 * MB);
    CHECK(!over);
    CHECK_INT(totals.children, 1);
    for (int i = 0; i < sample_count; i++)
        asked += samples[i].pss >= 0;
    CHECK(asked <= 4); /* not with every look, though RSS is over the limit all the time */
}

static void share_for_a_moment(void)
{
    touch(48 * MB);
    run_child(pause_for_a_second);
    pause_for_a_second();
}

/* As a loader that starts its worker anew in every epoch, and is alone in between, where PSS is asked for, too. */
static void share_twice(void)
{
    int how;
    touch(48 * MB);
    waitpid(run_child(pause_for_a_second), &how, 0);
    sleep_for(1.3);
    waitpid(run_child(sleep_shortly), &how, 0);
}

/* As a runner whose peak falls between two looks, and that has asked another program for something before. */
static void have_much_for_a_moment(void)
{
    run_child(sleep_shortly);
    sleep_for(0.5);
    void *much = mmap(NULL, 64 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(much, 1, 64 * MB);
    munmap(much, 64 * MB);
    sleep_for(0.5);
}

static void become_another(void)
{
    sleep_for(0.1);
    execlp("sleep", "sleep", "1.2", (char *)NULL);
}

static monitor_totals totals_of(void (*what)(void))
{
    totals = monitor_nothing();
    if (watch_child(what, 0) && CHECK(follow(watched, 20))) {
        end_all(watched);
        take_results();
    }
    end_watching();
    return totals;
}

TEST(memory_of_a_run)
{
    CASE("what is shared counts once, also in short runs");
    monitor_totals t = totals_of(share_for_a_moment);
    if (t.peak_pss < 0)
        SKIP("PSS cannot be read here");
    CHECK(t.peak_rss > 90 * MB);
    CHECK(t.peak_memory > 48 * MB && t.peak_memory < 80 * MB);
    CASE("also when there are several again");
    t = totals_of(share_twice);
    CHECK(t.peak_rss > 90 * MB);
    CHECK(t.peak_memory > 48 * MB && t.peak_memory < 80 * MB);
    CASE("a child hides no peak of the kernel's");
    t = totals_of(have_much_for_a_moment);
    CHECK(t.children >= 1);
    CHECK(t.peak_memory > 64 * MB);
    CASE("a process that becomes another program");
    t = totals_of(become_another);
    CHECK(t.peak_pss > 0 && t.peak_pss < 20 * MB);
}

TEST(limit_of_memory)
{
    bool over = false;
    REQUIRE(watch_child(pause_and_end, 50 * MB));
    for (int i = 0; i < 100 && !over; i++) {
        follow(watched, 0.01);
        over = monitor_over(watched);
    }
    CHECK(over);
    CHECK(monitor_memory(watched) > 50 * MB);
    end_all(watched);
}

/* --- energy -------------------------------------------------------------------------------------------------- */

static void write_zone(const char *zone, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s", zone);
    mkdir(in_folder(path), 0755);
    snprintf(path, sizeof path, "%s/%s", zone, name);
    write_file(in_folder(path), text, strlen(text));
}

static void write_package(int number, const char *uj)
{
    char zone[32], name[32];
    snprintf(zone, sizeof zone, "intel-rapl:%d", number);
    snprintf(name, sizeof name, "package-%d\n", number);
    write_zone(zone, "name", name);
    write_zone(zone, "max_energy_range_uj", "1000000000\n");
    write_zone(zone, "energy_uj", uj);
}

static void remove_zones(void)
{
    static const char *const zones[] = {"intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0", "intel-rapl:2"};
    static const char *const names[] = {"name", "max_energy_range_uj", "energy_uj"};
    char path[64];
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 3; k++) {
            snprintf(path, sizeof path, "%s/%s", zones[i], names[k]);
            remove(in_folder(path));
        }
        rmdir(in_folder(zones[i]));
    }
}

TEST(energy_of_all_packages)
{
    energy e;
    write_package(0, "1000000\n");
    write_package(1, "999000000\n");
    write_zone("intel-rapl:0:0", "name", "core\n"); /* a part of a package */
    write_zone("intel-rapl:0:0", "energy_uj", "7\n");
    write_zone("intel-rapl:2", "name", "psys\n"); /* more than the processors */
    in_folder("");
    energy_open(&e, folder);
    REQUIRE(e.packages == 2);
    write_package(0, "3500000\n");
    write_package(1, "2000000\n"); /* once round */
    energy_read(&e);
    CHECK_CLOSE(e.joules, 2.5 + 3, 1e-9);
    energy_close(&e);
    remove_zones();
}

TEST(energy_that_cannot_be_read)
{
    energy e;
    energy_open(&e, in_folder("none"));
    CHECK_INT(e.packages, 0);
    CHECK_HAS(e.why, "not readable: the machine has no ");
    energy_close(&e);
    write_package(0, "1\n");
    remove(in_folder("intel-rapl:0/energy_uj"));
    energy_open(&e, folder);
    CHECK_INT(e.packages, 0);
    CHECK_HAS(e.why, "intel-rapl:0/energy_uj: No such file");
    energy_close(&e);
    remove_zones();
}

/* --- a GPU, by a library that stands in for NVIDIA's: fake/nvml.c has the numbers ------------------------------ */

static double gpu_seconds = 1.6;

static void wait_a_while(void)
{
    sleep_for(gpu_seconds);
}

/* What is said of a child. `by`: how its memory is known; "pid", "growth" or "" for not at all. */
static monitor_totals watch_gpu(const char *by, const char *fails, store_sample *last)
{
    char pid[16] = "1";
    totals = monitor_nothing();
    sample_count = 0;
    setenv("BRASA_NVML", TEST_FAKE_NVML, 1);
    setenv("FAKE_NVML_FAILS", fails, 1);
    setenv("FAKE_NVML_GB", "12", 1);
    if (CHECK(monitor_start(ctx, &(monitor_options){.gpu = true}, &watched) == BRASA_OK)) {
        const pid_t child = run_child(wait_a_while);
        if (strcmp(by, "pid") == 0)
            snprintf(pid, sizeof pid, "%d", (int)child);
        setenv("FAKE_NVML_PID", pid, 1);
        if (strcmp(by, "growth") == 0)
            setenv("FAKE_NVML_GB", "17", 1);
        monitor_follow(watched, child);
        CHECK(follow(watched, 20));
        take_results();
    }
    if (CHECK(sample_count > 0))
        *last = samples[sample_count - 1];
    return totals;
}

static bool is_this(const void *user, pid_t pid)
{
    (void)user;
    return pid == getpid();
}

/* Compiling and waiting before an epoch is none of it, however long ago the last look was. */
TEST(gpu_in_epochs)
{
    static const struct look {
        double clock;
        bool epoch;
    } looks[] = {{0, false}, {10, true}, {11, true}, {11.5, true}, {30, false}, {31, true}, {31.5, true}};
    gpu g;
    setenv("BRASA_NVML", TEST_FAKE_NVML, 1);
    gpu_open(&g);
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++)
        gpu_look(&g, is_this, NULL, looks[i].clock, looks[i].epoch);
    const gpu_sums sums = gpu_sum_up(&g);
    CHECK_CLOSE(sums.joules, 3, 1e-9); /* one with each look */
    CHECK_CLOSE(sums.power, 3 / 2.0, 1e-9);
    CHECK_CLOSE(sums.busy, 0.37, 1e-9);
    CHECK(!sums.why);
    gpu_close(&g);
}

/* Time whose energy nobody knows is left out: the counter gives it only from one reading to the next. */
TEST(gpu_energy_that_fails_once)
{
    gpu g;
    setenv("BRASA_NVML", TEST_FAKE_NVML, 1);
    gpu_open(&g);
    for (int clock = 0; clock < 6; clock++) {
        setenv("FAKE_NVML_FAILS", clock == 3 ? "energy" : "", 1);
        gpu_look(&g, is_this, NULL, clock, true);
    }
    const gpu_sums sums = gpu_sum_up(&g);
    CHECK_CLOSE(sums.joules, 3 + 250.5, 1e-9); /* a second by its power, none of the one after */
    CHECK_CLOSE(sums.power, (3 + 250.5) / 4, 1e-9);
    gpu_close(&g);
}

TEST(gpu_of_a_run)
{
    store_sample s = {0};
    CASE("its process is known there");
    monitor_totals t = watch_gpu("pid", "", &s);
    CHECK_INT(t.gpu_peak, 3ll << 30);
    CHECK(t.gpu_energy_j >= 4 && t.gpu_energy_j <= 18); /* one for each look but the first */
    CHECK_CLOSE(t.gpu_power * 1.5, t.gpu_energy_j, 0.3 * t.gpu_energy_j);
    CHECK_CLOSE(t.gpu_busy, 0.37, 1e-9);
    CHECK(!t.gpu_why);
    CHECK_INT(s.gpu_memory, 3ll << 30);
    CHECK(s.gpu_busy == 0.37 && s.gpu_power == 250.5);
    CASE("epochs of less than a second");
    gpu_seconds = 0.6;
    t = watch_gpu("pid", "", &s);
    gpu_seconds = 1.6;
    CHECK_INT(t.gpu_peak, 3ll << 30);
    CHECK(isnan(t.gpu_busy) && isnan(t.gpu_power) && isnan(t.gpu_energy_j));
    CHECK_TEXT(t.gpu_why, "not readable: power and how busy it was, in epochs of less than a second together");
    CASE("only the GPU's memory has grown");
    t = watch_gpu("growth", "", &s);
    CHECK_INT(t.gpu_peak, 5ll << 30);
    CHECK(s.gpu_busy == 0.37);
    CASE("no counter: power and time");
    t = watch_gpu("pid", "energy", &s);
    CHECK_CLOSE(t.gpu_power, 250.5, 1e-6);
    CASE("no power: the counter alone");
    t = watch_gpu("pid", "power", &s);
    CHECK(t.gpu_energy_j >= 1 && isnan(s.gpu_power));
    CHECK_TEXT(t.gpu_why, "not readable: NVML says of the power: Not Supported");
    CASE("a look that is held up puts the next one off by no more than others do");
    t = watch_gpu("pid", "first", &s);
    CHECK_INT(t.gpu_peak, 3ll << 30);
    CASE("looks that are dear now and then are made less often");
    t = watch_gpu("pid", "second", &s);
    CHECK(t.gpu_energy_j >= 1);
    CHECK(t.share < 0.025); /* 0.05 without that */
    CASE("a run that computes elsewhere");
    t = watch_gpu("", "", &s);
    CHECK_INT(t.gpu_peak, -1);
    CHECK(isnan(t.gpu_busy) && isnan(t.gpu_energy_j));
    CHECK_TEXT(t.gpu_why, "not readable: the run was not seen on any GPU");
    CASE("no GPU");
    t = watch_gpu("", "init", &s);
    CHECK_TEXT(t.gpu_why, "not readable: NVML says of the driver: Not Supported");
}

TEST(memory_runs_out)
{
    int refused = 0;
    for (int at = 1; at < 12; at++) {
        monitor *m;
        memory.calls = 0;
        memory.fail_at = at;
        refused += monitor_start(ctx, &(monitor_options){.memory = 0}, &m) == BRASA_OUT_OF_MEMORY;
        monitor_end(m);
    }
    memory.fail_at = 0;
    CHECK(refused > 0);
}
