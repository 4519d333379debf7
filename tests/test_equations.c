/* test_equations.c - the dialects keras2 and caffe against their published equations.
 *
 * Neither framework can be installed any more, so what they compute is written out here, in double, from
 *     Keras 2.3.1: keras/optimizers.py, keras/layers/normalization.py, keras/initializers.py
 *     Caffe 1.0: src/caffe/solvers, src/caffe/layers/{batch_norm,lrn,pooling}_layer.cpp, include/caffe/filler.hpp,
 *     src/caffe/proto/caffe.proto
 */
#include "dialect.h"

/* --- optimizers ------------------------------------------------------------------------------------------------ */

/* A parameter's element with the optimizer's memory of it, and the equation of one update: k[] holds its constants,
 * t counts steps from 0. */
typedef struct cell {
    double p, m, v;
} cell;
typedef void (*equation)(cell *c, double g, double rate, const double *k, int t);

static void keras2_sgd(cell *c, double g, double rate, const double *k, int t)
{
    (void)t;
    c->v = k[0] * c->v - rate * g;
    c->p += k[1] != 0 ? k[0] * c->v - rate * g : c->v; /* k[1]: Nesterov */
}

static void keras2_rmsprop(cell *c, double g, double rate, const double *k, int t)
{
    (void)t;
    c->v = k[0] * c->v + (1 - k[0]) * g * g;
    c->p -= rate * g / (sqrt(c->v) + k[1]);
}

static void keras2_adadelta(cell *c, double g, double rate, const double *k, int t)
{
    (void)t;
    c->v = k[0] * c->v + (1 - k[0]) * g * g;
    double update = g * sqrt(c->m + k[1]) / sqrt(c->v + k[1]);
    c->p -= rate * update;
    c->m = k[0] * c->m + (1 - k[0]) * update * update;
}

static void keras2_adam(cell *c, double g, double rate, const double *k, int t)
{
    double corrected = rate * sqrt(1 - pow(k[1], t + 1)) / (1 - pow(k[0], t + 1));
    c->m = k[0] * c->m + (1 - k[0]) * g;
    c->v = k[1] * c->v + (1 - k[1]) * g * g;
    c->p -= corrected * c->m / (sqrt(c->v) + k[2]);
}

static void caffe_sgd(cell *c, double g, double rate, const double *k, int t)
{
    (void)t;
    c->v = rate * g + k[0] * c->v;
    c->p -= c->v;
}

static void caffe_nesterov(cell *c, double g, double rate, const double *k, int t)
{
    (void)t;
    double before = c->v;
    c->v = rate * g + k[0] * c->v;
    c->p -= (1 + k[0]) * c->v - k[0] * before;
}

static void caffe_adadelta(cell *c, double g, double rate, const double *k, int t)
{
    (void)t;
    c->v = (1 - k[0]) * g * g + k[0] * c->v;
    double update = g * sqrt((k[1] + c->m) / (k[1] + c->v));
    c->m = (1 - k[0]) * update * update + k[0] * c->m;
    c->p -= rate * update;
}

static void caffe_adam(cell *c, double g, double rate, const double *k, int t)
{
    double correction = sqrt(1 - pow(k[1], t + 1)) / (1 - pow(k[0], t + 1));
    c->m = (1 - k[0]) * g + k[0] * c->m;
    c->v = (1 - k[1]) * g * g + k[1] * c->v;
    c->p -= rate * correction * c->m / (sqrt(c->v) + k[2]);
}

