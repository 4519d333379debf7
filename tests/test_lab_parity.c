/* test_lab_parity.c - the gate: what is the same passes, and each thing that can be wrong is found and named. Brasa's
 * own runner plays the peer, on a network, weights, batches or an optimizer that are not those of the experiment. */
#define _XOPEN_SOURCE 700
#include "lab.h"
#include "test.h"

#include "lab/parity.h"
#include "session/safetensors.h"

OWNER(pool, *x, pool_free(x))

static const char net[] = "input 1 28 28\n"
                          "conv 8 3 stride=2 bias=no name=conv1\n"
                          "batchnorm name=bn1\n"
                          "relu name=relu1\n"
                          "conv 12 3 name=conv2\n"
                          "relu name=relu2\n"
                          "lrn 3 alpha=0.1 name=norm\n"
                          "maxpool 2 name=pool\n"
                          "adaptive_avgpool 4 name=fixed\n"
                          "flatten name=flat\n"
                          "dropout 0.5 name=drop\n"
                          "dense 20 name=fc\n"
                          "tanh name=act\n"
                          "classify 10 name=head\n";
/* The pool before the norm. */
static const char swapped_net[] = "input 1 28 28\n"
                                  "conv 8 3 stride=2 bias=no name=conv1\n"
                                  "batchnorm name=bn1\n"
                                  "relu name=relu1\n"
                                  "conv 12 3 name=conv2\n"
                                  "relu name=relu2\n"
                                  "maxpool 2 name=pool\n"
                                  "lrn 3 alpha=0.1 name=norm\n"
                                  "adaptive_avgpool 4 name=fixed\n"
                                  "flatten name=flat\n"
                                  "dropout 0.5 name=drop\n"
                                  "dense 20 name=fc\n"
                                  "tanh name=act\n"
                                  "classify 10 name=head\n";

static struct {
    brasa_context *ctx;
    exchange *e;
    errand right; /* the experiment */
    printed ours;
} lab;

static void close_lab(void)
{
    free(lab.ours.text);
    errand_free(&lab.right);
    exchange_close(lab.e);
    brasa_context_free(lab.ctx);
}

static lab_cell cell;

static bool open_lab(void)
{
    if (lab.ctx)
        return lab.ours.length > 0;
    lab.ctx = context_of(1);
    atexit(close_lab);
    const char *path = in_tree("gate.net");
    put_file(path, net, strlen(net));
    static char network[600];
    snprintf(network, sizeof network, "%s", path);
    cell = cell_of(network, "synth:digits,n=100");
    if (exchange_open(lab.ctx, in_tree("exchange"), &cell, &lab.e) != BRASA_OK)
        return false;
    path = in_tree("experiment.json");
    return exchange_write(lab.e, &(exchange_run){.peer = "brasa", .check = true}, path) == BRASA_OK &&
           errand_read(lab.ctx, path, &lab.right) == BRASA_OK &&
           run_errand(lab.ctx, &lab.right, &lab.ours) == BRASA_OK;
}

static void begin(void)
{
    CHECK(open_lab());
}

AROUND_EACH(begin, NULL)

/* What the gate says of two accounts. */
static parity judge_both(const char *precision, parity_account ours, parity_account theirs)
{
    parity p = {.status = PARITY_FAILED};
    const parity_terms terms = {lab.e->graph, lab.e->weights, precision};
    CHECK_STATUS(parity_compare(lab.ctx, &terms, &ours, &theirs, &p), BRASA_OK);
    return p;
}

/* What it says of texts that stand for them, in f32. */
static parity judge_texts(const char *ours, const char *theirs)
{
    return judge_both("f32", (parity_account){ours, strlen(ours)}, (parity_account){theirs, strlen(theirs)});
}

/* What it says of lines, beside Brasa's. */
static parity judge_in(const char *precision, const char *text, size_t length)
{
    return judge_both(precision, (parity_account){lab.ours.text, lab.ours.length}, (parity_account){text, length});
}

