/* test_data_learn.c - drawn fire can be learned, but not by a weight a pixel: a small convolutional network gets most
 * of it right after five epochs, a linear model does not. Through data set, split, loader and session, as a training
 * goes. */
#include "test.h"

#include "data/codec.h"
#include "data/loader.h"
#include "data/split.h"

enum { BATCH = 8, EPOCHS = 5, SIDE = 48 };

static brasa_tensor small_network(brasa_tensor x)
{
    static const int channels[] = {16, 32, 48, 64};
    for (int i = 0; i < 4; i++)
        x = brasa_maxpool(brasa_relu(brasa_batchnorm(brasa_conv2d(x, channels[i], 3, BRASA_SAME))), 2);
    return brasa_flatten(brasa_global_avgpool(x));
}

/* The share of a list that is told right. */
static double accuracy(brasa_session *s, loader *l)
{
    double right = 0, all = 0;
    for (int64_t i = 0; i < loader_steps(l); i++) {
        const batch *b = NULL;
        float share = 0;
        CHECK_STATUS(loader_next(l, &b), BRASA_OK);
        CHECK_STATUS(brasa_eval_step(s, b->input, b->labels, b->size, NULL, &share), BRASA_OK);
        right += (double)share * b->size;
        all += b->size;
    }
    return right / all;
}

static double learn(brasa_context *ctx, feeder *f, const split *s, bool linear)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_session *session = NULL;
    loader *train = NULL, *held = NULL;
    brasa_tensor x = brasa_input(g, "image", 3, SIDE, SIDE);
    brasa_classify(linear ? brasa_flatten(x) : small_network(x), 3);
    const brasa_session_options o = {.size = sizeof o,
                                     .batch = BATCH,
                                     .optimizer = linear ? "adam lr=0.0003" : "adam lr=0.003",
                                     .schedule = "cosine steps=350"};
    CHECK_STATUS(brasa_session_new(g, &o, &session), BRASA_OK);
    loader_options l = {.list = s->train, .count = s->trains, .batch = BATCH, .train = true, .seed = 1};
    CHECK_STATUS(loader_new(f, &l, &train), BRASA_OK);
    l = (loader_options){.list = s->test, .count = s->tests, .batch = BATCH};
    CHECK_STATUS(loader_new(f, &l, &held), BRASA_OK);
    for (int64_t i = 0; i < EPOCHS * loader_steps(train) && !tests.failed; i++) {
        const batch *b = NULL;
        CHECK_STATUS(loader_next(train, &b), BRASA_OK);
        CHECK_STATUS(brasa_use(session, true, b->size), BRASA_OK);
        CHECK_STATUS(brasa_feed(session, "image", b->input, b->input_bytes), BRASA_OK);
        CHECK_STATUS(brasa_feed(session, "label", b->labels, (size_t)b->size * sizeof *b->labels), BRASA_OK);
        CHECK_STATUS(brasa_train(session), BRASA_OK);
    }
    const double right = tests.failed ? 0 : accuracy(session, held);
    printf("%s: %.1f %% of %d\n", linear ? "linear" : "convolutional", 100 * right, (int)s->tests);
    loader_free(train);
    loader_free(held);
    brasa_session_free(session);
    brasa_graph_free(g);
    return right;
}

TEST(fire_is_learnable_not_trivial)
{
    OWNED(brasa_context) *ctx = NULL;
    dataset *d = NULL;
    feeder *f = NULL;
    split s = {0};
    transform t;
    if (!codec_at(0)->version)
        SKIP("no libjpeg");
    REQUIRE(brasa_context_new(NULL, &ctx) == BRASA_OK);
    fields_set_defaults(transform_fields, &t);
    const char *text = "resize=48 crop=48 flip=horizontal mean=0.485,0.456,0.406 std=0.229,0.224,0.225";
    CHECK_STATUS(fields_parse(ctx, "transform", transform_fields, &t, text), BRASA_OK);
    REQUIRE(dataset_open(ctx, "synth:fire,n=791,size=96", &d) == BRASA_OK);
    CHECK_STATUS(split_make(d, &(split_options){.kind = SPLIT_SHARE, .share = 70}, &s), BRASA_OK);
    const feeder_options o = {.set = d, .transform = &t, .budget = 1 << 26};
    CHECK_STATUS(feeder_new(ctx, &o, &f), BRASA_OK);
    if (!tests.failed) {
        const double seen = learn(ctx, f, &s, false), blind = learn(ctx, f, &s, true);
        CHECK(seen >= 0.70 && seen <= 0.95);
        CHECK(blind < 0.60);
        CHECK_INT(feeder_decoded(f), 791); /* the second training decoded nothing */
    }
    feeder_free(f);
    split_free(&s);
    dataset_close(d);
}
