/* test_lab_exchange.c - what the lab's runners are given: networks that come out as they went in, data and splits as
 * `brasa train` has them, and Brasa's own runner that learns the same from them. */
#define _XOPEN_SOURCE 700
#include "heap.h"
#include "lab.h"
#include "test.h"

#include "session/safetensors.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

/* --- networks ------------------------------------------------------------------------------------------------ */

static printed text_of(const brasa_graph *g, const char *name)
{
    printed p = {0};
    json j = {.write = print_into, .user = &p};
    netjson_write(g, name, &j);
    return p;
}

/* Written, read, built and written again, a network is the same text, and has the same parameters. */
static void check_network(const char *model, const char *whose, int classes)
{
    brasa_graph *g = brasa_graph_new(NULL), *again = brasa_graph_new(NULL);
    brasa_graph_set_dialect(g, whose);
    CHECK_STATUS(brasa_model_build(g, model, classes), BRASA_OK);
    CHECK_STATUS(netjson_check(g, model), BRASA_OK);
    const printed before = text_of(g, model);
    const char *path = in_tree("network.json");
    put_file(path, before.text, before.length);
    netjson n;
    CHECK_STATUS(netjson_read(g->ctx, path, &n), BRASA_OK);
    CHECK_TEXT(n.name, model);
    CHECK_INT(n.classes, classes);
    CHECK_INT(n.parameters, brasa_graph_param_total(g));
    CHECK_STATUS(netjson_build(&n, again, true, NULL), BRASA_OK);
    if (brasa_graph_status(again) == BRASA_OK) {
        const printed after = text_of(again, model);
        CHECK(strcmp(before.text, after.text) == 0);
        free(after.text);
    }
    brasa_value_info a = {.size = sizeof a}, b = a;
    for (int i = 0; brasa_graph_param_at(g, i, &a); i++)
        CHECK(brasa_graph_param_at(again, i, &b) && strcmp(a.name, b.name) == 0 && a.rank == b.rank &&
              memcmp(a.shape, b.shape, sizeof a.shape) == 0 && a.trainable == b.trainable);
    free(before.text);
    netjson_free(&n);
    brasa_graph_free(g);
    brasa_graph_free(again);
}

TEST(networks_come_back)
{
    static const char *const dialects[] = {"torch", "tfkeras", "caffe"};
    brasa_model_info m = {.size = sizeof m};
    for (int i = 0; brasa_model_at(i, &m); i++) {
        CASE("%s", m.name);
        if (strstr(m.name, "_aux")) {
            OWNED(brasa_graph) *g = brasa_graph_new(NULL);
            brasa_model_build(g, m.name, 0);
            CHECK_STATUS(netjson_check(g, m.name), BRASA_BAD_ARGUMENT);
            CHECK_HAS(brasa_graph_error(g), "more losses than that of its logits");
        } else {
            check_network(m.name, dialects[i % 3], 3);
        }
    }
}

/* Settings that no model of ours has, padding that the dialect decides, all ops of one input. */
static const char own_net[] = "input 3 12 12\n"
                              "a = conv 6 3x2 stride=2x1 pad=same dilation=1 groups=3 bias=no name=first\n"
                              "batchnorm momentum=0.3 epsilon=0.002 name=norm\n"
                              "leaky_relu 0.2\n"
                              "b = conv 6 3 pad=0,1,2,1 name=second\n"
                              "gelu\n"
                              "c = maxpool 3 stride=1 pad=1\n"
                              "concat $a $c\n"
                              "avgpool 2x3 stride=2x1 pad=1 ceil\n"
                              "lrn 3 alpha=0.02\n"
                              "sigmoid\n"
                              "tanh\n"
                              "relu6\n"
                              "flatten\n"
                              "dropout 0.25\n"
                              "dense 16 bias=no name=wide\n"
                              "reshape 4 2 2\n"
                              "adaptive_avgpool 2x1\n"
                              "flatten\n"
                              "relu\n"
                              "classify 4 name=head\n";

