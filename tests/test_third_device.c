/* test_third_device.c - a device that a test brings along: one folder (counting/) and one row. It computes with the
 * CPU's kernels, so that networks learn the same bits on it; and as it counts its calls, it is seen to be used. */
#define _GNU_SOURCE
#include "test.h"

#include "counting/counting.h"
#include "trainings.h"

/* Trains in a context that is open; returns the run's folder. */
static const char *trained_on(const char *name, counting *calls)
{
    heard l;
    brasa_trainer_result r;
    const char *out = run_folder(name);
    brasa_trainer_options o = plain(&l, out);
    o.model = "mnist_cnn";
    o.data = "synth:digits,n=200";
    o.epochs = 2;
    o.batch = 24;
    o.optimizer = "adam";
    start();
    CHECK_STATUS(brasa_context_use(ctx, strncmp(name, "cpu", 3) == 0 ? "cpu" : "counting"), BRASA_OK);
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK_INT(l.count[BRASA_ON_STEP], 2 * 6);
    if (calls)
        memcpy(calls, ctx->device, sizeof *calls);
    stop();
    return out;
}

TEST(learns_the_cpus_bits)
{
    const char *on_cpu = trained_on("cpu", NULL);
    for (int own = 0; own < 2; own++) {
        CASE("%s", own ? "with memory of its own" : "in the host's memory");
        counting calls;
        counting_own_memory = own;
        const char *on_it = trained_on("counting", &calls);
        CHECK(same_file(on_cpu, on_it, WEIGHTS_FILE));
        CHECK_TEXT(calls.device.name, "counting");
        CHECK(calls.memory >= 1 && calls.copies > 1 && calls.streams >= 2 * 2 * 6 && calls.steps > 2 * 6 * 10);
    }
}

TEST(is_named)
{
    start();
    CHECK_STATUS(brasa_context_use(ctx, "counting:1"), BRASA_BAD_ARGUMENT);
    CHECK_STATUS(brasa_context_use(ctx, "counting"), BRASA_OK);
    CHECK_TEXT(device_recorded(ctx->device->name).text, "counting");
    CHECK_TEXT(device_kind(ctx->device->name), "counting");
    CHECK_STATUS(brasa_context_use(ctx, "cuda"), BRASA_WRONG_STATE);
    stop();
}
