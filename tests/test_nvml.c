/* test_nvml.c - what a GPU says of itself, from a library that stands in for NVIDIA's (fake/nvml.c), and what is said
 * where there is none. */
#define _GNU_SOURCE /* setenv */
#include "test.h"

#include "core/nvml.h"

#include <stdlib.h>
#include <unistd.h>

static char why[200];

static nvml *open_as(const char *file)
{
    why[0] = '\0';
    if (file)
        setenv("BRASA_NVML", file, 1);
    else
        unsetenv("BRASA_NVML");
    return nvml_open(why, sizeof why);
}

TEST(figures)
{
    nvml *n = open_as(TEST_FAKE_NVML);
    uint64_t used = 0, total = 0;
    int percent = 0;
    double watts = 0, before = 0, after = 0;
    nvml_process list[4];
    if (!n)
        test_fail(__FILE__, __LINE__, "%s", why);
    REQUIRE(n != NULL);
    CHECK_INT(nvml_count(n), 1);
    CHECK(!nvml_by_index(n, 1));
    CHECK_TEXT(nvml_why(n), "not readable: NVML says of the GPU: Not Found");
    CHECK(!nvml_by_address(n, "0000:02:00.0"));
    nvml_gpu *g = nvml_by_address(n, "0000:01:00.0");
    REQUIRE(g != NULL);
    CHECK(g == nvml_by_index(n, 0));
    char text[96];
    CHECK(nvml_name(n, g, text, sizeof text));
    CHECK_TEXT(text, "Fake GPU");
    CHECK(nvml_driver(n, text, sizeof text));
    CHECK_TEXT(text, "580.1");
    CHECK(nvml_memory(n, g, &used, &total));
    CHECK(used == 12ull << 30 && total == 80ull << 30);
    CHECK(nvml_utilization(n, g, &percent));
    CHECK_INT(percent, 37);
    CHECK(nvml_power(n, g, &watts));
    CHECK(watts == 250.5);
    CHECK(nvml_energy(n, g, &before) && nvml_energy(n, g, &after));
    CHECK(after - before == 1);
    CHECK_INT(nvml_processes(n, g, list, 4), 1);
    CHECK(list[0].pid == (int)getpid() && list[0].bytes == 3ull << 30);
    CHECK_INT(nvml_processes(n, g, NULL, 0), 1);
    nvml_close(n);
}

TEST(a_figure_that_is_missing)
{
    setenv("FAKE_NVML_FAILS", "energy", 1);
    nvml *n = open_as(TEST_FAKE_NVML);
    double joules;
    int percent;
    REQUIRE(n != NULL);
    nvml_gpu *g = nvml_by_index(n, 0);
    CHECK(!nvml_energy(n, g, &joules));
    CHECK_TEXT(nvml_why(n), "not readable: NVML says of the energy: Not Supported");
    CHECK(nvml_utilization(n, g, &percent));
    nvml_close(n);
    unsetenv("FAKE_NVML_FAILS");
}

TEST(no_library)
{
    CASE("none of that name");
    char cut[100], command[400]; /* less of it than what is loaded */
    snprintf(cut, sizeof cut, "/tmp/brasa-nvml-%d.so", (int)getpid());
    snprintf(command, sizeof command, "head -c 5000 '%s' >'%s'", TEST_FAKE_NVML, cut);
    CHECK_INT(system(command), 0);
    CHECK(!open_as(cut));
    CHECK_HAS(why, "NVML of NVIDIA's driver: the file is not whole");
    remove(cut);
    CHECK(!open_as("/nowhere/libnvidia-ml.so.1"));
    CHECK_HAS(why, "not readable: NVML of NVIDIA's driver: /nowhere/libnvidia-ml.so.1");
    CASE("switched off");
    CHECK(!open_as("off"));
    CHECK_TEXT(why, "not readable: BRASA_NVML is off");
    CASE("it does not start");
    setenv("FAKE_NVML_FAILS", "init", 1);
    CHECK(!open_as(TEST_FAKE_NVML));
    CHECK_TEXT(why, "not readable: NVML says of the driver: Not Supported");
    unsetenv("FAKE_NVML_FAILS");
    CASE("the machine's own");
    nvml *n = open_as(NULL);
    CHECK(n || strncmp(why, "not readable: ", 14) == 0);
    nvml_close(n);
}
