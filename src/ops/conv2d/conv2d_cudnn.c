/* conv2d_cudnn.c - convolution by cuDNN.
 *
 * The forward pass has two ways: the convolution alone, with the bias and the activation added by a kernel of our own
 * behind it (conv2d_cuda_finish); or, with a bias and ReLU or nothing, all of it as one graph of cuDNN's. The clock
 * decides, see cudnn.h. The second way saves the output's way to memory and back. In 16 bits cuDNN has good engines
 * for it only if the bias is in 16 bits, too: it is rounded first. Our ReLU keeps NaN, so that a training that has
 * failed shows it; cuDNN is asked to do so, but not every engine obeys: each one is tried on weights that are NaN,
 * and only those that pass are timed. ReLU6, and ReLU without a bias, it has in engines that are compiled for each
 * node or slow.
 *
 * The gradient of the bias is a kernel of our own: cuDNN has none that is better. */
#include "device/cuda/cudnn.h"
#include "ops/conv2d/conv2d_cuda.h"

#include <stdio.h>

typedef enum product { FORWARD, DATA, WEIGHTS } product;
enum { ALONE, FUSED }; /* ways */
/* Tensors, the last one the bias in 16 bits; the uids are one more. Then the uids of what is inside of a graph. */
enum { SRC, WEI, DST, BIA, ROUND, INSIDE = 10, INSIDE_2 };

/* The convolution of a node, as cuDNN's functions see it. */
typedef struct job {
    cuda_queue *queue;
    product product;
    shape src, wei, dst, bia;
    int64_t before[2], after[2], stride[2], dilation[2]; /* height, width */
    dtype type;                                          /* of src, wei and dst */
    bool bias;                                           /* of FORWARD: one is added; of WEIGHTS: its gradient */
    activation act;
} job;

typedef struct conv2d_state {
    job job;
    cudnn_plan *plan;
    cudnn_set packs; /* with the addresses of the last bind */
    descriptor pack;
} conv2d_state;

/* --- the graphs of operations ---------------------------------------------------------------------------------- */

