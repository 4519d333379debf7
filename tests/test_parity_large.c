/* test_parity_large.c - Brasa against PyTorch (parity.h) on the studies' networks that test_parity.c leaves out: most
 * of their time goes into drawing weights and into reference kernels. */
#define _GNU_SOURCE /* parity.h */
#include "parity.h"

TEST(alexnet)
{
    check_large("alexnet");
}

TEST(alexnet_caffe)
{
    check_large("alexnet_caffe");
}

TEST(alexnet_v2)
{
    check_large("alexnet_v2");
}

TEST(vgg16)
{
    check_large("vgg16");
}

TEST(googlenet)
{
    check_large("googlenet");
}

TEST(googlenet_caffe)
{
    check_large("googlenet_caffe");
}