static const struct {
    const char *dialect, *optimizer;
    equation update;
    double k[3], rate, decay, l2, clip;
} equations[] = {
    {"keras2", "sgd", keras2_sgd, {0, 0}, .rate = 0.01},
    {"keras2", "sgd lr=0.1 decay=0.5", keras2_sgd, {0, 0}, .rate = 0.1, .decay = 0.5},
    {"keras2", "sgd lr=0.1 momentum=0.9 decay=0.5", keras2_sgd, {0.9, 0}, .rate = 0.1, .decay = 0.5},
    {"keras2", "sgd lr=0.1 momentum=0.9 nesterov decay=0.5", keras2_sgd, {0.9, 1}, .rate = 0.1, .decay = 0.5},
    {"keras2", "sgd lr=0.1 momentum=0.9 weight_decay=0.3", keras2_sgd, {0.9, 0}, .rate = 0.1, .l2 = 0.3},
    {"keras2", "sgd lr=0.1", keras2_sgd, {0, 0}, .rate = 0.1, .clip = 0.25},
    {"keras2", "rmsprop", keras2_rmsprop, {0.9, 1e-7}, .rate = 0.001},
    {"keras2", "rmsprop lr=0.1 rho=0.7 decay=0.5", keras2_rmsprop, {0.7, 1e-7}, .rate = 0.1, .decay = 0.5},
    {"keras2", "adadelta", keras2_adadelta, {0.95, 1e-7}, .rate = 1},
    {"keras2", "adadelta lr=0.5 rho=0.8 decay=0.5", keras2_adadelta, {0.8, 1e-7}, .rate = 0.5, .decay = 0.5},
    {"keras2", "adam", keras2_adam, {0.9, 0.999, 1e-7}, .rate = 0.001},
    {"keras2", "adam lr=0.1 beta1=0.8 beta2=0.9 decay=0.5", keras2_adam, {0.8, 0.9, 1e-7}, .rate = 0.1, .decay = 0.5},
    {"caffe", "sgd lr=0.1 momentum=0.9 weight_decay=0.3", caffe_sgd, {0.9}, .rate = 0.1, .l2 = 0.3},
    {"caffe", "sgd lr=0.1 momentum=0.9 decay=0.5", caffe_sgd, {0.9}, .rate = 0.1, .decay = 0.5},
    {"caffe", "sgd lr=0.1 momentum=0.9 nesterov decay=0.5", caffe_nesterov, {0.9}, .rate = 0.1, .decay = 0.5},
    {"caffe", "sgd lr=0.1 weight_decay=0.3", caffe_sgd, {0}, .rate = 0.1, .l2 = 0.3, .clip = 0.25},
    {"caffe", "rmsprop lr=0.01", keras2_rmsprop, {0.99, 1e-8}, .rate = 0.01}, /* the same equation */
    {"caffe", "rmsprop lr=0.01 rho=0.7 weight_decay=0.3", keras2_rmsprop, {0.7, 1e-8}, .rate = 0.01, .l2 = 0.3},
    {"caffe", "adadelta", caffe_adadelta, {0.95, 1e-8}, .rate = 1},
    {"caffe", "adadelta lr=0.5 rho=0.8 weight_decay=0.3", caffe_adadelta, {0.8, 1e-8}, .rate = 0.5, .l2 = 0.3},
    {"caffe", "adam lr=0.01", caffe_adam, {0.9, 0.999, 1e-8}, .rate = 0.01},
    {"caffe", "adam lr=0.01 beta2=0.9 weight_decay=0.3", caffe_adam, {0.9, 0.9, 1e-8}, .rate = 0.01, .l2 = 0.3},
};

/* The gradient of the loss, for w and then b. */
static void gradient(int step, const cell c[ROWS], double g[ROWS])
{
    double x[ROWS][FEATURES], t[ROWS];
    regression(step, x, t);
    memset(g, 0, ROWS * sizeof *g);
    for (int n = 0; n < ROWS; n++) {
        double error = c[FEATURES].p - t[n];
        for (int i = 0; i < FEATURES; i++)
            error += c[i].p * x[n][i];
        for (int i = 0; i < FEATURES; i++)
            g[i] += 2.0 / ROWS * error * x[n][i];
        g[FEATURES] += 2.0 / ROWS * error;
    }
}

