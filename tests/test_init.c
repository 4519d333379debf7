/* test_init.c - every initializer in every dialect: the weights that a session starts with have the mean, the
 * deviation, the shape of distribution and the bounds that the word promises.
 *
 * The expectations are computed here from the fans, not with the library's own formulas. 64k to 100k numbers a tensor
 * give the deviation to a third of a percent; the seed is fixed, so nothing hangs on luck.
 */
#include "test.h"
#include "graph/dialect.h"

#include <stdlib.h>

/* What numbers look like: deviation, the largest size (0: unlimited), and the fourth moment over the variance
 * squared: 9 / 5 if uniform, 3 if normal, 2.3655 if that is cut at two deviations. */
typedef struct look {
    double mean, deviation, limit, kurtosis;
} look;

static look uniform_look(double bound)
{
    return (look){0, bound / sqrt(3), bound, 1.8};
}

/* Of Keras' kind: cut, and the deviation is that of what is left. */
static look normal_look(double deviation, bool cut)
{
    return cut ? (look){0, deviation, 2 * deviation / 0.87962566, 2.3655} : (look){0, deviation, 0, 3};
}

static look expected(const char *dialect_name, const char *word, double fan_in, double fan_out)
{
    const double both = fan_in + fan_out;
    const bool cut = strstr(dialect_name, "keras") != NULL;
    if (strcmp(word, "one") == 0)
        return (look){1, 0, 1, 0};
    if (strcmp(word, "constant") == 0)
        return (look){0.25, 0, 0.25, 0};
    if (strcmp(word, "he_uniform") == 0)
        return uniform_look(sqrt(6 / fan_in));
    if (strcmp(word, "he_normal") == 0)
        return normal_look(sqrt(2 / fan_in), cut);
    if (strcmp(word, "glorot_uniform") == 0)
        return uniform_look(sqrt(6 / both));
    if (strcmp(word, "glorot_normal") == 0)
        return normal_look(sqrt(2 / both), cut);
    if (strcmp(word, "fan_in_uniform") == 0)
        return uniform_look(1 / sqrt(fan_in));
    if (strcmp(word, "caffe_xavier") == 0)
        return uniform_look(sqrt(3 / fan_in));
    CHECK_TEXT(word, "zero");
    return (look){0};
}

static void check_look(const float *data, int64_t count, look want)
{
    double sum = 0, square = 0, fourth = 0, largest = 0;
    for (int64_t i = 0; i < count; i++)
        sum += data[i];
    const double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) {
        const double x = data[i] - mean;
        square += x * x;
        fourth += x * x * x * x;
        largest = fmax(largest, fabs(data[i]));
    }
    const double variance = square / (double)count, root = sqrt((double)count);
    CHECK_CLOSE(mean, want.mean, 4 * want.deviation / root);
    CHECK_CLOSE(sqrt(variance), want.deviation, 4 * want.deviation / root);
    if (want.deviation > 0)
        CHECK_CLOSE(fourth / (double)count / (variance * variance), want.kurtosis, 40 / root);
    if (want.limit > 0) {
        CHECK(largest <= want.limit * 1.000001);
        CHECK(largest >= want.limit * 0.999);
    } else if (want.deviation > 0) {
        CHECK(largest > 3.5 * want.deviation);
    }
}

/* The one layer of a graph, "layer", whose weight or bias is looked at. */
static void check_layer(const char *dialect_name, const char *layer, const char *parameter, look want)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    OWNED(brasa_session) *s = NULL;
    CHECK_STATUS(brasa_graph_set_dialect(g, dialect_name), BRASA_OK);
    const bool pictures = strncmp(layer, "conv", 4) == 0;
    brasa_tensor x = pictures ? brasa_input(g, "x", 64, 8, 8) : brasa_input_vector(g, "x", 256);
    brasa_output(brasa_apply(x, "%s name=layer", layer), "y");
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .inference = true, .seed = 7), &s), BRASA_OK);
    brasa_value_info info = {.size = sizeof info};
    int64_t count = 1;
    for (int i = 0; brasa_graph_param_at(g, i, &info) && strcmp(info.name, parameter) != 0; i++)
        continue;
    CHECK_TEXT(info.name, parameter);
    for (int d = 0; d < info.rank; d++)
        count *= info.shape[d];
    float *data = malloc((size_t)count * sizeof *data);
    if (data && s) {
        CHECK_STATUS(brasa_param_get(s, parameter, data, count), BRASA_OK);
        check_look(data, count, want);
    }
    free(data);
}

/* A dense layer of 256 x 384, and a convolution of 128 x 64 x 3 x 3: fans of 576 and 1152. */
TEST(weights)
{
    for (int d = 0; dialect_at(d); d++) {
        for (int w = 0; w < INIT_DIALECT; w++) {
            const char *name = dialect_at(d)->name, *word = initializer_words[w];
            char layer[64];
            CASE("%s %s dense", name, word);
            snprintf(layer, sizeof layer, "dense 384 init=%s init_value=0.25", word);
            check_layer(name, layer, "layer.weight", expected(name, word, 256, 384));
            CASE("%s %s conv", name, word);
            snprintf(layer, sizeof layer, "conv 128 3 init=%s init_value=0.25", word);
            check_layer(name, layer, "layer.weight", expected(name, word, 576, 1152));
        }
    }
}

/* What a dialect starts with where nothing is said. */
TEST(dialects)
{
    static const char *const rows[][3] = {
        {"torch", "fan_in_uniform", "fan_in_uniform"},
        {"tfkeras", "glorot_uniform", "zero"},
        {"keras2", "glorot_uniform", "zero"},
        {"caffe", "caffe_xavier", "zero"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%s", rows[r][0]);
        check_layer(rows[r][0], "dense 384", "layer.weight", expected(rows[r][0], rows[r][1], 256, 384));
        check_layer(rows[r][0], "conv 128 3", "layer.weight", expected(rows[r][0], rows[r][1], 576, 1152));
        check_layer(rows[r][0], "dense 100000", "layer.bias", expected(rows[r][0], rows[r][2], 256, 100000));
    }
}
