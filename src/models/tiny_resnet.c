/* tiny_resnet.c - the residual idea at its smallest: batch norm, an identity shortcut and a projected one. */
#include "models/model.h"

static brasa_tensor block(brasa_tensor x, const char *name, int channels, int stride, bool project)
{
    brasa_tensor y = brasa_apply(x, "conv %d 3x3 stride=%d pad=1 bias=no name=%s.conv1", channels, stride, name);
    y = brasa_relu(brasa_apply(y, "batchnorm name=%s.bn1", name));
    y = brasa_apply(y, "conv %d 3x3 pad=1 bias=no name=%s.conv2", channels, name);
    y = brasa_apply(y, "batchnorm name=%s.bn2", name);
    if (project) {
        x = brasa_apply(x, "conv %d 1x1 stride=%d bias=no name=%s.downsample.0", channels, stride, name);
        x = brasa_apply(x, "batchnorm name=%s.downsample.1", name);
    }
    return brasa_relu(brasa_add(y, x));
}

void build_tiny_resnet(brasa_graph *g, int classes)
{
    brasa_tensor x = brasa_input(g, "image", 3, 32, 32);
    x = brasa_apply(x, "conv 16 3x3 pad=same bias=no name=conv1");
    x = brasa_relu(brasa_apply(x, "batchnorm name=bn1"));
    x = block(x, "layer1", 16, 1, false); /* 16 x 32 x 32 */
    x = block(x, "layer2", 32, 2, true);  /* 32 x 16 x 16 */
    brasa_apply(brasa_flatten(brasa_global_avgpool(x)), "classify %d name=fc", classes);
}
