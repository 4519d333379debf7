/* googlenet_caffe.c - GoogLeNet in Caffe's version (bvlc_googlenet), which is the paper's: 6,998,552 parameters with
 * 1000 classes, 13,378,280 with its two auxiliary heads. Local response normalization, no batch norm; layers carry
 * Caffe's names. Every setting that frameworks disagree on is written out, so the dialect changes initial biases and
 * the optimizer only.
 */
#include "models/inception.h"
#include "models/model.h"

#include <stdio.h>

static brasa_tensor conv(brasa_tensor x, const char *name, int channels, const char *settings)
{
    return brasa_relu(brasa_apply(x, "conv %d %s init=he_normal name=%s", channels, settings, name));
}

static brasa_tensor pool(brasa_tensor x)
{
    return brasa_apply(x, "maxpool 3 stride=2 ceil");
}

static brasa_tensor norm(brasa_tensor x)
{
    return brasa_apply(x, "lrn 5 alpha=0.0001 beta=0.75 k=1 divide=yes");
}

static brasa_tensor module(brasa_tensor x, const inception *m)
{
    char scope[32];
    snprintf(scope, sizeof scope, "inception_%s/", m->name);
    brasa_graph_scope(x.graph, scope);
    brasa_tensor branch[4]; /* one statement each: parameters are listed in this order */
    branch[0] = conv(x, "1x1", m->one, "1");
    branch[1] = conv(conv(x, "3x3_reduce", m->reduce_three, "1"), "3x3", m->three, "3 pad=1");
    branch[2] = conv(conv(x, "5x5_reduce", m->reduce_five, "1"), "5x5", m->five, "5 pad=2");
    branch[3] = conv(brasa_apply(x, "maxpool 3 stride=1 pad=1"), "pool_proj", m->pooled, "1");
    brasa_graph_scope(x.graph, "");
    return brasa_concat(x.graph, branch, 4);
}

/* Logits from the middle of the network. */
static brasa_tensor head(brasa_tensor x, const char *scope, int classes)
{
    brasa_graph_scope(x.graph, scope);
    x = brasa_flatten(conv(brasa_apply(x, "avgpool 5 stride=3 ceil"), "conv", 128, "1")); /* 128 x 4 x 4 */
    x = brasa_relu(brasa_apply(x, "dense 1024 init=he_normal name=fc"));
    x = brasa_apply(brasa_dropout(x, 0.7f), "dense %d name=classifier", classes);
    brasa_graph_scope(x.graph, "");
    return x;
}

/* Heads stand where they branch off, as in Caffe's file. */
static void build(brasa_graph *g, int classes, bool heads)
{
    brasa_tensor x = brasa_input(g, "image", 3, 224, 224), logits[3];
    x = norm(pool(conv(x, "conv1/7x7_s2", 64, "7 stride=2 pad=3"))); /* 64 x 56 x 56 */
    x = conv(conv(x, "conv2/3x3_reduce", 64, "1"), "conv2/3x3", 192, "3 pad=1");
    x = pool(norm(x)); /* 192 x 28 x 28 */
    for (int i = 0; i < INCEPTIONS; i++) {
        x = module(x, &inceptions[i]);
        if (i == INCEPTION_3B || i == INCEPTION_4E)
            x = pool(x); /* 480 x 14 x 14, 832 x 7 x 7 */
        else if (heads && i == INCEPTION_4A)
            logits[1] = head(x, "loss1/", classes);
        else if (heads && i == INCEPTION_4D)
            logits[2] = head(x, "loss2/", classes);
    }
    x = brasa_dropout(brasa_flatten(brasa_avgpool(x, 7)), 0.4f); /* 1024 */
    if (!heads) {
        brasa_apply(x, "classify %d name=loss3/classifier", classes);
        return;
    }
    logits[0] = brasa_apply(x, "dense %d name=loss3/classifier", classes);
    end_with_heads(g, logits, classes);
}

void build_googlenet_caffe(brasa_graph *g, int classes)
{
    build(g, classes, false);
}

void build_googlenet_caffe_aux(brasa_graph *g, int classes)
{
    build(g, classes, true);
}
