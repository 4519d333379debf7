/* test_cuda_dense.c - what dense layers on a GPU make of what cuBLASLt can do: which products they take, and what is
 * left to kernels of ours; with the stand-ins of products_rig.h. */
#define _GNU_SOURCE
#include "test.h"

#ifdef TEST_CUDA_HOST

#include "products_rig.h"

#include "ops/dense/dense_cuda.h"

/* --- our kernels ------------------------------------------------------------------------------------------------ */

/* What was left to them since it was made 0. */
static struct {
    int finished, sums;
    bool bias;
    activation act;
} left;

void dense_cuda_formats(const graph *g, const node *n, format *in, format *out)
{
    (void)g, (void)n, (void)in, (void)out;
}

void dense_cuda_formats_gradient(const graph *g, const node *n, format *in, format *out)
{
    (void)g, (void)n, (void)in, (void)out;
}

void dense_cuda_finish(cudaStream_t stream, void *dst, dtype type, int64_t N, int64_t K, const float *bia,
                       activation act)
{
    CHECK(stream == rig.queue->stream && dst && N == 32 && K == 48);
    CHECK_INT(type, rig.ran.bf16 ? BF16 : F32);
    left.finished++;
    left.bias = bia != NULL;
    left.act = act;
}

void dense_cuda_bias_gradient(cudaStream_t stream, const void *ddst, dtype type, int64_t N, int64_t K, float *dbia)
{
    CHECK(stream == rig.queue->stream && ddst && dbia && N == 32 && K == 48);
    CHECK_INT(type, rig.ran.bf16 ? BF16 : F32);
    left.sums++;
}

/* --- a layer ---------------------------------------------------------------------------------------------------- */

typedef enum which { FORWARD, OF_DATA, OF_WEIGHTS } which;

/* A node of a layer with 40 inputs and 48 outputs, for 32 samples. */
typedef struct layer {
    const kernel *kernel;
    graph graph;
    value values[5];
    node node;
    int in[3], out[2];
    brasa_status opened_with;
    bool upper; /* the bias is wanted in 16 bits */
} layer;

enum { SRC, WEI, BIA, DST };

static void layer_open(layer *l, which w, int32_t precision, bool bias, activation act)
{
    static const int in[3][3] = {{SRC, WEI, BIA}, {WEI, DST}, {SRC, DST}}, out[3][2] = {{DST}, {SRC}, {WEI, BIA}};
    *l = (layer){.kernel = &dense_cublaslt_cuda[w].kernel,
                 .graph = {.ctx = ctx, .precision = precision, .tuner = rig.tuner},
                 .values = {[SRC] = {.shape = shape_2(32, 40)},
                            [WEI] = {.shape = shape_2(48, 40)},
                            [BIA] = {.shape = shape_1(48)},
                            [DST] = {.shape = shape_2(32, 48)}},
                 .node = {.name = "a layer", .nin = 2 + (bias && w == FORWARD), .act = act}};
    l->graph.values = l->values;
    l->node.nout = 1 + (bias && w == OF_WEIGHTS);
    memcpy(l->in, in[w], sizeof l->in);
    memcpy(l->out, out[w], sizeof l->out);
    l->node.in = l->in;
    l->node.out = l->out;
    CHECK(l->kernel->supports(&l->graph, &l->node));
    l->opened_with = l->kernel->open(&l->graph, &l->node);
    CHECK((l->opened_with == BRASA_OK) == (l->node.state != NULL));
    if (l->node.state) {
        format to_read[3] = {{0}}, to_write[2] = {{0}};
        l->kernel->formats(&l->graph, &l->node, to_read, to_write);
        l->upper = l->node.nin > 2 && to_read[2].storage == BF16;
    }
}

static _Alignas(64) char memories[4][64 * 64 * sizeof(float)]; /* of SRC, ... */