TEST(files_of_users)
{
    const char *path = in_tree("own.net");
    put_file(path, own_net, strlen(own_net));
    CASE("settings");
    check_network(path, "tfkeras", 4);
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    brasa_graph_set_dialect(g, "tfkeras");
    REQUIRE(brasa_model_build(g, path, 4) == BRASA_OK);
    const printed p = text_of(g, "own");
    CHECK_HAS(p.text, "\"op\":\"conv2d\"");
    CHECK_HAS(p.text, "\"inputs\":[\"image\"]");
    CHECK_HAS(p.text, "\"kernel\":[3,2],\"stride\":[2,1],\"pad\":[0,0,1,1]"); /* same, as TensorFlow means it */
    CHECK_HAS(p.text, "\"pad\":[0,1,2,1]");
    CHECK_HAS(p.text, "\"momentum\":0.3,\"epsilon\":0.002,\"affine\":true,\"frozen\":false");
    CHECK_HAS(p.text, "\"count_pad\":false"); /* the dialect's */
    CHECK_HAS(p.text, "\"params\":{\"weight\":\"norm.weight\",\"bias\":\"norm.bias\",\"running_mean\":");
    CHECK_HAS(p.text, "\"output\":\"logits\",\"shape\":[4]");
    free(p.text);
}

TEST(networks_refused)
{
    static const struct {
        const char *name, *net, *error;
    } rows[] = {
        {"names", "input 4\nrelu name=x\nrelu name=x\nclassify 2\n", "two layers are called 'x'"},
        {"unused", "input 4\na = relu name=x\ndense 3 $a name=y\nclassify 2 $a\n", "'y' does not lead to the logits"},
        {"no classifier", "input 4\ndense 3\noutput y\n", "is no classifier"},
        {"smoothing", "input 4\nx = dense 3\noutput logits\nl = labels 3\ncross_entropy $x $l smoothing=0.1\nloss\n",
         "the plain loss"},
        {"two inputs", "a = input 4\nb = input 4\nadd $a $b\nclassify 2\n", "2 inputs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        const char *path = in_tree("bad.net");
        put_file(path, rows[i].net, strlen(rows[i].net));
        OWNED(brasa_graph) *g = brasa_graph_new(NULL);
        CHECK_STATUS(brasa_model_build(g, path, 0), BRASA_OK);
        CHECK_STATUS(netjson_check(g, "bad"), BRASA_BAD_ARGUMENT);
        CHECK_HAS(brasa_graph_error(g), rows[i].error);
    }
}

TEST(bad_json)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"", "expected"},
        {"{\"name\":\"x\",\"dialect\":\"torch\",\"classes\":2,\"input\":[4],\"nodes\":[]}", "missing"},
        {"{\"name\":\"x\",\"nodes\":[{\"name\":\"a\",\"op\":\"classify\",\"inputs\":[\"image\"],\"output\":\"a\"}]}",
         "op is not known"},
        {"{\"name\":\"x\",\"nodes\":[{\"name\":\"a\",\"op\":\"relu\",\"inputs\":[],\"output\":\"a\"}]}",
         "without name"},
        {"{\"name\":\"x\",\"input\":[3,0,3]}", "no size"},
        {"{\"name\":\"x\",\"input\":[3,5]}", "1 or 3 sizes"},
    };
    OWNED(brasa_context) *ctx = context_of(1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].text);
        const char *path = in_tree("bad.json");
        netjson n;
        put_file(path, rows[i].text, strlen(rows[i].text));
        CHECK_STATUS(netjson_read(ctx, path, &n), BRASA_BAD_FILE);
        CHECK_HAS(brasa_context_error(ctx), rows[i].error);
        netjson_free(&n);
    }
    CASE("a value that is not there");
    const char text[] =
        "{\"name\":\"x\",\"dialect\":\"torch\",\"classes\":2,\"input\":[4],\"nodes\":[{\"name\":\"a\","
        "\"op\":\"relu\",\"inputs\":[\"b\"],\"output\":\"logits\"}]}";
    const char *path = in_tree("bad.json");
    netjson n;
    put_file(path, text, strlen(text));
    OWNED(brasa_graph) *g = brasa_graph_new(ctx);
    CHECK_STATUS(netjson_read(ctx, path, &n), BRASA_OK);
    CHECK_STATUS(netjson_build(&n, g, true, NULL), BRASA_BAD_FILE);
    CHECK_HAS(brasa_context_error(ctx), "node 'a': there is no 'b' before it");
    netjson_free(&n);
}

