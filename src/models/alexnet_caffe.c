/* alexnet_caffe.c - AlexNet as of 2012, in Caffe's version (bvlc_alexnet): 60,965,224 parameters with 1000 classes.
 * Two groups, local response normalization before pooling, an input of 227 x 227. Every setting that frameworks
 * disagree on is written out, so the dialect changes initial biases and the optimizer only. Caffe starts from normal
 * numbers of deviation 0.01 and 0.005, tuned by hand; here He's numbers stand for them.
 */
#include "models/model.h"

static brasa_tensor conv(brasa_tensor x, int index, int channels, const char *settings)
{
    return brasa_relu(brasa_apply(x, "conv %d %s init=he_normal name=conv%d", channels, settings, index));
}

static brasa_tensor norm(brasa_tensor x)
{
    return brasa_apply(x, "lrn 5 alpha=0.0001 beta=0.75 k=1 divide=yes");
}

static brasa_tensor pool(brasa_tensor x)
{
    return brasa_apply(x, "maxpool 3 stride=2 ceil");
}

static brasa_tensor dense(brasa_tensor x, int index)
{
    x = brasa_relu(brasa_apply(x, "dense 4096 init=he_normal name=fc%d", index));
    return brasa_dropout(x, 0.5f);
}

void build_alexnet_caffe(brasa_graph *g, int classes)
{
    brasa_tensor x = brasa_input(g, "image", 3, 227, 227);
    x = pool(norm(conv(x, 1, 96, "11 stride=4")));       /* 96 x 27 x 27 */
    x = pool(norm(conv(x, 2, 256, "5 pad=2 groups=2"))); /* 256 x 13 x 13 */
    x = conv(x, 3, 384, "3 pad=1");
    x = conv(x, 4, 384, "3 pad=1 groups=2");
    x = pool(conv(x, 5, 256, "3 pad=1 groups=2")); /* 256 x 6 x 6 */
    x = dense(dense(brasa_flatten(x), 6), 7);
    brasa_apply(x, "classify %d name=fc8", classes);
}