TEST(equations)
{
    for (size_t k = 0; k < sizeof equations / sizeof equations[0]; k++) {
        CASE("%s %s%s", equations[k].dialect, equations[k].optimizer, equations[k].clip > 0 ? " clipped" : "");
        trainer r = open_trainer(equations[k].dialect, equations[k].optimizer, NULL, equations[k].clip);
        cell c[ROWS] = {{0}};
        for (int i = 0; i < FEATURES; i++)
            c[i].p = any(0, i);
        c[FEATURES].p = any(1, 0);
        for (int t = 0; r.s && t < STEPS; t++) {
            double g[ROWS], y[ROWS] = {0}, norm = 0;
            gradient(t, c, g);
            for (int i = 0; i < ROWS; i++)
                norm += g[i] * g[i];
            norm = sqrt(norm);
            double scale = equations[k].clip > 0 && norm > equations[k].clip ? equations[k].clip / norm : 1;
            double rate = equations[k].rate / (1 + equations[k].decay * t);
            for (int i = 0; i < ROWS; i++)
                equations[k].update(&c[i], scale * g[i] + equations[k].l2 * c[i].p, rate, equations[k].k, t);
            train_and_probe(&r, t, y);
            for (int i = 0; i < ROWS; i++)
                CHECK_CLOSE(y[i], c[i].p + (i < FEATURES ? c[FEATURES].p : 0), exact);
        }
        close_trainer(&r);
    }
}

TEST(optimizers_that_a_dialect_lacks)
{
    static const char *const refused[][2] = {
        {"keras2", "adamw"}, {"caffe", "adamw lr=0.1"}, {"caffe", "sgd"}, {"caffe", "adam"}, {"caffe", "rmsprop"}};
    for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
        CASE("%s %s", refused[k][0], refused[k][1]);
        OWNED(brasa_graph) *g = open_graph(refused[k][0]);
        OWNED(brasa_session) *s = NULL;
        brasa_classify(brasa_input_vector(g, "x", 3), 2);
        CHECK(brasa_session_new(g, &SIZED(brasa_session_options, .optimizer = refused[k][1]), &s) != BRASA_OK);
        CHECK_HAS(brasa_graph_error(g), refused[k][0]);
    }
}

/* --- layers ---------------------------------------------------------------------------------------------------- */

/* A convolution of one input channel with `before` pixels of padding at the top and on the left. */
static void check_convolution(const char *dialect_name, const char *layer, int H, int W, int K, int R, int S,
                              int stride, const int before[2], const int size[2])
{
    double y[MAX_ELEMENTS] = {0};
    CASE("%s %s", dialect_name, layer);
    int64_t count = run_layer(dialect_name, layer, (int64_t[]){1, 1, H, W}, y);
    CHECK_INT(count, K * size[0] * size[1]);
    for (int i = 0; i < count; i++) {
        int k = i / (size[0] * size[1]), top = i / size[1] % size[0] * stride - before[0];
        int left = i % size[1] * stride - before[1];
        double sum = any(1, k);
        for (int r = 0; r < R; r++)
            for (int s = 0; s < S; s++)
                if (top + r >= 0 && top + r < H && left + s >= 0 && left + s < W)
                    sum += any(0, (k * R + r) * S + s) * any(STREAM_INPUT, (top + r) * W + left + s);
        CHECK_CLOSE(y[i], sum, exact);
    }
}

TEST(same_padding)
{
    /* TensorFlow: ceil(size / stride) outputs, the padding that takes, its odd pixel at the end. */
    check_convolution("keras2", "conv 2 3x3 stride=2 pad=same", 6, 5, 2, 3, 3, 2, (int[]){0, 1}, (int[]){3, 3});
    check_convolution("keras2", "conv 2 4x2 pad=same", 5, 4, 2, 4, 2, 1, (int[]){1, 0}, (int[]){5, 4});
    /* Caffe's networks state the padding: half the kernel on each side. */
    check_convolution("caffe", "conv 2 3x3 stride=2 pad=same", 6, 5, 2, 3, 3, 2, (int[]){1, 1}, (int[]){3, 3});
    check_convolution("caffe", "conv 2 5x3 pad=same", 6, 5, 2, 5, 3, 1, (int[]){2, 1}, (int[]){6, 5});
}