static descriptor make_window(const job *j, cudnn_set *s)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t axes = 2;
    descriptor d = cudnn_make(s, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnn_put(s, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    cudnn_put(s, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    cudnn_put(s, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    cudnn_put(s, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes, j->before);
    cudnn_put(s, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes, j->after);
    cudnn_put(s, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes, j->dilation);
    cudnn_put(s, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes, j->stride);
    cudnn_finish(s, d);
    return d;
}

/* One of the three products. Tensors and attributes have other names in each. */
static descriptor make_product(const job *j, cudnn_set *s, descriptor src, descriptor wei, descriptor dst)
{
    static const struct {
        cudnnBackendDescriptorType_t operation;
        cudnnBackendAttributeName_t window, src, wei, dst, alpha, beta;
    } all[] = {
        [FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        [DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        [WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    };
    const float one = 1, zero = 0;
    descriptor how = make_window(j, s), d = cudnn_make(s, all[j->product].operation);
    cudnn_put_one(s, d, all[j->product].window, how);
    cudnn_put_one(s, d, all[j->product].src, src);
    cudnn_put_one(s, d, all[j->product].wei, wei);
    cudnn_put_one(s, d, all[j->product].dst, dst);
    cudnn_put(s, d, all[j->product].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    cudnn_put(s, d, all[j->product].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    cudnn_finish(s, d);
    return d;
}

static descriptor describe(const void *user, int way, cudnn_set *s)
{
    const job *j = user;
    const cudnnDataType_t type = j->type == BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    descriptor ops[3], src = cudnn_tensor(s, SRC + 1, type, &j->src, false),
                       wei = cudnn_tensor(s, WEI + 1, type, &j->wei, false),
                       dst = cudnn_tensor(s, DST + 1, type, &j->dst, false);
    int count = 0;
    if (way == ALONE) {
        ops[count++] = make_product(j, s, src, wei, dst);
        return cudnn_operations(s, ops, count);
    }
    const int64_t uid = (j->type == BF16 ? ROUND : BIA) + 1;
    descriptor sums = cudnn_tensor(s, INSIDE, CUDNN_DATA_FLOAT, &j->dst, true),
               bia = cudnn_tensor(s, uid, type, &j->bia, false),
               all = j->act == ACT_NONE ? dst : cudnn_tensor(s, INSIDE_2, CUDNN_DATA_FLOAT, &j->dst, true);
    ops[count++] = make_product(j, s, src, wei, sums);
    ops[count++] = cudnn_add(s, sums, bia, all);
    if (j->act != ACT_NONE)
        ops[count++] = cudnn_relu(s, all, dst);
    return cudnn_operations(s, ops, count);
}

/* Whether cuDNN's graphs have all of it: see the head of the file. */
static bool can_fuse(const job *j)
{
    return j->product == FORWARD && j->bias && j->act != ACT_RELU6;
}

static int count_ways(const job *j)
{
    return can_fuse(j) ? 2 : 1;
}

static unsigned tensors_of(const job *j, int way)
{
    const unsigned three = 1u << SRC | 1u << WEI | 1u << DST;
    return way == ALONE ? three : three | 1u << (j->type == BF16 ? ROUND : BIA);
}

/* --- timing ---------------------------------------------------------------------------------------------------- */

static int64_t pixels(const job *j)
{
    return j->dst.dim[0] * shape_span(&j->dst, 2, 4);
}

static void start_finish(const job *j, void *dst, const float *bia)
{
    if (bia || j->act != ACT_NONE)
        conv2d_cuda_finish(j->queue, dst, j->type, bia, pixels(j), j->dst.dim[1], j->act);
}

/* The weights and the bias of channel 0 are NaN where there is an activation that must keep it: all bits set. */
static void fill(const void *user, void *const *data)
{
    const job *j = user;
    const cudaStream_t stream = j->queue->stream;
    conv2d_cuda_fill(j->queue, data[SRC], j->type, shape_count(&j->src));
    conv2d_cuda_fill(j->queue, data[WEI], j->type, shape_count(&j->wei));
    conv2d_cuda_fill(j->queue, data[DST], j->type, shape_count(&j->dst));
    if (j->bias)
        conv2d_cuda_fill(j->queue, data[BIA], F32, j->bia.dim[1]);
    if (j->product == FORWARD && j->act != ACT_NONE)
        (void)cudaMemsetAsync(data[WEI], 0xff, (size_t)shape_span(&j->wei, 1, 4) * dtype_size(j->type), stream);
    if (j->product == FORWARD && j->act != ACT_NONE && j->bias)
        (void)cudaMemsetAsync(data[BIA], 0xff, sizeof(float), stream);
}

static void before(const void *user, int way, void *const *data)
{
    const job *j = user;
    if (way == FUSED && j->type == BF16)
        conv2d_cuda_round(j->queue, data[BIA], j->dst.dim[1], data[ROUND]);
}

static void after(const void *user, int way, void *const *data)
{
    const job *j = user;
    if (j->product == FORWARD && way == ALONE)
        start_finish(j, data[DST], j->bias ? data[BIA] : NULL);
}

/* Whether NaN has come through the activation: in channel 0 of the first pixel. */
static bool accepts(const void *user, int way, void *const *data)
{
    const job *j = user;
    uint32_t bits = 0;
    const size_t size = dtype_size(j->type);
    if (way == ALONE || j->act == ACT_NONE)
        return true;
    if (cudaMemcpyAsync(&bits, data[DST], size, cudaMemcpyDeviceToHost, j->queue->stream) != cudaSuccess ||
        cudaStreamSynchronize(j->queue->stream) != cudaSuccess)
        return false;
    bits = j->type == BF16 ? bits << 16 : bits;
    return (bits & 0x7fffffff) > 0x7f800000;
}

/* --- a node ---------------------------------------------------------------------------------------------------- */

/* Padding behind the input that no window reaches may as well be what is before it: most engines want both alike. */
static void read_axis(const window *w, int64_t *front, int64_t *behind, int64_t *stride, int64_t *dilation)
{
    const int64_t reach = w->dilation * (w->size - 1) + 1, room = w->in + 2 * w->before - reach;
    *front = w->before;
    *behind = room >= 0 && room / w->stride + 1 == w->out ? w->before : w->after;
    *stride = w->stride;
    *dilation = w->dilation;
}

static job read_job(graph *g, const node *n, product what, int src, int wei, int dst)
{
    const conv2d_attr *t = n->attr;
    job j = {.queue = queue_of_graph(g),
             .product = what,
             .src = g->values[src].shape,
             .wei = g->values[wei].shape,
             .dst = g->values[dst].shape,
             .type = g->precision == BRASA_BF16 ? BF16 : F32,
             .bias = what == FORWARD ? n->nin > 2 : n->nout > 1,
             .act = n->act};
    const window y = window_y(&t->window, &j.src, &j.dst), x = window_x(&t->window, &j.src, &j.dst);
    read_axis(&y, &j.before[0], &j.after[0], &j.stride[0], &j.dilation[0]);
    read_axis(&x, &j.before[1], &j.after[1], &j.stride[1], &j.dilation[1]);
    j.bia = shape_4(1, j.dst.dim[1], 1, 1);
    return j;
}

/* The job in words, for the file of engines. */
static void name_job(const job *j, int32_t precision, char key[CUDNN_KEY_SIZE])
{
    static const char *const products[] = {[FORWARD] = "forward", [DATA] = "data", [WEIGHTS] = "weights"};
    static const char *const precisions[] = {[BRASA_F32] = "f32", [BRASA_TF32] = "tf32", [BRASA_BF16] = "bf16"};
    static const char *const acts[] = {[ACT_NONE] = "", [ACT_RELU] = " relu", [ACT_RELU6] = " relu6"};
    snprintf(key, CUDNN_KEY_SIZE,
             "conv2d %s %s %s %s pad %lld,%lld,%lld,%lld stride %lldx%lld dilation %lldx%lld%s%s",
             products[j->product], precisions[precision], shape_print(&j->src).text, shape_print(&j->wei).text,
             (long long)j->before[0], (long long)j->before[1], (long long)j->after[0], (long long)j->after[1],
             (long long)j->stride[0], (long long)j->stride[1], (long long)j->dilation[0], (long long)j->dilation[1],
             j->product == FORWARD && j->bias ? " bias" : "", acts[j->act]);
}

/* Old versions count the elements of a tensor in 32 bits. */
static bool too_large(const job *j)
{
    enum { COUNTS_IN_64_BITS = 90300 };
    const int64_t most = INT32_MAX;
    return j->queue->cudnn->version < COUNTS_IN_64_BITS &&
           (shape_count(&j->src) > most || shape_count(&j->wei) > most || shape_count(&j->dst) > most);
}

/* Engines without tensor cores want pictures as NCHW, and room for all tensors in that order: they have it, as long
 * as it is a small part of the GPU's memory. */
static int64_t most_workspace(const graph *g, const job *j)
{
    const int64_t usual = INT64_C(512) << 20, most = (int64_t)(g->ctx->device->memory / 16);
    const int64_t count = shape_count(&j->src) + shape_count(&j->wei) + shape_count(&j->dst);
    const int64_t wanted = (count + count / 4) * (int64_t)dtype_size(j->type), given = wanted < most ? wanted : most;
    return given > usual ? given : usual;
}

static brasa_status choose_plan(graph *g, conv2d_state *state)
{
    static const int results[] = {[FORWARD] = DST, [DATA] = SRC, [WEIGHTS] = WEI};
    const job *j = &state->job;
    const int64_t size = (int64_t)dtype_size(j->type);
    char key[CUDNN_KEY_SIZE];
    const cudnn_problem p = {
        .key = key,
        .precision = g->precision,
        .most_workspace = most_workspace(g, j),
        .tuner = g->tuner,
        .ways = count_ways(j),
        .uses = {tensors_of(j, ALONE), tensors_of(j, FUSED)},
        .describe = describe,
        .bytes = {shape_count(&j->src) * size, shape_count(&j->wei) * size, shape_count(&j->dst) * size,
                  j->bia.dim[1] * (int64_t)sizeof(float), j->bia.dim[1] * size},
        .result = results[j->product],
        .fill = fill,
        .before = before,
        .after = after,
        .accepts = accepts,
        .user = j,
    };
    name_job(j, g->precision, key);
    return cudnn_choose(j->queue, &p, &state->plan);
}

static void close_state(brasa_context *ctx, void *state)
{
    conv2d_state *c = state;
    if (c->packs.lib)
        cudnn_free(&c->packs);
    cudnn_plan_free(ctx, c->plan);
    mem_put(ctx, c);
}

static brasa_status open_product(graph *g, node *n, product what, int src, int wei, int dst)
{
    if (!queue_of_graph(g)->cudnn)
        return BRASA_NO_KERNEL;
    const job j = read_job(g, n, what, src, wei, dst);
    if (too_large(&j))
        return BRASA_NO_KERNEL;
    conv2d_state *state = mem_get(g->ctx, sizeof *state);
    if (!state)
        return fail_memory(g->ctx, sizeof *state);
    state->job = j;
    state->packs.lib = j.queue->cudnn;
    const brasa_status status = choose_plan(g, state);
    if (status == BRASA_OK)
        n->state = state;
    else
        close_state(g->ctx, state);
    return status;
}

static brasa_status open_forward(graph *g, node *n)
{
    return open_product(g, n, FORWARD, n->in[0], n->in[1], n->out[0]);
}

static brasa_status open_data(graph *g, node *n)
{
    return open_product(g, n, DATA, n->out[0], n->in[0], n->in[1]);
}

static brasa_status open_weights(graph *g, node *n)
{
    return open_product(g, n, WEIGHTS, n->in[0], n->out[0], n->in[1]);
}

/* --- steps ----------------------------------------------------------------------------------------------------- */

/* cuDNN's workspace, at a multiple of this many bytes; behind it the bias in 16 bits, or what its gradient needs. */
enum { ALIGN = 256 };

static int64_t align_up(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static bool rounds_bias(const conv2d_state *c)
{
    return c->plan->engine.way == FUSED && c->job.type == BF16;
}

static int64_t workspace(const graph *g, const node *n)
{
    const conv2d_state *c = n->state;
    const job *j = &c->job;
    const int64_t channels = j->dst.dim[1];
    int64_t bytes = align_up(c->plan->workspace);
    if (rounds_bias(c))
        bytes += channels * (int64_t)dtype_size(BF16);
    if (j->product == WEIGHTS && j->bias)
        bytes += conv2d_cuda_bias_bytes(queue_of_graph(g), pixels(j), channels);
    return bytes ? bytes + ALIGN : 0;
}

static char *plan_workspace(const step *s)
{
    char *at = s->workspace;
    return at ? at + (ALIGN - (uintptr_t)at % ALIGN) % ALIGN : NULL;
}

static void *own_workspace(const step *s)
{
    const conv2d_state *c = s->state;
    return s->workspace ? plan_workspace(s) + align_up(c->plan->workspace) : NULL;
}

static brasa_status bind(const step *s)
{
    conv2d_state *c = s->state;
    const product what = c->job.product;
    cudnn *lib = queue_of(s)->cudnn;
    void *data[CUDNN_MOST_TENSORS] = {NULL};
    data[SRC] = what == DATA ? s->out[0].data : s->in[0].data;
    data[WEI] = what == FORWARD ? s->in[1].data : what == DATA ? s->in[0].data : s->out[0].data;
    data[DST] = what == FORWARD ? s->out[0].data : s->in[1].data;
    data[BIA] = what == FORWARD && c->job.bias ? s->in[2].data : NULL;
    data[ROUND] = own_workspace(s);
    cudnn_free(&c->packs);
    c->packs.status = CUDNN_STATUS_SUCCESS;
    c->pack = cudnn_pack(&c->packs, tensors_of(&c->job, c->plan->engine.way), data, plan_workspace(s));
    return cudnn_fail(lib, c->packs.status, s->node->name);
}

static brasa_status run(const step *s)
{
    const conv2d_state *c = s->state;
    const job *j = &c->job;
    cudnn *lib = queue_of(s)->cudnn;
    if (rounds_bias(c))
        conv2d_cuda_round(queue_of(s), s->in[2].data, j->dst.dim[1], own_workspace(s));
    const cudnnStatus_t status = cudnn_start(lib, c->plan, c->pack);
    if (status != CUDNN_STATUS_SUCCESS)
        return cudnn_fail(lib, status, s->node->name);
    if (j->product == FORWARD && c->plan->engine.way == ALONE)
        start_finish(j, s->out[0].data, j->bias ? s->in[2].data : NULL);
    if (j->product == WEIGHTS && j->bias)
        conv2d_cuda_bias_grad(queue_of(s), s->in[1].data, j->type, s->out[1].data, pixels(j), j->dst.dim[1],
                              own_workspace(s));
    return cuda_started(s);
}

static bool tell_choice(const void *state, device_choice *out)
{
    static const char *const behind[][3] = {
        [FORWARD] = {"conv", "conv+bias", "conv+bias+relu"}, [DATA] = {"dgrad"}, [WEIGHTS] = {"wgrad"}};
    const conv2d_state *c = state;
    const char *const *names = behind[c->job.product];
    const char *const of_ways[] = {[ALONE] = names[0], [FUSED] = names[c->job.act == ACT_NONE ? 1 : 2]};
    return cudnn_tell_choice(c->plan, count_ways(&c->job), of_ways, out);
}

#define ROW(operation, open_hook)                                                                                    \
    {                                                                                                                \
        operation,                                                                                                   \
        {                                                                                                            \
            .name = operation "_cudnn", .real = F32, .vendor = true, .formats = conv2d_cuda_formats,                 \
            .open = open_hook, .close = close_state, .workspace = workspace, .bind = bind, .run = run,               \
            .choice = tell_choice                                                                                    \
        }                                                                                                            \
    }

extern const backend_kernel conv2d_cudnn_cuda[];
const backend_kernel conv2d_cudnn_cuda[] = {
    ROW("conv2d", open_forward),
    ROW("conv2d_grad_data", open_data),
    ROW("conv2d_grad_weights", open_weights),
    CUDA_END,
};
