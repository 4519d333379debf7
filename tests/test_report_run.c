/* test_report_run.c - whole pages: a run's report with everything and with nothing in it, and a page of blocks.
 *
 * With BRASA_PAGES=folder the pages are also written there; test_report_pages.py looks at them in a browser.
 */
#include "test.h"
#include "report.h"

#include "report/run_report.h"

static brasa_context *context(void)
{
    static brasa_context *ctx;
    if (!ctx && brasa_context_new(NULL, &ctx) != BRASA_OK)
        exit(1);
    return ctx;
}

/* --- runs ---------------------------------------------------------------------------------------------------- */

enum { MOST_EPOCHS = 300, MOST_CLASSES = 100, FOLDS = 10 };

static const char hostile[] =
    "</title></style><script>alert(1)</script><img src=x onerror='alert(2)'>\" onload=\"x&amp;";

static const page_fact settings[] = {
    {"Network", "mnist_cnn"},
    {"Data", "mnist, 70/30, stratified"},
    {"Optimizer", "adadelta"},
    {"Learning rate", "1"},
    {"Rho", "0.95"},
    {"Epsilon", "1e-07"},
    {"Batch", "128"},
    {"Epochs", "12"},
    {"Dialect", "keras2"},
    {"Seed", "1"},
    {"Threads", "2"},
    {"Augmentation", "none"},
    {"Schedule", "constant"},
    {"Clip norm", "none"},
    {"Weights", "glorot_uniform"},
    {"Early stopping", "off"},
};

