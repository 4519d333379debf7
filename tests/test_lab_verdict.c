/* test_lab_verdict.c - medians and spreads over repeats, and what the lab makes of them in words. */
#include "test.h"
#include "lab_campaign.h"

#include "lab/verdict.h"

AROUND_EACH(NULL, campaign_end)

static lab_verdict verdict_of(campaign *c)
{
    lab_verdict v = {0};
    summarize(c);
    CHECK_STATUS(verdict_find(&c->pool, &c->r, &v), BRASA_OK);
    return v;
}

/* The line that begins so, or "". */
static const char *line(const lab_verdict *v, const char *begin)
{
    for (int i = 0; i < v->count; i++)
        if (strncmp(v->lines[i], begin, strlen(begin)) == 0)
            return v->lines[i];
    return "";
}

/* --- medians and spreads ------------------------------------------------------------------------------------- */

TEST(spreads)
{
    double values[] = {3, NAN, 1, 2, INFINITY};
    result_spread s = spread_of(values, 5);
    CHECK(s.median == 2 && s.low == 1 && s.high == 3 && s.count == 3);
    s = spread_of((double[]){4, 1}, 2);
    CHECK(s.median == 2.5 && s.low == 1 && s.high == 4 && s.count == 2);
    s = spread_of((double[]){NAN}, 1);
    CHECK(isnan(s.median) && s.count == 0);
}

TEST(entries)
{
    campaign_begin(&lab, "entries");
    add_cell(&lab, "alexnet", "synth:fire,n=791", 791, 1);
    add_row(&lab, "pytorch", "compile", 1, 0.3);
    add_row(&lab, "pytorch", "", 1, 0.12);
    add_row(&lab, "pytorch", "", 2, 0.10);
    fail_row(add_row(&lab, "pytorch", "", 3, 0), "timeout", "600 s were not enough", NULL);
    add_row(&lab, "brasa", "", 1, 0.05);
    summarize(&lab);
    CHECK_INT(lab.r.name_count, 3);
    CHECK_TEXT(lab.r.names[0], "brasa");
    CHECK_TEXT(lab.r.names[1], "pytorch");
    CHECK_TEXT(lab.r.names[2], "pytorch (compile)");
    const result_entry *e = results_entry(&lab.r, 0, 1);
    CHECK(e && e->done == 2 && e->rows == 3 && strcmp(e->status, "done") == 0);
    CHECK_CLOSE(e->image_s.median, 0.11, 1e-12);
    CHECK(!results_entry(&lab.r, 1, 0));
    CHECK_TEXT(lab.r.cells[0].title, "alexnet");
}

TEST(titles_name_what_differs)
{
    campaign_begin(&lab, "titles");
    add_cell(&lab, "alexnet", "synth:fire,n=791", 791, 1);
    add_cell(&lab, "alexnet", "synth:fire,n=791", 791, 8)->what.threads = 1;
    result_cell *folds = add_cell(&lab, "letter_mlp", "synth:letter", 100, 8);
    folds->what.split = NULL;
    folds->what.folds = 10;
    summarize(&lab);
    CHECK_TEXT(lab.r.cells[0].title, "alexnet on synth:fire,n=791, batch 1, 2 threads");
    CHECK_TEXT(lab.r.cells[1].title, "alexnet on synth:fire,n=791, batch 8, 1 thread");
    CHECK_TEXT(lab.r.cells[2].title, "letter_mlp on synth:letter, batch 8, 2 threads, 10 folds");
}

