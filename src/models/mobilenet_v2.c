/* mobilenet_v2.c - torchvision's MobileNetV2 (Sandler et al., 2018): 3,504,872 parameters with 1000 classes. */
#include "models/model.h"

/* A convolution without bias, and batch norm; their names are what torchvision's nesting makes of them. */
static brasa_tensor conv_norm(brasa_tensor x, const char *settings, int channels, int groups, int block,
                              const char *conv, const char *norm)
{
    x = brasa_apply(x, "conv %d %s groups=%d bias=no init=he_normal name=features.%d.%s", channels, settings, groups,
                    block, conv);
    return brasa_apply(x, "batchnorm name=features.%d.%s", block, norm);
}

static brasa_tensor relu6(brasa_tensor x)
{
    return brasa_apply(x, "relu6");
}

/* The inverted residual: 1 x 1 to `expansion` times the channels, 3 x 3 on each of them alone, 1 x 1 back without an
 * activation; the input is added where the shapes agree. */
static brasa_tensor inverted(brasa_tensor x, int block, int inputs, int outputs, int stride, int expansion)
{
    const int wide = inputs * expansion;
    const char *depthwise = stride == 2 ? "3 stride=2 pad=1" : "3 pad=1";
    brasa_tensor y = x;
    if (expansion == 1) {
        y = relu6(conv_norm(y, depthwise, wide, wide, block, "conv.0.0", "conv.0.1"));
        y = conv_norm(y, "1", outputs, 1, block, "conv.1", "conv.2");
    } else {
        y = relu6(conv_norm(y, "1", wide, 1, block, "conv.0.0", "conv.0.1"));
        y = relu6(conv_norm(y, depthwise, wide, wide, block, "conv.1.0", "conv.1.1"));
        y = conv_norm(y, "1", outputs, 1, block, "conv.2", "conv.3");
    }
    return stride == 1 && inputs == outputs ? brasa_add(x, y) : y;
}

void build_mobilenet_v2(brasa_graph *g, int classes)
{
    static const struct stage {
        int expansion, channels, blocks, stride; /* t, c, n and s of the paper's table 2 */
    } stages[] = {
        {1, 16, 1, 1},  /* 16 x 112 x 112 */
        {6, 24, 2, 2},  /* 24 x 56 x 56 */
        {6, 32, 3, 2},  /* 32 x 28 x 28 */
        {6, 64, 4, 2},  /* 64 x 14 x 14 */
        {6, 96, 3, 1},  /* 96 x 14 x 14 */
        {6, 160, 3, 2}, /* 160 x 7 x 7 */
        {6, 320, 1, 1}, /* 320 x 7 x 7 */
    };
    int block = 0, channels = 32;
    brasa_tensor x = brasa_input(g, "image", 3, 224, 224);
    x = relu6(conv_norm(x, "3 stride=2 pad=1", channels, 1, block++, "0", "1")); /* 32 x 112 x 112 */
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        const struct stage *s = &stages[i];
        for (int k = 0; k < s->blocks; k++, channels = s->channels)
            x = inverted(x, block++, channels, s->channels, k ? 1 : s->stride, s->expansion);
    }
    x = relu6(conv_norm(x, "1", 1280, 1, block, "0", "1"));
    x = brasa_dropout(brasa_flatten(brasa_global_avgpool(x)), 0.2f);
    brasa_apply(x, "classify %d name=classifier.1", classes);
}
