/* alexnet.c - torchvision's AlexNet (Krizhevsky: "One weird trick", 2014): 61,100,840 parameters with 1000 classes.
 */
#include "models/model.h"

static brasa_tensor conv(brasa_tensor x, int index, int channels, const char *settings)
{
    return brasa_relu(brasa_apply(x, "conv %d %s name=features.%d", channels, settings, index));
}

static brasa_tensor pool(brasa_tensor x)
{
    return brasa_apply(x, "maxpool 3 stride=2");
}

void build_alexnet(brasa_graph *g, int classes)
{
    brasa_tensor x = brasa_input(g, "image", 3, 224, 224);
    x = pool(conv(x, 0, 64, "11 stride=4 pad=2")); /* 64 x 27 x 27 */
    x = pool(conv(x, 3, 192, "5 pad=2"));          /* 192 x 13 x 13 */
    x = conv(x, 6, 384, "3 pad=1");
    x = conv(x, 8, 256, "3 pad=1");
    x = pool(conv(x, 10, 256, "3 pad=1")); /* 256 x 6 x 6: torchvision's adaptive pooling to 6 x 6 changes nothing */
    x = brasa_dropout(brasa_flatten(x), 0.5f);
    x = brasa_relu(brasa_apply(x, "dense 4096 name=classifier.1"));
    x = brasa_dropout(x, 0.5f);
    x = brasa_relu(brasa_apply(x, "dense 4096 name=classifier.4"));
    brasa_apply(x, "classify %d name=classifier.6", classes);
}