/* Two sets and two batches, and again with less memory: no sentence or chart may speak of two of them as one. */
TEST(cells_of_a_grid_are_told_apart)
{
    campaign_begin(&lab, "grid");
    for (int tight = 0; tight < 2; tight++)
        for (int set = 0; set < 2; set++)
            for (int64_t batch = 8; batch <= 16; batch *= 2) {
                result_cell *cell =
                    add_cell(&lab, "letter_mlp", set ? "synth:letter,n=96" : "synth:letter,n=64", 64, batch);
                cell->what.mem = tight ? 300000000 : 0;
                cell->what.experiment = tight ? "tight" : "roomy";
                if (tight && set && batch == 16)
                    fail_row(add_row(&lab, "brasa", "", 1, 0), "memory", "beyond 300 MB", NULL);
                else
                    add_rows(&lab, "brasa", "", 0.1, 0.02);
            }
    const lab_verdict v = verdict_of(&lab);
    const char **batches = cells_titles(&lab.pool, &lab.r, DIFFERENT_BATCH);
    const char **sizes = cells_titles(&lab.pool, &lab.r, DIFFERENT_SIZE);
    REQUIRE(batches && sizes);
    for (int i = 0; i < lab.r.cell_count; i++)
        for (int k = 0; k < i; k++) {
            const result_cell *a = &lab.r.cells[i], *b = &lab.r.cells[k];
            CHECK(strcmp(a->title, b->title) != 0);
            CHECK_INT(strcmp(batches[i], batches[k]) == 0, cells_alike(a, b, DIFFERENT_BATCH));
            CHECK_INT(strcmp(sizes[i], sizes[k]) == 0, cells_alike(a, b, DIFFERENT_SIZE));
        }
    CHECK_TEXT(lab.r.cells[7].title, "letter_mlp on synth:letter,n=96, batch 16, within 300.0 MB");
    CHECK_TEXT(batches[0], "letter_mlp on synth:letter,n=64, with any memory");
    CHECK_TEXT(sizes[5], "letter_mlp, batch 16, within 300.0 MB");
    CHECK_TEXT(
        line(&v, "Largest batch of letter_mlp on synth:letter,n=96 (tight)"),
        "Largest batch of letter_mlp on synth:letter,n=96 (tight) that ran within 300.0 MB: brasa 8 (16: out of "
        "memory).");
    CHECK_TEXT(line(&v, "Largest batch of letter_mlp on synth:letter,n=96 (roomy)"),
               "Largest batch of letter_mlp on synth:letter,n=96 (roomy) that ran: brasa 16.");
}

/* Blocks that differ in nothing that a cell has a column for. */
TEST(blocks_are_told_apart)
{
    campaign_begin(&lab, "blocks");
    add_cell(&lab, "alexnet", "synth:fire,n=791", 791, 1)->what.experiment = "plain";
    add_cell(&lab, "alexnet", "synth:fire,n=791", 791, 1)->what.experiment = "cropped";
    summarize(&lab);
    CHECK_TEXT(lab.r.cells[0].title, "alexnet (plain)");
    CHECK_TEXT(lab.r.cells[1].title, "alexnet (cropped)");
    CHECK(!cells_alike(&lab.r.cells[0], &lab.r.cells[1], DIFFERENT_BATCH));
    CHECK(cells_alike(&lab.r.cells[0], &lab.r.cells[1], DIFFERENT_NETWORK));
}

/* --- how sure ------------------------------------------------------------------------------------------------ */

TEST(surety)
{
    const result_spread a = {1, 0.9, 1.1, 3}, apart = {2, 1.9, 2.1, 3}, touches = {1.2, 1.1, 1.3, 3};
    const result_spread near = {1.3, 1.2, 1.5, 3}, five = {1, 0.9, 1.1, 5}, others = {1.3, 1.2, 1.5, 5};
    const result_spread two = {2, 1.9, 2.1, 2}, one = {2, 2, 2, 1};
    CHECK(verdict_compare(&a, &apart) == SURE);
    CHECK(verdict_compare(&a, &near) == LIKELY); /* once in ten times by chance */
    CHECK(verdict_compare(&five, &others) == SURE);
    CHECK(verdict_compare(&a, &touches) == OPEN);
    CHECK(verdict_compare(&a, &two) == LIKELY);
    CHECK(verdict_compare(&a, &one) == UNKNOWN);
}

