/* test_lab_alarms.c - what the lab finds by itself: the faults of the published studies, and each fault alone in a
 * campaign that is otherwise in order. */
#include "test.h"
#include "lab_campaign.h"

#include "lab/alarms.h"
#include "lab/reference.h"

AROUND_EACH(NULL, campaign_end)

/* --- campaigns ----------------------------------------------------------------------------------------------- */

static const char *const networks[] = {"alexnet", "mobilenet_v2", "resnet50", "vgg16"};
static const double work[] = {0.040, 0.015, 0.110, 0.300}; /* seconds an image */

/* Four networks, two sizes of data, three peers, three repeats, and nothing wrong. */
static void begin_orderly(void)
{
    campaign_begin(&lab, "orderly");
    for (int i = 0; i < 4; i++) {
        add_cell(&lab, networks[i], "synth:fire,n=791", 791, 1);
        add_rows(&lab, "brasa", "", work[i], 0.02);
        add_rows(&lab, "pytorch", "", 1.7 * work[i], 0.04);
        add_rows(&lab, "tensorflow", "", 2.9 * work[i], 0.05);
        add_cell(&lab, networks[i], "synth:fire,n=6003", 6003, 1);
        add_rows(&lab, "brasa", "", 0.98 * work[i], 0.02);
        add_rows(&lab, "pytorch", "", 1.65 * work[i], 0.04);
        add_rows(&lab, "tensorflow", "", 2.8 * work[i], 0.05);
    }
}

static lab_alarms found; /* the latest */

static int count_alarms(void)
{
    summarize(&lab);
    CHECK_STATUS(alarms_find(&lab.pool, &lab.r, &found), BRASA_OK);
    return found.count;
}

/* The alarm of a kind about somebody, or NULL. */
static const lab_alarm *about(alarm_kind kind, const char *who)
{
    for (int i = 0; i < found.count; i++)
        if (found.list[i].kind == kind && strcmp(found.list[i].who, who) == 0)
            return &found.list[i];
    return NULL;
}

static void check_about(alarm_kind kind, const char *who, const char *part)
{
    const lab_alarm *one = about(kind, who);
    CHECK_HAS(one ? one->text : NULL, part);
}

/* The campaign has this alarm and no other. */
static void check_only(alarm_kind kind, const char *who, const char *part)
{
    CHECK_INT(count_alarms(), 1);
    for (int i = 0; i < found.count; i++)
        if (&found.list[i] != about(kind, who))
            printf("also: %s\n", found.list[i].text);
    check_about(kind, who, part);
}

TEST(an_orderly_campaign_has_none)
{
    begin_orderly();
    CHECK_INT(count_alarms(), 0);
    for (int i = 0; i < found.count; i++)
        printf("%s\n", found.list[i].text);
    for (int kind = 0; kind < ALARM_KINDS; kind++) {
        CASE("%s", alarm_title((alarm_kind)kind));
        CHECK_INT(found.looked[kind], kind != ALARM_CHANCE && kind != ALARM_ACCURACY && kind != ALARM_IDLE);
    }
}

/* One network, one size, on the CPU, beside nothing published: most kinds have nothing to look at. */
TEST(what_cannot_be_looked_for)
{
    campaign_begin(&lab, "little");
    add_cell(&lab, "letter_mlp", "synth:letter,n=64", 64, 8);
    add_rows(&lab, "brasa", "", 0.001, 0.02);
    add_rows(&lab, "pytorch", "", 0.002, 0.02);
    CHECK_INT(count_alarms(), 0);
    CHECK(!found.looked[ALARM_GROWTH] && !found.looked[ALARM_WAITS] && !found.looked[ALARM_IDLE]);
    CHECK(!found.looked[ALARM_OUT_OF_LINE] && !found.looked[ALARM_PUBLISHED] && !found.looked[ALARM_CHANCE]);
    CHECK(found.looked[ALARM_EQUAL] && found.looked[ALARM_SPREAD] && found.looked[ALARM_SWAP]);
    CHECK(found.looked[ALARM_LOAD] && found.looked[ALARM_CALIBRATION] && found.looked[ALARM_MONITOR]);
}

