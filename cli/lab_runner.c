/* lab_runner.c - `brasa lab runner`: Brasa as one of the lab's peers, started and read like the others.
 *
 * Standard output carries lines of JSON and nothing else; what went wrong is the last of them. */
#include "build_info.h"
#include "device.h"
#include "tuning.h"

#include "device/device.h"
#include "lab/runner.h"
#include "ops/op.h"

static void tell_imported(runner *r)
{
    json *j = &r->lines;
    const device *d = r->ctx->device;
    runner_begin(r, "imported");
    json_text(j, "framework", "Brasa");
    json_text(j, "version", brasa_version());
    json_open(j, "detail", '{');
    json_int(j, "threads", brasa_context_threads(r->ctx));
    if (d->about[0])
        place_json(j, r->ctx, r->precision);
    json_text(j, "kernels", r->tuning->measure ? "the fastest, timed once on this machine" : "the first that fit");
    if (!d->self_tuning)
        json_text(j, "onednn", library_onednn());
    json_text(j, "compiler", build_compiler());
    json_text(j, "loader", "one thread beside those that compute");
    json_text(j, "pictures",
              strcmp(r->errand->variant, "decoding") == 0 ? "decoded in every epoch"
                                                          : "decoded once, then kept as bytes");
    json_close(j, '}');
    runner_end(r);
}

static int tell_failed(runner *r, brasa_context *ctx, brasa_status status)
{
    runner_begin(r, "failed");
    json_text(&r->lines, "why", brasa_context_error(ctx));
    json_text(&r->lines, "kind", status == BRASA_OUT_OF_MEMORY ? "memory" : "error");
    runner_end(r);
    return complain(FAILED, "%s", brasa_context_error(ctx));
}

/* In a context with the threads that the errand asks for. */
static int do_errand(runner *r, const options *o, const errand *e)
{
    options chosen = *o;
    tuning kernels;
    chosen.quiet = true;
    chosen.no_tune = o->no_tune || strcmp(e->variant, "untuned") == 0;
    tuning_start(&kernels, &chosen);
    r->errand = e;
    r->tuning = &kernels.wish;
    if (!runner_takes(r)) {
        tuning_end(&kernels);
        return DONE;
    }
    tell_imported(r);
    brasa_status status = runner_run(r);
    tuning_end(&kernels);
    const int code = status == BRASA_OK ? DONE : tell_failed(r, r->ctx, status);
    runner_close(r);
    return code;
}

static int run_in(runner *r, brasa_context *reading, const options *o)
{
    errand e;
    brasa_status status = errand_read(reading, o->word[0], &e);
    int code = DONE;
    if (status == BRASA_OK) {
        status = brasa_context_new(&SIZED(brasa_context_options, .threads = (int32_t)e.threads), &r->ctx);
        if (status == BRASA_OK)
            code = do_errand(r, o, &e);
        else
            fail(reading, status, "%s", brasa_status_text(status));
        brasa_context_free(r->ctx);
    }
    if (status != BRASA_OK)
        code = tell_failed(r, reading, status);
    errand_free(&e);
    return code;
}

int run_lab_runner(const options *o)
{
    brasa_context *ctx = NULL;
    runner r = {.lines = json_stdout()};
    setvbuf(stdout, NULL, _IOLBF, 0);
    runner_begin(&r, "start");
    runner_end(&r);
    brasa_status status = brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx);
    if (status != BRASA_OK)
        return complain(FAILED, "%s", brasa_status_text(status));
    const int code = run_in(&r, ctx, o);
    brasa_context_free(ctx);
    return code;
}