static const page_fact environment[] = {
    {"Kernels", "conv2d_onednn, dense_onednn, relu_ref, softmax_cross_entropy_ref, adadelta_ref"},
    {"Processor", "a CPU with 2 cores and AVX-512"},
    {"SHA-256 of the data", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
};

static const report_notice notices[] = {
    {PAGE_GOOD, "Same bits as the last run with this seed."},
    {PAGE_WARNING, "Class 'smoke' has 40 images, the largest one 400: consider class weights."},
    {PAGE_ALARM, "The loss was not finite at step 1,204, in layer conv3; the weights of epoch 4 were kept."},
};

static const page_bar memory[] = {
    {.name = "weights", .value = 4799528},   {.name = "gradients", .value = 4799528},
    {.name = "optimizer", .value = 9599056}, {.name = "activations", .value = 28311552},
    {.name = "workspace", .value = 1048576}, {.name = "loader", .value = 2408448, .note = "128 images decoded"},
};

static const char *const digits[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};

/* Curves as they usually look, the same every time. */
static const report_epoch *make_epochs(int count)
{
    static report_epoch epochs[MOST_EPOCHS];
    for (int i = 0; i < count; i++) {
        const double t = 12.0 * (i + 1) / (count > 12 ? count : 12), ripple = 0.01 * sin(5.0 * i);
        epochs[i] = (report_epoch){.epoch = i + 1,
                                   .train_loss = 2.2 * exp(-0.6 * t) + 0.03 + ripple / 4,
                                   .train_accuracy = 0.995 - 0.5 * exp(-0.5 * t),
                                   .val_loss = 1.9 * exp(-0.5 * t) + 0.06 + 0.004 * t + ripple / 2,
                                   .val_accuracy = 0.985 - 0.42 * exp(-0.55 * t) - ripple / 5,
                                   .images_per_second = 3100 + 4000 * ripple,
                                   .seconds = 15.8 - 20 * ripple,
                                   .learning_rate = 0.001 * (1 + cos(0.26 * (t - 1)))};
    }
    return epochs;
}

static const int64_t *make_confusion(int classes)
{
    static int64_t counts[MOST_CLASSES * MOST_CLASSES];
    for (int row = 0; row < classes; row++)
        for (int k = 0; k < classes; k++)
            counts[row * classes + k] = row == k                      ? 1750 + 11 * row
                                        : (row * 7 + k * 3) % 11 == 0 ? 1 + (row + k) % 29
                                                                      : 0;
    return counts;
}

static report_run full_run(int epochs, int classes)
{
    return (report_run){
        .title = "mnist_cnn on mnist",
        .subtitle = "12 epochs with adadelta, made up for a test",
        .notices = notices,
        .notice_count = 3,
        .epochs = make_epochs(epochs),
        .epoch_count = epochs,
        .classes = classes,
        .class_names = classes == 10 ? digits : NULL,
        .confusion = make_confusion(classes),
        .memory = memory,
        .memory_count = 6,
        .memory_budget = 64000000,
        .memory_peak = 51200000,
        .settings = settings,
        .setting_count = 16,
        .environment = environment,
        .environment_count = 3,
    };
}

/* Writes the page; also into the folder, if there is one. To be dropped. */
static kept write_run(const char *name, const report_run *run)
{
    kept k = {0};
    CHECK_STATUS(run_report_write(context(), run, keep, &k), BRASA_OK);
    save(name, &k);
    CHECK_INT(times(k.text, "<script"), 0);
    CHECK_INT(times(k.text, "</html>"), 1);
    return k;
}

/* --- tests --------------------------------------------------------------------------------------------------- */

TEST(full)
{
    const report_run run = full_run(12, 10);
    OWNED(kept) k = write_run("full", &run);
    CHECK_INT(times(k.text, "<circle cx"), 6 * 12);
    CHECK_INT(times(k.text, "<td class=\"r\""), 10);
    CHECK_HAS(k.text, "true three, predicted three: 1,783 (");
    CHECK_HAS(k.text, "Planned: 50.97 MB. Allowed: 64.00 MB. Measured at the peak: 51.20 MB.");
    CHECK_HAS(k.text, "<dt>Epsilon</dt><dd>1e-07</dd>");
    CHECK_HAS(k.text, "Best validation accuracy, epoch 12");
}

TEST(one_epoch)
{
    const report_run run = full_run(1, 10);
    OWNED(kept) k = write_run("one", &run);
    CHECK_INT(times(k.text, "<title>training: "), 2);
    CHECK_INT(times(k.text, "<title>validation: "), 2);
}

TEST(hundred_classes)
{
    const report_run run = full_run(MOST_EPOCHS, MOST_CLASSES);
    OWNED(kept) k = write_run("hundred", &run);
    CHECK_INT(times(k.text, ", predicted "), 10000);
    CHECK_INT(times(k.text, "<title>training: "), 2 * MOST_EPOCHS);
    CHECK(k.used < 2000000);
}

TEST(folds)
{
    report_fold folds[FOLDS];
    for (int i = 0; i < FOLDS; i++)
        folds[i] = (report_fold){i + 1, 0.2 + 0.01 * i, 0.95 + 0.001 * i, 12.5 + i};
    report_run run = full_run(12, 10);
    run.folds = folds;
    run.fold_count = FOLDS;
    kept k = write_run("folds", &run);
    CHECK_HAS(k.text, "Mean accuracy 95.45 %, standard deviation 0.30 % over 10 folds.");
    CHECK_HAS(k.text, "Time to train</dt><dd>170.0 s");
    CHECK_HAS(k.text, "Accuracy, mean of 10 folds</dt><dd>95.45 % \u00B1 0.30 %");
    drop(&k);
    run.fold_count = 1;
    k = write_run("fold", &run);
    CHECK_INT(times(k.text, "standard deviation"), 0);
    drop(&k);
}

TEST(nothing)
{
    const report_run run = {0};
    OWNED(kept) k = write_run("nothing", &run);
    CHECK_INT(times(k.text, "<section>"), 0);
}

/* Every text there is, hostile; every number there is, odd. */
TEST(odd)
{
    static const char *const names[] = {hostile, NULL, "\xFF\xFE", "\u202Eright to left", ""};
    static const int64_t counts[25] = {INT64_MAX, INT64_MAX, 0, 0, 0, 7, 0, -1};
    report_epoch epochs[] = {{1, INFINITY, NAN, NAN, -INFINITY, 1e308, 1e-308, 0},
                             {2, 1e308, NAN, NAN, 0, -1e308, NAN, INFINITY},
                             {3, NAN, NAN, NAN, 1e-320, 0, -5, NAN}};
    const page_fact facts[] = {{hostile, hostile}, {NULL, NULL}};
    const report_notice told[] = {{PAGE_ALARM, hostile}};
    const page_bar parts[] = {
        {.name = hostile, .value = INFINITY, .low = NAN, .high = 1, .note = hostile, .colour = -5},
        {.name = hostile, .group = hostile, .value = -1, .colour = 1000}};
    const report_run run = {hostile, hostile, told, 1,         epochs,    3,     NULL, 0,     5, names,
                            counts,  parts,   2,    INT64_MAX, INT64_MAX, facts, 2,    facts, 2};
    OWNED(kept) k = write_run("odd", &run);
    CHECK_INT(times(k.text, "<img"), 0);
    CHECK_INT(times(k.text, "'alert"), 0);
    CHECK_INT(times(k.text, "\" onload"), 0);
    CHECK_INT(times(k.text, "nan"), 0);
    CHECK_INT(times(k.text, "inf"), times(k.text, "infinite"));
    CHECK(times(k.text, "&lt;script&gt;") > 20);
}

/* Precision and recall by hand: a was found 8 times of 10, and 8 of the 9 called a were; c was never predicted. */
TEST(each_class)
{
    static const char *const names[] = {"a", "b", "c"};
    static const int64_t counts[] = {8, 2, 0, 0, 5, 0, 1, 3, 0};
    const report_run run = {.classes = 3, .class_names = names, .confusion = counts};
    OWNED(kept) k = write_run("classes", &run);
    CHECK_HAS(k.text, ">a</th><td>10</td><td>88.89 %</td><td>80.00 %</td><td class=\" best\">84.21 %");
    CHECK_HAS(k.text, ">b</th><td>5</td><td>50.00 %</td><td>100.00 %</td><td>66.67 %");
    CHECK_HAS(k.text, ">c</th><td>4</td><td>\u2013</td><td>0.00 %</td><td class=\" worst\">0.00 %");
    const char *most = strstr(k.text, "Most often confused</caption>");
    REQUIRE(most);
    CHECK_HAS(most, ">c</th><td class=\"text\">b</td><td>3</td><td>75.00 %</td></tr>\n"
                    "<tr><th scope=\"row\" class=\"text\">a</th><td class=\"text\">b</td><td>2</td>");
}

/* The sink fails at its n-th call: a status, the sink's text, and not one call more. */
TEST(sink_fails)
{
    const report_run run = full_run(2, 3);
    OWNED(kept) whole = write_run("short", &run);
    for (int n = 1; n <= whole.calls; n++) {
        OWNED(kept) k = {.fail_at = n};
        fail(context(), BRASA_BAD_FILE, "report.html: no room"); /* as the sink would */
        CHECK_STATUS(run_report_write(context(), &run, keep, &k), BRASA_BAD_FILE);
        CHECK_INT(k.calls, n);
        CHECK_TEXT(brasa_context_error(context()), "report.html: no room");
    }
}

/* What the lab will need: groups of bars with spread, measurements with a fitted line, a logarithmic axis. */
TEST(blocks)
{
    static const double size[] = {100, 200, 400, 800, 1600, 3200, 6003}, ends[] = {100, 6003}, line[] = {3.1, 121};
    static const double took[] = {3.4, 5.1, 9.9, 17.2, 33.8, 66.1, 120.2};
    static double noise[5000];
    const page_series fit[] = {{.name = "measured", .x = size, .y = took, .count = 7, .style = STYLE_DOTS},
                               {.name = "fitted", .x = ends, .y = line, .count = 2, .style = STYLE_DASHED}};
    page_series many[9];
    const page_bar bars[] = {
        {"alexnet, batch 1", "Brasa", 0.0213, 0.0209, 0.0220, 1, NULL, MARK_BEST},
        {"alexnet, batch 1", "PyTorch", 0.0291, 0.0280, 0.0331, 2},
        {"alexnet, batch 1", "Caffe", NAN, 0, 0, 3, "not installed: no package for this Python"},
        {"googlenet, batch 1", "Brasa", 0.0413, 0.0405, 0.0430, 1},
        {"googlenet, batch 1", "PyTorch", 0.0401, 0.0390, 0.0421, 2, NULL, MARK_BEST},
    };
    static const page_column columns[] = {{"Framework", .is_text = true}, {"Time"}, {"Memory"}, {"Verdict", true}};
    const page_cell rows[][4] = {{{"Brasa"}, {"21.30 ms", MARK_BEST}, {"412 MB", MARK_BEST}, {"fastest"}},
                                 {{"PyTorch"}, {"29.10 ms"}, {"1.102 GB"}, {"1.4 times as long"}},
                                 {{"Keras"}, {"44.10 ms", MARK_WORST}, {"1.390 GB"}, {hostile}}};
    OWNED(kept) k = {0};
    page p = {.write = keep, .user = &k};
    for (int i = 0; i < 5000; i++)
        noise[i] = exp(4 * sin(i / 700.0)) * (1 + 0.2 * sin(1.7 * i));
    for (int i = 0; i < 9; i++)
        many[i] = (page_series){.name = digits[i], .y = noise + 500 * i, .count = i == 0 ? 5000 : 20};
    page_begin(&p, "Blocks of a page", NULL);
    page_section(&p, "Bars and tables");
    page_bars(&p, "Time per image", UNIT_SECONDS, bars, 5);
    page_table_begin(&p, "Who won", columns, 4);
    for (int i = 0; i < 3; i++)
        page_table_row(&p, rows[i]);
    page_table_end(&p);
    page_section(&p, "Charts");
    page_columns_begin(&p);
    page_lines(&p, &(page_chart){"Time over images", {.title = "images"}, {"time", UNIT_SECONDS}, fit, 2});
    page_lines(&p, &(page_chart){"Nine series", {.title = "step"}, {"loss", .log = true}, many, 9});
    page_lines(&p, &(page_chart){"One series", {.title = "step"}, {"loss", .log = true}, many, 1});
    page_columns_end(&p);
    page_end(&p);
    CHECK(!p.failed);
    CHECK_INT(times(k.text, "class=\"line c1 dashed\""), 1);
    CHECK_INT(times(k.text, "<title>measured: "), 7);
    save("blocks", &k);
}
