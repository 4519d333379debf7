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

/* Of the test that runs: what its campaign makes, and what was written of it last. */
static lab_report report;
static kept got;

static void end(void)
{
    drop(&got);
    campaign_end();
}

AROUND_EACH(NULL, end)

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

static void report_of(campaign *c)
{
    summarize(c);
    CHECK_STATUS(lab_report_make(&c->pool, &c->r, &report), BRASA_OK);
}

static void page_of(campaign *c)
{
    report_of(c);
    CHECK_STATUS(lab_page_write(&c->pool, &report, keep, anew(&got)), BRASA_OK);
}

TEST(study_1)
{
    make_study1(&lab);
    page_of(&lab);
    CHECK_HAS(got.text, "<h1>Made up</h1>\n<p>study1-cpu, campaign 7, 2026-11-20 14:03:11, scale small</p>");
    CHECK_HAS(got.text, "brasa is fastest in 8 of 8 cells");
    CHECK_HAS(got.text, "<caption>Milliseconds an image: synth:fire,n=48, cpu, batch 1</caption>");
    CHECK_HAS(got.text, "Published: study1, table 1; Threadripper 2950X");
    CHECK_HAS(got.text, ">175.7<");                                     /* 139 s for 791 photos */
    CHECK_HAS(got.text, "[a] 7.6 times the photos take 2.3 to 2.6");    /* a fault of the study's */
    CHECK_HAS(got.text, "<th scope=\"row\" class=\"text\">singa</th>"); /* which nobody ran here */
    CHECK_HAS(got.text, "MemoryError: cannot allocate");
    CHECK_HAS(got.text, "output of conv2: rms 0.4188, expected 0.4031");
    CHECK_HAS(got.text, "<dt>processor</dt><dd>a CPU with 2 cores</dd>");
    CHECK_INT(report.tables.beside_count, 2);
    CHECK_INT(times(got.text, "<table class=\"bars\""), 4);
    CHECK_INT(times(got.text, "MemoryError"), 1); /* repeats and cells failed alike */
    CHECK_INT(times(got.text, "<section>"), times(got.text, "</section>"));
    save("lab-study1", &got);
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
        campaign_begin(&lab, "plain");
        lab.r.text = texts[i][0];
        summarize(&lab);
        CHECK_TEXT(lab.r.title, texts[i][1]);
    }
}

TEST(batches)
{
    make_batches(&lab);
    page_of(&lab);
    CHECK_HAS(got.text, "Time an image over the size of the batch");
    CHECK_HAS(got.text,
              "Largest batch of googlenet that ran within 11.00 GB: brasa 512; caffe 128 (256: Check failed");
    CHECK_HAS(got.text, "Swap in use, tensorflow");
    CHECK_INT(times(got.text, "<figure class=\"chart\">"), 2);
    CHECK(times(got.text, "<title>caffe: ") == 16 && times(got.text, "<title>brasa: ") == 20);
    save("lab-batch", &got);
}

TEST(everything)
{
    make_all(&lab);
    page_of(&lab);
    CHECK(!strstr(got.text, "<script") && !strstr(got.text, "<img"));
    CHECK_HAS(got.text, "This campaign is not finished");
    CHECK_HAS(got.text, "Time an image over the number of threads");
    CHECK_HAS(got.text, "Largest deviation from the line");
    CHECK_HAS(got.text, "brasa, line");
    CHECK_HAS(got.text, "about 13 (11 to 17)"); /* what the study's figure said */
    CHECK_HAS(got.text, "Accuracy at chance level, aesara");
    CHECK_HAS(got.text, "<dt>Machine</dt><dd>not JSON at all</dd>");
    CHECK_INT(times(got.text, "<figcaption>Threads</figcaption>"), 2);
    CHECK(times(got.text, "<circle") > 4 * SAMPLES);
    save("lab-all", &got);
}

