/* sgd_cuda.cu - stochastic gradient descent on an NVIDIA GPU; its equations are in sgd_rule.cuh. The velocity of a
 * split weight is kept in 16 bits: what that rounds away is little beside the noise of gradients. */
#include "ops/sgd/sgd_rule.cuh"

#define RULE_ATTR   sgd_attr
#define RULE_SLOTS  1
#define RULE_ROUNDS 1

#include "ops/optimizer.cuh"

CUDA_KERNELS(sgd) = {UPDATE_ROW("sgd"), CUDA_END};
