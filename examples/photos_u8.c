/* photos_u8.c - trains a small network on 8-bit images N x H x W x C, as decoders and cameras give them, and writes
 * nothing: the transform resizes, crops, flips and normalizes, on a GPU there. */
#include <brasa.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 240, SIDE = 40 };
static unsigned char photos[COUNT][SIDE][SIDE][3];
static unsigned char labels[COUNT];

/* Red ones and blue ones, of any brightness. */
static void take_photos(void)
{
    for (int i = 0; i < COUNT; i++) {
        labels[i] = (unsigned char)(i / 3 % 2);
        for (int p = 0; p < SIDE * SIDE * 3; p++)
            photos[i][p / 3 / SIDE][p / 3 % SIDE][p % 3] =
                (unsigned char)(rand() % 100 + (p % 3 == 2 * labels[i] ? 20 + i % 120 : 0));
    }
}

static brasa_tensor describe(brasa_graph *g)
{
    brasa_tensor x = brasa_input(g, "image", 3, 32, 32);
    x = brasa_maxpool(brasa_relu(brasa_conv2d(x, 8, 3, BRASA_SAME)), 4);
    return brasa_classify(brasa_flatten(x), 2);
}

int main(void)
{
    static const char *const names[] = {"red", "blue"};
    double probability[COUNT][2];
    brasa_context *c = NULL;
    brasa_data *data = NULL;
    brasa_trainer *t = NULL;
    brasa_trainer_result r = {.size = sizeof r};
    take_photos();
    const brasa_array all = {photos, BRASA_TYPE_U8, 4, {COUNT, SIDE, SIDE, 3}};
    const brasa_data_arrays arrays = {.size = sizeof arrays,
                                      .samples = all,
                                      .labels = {labels, BRASA_TYPE_U8, 1, {COUNT}},
                                      .nhwc = true,
                                      .classes = 2,
                                      .class_names = names};
    bool ok = brasa_context_new(NULL, &c) == BRASA_OK && brasa_data_from_arrays(c, &arrays, &data) == BRASA_OK;
    brasa_graph *g = brasa_graph_new(c);
    describe(g);
    const brasa_trainer_options o = {.size = sizeof o,
                                     .graph = g,
                                     .dataset = data,
                                     .split = "80/20",
                                     .transform =
                                         "resize=36 crop=32 random_crop=yes flip=horizontal mean=0.4 std=0.2",
                                     .epochs = 5};
    ok = ok && brasa_trainer_new(c, &o, &t) == BRASA_OK && brasa_trainer_run(t, &r) == BRASA_OK &&
         brasa_trainer_predict(t, &all, true, probability[0]) == BRASA_OK;
    if (!ok)
        return fprintf(stderr, "%s\n", brasa_context_error(c)), 1;
    printf("accuracy %.2f; photo 0 is %s with %.2f\n", r.accuracy, names[labels[0]], probability[0][labels[0]]);
    brasa_trainer_free(t);
    brasa_graph_free(g);
    brasa_data_free(data);
    brasa_context_free(c);
    return 0;
}