TEST(on_a_gpu)
{
    make_gpu(&lab);
    page_of(&lab);
    const result_entry *e = results_entry(&lab.r, 0, 0);
    REQUIRE(e);
    CHECK_CLOSE(e->gpu_image_j.median, e->image_s.median * (120 + 400 * 0.91), 1e-9);
    CHECK_HAS(got.text, "<caption>On the GPU: medians over the repeats</caption>");
    CHECK_HAS(got.text, "What is missing was not readable: NVML says of the power: Not Supported.");
    CHECK_HAS(got.text, "A GPU that waits for the host, pytorch (channels_last): alexnet: busy 34.00 % of the time");
    CHECK_HAS(got.text, "this TensorFlow is a CPU build");
    CHECK_INT(times(got.text, "<figcaption>GPU busy</figcaption>"), 2);
    CHECK_INT(times(got.text, "<figcaption>GPU power, W</figcaption>"), 2);
    CHECK_HAS(got.text, ">conv2d_cudnn<");
    CHECK_HAS(got.text, "not readable: JAX writes its profile");
    CHECK_HAS(got.text, "nchwToNhwcKernel&lt;float, float, float, f...");
    save("lab-gpu", &got);
    CHECK(lab_export_markdown(&report, keep, anew(&got)));
    CHECK_HAS(got.text,
              "| Cell | Framework | GPU memory | its own count | GPU busy | Power, W | J an epoch | J an image |");
    CHECK_HAS(got.text, "| alexnet | brasa | conv2d_cudnn | 50.00 % | 0.5000 | 20 |");
    CHECK(lab_export_json(&report, keep, anew(&got)));
    CHECK_HAS(got.text,
              "\"profile\":{\"why\":null,\"steps\":8,\"seconds\":0.008,\"functions\":[{\"name\":\"conv2d_cudnn\"");
    CHECK_HAS(got.text, "\"gpu_busy\":{\"median\":0.91");
    CHECK(lab_export_csv(&lab.r, keep, anew(&got)));
    CHECK_HAS(got.text, ",gpu_energy_j,gpu_epoch_j,gpu_image_j,gpu_why,finished\n");
}

TEST(charts_of_a_grid)
{
    make_grid(&lab);
    page_of(&lab);
    CHECK_INT(times(got.text, "<figcaption>letter_mlp on synth:letter,n=64</figcaption>"), 1);
    CHECK_INT(times(got.text, "<figcaption>letter_mlp on synth:letter,n=96</figcaption>"), 1);
    CHECK_INT(times(got.text, "pytorch</th><td role=\"cell\"><svg class=\"c1\""), 4); /* its colour in bars ... */
    CHECK_INT(times(got.text, "<path class=\"line c1\""), 2);                         /* ... and in lines */
    CHECK_HAS(got.text,
              "Looked for, and not found: time does not grow with the data; equal to all digits; swap in use;");
    CHECK_HAS(got.text,
              "could be seen: accuracy at chance level; accuracy far below another&#39;s; the same time on");
}

/* An account as the program writes it: objects in objects, lists, sizes, what there is not. */
TEST(the_machine_in_words)
{
    make_nothing(&lab);
    lab.r.machine =
        "{\"machine\":{\"versions\":{\"brasa\":\"0.1.0\"},\"cpu_features\":[\"avx\",\"fma\"],\"sizes\":[1,2],"
        "\"cores\":2,\"cgroup_cpus\":null,\"memory_bytes\":25276530688}}";
    lab.r.brasa = "{\"versions\":{\"brasa\":\"0.1.0\",\"compiler\":\"gcc 12.2.0\"}}";
    page_of(&lab);
    CHECK_INT(times(got.text, "<dt>brasa</dt><dd>0.1.0</dd>"), 1);
    CHECK_HAS(got.text, "<dt>cpu features</dt><dd>avx, fma</dd>");
    CHECK_HAS(got.text, "<dt>sizes</dt><dd>1, 2</dd>");
    CHECK_HAS(got.text, "<dt>cores</dt><dd>2</dd>");
    CHECK_HAS(got.text, "<dt>memory</dt><dd>25.28 GB</dd>");
    CHECK_HAS(got.text, "<dt>compiler</dt><dd>gcc 12.2.0</dd>");
    CHECK(!strstr(got.text, "cgroup cpus"));
}

