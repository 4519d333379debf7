/* resnet.c - torchvision's ResNet-18 and ResNet-50 (He et al., 2015; the stride in the 3 x 3 convolution, as in
 * "version 1.5"): 11,689,512 and 25,557,032 parameters with 1000 classes. Layers carry torchvision's names.
 */
#include "models/model.h"

#include <stdio.h>

/* A convolution without bias, and batch norm: conv1 and bn1 of a block, say. */
static brasa_tensor conv_norm(brasa_tensor x, const char *conv, const char *norm, int channels, int size, int stride)
{
    x = brasa_apply(x, "conv %d %d stride=%d pad=%d bias=no init=he_normal name=%s", channels, size, stride, size / 2,
                    conv);
    return brasa_apply(x, "batchnorm name=%s", norm);
}

static brasa_tensor shortcut(brasa_tensor x, int channels, int stride)
{
    int64_t shape[6] = {0};
    brasa_tensor_shape(x, shape);
    if (shape[1] == channels && stride == 1)
        return x;
    return conv_norm(x, "downsample.0", "downsample.1", channels, 1, stride);
}

/* The shortcut comes last, as in torchvision's list of parameters. */
static brasa_tensor basic(brasa_tensor x, int channels, int stride)
{
    brasa_tensor y = brasa_relu(conv_norm(x, "conv1", "bn1", channels, 3, stride));
    y = conv_norm(y, "conv2", "bn2", channels, 3, 1);
    return brasa_relu(brasa_add(y, shortcut(x, channels, stride)));
}

static brasa_tensor bottleneck(brasa_tensor x, int channels, int stride)
{
    brasa_tensor y = brasa_relu(conv_norm(x, "conv1", "bn1", channels, 1, 1));
    y = brasa_relu(conv_norm(y, "conv2", "bn2", channels, 3, stride));
    y = conv_norm(y, "conv3", "bn3", 4 * channels, 1, 1);
    return brasa_relu(brasa_add(y, shortcut(x, 4 * channels, stride)));
}

typedef brasa_tensor (*block)(brasa_tensor x, int channels, int stride);

static void build(brasa_graph *g, int classes, block make, const int blocks[4])
{
    brasa_tensor x = brasa_input(g, "image", 3, 224, 224);
    x = brasa_relu(conv_norm(x, "conv1", "bn1", 64, 7, 2)); /* 64 x 112 x 112 */
    x = brasa_apply(x, "maxpool 3 stride=2 pad=1");         /* 64 x 56 x 56; then 56, 28, 14 and 7 */
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < blocks[stage]; i++) {
            char scope[32];
            snprintf(scope, sizeof scope, "layer%d.%d.", stage + 1, i);
            brasa_graph_scope(g, scope);
            x = make(x, 64 << stage, stage > 0 && i == 0 ? 2 : 1);
        }
    }
    brasa_graph_scope(g, "");
    brasa_apply(brasa_flatten(brasa_global_avgpool(x)), "classify %d name=fc", classes);
}

void build_resnet18(brasa_graph *g, int classes)
{
    build(g, classes, basic, (const int[]){2, 2, 2, 2});
}

void build_resnet50(brasa_graph *g, int classes)
{
    build(g, classes, bottleneck, (const int[]){3, 4, 6, 3});
}
