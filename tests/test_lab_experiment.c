/* test_lab_experiment.c - experiments as text: the grid that a file stands for, what every preset expands to, and
 * errors that name file, line and field. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"
#include "core/threads.h"
#include "lab/experiment.h"

#include <stdlib.h>
#include <unistd.h>

/* --- the grid --------------------------------------------------------------------------------------------------- */

static const char example[] = "# an example\r\n"
                              "title    Two networks,#1   # the rest is a comment\n"
                              "network  mnist_cnn  letter_mlp\n"
                              "batch    1 2..8 100..120/10\n"
                              "threads  1 all\n"
                              "\tepochs\t7\n"
                              "small.epochs 3\n"
                              "optimizer adam lr=0.01\n"
                              "data     digits=synth:digits,n=70\n"
                              "experiment first\n"
                              "network  mnist_cnn\n"
                              "split 70/30\n"
                              "limit 12\n"
                              "mem 1.5Gi\n"
                              "on doubling\n"
                              "experiment second\n"
                              "view accuracy\n"
                              "folds 3\n"
                              "batch 4\n"
                              "data synth:digits,n=100 \"images:My photos, 2\"\n";

TEST(a_file_becomes_a_grid)
{
    OWNED(brasa_context) *ctx = context_of(1);
    experiment *e = NULL;
    brasa_status status = experiment_read(ctx, "folder/try.exp", example, &(experiment_options){0}, &e);
    CHECK_STATUS(status, BRASA_OK);
    const int threads = threads_available() > 1 ? 2 : 1, batches = 7;
    REQUIRE(e);
    CHECK_TEXT(e->name, "try");
    CHECK_TEXT(e->title, "Two networks,#1");
    CHECK_INT(e->count, batches * threads + 2 * 2 * threads);

    CASE("the first block");
    static const int batch[] = {1, 2, 4, 8, 100, 110, 120};
    for (int i = 0; i < batches; i++) {
        const lab_cell *c = &e->cells[i * threads];
        CHECK_INT(c->batch, batch[i]);
        CHECK_INT(c->threads, 1);
        CHECK_INT(c->doubling, i == batches - 1);
        CHECK_INT(e->cells[i * threads + threads - 1].threads, threads_available());
    }
    const lab_cell *c = &e->cells[0];
    CHECK_TEXT(c->key, "first mnist_cnn synth:digits,n=70 batch=1 threads=1 cpu f32");
    CHECK_TEXT(c->experiment, "first");
    CHECK_TEXT(c->view, "times");
    CHECK_TEXT(c->optimizer, "adam lr=0.01");
    CHECK_TEXT(c->dialect, "torch");
    CHECK_TEXT(c->split, "70/30");
    CHECK(!c->transform && c->timing && c->limit == 12.0);
    CHECK_INT(c->epochs, 7);
    CHECK_INT(c->repeats, 3);
    CHECK_INT(c->mem, 1610612736);
    CHECK_INT(c->seed, 1);

    CASE("the second block");
    c = &e->cells[batches * threads];
    CHECK_TEXT(c->experiment, "second");
    CHECK(!c->split && !c->timing && !c->doubling && c->mem == 0 && c->limit == 600.0);
    CHECK_INT(c->folds, 3);
    CHECK_TEXT(c[threads].data, "images:My photos, 2");
    CHECK_TEXT(c[2 * threads].network, "letter_mlp");
    experiment_close(e);

    CASE("small, with other data");
    status = experiment_read(ctx, "try.exp", example,
                             &(experiment_options){.small = true, .data = "\"digits=idx:my folder\""}, &e);
    CHECK_STATUS(status, BRASA_OK);
    REQUIRE(e);
    CHECK_INT(e->cells[0].epochs, 3);
    CHECK_TEXT(e->cells[0].data, "idx:my folder");
    experiment_close(e);
}

