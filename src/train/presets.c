/* presets.c - see presets.h.
 *
 * mnist, cifar10, cifar100 and letter are the third study's: Keras 2 with its formulas, the parts of each set merged
 * and split 70/30, pixels / 255 and Letter's integers as they are, nothing augmented, the last epoch's accuracy told.
 * fire-small and fire-big are the first study's: 224x224, mirrored at random, ImageNet's mean and deviation, SGD, all
 * pictures to train on, one at a time. Its photos are not public; drawn ones of the same number stand in for them. */
#include "train/presets.h"

#include "core/nearest.h"

#include <string.h>

#define STUDY3(net, rule, rounds)                                                                                    \
    {                                                                                                                \
        .model = net, .optimizer = rule, .epochs = rounds, .batch = 128, .split = "70/30", .dialect = "keras2",      \
        .transform = "", .keep = "last"                                                                              \
    }
#define STUDY1(set)                                                                                                  \
    {                                                                                                                \
        .model = "mobilenet_v2", .data = set, .optimizer = "sgd lr=0.001 momentum=0.9", .epochs = 100, .batch = 1,   \
        .split = "all", .dialect = "torch",                                                                          \
        .transform = "resize=256 crop=224 flip=horizontal mean=0.485,0.456,0.406 std=0.229,0.224,0.225"              \
    }

static const preset presets[] = {
    {"mnist", "third study: Adadelta, batch 128, 12 epochs, 70/30", STUDY3("mnist_cnn", "adadelta", 12),
     "idx:DIR, the folder of MNIST's files"},
    {"cifar10", "third study: RMSprop, batch 128, 12 epochs, 70/30",
     STUDY3("cifar10_cnn", "rmsprop lr=0.0001 decay=1e-6", 12), "cifar10:DIR, the folder of CIFAR-10's binary files"},
    {"cifar100", "third study: SGD with Nesterov momentum, batch 128, 12 epochs, 70/30",
     STUDY3("cifar100_cnn", "sgd lr=0.01 decay=1e-6 momentum=0.9 nesterov", 12),
     "cifar100:DIR, the folder of CIFAR-100's binary files"},
    {"letter", "third study: SGD, batch 128, 300 epochs, 70/30", STUDY3("letter_mlp", "sgd lr=0.001 decay=1e-7", 300),
     "csv:FILE,label=1, Letter Recognition's data"},
    {"fire-small", "first study: SGD, batch 1, 791 pictures of fire, smoke and neither", STUDY1("synth:fire,n=791"),
     NULL},
    {"fire-big", "first study: SGD, batch 1, 6,003 pictures of fire, smoke and neither", STUDY1("synth:fire,n=6003"),
     NULL},
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

const preset *preset_at(int index)
{
    return index >= 0 && index < PRESETS ? &presets[index] : NULL;
}

brasa_status preset_find(brasa_context *ctx, const char *name, const preset **out)
{
    nearest n = {.word = name};
    for (int i = 0; i < PRESETS; i++) {
        nearest_offer(&n, presets[i].name);
        *out = &presets[i];
        if (strcmp(presets[i].name, name) == 0)
            return BRASA_OK;
    }
    return fail(ctx, BRASA_NOT_FOUND, "there is no preset '%.60s'%s", name, nearest_hint(&n).text);
}
