/* train.c - trains mnist_cnn on arrays in memory, with validation and early stop. Killed, it resumes from its last
 * checkpoint. Then it loads what was learned, and predicts. Usage: train [RUN FOLDER] */
#include <brasa.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TRAIN = 400, TEST = 100, CLASSES = 10 };
static float images[TRAIN + TEST][28][28];
static int32_t labels[TRAIN + TEST];

/* Draws stripes with noise, in place of digits: each class has its own angle. */
static void draw_images(void)
{
    for (int i = 0; i < TRAIN + TEST; i++)
        for (int x = 0, k = labels[i] = i % CLASSES; x < 28 * 28; x++)
            images[i][x / 28][x % 28] = (float)((x % 28 * k + x / 28 * (9 - k) + i) / 9 % 4 + rand() % 200 / 100.0);
}

static bool show(void *user, const brasa_progress *p)
{
    if (p->event == BRASA_ON_EPOCH)
        fprintf(user, "epoch %d: loss %.3f, validation accuracy %.3f\n", (int)p->epoch->epoch, p->epoch->loss,
                p->epoch->test_accuracy);
    return true; /* false would stop the training, with a checkpoint */
}

int main(int argc, char **argv)
{
    char record[300];
    double probability[CLASSES];
    const char *run = argc > 1 ? argv[1] : "mnist-run";
    brasa_context *c = NULL;
    brasa_data *data = NULL;
    brasa_trainer *trainer = NULL, *learned = NULL;
    snprintf(record, sizeof record, "%s/run.json", run);
    draw_images();
    const brasa_data_arrays arrays = {.size = sizeof arrays,
                                      .samples = {images, BRASA_TYPE_F32, 4, {TRAIN, 1, 28, 28}},
                                      .labels = {labels, BRASA_TYPE_I32, 1, {TRAIN}},
                                      .test_samples = {images[TRAIN], BRASA_TYPE_F32, 4, {TEST, 1, 28, 28}},
                                      .test_labels = {labels + TRAIN, BRASA_TYPE_I32, 1, {TEST}}};
    bool ok = brasa_context_new(NULL, &c) == BRASA_OK && brasa_data_from_arrays(c, &arrays, &data) == BRASA_OK;
    brasa_trainer_options o = {
        .size = sizeof o, .model = "mnist_cnn", .dataset = data, .patience = 3, .progress = show, .user = stdout};
    const brasa_trainer_options open = {.size = sizeof open, .resume = run};
    const brasa_array one = {images[TRAIN], BRASA_TYPE_F32, 4, {1, 1, 28, 28}};
    *(access(record, F_OK) == 0 ? &o.resume : &o.out) = run; /* goes on with a run that is there */
    ok = ok && brasa_trainer_new(c, &o, &trainer) == BRASA_OK && brasa_trainer_run(trainer, NULL) == BRASA_OK &&
         brasa_trainer_open(c, &open, &learned) == BRASA_OK &&
         brasa_trainer_predict(learned, &one, false, probability) == BRASA_OK;
    if (!ok)
        return fprintf(stderr, "%s\n", brasa_context_error(c)), 1;
    printf("a sample of class 0: probability %.3f\n", probability[0]);
    brasa_trainer_free(learned);
    brasa_trainer_free(trainer);
    brasa_data_free(data);
    brasa_context_free(c);
    return 0;
}
