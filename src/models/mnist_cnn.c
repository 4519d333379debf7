/* mnist_cnn.c - the network of the Keras example for MNIST: 1,199,882 parameters. The same as a file: mnist_cnn.net.
 */
#include "models/model.h"

void build_mnist_cnn(brasa_graph *g, int classes)
{
    brasa_tensor x = brasa_input(g, "image", 1, 28, 28);
    x = brasa_apply(x, "conv 32 3x3 name=conv1"); /* 32 x 26 x 26 */
    x = brasa_relu(x);
    x = brasa_apply(x, "conv 64 3x3 name=conv2"); /* 64 x 24 x 24 */
    x = brasa_relu(x);
    x = brasa_maxpool(x, 2); /* 64 x 12 x 12 */
    x = brasa_dropout(x, 0.25f);
    x = brasa_flatten(x); /* 9216 */
    x = brasa_apply(x, "dense 128 name=fc1");
    x = brasa_relu(x);
    x = brasa_dropout(x, 0.5f);
    brasa_apply(x, "classify %d name=fc2", classes);
}