/* When it was resumed stands there, and what had changed since it was begun. */
TEST(what_changed_when_it_was_resumed)
{
    make_nothing(&lab);
    lab.r.machine = "{\"machine\":{\"cpu\":\"a CPU\",\"memory_available_bytes\":1000000000}}";
    lab.r.brasa = "{\"versions\":{\"brasa\":\"0.1.0\",\"compiler\":\"gcc 12.2.0\"}}";
    result_resumed resumed[] = {
        {"2026-11-20T15:00:00Z", "{\"machine\":{\"cpu\":\"a CPU\",\"memory_available_bytes\":2000000000}}",
         lab.r.brasa},
        {"2026-11-20T16:00:00Z", lab.r.machine, "{\"versions\":{\"brasa\":\"0.2.0\",\"compiler\":\"gcc 13.1.0\"}}"},
        {"2026-11-20T17:00:00Z", "", "no JSON"},
    };
    lab.r.resumed = resumed;
    lab.r.resumed_count = 3;
    page_of(&lab);
    CHECK_HAS(got.text, "<dt>Resumed</dt><dd>2026-11-20T15:00:00Z, with all as before</dd>");
    CHECK_HAS(got.text, "<dd>2026-11-20T16:00:00Z, with brasa 0.2.0, with compiler gcc 13.1.0</dd>");
    CHECK_HAS(got.text,
              "<dd>2026-11-20T17:00:00Z, with Brasa no JSON, without cpu, without brasa, without compiler</dd>");
    CHECK(lab_export_json(&report, keep, anew(&got)));
    CHECK_HAS(got.text, "\"resumed\":[{\"at\":\"2026-11-20T15:00:00Z\",\"machine\":{\"machine\":{\"cpu\"");
    CHECK_HAS(got.text, "\"machine\":\"\",\"build\":\"no JSON\"}]");
}

/* However often it was resumed, what was measured stays in the report. */
TEST(resumed_again_and_again)
{
    enum { MANY = 250 };
    static char dates[MANY][32];
    result_resumed resumed[MANY];
    make_nothing(&lab);
    for (int i = 0; i < MANY; i++) {
        snprintf(dates[i], sizeof dates[i], "day %d", i);
        resumed[i] = (result_resumed){dates[i], lab.r.machine, lab.r.brasa};
    }
    lab.r.resumed = resumed;
    lab.r.resumed_count = MANY;
    page_of(&lab);
    CHECK_HAS(got.text, "<dt>Cost of watching</dt>");
    CHECK_HAS(got.text, "<dt>Resumed before</dt><dd>245 times</dd>");
    CHECK_HAS(got.text, "day 249, with all as before");
    CHECK_HAS(got.text, "day 245,");
    CHECK(!strstr(got.text, "day 244,"));
}

/* Rows of two versions do not pass for one. */
TEST(two_versions_of_a_framework)
{
    campaign_begin(&lab, "versions");
    add_cell(&lab, "alexnet", "synth:fire,n=100", 100, 1);
    for (int repeat = 1; repeat <= 3; repeat++)
        add_row(&lab, "mxnet", "", repeat, 0.1)->version = repeat == 2 ? "1.8.0" : "1.9.1";
    page_of(&lab);
    CHECK_HAS(got.text, "1.8.0");
    CHECK_HAS(got.text, "1.9.1");
    CHECK_HAS(got.text, "mxnet had 2 versions in this campaign: its rows do not compare with each other.");
}

