/* test_lab_page.c - the lab's report: pages of campaigns of every kind, and the same as CSV, JSON and Markdown.
 *
 * With BRASA_PAGES=folder the pages are also written there; test_report_pages.py looks at them in a browser.
 */
#include "test.h"
#include "heap.h"
#include "lab_campaign.h"
#include "report.h"

#include "lab/lab_export.h"
#include "lab/lab_page.h"

static const char hostile[] =
    "</title></style><script>alert(1)</script><img src=x onerror='alert(2)'>|\" onload=\"x&amp;";

/* --- campaigns ----------------------------------------------------------------------------------------------- */

static const char *const networks[] = {"alexnet", "mobilenet_v2", "resnet50", "vgg16"};
static const double work[] = {0.038, 0.014, 0.110, 0.310}; /* seconds an image */

static void add_parity(campaign *c)
{
    static result_parity parities[] = {
        {"brasa", "", "alexnet", "same", 2.1e-7, NULL},
        {"pytorch", "", "alexnet", "same", 1.9e-6, NULL},
        {"pytorch", "channels_last", "alexnet", "same", 2.3e-6, NULL},
        {"tensorflow", "", "alexnet", "same", 4.2e-6, NULL},
        {"jax", "", "alexnet", "different", 0.0312, "output of conv2: rms 0.4188, expected 0.4031"},
        {"mxnet", "", "alexnet", "refused", NAN, "MXNet 1.9 does not run on this Python"},
    };
    c->r.parities = parities;
    c->r.parity_count = sizeof parities / sizeof *parities;
}

/* Study 1: four networks, two sizes, batch 1; one peer is refused, one is another experiment, one dies. */
static void make_study1(campaign *c)
{
    campaign_begin(c, "study1-cpu");
    for (int size = 0; size < 2; size++)
        for (int i = 0; i < 4; i++) {
            add_cell(c, networks[i], size ? "synth:fire,n=240" : "synth:fire,n=48", size ? 240 : 48, 1);
            add_rows(c, "tensorflow", "", 3.1 * work[i], 0.07);
            add_rows(c, "brasa", "", work[i], 0.03);
            add_rows(c, "pytorch", "", 2.0 * work[i], 0.06);
            add_rows(c, "pytorch", "channels_last", 1.8 * work[i], 0.05);
            for (int repeat = 1; repeat <= 3; repeat++) {
                fail_row(add_row(c, "mxnet", "", repeat, 0), "refused", "MXNet 1.9 does not run on this Python",
                         NULL);
                fail_row(add_row(c, "jax", "", repeat, 0), "different",
                         "output of conv2: rms 0.4188, expected 0.4031", NULL);
                if (i == 3)
                    fail_row(add_row(c, "paddle", "", repeat, 0), "memory", "killed beyond 6.0 GB",
                             "Traceback (most recent call last):\n  File \"paddle.py\", line 41, in step\n    loss = "
                             "net(images)\nMemoryError: cannot allocate 411041792 bytes in CPUPlace\n");
                else
                    add_row(c, "paddle", "", repeat, work[i] * (2.6 + 0.05 * repeat));
            }
        }
    add_parity(c);
}

/* Study 2: batches up to where memory ends. */
static void make_batches(campaign *c)
{
    campaign_begin(c, "study2-batch");
    for (int k = 0; k < 2; k++)
        for (int64_t batch = 1; batch <= 512; batch *= 2) {
            const double image = (k ? 0.05 : 0.02) * (1 + 3.0 / (double)batch);
            result_cell *cell = add_cell(c, k ? "googlenet" : "alexnet", "synth:fire,n=512", 512, batch);
            cell->what.view = "batches";
            cell->what.mem = 11000000000;
            add_rows(c, "brasa", "", image, 0.03);
            if (batch <= 256)
                add_rows(c, "tensorflow", "", image * (batch == 256 ? 6 : 1.6), 0.05);
            else
                fail_row(add_row(c, "tensorflow", "", 1, 0), "memory", "killed beyond 11 GB", "Killed\n");
            if (batch == 256)
                for (int i = c->r.row_count - 3; i < c->r.row_count; i++)
                    c->r.rows[i].peak_swap = 2.1e9;
            if (batch <= 128)
                add_rows(c, "caffe", "", image * 2.3, 0.06);
            else
                fail_row(add_row(c, "caffe", "", 1, 0), "failed", "Check failed: error == cudaSuccess", "Aborted\n");
        }
}

