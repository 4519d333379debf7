/* presets.c - the studies' experiments, as a user would write them: see experiment.h.
 *
 * Networks, sizes, batches and rates are the studies'. What they did not publish is drawn here: photos of fire, a set
 * for the second study, and where no real one is given with --data, sets of the shapes of the third study's. The
 * first study's mean of 100 epochs is one of 2 in 3 runs here. The small.* lines keep what is compared, with fewer
 * samples and epochs, for minutes on two cores; a GPU gets more of them, as its figures are means over a second. In
 * so few steps the network for CIFAR-100 stays at chance, which the report will tell. */
#include "lab/experiment.h"

#define STUDY1                                                                                                       \
    "batch           1\n"                                                                                            \
    "optimizer       sgd lr=0.001 momentum=0.9\n"                                                                    \
    "dialect         torch\n"                                                                                        \
    "transform       resize=256 crop=224 flip=horizontal mean=0.485,0.456,0.406 std=0.229,0.224,0.225\n"             \
    "split           all\n"                                                                                          \
    "repeats         3\n"                                                                                            \
    "limit           200000\n"                                                                                       \
    "small.limit     600\n"

#define STUDY1_TIMES                                                                                                 \
    STUDY1 "network         alexnet mobilenet_v2 resnet50 vgg16\n"                                                   \
           "data            small=synth:fire,n=791 big=synth:fire,n=6003\n"                                          \
           "view            times\n"                                                                                 \
           "epochs          2\n"

/* Each line of a block overrides what all of them have in common. */
#define STUDY3                                                                                                       \
    "view            accuracy\n"                                                                                     \
    "dialect         keras2\n"                                                                                       \
    "batch           128\n"                                                                                          \
    "epochs          12\n"                                                                                           \
    "limit           500000\n"                                                                                       \
    "small.limit     600\n"                                                                                          \
    "\n"                                                                                                             \
    "experiment      mnist\n"                                                                                        \
    "network         mnist_cnn\n"                                                                                    \
    "data            mnist=synth:digits\n"                                                                           \
    "optimizer       adadelta\n"                                                                                     \
    "small.data      mnist=synth:digits,n=2000\n"                                                                    \
    "small.epochs    3\n"                                                                                            \
    "\n"                                                                                                             \
    "experiment      cifar10\n"                                                                                      \
    "network         cifar10_cnn\n"                                                                                  \
    "data            cifar10=synth:cifar10\n"                                                                        \
    "optimizer       rmsprop lr=0.0001 decay=1e-6\n"                                                                 \
    "small.data      cifar10=synth:cifar10,n=4000\n"                                                                 \
    "small.batch     32\n"                                                                                           \
    "small.epochs    5\n"                                                                                            \
    "\n"                                                                                                             \
    "experiment      cifar100\n"                                                                                     \
    "network         cifar100_cnn\n"                                                                                 \
    "data            cifar100=synth:cifar100\n"                                                                      \
    "optimizer       sgd lr=0.01 decay=1e-6 momentum=0.9 nesterov\n"                                                 \
    "small.data      cifar100=synth:cifar100,n=3000\n"                                                               \
    "small.epochs    3\n"                                                                                            \
    "\n"                                                                                                             \
    "experiment      letter\n"                                                                                       \
    "network         letter_mlp\n"                                                                                   \
    "data            letter=synth:letter\n"                                                                          \
    "optimizer       sgd lr=0.001 decay=1e-7\n"                                                                      \
    "epochs          300\n"                                                                                          \
    "small.data      letter=synth:letter,n=5200\n"                                                                   \
    "small.batch     64\n"                                                                                           \
    "small.epochs    60\n"