/* Runs it once; what was done is in `rig` and `left`. */
static brasa_status layer_run(layer *l)
{
    char *all = memories[0];
    void *block = malloc((size_t)l->kernel->workspace(&l->graph, &l->node) + 1);
    arg in[3], out[2];
    for (size_t i = 0; i < sizeof memories; i++) /* half, as floats and in 16 bits */
        all[i] = i % 2 ? 0x3f : 0;
    for (int k = 0; k < 3; k++)
        in[k] = (arg){.data = memories[l->in[k]], .shape = l->values[l->in[k]].shape};
    for (int k = 0; k < 2; k++)
        out[k] = (arg){.data = memories[l->out[k]], .shape = l->values[l->out[k]].shape};
    for (int k = 0; k < 3; k++)
        in[k].format.storage = out[k % 2].format.storage = l->graph.precision == BRASA_BF16 ? BF16 : F32;
    const step s = {.kernel = l->kernel,
                    .node = &l->node,
                    .nin = l->node.nin,
                    .nout = l->node.nout,
                    .in = in,
                    .out = out,
                    .workspace = block,
                    .state = l->node.state,
                    .queue = rig.queue};
    memset(&left, 0, sizeof left);
    const brasa_status status = l->kernel->run(&s);
    free(block);
    return status;
}

/* What the library was told to do: d = a x b. */
static void check_product(cublaslt_product p, int a, int b, int d, int32_t precision)
{
    p.bf16 = precision == BRASA_BF16;
    p.tf32 = precision == BRASA_TF32;
    check_same_product(&rig.ran, &p);
    CHECK(rig.a == memories[a] && rig.b == memories[b] && rig.d == memories[d]);
}

static void layer_close(layer *l)
{
    if (l->node.state)
        l->kernel->close(ctx, l->node.state);
}

/* --- forward ---------------------------------------------------------------------------------------------------- */

#define LACKS(extra) (1u << (extra))

/* The product does as much of bias and activation as the library can with it; the rest is left to a kernel of ours,
 * and where the library cannot multiply at all, the layer is. */
TEST(bias_and_activation)
{
    static const struct {
        const char *what;
        activation act;
        bool bias, careless;
        unsigned lacks;
        brasa_status status;
        cublaslt_extra extra;
        bool left_bias;
        activation left_act;
    } rows[] = {
        {"nothing", ACT_NONE, .extra = LT_NOTHING},
        {"bias", ACT_NONE, .bias = true, .extra = LT_BIAS},
        {"relu", ACT_RELU, .extra = LT_RELU},
        {"bias, relu", ACT_RELU, .bias = true, .extra = LT_BIAS_RELU},
        {"relu6", ACT_RELU6, .extra = LT_NOTHING, .left_act = ACT_RELU6},
        {"bias, relu6", ACT_RELU6, .bias = true, .extra = LT_BIAS, .left_act = ACT_RELU6},
        {"bias, which it lacks", ACT_NONE, .bias = true, .lacks = LACKS(LT_BIAS), .left_bias = true},
        {"relu, which it lacks", ACT_RELU, .lacks = LACKS(LT_RELU), .left_act = ACT_RELU},
        {"bias, relu, of which it lacks both together", ACT_RELU, .bias = true, .lacks = LACKS(LT_BIAS_RELU),
         .extra = LT_BIAS, .left_act = ACT_RELU},
        {"bias, relu, of which it lacks all", ACT_RELU, .bias = true,
         .lacks = LACKS(LT_BIAS_RELU) | LACKS(LT_BIAS) | LACKS(LT_RELU), .left_bias = true, .left_act = ACT_RELU},
        {"bias, relu, which is careless", ACT_RELU, .bias = true, .careless = true, .extra = LT_BIAS,
         .left_act = ACT_RELU},
        {"products, which it lacks", ACT_RELU, .bias = true, .lacks = ~0u, .status = BRASA_NO_KERNEL},
    };
    for (size_t i = 0; i < 2 * (sizeof rows / sizeof rows[0]); i++) {
        const bool half = i % 2;
        layer l;
        CASE("%s, %s", rows[i / 2].what, half ? "bf16" : "f32");
        begin(three, 3);
        for (int k = 0; k < 3; k++) {
            rig.algorithm[k].lacks = rows[i / 2].lacks;
            rig.algorithm[k].careless = rows[i / 2].careless;
        }
        layer_open(&l, FORWARD, half ? BRASA_BF16 : BRASA_F32, rows[i / 2].bias, rows[i / 2].act);
        CHECK_STATUS(l.opened_with, rows[i / 2].status);
        if (l.opened_with == BRASA_OK) {
            device_choice told;
            CHECK_STATUS(layer_run(&l), BRASA_OK);
            check_product((cublaslt_product){48, 32, 40, .turn_a = true, .extra = rows[i / 2].extra}, WEI, SRC, DST,
                          half ? BRASA_BF16 : BRASA_F32);
            CHECK_INT(left.finished, rows[i / 2].left_bias || rows[i / 2].left_act != ACT_NONE);
            CHECK_INT(left.bias, rows[i / 2].left_bias);
            CHECK_INT(left.act, rows[i / 2].left_act);
            CHECK_INT(l.upper, half && rows[i / 2].bias && !rows[i / 2].left_bias);
            CHECK(l.kernel->choice(l.node.state, &told));
        }
        layer_close(&l);
        tear_down();
    }
}

