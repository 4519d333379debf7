/* cifar_cnn.c - the network of the Keras example for CIFAR-10: 1,250,858 parameters; with 100 classes 1,297,028.
 * The first convolution of each pair keeps the size, the second does not. */
#include "models/model.h"

static brasa_tensor pair_of_convolutions(brasa_tensor x, int channels, int first)
{
    x = brasa_relu(brasa_apply(x, "conv %d 3x3 pad=same name=conv%d", channels, first));
    x = brasa_relu(brasa_apply(x, "conv %d 3x3 name=conv%d", channels, first + 1));
    return brasa_dropout(brasa_maxpool(x, 2), 0.25f);
}

static void build(brasa_graph *g, int classes)
{
    brasa_tensor x = brasa_input(g, "image", 3, 32, 32);
    x = pair_of_convolutions(x, 32, 1); /* 32 x 15 x 15 */
    x = pair_of_convolutions(x, 64, 3); /* 64 x 6 x 6 */
    x = brasa_relu(brasa_apply(brasa_flatten(x), "dense 512 name=fc1"));
    brasa_apply(brasa_dropout(x, 0.5f), "classify %d name=fc2", classes);
}

void build_cifar10_cnn(brasa_graph *g, int classes)
{
    build(g, classes);
}

void build_cifar100_cnn(brasa_graph *g, int classes)
{
    build(g, classes);
}