TEST(keys_tell_cells_apart)
{
    OWNED(brasa_context) *ctx = context_of(1);
    experiment *e = NULL;
    REQUIRE(experiment_open(ctx, "study1-batch", &(experiment_options){0}, &e) == BRASA_OK);
    for (int i = 0; i < e->count; i++)
        for (int k = 0; k < i; k++)
            CHECK(strcmp(e->cells[i].key, e->cells[k].key) != 0);
    experiment_close(e);
}

TEST(doubling_ends_where_a_batch_holds_all)
{
    OWNED(brasa_context) *ctx = context_of(1);
    experiment *e = NULL;
    REQUIRE(experiment_open(ctx, "study1-batch", &(experiment_options){0}, &e) == BRASA_OK);
    const lab_cell *last = &e->cells[9];
    CHECK_INT(last->batch, 100);
    CHECK(last->doubling && !e->cells[8].doubling);
    CHECK_INT(experiment_images(e, last), 6003);
    lab_cell c = *last;
    bool more = true;
    int steps = 0;
    for (lab_cell next; more && steps < 20; c = more ? next : c, steps += more)
        REQUIRE(experiment_doubled(e, &c, &next, &more) == BRASA_OK);
    CHECK_INT(steps, 6); /* 200 ... 6400 */
    CHECK_INT(c.batch, 6400);
    CHECK_HAS(c.key, "batch=6400 ");
    REQUIRE(experiment_doubled(e, &e->cells[0], &c, &more) == BRASA_OK);
    CHECK(!more);
    experiment_close(e);
}

/* --- presets ---------------------------------------------------------------------------------------------------- */

static const struct expected {
    const char *name;
    int cells, small; /* with one number of threads */
} expected[] = {{"quick", 5, 2},         {"study1-cpu", 8, 8},       {"study1-gpu", 8, 8},
                {"study1-batch", 20, 4}, {"study1-resources", 4, 4}, {"study1-threads", 4, 4},
                {"study1-size", 28, 4},  {"study2-batch", 20, 6},    {"study3-split", 4, 4},
                {"study3-folds", 4, 4}};
enum { EXPECTED = sizeof expected / sizeof expected[0] };

/* Data are opened, networks built on them, optimizers read in their dialects. */
TEST(every_preset_can_be_run)
{
    OWNED(brasa_context) *ctx = context_of(1);
    int numbers = 1; /* 1..all */
    for (int n = 1; n < threads_available(); n *= 2)
        numbers++;
    for (int i = 0; lab_preset_at(i); i++) {
        const char *name = lab_preset_at(i)->name;
        for (int small = 0; small < 2; small++) {
            experiment *e = NULL;
            CASE("%s%s", name, small ? " small" : "");
            if (experiment_open(ctx, name, &(experiment_options){.small = small}, &e) != BRASA_OK)
                test_fail(__FILE__, __LINE__, "%s", brasa_context_error(ctx));
            REQUIRE(e && i < EXPECTED);
            const int each = strcmp(name, "study1-threads") == 0 ? numbers : 1;
            CHECK_TEXT(name, expected[i].name);
            CHECK_INT(e->count, each * (small ? expected[i].small : expected[i].cells));
            for (int k = 0; k < e->count; k++) {
                const lab_cell *c = &e->cells[k];
                CHECK(e->title && strncmp(strstr(e->text, "title ") + 5 + strspn(strstr(e->text, "title ") + 5, " "),
                                          e->title, strlen(e->title)) == 0);
                CHECK(c->title && c->repeats * (c->folds ? c->folds : 1) >= 3);
                CHECK(experiment_images(e, c) > 0 && (!small || experiment_images(e, c) <= 4000));
            }
            experiment_close(e);
        }
    }
}

TEST(the_third_study_takes_real_data)
{
    OWNED(brasa_context) *ctx = context_of(1);
    experiment *e = NULL;
    const experiment_options o = {.data = "letter=synth:letter,n=260 mnist=synth:digits,n=70"};
    REQUIRE(experiment_open(ctx, "study3-folds", &o, &e) == BRASA_OK);
    CHECK_TEXT(e->cells[0].data, "synth:digits,n=70");
    CHECK_INT(experiment_images(e, &e->cells[0]), 63);
    CHECK_TEXT(e->cells[3].data, "synth:letter,n=260");
    experiment_close(e);
}