/* --- one fault each ------------------------------------------------------------------------------------------ */

/* The rows of a peer in a cell. */
static result_row *row_of(campaign *c, int cell, const char *peer, int repeat)
{
    for (int i = 0; i < c->r.row_count; i++)
        if (c->r.rows[i].cell == cell && strcmp(c->r.rows[i].peer, peer) == 0 && c->r.rows[i].repeat == repeat)
            return &c->r.rows[i];
    return NULL;
}

static void slow_down(campaign *c, int cell, const char *peer, double factor)
{
    for (int repeat = 1; repeat <= 3; repeat++) {
        row_of(c, cell, peer, repeat)->image_s *= factor;
        row_of(c, cell, peer, repeat)->epoch_s *= factor;
    }
}

static void set_accuracy(campaign *c, int cell, const char *peer, double accuracy)
{
    for (int repeat = 1; repeat <= 3; repeat++)
        row_of(c, cell, peer, repeat)->accuracy = accuracy + 0.002 * (repeat - 2);
}

TEST(chance)
{
    begin_orderly();
    set_accuracy(&lab, 0, "pytorch", 0.338);
    check_only(ALARM_CHANCE, "pytorch", "alexnet on synth:fire,n=791: 33.80 %, guessing gives 33.33 %");
}

TEST(chance_of_all)
{
    begin_orderly();
    set_accuracy(&lab, 0, "pytorch", 0.338);
    set_accuracy(&lab, 0, "brasa", 0.331);
    check_only(ALARM_CHANCE, "", "alexnet on synth:fire,n=791: 33.10 % to 33.80 % of all 2, guessing gives 33.33 %");
}

TEST(chance_on_few_images)
{
    begin_orderly();
    set_accuracy(&lab, 0, "pytorch", 0.42); /* of 50 images: guessing reaches 0.47 once in forty times */
    lab.r.cells[0].test_images = 50;
    check_only(ALARM_CHANCE, "pytorch", "42.00 %");
    lab.r.cells[0].test_images = 5000;
    CHECK_INT(count_alarms(), 0);
}

/* Who always gives the same answer is right as often as its class comes up. */
TEST(chance_of_unbalanced_classes)
{
    begin_orderly();
    set_accuracy(&lab, 0, "pytorch", 0.93);
    set_accuracy(&lab, 0, "brasa", 0.99);
    lab.r.cells[0].most_frequent = 0.93;
    check_only(ALARM_CHANCE, "pytorch",
               "alexnet on synth:fire,n=791: 93.00 %, always the commonest class gives 93.00 %");
    lab.r.cells[0].test_images = 30; /* chance reaches all of them, too */
    check_only(ALARM_CHANCE, "pytorch", "93.00 %");
    lab.r.cells[0].test_images = 0;
    lab.r.cells[0].most_frequent = 0;
    CHECK_INT(count_alarms(), 0);
}

TEST(accuracies_apart)
{
    begin_orderly();
    set_accuracy(&lab, 0, "brasa", 0.99);
    set_accuracy(&lab, 0, "pytorch", 0.98);
    set_accuracy(&lab, 0, "tensorflow", 0.82);
    check_only(ALARM_ACCURACY, "tensorflow", "82.00 %, brasa has 99.00 %");
}

/* One run each has no spread that could touch another's: 70 against 83 of 100 may be the luck of the draw. */
TEST(accuracies_of_one_run_each)
{
    campaign_begin(&lab, "one run");
    add_cell(&lab, "alexnet", "synth:fire,n=791", 791, 1);
    add_row(&lab, "brasa", "", 1, 0.04)->accuracy = 0.83;
    add_row(&lab, "pytorch", "", 1, 0.05)->accuracy = 0.70;
    count_alarms();
    CHECK(!about(ALARM_ACCURACY, "pytorch"));
}

TEST(growth)
{
    begin_orderly();
    slow_down(&lab, 1, "pytorch", 0.4);
    check_only(ALARM_GROWTH, "pytorch", "7.6 times 791 images take 2.9 times as long");
}