/* Curves, threads, sizes and folds in one campaign, with texts that want to be markup. */
static void make_all(campaign *c)
{
    static const struct {
        const char *network, *data;
        int classes;
        double accuracy;
    } sets[] = {{"mnist_cnn", "synth:digits,n=2000", 10, 0.97},
                {"cifar10_cnn", "synth:objects,n=2000", 10, 0.58},
                {"letter_mlp", "synth:letters,n=2000", 26, 0.66}};
    static const int64_t sizes[] = {100, 200, 400, 791, 1500, 3000, 6003};
    campaign_begin(c, hostile);
    c->r.finished = false;
    c->r.machine = "not JSON at all";
    for (int k = 0; k < 2; k++) {
        add_cell(c, k ? "vgg16" : "alexnet", "synth:fire,n=791", 791, k ? 100 : 1)->what.view = "resources";
        add_rows(c, "brasa", "", 0.1, 0.02);
        add_samples(c, &c->r.rows[c->r.row_count - 3], 4e8 + 1e9 * k, 2);
        add_rows(c, "pytorch", "", 0.2, 0.02);
        add_samples(c, &c->r.rows[c->r.row_count - 3], 9e8 + 3e9 * k, 7);
    }
    for (int64_t threads = 1; threads <= 8; threads *= 2) {
        result_cell *cell = add_cell(c, "resnet50", "synth:fire,n=200", 200, 100);
        cell->what.view = "threads";
        cell->what.threads = threads;
        add_rows(c, "brasa", "", 0.4 / (double)threads + 0.01, 0.03);
        add_rows(c, "pytorch", "", 0.5 / (double)threads + 0.03, 0.03);
    }
    static char data[7][40];
    for (int i = 0; i < 7; i++) {
        snprintf(data[i], sizeof data[i], "synth:fire,n=%d", (int)sizes[i]);
        add_cell(c, "mobilenet_v2", data[i], sizes[i], 1)->what.view = "size";
        add_rows(c, "brasa", "", 0.014 + 0.05 / (double)sizes[i], 0.03);
        add_rows(c, "pytorch", "", 0.03 + 0.5 / (double)sizes[i], 0.03);
    }
    for (int i = 0; i < 3; i++) {
        result_cell *cell = add_cell(c, sets[i].network, sets[i].data, 1800, 128);
        cell->what.view = "accuracy";
        cell->what.split = NULL;
        cell->what.folds = 10;
        cell->classes = sets[i].classes;
        cell->test_images = 200;
        for (int fold = 1; fold <= 10; fold++) {
            for (int peer = 0; peer < 3; peer++) {
                result_row *row = add_row(c,
                                          peer == 0   ? "brasa"
                                          : peer == 1 ? "pytorch"
                                                      : "aesara",
                                          "", 1, 0.0004 * (1 + peer) * (1 + 0.03 * wobble(c)));
                row->fold = fold;
                row->accuracy = peer == 2 && i == 2 ? 0.035 + 0.002 * wobble(c) : sets[i].accuracy + 0.01 * wobble(c);
            }
        }
    }
    fail_row(add_row(c, hostile, hostile, 1, 0), "failed", hostile, hostile);
    c->r.text = hostile;
}