/* --- errors ----------------------------------------------------------------------------------------------------- */

#define HEAD "network mnist_cnn\ndata synth:digits,n=70\n"

static const struct wrong {
    const char *text, *says;
} wrong[] = {
    {"netwrok alexnet\n", "x.exp:1: netwrok: there is no such field, did you mean 'network'?"},
    {"experiments a\n", "did you mean 'experiment'?"},
    {"\n\nnetwork\n", "x.exp:3: network: expected names of models"},
    {"network alexnte\n", "x.exp:1: network: expected a model's name or a .net file, got 'alexnte', did you mean"},
    {HEAD "batch 0\n", "x.exp:3: batch: expected at most 128 numbers from 1 to 65536"},
    {HEAD "batch 4 x\n", "got 'x'"},
    {HEAD "batch 8..4\n", "got '8..4'"},
    {HEAD "batch 1..4/0\n", "got '1..4/0'"},
    {HEAD "batch 1..65536/1\n", "at most 128"},
    {HEAD "batch all\n", "got 'all'"},
    {HEAD "batch 99999999999999999999\n", "batch: expected"},
    {HEAD "batch -1\n", "batch: expected"},
    {HEAD "threads 1..many\n", "or all, such as"},
    {HEAD "epochs 1 2\n", "epochs: expected one number from 1 to 100000, got '2'"},
    {HEAD "epochs 1..4\n", "epochs: expected one number"},
    {HEAD "device gpu\n", "device: expected cpu|cuda, got 'gpu', did you mean 'cpu'?"},
    {HEAD "view time\n", "did you mean 'times'?"},
    {HEAD "view times size\n", "view: expected one word, got 'size' too"},
    {HEAD "mem 11X\n", "mem: expected one size"},
    {HEAD "mem 1K\n", "mem: expected one size"},
    {HEAD "mem\n", "mem: expected bytes"},
    {HEAD "limit 1e3\n", "limit: expected one number"},
    {HEAD "folds 1\n", "folds: expected one number from 2 to 1000"},
    {HEAD "data idx:a\n", "x.exp:3: data: is in line 2 already"},
    {HEAD "small.epochs 1\nsmall.epochs 1\n", "x.exp:4: small.epochs: is in line 3 already"},
    {HEAD "split 70/30\nfolds 3\n", "x.exp:4: folds: a split is in line 3"},
    {HEAD "experiment a b\n", "x.exp:3: experiment: expected a name"},
    {HEAD "experiment\n", "experiment: expected a name"},
    {HEAD "experiment a\nexperiment a\n", "x.exp:4: experiment: there is a 'a' in line 3 already"},
    {HEAD "data2 x\n", "did you mean 'data'?"},
    {"data sinth:fire\n", "data: expected a data set"},
    {"data sinth:fire\n", "did you mean 'synth'?"},
    {"data photos\n", "got 'photos'"},
    {"data \"images:a b\n", "a word that begins with a quote must end with one"},
    {"data \"\"\n", "a word without letters"},
    {"network mnist_cnn\n", "x.exp: experiment x: data: a line is missing"},
    {"data synth:digits\n", "network: a line is missing"},
    {"data synth:digits\nexperiment a\nnetwork mnist_cnn\nexperiment b\n",
     "x.exp:4: experiment b: network: a line is missing"},
    {HEAD "experiment a\nbatch 1..100/1\nthreads 1..100/1\n", "x.exp:3: experiment a: more than 4096 cells"},
    {"", "a line is missing"},
    {HEAD "batch 1..100/1\nthreads 1..100/1\n", "more than 4096 cells"},
    {HEAD "title \x01\n", "x.exp:3: a byte 0x01"},
    /* what a look at data and networks shows */
    {HEAD "\ndialect tourch\n", "x.exp:4: dialect: "},
    {HEAD "optimizer sdg lr=1\n", "x.exp:3: optimizer: there is no optimizer 'sdg', did you mean 'sgd'?"},
    {HEAD "optimizer sgd lr=fast\n", "x.exp:3: optimizer: "},
    {HEAD "dialect caffe\noptimizer adamw\n", "x.exp:4: optimizer: "},
    {HEAD "transform crop=\n", "x.exp:3: transform: "},
    {HEAD "transform crop=8\n", "x.exp:1: network: mnist_cnn takes 1x28x28"},
    {HEAD "split 70/40\n", "x.exp:3: split: expected "},
    {HEAD "folds 71\n", "x.exp:3: folds: expected "},
    {"network letter_mlp\ndata synth:digits\n", "x.exp:1: network: "},
    {"network nowhere.net\ndata synth:digits\n", "nowhere.net"},
    {"network mnist_cnn\ndata idx:nowhere\n", "x.exp:2: data: "},
    {"network mnist_cnn\ndata synth:digits,m=1\n", "x.exp:2: data: "},
};

