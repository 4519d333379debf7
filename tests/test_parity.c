/* test_parity.c - Brasa against PyTorch (parity.h) on the small networks, with a dozen of optimizers, and on those of
 * the studies' networks that do not take long; the others are in test_parity_large.c. */
#define _GNU_SOURCE /* parity.h */
#include "parity.h"

/* One thread: results do not depend on their number (test_threads.c), and tests may run side by side. */
static void check(const char *name, bool float64)
{
    check_network(name, float64, 1, STEPS);
}

TEST(mnist_cnn)
{
    check("mnist_cnn", false);
}

TEST(cifar10_cnn)
{
    check("cifar10_cnn", false);
}

TEST(cifar100_cnn)
{
    check("cifar100_cnn", false);
}

TEST(letter_mlp)
{
    check("letter_mlp", false);
    check("letter_mlp", true);
}

TEST(tiny_resnet)
{
    check("tiny_resnet", false);
    check("tiny_resnet", true);
}

TEST(tiny_inception)
{
    check("tiny_inception", false);
    check("tiny_inception", true);
}

TEST(resnet18)
{
    check_large("resnet18");
}

TEST(resnet50)
{
    check_large("resnet50");
}

TEST(mobilenet_v2)
{
    check_large("mobilenet_v2");
}

TEST(googlenet_aux)
{
    check_large("googlenet_aux");
}

TEST(googlenet_caffe_aux)
{
    check_large("googlenet_caffe_aux");
}
