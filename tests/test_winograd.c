/* test_winograd.c - how far the algorithms of Winograd and Strassen are from the truth, on layers as networks have
 * them and at the edges of what the kernels tell apart. The reference is the plain convolution in double.
 *
 * Measured with AVX2 and AVX-512, the worst of all outputs of stride 1 below: 2.0e-6 in the mean, 4.7e-6 at the most.
 * With the points 1 and 2 in place of 5/8 and 3/2 (winograd.h) it is 3.5e-6 and 1.6e-5, which fails here. Where tiles
 * are larger: 3.4e-6 and 8.1e-6 of large windows, 3.1e-6 and 1.3e-5 of stride 2. With sums over all channels and
 * tiles in one piece (SUM in lines8.h) the former were 7.9e-6 and 2.0e-5. */
#include "test.h"
#include "each_case.h"
#include "core/random.h"
#include "train/task.h"

/* The kernels whose names hold a text, and how far they may be off: see distance. */
typedef struct family {
    const char *kernels;
    double rms, most;
    int outputs; /* that they make, in a layer with a bias */
} family;

static const family tiles6 = {"winograd_avx", 4e-6, 1e-5, 4}, tiles8 = {"winograd8_avx", 6e-6, 1.5e-5, 4},
                    many8 = {"winograd8_avx", 2e-6, 6e-6, 4}, pictures8 = {"winograd8_avx", 6e-6, 1.5e-5, 3},
                    stride2 = {"stride2_avx", 6e-6, 2.5e-5, 4}, strassen = {"strassen_avx", 4e-6, 1e-5, 2};

typedef struct distance {
    double rms, most; /* relative to the root mean square, and to the largest element, of the reference */
} distance;

static distance distance_of(const proof *p, const proof *ref, int v)
{
    double error = 0, scale = 0, most = 0, largest = 0, *got = proof_numbers(p, v), *want = proof_numbers(ref, v);
    for (int64_t i = 0, count = proof_count(ref, v); i < count; i++) {
        const double off = got[i] - want[i];
        error += off * off;
        scale += want[i] * want[i];
        most = fmax(most, fabs(off));
        largest = fmax(largest, fabs(want[i]));
    }
    free(got);
    free(want);
    return (distance){sqrt(error / scale), most / largest};
}

/* The reference of a layer; to be freed, and its graph cleared. */
static brasa_status make_reference(brasa_context *ctx, const op_case *c, graph *g, proof *ref)
{
    graph_init(g, ctx);
    CHECK_STATUS(case_build(g, op_find("conv2d"), c), BRASA_OK);
    return proof_make(ref, g, (proof_options){.real = F64, .gradients = true, .keep_all = true});
}

/* With -v it says how far off each output is. */
static int check_layer(brasa_context *ctx, const family *f, const op_case *c, const proof *ref)
{
    graph g;
    proof p;
    int checked = 0;
    graph_init(&g, ctx);
    CHECK_STATUS(case_build(&g, op_find("conv2d"), c), BRASA_OK);
    const brasa_status status =
        proof_make(&p, &g, (proof_options){.gradients = true, .keep_all = true, .kernels = f->kernels});
    CHECK_STATUS(status, BRASA_OK);
    for (int i = 0; status == BRASA_OK && i < p.program.graph.nnodes; i++) {
        const node *n = &p.program.graph.nodes[i];
        if (!strstr(n->kernel->name, f->kernels))
            continue;
        for (int k = 0; k < n->nout; k++, checked++) {
            const distance d = distance_of(&p, ref, n->out[k]);
            if (tests.verbose)
                printf("%.2e %.2e is output %d of %s\n", d.rms, d.most, k, n->kernel->name);
            if (!(d.rms <= f->rms && d.most <= f->most))
                test_fail(__FILE__, __LINE__, "output %d of %s is off by %.2e in the mean, %.2e at the most", k,
                          n->kernel->name, d.rms, d.most);
        }
    }
    proof_free(&p);
    graph_clear(&g);
    return checked;
}

static const op_case layers[] = {
    {"1x64x56x56", "64 3x3 pad=1"}, {"1x128x28x28", "128 3x3 pad=1"}, {"2x256x14x14", "256 3x3 pad=1"},
    {"3x512x7x7", "512 3x3 pad=1"}, {"2x192x13x13", "384 3x3 pad=1"},
};

