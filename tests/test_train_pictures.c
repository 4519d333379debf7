/* test_train_pictures.c - trainings with pictures that go to a device as bytes: what stays there, what comes anew,
 * and what its memory is enough for. See train_device.h. */
#define _GNU_SOURCE
#include "train_device.h"

/* What stands about a unit that trains. */
typedef struct looker {
    heard heard; /* first: listen_to's user */
    int64_t session, upload, stay;
    int32_t kept;    /* pictures on the device at the end of the last epoch */
    int64_t decoded; /* then */
} looker;

static bool look(void *user, const brasa_progress *p)
{
    looker *w = user;
    const unit *u = &p->trainer->unit;
    if (p->event == BRASA_ON_BEGIN) {
        w->session = (int64_t)u->memory.total;
        w->upload = u->upload_bytes;
        w->stay = u->stay_bytes;
    }
    if (p->event == BRASA_ON_EPOCH && u->upload) {
        w->kept = upload_kept(u->upload);
        w->decoded = feeder_decoded(u->feeder);
    }
    return listen_to(user, p);
}

static const char changed[] = "crop=24 random_crop=yes flip=horizontal mean=0.2 std=0.4";

/* A network for what `changed` leaves of digits. */
static const char *small_net(void)
{
    static const char text[] =
        "input 1 24 24\nconv 8 3x3 name=a\nbatchnorm\nrelu\nmaxpool 2\nflatten\nclassify 10 name=b\n";
    static char path[300];
    strcpy(path, in_folder("small.net"));
    write_file(path, text, sizeof text - 1);
    return path;
}

static brasa_trainer_options changing(looker *w, const char *out, int64_t mem)
{
    brasa_trainer_options o = pictures(&w->heard, out, small_net());
    *w = (looker){.kept = 0};
    o.transform = changed;
    o.memory_limit = mem;
    o.batch = 20;
    o.epochs = 4;
    o.progress = look;
    o.user = w;
    return o;
}

TEST(pictures_go_as_bytes)
{
    DEVICE_OR_SKIP();
    looker w;
    brasa_trainer_result r;
    brasa_epoch last;
    const char *cpu = run_folder("cpu"), *stays = run_folder("stays"), *comes = run_folder("comes");
    static const char *const copies[] = {"late", "early"};
    CASE("the CPU's numbers");
    start_on("cpu");
    brasa_trainer_options o = changing(&w, cpu, 0);
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK(w.upload == 0 && w.stay == 0);
    last = w.heard.last;
    stop();
    for (int i = 0; i < 2; i++) {
        setenv("FAKE_CUDA_COPIES", copies[i], 1);
        CASE("pictures that stay, copied %s", copies[i]);
        start_on("cuda");
        o = changing(&w, run_folder("stays"), 0);
        CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
        CHECK_CLOSE(w.heard.last.loss, last.loss, ROUNDING);
        CHECK_CLOSE(w.heard.last.test_loss, last.test_loss, ROUNDING);
        CHECK_INT(w.stay, 130 * 28 * 28);
        CHECK_INT(w.upload, 2 * 20 * 28 * 28);
        CHECK_INT(w.kept, 130);
        CHECK(w.decoded <= 130 + 2 * 20); /* batches that were begun before the last ones were there */
        CHECK_HAS(w.heard.notes, "after the first epoch all 130 pictures stay on cuda:0 ");
        CASE("pictures that come anew, copied %s", copies[i]);
        o = changing(&w, run_folder("comes"), w.session + 2 * 20 * 24 * 24);
        CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
        CHECK(w.stay == 0 && w.kept == 0);
        CHECK_INT(w.upload, 2 * 20 * 24 * 24);
        CHECK_INT(w.heard.parts, 1);
        CHECK_TEXT(w.heard.notes, "");
        CHECK(same_file(stays, comes, WEIGHTS_FILE));
        CHECK(same_file(stays, comes, CHECKPOINT_FILE));
        CHECK(most_apart(cpu, comes, "b.weight", 10 * 8 * 11 * 11) <= ROUNDING);
        stop();
    }
    unsetenv("FAKE_CUDA_COPIES");
}

/* Its loss on all pictures, and how many are evaluated at once. */
static double measure_run(const char *run, int64_t mem, int64_t *at_once)
{
    trained t;
    pool p = {.ctx = ctx};
    metrics m;
    int32_t list[130];
    for (int32_t i = 0; i < 130; i++)
        list[i] = i;
    CHECK_STATUS(metrics_init(&m, &p, 10), BRASA_OK);
    CHECK_STATUS(trained_open(ctx, run, &(trained_options){.spec = "", .most = 20, .mem = mem}, &t), BRASA_OK);
    CHECK_STATUS(trained_measure(&t, list, 130, &m), BRASA_OK);
    CHECK_INT(m.count, 130);
    CHECK(!t.task.upload);
    CHECK((t.task.graph->pictures != NULL) == ctx->device->takes_images);
    *at_once = t.task.settings.batch;
    const double loss = metrics_loss(&m);
    trained_close(&t);
    pool_free(&p);
    return loss;
}