TEST(equal_numbers)
{
    begin_orderly();
    row_of(&lab, 5, "brasa", 2)->epoch_s = row_of(&lab, 3, "pytorch", 1)->epoch_s;
    check_only(ALARM_EQUAL, "brasa", "resnet50 on synth:fire,n=6003");

    begin_orderly();
    row_of(&lab, 0, "brasa", 1)->accuracy = row_of(&lab, 0, "pytorch", 1)->accuracy = 0.75; /* 3 of 4: may well be */
    CHECK_INT(count_alarms(), 0);
    row_of(&lab, 0, "brasa", 1)->loss = row_of(&lab, 0, "pytorch", 1)->loss; /* but not with the loss */
    check_only(ALARM_EQUAL, "pytorch", "accuracy 75.00 %");

    begin_orderly(); /* every repeat is a copy: one place, not three */
    for (int repeat = 1; repeat <= 3; repeat++)
        row_of(&lab, 5, "brasa", repeat)->epoch_s = row_of(&lab, 3, "pytorch", repeat)->epoch_s;
    check_only(ALARM_EQUAL, "brasa", "resnet50 on synth:fire,n=6003");
    CHECK(found.count && !strchr(found.list[0].text, ';'));
}

TEST(a_device_that_waits)
{
    campaign_begin(&lab, "waits");
    for (int i = 0; i < 4; i++) {
        add_cell(&lab, networks[i], "synth:fire,n=791", 791, 1)->what.device = "cuda";
        add_rows(&lab, "brasa", "", work[i] / 20, 0.02);
        add_rows(&lab, "tensorflow", "", 0.43 + 0.005 * i, 0.02);
    }
    check_only(ALARM_WAITS, "tensorflow", "on 4 networks, cuda");

    campaign_begin(&lab, "one network in three blocks");
    for (int i = 0; i < 3; i++) {
        static const char *const blocks[] = {"a", "b", "c"};
        add_cell(&lab, "alexnet", "synth:fire,n=791", 791, 1)->what.experiment = blocks[i];
        add_rows(&lab, "brasa", "", 0.04 + 0.001 * i, 0.02);
    }
    CHECK_INT(count_alarms(), 0);
}

TEST(a_gpu_that_waits_for_the_host)
{
    campaign_begin(&lab, "idle");
    for (int i = 0; i < 2; i++) {
        add_cell(&lab, networks[i], "synth:fire,n=791", 791, 1)->what.device = i ? "cpu" : "cuda";
        add_rows(&lab, "brasa", "", work[i], 0.02);
        add_rows(&lab, "pytorch", "", 2 * work[i], 0.02);
        for (int k = 0; k < 6; k++) /* what a run on the processor says of a GPU is not asked */
            lab.r.rows[6 * i + k].gpu_busy = k < 3 ? 0.93 : 0.24;
    }
    check_only(ALARM_IDLE, "pytorch", "alexnet, cuda: busy 24.00 % of the time");
}

TEST(out_of_line)
{
    begin_orderly();
    slow_down(&lab, 6, "tensorflow", 24);
    slow_down(&lab, 7, "tensorflow", 24);
    count_alarms();
    check_about(ALARM_OUT_OF_LINE, "tensorflow", "vgg16 on synth:fire,n=6003");
    CHECK(about(ALARM_OUT_OF_LINE, "brasa") == NULL);
}

TEST(far_off_the_published)
{
    campaign_begin(&lab, "published");
    static const double published[] = {139, 221, 480, 630}; /* study 1, table 1, PyTorch on 791 photos */
    for (int i = 0; i < 4; i++) {
        add_cell(&lab, networks[i], "synth:fire,n=791", 791, 1);
        add_rows(&lab, "pytorch", "", published[i] / 791 * (i == 2 ? 30 : 3), 0.02);
    }
    check_only(ALARM_PUBLISHED, "pytorch", "resnet50");
    check_about(ALARM_PUBLISHED, "pytorch", "10.0 times more than the 3 times");
}