TEST(one_is_first_everywhere)
{
    campaign_begin(&lab, "first");
    add_cell(&lab, "alexnet", "synth:fire", 791, 1);
    add_rows(&lab, "pytorch", "", 0.139, 0.04);
    add_rows(&lab, "brasa", "", 0.038, 0.02);
    add_cell(&lab, "vgg16", "synth:fire", 791, 1);
    add_rows(&lab, "pytorch", "", 0.63, 0.04);
    add_rows(&lab, "brasa", "", 0.30, 0.02);
    add_rows(&lab, "tensorflow", "", 1.2, 0.02);
    const lab_verdict v = verdict_of(&lab);
    CHECK_TEXT(v.headline,
               "brasa is fastest in 2 of 2 cells, 2.1 to 3.7 times as fast as the next (surely: the spreads "
               "lie well apart).");
    CHECK_INT(v.rank_count, 2);
    CHECK_HAS(v.ranks[0].text, "alexnet: brasa is fastest with 38.0");
    CHECK_HAS(v.ranks[1].text, "tensorflow takes 4.0 times as long");
    CHECK_HAS(line(&v, "pytorch is behind"), "in 2 of 2 cells: it takes at most 3.7 times as long");
    CHECK_TEXT(line(&v, "brasa is behind"), "");
}

/* Brasa is a peer like the others, also when it loses. */
TEST(brasa_loses)
{
    campaign_begin(&lab, "loses");
    add_cell(&lab, "alexnet", "synth:fire", 791, 1);
    add_rows(&lab, "brasa", "", 0.2, 0.02);
    add_rows(&lab, "pytorch", "", 0.1, 0.02);
    add_cell(&lab, "vgg16", "synth:fire", 791, 1);
    add_rows(&lab, "brasa", "", 0.400, 0.1);
    add_rows(&lab, "pytorch", "", 0.401, 0.1);
    const lab_verdict v = verdict_of(&lab);
    CHECK_HAS(v.headline, "brasa is fastest in 1 of 2 cells, 1.00 times as fast as the next (not surely)");
    CHECK_HAS(v.headline, "pytorch is fastest in 1 of 2 cells, 2.0 times as fast as the next (surely");
    CHECK(v.ranks[1].surety == OPEN);
    CHECK_HAS(line(&v, "brasa is behind"),
              "in 1 of 2 cells: it takes at most 2.0 times as long as the fastest (alexnet)");
}

TEST(who_fits)
{
    campaign_begin(&lab, "fits");
    for (int64_t batch = 64; batch <= 256; batch *= 2) {
        add_cell(&lab, "googlenet", "synth:fire", 791, batch)->what.mem = 11000000000;
        add_rows(&lab, "brasa", "", 0.1, 0.02);
        if (batch < 128)
            add_rows(&lab, "caffe", "", 0.3, 0.02);
        else
            fail_row(add_row(&lab, "caffe", "", 1, 0), "memory", "killed beyond 11 GB", NULL);
        fail_row(add_row(&lab, "mxnet", "", 1, 0), "crashed", "no answer", NULL);
        fail_row(add_row(&lab, "paddle", "", 1, 0), "refused", "not installed (brasa lab install paddle)", NULL);
    }
    const lab_verdict v = verdict_of(&lab);
    CHECK_TEXT(line(&v, "Largest batch"), "Largest batch of googlenet that ran within 11.00 GB: brasa 256; caffe 64 "
                                          "(128: out of memory); mxnet none (64: no answer).");
}

TEST(who_is_missing)
{
    campaign_begin(&lab, "missing");
    add_cell(&lab, "alexnet", "synth:fire", 791, 1);
    fail_row(add_row(&lab, "mxnet", "", 1, 0), "refused", "no such layer", NULL);
    fail_row(add_row(&lab, "paddle", "", 1, 0), "refused", "not installed (brasa lab install paddle)", NULL);
    fail_row(add_row(&lab, "tensorflow", "", 1, 0), "refused", "not installed (brasa lab install tensorflow)", NULL);
    fail_row(add_row(&lab, "jax", "", 1, 0), "different", "conv1: rms 0.31, expected 0.29", NULL);
    lab_verdict v = verdict_of(&lab);
    CHECK_TEXT(v.headline, "Nobody got through: there is nothing to rank.");
    CHECK_TEXT(line(&v, "mxnet"), "mxnet took no part: no such layer.");
    CHECK_TEXT(line(&v, "Not installed"), "Not installed here: paddle, tensorflow (`brasa lab install NAME`).");
    CHECK_TEXT(
        line(&v, "jax"),
        "jax has no result in 1 of 1 cells (alexnet: not the same experiment: conv1: rms 0.31, expected 0.29).");
    add_rows(&lab, "brasa", "", 0.1, 0.01);
    v = verdict_of(&lab);
    CHECK_TEXT(v.headline, "brasa is fastest in 1 of 1 cells, in which nobody else got through.");
}

