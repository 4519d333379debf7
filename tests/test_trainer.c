/* test_trainer.c - the trainer as programs use it: trainings in memory, lists, stops, what was learned, and what is
 * refused. Runs in folders are in test_train.c. */
#define _GNU_SOURCE
#include "trainings.h"

enum { COUNT = 90, PIXELS = 8 * 8 };
static float samples[COUNT][PIXELS];
static int32_t labels[COUNT];

/* Three classes: bright at the top, in the middle, at the bottom. */
static brasa_data *arrays(void)
{
    brasa_data *data = NULL;
    for (int i = 0; i < COUNT; i++)
        for (int p = 0, k = labels[i] = i % 3; p < PIXELS; p++)
            samples[i][p] = (float)(p * 3 / PIXELS == k) + (float)((i * 31 + p * 17) % 10) / 20;
    const brasa_data_arrays a = {.size = sizeof a,
                                 .samples = {samples, BRASA_TYPE_F32, 4, {COUNT, 1, 8, 8}},
                                 .labels = {labels, BRASA_TYPE_I32, 1, {COUNT}}};
    CHECK_STATUS(brasa_data_from_arrays(ctx, &a, &data), BRASA_OK);
    return data;
}

static brasa_graph *network(void)
{
    brasa_graph *g = brasa_graph_new(ctx);
    brasa_classify(brasa_dense(brasa_flatten(brasa_input(g, "image", 1, 8, 8)), 12), 3);
    return g;
}

static brasa_trainer_options in_memory(heard *l, brasa_graph *g, brasa_data *data)
{
    *l = (heard){0};
    return (brasa_trainer_options){.size = sizeof(brasa_trainer_options),
                                   .graph = g,
                                   .dataset = data,
                                   .split = "70/30",
                                   .epochs = 6,
                                   .batch = 8,
                                   .progress = listen_to,
                                   .user = l};
}

TEST(in_memory)
{
    start();
    heard l;
    brasa_graph *g = network();
    brasa_data *data = arrays();
    brasa_trainer *t = NULL;
    brasa_trainer_result r = {.size = sizeof r};
    brasa_metrics m = {.size = sizeof m}, last = {.size = sizeof last};
    brasa_epoch e = {.size = sizeof e};
    double probability[COUNT][3];
    const brasa_trainer_options o = in_memory(&l, g, data);
    const brasa_array all = {samples, BRASA_TYPE_F32, 4, {COUNT, 1, 8, 8}};
    REQUIRE(brasa_trainer_new(ctx, &o, &t) == BRASA_OK);
    CHECK_STATUS(brasa_trainer_evaluate(t, data, NULL, &m), BRASA_WRONG_STATE); /* before it has learned */
    CHECK_STATUS(brasa_trainer_run(t, &r), BRASA_OK);
    CHECK(r.accuracy > 0.9 && !r.stopped && !r.folder[0]);
    CHECK(l.count[BRASA_ON_EPOCH] == 6 && l.count[BRASA_ON_SAVE] == 0 && l.greedy == 0);
    CHECK(brasa_trainer_epoch_at(t, 5, &e) && e.epoch == 6 && !brasa_trainer_epoch_at(t, 6, &e));
    CHECK(brasa_trainer_metrics(t, &last) && last.samples == 27);
    CASE("the best weights are those that are kept");
    CHECK_STATUS(brasa_trainer_evaluate(t, NULL, NULL, &m), BRASA_OK);
    CHECK_CLOSE(m.accuracy, r.accuracy, 0);
    CHECK_STATUS(brasa_trainer_evaluate(t, data, "all", &m), BRASA_OK);
    CHECK_INT(m.samples, COUNT);
    CASE("predictions agree with the evaluation");
    CHECK_STATUS(brasa_trainer_predict(t, &all, false, probability[0]), BRASA_OK);
    int right = 0;
    for (int i = 0; i < COUNT; i++) {
        const double *p = probability[i];
        right += p[labels[i]] >= fmax(p[0], fmax(p[1], p[2]));
        CHECK_CLOSE(p[0] + p[1] + p[2], 1, 1e-12);
    }
    CHECK_CLOSE(m.accuracy, right / (double)COUNT, 1e-12);
    CASE("once");
    CHECK_STATUS(brasa_trainer_run(t, NULL), BRASA_WRONG_STATE);
    brasa_trainer_free(t);
    brasa_data_free(data);
    brasa_graph_free(g);
    stop();
}