/* RAPL's joules, for all epochs together, are told for one and for an image. */
TEST(energy_of_the_processors)
{
    campaign_begin(&lab, "energy");
    add_cell(&lab, "alexnet", "synth:fire,n=100", 100, 1);
    for (int repeat = 1; repeat <= 3; repeat++) {
        static const double seconds[] = {2, 2.1};
        result_row *row = add_row(&lab, "brasa", "", repeat, 0.02);
        row->epochs = pool_get(&lab.pool, 2, sizeof *row->epochs);
        REQUIRE(row->epochs);
        row->epoch_count = 2;
        for (int i = 0; i < 2; i++)
            row->epochs[i] = (result_epoch){.epoch = i + 1, .seconds = seconds[i], .images = 100};
        row->energy_j = 300;
        row->energy_why = NULL;
    }
    page_of(&lab);
    CHECK_CLOSE(lab.r.entries[0].epoch_j.median, 150, 1e-9);
    CHECK_CLOSE(lab.r.entries[0].image_j.median, 1.5, 1e-9);
    CHECK_HAS(got.text, "<td>300</td><td>150</td><td>1.500</td>");
    CHECK(lab_export_csv(&lab.r, keep, anew(&got)));
    CHECK_HAS(got.text, ",energy_j,epoch_j,image_j,energy_why,");
    CHECK_HAS(got.text, ",300,150,1.5,,");
    drop(&got);
    for (int i = 0; i < lab.r.row_count; i++)
        lab.r.rows[i].epochs[0].seconds = lab.r.rows[i].epochs[1].seconds = 0.1; /* two looks: too rough */
    page_of(&lab);
    CHECK(isnan(lab.r.entries[0].epoch_j.median));
    CHECK_HAS(got.text, "too rough to be shared out");
}

TEST(absent)
{
    campaign_begin(&lab, "absent");
    add_cell(&lab, "alexnet", "synth:fire,n=8", 8, 1);
    add_rows(&lab, "brasa", "", 0.04, 0.02);
    fail_row(add_row(&lab, "singa", "", 1, 0), "absent", "not installed", NULL);
    page_of(&lab);
    CHECK_HAS(got.text, ">3 of 3<");
    CHECK_HAS(got.text, "not installed");
}

TEST(nothing)
{
    make_nothing(&lab);
    page_of(&lab);
    CHECK_HAS(got.text, "Nobody got through");
    CHECK(!strstr(got.text, "nan") && !strstr(got.text, "<svg"));
    save("lab-nothing", &got);
}

/* --- the same for other programs ----------------------------------------------------------------------------- */

TEST(csv)
{
    make_study1(&lab);
    summarize(&lab);
    CHECK(lab_export_csv(&lab.r, keep, &got));
    CHECK_INT(times(got.text, "\n"), 1 + lab.r.row_count);
    CHECK_HAS(got.text, "experiment,network,data,images,batch,");
    CHECK_HAS(got.text, ",finished\n");
    CHECK_INT(times(got.text, ",yes\n"), lab.r.row_count);
    CHECK_HAS(got.text, "main,alexnet,\"synth:fire,n=48\",48,1,2,");
    CHECK_HAS(got.text, ",eval_s,");
    CHECK_HAS(got.text, ",children,ctx_switches,faults,read_bytes,energy_j,epoch_j,image_j,energy_why,");
    CHECK_HAS(got.text, ",0,4211,61034,12000000,,");
    CHECK(!strstr(got.text, "nan"));
    drop(&got);
    lab.r.rows[0].reason = "a \"b\",\nc";
    lab.r.finished = false;
    CHECK(lab_export_csv(&lab.r, keep, &got));
    CHECK_INT(times(got.text, ",no\n"), lab.r.row_count);
    CHECK_HAS(got.text, ",\"a \"\"b\"\",\nc\",");
}