/* One picture and many, no tile that is full, pads of all sizes, an odd number of blocks of channels, more channels
 * than a chunk has with many tiles and with few, channels that do not fill their block. */
static const op_case edges[] = {
    {"2x16x7x7", "16 3x3"},
    {"3x48x7x9", "32 3x3 pad=2"},
    {"1x32x9x6", "80 3x3 pad=0,1,2,1"},
    {"2x32x8x8", "32 3x3 pad=3,4,4,3"},
    {"33x272x5x5", "24 3x3 pad=1"},
    {"4x24x5x5", "272 3x3 pad=1 bias=no"},
    {"2x17x10x11", "33 3x3 pad=1"},
    {"9x36x13x17", "20 3x3"},
    {"6x16x3x3", "32 3x3 pad=1"}, /* so small that one thread does all, in one piece */
    {"6x32x3x3", "128 3x3 pad=1"},
    {"4x24x4x4", "80 3x3 pad=1"},
};

/* With 1, 1 + more, ... threads; the reference takes far longer than the kernels, and is made once. */
static void check_layers(const family *f, const op_case *c, size_t count, int more)
{
    brasa_context *all = context_of(0);
    if (all->isa == ISA_ANY) {
        brasa_context_free(all);
        SKIP("needs AVX2");
    }
    for (size_t i = 0; i < count; i++) {
        OWNED(graph) g = {0};
        OWNED(proof) ref = {0};
        const brasa_status status = make_reference(all, &c[i], &g, &ref);
        for (int threads = 1; threads <= 4; threads += more) {
            CASE("'%s' on %s, %d threads", c[i].layer, c[i].in, threads);
            CHECK_STATUS(status, BRASA_OK);
            OWNED(brasa_context) *ctx = context_of(threads);
            if (status == BRASA_OK)
                CHECK_INT(check_layer(ctx, f, &c[i], &ref), f->outputs - !!strstr(c[i].layer, "bias=no"));
        }
    }
    brasa_context_free(all);
}

TEST(layers_of_networks)
{
    check_layers(&tiles6, layers, sizeof layers / sizeof layers[0], 2);
}

TEST(edges)
{
    check_layers(&tiles6, edges, sizeof edges / sizeof edges[0], 1);
}

/* Left to direct kernels: few outputs, and tiles that are nearly empty. What networks have is above. */
static const op_case empty[] = {
    {"4x256x3x3", "256 3x3"},
    {"64x32x2x2", "32 3x3 pad=1"},
    {"32x32x4x4", "64 3x3"},
    {"1x64x5x5", "64 3x3 pad=1"},
};

TEST(empty_tiles)
{
    check_layers(&(family){.kernels = "winograd_avx"}, empty, sizeof empty / sizeof empty[0], 4);
}

/* Large windows: of alexnet, with many channels forward and by the data, with few. */
static const op_case large[] = {
    {"1x64x13x13", "192 5x5 pad=2"},
    {"1x512x10x10", "128 5x5 pad=2"},
    {"2x64x10x10", "330 4x4"},
    {"3x17x14x13", "24 4x4 pad=1"},
};

TEST(large_windows)
{
    check_layers(&tiles8, large, sizeof large / sizeof large[0], 2);
}

/* So many tiles that sums of the weight gradient are long, and so few channels that the others are short. */
static const op_case many[] = {{"8x4x32x32", "112 5x5 pad=2"}};

TEST(many_tiles)
{
    check_layers(&many8, many, 1, 2);
}

/* First layers of alexnet and resnet50, and one of grey pictures; nobody asks for their data gradients. The first has
 * 25 tiles, which on one thread are one run, and no multiple of a group. */
static const op_case first[] = {
    {"1x3x115x115", "64 11x11 stride=4 pad=2"},
    {"2x3x112x112", "64 7x7 stride=2 pad=3"},
    {"4x1x40x40", "20 5x5 stride=2"},
};

TEST(first_layers)
{
    check_layers(&pictures8, first, sizeof first / sizeof first[0], 2);
}

/* Layers of resnet50, and the edges: see above. Pads of both kinds, as in the data gradient they decide whether a
 * tile begins with an odd pixel or an even one. */