static const lab_preset presets[] = {
    {"quick", "two networks and a set of digits: a few minutes on two cores",
     "title           A quick look\n"
     "epochs          2\n"
     "repeats         3\n"
     "limit           300\n"
     "\n"
     "experiment      pictures\n"
     "title           Pictures of fire, one at a time and in batches of 16\n"
     "network         alexnet mobilenet_v2\n"
     "data            synth:fire,n=32\n"
     "batch           1 16\n"
     "optimizer       sgd lr=0.001 momentum=0.9\n"
     "small.network   mobilenet_v2\n"
     "small.data      synth:fire,n=16\n"
     "small.batch     8\n"
     "\n"
     "experiment      digits\n"
     "title           Digits, 70 % to learn from\n"
     "view            accuracy\n"
     "network         mnist_cnn\n"
     "data            mnist=synth:digits,n=2000\n"
     "batch           64\n"
     "optimizer       adadelta\n"
     "dialect         keras2\n"
     "split           70/30\n"
     "small.epochs    1\n"},

    {"study1-cpu", "first study, table 1: four networks, two sizes of data, batch 1, CPU",
     "title           Seconds an epoch on the CPU (first study, table 1)\n" STUDY1_TIMES "device          cpu\n"
     "small.data      small=synth:fire,n=8 big=synth:fire,n=20\n"},

    {"study1-gpu", "first study, table 2: the same on the GPU",
     "title           Seconds an epoch on the GPU (first study, table 2)\n" STUDY1_TIMES "device          cuda\n"
     "profile         yes\n"
     "small.data      small=synth:fire,n=50 big=synth:fire,n=400\n"},

    {"study1-batch", "first study: batches of 10, 20, ... 100 and on until something fails",
     "title           Which batch is too large (first study)\n" STUDY1 "view            batches\n"
     "on              doubling\n"
     "epochs          1\n"
     "\n"
     "experiment      SimpleBig\n"
     "network         alexnet\n"
     "data            big=synth:fire,n=6003\n"
     "batch           10..100/10\n"
     "small.data      big=synth:fire,n=80\n"
     "small.batch     10 20 40\n"
     "\n"
     "experiment      ComplexSmall\n"
     "network         vgg16\n"
     "data            small=synth:fire,n=791\n"
     "batch           10..100/10\n"
     "small.data      small=synth:fire,n=20\n"
     "small.batch     10\n"
     "small.mem       4G\n"},

    {"study1-resources", "first study, figures 1 and 2: CPU, memory and threads over time",
     "title           CPU, memory and threads over time (first study, figures 1 and 2)\n" STUDY1
     "view            resources\n"
     "epochs          1\n"
     "\n"
     "experiment      SimpleBig\n"
     "network         alexnet\n"
     "data            big=synth:fire,n=6003\n"
     "batch           1 100\n"
     "small.data      big=synth:fire,n=48\n"
     "small.batch     1 16\n"
     "\n"
     "experiment      ComplexSmall\n"
     "network         vgg16\n"
     "data            small=synth:fire,n=791\n"
     "batch           1 100\n"
     "small.data      small=synth:fire,n=12\n"
     "small.batch     1 6\n"},

    {"study1-threads", "first study: with one thread, with more, with all",
     "title           What threads bring (first study)\n" STUDY1 "view            threads\n"
     "threads         1..all\n"
     "epochs          2\n"
     "\n"
     "experiment      SimpleBig\n"
     "network         alexnet\n"
     "data            big=synth:fire,n=6003\n"
     "batch           1 100\n"
     "small.data      big=synth:fire,n=24\n"
     "small.batch     1 12\n"
     "\n"
     "experiment      ComplexSmall\n"
     "network         vgg16\n"
     "data            small=synth:fire,n=791\n"
     "batch           1 100\n"
     "small.network   mobilenet_v2\n"
     "small.data      small=synth:fire,n=24\n"
     "small.batch     1 12\n"},

    {"study1-size", "first study: 100 to 6,003 pictures: does time grow with the data?",
     "title           Time over the number of pictures (first study)\n" STUDY1 "view            size\n"
     "epochs          2\n"
     "network         alexnet mobilenet_v2 resnet50 vgg16\n"
     "data            synth:fire,n=100 synth:fire,n=200 synth:fire,n=400 synth:fire,n=791 synth:fire,n=1500 "
     "synth:fire,n=3000 synth:fire,n=6003\n"
     "small.network   alexnet\n"
     "small.data      synth:fire,n=8 synth:fire,n=16 synth:fire,n=32 synth:fire,n=48\n"},

    {"study2-batch", "second study, figure 1: batches of 1 to 512 with 11 GB",
     "title           Time for a picture over the batch, with 11 GB (second study, figure 1)\n"
     "view            batches\n"
     "network         alexnet_caffe googlenet_caffe\n"
     "data            pictures=synth:fire,n=512\n"
     "batch           1..512\n"
     "optimizer       sgd lr=0.01 momentum=0.9 weight_decay=0.0005   # as in Caffe's solver of its AlexNet\n"
     "dialect         caffe\n"
     "epochs          10\n"
     "repeats         3\n"
     "limit           200000\n"
     "mem             11G\n"
     "small.data      pictures=synth:fire,n=16\n"
     "small.batch     1 4 16\n"
     "small.epochs    1\n"
     "small.limit     600\n"
     "small.mem       4G\n"},

    {"study3-split", "third study: MNIST, CIFAR-10, CIFAR-100 and Letter, 70/30",
     "title           Time and accuracy, 70 % to learn from (third study)\n"
     "split           70/30\n"
     "repeats         3\n" STUDY3},

    {"study3-folds", "third study: the same four sets, 10 folds",
     "title           Time and accuracy in 10 folds (third study)\n"
     "folds           10\n"
     "repeats         1\n"
     "small.folds     3\n" STUDY3},
};
enum { PRESETS = sizeof presets / sizeof presets[0] };

const lab_preset *lab_preset_at(int index)
{
    return index >= 0 && index < PRESETS ? &presets[index] : NULL;
}