/* Want of memory is no reason to take another kernel: the layer says so, and is not done without its activation. */
TEST(no_memory)
{
    layer l;
    begin(three, 3);
    rig.left = 0;
    layer_open(&l, FORWARD, BRASA_F32, true, ACT_RELU);
    CHECK_STATUS(l.opened_with, BRASA_OUT_OF_MEMORY);
    CHECK_INT(rig.asked, 1);
    layer_close(&l);
    tear_down();
}

/* --- gradients -------------------------------------------------------------------------------------------------- */

/* The gradient of the bias is made with that of the weights where that takes no longer than to start a kernel for it;
 * not in 16 bits, where it would be rounded. */
TEST(gradient_of_the_bias)
{
    static const struct {
        const char *what;
        int32_t precision;
        bool bias;
        float dear; /* milliseconds that it takes */
        unsigned lacks;
        cublaslt_extra extra;
    } rows[] = {
        {"as fast", BRASA_F32, true, 0, 0, LT_BIAS_GRADIENT},
        {"slower by little", BRASA_F32, true, 0.002f, 0, LT_BIAS_GRADIENT},
        {"slower", BRASA_F32, true, 0.003f, 0, LT_NOTHING},
        {"in tf32", BRASA_TF32, true, 0, 0, LT_BIAS_GRADIENT},
        {"in bf16", BRASA_BF16, true, 0, 0, LT_NOTHING},
        {"it lacks that", BRASA_F32, true, 0, LACKS(LT_BIAS_GRADIENT), LT_NOTHING},
        {"no bias", BRASA_F32, false, 0, 0, LT_NOTHING},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        layer l;
        CASE("%s", rows[i].what);
        begin(three, 3);
        for (int k = 0; k < 3; k++) {
            rig.algorithm[k].lacks = rows[i].lacks;
            rig.algorithm[k].dear = rows[i].dear;
        }
        layer_open(&l, OF_WEIGHTS, rows[i].precision, rows[i].bias, ACT_NONE);
        CHECK_STATUS(l.opened_with, BRASA_OK);
        if (l.opened_with == BRASA_OK)
            CHECK_STATUS(layer_run(&l), BRASA_OK);
        check_product((cublaslt_product){40, 48, 32, .turn_b = true, .extra = rows[i].extra}, SRC, DST, WEI,
                      rows[i].precision);
        CHECK_INT(left.sums, rows[i].bias && rows[i].extra == LT_NOTHING);
        layer_close(&l);
        tear_down();
    }
}

/* The gradient of the data is a product and nothing else; one that does not run is told. */
TEST(gradient_of_the_data)
{
    layer l;
    begin(three, 3);
    layer_open(&l, OF_DATA, BRASA_F32, true, ACT_NONE);
    CHECK_STATUS(l.opened_with, BRASA_OK);
    CHECK_STATUS(layer_run(&l), BRASA_OK);
    check_product((cublaslt_product){40, 32, 48}, WEI, DST, SRC, BRASA_F32);
    CHECK(rig.last == 1 && left.finished + left.sums == 0);
    rig.algorithm[1].fails = CUBLAS_STATUS_EXECUTION_FAILED;
    CHECK_STATUS(layer_run(&l), BRASA_INTERNAL);
    CHECK_HAS(brasa_context_error(ctx), "cuBLASLt: ");
    layer_close(&l);
    tear_down();
}

#else

TEST(dense_layers)
{
    SKIP("CUDA's headers are not here");
}

#endif