static const op_case strides[] = {
    {"2x128x56x56", "128 3x3 stride=2 pad=1 bias=no"},
    {"2x256x28x28", "256 3x3 stride=2 pad=1 bias=no"},
    {"8x512x14x14", "512 3x3 stride=2 pad=1 bias=no"},
    {"4x48x13x29", "96 3x3 stride=2 pad=1"},
    {"2x32x27x27", "144 3x3 stride=2"},
    {"8x24x13x13", "180 3x3 stride=2 pad=2,0,1,1"},
    {"40x17x13x13", "245 3x3 stride=2 pad=3,2,0,0"},
};

TEST(stride_2)
{
    check_layers(&stride2, strides, sizeof strides / sizeof strides[0], 2);
}

/* Whole rows of pixels and rows that end with the sample, an odd number of blocks of channels, channels that do
 * not fill their block, more of them than a chunk has. The weight gradient is not made this way. */
static const op_case products[] = {
    {"1x128x56x56", "256 1x1"}, {"1x512x28x28", "128 1x1"}, {"1x512x14x14", "1024 1x1"},
    {"2x158x15x18", "272 1x1"}, {"1x1040x9x28", "158 1x1"},
};

TEST(products)
{
    check_layers(&strassen, products, sizeof products / sizeof products[0], 2);
}

/* --- samples --------------------------------------------------------------------------------------------------- */

enum { SAMPLES = 3 };

/* The outputs of `kernels` for these inputs; false where there is no such kernel here. */
static bool evaluate(const char *layer, const shape *in, const char *kernels, const float *src, float *dst,
                     size_t bytes)
{
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_session *s = NULL;
    brasa_output(brasa_apply(brasa_input(g, "x", (int)in->dim[1], (int)in->dim[2], (int)in->dim[3]), "%s", layer),
                 "y");
    const brasa_session_options o = {.size = sizeof o, .batch = SAMPLES, .inference = true, .kernels = kernels};
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    const char *used[16];
    bool ours = false;
    for (int i = s ? session_kernels(s, used, 16) - 1 : -1; i >= 0; i--)
        ours = ours || strstr(used[i], kernels);
    if (ours) {
        CHECK_STATUS(brasa_feed(s, "x", src, (size_t)shape_count(in) * sizeof *src), BRASA_OK);
        CHECK_STATUS(brasa_evaluate(s), BRASA_OK);
        CHECK_STATUS(brasa_fetch(s, "y", dst, bytes), BRASA_OK);
    }
    brasa_session_free(s);
    brasa_graph_free(g);
    return ours;
}

/* A sample's outputs are its own, to the bit, whatever stands beside it in the batch. */
TEST(samples_do_not_mix)
{
    static const struct {
        const char *kernels, *layer;
        shape in;
        int64_t outputs; /* of a sample */
    } rows[] = {
        {"winograd_avx", "conv 48 3x3 pad=1", {4, {SAMPLES, 32, 7, 9}}, 48 * 7 * 9},
        {"winograd8_avx", "conv 48 5x5 pad=2", {4, {SAMPLES, 32, 13, 9}}, 48 * 13 * 9},
        {"stride2_avx", "conv 144 3x3 stride=2 pad=1", {4, {SAMPLES, 32, 27, 27}}, 144 * 14 * 14},
        {"strassen_avx", "conv 128 1x1", {4, {SAMPLES, 128, 15, 18}}, 128 * 15 * 18},
    };
    enum { MOST = SAMPLES * 128 * 15 * 18 };
    static float src[MOST], before[MOST], after[MOST];
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const int64_t inputs = shape_count(&rows[r].in) / SAMPLES, outputs = rows[r].outputs;
        const size_t bytes = (size_t)(SAMPLES * outputs) * sizeof *after;
        CASE("%s", rows[r].kernels);
        for (int64_t i = 0; i < SAMPLES * inputs; i++)
            src[i] = (float)random_normal(&(random_stream){.purpose = RANDOM_TEST}, (uint64_t)i);
        if (!evaluate(rows[r].layer, &rows[r].in, rows[r].kernels, src, before, bytes))
            SKIP("needs AVX2");
        for (int64_t i = inputs; i < 2 * inputs; i++)
            src[i] = INFINITY;
        CHECK(evaluate(rows[r].layer, &rows[r].in, rows[r].kernels, src, after, bytes));
        CHECK(memcmp(before, after, (size_t)outputs * sizeof *after) == 0);
        CHECK(memcmp(before + 2 * outputs, after + 2 * outputs, (size_t)outputs * sizeof *after) == 0);
        CHECK(memcmp(before + outputs, after + outputs, (size_t)outputs * sizeof *after) != 0);
    }
}