/* Study 1 on a GPU: figures of the GPU, curves, and where the time goes. */
static void make_gpu(campaign *c)
{
    static result_function ours[] = {
        {"conv2d_cudnn", 0.004, 160}, {"dense_cublaslt", 0.0024, 24}, {"relu", 0.0016, 8}};
    static result_function theirs[] = {
        {"void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true, "
         "(cudnnKernelDataType_t)2>"
         "(cudnn::engines_precompiled::nchw2nhwc_params_t<float>, float const*, float*)",
         0.009, 320},
        {"sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize128x128x16", 0.006, 64},
        {"Memcpy HtoD (Pinned -> Device)", 0.005, 16}};
    campaign_begin(c, "study1-gpu");
    for (int i = 0; i < 2; i++) {
        add_cell(c, networks[i], "synth:fire,n=791", 791, 1)->what.device = "cuda";
        add_rows(c, "brasa", "", work[i] / 30, 0.03);
        for (int k = 3; k > 0; k--)
            add_gpu(c, &c->r.rows[c->r.row_count - k], 9e8, 0.91);
        c->r.rows[c->r.row_count - 3].functions = ours;
        c->r.rows[c->r.row_count - 3].function_count = 3;
        c->r.rows[c->r.row_count - 3].profile_steps = 8;
        c->r.rows[c->r.row_count - 3].profile_s = 0.008;
        add_rows(c, "pytorch", "channels_last", work[i] / 10, 0.05);
        for (int k = 3; k > 0; k--)
            add_gpu(c, &c->r.rows[c->r.row_count - k], 1.4e9, 0.34);
        c->r.rows[c->r.row_count - 3].functions = theirs;
        c->r.rows[c->r.row_count - 3].function_count = 3;
        c->r.rows[c->r.row_count - 3].profile_steps = 8;
        c->r.rows[c->r.row_count - 3].profile_s = 0.025;
        add_rows(c, "jax", "", work[i] / 14, 0.04);
        for (int k = 3; k > 0; k--) {
            result_row *row = &c->r.rows[c->r.row_count - k];
            add_gpu(c, row, 1.1e9, 0.77);
            row->gpu_power = row->gpu_energy_j = NAN;
            row->gpu_why = "not readable: NVML says of the power: Not Supported";
            row->profile_why = "JAX writes its profile for TensorBoard, not for programs";
        }
        fail_row(add_row(c, "tensorflow", "", 1, 0), "refused",
                 "this TensorFlow is a CPU build: tf.test.is_built_with_cuda() is False (2.21.0)", NULL);
    }
}

/* Two sets, two batches, one network. */
static void make_grid(campaign *c)
{
    campaign_begin(c, "grid");
    for (int set = 0; set < 2; set++)
        for (int64_t batch = 8; batch <= 16; batch *= 2) {
            add_cell(c, "letter_mlp", set ? "synth:letter,n=96" : "synth:letter,n=64", set ? 96 : 64, batch);
            add_rows(c, "brasa", "", 0.1, 0.02);
            add_rows(c, "pytorch", "", 0.2, 0.02);
        }
}

static void make_nothing(campaign *c)
{
    campaign_begin(c, "nothing");
    c->r.text = NULL;
}

/* --- pages --------------------------------------------------------------------------------------------------- */

static kept page_of(campaign *c, lab_report *report)
{
    kept k = {0};
    summarize(c);
    CHECK_STATUS(lab_report_make(&c->pool, &c->r, report), BRASA_OK);
    CHECK_STATUS(lab_page_write(&c->pool, report, keep, &k), BRASA_OK);
    return k;
}

TEST(study_1)
{
    campaign c;
    lab_report report;
    make_study1(&c);
    kept k = page_of(&c, &report);
    CHECK_HAS(k.text, "<h1>Made up</h1>\n<p>study1-cpu, campaign 7, 2026-11-20 14:03:11, scale small</p>");
    CHECK_HAS(k.text, "brasa is fastest in 8 of 8 cells");
    CHECK_HAS(k.text, "<caption>Milliseconds an image: synth:fire,n=48, cpu, batch 1</caption>");
    CHECK_HAS(k.text, "Published: study1, table 1; Threadripper 2950X");
    CHECK_HAS(k.text, ">175.7<");                                     /* 139 s for 791 photos */
    CHECK_HAS(k.text, "[a] 7.6 times the photos take 2.3 to 2.6");    /* a fault of the study's */
    CHECK_HAS(k.text, "<th scope=\"row\" class=\"text\">singa</th>"); /* which nobody ran here */
    CHECK_HAS(k.text, "MemoryError: cannot allocate");
    CHECK_HAS(k.text, "output of conv2: rms 0.4188, expected 0.4031");
    CHECK_HAS(k.text, "<dt>processor</dt><dd>a CPU with 2 cores</dd>");
    CHECK_INT(report.tables.beside_count, 2);
    CHECK_INT(times(k.text, "<table class=\"bars\""), 4);
    CHECK_INT(times(k.text, "MemoryError"), 1); /* repeats and cells failed alike */
    CHECK_INT(times(k.text, "<section>"), times(k.text, "</section>"));
    save("lab-study1", &k);
    drop(&k);
    campaign_end(&c);
}

