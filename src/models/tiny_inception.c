/* tiny_inception.c - one inception module behind a convolution with local response normalization. */
#include "models/model.h"

static brasa_tensor conv(brasa_tensor x, const char *name, int channels, int kernel, int padding)
{
    return brasa_relu(brasa_apply(x, "conv %d %d pad=%d name=%s", channels, kernel, padding, name));
}

void build_tiny_inception(brasa_graph *g, int classes)
{
    brasa_tensor x = brasa_input(g, "image", 3, 32, 32);
    x = brasa_relu(brasa_apply(x, "conv 16 3x3 pad=same name=conv1"));
    x = brasa_apply(brasa_apply(x, "maxpool 3 stride=2 pad=1"), "lrn 5"); /* 16 x 16 x 16 */
    brasa_tensor branch[] = {
        conv(x, "branch1", 8, 1, 0),
        conv(conv(x, "branch2.0", 8, 1, 0), "branch2.1", 12, 3, 1),
        conv(conv(x, "branch3.0", 4, 1, 0), "branch3.1", 8, 5, 2),
        conv(brasa_apply(x, "maxpool 3 stride=1 pad=1"), "branch4", 8, 1, 0),
    };
    x = brasa_avgpool(brasa_concat(g, branch, 4), 2); /* 36 x 8 x 8 */
    brasa_apply(brasa_dropout(brasa_flatten(x), 0.4f), "classify %d name=fc", classes);
}