/* --- the same training --------------------------------------------------------------------------------------- */

typedef struct epochs {
    brasa_epoch f[4];
    int count;
} epochs;

static bool keep_epochs(void *user, const brasa_progress *p)
{
    epochs *x = user;
    if (p->event == BRASA_ON_EPOCH && x->count < 4)
        x->f[x->count++] = *p->epoch;
    return true;
}

/* What `brasa train` and the lab's runner say of the same cell: the same bits. */
static void check_training(const lab_cell *c)
{
    brasa_context *ctx = context_of(1);
    exchange *e = NULL;
    errand todo = {.pool = {.ctx = ctx}};
    CHECK_STATUS(exchange_open(ctx, in_tree("exchange"), c, &e), BRASA_OK);
    if (!e || !e->batches) {
        printf("%s\n", brasa_context_error(ctx));
        exchange_close(e);
        brasa_context_free(ctx);
        return;
    }
    const exchange_run run = {.peer = "brasa", .repeat = 3, .fold = c->folds ? 2 : 0};
    const char *path = in_tree("experiment.json");
    CHECK_STATUS(exchange_write(e, &run, path), BRASA_OK);
    CHECK_STATUS(errand_read(ctx, path, &todo), BRASA_OK);
    CHECK_INT(todo.seed, c->seed + 2); /* of the order: weights and split stay those of the cell */
    todo.seed = c->seed;
    printed lines;
    CHECK_STATUS(run_errand(ctx, &todo, &lines), BRASA_OK);

    epochs told = {.count = 0};
    const char *out = in_tree("run");
    nftw(out, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    const brasa_trainer_options o = {.size = sizeof o,
                                     .model = c->network,
                                     .data = e->source,
                                     .split = c->folds ? NULL : c->split,
                                     .folds = c->folds,
                                     .fold = run.fold,
                                     .dialect = c->dialect,
                                     .transform = c->transform,
                                     .optimizer = c->optimizer,
                                     .epochs = c->epochs,
                                     .batch = c->batch,
                                     .seed = c->seed,
                                     .out = out,
                                     .progress = keep_epochs,
                                     .user = &told};
    brasa_trainer *t = NULL;
    CHECK_STATUS(brasa_trainer_new(ctx, &o, &t), BRASA_OK);
    CHECK_STATUS(brasa_trainer_run(t, NULL), BRASA_OK);
    brasa_trainer_free(t);
    CHECK_INT(told.count, c->epochs);
    pool p = {.ctx = ctx};
    for (int i = 0; i < told.count; i++) {
        lab_line epoch, tested;
        if (!CHECK(line_at(&p, &lines, LINE_EPOCH, i, &epoch) && line_at(&p, &lines, LINE_EVALUATION, i, &tested)))
            break;
        CHECK_CLOSE(epoch.loss, told.f[i].loss, 0);
        CHECK_CLOSE(epoch.accuracy, told.f[i].accuracy, 0);
        CHECK_CLOSE(tested.loss, told.f[i].test_loss, 0);
        CHECK_CLOSE(tested.accuracy, told.f[i].test_accuracy, 0);
        CHECK_INT(epoch.images, e->trains);
        CHECK_INT(tested.images, e->tests);
        CHECK(epoch.seconds > 0 && tested.seconds > 0);
    }
    lab_line first, done;
    CHECK(line_at(&p, &lines, LINE_FIRST_STEP, 0, &first) && first.seconds > 0);
    CHECK(line_at(&p, &lines, LINE_DONE, 0, &done));
    pool_free(&p);
    free(lines.text);
    errand_free(&todo);
    exchange_close(e);
    brasa_context_free(ctx);
}

TEST(learns_as_train_does)
{
    lab_cell c = cell_of("letter_mlp", "synth:letter,n=520");
    CASE("numbers");
    c.optimizer = "adam lr=0.02";
    check_training(&c);
    CASE("folds");
    c.folds = 4;
    c.split = NULL;
    check_training(&c);
    CASE("arrays, dropout");
    c = cell_of("mnist_cnn", "synth:digits,n=160");
    c.dialect = "tfkeras";
    c.optimizer = "adadelta lr=1";
    check_training(&c);
    CASE("the set's own parts");
    c.split = "parts";
    c.transform = "mean=0.1307 std=0.3081";
    check_training(&c);
#ifdef BRASA_JPEG
    CASE("pictures, batch norm");
    c = cell_of("tiny_resnet", "synth:fire,n=60,size=64");
    c.transform = "resize=36 crop=32 flip=horizontal mean=0.5,0.4,0.3 std=0.2,0.3,0.25";
    check_training(&c);
    CASE("an array for a network of another size");
    c = cell_of("tiny_inception", "synth:digits,n=60");
    c.transform = "channels=3 resize=36 crop=32";
    check_training(&c);
#endif
}

/* --- files --------------------------------------------------------------------------------------------------- */

/* All numbers of a tensor. */
static double *read_tensor(brasa_context *ctx, const char *path, const char *name, int64_t *count)
{
    safetensors *f = NULL;
    const tensor_entry *t = safetensors_open(ctx, path, &f) == BRASA_OK ? safetensors_find(f, name) : NULL;
    double *all = NULL;
    *count = t ? shape_count(&t->shape) : 0;
    if (t && (all = malloc((size_t)*count * sizeof *all))) {
        number piece[PIECE];
        for (int64_t i = 0; i < *count; i++) {
            const int64_t left = *count - i;
            if (i % PIECE == 0)
                safetensors_read(f, t, i, left < PIECE ? (int)left : PIECE, piece);
            all[i] = t->type->whole ? (double)piece[i % PIECE].whole : piece[i % PIECE].real;
        }
    }
    safetensors_close(f);
    return all;
}

/* Every row of a batch is a sample with its label, made as the file of the run says. */
TEST(arrays_and_batches)
{
    OWNED(brasa_context) *ctx = context_of(1);
    lab_cell c = cell_of("mnist_cnn", "synth:digits,n=60");
    c.transform = "scale=0.01 mean=0.25 std=2";
    exchange *e;
    REQUIRE(exchange_open(ctx, in_tree("exchange"), &c, &e) == BRASA_OK);
    CHECK_INT(e->trains, 42);
    CHECK_INT(e->tests, 18);
    CHECK(!e->list);
    int64_t pixels, labels, fed, given;
    double *samples = read_tensor(ctx, e->arrays, "samples", &pixels),
           *of = read_tensor(ctx, e->arrays, "labels", &labels);
    CHECK_INT(pixels, 60 * 28 * 28);
    CHECK_INT(labels, 60);
    for (int k = 0; k < EXCHANGE_STEPS; k++) {
        char name[2][32];
        snprintf(name[0], sizeof name[0], "samples.%d", k);
        snprintf(name[1], sizeof name[1], "labels.%d", k);
        double *x = read_tensor(ctx, e->batches, name[0], &fed), *y = read_tensor(ctx, e->batches, name[1], &given);
        CHECK_INT(given, 4);
        CHECK_INT(fed, 4 * 28 * 28);
        for (int row = 0; row < 4 && fed == 4 * 28 * 28 && pixels == 60 * 28 * 28; row++) {
            int found = 0;
            for (int i = 0; i < 60; i++) {
                int same = of[i] == y[row];
                for (int p = 0; p < 28 * 28 && same; p++)
                    same = fabs((samples[i * 784 + p] * 0.01 - 0.25) / 2 - x[row * 784 + p]) < 1e-6;
                found += same;
            }
            CHECK(found >= 1);
        }
        free(x);
        free(y);
    }
    free(samples);
    free(of);
    exchange_close(e);
}

/* What two cells have in common is made once; what differs is not mixed up. */
TEST(made_once)
{
    OWNED(brasa_context) *ctx = context_of(1);
    lab_cell c = cell_of("letter_mlp", "synth:letter,n=260");
    exchange *e, *f;
    const char *place = in_tree("once/more");
    REQUIRE(exchange_open(ctx, place, &c, &e) == BRASA_OK);
    const int files = files_in(place);
    CHECK_INT(files, 4); /* network, weights, data, batches */
    lab_cell other = c;
    other.batch = 64;
    other.threads = 2;
    other.epochs = 5;
    REQUIRE(exchange_open(ctx, place, &other, &f) == BRASA_OK);
    CHECK_INT(files_in(place), files);
    CHECK_TEXT(f->key, e->key);
    CHECK_TEXT(f->network_hash, e->network_hash);
    CHECK_TEXT(f->data_hash, e->data_hash);
    exchange_close(f);
    other.mem = 300000000; /* who cannot be compared within that may be so within more */
    REQUIRE(exchange_open(ctx, place, &other, &f) == BRASA_OK);
    CHECK_INT(files_in(place), files);
    CHECK(strcmp(f->key, e->key) != 0);
    exchange_close(f);
    other.mem = 0;
    other.optimizer = "sgd lr=0.02 momentum=0.9";
    REQUIRE(exchange_open(ctx, place, &other, &f) == BRASA_OK);
    CHECK_INT(files_in(place), files);
    CHECK(strcmp(f->key, e->key) != 0);
    exchange_close(f);
    other.seed = 6;
    REQUIRE(exchange_open(ctx, place, &other, &f) == BRASA_OK);
    CHECK_TEXT(f->graph, e->graph);
    CHECK_TEXT(f->arrays, e->arrays);
    CHECK_TEXT(f->data_hash, e->data_hash);
    CHECK(strcmp(f->network_hash, e->network_hash) != 0);
    CHECK(strcmp(f->weights, e->weights) != 0 && strcmp(f->batches, e->batches) != 0);
    exchange_close(f);
    other = c;
    other.dialect = "tfkeras"; /* other initial biases */
    REQUIRE(exchange_open(ctx, place, &other, &f) == BRASA_OK);
    CHECK(strcmp(f->graph, e->graph) != 0 && strcmp(f->weights, e->weights) != 0);
    exchange_close(f);
    exchange_close(e);
}

TEST(pictures)
{
#ifndef BRASA_JPEG
    SKIP("no JPEG in this build");
#else
    brasa_context *ctx = context_of(1);
    lab_cell c = cell_of("tiny_resnet", "synth:fire,n=12,size=48");
    c.transform = "resize=36 crop=32 flip=horizontal";
    exchange *e;
    REQUIRE(exchange_open(ctx, in_tree("pictures"), &c, &e) == BRASA_OK);
    CHECK(e->list && e->pictures && !e->arrays);
    size_t length = 0;
    pool p = {.ctx = ctx};
    char *list = NULL;
    CHECK_STATUS(lab_read_file(&p, e->list, &list, &length), BRASA_OK);
    int lines = 0;
    for (char *at = strtok(list, "\n"); at; at = strtok(NULL, "\n"), lines++) {
        char path[5000];
        snprintf(path, sizeof path, "%s/%s", e->pictures, strchr(at, ' ') + 1);
        CHECK(access(path, R_OK) == 0);
        CHECK(strncmp(strchr(at, ' ') + 1, at[0] == '0' ? "fire/" : at[0] == '1' ? "none/" : "smoke/", 5) == 0);
    }
    CHECK_INT(lines, 12);
    struct stat before, after;
    CHECK(stat(e->pictures, &before) == 0);
    exchange_close(e);
    REQUIRE(exchange_open(ctx, in_tree("pictures"), &c, &e) == BRASA_OK);
    CHECK(stat(e->pictures, &after) == 0 && before.st_ino == after.st_ino &&
          before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    /* A folder is read where it is, by its absolute name. */
    char spec[600], here[4096];
    CHECK(getcwd(here, sizeof here) && chdir(folder) == 0);
    snprintf(spec, sizeof spec, "images:pictures/%s", strrchr(e->pictures, '/') + 1);
    lab_cell in_place = c;
    in_place.data = spec;
    exchange *f;
    REQUIRE(exchange_open(ctx, "elsewhere", &in_place, &f) == BRASA_OK);
    CHECK_TEXT(f->pictures, e->pictures);
    /* Another file by the same name is another set. */
    FILE *one = fopen(dataset_name(f->task.set, 3).text, "ab");
    REQUIRE(one);
    fputc(0, one);
    fclose(one);
    exchange *g;
    REQUIRE(exchange_open(ctx, "elsewhere", &in_place, &g) == BRASA_OK);
    CHECK(strcmp(f->data_hash, g->data_hash) != 0);
    CHECK_TEXT(f->network_hash, g->network_hash);
    CHECK(chdir(here) == 0);
    exchange_close(g);
    exchange_close(f);
    exchange_close(e);
    pool_free(&p);
    brasa_context_free(ctx);
#endif
}

static void cut_to_half(const char *path, struct stat *before)
{
    REQUIRE(stat(path, before) == 0);
    REQUIRE(truncate(path, before->st_size / 2) == 0);
}

/* Files that were cut are not used. */
TEST(cut_files_are_made_again)
{
    OWNED(brasa_context) *ctx = context_of(1);
    exchange *e = NULL;
#ifdef BRASA_JPEG
    enum { SETS = 2 };
#else
    enum { SETS = 1 };
#endif
    for (int i = 0; i < SETS; i++) {
        CASE("%s", i ? "pictures" : "arrays");
        lab_cell c = cell_of(i ? "tiny_resnet" : "letter_mlp", i ? "synth:fire,n=12,size=48" : "synth:letter,n=260");
        c.transform = i ? "resize=36 crop=32" : NULL;
        const char *lists, *again;
        struct stat before[5], after;
        REQUIRE(exchange_open(ctx, in_tree("cut"), &c, &e) == BRASA_OK);
        CHECK_STATUS(exchange_make_split(e, 0, &lists), BRASA_OK);
        const char *const files[] = {e->graph, e->weights, e->batches, i ? e->list : e->arrays, lists};
        for (int k = 0; k < 5; k++)
            cut_to_half(files[k], &before[k]);
        exchange *f = NULL;
        CHECK_STATUS(exchange_open(ctx, in_tree("cut"), &c, &f), BRASA_OK);
        CHECK_STATUS(exchange_make_split(f, 0, &again), BRASA_OK);
        CHECK_TEXT(again, lists);
        for (int k = 0; k < 5; k++)
            CHECK(stat(files[k], &after) == 0 && after.st_size == before[k].st_size);
        exchange_close(f);
        if (i) {
            const sample_name one = dataset_name(e->task.set, 0);
            REQUIRE(unlink(one.text) == 0);
            CHECK_STATUS(exchange_open(ctx, in_tree("cut"), &c, &f), BRASA_BAD_FILE);
            CHECK_HAS(brasa_context_error(ctx), "has 11 pictures, 12 were drawn: delete the folder");
            exchange_close(f);
        }
        exchange_close(e);
    }
}

/* Whose fault it is: a full disk is not the cell's. */
TEST(unwritable)
{
    static const char *const sets[] = {"synth:digits,n=60", "synth:fire,n=12"};
    static const char *const networks[] = {"mnist_cnn", "tiny_resnet"};
#ifdef BRASA_JPEG
    enum { SETS = 2 };
#else
    enum { SETS = 1 };
#endif
    for (int i = 0; i < SETS; i++) {
        CASE("%s", sets[i]);
        OWNED(brasa_context) *ctx = context_of(1);
        exchange *e = NULL;
        const lab_cell cell = cell_of(networks[i], sets[i]);
        struct rlimit before, least;
        void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
        REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
        least = (struct rlimit){.rlim_cur = 1000, .rlim_max = before.rlim_max};
        REQUIRE(setrlimit(RLIMIT_FSIZE, &least) == 0);
        CHECK_STATUS(exchange_open(ctx, in_tree(i ? "small1" : "small0"), &cell, &e), BRASA_BAD_FILE);
        CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
        CHECK(e && e->unwritable);
        CHECK_HAS(brasa_context_error(ctx), "File too large");
        exchange_close(e);
        const lab_cell absent = cell_of(networks[i], "images:/nowhere/at/all");
        CHECK(exchange_open(ctx, in_tree("small2"), &absent, &e) != BRASA_OK);
        CHECK(e && !e->unwritable);
        exchange_close(e);
        signal(SIGXFSZ, handler);
    }
}

TEST(refusals)
{
    static const struct {
        const char *name, *network, *data, *optimizer, *whose, *split, *error;
    } rows[] = {
        {"network", "letter_mpl", NULL, NULL, NULL, NULL, "did you mean 'letter_mlp'"},
        {"heads", "googlenet_aux", "synth:fire,n=6", NULL, NULL, "all", "more losses"},
        {"data", NULL, "synth:leter", NULL, NULL, NULL, "there is no 'leter'"},
        {"no such file", NULL, "csv:nowhere.csv,label=1", NULL, NULL, NULL, "nowhere.csv"},
        {"optimizer", NULL, NULL, "sgd rate=1", NULL, NULL, "unknown setting 'rate'"},
        {"dialect", NULL, NULL, NULL, "torsch", NULL, "did you mean 'torch'"},
        {"split", NULL, NULL, NULL, NULL, "70/40", "70/40"},
        {"shapes", "mnist_cnn", NULL, NULL, NULL, NULL, "gives"},
    };
    OWNED(brasa_context) *ctx = context_of(1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        lab_cell c = cell_of("letter_mlp", "synth:letter,n=260");
        c.network = rows[i].network ? rows[i].network : c.network;
        c.data = rows[i].data ? rows[i].data : c.data;
        c.optimizer = rows[i].optimizer ? rows[i].optimizer : c.optimizer;
        c.dialect = rows[i].whose ? rows[i].whose : c.dialect;
        c.split = rows[i].split ? rows[i].split : c.split;
        exchange *e;
        CHECK(exchange_open(ctx, in_tree("exchange"), &c, &e) != BRASA_OK);
        CHECK_HAS(brasa_context_error(ctx), rows[i].error);
        exchange_close(e);
    }
}

/* --- when memory runs out ------------------------------------------------------------------------------------ */

/* Opens, writes and runs; whatever fails on the way is told and leaves nothing behind. */
static brasa_status all_of_it(heap *h)
{
    const brasa_context_options o = {
        .size = sizeof o, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = h};
    brasa_context *ctx;
    exchange *e = NULL;
    errand todo = {0};
    brasa_status status = brasa_context_new(&o, &ctx);
    if (status != BRASA_OK)
        return status;
    lab_cell c = cell_of("letter_mlp", "synth:letter,n=52");
    c.epochs = 1;
    printed lines = {0};
    const char *path = in_tree("experiment.json");
    status = exchange_open(ctx, in_tree("memory"), &c, &e);
    if (status == BRASA_OK)
        status = exchange_write(e, &(exchange_run){.peer = "brasa", .check = true}, path);
    if (status == BRASA_OK) {
        status = errand_read(ctx, path, &todo);
        if (status == BRASA_OK)
            status = run_errand(ctx, &todo, &lines);
        errand_free(&todo);
    }
    if (status != BRASA_OK)
        CHECK(brasa_context_error(ctx)[0]);
    free(lines.text);
    exchange_close(e);
    brasa_context_free(ctx);
    return status;
}

TEST(memory_runs_out)
{
    heap h = {0};
    REQUIRE(all_of_it(&h) == BRASA_OK);
    CHECK_INT(h.live, 0);
    const int calls = h.calls;
    int refused = 0;
    for (int i = 1; i <= calls; i += 1 + calls / 300) {
        heap again = {.fail_at = i};
        refused += all_of_it(&again) == BRASA_OUT_OF_MEMORY;
        CHECK_INT(again.live, 0);
    }
    CHECK(refused > 100);
}