TEST(average_pooling)
{
    double y[MAX_ELEMENTS] = {0}, corner = 0;
    for (int i = 0; i < 4; i++)
        corner += any(STREAM_INPUT, i / 2 * 4 + i % 2); /* of a 4 x 4 picture */
    run_layer("caffe", "avgpool 3 stride=1 pad=1", (int64_t[]){1, 1, 4, 4}, y);
    CHECK_CLOSE(y[0], corner / 9, exact);
    run_layer("keras2", "avgpool 3 stride=1 pad=1", (int64_t[]){1, 1, 4, 4}, y);
    CHECK_CLOSE(y[0], corner / 4, exact);
}

/* x / (k + alpha sum(x^2))^beta over `size` channels, alpha already divided where it should be. */
static void check_lrn(const char *dialect_name, const char *layer, int size, double alpha, double beta, double k)
{
    enum { C = 13, W = 2 };
    double y[MAX_ELEMENTS] = {0};
    CASE("%s %s", dialect_name, layer);
    CHECK_INT(run_layer(dialect_name, layer, (int64_t[]){1, C, 1, W}, y), C * W);
    for (int i = 0; i < C * W; i++) {
        double sum = 0;
        for (int c = i / W - size / 2; c <= i / W + size / 2; c++)
            sum += c < 0 || c >= C ? 0 : pow(any(STREAM_INPUT, c * W + i % W), 2);
        CHECK_CLOSE(y[i], any(STREAM_INPUT, i) / pow(k + alpha * sum, beta), exact);
    }
}

TEST(local_response_normalization)
{
    check_lrn("caffe", "lrn", 5, 1.0 / 5, 0.75, 1);
    check_lrn("caffe", "lrn 3 alpha=0.3 beta=0.5 k=2", 3, 0.1, 0.5, 2);
    check_lrn("keras2", "lrn", 11, 1, 0.5, 1);
}

TEST(initial_weights)
{
    const int64_t picture[] = {1, 16, 8, 8}, vector[] = {1, 50};
    /* Keras: sqrt(6 / (fan in + fan out)), where a convolution's fans are its channels times the kernel's area. */
    check_bounds("keras2", "conv 64 3x3", picture, 4, (double[]){sqrt(6.0 / (16 * 9 + 64 * 9)), 0}, 1e-12);
    check_bounds("keras2", "dense 200", vector, 2, (double[]){sqrt(6.0 / 250), 0}, 1e-12);
    /* Caffe: sqrt(3 / fan in). */
    check_bounds("caffe", "conv 64 3x3", picture, 4, (double[]){sqrt(3.0 / (16 * 9)), 0}, 1e-12);
    check_bounds("caffe", "conv 64 3x3 groups=4", picture, 4, (double[]){sqrt(3.0 / (4 * 9)), 0}, 1e-12);
    check_bounds("caffe", "dense 200", vector, 2, (double[]){sqrt(3.0 / 50), 0}, 1e-12);
}

/* --- batch norm ------------------------------------------------------------------------------------------------ */

/* What a batch norm layer holds of one channel. */
typedef struct channel {
    double gamma, beta, mean, variance, factor; /* factor: Caffe's third blob */
} channel;

