/* googlenet.c - torchvision's GoogLeNet (with batch norm): 6,624,904 parameters with 1000 classes, 13,004,888 with
 * its two auxiliary heads. Layers carry torchvision's names. As there, the third branch of a module, 5 x 5 in the
 * paper, is 3 x 3.
 */
#include "models/inception.h"
#include "models/model.h"

#include <stdio.h>

static brasa_tensor conv(brasa_tensor x, const char *name, int channels, const char *settings)
{
    x = brasa_apply(x, "conv %d %s bias=no init=he_normal name=%s.conv", channels, settings, name);
    return brasa_relu(brasa_apply(x, "batchnorm epsilon=0.001 name=%s.bn", name));
}

static brasa_tensor pool(brasa_tensor x, int size)
{
    return brasa_apply(x, "maxpool %d stride=2 ceil", size);
}

static brasa_tensor module(brasa_tensor x, const inception *m)
{
    char scope[32];
    snprintf(scope, sizeof scope, "inception%s.", m->name);
    brasa_graph_scope(x.graph, scope);
    brasa_tensor branch[4]; /* one statement each: parameters are listed in this order */
    branch[0] = conv(x, "branch1", m->one, "1");
    branch[1] = conv(conv(x, "branch2.0", m->reduce_three, "1"), "branch2.1", m->three, "3 pad=1");
    branch[2] = conv(conv(x, "branch3.0", m->reduce_five, "1"), "branch3.1", m->five, "3 pad=1");
    branch[3] = conv(brasa_apply(x, "maxpool 3 stride=1 pad=1"), "branch4.1", m->pooled, "1");
    brasa_graph_scope(x.graph, "");
    return brasa_concat(x.graph, branch, 4);
}

/* Logits from the middle of the network. */
static brasa_tensor head(brasa_tensor x, const char *scope, int classes)
{
    brasa_graph_scope(x.graph, scope);
    x = brasa_flatten(conv(brasa_apply(x, "adaptive_avgpool 4"), "conv", 128, "1")); /* 2048 */
    x = brasa_relu(brasa_apply(x, "dense 1024 name=fc1"));
    x = brasa_apply(brasa_dropout(x, 0.7f), "dense %d name=fc2", classes);
    brasa_graph_scope(x.graph, "");
    return x;
}

/* Heads come behind the body, as in torchvision's list of parameters. */
static void build(brasa_graph *g, int classes, bool heads)
{
    brasa_tensor x = brasa_input(g, "image", 3, 224, 224), after[INCEPTIONS];
    x = pool(conv(x, "conv1", 64, "7 stride=2 pad=3"), 3);                 /* 64 x 56 x 56 */
    x = pool(conv(conv(x, "conv2", 64, "1"), "conv3", 192, "3 pad=1"), 3); /* 192 x 28 x 28 */
    for (int i = 0; i < INCEPTIONS; i++) {
        after[i] = x = module(x, &inceptions[i]);
        if (i == INCEPTION_3B)
            x = pool(x, 3); /* 480 x 14 x 14 */
        else if (i == INCEPTION_4E)
            x = pool(x, 2); /* 832 x 7 x 7 */
    }
    brasa_tensor logits[3];
    if (heads) {
        logits[1] = head(after[INCEPTION_4A], "aux1.", classes);
        logits[2] = head(after[INCEPTION_4D], "aux2.", classes);
    }
    x = brasa_dropout(brasa_flatten(brasa_global_avgpool(x)), 0.2f); /* 1024 */
    if (!heads) {
        brasa_apply(x, "classify %d name=fc", classes);
        return;
    }
    logits[0] = brasa_apply(x, "dense %d name=fc", classes);
    end_with_heads(g, logits, classes);
}

void build_googlenet(brasa_graph *g, int classes)
{
    build(g, classes, false);
}

void build_googlenet_aux(brasa_graph *g, int classes)
{
    build(g, classes, true);
}
