/* vgg16.c - torchvision's VGG-16 (Simonyan and Zisserman, 2014): 138,357,544 parameters with 1000 classes. */
#include "models/model.h"

/* `count` convolutions and a pooling; layers are numbered as in torchvision, where ReLU and pooling count too. */
static brasa_tensor block(brasa_tensor x, int *index, int count, int channels)
{
    for (int i = 0; i < count; i++, *index += 2)
        x = brasa_relu(brasa_apply(x, "conv %d 3 pad=1 init=he_normal name=features.%d", channels, *index));
    *index += 1;
    return brasa_maxpool(x, 2);
}

void build_vgg16(brasa_graph *g, int classes)
{
    int index = 0;
    brasa_tensor x = brasa_input(g, "image", 3, 224, 224);
    x = block(x, &index, 2, 64);  /* 64 x 112 x 112 */
    x = block(x, &index, 2, 128); /* 128 x 56 x 56 */
    x = block(x, &index, 3, 256); /* 256 x 28 x 28 */
    x = block(x, &index, 3, 512); /* 512 x 14 x 14 */
    x = block(x, &index, 3, 512); /* 512 x 7 x 7: torchvision's adaptive pooling to 7 x 7 changes nothing */
    x = brasa_relu(brasa_apply(brasa_flatten(x), "dense 4096 name=classifier.0"));
    x = brasa_dropout(x, 0.5f);
    x = brasa_relu(brasa_apply(x, "dense 4096 name=classifier.3"));
    x = brasa_dropout(x, 0.5f);
    brasa_apply(x, "classify %d name=classifier.6", classes);
}