TEST(memory_and_accuracy)
{
    campaign_begin(&lab, "memory");
    add_cell(&lab, "letter_mlp", "synth:letter", 791, 1);
    add_row(&lab, "brasa", "", 1, 0.1)->peak_memory = 1e8;
    add_row(&lab, "pytorch", "", 1, 0.2)->peak_memory = 4e8;
    lab.r.rows[0].accuracy = 0.70;
    lab.r.rows[1].accuracy = 0.72;
    const lab_verdict v = verdict_of(&lab);
    CHECK_HAS(line(&v, "brasa takes the least memory"), "in 1 cell (from 100.0 MB on");
    CHECK_HAS(line(&v, "letter_mlp: pytorch is the most accurate"), "72.00 %, brasa has 70.00 % (not sure");
}

/* Repeats from the same weights agree to the last image: that is no spread to be sure by. */
TEST(accuracies_of_few_images)
{
    campaign_begin(&lab, "few");
    add_cell(&lab, "letter_mlp", "synth:letter", 1400, 64)->test_images = 600;
    for (int repeat = 1; repeat <= 3; repeat++) {
        add_row(&lab, "brasa", "", repeat, 0.1)->accuracy = 420.0 / 600;
        add_row(&lab, "pytorch", "", repeat, 0.2)->accuracy = 418.0 / 600;
    }
    lab_verdict v = verdict_of(&lab);
    CHECK_HAS(line(&v, "letter_mlp: brasa is the most"),
              "pytorch has 69.67 % (not sure: too small a difference for so few");
    lab.r.cells[0].test_images = 600000;
    v = verdict_of(&lab);
    CHECK_HAS(line(&v, "letter_mlp: brasa is the most"), "pytorch has 69.67 % (surely");
}

/* Who reads the words alone, on a terminal, must not take half a campaign for the whole. */
TEST(not_finished)
{
    campaign_begin(&lab, "half");
    lab.r.finished = false;
    add_cell(&lab, "alexnet", "synth:fire", 791, 1);
    add_rows(&lab, "brasa", "", 0.1, 0.01);
    const lab_verdict v = verdict_of(&lab);
    CHECK_TEXT(v.headline,
               "Not finished (`brasa lab run --resume 7` goes on); so far: brasa is fastest in 1 of 1 cells, in "
               "which nobody else got through.");
}

/* Nothing is cut, however many there are and however long a reason is. */
TEST(long_sentences)
{
    static char peers[40][40], reason[3000];
    memset(reason, 'x', sizeof reason - 2);
    reason[sizeof reason - 2] = 'y';
    campaign_begin(&lab, "long");
    for (int64_t batch = 1; batch <= 2; batch++) {
        add_cell(&lab, "alexnet", "synth:fire", 791, batch);
        for (int i = 0; i < 40; i++) {
            snprintf(peers[i], sizeof peers[i], "a framework with a long name, %02d", i);
            add_row(&lab, peers[i], "", 1, 0.1 + i);
        }
        fail_row(add_row(&lab, "zfails", "", 1, 0), "failed", reason, NULL);
    }
    const lab_verdict v = verdict_of(&lab);
    const char *fits = line(&v, "Largest batch of alexnet"), *missing = line(&v, "zfails has no result");
    CHECK_HAS(fits, "a framework with a long name, 39 2; zfails none (1: xxx");
    CHECK(strlen(fits) > 4000 && strcmp(fits + strlen(fits) - 4, "xy).") == 0);
    CHECK(strlen(missing) > 3000 && strcmp(missing + strlen(missing) - 4, "xy).") == 0);
    CHECK_HAS(v.ranks[0].text, "a framework with a long name, 39 takes 391 times as long.");
}

TEST(nothing_at_all)
{
    campaign_begin(&lab, "nothing");
    const lab_verdict v = verdict_of(&lab);
    CHECK_TEXT(v.headline, "Nobody got through: there is nothing to rank.");
    CHECK_INT(v.count, 0);
}
