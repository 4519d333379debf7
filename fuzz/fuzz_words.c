/* fuzz_words.c - libFuzzer's target for the texts of options: any words as a transform, an optimizer, a schedule, a
 * list of parameters to freeze, weights of classes, a split, or the settings of a data set. */
#define _GNU_SOURCE
#include "data.h"

#include "core/fields.h"
#include "data/split.h"
#include "data/transform.h"
#include "train/train.h"

enum { TRANSFORM, OPTIMIZER, SCHEDULE, FREEZE, CLASS_WEIGHTS, SPLIT, DATA, DRAWN, KINDS };

static void check(brasa_status status)
{
    require(status == BRASA_OK || status == BRASA_BAD_ARGUMENT || status == BRASA_NOT_FOUND ||
                status == BRASA_BAD_FILE || status == BRASA_BAD_SHAPE ||
                status == BRASA_WRONG_STATE, /* all is frozen */
            "an unexpected status");
    if (status != BRASA_OK)
        require(it.ctx->error[0] && !strchr(it.ctx->error, '\n'), "no clear error");
}

static void read_transform(const char *text)
{
    transform t = {0};
    fields_set_defaults(transform_fields, &t);
    const brasa_status status = fields_parse(it.ctx, "transform", transform_fields, &t, text);
    check(status);
    if (status == BRASA_OK)
        require(t.resize >= 0 && t.crop.h >= 0 && t.crop.w >= 0 && t.mean.count <= MAX_REALS && isfinite(t.scale),
                "a strange transform");
}

/* A session of a small network with the text as one of its options. */
static void open_session(int kind, const char *text)
{
    static const char *const dialects[] = {"torch", "tfkeras", "keras2", "caffe"};
    brasa_graph *g = brasa_graph_new(it.ctx);
    brasa_session *s = NULL;
    const brasa_session_options o = {.size = sizeof o,
                                     .batch = 2,
                                     .plan_only = true,
                                     .kernels = "_ref",
                                     .optimizer = kind == OPTIMIZER ? text : "sgd lr=0.1",
                                     .schedule = kind == SCHEDULE ? text : NULL,
                                     .freeze = kind == FREEZE ? text : NULL};
    brasa_graph_set_dialect(g, dialects[strlen(text) % 4]);
    brasa_apply(brasa_apply(brasa_input_vector(g, "x", 3), "dense 2 name=a"), "classify 2 name=b");
    check(brasa_session_new(g, &o, &s));
    brasa_session_free(s);
    brasa_graph_free(g);
}

static void weigh_classes(const char *text)
{
    training t = {.task = {.ctx = it.ctx, .classes = 3, .settings = {.class_weights = text}},
                  .unit = {.pool = {.ctx = it.ctx}}};
    if (strcmp(text, "balanced") == 0) /* asks for a data set */
        return;
    const brasa_status status = unit_weigh_classes(&t);
    check(status);
    for (int k = 0; k < 3 && status == BRASA_OK; k++)
        require(isfinite(t.unit.class_weights[k]) && t.unit.class_weights[k] > 0, "a strange weight");
    pool_free(&t.unit.pool);
}

static void make_split(const char *text)
{
    split_options o = {0};
    split s = {0};
    dataset *d = NULL;
    brasa_status status = split_parse(it.ctx, text, &o);
    check(status);
    if (status != BRASA_OK)
        return;
    require(dataset_open(it.ctx, "synth:letter,n=52", &d) == BRASA_OK, "no set");
    status = split_make(d, &o, &s);
    check(status);
    require(status != BRASA_OK || s.trains + s.tests == 52, "samples that are lost");
    split_free(&s);
    dataset_close(d);
}

static void open_set(bool drawn, const char *text)
{
    static const char table[] = "kind,x\na,1\nb,2\n";
    char spec[700];
    dataset *d = NULL;
    if (!drawn)
        put_file("t.csv", table, sizeof table - 1);
    snprintf(spec, sizeof spec, drawn ? "synth:%.0s%.400s" : "csv:%s/t.csv,%.400s", it.folder, text);
    check(dataset_open(it.ctx, spec, &d));
    dataset_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[1000];
    start();
    if (size == 0)
        return 0;
    it.most = 100 << 20; /* a drawn set has a label for each of its samples */
    const size_t live = it.live, length = size - 1 < sizeof text - 1 ? size - 1 : sizeof text - 1;
    const int kind = data[0] % KINDS;
    for (size_t i = 0; i < length; i++) /* one line, as a user types it */
        text[i] = data[i + 1] == '\n' ? ' ' : (char)data[i + 1];
    text[length] = '\0';
    if (kind == TRANSFORM)
        read_transform(text);
    else if (kind == OPTIMIZER || kind == SCHEDULE || kind == FREEZE)
        open_session(kind, text);
    else if (kind == CLASS_WEIGHTS)
        weigh_classes(text);
    else if (kind == SPLIT)
        make_split(text);
    else
        open_set(kind == DRAWN, text);
    require(it.live == live, "memory that is not given back");
    return 0;
}