TEST(conditions)
{
    static const struct {
        alarm_kind kind;
        size_t offset;
        double value;
        const char *who, *part;
    } faults[] = {
        {ALARM_SWAP, offsetof(result_row, peak_swap), 5e8, "brasa", "500.0 MB"},
        {ALARM_LOAD, offsetof(result_row, load_before), 0.9, "",
         "1 of 24 times; the most, 0.90 cores, before brasa, mobilenet_v2 on synth:fire,n=791"},
        {ALARM_MONITOR, offsetof(result_row, monitor_share), 0.03, "brasa", "3.00 % of a core"},
        {ALARM_CALIBRATION, offsetof(result_row, fma_gflops), 80, "", "80.0 to"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        CASE("%s", alarm_title(faults[i].kind));
        begin_orderly();
        *(double *)(void *)((char *)row_of(&lab, 2, "brasa", 3) + faults[i].offset) = faults[i].value;
        check_only(faults[i].kind, faults[i].who, faults[i].part);
    }
}

/* Of a run that was stopped for its memory watching may cost more: it has no times. */
TEST(watching_who_has_no_times)
{
    begin_orderly();
    add_cell(&lab, "alexnet", "synth:fire,n=791", 791, 8);
    result_row *row = add_row(&lab, "brasa", "", 1, NAN);
    row->status = "memory";
    row->reason = "over the limit";
    row->monitor_share = 0.03;
    CHECK_INT(count_alarms(), 0);
}

TEST(spread)
{
    begin_orderly();
    row_of(&lab, 4, "tensorflow", 3)->image_s *= 1.3;
    CHECK_INT(count_alarms(), 0); /* it is the last one all the same */
    row_of(&lab, 4, "pytorch", 3)->image_s *= 1.3;
    row_of(&lab, 4, "tensorflow", 2)->image_s *= 0.7;
    CHECK_INT(count_alarms(), 2);
    check_about(ALARM_SPREAD, "pytorch", "resnet50 on synth:fire,n=791");
    check_about(ALARM_SPREAD, "tensorflow", "resnet50 on synth:fire,n=791");

    begin_orderly();
    add_cell(&lab, "alexnet", "synth:fire,n=791", 791, 8);
    add_row(&lab, "brasa", "", 1, 0.02);
    check_only(ALARM_FEW, "", "Too few repeats to rank: 1 of 25 times are of fewer than 3 repeats");
}

/* On a busy machine one warning, however many were there. */
TEST(busy_for_everybody)
{
    begin_orderly();
    for (int i = 0; i < lab.r.row_count; i++)
        lab.r.rows[i].load_before = 0.5;
    row_of(&lab, 3, "pytorch", 2)->load_before = 1.25;
    check_only(ALARM_LOAD, "", "24 of 24 times; the most, 1.25 cores, before pytorch");
}

TEST(failed_rows_raise_nothing)
{
    begin_orderly();
    for (int i = 0; i < lab.r.row_count; i++)
        fail_row(&lab.r.rows[i], "failed", "no such file", NULL);
    CHECK_INT(count_alarms(), 0);
}

/* --- the studies --------------------------------------------------------------------------------------------- */

static void find_in_study(const char *study)
{
    campaign_begin(&lab, study);
    CHECK_STATUS(reference_results(&lab.pool, study, &lab.r), BRASA_OK);
    CHECK_STATUS(alarms_find(&lab.pool, &lab.r, &found), BRASA_OK);
}

TEST(study_1)
{
    find_in_study("study1");
    CASE("times that do not grow");
    check_about(ALARM_GROWTH, "paddle", "alexnet on fire,n=6003, cpu: 7.6 times 791 images take 2.6 times");
    check_about(ALARM_GROWTH, "paddle", "vgg16 on fire,n=6003, cpu: 7.6 times 791 images take 2.3 times");
    check_about(ALARM_GROWTH, "pytorch", "vgg16 on fire,n=6003, cpu: 7.6 times 791 images take 14.3 times");
    CHECK(!about(ALARM_GROWTH, "mxnet") && !about(ALARM_GROWTH, "tensorflow"));
    CASE("GPUs that wait");
    check_about(ALARM_WAITS, "paddle", "on 4 networks, gpu");
    check_about(ALARM_WAITS, "tensorflow", "on 4 networks, gpu");
    check_about(ALARM_WAITS, "singa", "on 4 networks, gpu");
    CHECK(!about(ALARM_WAITS, "pytorch") && !about(ALARM_WAITS, "mxnet"));
    CASE("no more than that");
    CHECK_INT(found.count, 5);
}

TEST(study_3)
{
    find_in_study("study3");
    CASE("chance");
    check_about(ALARM_CHANCE, "tensorflow", "letter_mlp on letter, cpu, 70/30: 3.20 %");
    check_about(ALARM_CHANCE, "tensorflow", "letter_mlp on letter, gpu, 70/30: 3.90 %");
    check_about(ALARM_CHANCE, "theano", "letter_mlp on letter, cpu, 70/30: 3.68 %");
    check_about(ALARM_CHANCE, "theano", "letter_mlp on letter, gpu, 70/30: 3.28 %");
    CHECK(!about(ALARM_CHANCE, "pytorch"));
    CASE("copies");
    check_about(ALARM_EQUAL, "tensorflow", "1551.61 s");
    check_about(ALARM_EQUAL, "theano", "62.60 %");
    check_about(ALARM_EQUAL, "theano", "36.43 %");
    CHECK(!about(ALARM_EQUAL, "pytorch"));
    CASE("out of line");
    check_about(ALARM_OUT_OF_LINE, "theano", "cifar100_cnn on cifar100, cpu, 10 folds");
    CHECK(!about(ALARM_OUT_OF_LINE, "tensorflow") && !about(ALARM_OUT_OF_LINE, "pytorch"));
    CASE("MNIST at 82 %%");
    check_about(ALARM_ACCURACY, "tensorflow", "mnist_cnn on mnist, cpu, 10 folds: 82.56 %");
}

/* What the digest of the studies says that each table holds. */
TEST(published_numbers_are_all_there)
{
    int times1 = 0, times3 = 0, accuracies = 0, noted = 0;
    double sum1 = 0;
    for (int i = 0; reference_at(i); i++) {
        const reference_row *r = reference_at(i);
        const bool first = strcmp(r->study, "study1") == 0;
        if (!isfinite(r->value))
            continue;
        times1 += first;
        sum1 += first ? r->value : 0;
        times3 += !first && r->what == REFERENCE_TIME;
        accuracies += r->what == REFERENCE_ACCURACY;
        noted += reference_note(r) != NULL;
    }
    CHECK_INT(times1, 72);
    CHECK_INT(times3, 48);
    CHECK_INT(accuracies, 48);
    CHECK_CLOSE(sum1, 140445, 0.5);
    CHECK(noted > 20);
}

TEST(published_beside_a_cell)
{
    campaign_begin(&lab, "beside");
    add_cell(&lab, "vgg16", "synth:fire,n=48", 48, 1);
    const reference_row *r = reference_find(&lab.r.cells[0], "pytorch", REFERENCE_TIME);
    CHECK(r && r->images == 791 && r->value == 630);
    CHECK_CLOSE(reference_value(r), 630.0 / 791, 1e-12);
    CHECK(!reference_find(&lab.r.cells[0], "brasa", REFERENCE_TIME));
    lab.r.cells[0].what.batch = 8;
    CHECK(!reference_find(&lab.r.cells[0], "pytorch", REFERENCE_TIME));
    result_cell *letter = add_cell(&lab, "letter_mlp", "synth:letter", 900, 128);
    letter->what.folds = 10;
    r = reference_find(letter, "aesara", REFERENCE_ACCURACY);
    CHECK(r && r->value == 67.60);
    r = reference_find(letter, "aesara", REFERENCE_TIME);
    CHECK(r && fabs(reference_value(r) - 1071.60 / (18000.0 * 300 * 10)) < 1e-12);
}
