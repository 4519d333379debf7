/* test_falls_large.c - fifty steps of the networks that test_falls.c trains for fewer. Takes minutes. */
#include "falls.h"

TEST(fifty_steps)
{
    check_falls("alexnet", 50, 10);
    check_falls("resnet18", 50, 10);
    check_falls("mobilenet_v2", 50, 10);
    check_falls("googlenet", 50, 10);
    check_falls("alexnet_caffe", 50, 10);
    check_falls("alexnet_v2", 50, 10);
    check_falls("vgg16", 50, 10);
    check_falls("resnet50", 50, 10);
    check_falls("googlenet_aux", 50, 10);
    check_falls("googlenet_caffe", 50, 10);
    check_falls("googlenet_caffe_aux", 50, 10);
}