/* As `brasa eval` does it: as bytes, too, in batches that fit with what is on its way. */
TEST(runs_are_evaluated_with_bytes)
{
    DEVICE_OR_SKIP();
    looker w;
    brasa_trainer_result r;
    int64_t at_once;
    static const char *const copies[] = {"late", "early"};
    start_on("cpu");
    brasa_trainer_options o = changing(&w, run_folder("evaluated"), 0);
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    const double loss = measure_run(o.out, 0, &at_once);
    stop();
    for (int i = 0; i < 2; i++) {
        CASE("copied %s", copies[i]);
        setenv("FAKE_CUDA_COPIES", copies[i], 1);
        start_on("cuda");
        CHECK_CLOSE(measure_run(o.out, 0, &at_once), loss, ROUNDING);
        CHECK_INT(at_once, 20);
        if (!device_wanted()) { /* where 20 samples take more than that is its kernels' business */
            CHECK_CLOSE(measure_run(o.out, 400 << 10, &at_once), loss, ROUNDING);
            CHECK(at_once > 1 && at_once < 20);
        }
        stop();
    }
    unsetenv("FAKE_CUDA_COPIES");
}

/* From a run whose pictures stay to one whose do not, and the other way round. */
TEST(pictures_and_going_on)
{
    DEVICE_OR_SKIP();
    start_on("cuda");
    looker w;
    brasa_trainer_result r;
    brasa_trainer_options whole = changing(&w, run_folder("whole"), 0);
    CHECK_STATUS(train(ctx, &whole, &r), BRASA_OK);
    const int64_t few = w.session + 2 * 20 * 24 * 24;
    for (int i = 0; i < 2; i++) {
        CASE(i ? "they stay after that" : "they stayed before");
        brasa_trainer_options o = changing(&w, run_folder("moved"), i ? few : 0);
        w.heard.stop_at = 7;
        CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
        CHECK((w.stay > 0) == !i);
        brasa_trainer_options on = resumed(&w.heard, o.out);
        w = (looker){.kept = 0};
        on.progress = look;
        on.memory_limit = i ? 1 << 30 : few;
        CHECK_STATUS(train(ctx, &on, &r), BRASA_OK);
        CHECK((w.stay > 0) == i);
        CHECK(same_file(whole.out, o.out, WEIGHTS_FILE));
    }
    stop();
}

/* A device on which so many bytes are free beside the session, or, with `margin`, beside what libraries may want, too
 * (fit.c). It gives memory in whole pieces, a few of which are one more than asked for. */
static void start_with_memory(int64_t session, int64_t bytes, bool margin)
{
    const int64_t pieces = 4096, beside = margin ? (bytes + (256 << 20)) * 64 / 63 : bytes;
    char text[40];
    snprintf(text, sizeof text, "%lld", (long long)(session + beside + pieces));
    setenv("FAKE_CUDA_MEMORY", text, 1);
    start_on("cuda");
}

static brasa_trainer_options flipping(looker *w, const char *out)
{
    static char net[300];
    brasa_trainer_options o = changing(w, run_folder(out), 0);
    o.model = picture_net(net, "plain.net", "");
    o.transform = "flip=horizontal";
    return o;
}

/* Where the session has its memory and pictures on their way or libraries do not, the batch is split, or the numbers
 * are told. */
TEST(memory_is_short)
{
    HOST_OR_SKIP();
    looker w;
    brasa_trainer_result r;
    start_on("cuda");
    brasa_trainer_options o = flipping(&w, "fits");
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    const int64_t session = w.session, on_the_way = w.upload;
    stop();
    CASE("nothing stays");
    start_with_memory(session, on_the_way, true);
    o = flipping(&w, "anew");
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK(w.stay == 0 && w.heard.parts == 1);
    stop();
    CASE("no room for batches on their way");
    start_with_memory(session, on_the_way / 2, true);
    o = flipping(&w, "split");
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK(w.stay == 0 && w.heard.parts == 2);
    stop();
    CASE("no room for libraries");
    start_with_memory(session, on_the_way, false);
    o = flipping(&w, "refused");
    CHECK_STATUS(train(ctx, &o, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "does not fit");
    stop();
    CASE("no room for libraries beside a table");
    heard l;
    start_with_memory(16 << 20, 0, false);
    o = plain(&l, run_folder("table"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "does not fit");
    stop();
    unsetenv("FAKE_CUDA_MEMORY");
}
