/* test_parity_large.c - Brasa against PyTorch (parity.h) on the studies' networks, with two pictures of full size. In
 * double one step is enough: the loss and every gradient to ten digits. Takes minutes on the reference kernels. */
#include "parity.h"

static void check(const char *name)
{
    check_network(name, false, 0, STEPS);
    check_network(name, true, 0, 1);
}

TEST(alexnet)
{
    check("alexnet");
}

TEST(alexnet_caffe)
{
    check("alexnet_caffe");
}

TEST(alexnet_v2)
{
    check("alexnet_v2");
}

TEST(vgg16)
{
    check("vgg16");
}

TEST(resnet18)
{
    check("resnet18");
}

TEST(resnet50)
{
    check("resnet50");
}

TEST(mobilenet_v2)
{
    check("mobilenet_v2");
}

TEST(googlenet)
{
    check("googlenet");
}

TEST(googlenet_aux)
{
    check("googlenet_aux");
}

TEST(googlenet_caffe)
{
    check("googlenet_caffe");
}

TEST(googlenet_caffe_aux)
{
    check("googlenet_caffe_aux");
}