TEST(titles)
{
    static const char *const texts[][2] = {
        {"# a comment\n  title\tSeconds an epoch  # of 2\nbatch 1\n", "Seconds an epoch"},
        {"batch 1\n\nexperiment a\ntitle Of the block alone\n", "plain"},
        {"title\nbatch 1", "plain"},
        {"titles many\r\ntitle Last line of C#\r", "Last line of C#"},
        {"", "plain"},
        {NULL, "plain"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        campaign c;
        campaign_begin(&c, "plain");
        c.r.text = texts[i][0];
        summarize(&c);
        CHECK_TEXT(c.r.title, texts[i][1]);
        campaign_end(&c);
    }
}

TEST(batches)
{
    campaign c;
    lab_report report;
    make_batches(&c);
    kept k = page_of(&c, &report);
    CHECK_HAS(k.text, "Time an image over the size of the batch");
    CHECK_HAS(k.text, "Largest batch of googlenet that ran within 11.00 GB: brasa 512; caffe 128 (256: Check failed");
    CHECK_HAS(k.text, "Swap in use, tensorflow");
    CHECK_INT(times(k.text, "<figure class=\"chart\">"), 2);
    CHECK(times(k.text, "<title>caffe: ") == 16 && times(k.text, "<title>brasa: ") == 20);
    save("lab-batch", &k);
    drop(&k);
    campaign_end(&c);
}

TEST(everything)
{
    campaign c;
    lab_report report;
    make_all(&c);
    kept k = page_of(&c, &report);
    CHECK(!strstr(k.text, "<script") && !strstr(k.text, "<img"));
    CHECK_HAS(k.text, "This campaign is not finished");
    CHECK_HAS(k.text, "Time an image over the number of threads");
    CHECK_HAS(k.text, "Largest deviation from the line");
    CHECK_HAS(k.text, "brasa, line");
    CHECK_HAS(k.text, "about 13 (11 to 17)"); /* what the study's figure said */
    CHECK_HAS(k.text, "Accuracy at chance level, aesara");
    CHECK_HAS(k.text, "<dt>Machine</dt><dd>not JSON at all</dd>");
    CHECK_INT(times(k.text, "<figcaption>Threads</figcaption>"), 2);
    CHECK(times(k.text, "<circle") > 4 * SAMPLES);
    save("lab-all", &k);
    drop(&k);
    campaign_end(&c);
}

TEST(on_a_gpu)
{
    campaign c;
    lab_report report;
    make_gpu(&c);
    kept k = page_of(&c, &report);
    const result_entry *e = results_entry(&c.r, 0, 0);
    REQUIRE(e);
    CHECK_CLOSE(e->gpu_image_j.median, e->image_s.median * (120 + 400 * 0.91), 1e-9);
    CHECK_HAS(k.text, "<caption>On the GPU: medians over the repeats</caption>");
    CHECK_HAS(k.text, "What is missing was not readable: NVML says of the power: Not Supported.");
    CHECK_HAS(k.text, "A GPU that waits for the host, pytorch (channels_last): alexnet: busy 34.00 % of the time");
    CHECK_HAS(k.text, "this TensorFlow is a CPU build");
    CHECK_INT(times(k.text, "<figcaption>GPU busy</figcaption>"), 2);
    CHECK_INT(times(k.text, "<figcaption>GPU power, W</figcaption>"), 2);
    CHECK_HAS(k.text, ">conv2d_cudnn<");
    CHECK_HAS(k.text, "not readable: JAX writes its profile");
    CHECK_HAS(k.text, "nchwToNhwcKernel&lt;float, float, float, f...");
    save("lab-gpu", &k);
    drop(&k);
    CHECK(lab_export_markdown(&report, keep, &k));
    CHECK_HAS(k.text,
              "| Cell | Framework | GPU memory | its own count | GPU busy | Power, W | J an epoch | J an image |");
    CHECK_HAS(k.text, "| alexnet | brasa | conv2d_cudnn | 50.00 % | 0.5000 | 20 |");
    drop(&k);
    CHECK(lab_export_json(&report, keep, &k));
    CHECK_HAS(k.text,
              "\"profile\":{\"why\":null,\"steps\":8,\"seconds\":0.008,\"functions\":[{\"name\":\"conv2d_cudnn\"");
    CHECK_HAS(k.text, "\"gpu_busy\":{\"median\":0.91");
    drop(&k);
    CHECK(lab_export_csv(&c.r, keep, &k));
    CHECK_HAS(k.text, ",gpu_energy_j,gpu_epoch_j,gpu_image_j,gpu_why,finished\n");
    drop(&k);
    campaign_end(&c);
}

TEST(charts_of_a_grid)
{
    campaign c;
    lab_report report;
    make_grid(&c);
    kept k = page_of(&c, &report);
    CHECK_INT(times(k.text, "<figcaption>letter_mlp on synth:letter,n=64</figcaption>"), 1);
    CHECK_INT(times(k.text, "<figcaption>letter_mlp on synth:letter,n=96</figcaption>"), 1);
    CHECK_INT(times(k.text, "pytorch</th><td role=\"cell\"><svg class=\"c1\""), 4); /* its colour in bars ... */
    CHECK_INT(times(k.text, "<path class=\"line c1\""), 2);                         /* ... and in lines */
    CHECK_HAS(k.text,
              "Looked for, and not found: time does not grow with the data; equal to all digits; swap in use;");
    CHECK_HAS(k.text, "could be seen: accuracy at chance level; accuracy far below another&#39;s; the same time on");
    drop(&k);
    campaign_end(&c);
}

/* An account as the program writes it: objects in objects, lists, sizes, what there is not. */
TEST(the_machine_in_words)
{
    campaign c;
    lab_report report;
    make_nothing(&c);
    c.r.machine =
        "{\"machine\":{\"versions\":{\"brasa\":\"0.1.0\"},\"cpu_features\":[\"avx\",\"fma\"],\"sizes\":[1,2],"
        "\"cores\":2,\"cgroup_cpus\":null,\"memory_bytes\":25276530688}}";
    c.r.brasa = "{\"versions\":{\"brasa\":\"0.1.0\",\"compiler\":\"gcc 12.2.0\"}}";
    kept k = page_of(&c, &report);
    CHECK_INT(times(k.text, "<dt>brasa</dt><dd>0.1.0</dd>"), 1);
    CHECK_HAS(k.text, "<dt>cpu features</dt><dd>avx, fma</dd>");
    CHECK_HAS(k.text, "<dt>sizes</dt><dd>1, 2</dd>");
    CHECK_HAS(k.text, "<dt>cores</dt><dd>2</dd>");
    CHECK_HAS(k.text, "<dt>memory</dt><dd>25.28 GB</dd>");
    CHECK_HAS(k.text, "<dt>compiler</dt><dd>gcc 12.2.0</dd>");
    CHECK(!strstr(k.text, "cgroup cpus"));
    drop(&k);
    campaign_end(&c);
}

/* When it was resumed stands there, and what had changed since it was begun. */
TEST(what_changed_when_it_was_resumed)
{
    campaign c;
    lab_report report;
    make_nothing(&c);
    c.r.machine = "{\"machine\":{\"cpu\":\"a CPU\",\"memory_available_bytes\":1000000000}}";
    c.r.brasa = "{\"versions\":{\"brasa\":\"0.1.0\",\"compiler\":\"gcc 12.2.0\"}}";
    result_resumed resumed[] = {
        {"2026-11-20T15:00:00Z", "{\"machine\":{\"cpu\":\"a CPU\",\"memory_available_bytes\":2000000000}}",
         c.r.brasa},
        {"2026-11-20T16:00:00Z", c.r.machine, "{\"versions\":{\"brasa\":\"0.2.0\",\"compiler\":\"gcc 13.1.0\"}}"},
        {"2026-11-20T17:00:00Z", "", "no JSON"},
    };
    c.r.resumed = resumed;
    c.r.resumed_count = 3;
    kept k = page_of(&c, &report);
    CHECK_HAS(k.text, "<dt>Resumed</dt><dd>2026-11-20T15:00:00Z, with all as before</dd>");
    CHECK_HAS(k.text, "<dd>2026-11-20T16:00:00Z, with brasa 0.2.0, with compiler gcc 13.1.0</dd>");
    CHECK_HAS(k.text,
              "<dd>2026-11-20T17:00:00Z, with Brasa no JSON, without cpu, without brasa, without compiler</dd>");
    drop(&k);
    k = (kept){0};
    CHECK(lab_export_json(&report, keep, &k));
    CHECK_HAS(k.text, "\"resumed\":[{\"at\":\"2026-11-20T15:00:00Z\",\"machine\":{\"machine\":{\"cpu\"");
    CHECK_HAS(k.text, "\"machine\":\"\",\"build\":\"no JSON\"}]");
    drop(&k);
    campaign_end(&c);
}

/* However often it was resumed, what was measured stays in the report. */
TEST(resumed_again_and_again)
{
    enum { MANY = 250 };
    static char dates[MANY][32];
    result_resumed resumed[MANY];
    campaign c;
    lab_report report;
    make_nothing(&c);
    for (int i = 0; i < MANY; i++) {
        snprintf(dates[i], sizeof dates[i], "day %d", i);
        resumed[i] = (result_resumed){dates[i], c.r.machine, c.r.brasa};
    }
    c.r.resumed = resumed;
    c.r.resumed_count = MANY;
    kept k = page_of(&c, &report);
    CHECK_HAS(k.text, "<dt>Cost of watching</dt>");
    CHECK_HAS(k.text, "<dt>Resumed before</dt><dd>245 times</dd>");
    CHECK_HAS(k.text, "day 249, with all as before");
    CHECK_HAS(k.text, "day 245,");
    CHECK(!strstr(k.text, "day 244,"));
    drop(&k);
    campaign_end(&c);
}

/* Rows of two versions do not pass for one. */
TEST(two_versions_of_a_framework)
{
    campaign c;
    lab_report report;
    campaign_begin(&c, "versions");
    add_cell(&c, "alexnet", "synth:fire,n=100", 100, 1);
    for (int repeat = 1; repeat <= 3; repeat++)
        add_row(&c, "mxnet", "", repeat, 0.1)->version = repeat == 2 ? "1.8.0" : "1.9.1";
    kept k = page_of(&c, &report);
    CHECK_HAS(k.text, "1.8.0");
    CHECK_HAS(k.text, "1.9.1");
    CHECK_HAS(k.text, "mxnet had 2 versions in this campaign: its rows do not compare with each other.");
    drop(&k);
    campaign_end(&c);
}

/* RAPL's joules, for all epochs together, are told for one and for an image. */
TEST(energy_of_the_processors)
{
    campaign c;
    lab_report report;
    campaign_begin(&c, "energy");
    add_cell(&c, "alexnet", "synth:fire,n=100", 100, 1);
    for (int repeat = 1; repeat <= 3; repeat++) {
        static const double seconds[] = {2, 2.1};
        result_row *row = add_row(&c, "brasa", "", repeat, 0.02);
        row->epochs = pool_get(&c.pool, 2, sizeof *row->epochs);
        REQUIRE(row->epochs);
        row->epoch_count = 2;
        for (int i = 0; i < 2; i++)
            row->epochs[i] = (result_epoch){.epoch = i + 1, .seconds = seconds[i], .images = 100};
        row->energy_j = 300;
        row->energy_why = NULL;
    }
    kept k = page_of(&c, &report);
    CHECK_CLOSE(c.r.entries[0].epoch_j.median, 150, 1e-9);
    CHECK_CLOSE(c.r.entries[0].image_j.median, 1.5, 1e-9);
    CHECK_HAS(k.text, "<td>300</td><td>150</td><td>1.500</td>");
    drop(&k);
    CHECK(lab_export_csv(&c.r, keep, &k));
    CHECK_HAS(k.text, ",energy_j,epoch_j,image_j,energy_why,");
    CHECK_HAS(k.text, ",300,150,1.5,,");
    drop(&k);
    for (int i = 0; i < c.r.row_count; i++)
        c.r.rows[i].epochs[0].seconds = c.r.rows[i].epochs[1].seconds = 0.1; /* two looks: too rough */
    k = page_of(&c, &report);
    CHECK(isnan(c.r.entries[0].epoch_j.median));
    CHECK_HAS(k.text, "too rough to be shared out");
    drop(&k);
    campaign_end(&c);
}

TEST(absent)
{
    campaign c;
    lab_report report;
    campaign_begin(&c, "absent");
    add_cell(&c, "alexnet", "synth:fire,n=8", 8, 1);
    add_rows(&c, "brasa", "", 0.04, 0.02);
    fail_row(add_row(&c, "singa", "", 1, 0), "absent", "not installed", NULL);
    kept k = page_of(&c, &report);
    CHECK_HAS(k.text, ">3 of 3<");
    CHECK_HAS(k.text, "not installed");
    drop(&k);
    campaign_end(&c);
}

TEST(nothing)
{
    campaign c;
    lab_report report;
    make_nothing(&c);
    kept k = page_of(&c, &report);
    CHECK_HAS(k.text, "Nobody got through");
    CHECK(!strstr(k.text, "nan") && !strstr(k.text, "<svg"));
    save("lab-nothing", &k);
    drop(&k);
    campaign_end(&c);
}

/* --- the same for other programs ----------------------------------------------------------------------------- */

TEST(csv)
{
    campaign c;
    kept k = {0};
    make_study1(&c);
    summarize(&c);
    CHECK(lab_export_csv(&c.r, keep, &k));
    CHECK_INT(times(k.text, "\n"), 1 + c.r.row_count);
    CHECK_HAS(k.text, "experiment,network,data,images,batch,");
    CHECK_HAS(k.text, ",finished\n");
    CHECK_INT(times(k.text, ",yes\n"), c.r.row_count);
    CHECK_HAS(k.text, "main,alexnet,\"synth:fire,n=48\",48,1,2,");
    CHECK_HAS(k.text, ",eval_s,");
    CHECK_HAS(k.text, ",children,ctx_switches,faults,read_bytes,energy_j,epoch_j,image_j,energy_why,");
    CHECK_HAS(k.text, ",0,4211,61034,12000000,,");
    CHECK(!strstr(k.text, "nan"));
    drop(&k);
    c.r.rows[0].reason = "a \"b\",\nc";
    c.r.finished = false;
    CHECK(lab_export_csv(&c.r, keep, &k));
    CHECK_INT(times(k.text, ",no\n"), c.r.row_count);
    CHECK_HAS(k.text, ",\"a \"\"b\"\",\nc\",");
    drop(&k);
    campaign_end(&c);
}

TEST(json_and_markdown)
{
    campaign c;
    lab_report report;
    kept k = {0};
    make_study1(&c);
    summarize(&c);
    CHECK_STATUS(lab_report_make(&c.pool, &c.r, &report), BRASA_OK);
    CHECK(lab_export_json(&report, keep, &k));
    CHECK_HAS(k.text, "\"name\":\"study1-cpu\"");
    CHECK_HAS(k.text, "\"study\":\"study1\"");
    CHECK_HAS(k.text, "brasa is fastest in 8 of 8 cells");
    CHECK_INT(times(k.text, "\"epochs\":["), c.r.row_count);
    CHECK_HAS(k.text, "\"machine\":{\"processor\": \"a CPU with 2 cores\"");
    CHECK_HAS(k.text, "\"build\":{\"version\": \"0.1.0\"");
    CHECK_HAS(k.text, "\"ctx_switches\":{\"median\":4211,");
    CHECK_HAS(k.text, "\"faults\":61034,\"read_bytes\":12000000,");
    drop(&k);
    CHECK(lab_export_markdown(&report, keep, &k));
    CHECK_HAS(k.text, "# Made up\n\nstudy1-cpu, 2026-11-20 14:03:11. brasa is fastest");
    CHECK_HAS(k.text, "| Framework | alexnet | published | mobilenet_v2 |");
    CHECK_HAS(k.text, "| pytorch | ");
    CHECK_HAS(k.text, "| Cell | Framework | Context switches | Page faults | Read from disk | Swap |");
    CHECK_HAS(k.text, "| 4,211 | 61,034 | 12.00 MB |");
    CHECK(!strstr(k.text, "Not finished"));
    CHECK_HAS(k.text, "\n## Conditions\n\nAn epoch's time goes from");
    CHECK_HAS(k.text, "\n- processor: a CPU with 2 cores\n");
    CHECK_HAS(k.text, "\n- Busy before a run: 0.0");
    CHECK_HAS(k.text, "\n## The experiment\n\n    title      Made up\n    network    alexnet vgg16\n");
    drop(&k);
    campaign_end(&c);

    make_all(&c);
    summarize(&c);
    CHECK_STATUS(lab_report_make(&c.pool, &c.r, &report), BRASA_OK);
    CHECK(lab_export_markdown(&report, keep, &k));
    CHECK_HAS(k.text, "\\<script>alert(1)\\</script>");
    CHECK_HAS(k.text, "Not finished");
    CHECK_HAS(k.text, "\\|\"");
    drop(&k);
    CHECK(lab_export_json(&report, keep, &k));
    CHECK_HAS(k.text, "\"machine\":\"not JSON at all\"");
    CHECK_INT(times(k.text, "\"phase\":[\"import\",\"import\","), 4);
    CHECK_INT(times(k.text, "\"rss\":[80000000,"), 4);
    drop(&k);
    campaign_end(&c);
}

/* At a price it also tells what it costs; without one nothing is said of that. */
TEST(costs)
{
    campaign c;
    lab_report report;
    kept k = {0};
    make_study1(&c);
    summarize(&c);
    CHECK_STATUS(lab_report_make(&c.pool, &c.r, &report), BRASA_OK);
    CHECK(lab_export_markdown(&report, keep, &k) && lab_export_json(&report, keep, &k));
    CHECK(!strstr(k.text, "costs") && !strstr(k.text, "price"));
    drop(&k);
    c.r.price_per_hour = 7.2; /* two thousandths a second */
    summarize(&c);
    CHECK_STATUS(lab_report_make(&c.pool, &c.r, &report), BRASA_OK);
    const result_entry *e = &c.r.entries[0];
    CHECK_CLOSE(e->image_cost.median, 0.002 * e->image_s.median, 1e-12);
    CHECK_CLOSE(e->epoch_cost.high, 0.002 * e->epoch_s.high, 1e-12);
    CHECK(lab_export_markdown(&report, keep, &k));
    CHECK_HAS(k.text, "| Cell | Framework | An epoch | An image | A million images |");
    CHECK_HAS(k.text, "At 7.2 an hour");
    drop(&k);
    CHECK(lab_export_json(&report, keep, &k));
    CHECK_HAS(k.text, "\"price_per_hour\":7.2");
    CHECK_HAS(k.text, "\"image_cost\":{\"median\":");
    drop(&k);
    CHECK(lab_export_csv(&c.r, keep, &k));
    CHECK_HAS(k.text, ",epoch_cost,image_cost,");
    drop(&k);
    k = page_of(&c, &report);
    CHECK_HAS(k.text, "A million images");
    drop(&k);
    campaign_end(&c);
}

/* --- what may fail ------------------------------------------------------------------------------------------- */

TEST(a_sink_that_fails)
{
    campaign c;
    lab_report report;
    make_study1(&c);
    kept whole = page_of(&c, &report);
    for (int call = 1; call <= whole.calls; call += 97) {
        kept k = {.fail_at = call};
        CHECK_STATUS(lab_page_write(&c.pool, &report, keep, &k), BRASA_BAD_FILE);
        CHECK_INT(k.calls, call); /* the rest is dropped */
        drop(&k);
    }
    kept k = {.fail_at = 3};
    CHECK(!lab_export_csv(&c.r, keep, &k));
    drop(&k);
    drop(&whole);
    campaign_end(&c);
}

/* Every allocation may fail: then it is told, and nothing is leaked. */
TEST(out_of_memory)
{
    campaign c;
    make_study1(&c);
    int failures = 0;
    for (int call = 2;; call += 1 + call / 20) { /* where pieces are allocations of their own there are many */
        heap memory = {.fail_at = call};
        brasa_context *ctx;
        lab_report report;
        kept k = {0};
        const brasa_context_options o = {.threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &memory};
        REQUIRE(brasa_context_new(&o, &ctx) == BRASA_OK);
        pool p = {.ctx = ctx};
        lab_results r = c.r;
        brasa_status status = results_summarize(&p, &r);
        if (status == BRASA_OK)
            status = lab_report_make(&p, &r, &report);
        if (status == BRASA_OK)
            status = lab_page_write(&p, &report, keep, &k);
        drop(&k);
        pool_free(&p);
        brasa_context_free(ctx);
        CHECK_INT(memory.live, 0);
        if (status == BRASA_OK)
            break;
        CHECK_STATUS(status, BRASA_OUT_OF_MEMORY);
        failures++;
        if (!CHECK(memory.calls >= call))
            break;
    }
    CHECK(failures > 2);
    campaign_end(&c);
}
