/* first.c - the first program of README.md: a network of five layers learns eight pictures by heart.
 *
 *     cc first.c $(pkg-config --cflags --libs brasa) -o first && ./first
 */
#include <brasa.h>
#include <stdio.h>

int main(void)
{
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_tensor x = brasa_input(g, "image", 1, 28, 28); /* N x 1 x 28 x 28 */
    x = brasa_relu(brasa_conv2d(x, 32, 3, BRASA_VALID)); /* N x 32 x 26 x 26 */
    x = brasa_dropout(brasa_maxpool(x, 2), 0.25f);
    x = brasa_relu(brasa_dense(brasa_flatten(x), 128));
    brasa_classify(x, 10); /* logits, loss, accuracy */

    brasa_session *s = NULL;
    brasa_session_options o = {.size = sizeof o, .batch = 8, .optimizer = "adam lr=0.001"};
    if (brasa_session_new(g, &o, &s) != BRASA_OK)
        return fprintf(stderr, "%s\n", brasa_graph_error(g)), 1;

    static float images[8 * 28 * 28];
    int32_t labels[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int i = 0; i < 8 * 28 * 28; i++) /* eight pictures with a bar each */
        images[i] = i % 28 == 3 * (i / (28 * 28)) ? 1.0f : 0.0f;
    for (int step = 0; step < 20; step++) {
        float loss;
        if (brasa_train_step(s, images, labels, &loss) != BRASA_OK)
            return fprintf(stderr, "%s\n", brasa_session_error(s)), 1;
        printf("step %d  loss %.4f\n", step, loss);
    }
    brasa_session_free(s);
    brasa_graph_free(g);
    return 0;
}
