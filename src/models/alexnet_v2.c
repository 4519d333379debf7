/* alexnet_v2.c - AlexNet in TensorFlow slim's version: 50,303,912 parameters with 1000 classes. No LRN and no groups;
 * the first convolution is not padded, so that 5 x 5 pixels are left in the end; fc6 and fc7 are convolutions. (So is
 * fc8 there, on one pixel: a dense layer in all but the shape of its weights.)
 */
#include "models/model.h"

static brasa_tensor conv(brasa_tensor x, const char *name, int channels, const char *settings)
{
    return brasa_relu(brasa_apply(x, "conv %d %s name=%s", channels, settings, name));
}

static brasa_tensor pool(brasa_tensor x)
{
    return brasa_apply(x, "maxpool 3 stride=2");
}

void build_alexnet_v2(brasa_graph *g, int classes)
{
    brasa_tensor x = brasa_input(g, "image", 3, 224, 224);
    x = pool(conv(x, "conv1", 64, "11 stride=4")); /* 64 x 26 x 26 */
    x = pool(conv(x, "conv2", 192, "5 pad=2"));    /* 192 x 12 x 12 */
    x = conv(x, "conv3", 384, "3 pad=1");
    x = conv(x, "conv4", 384, "3 pad=1");
    x = pool(conv(x, "conv5", 256, "3 pad=1"));         /* 256 x 5 x 5 */
    x = brasa_dropout(conv(x, "fc6", 4096, "5"), 0.5f); /* 4096 x 1 x 1 */
    x = brasa_dropout(conv(x, "fc7", 4096, "1"), 0.5f);
    brasa_apply(brasa_flatten(x), "classify %d name=fc8", classes);
}