TEST(json_and_markdown)
{
    make_study1(&lab);
    report_of(&lab);
    CHECK(lab_export_json(&report, keep, &got));
    CHECK_HAS(got.text, "\"name\":\"study1-cpu\"");
    CHECK_HAS(got.text, "\"study\":\"study1\"");
    CHECK_HAS(got.text, "brasa is fastest in 8 of 8 cells");
    CHECK_INT(times(got.text, "\"epochs\":["), lab.r.row_count);
    CHECK_HAS(got.text, "\"machine\":{\"processor\": \"a CPU with 2 cores\"");
    CHECK_HAS(got.text, "\"build\":{\"version\": \"0.1.0\"");
    CHECK_HAS(got.text, "\"ctx_switches\":{\"median\":4211,");
    CHECK_HAS(got.text, "\"faults\":61034,\"read_bytes\":12000000,");
    CHECK(lab_export_markdown(&report, keep, anew(&got)));
    CHECK_HAS(got.text, "# Made up\n\nstudy1-cpu, 2026-11-20 14:03:11. brasa is fastest");
    CHECK_HAS(got.text, "| Framework | alexnet | published | mobilenet_v2 |");
    CHECK_HAS(got.text, "| pytorch | ");
    CHECK_HAS(got.text, "| Cell | Framework | Context switches | Page faults | Read from disk | Swap |");
    CHECK_HAS(got.text, "| 4,211 | 61,034 | 12.00 MB |");
    CHECK(!strstr(got.text, "Not finished"));
    CHECK_HAS(got.text, "\n## Conditions\n\nAn epoch's time goes from");
    CHECK_HAS(got.text, "\n- processor: a CPU with 2 cores\n");
    CHECK_HAS(got.text, "\n- Busy before a run: 0.0");
    CHECK_HAS(got.text, "\n## The experiment\n\n    title      Made up\n    network    alexnet vgg16\n");
    drop(&got);

    make_all(&lab);
    report_of(&lab);
    CHECK(lab_export_markdown(&report, keep, &got));
    CHECK_HAS(got.text, "\\<script>alert(1)\\</script>");
    CHECK_HAS(got.text, "Not finished");
    CHECK_HAS(got.text, "\\|\"");
    CHECK(lab_export_json(&report, keep, anew(&got)));
    CHECK_HAS(got.text, "\"machine\":\"not JSON at all\"");
    CHECK_INT(times(got.text, "\"phase\":[\"import\",\"import\","), 4);
    CHECK_INT(times(got.text, "\"rss\":[80000000,"), 4);
}

/* At a price it also tells what it costs; without one nothing is said of that. */
TEST(costs)
{
    make_study1(&lab);
    report_of(&lab);
    CHECK(lab_export_markdown(&report, keep, &got) && lab_export_json(&report, keep, &got));
    CHECK(!strstr(got.text, "costs") && !strstr(got.text, "price"));
    drop(&got);
    lab.r.price_per_hour = 7.2; /* two thousandths a second */
    report_of(&lab);
    const result_entry *e = &lab.r.entries[0];
    CHECK_CLOSE(e->image_cost.median, 0.002 * e->image_s.median, 1e-12);
    CHECK_CLOSE(e->epoch_cost.high, 0.002 * e->epoch_s.high, 1e-12);
    CHECK(lab_export_markdown(&report, keep, &got));
    CHECK_HAS(got.text, "| Cell | Framework | An epoch | An image | A million images |");
    CHECK_HAS(got.text, "At 7.2 an hour");
    CHECK(lab_export_json(&report, keep, anew(&got)));
    CHECK_HAS(got.text, "\"price_per_hour\":7.2");
    CHECK_HAS(got.text, "\"image_cost\":{\"median\":");
    CHECK(lab_export_csv(&lab.r, keep, anew(&got)));
    CHECK_HAS(got.text, ",epoch_cost,image_cost,");
    page_of(&lab);
    CHECK_HAS(got.text, "A million images");
}

/* --- what may fail ------------------------------------------------------------------------------------------- */

TEST(a_sink_that_fails)
{
    make_study1(&lab);
    page_of(&lab);
    for (int call = 1; call <= got.calls; call += 97) {
        kept k = {.fail_at = call};
        CHECK_STATUS(lab_page_write(&lab.pool, &report, keep, &k), BRASA_BAD_FILE);
        CHECK_INT(k.calls, call); /* the rest is dropped */
        drop(&k);
    }
    kept k = {.fail_at = 3};
    CHECK(!lab_export_csv(&lab.r, keep, &k));
    drop(&k);
}

/* Every allocation may fail: then it is told, and nothing is leaked. */
TEST(out_of_memory)
{
    make_study1(&lab);
    int failures = 0;
    for (int call = 1;; call += 1 + call / 20) { /* where pieces are allocations of their own there are many */
        heap memory = {0};
        brasa_context *ctx;
        kept k = {0};
        const brasa_context_options o = {
            .size = sizeof o, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &memory};
        REQUIRE(brasa_context_new(&o, &ctx) == BRASA_OK);
        memory.calls = 0;
        memory.fail_at = call;
        pool p = {.ctx = ctx};
        lab_results r = lab.r;
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
}