static parity judge(const char *text, size_t length)
{
    return judge_in("f32", text, length);
}

/* What the gate says of a runner that does another errand. */
static parity judge_errand(const errand *e)
{
    printed p;
    CHECK_STATUS(run_errand(lab.ctx, e, &p), BRASA_OK);
    const parity said = judge(p.text, p.length);
    free(p.text);
    return said;
}

/* The network's file with one text in place of another. */
static const char *changed_graph(const char *from, const char *to)
{
    pool p = {.ctx = lab.ctx};
    char *text = NULL;
    size_t length = 0;
    const char *path = in_tree("changed.json");
    CHECK_STATUS(lab_read_file(&p, lab.e->graph, &text, &length), BRASA_OK);
    char *at = text ? strstr(text, from) : NULL;
    if (CHECK(at)) {
        const char *all = pool_text(&p, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
        put_file(path, all, strlen(all));
    }
    pool_free(&p);
    return path;
}

TEST(the_same)
{
    CASE("itself");
    parity p = judge(lab.ours.text, lab.ours.length);
    CHECK_TEXT(parity_word(p.status), "same");
    CHECK_CLOSE(p.worst, 0, 0);
    CASE("other kernels");
    errand e = lab.right;
    printed lines = {0};
    OWNED(brasa_context) *ctx = context_of(2);
    ctx->isa = 0; /* plain C alone */
    CHECK_STATUS(run_errand(ctx, &e, &lines), BRASA_OK);
    p = judge(lines.text, lines.length);
    CHECK_TEXT(p.detail[0] ? parity_word(p.status) : "", "same");
    CHECK(p.worst < 1e-5);
    CHECK_HAS(p.detail, "losses of 3 steps");
    free(lines.text);
}

/* Each is another network with the same weights. */
TEST(another_layer)
{
    static const struct {
        const char *name, *from, *to, *said;
    } rows[] = {
        {"epsilon of batch norm", "\"epsilon\":1e-05", "\"epsilon\":0.001",
         "the first layer that differs is 'bn1' (batchnorm momentum=0.1"},
        {"alpha of LRN", "\"alpha\":0.1", "\"alpha\":0.05", "the first layer that differs is 'norm' (lrn size=3"},
        {"alpha not divided", "\"divide\":true", "\"divide\":false", "the first layer that differs is 'norm'"},
        {"another activation", "\"op\":\"tanh\"", "\"op\":\"sigmoid\"",
         "the first layer that differs is 'act' (tanh)"},
        {"another pool", "\"op\":\"maxpool\"", "\"op\":\"avgpool\"", "the first layer that differs is 'pool'"},
        {"padding", "\"kernel\":[3,3],\"stride\":[2,2],\"pad\":[0,0,0,0]",
         "\"kernel\":[3,3],\"stride\":[2,2],\"pad\":[0,0,1,1]",
         "the layer 'conv1' (conv2d channels=8 kernel=3x3 stride=2x2 pad=0,0,0,0 dilation=1x1 groups=1 bias=no) "
         "gives "
         "8x14x14, not 8x13x13"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        errand e = lab.right;
        e.graph = changed_graph(rows[i].from, rows[i].to);
        const parity p = judge_errand(&e);
        CHECK_TEXT(parity_word(p.status), "different");
        CHECK_HAS(p.detail, rows[i].said);
    }
}

/* A network that is built otherwise from the start, by the same names. */
TEST(another_network)
{
    static const struct {
        const char *name, *from, *to, *said;
    } rows[] = {
        {"two layers swapped", NULL, NULL, "the layer 'norm' (lrn size=3 alpha=0.1 beta=0.75 k=1 divide=yes) gives "},
        {"a layer more", "dense 20 name=fc\n", "dense 20 name=fc\ndense 20 name=fc2\n", "another network: it has "},
        {"no bias", "conv 12 3 name=conv2", "conv 12 3 bias=no name=conv2", "parameters, not"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        OWNED(pool) p = {.ctx = lab.ctx};
        const char *at = rows[i].from ? strstr(net, rows[i].from) : NULL;
        const char *text =
            at ? pool_text(&p, "%.*s%s%s", (int)(at - net), net, rows[i].to, at + strlen(rows[i].from)) : swapped_net;
        const char *path = in_tree("other.net");
        put_file(path, text, strlen(text));
        lab_cell other = cell;
        other.network = path;
        exchange *x = NULL;
        CHECK_STATUS(exchange_open(lab.ctx, in_tree("other"), &other, &x), BRASA_OK);
        errand e = lab.right;
        e.graph = x->graph;
        e.weights = i ? x->weights : e.weights;
        const parity said = judge_errand(&e);
        CHECK_TEXT(parity_word(said.status), "different");
        CHECK_HAS(said.detail, rows[i].said);
        exchange_close(x);
    }
}

/* --- batches ------------------------------------------------------------------------------------------------- */

typedef struct given {
    safetensors *from;
    tensor_entry tensors[2 * EXCHANGE_STEPS];
    int other; /* batches 1 and 2 in the other order; else a pixel of batch 1 is another */
} given;

static void give(void *user, int tensor, int64_t first, int count, number *out)
{
    given *g = user;
    char name[32];
    const int batch_number = tensor / 2, from = g->other && batch_number ? 3 - batch_number : batch_number;
    snprintf(name, sizeof name, "%s.%d", tensor % 2 ? "labels" : "samples", from);
    safetensors_read(g->from, safetensors_find(g->from, name), first, count, out);
    if (!g->other && tensor == 2 && first == 0)
        for (int i = 0; i < 100; i++)
            out[i].real += 0.5;
}

static const char *changed_batches(int other)
{
    given g = {.other = other};
    char names[2 * EXCHANGE_STEPS][32];
    const char *path = in_tree("batches.safetensors");
    CHECK_STATUS(safetensors_open(lab.ctx, lab.e->batches, &g.from), BRASA_OK);
    for (int i = 0; i < 2 * EXCHANGE_STEPS; i++) {
        snprintf(names[i], sizeof names[i], "%s.%d", i % 2 ? "labels" : "samples", i / 2);
        g.tensors[i] = *safetensors_find(g.from, names[i]);
        g.tensors[i].name = names[i];
    }
    CHECK_STATUS(safetensors_write(lab.ctx, path, g.tensors, 2 * EXCHANGE_STEPS, NULL, give, NULL, &g), BRASA_OK);
    safetensors_close(g.from);
    return path;
}

TEST(another_batch)
{
    errand e = lab.right;
    CASE("order");
    e.batches = changed_batches(1);
    parity p = judge_errand(&e);
    CHECK_TEXT(parity_word(p.status), "different");
    CHECK_HAS(p.detail, "another batch order: batch 2 has the labels ");
    CHECK_HAS(p.detail, "were given");
    CASE("numbers");
    e.batches = changed_batches(0);
    p = judge_errand(&e);
    CHECK_TEXT(parity_word(p.status), "different");
    CHECK_HAS(p.detail, "the elements of batch 2 add up to");
}

/* --- the optimizer ------------------------------------------------------------------------------------------- */

TEST(another_optimizer)
{
    static const char *const rows[] = {
        "sgd lr=0.011 momentum=0.9",         /* a tenth more */
        "sgd lr=0.01 momentum=0.9 nesterov", /* another equation */
        "sgd lr=0.01 momentum=0.5",          /* shows from the second update on */
        "sgd lr=0.01 momentum=0.9 weight_decay=0.1",
        "adam lr=0.01",
        "rmsprop lr=0.01",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i]);
        errand e = lab.right;
        e.optimizer = rows[i];
        const parity p = judge_errand(&e);
        CHECK_TEXT(parity_word(p.status), "different");
        CHECK(strstr(p.detail, "the optimizer's equation or its settings") ||
              strstr(p.detail, "though all agreed up to the update before"));
    }
    CASE("names the parameter");
    errand e = lab.right;
    e.optimizer = rows[0];
    CHECK_HAS(judge_errand(&e).detail, "up to the update of step 1, then 'conv1.weight' has mean ");
}

TEST(another_seed_of_weights)
{
    lab_cell other = cell;
    other.seed = 77;
    exchange *x = NULL;
    REQUIRE(exchange_open(lab.ctx, in_tree("exchange"), &other, &x) == BRASA_OK);
    errand e = lab.right;
    e.weights = x->weights;
    const parity p = judge_errand(&e);
    CHECK_TEXT(parity_word(p.status), "different");
    CHECK_HAS(p.detail, "the first layer that differs is 'conv1' (conv2d");
    exchange_close(x);
}

/* --- precisions ---------------------------------------------------------------------------------------------- */

/* Brasa's account with the first number behind `key`, from `after` on, so many times as large. */
static const char *scaled(pool *p, const char *after, const char *key, double factor)
{
    const char *at = strstr(strstr(lab.ours.text, after), key) + strlen(key);
    return pool_text(p, "%.*s%.17g%s", (int)(at - lab.ours.text), lab.ours.text, factor * strtod(at, NULL),
                     at + strcspn(at, ",}"));
}

TEST(coarser_precisions_are_allowed_more)
{
    static const struct {
        const char *after, *key;
        double off;
        const char *said[3]; /* of f32, tf32, bf16 */
    } rows[] = {
        {"\"output\"", "\"rms\":", 1e-3, {"different", "same", "same"}},
        {"\"output\"", "\"rms\":", 1e-2, {"different", "different", "same"}},
        {"\"output\"", "\"rms\":", 1e-1, {"different", "different", "different"}},
        {"\"step\":1,\"loss\"", "\"loss\":", 2e-3, {"different", "same", "same"}},
        {"\"step\":1,\"loss\"", "\"loss\":", 2e-2, {"different", "different", "same"}},
        {"\"step\":1,\"loss\"", "\"loss\":", 1e-1, {"different", "different", "different"}},
    };
    static const char *const precisions[] = {"f32", "tf32", "bf16"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < 3; k++) {
            OWNED(pool) p = {.ctx = lab.ctx};
            const char *text = scaled(&p, rows[i].after, rows[i].key, 1 + rows[i].off);
            CASE("%s off by %g in %s", rows[i].key, rows[i].off, precisions[k]);
            CHECK_TEXT(parity_word(judge_in(precisions[k], text, strlen(text)).status), rows[i].said[k]);
        }
    CASE("twice the rate is found in all of them");
    errand e = lab.right;
    e.optimizer = "sgd lr=0.02 momentum=0.9";
    printed lines;
    CHECK_STATUS(run_errand(lab.ctx, &e, &lines), BRASA_OK);
    for (int k = 0; k < 3; k++)
        CHECK_TEXT(parity_word(judge_in(precisions[k], lines.text, lines.length).status), "different");
    free(lines.text);
}

/* --- rounding ------------------------------------------------------------------------------------------------ */

/* Where rounding alone moves a loss, more is allowed, but never more than 1e-2; what that makes unknown is said. */
TEST(rounding_has_a_ceiling)
{
    static const struct {
        const char *step; /* whose loss rounding moves by `rounding`, and which is off by so much */
        double rounding, off;
        const char *word, *said;
    } rows[] = {
        {"\"step\":1,\"loss\":", 5e-4, 4e-3, "same",
         "; up to 5.0e-03 is allowed, as rounding alone makes 5.0e-04 of a loss"},
        {"\"step\":1,\"loss\":", 5e-4, 6e-3, "different", "the loss of step 2 is "},
        {"\"step\":1,\"loss\":", 5e-3, 9e-3, "same", "; up to 1.0e-02 is allowed"},
        {"\"step\":1,\"loss\":", 5e-3, 9e-3, "same", ", half of the first update within 0 %"},
        {"\"step\":1,\"loss\":", 5e-3, 2e-2, "same",
         "losses of 2 steps agree within 0.0e+00, half of the first update within 0 %; the loss of step 2 is not "
         "compared: rounding alone makes 5.0e-03 of it; later updates are not compared, being all rounding"},
        {"\"step\":1,\"loss\":", 5e-3, 6e-2, "different", "the loss of step 2 is "},
        {"\"step\":0,\"loss\":", 5e-3, 2e-2, "different", "the loss of step 1 is "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("rounding %g, off by %g", rows[i].rounding, rows[i].off);
        OWNED(pool) p = {.ctx = lab.ctx};
        const char *ours = scaled(&p, "\"noise\"", rows[i].step, 1 + rows[i].rounding);
        const char *theirs = scaled(&p, "\"loss\"", rows[i].step, 1 + rows[i].off);
        const parity said = judge_texts(ours, theirs);
        CHECK_TEXT(parity_word(said.status), rows[i].word);
        CHECK_HAS(said.detail, rows[i].said);
        if (said.status == PARITY_SAME)
            CHECK(said.worst <= 1e-2 && parity_notes(said.detail));
    }
    CHECK(!parity_notes(judge(lab.ours.text, lab.ours.length).detail));
}

/* The lines of one event and step, or all but these. */
static const char *step_lines(pool *p, const char *text, const char *event, int k, bool others)
{
    const char *all = "", *const of = pool_text(p, "\"step\":%d,", k);
    const char *const key = pool_text(p, "{\"event\":\"%s\",", event);
    for (const char *at = text, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, "\n");
        const char *line = pool_text(p, "%.*s\n", (int)(end - at), at);
        if ((strncmp(line, key, strlen(key)) == 0 && strstr(line, of)) != others)
            all = pool_text(p, "%s%s", all, line);
    }
    return all;
}

/* An account with an update of a run at another rate, told as `event`. */
static const char *with_update(pool *p, const char *account, const char *rate, const char *event, int k)
{
    errand e = lab.right;
    printed lines;
    e.optimizer = pool_text(p, "sgd lr=%s momentum=0.9", rate);
    CHECK_STATUS(run_errand(lab.ctx, &e, &lines), BRASA_OK);
    const char *all = step_lines(p, account, event, k, true);
    const char *told = step_lines(p, lines.text, "param", k, false);
    for (const char *at; (at = strstr(told, "{\"event\":\"param\"")); told = at + strcspn(at, "\n"))
        all =
            pool_text(p, "%s{\"event\":\"%s\"%.*s\n", all, event,
                      (int)(strcspn(at, "\n") - strlen("{\"event\":\"param\"")), at + strlen("{\"event\":\"param\""));
    free(lines.text);
    return all;
}

/* Where rounding alone moves the first update, ten times that is allowed, but never more than 30 %, and it is said.
 */
TEST(rounding_of_updates)
{
    static const struct {
        const char *shaken, *theirs; /* rates; that of the experiment is 0.01 */
        const char *word, *said;
    } rows[] = {
        {"0.01", "0.0102", "same", NULL},
        {"0.01", "0.011", "different", "all agrees up to the update of step 1"},
        {"0.0102", "0.011", "same", "; half of the first update may differ by 20 %, as rounding alone makes 2 %"},
        {"0.0102", "0.013", "different", "all agrees up to the update of step 1"},
        {"0.02", "0.0125", "same", "; half of the first update may differ by 30 %, as rounding alone makes 1e+02 %"},
        {"0.02", "0.015", "different", "all agrees up to the update of step 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("rates %s and %s", rows[i].shaken, rows[i].theirs);
        OWNED(pool) p = {.ctx = lab.ctx};
        const char *ours = with_update(&p, lab.ours.text, rows[i].shaken, "noise_param", 0);
        const char *theirs = with_update(&p, lab.ours.text, rows[i].theirs, "param", 0);
        const parity said = judge_texts(ours, theirs);
        CHECK_TEXT(parity_word(said.status), rows[i].word);
        if (rows[i].said)
            CHECK_HAS(said.detail, rows[i].said);
        else
            CHECK(!parity_notes(said.detail));
    }
}

/* The same of the last update; that the peer is off in the first one allows it nothing. */
TEST(rounding_of_later_updates)
{
    static const struct {
        const char *shaken, *first, *last; /* rates, of the last update as Brasa shakes it, and of the peer's */
        const char *word, *said;
    } rows[] = {
        {"0.01", "0.0104", "0.01", "same",
         "losses of 3 steps agree within 0.0e+00, half of the updates within 4.1 %"},
        {"0.01", "0.01", "0.0102", "same", ", half of the updates within 3"},
        {"0.01", "0.0104", "0.0125", "different", "all agrees up to the update of step 3"},
        {"0.01", "0.0104", "0.03", "different", "all agrees up to the update of step 3"},
        {"0.0102", "0.01", "0.011", "same", "; half of later updates may differ by "},
        {"0.02", "0.01", "0.0115", "same", "; half of later updates may differ by 30 %, as rounding alone makes "},
        {"0.02", "0.01", "0.015", "different", "all agrees up to the update of step 3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("rates %s, %s and %s", rows[i].shaken, rows[i].first, rows[i].last);
        OWNED(pool) p = {.ctx = lab.ctx};
        const char *ours = with_update(&p, lab.ours.text, rows[i].shaken, "noise_param", 2);
        const char *theirs = with_update(&p, lab.ours.text, rows[i].first, "param", 0);
        theirs = with_update(&p, theirs, rows[i].last, "param", 2);
        const parity said = judge_texts(ours, theirs);
        CHECK_TEXT(parity_word(said.status), rows[i].word);
        CHECK_HAS(said.detail, rows[i].said);
    }
}

/* --- accounts that are none ---------------------------------------------------------------------------------- */

TEST(accounts)
{
    static const struct {
        const char *name, *text, *word, *said;
    } rows[] = {
        {"nothing", "", "failed", "told nothing"},
        {"garbage", "Epoch 1/2\n", "failed", "line 1: a runner's line: byte 0"},
        {"half a line", "{\"event\":\"start\"}\n{\"event\":\"bui", "failed", "line 2"},
        {"refused", "{\"event\":\"start\"}\n{\"event\":\"refused\",\"why\":\"no CUDA device\"}\n", "refused",
         "no CUDA device"},
        {"failed", "{\"event\":\"failed\",\"why\":\"ImportError: x\",\"kind\":\"error\"}\n", "failed",
         "ImportError: x"},
        {"an end too soon", "{\"event\":\"start\"}\n", "failed", "it did not tell what it built"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        const parity p = judge(rows[i].text, strlen(rows[i].text));
        CHECK_TEXT(parity_word(p.status), rows[i].word);
        CHECK_HAS(p.detail, rows[i].said);
    }
    CASE("cut off anywhere");
    const size_t told = (size_t)(strstr(lab.ours.text, "{\"event\":\"noise\"") - lab.ours.text);
    for (size_t length = 1; length < told; length += 97)
        CHECK(judge(lab.ours.text, length).status == PARITY_FAILED);
    CASE("a loss that is no number");
    OWNED(pool) p = {.ctx = lab.ctx};
    char *at = strstr(lab.ours.text, "\"step\":1,\"loss\":");
    REQUIRE(at);
    at += strlen("\"step\":1,\"loss\":");
    const char *text = pool_text(&p, "%.*snull%s", (int)(at - lab.ours.text), lab.ours.text, at + strcspn(at, "}"));
    const parity said = judge(text, strlen(text));
    CHECK_TEXT(parity_word(said.status), "different");
    CHECK_HAS(said.detail, "the loss of step 2 is nan");
}