/* The equations of one training step for a channel, whose n values and targets are given. */
static void train_channel(channel *c, bool caffe, double epsilon, int n, const double *x, const double *t, double *y,
                          int64_t total)
{
    double mean = 0, variance = 0, dgamma = 0, dbeta = 0;
    for (int i = 0; i < n; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        variance += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++) {
        double unit = (x[i] - mean) / sqrt(variance + epsilon);
        y[i] = c->gamma * unit + c->beta;
        dgamma += 2 * (y[i] - t[i]) / (double)total * unit;
        dbeta += 2 * (y[i] - t[i]) / (double)total;
    }
    c->gamma -= batchnorm_rate * dgamma;
    c->beta -= batchnorm_rate * dbeta;
    if (caffe) { /* sums, to be divided by `factor` */
        c->factor = 0.999 * c->factor + 1;
        c->mean = mean + 0.999 * c->mean;
        c->variance = (double)n / (n - 1) * variance + 0.999 * c->variance;
    } else {
        c->mean = 0.99 * c->mean + 0.01 * mean;
        c->variance = 0.99 * c->variance + 0.01 * variance * n / (n - (1 + epsilon));
    }
}

static void check_batchnorm_equations(const char *dialect_name, bool caffe)
{
    enum { N = 3, C = 2, P = 4 };
    const double epsilon = caffe ? 1e-5 : 1e-3;
    double y[MAX_ELEMENTS] = {0};
    channel c[C];
    normalizer n = open_normalizer(dialect_name, "batchnorm", (int64_t[]){N, C, 2, 2});
    for (int k = 0; k < C; k++)
        c[k] = (channel){.gamma = 1, .variance = caffe ? 0 : 1};
    for (int step = 0; n.s && step <= BATCHNORM_STEPS; step++) {
        bool training = step < BATCHNORM_STEPS;
        run_normalizer(&n, training, training ? step : 0, y);
        for (int k = 0; k < C; k++) {
            double x[N * P], t[N * P], want[N * P];
            for (int i = 0; i < N * P; i++) {
                int at = (i / P * C + k) * P + i % P;
                x[i] = any(STREAM_INPUT + (training ? step : 0), at);
                t[i] = any(STREAM_LABEL + step, at);
                double scale = caffe && c[k].factor > 0 ? 1 / c[k].factor : 1;
                want[i] = c[k].gamma * (x[i] - scale * c[k].mean) / sqrt(scale * c[k].variance + epsilon) + c[k].beta;
            }
            if (training)
                train_channel(&c[k], caffe, epsilon, N * P, x, t, want, n.count);
            for (int i = 0; i < N * P; i++)
                CHECK_CLOSE(y[(i / P * C + k) * P + i % P], want[i], exact);
        }
    }
    close_normalizer(&n);
}

TEST(batch_norm)
{
    CASE("keras2");
    check_batchnorm_equations("keras2", false);
    CASE("caffe");
    check_batchnorm_equations("caffe", true);
}

/* --- defaults -------------------------------------------------------------------------------------------------- */

TEST(defaults)
{
    static const struct {
        const char *name;
        double keras2, caffe; /* NaN: the framework has no such default */
    } rows[] = {
        {"sgd_rate", 0.01, 0},
        {"rmsprop_rate", 0.001, 0},
        {"rmsprop_rho", 0.9, 0.99},
        {"rmsprop_epsilon", 1e-7, 1e-8},
        {"adadelta_rate", 1.0, NAN},
        {"adadelta_rho", 0.95, NAN},
        {"adadelta_epsilon", 1e-7, 1e-8},
        {"adam_rate", 0.001, 0},
        {"adam_epsilon", 1e-7, 1e-8},
        {"adamw", 0, 0},
        {"batchnorm_momentum", 1 - 0.99, 1 - 0.999},
        {"batchnorm_epsilon", 1e-3, 1e-5},
        {"lrn_size", NAN, 5},
        {"lrn_alpha", NAN, 1},
        {"lrn_beta", NAN, 0.75},
        {"lrn_k", NAN, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!isnan(rows[i].keras2))
            check_default("keras2", rows[i].name, rows[i].keras2);
        if (!isnan(rows[i].caffe))
            check_default("caffe", rows[i].name, rows[i].caffe);
    }
}
