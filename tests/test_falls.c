/* test_falls.c - the studies' networks learn. Half of fifty steps of one network of each kind, and a few steps of the
 * others; all fifty of them are in test_falls_large.c. */
#include "falls.h"

TEST(many_steps)
{
    check_falls("alexnet", 25, 10);
    check_falls("resnet18", 25, 10);
    check_falls("mobilenet_v2", 25, 10);
    check_falls("googlenet", 25, 10);
}

TEST(a_few_steps)
{
    check_falls("alexnet_caffe", 12, 2);
    check_falls("alexnet_v2", 12, 2);
    check_falls("vgg16", 12, 2);
    check_falls("resnet50", 12, 2);
    check_falls("googlenet_aux", 12, 2);
    check_falls("googlenet_caffe", 12, 2);
    check_falls("googlenet_caffe_aux", 12, 2);
}