/* The caller's lists in place of a split, and a stop after some steps. */
TEST(lists_and_stop)
{
    start();
    heard l;
    static const int32_t list[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, bad[] = {0, 1, COUNT};
    brasa_graph *g = network();
    brasa_data *data = arrays();
    brasa_trainer_result r;
    brasa_trainer_options o = in_memory(&l, g, data);
    o.split = NULL;
    o.train_list = list;
    o.train_count = 12;
    o.batch = 5;
    l.stop_at = 4;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    CHECK(r.stopped && l.count[BRASA_ON_STEP] == 4 && l.count[BRASA_ON_END] == 0);
    CASE("a loss that is not finite");
    l = (heard){0};
    o.optimizer = "sgd lr=1000000 momentum=0.9";
    CHECK_STATUS(train(ctx, &o, &r), BRASA_WRONG_STATE);
    CHECK_HAS(brasa_context_error(ctx), "Try a smaller learning rate");
    CASE("a sample that is not there");
    l = (heard){0};
    o.train_list = bad;
    o.train_count = 3;
    CHECK_STATUS(train(ctx, &o, &r), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "train_list[2] is 90");
    brasa_data_free(data);
    brasa_graph_free(g);
    stop();
}

TEST(learned_weights_of_a_run)
{
    start();
    heard l;
    brasa_trainer_result r;
    brasa_trainer *t = NULL;
    brasa_metrics m = {.size = sizeof m};
    int32_t classes;
    char weights[500];
    const brasa_trainer_options o = plain(&l, run_folder("learned"));
    CHECK_STATUS(train(ctx, &o, &r), BRASA_OK);
    snprintf(weights, sizeof weights, "%s/" WEIGHTS_FILE, o.out);
    brasa_trainer_options from = {.size = sizeof from, .resume = o.out, .data = ""};
    REQUIRE(brasa_trainer_open(ctx, &from, &t) == BRASA_OK);
    CHECK(brasa_trainer_classes(t, &classes) && classes == 26);
    CHECK_STATUS(brasa_trainer_evaluate(t, NULL, NULL, &m), BRASA_OK);
    CHECK_CLOSE(m.accuracy, r.accuracy, 0.01); /* other kernels may see a tie otherwise */
    CHECK(!m.trained_on && brasa_trainer_run(t, NULL) == BRASA_WRONG_STATE);
    brasa_trainer_free(t);
    CASE("one vector, with the weights file alone");
    double probability[26], sum = 0;
    float vector[16] = {2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8};
    from = (brasa_trainer_options){.size = sizeof from, .resume = weights};
    REQUIRE(brasa_trainer_open(ctx, &from, &t) == BRASA_OK);
    CHECK_STATUS(brasa_trainer_predict(t, &(brasa_array){vector, BRASA_TYPE_F32, 2, {1, 16}}, false, probability),
                 BRASA_OK);
    for (int k = 0; k < 26; k++)
        sum += probability[k];
    CHECK_CLOSE(sum, 1, 1e-12);
    CHECK_STATUS(brasa_trainer_predict(t, &(brasa_array){vector, BRASA_TYPE_F32, 2, {1, 15}}, false, probability),
                 BRASA_BAD_SHAPE);
    brasa_trainer_free(t);
    stop();
}

TEST(refusals)
{
    start();
    brasa_trainer *t = NULL;
    brasa_plan plan = {.size = sizeof plan};
    brasa_trainer_options o = {.size = sizeof o};
    CHECK_STATUS(brasa_trainer_new(NULL, &o, &t), BRASA_BAD_ARGUMENT);
    CHECK_STATUS(brasa_trainer_new(ctx, &o, NULL), BRASA_BAD_ARGUMENT);
    CHECK_STATUS(brasa_trainer_new(ctx, NULL, &t), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "model");
    o.model = "letter_mlp";
    CHECK_STATUS(brasa_trainer_new(ctx, &o, &t), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "data");
    CHECK_STATUS(brasa_trainer_plan(ctx, &o, &plan), BRASA_OK);
    CHECK(plan.memory[0].total > 0 && plan.micro_batches == 1);
    o.data = "synth:letter,n=52";
    o.size = 3;
    CHECK_STATUS(brasa_trainer_new(ctx, &o, &t), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "brasa_trainer_options: size is 3");
    o.size = sizeof o;
    CHECK_STATUS(brasa_trainer_open(ctx, &o, &t), BRASA_BAD_ARGUMENT);
    CHECK(!t && brasa_trainer_run(NULL, NULL) == BRASA_BAD_ARGUMENT);
    brasa_trainer_free(NULL);
    stop();
}