TEST(errors_name_line_and_field)
{
    OWNED(brasa_context) *ctx = context_of(1);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        experiment *e = NULL;
        CASE("%s", wrong[i].says);
        brasa_status status = experiment_read(ctx, "x.exp", wrong[i].text, &(experiment_options){0}, &e);
        if (status == BRASA_OK)
            status = experiment_check(e);
        CHECK(status != BRASA_OK);
        CHECK_HAS(brasa_context_error(ctx), wrong[i].says);
        CHECK(!strchr(brasa_context_error(ctx), '\n'));
        experiment_close(e);
    }
}

TEST(long_texts_are_refused)
{
    OWNED(brasa_context) *ctx = context_of(1);
    experiment *e = NULL;
    char *text = malloc(70001);
    REQUIRE(text);
    memset(text, 'a', 70000);
    text[70000] = '\0';
    CHECK_STATUS(experiment_read(ctx, "x.exp", text, &(experiment_options){0}, &e), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "larger than 65536 bytes");
    text[2000] = '\0';
    CHECK_STATUS(experiment_read(ctx, "x.exp", text, &(experiment_options){0}, &e), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "x.exp:1: a line of 2000 letters");
    free(text);

    CASE("too many blocks");
    char blocks[4096] = HEAD;
    for (int i = 0; i < 65; i++)
        snprintf(blocks + strlen(blocks), sizeof blocks - strlen(blocks), "experiment b%d\n", i);
    CHECK_STATUS(experiment_read(ctx, "x.exp", blocks, &(experiment_options){0}, &e), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "x.exp:67: experiment: more than 64");

    CASE("data that no line names");
    CHECK_STATUS(experiment_read(ctx, "x.exp", HEAD, &(experiment_options){.data = "mnist=idx:a"}, &e),
                 BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "no set is called 'mnist' in x.exp");
    CHECK_STATUS(experiment_read(ctx, "x.exp", HEAD, &(experiment_options){.data = "idx:a"}, &e), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "expected NAME=SPEC");
}

TEST(files_and_presets_by_name)
{
    OWNED(brasa_context) *ctx = context_of(1);
    experiment *e = NULL;
    char path[256];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/brasa_test_%ld.exp", folder ? folder : "/tmp", (long)getpid());
    CHECK_STATUS(experiment_open(ctx, "quikc", &(experiment_options){0}, &e), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_context_error(ctx), "no preset 'quikc', did you mean 'quick'?");
    CHECK_STATUS(experiment_open(ctx, path, &(experiment_options){0}, &e), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), path);
    FILE *file = fopen(path, "wb");
    REQUIRE(file);
    fputs("\xEF\xBB\xBF" HEAD, file);
    fclose(file);
    CHECK_STATUS(experiment_open(ctx, path, &(experiment_options){0}, &e), BRASA_OK);
    CHECK(e && e->count == 1 && strncmp(e->cells[0].experiment, "brasa_test_", 11) == 0);
    experiment_close(e);
    file = fopen(path, "wb");
    REQUIRE(file);
    fwrite("network\0x", 1, 9, file);
    fclose(file);
    CHECK_STATUS(experiment_open(ctx, path, &(experiment_options){0}, &e), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "zero byte");
    unlink(path);
}
