/* test_netfile.c - networks as text files: the same graph as builder calls give, and errors that name file, line and
 * shapes, whatever the file holds. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"
#include "core/random.h"

#include <stdlib.h>
#include <unistd.h>

/* --- files ------------------------------------------------------------------------------------------------------ */

static const char *file_name(void)
{
    static char path[256];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/brasa_test_%ld.net", folder ? folder : "/tmp", (long)getpid());
    return path;
}

static void write_file(const char *text, size_t length)
{
    FILE *file = fopen(file_name(), "wb");
    CHECK(file && fwrite(text, 1, length, file) == length);
    if (file)
        fclose(file);
}

/* A graph made of a file of this text; the caller looks at its status. */
static brasa_graph *graph_of(const char *text)
{
    brasa_graph *g = brasa_graph_new(NULL);
    write_file(text, strlen(text));
    brasa_model_build(g, file_name(), 0);
    unlink(file_name());
    return g;
}

/* --- what explain says of a graph, as one text ------------------------------------------------------------------ */

typedef struct text {
    char *data;
    size_t length;
} text;

static bool append(void *user, const char *piece, size_t length)
{
    text *t = user;
    t->data = realloc(t->data, t->length + length + 1);
    memcpy(t->data + t->length, piece, length);
    t->length += length;
    t->data[t->length] = '\0';
    return true;
}

static text explain(brasa_graph *g)
{
    text t = {NULL, 0};
    brasa_session *s = NULL;
    brasa_session_options o = {.size = sizeof o, .batch = 8, .optimizer = "sgd lr=0.01 momentum=0.9"};
    brasa_status status = brasa_graph_status(g) == BRASA_OK ? brasa_session_new(g, &o, &s) : brasa_graph_status(g);
    if (status != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s", brasa_graph_error(g));
    else
        CHECK_STATUS(brasa_session_explain(s, BRASA_EXPLAIN_JSON, append, &t), BRASA_OK);
    brasa_session_free(s);
    brasa_graph_free(g);
    return t;
}

static void check_same(brasa_graph *a, brasa_graph *b)
{
    text x = explain(a), y = explain(b);
    CHECK(x.length > 100);
    CHECK_TEXT(x.data, y.data);
    free(x.data);
    free(y.data);
}

/* --- the same graph in both forms ------------------------------------------------------------------------------- */

TEST(mnist_cnn_in_both_forms)
{
    brasa_graph *file = brasa_graph_new(NULL), *built = brasa_graph_new(NULL);
    CHECK_STATUS(brasa_model_build(file, BRASA_SOURCE_DIR "/src/models/mnist_cnn.net", 0), BRASA_OK);
    CHECK_STATUS(brasa_model_build(built, "mnist_cnn", 0), BRASA_OK);
    CHECK_INT(brasa_graph_param_total(file), 1199882);
    check_same(file, built);

    CASE("with another number of classes");
    file = brasa_graph_new(NULL);
    built = brasa_graph_new(NULL);
    CHECK_STATUS(brasa_model_build(file, BRASA_SOURCE_DIR "/src/models/mnist_cnn.net", 7), BRASA_OK);
    CHECK_STATUS(brasa_model_build(built, "mnist_cnn", 7), BRASA_OK);
    check_same(file, built);
}

static brasa_graph *branches(void)
{
    brasa_graph *g = brasa_graph_new(NULL);
    brasa_graph_set_dialect(g, "keras2");
    brasa_tensor x = brasa_apply(brasa_input(g, "image", 3, 8, 8), "conv 4 3 pad=same name=stem");
    brasa_tensor a = brasa_relu(brasa_apply(x, "conv 4 1 name=left"));
    brasa_tensor b = brasa_apply(x, "maxpool 3 stride=1 pad=1");
    const brasa_tensor parts[] = {a, b, x};
    brasa_tensor sum = brasa_apply_n(g, (brasa_tensor[]){x, a}, 2, "add");
    brasa_output(sum, "middle");
    brasa_tensor all = brasa_concat(g, parts, 3);
    (void)sum;
    brasa_apply(brasa_flatten(brasa_global_avgpool(all)), "classify 3 name=fc");
    return g;
}

static const char branches_text[] = "# a network with branches\n"
                                    "dialect keras2\n"
                                    "\n"
                                    "input 3 8 8\n"
                                    "x = conv 4 3 pad=same name=stem   # named, and the next line takes it too\n"
                                    "conv 4 1 name=left\n"
                                    "a = relu\n"
                                    "b = maxpool $x 3 stride=1 pad=1\n"
                                    "add $x $a\n"
                                    "output middle\n"
                                    "concat $a $b $x\n"
                                    "global_avgpool\n"
                                    "flatten\n"
                                    "classify 3 name=fc\n";

TEST(branches)
{
    check_same(graph_of(branches_text), branches());
}

/* Line ends of another system, tabs, and no end of line at the end of the file change nothing. */
TEST(spaces)
{
    char other[2 * sizeof branches_text];
    size_t used = 0;
    for (const char *c = branches_text; *c; c++) {
        if (*c == '\n')
            other[used++] = '\r';
        other[used++] = *c == ' ' ? '\t' : *c;
    }
    other[used - 2] = '\0';
    check_same(graph_of(other), branches());
}

TEST(assignment_without_blanks)
{
    check_same(graph_of("x=input 4\ny=dense 3\nadd $y $y\nclassify 3\n"),
               graph_of("x = input 4\ny = dense 3\nadd $y $y\nclassify 3\n"));
}

TEST(byte_order_mark)
{
    check_same(graph_of("\xEF\xBB\xBFinput 4\nclassify 3\n"), graph_of("input 4\nclassify 3\n"));
}

TEST(named_inputs)
{
    brasa_graph *g = graph_of("a = input 4 name=left\nb = input name=right 4\nc = input 4 name=middle\n"
                              "add $a $b $c\ny = dense 3\nt = labels 3 name=truth\ncross_entropy $y $t\nloss\n");
    text t = explain(g);
    CHECK_HAS(t.data, "\"left\"");
    CHECK_HAS(t.data, "\"right\"");
    CHECK_HAS(t.data, "\"middle\"");
    CHECK_HAS(t.data, "\"truth\"");
    free(t.data);
}

/* The number of classes that a caller asks for takes the place of the file's, wherever that stands. */
TEST(other_classes)
{
    static const char *const files[] = {"input 4\nclassify 3 name=fc\n", "input 4\nclassify name=fc 3\n",
                                        "input 4\nclassify features=3 name=fc\n", "input 4\nclassify bias=no 3\n"};
    for (int i = 0; i < 4; i++) {
        CASE("file %d", i);
        OWNED(brasa_graph) *g = brasa_graph_new(NULL);
        brasa_value_info p = {.size = sizeof p};
        write_file(files[i], strlen(files[i]));
        CHECK_STATUS(brasa_model_build(g, file_name(), 7), BRASA_OK);
        CHECK(brasa_graph_param_at(g, 0, &p));
        CHECK_INT(p.shape[0], 7);
    }
    CASE("without classify");
    brasa_graph *g = brasa_graph_new(NULL);
    write_file("input 4\ndense 3\n", 16);
    CHECK_STATUS(brasa_model_build(g, file_name(), 7), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_graph_error(g), "no classify line");
    brasa_graph_free(g);
    unlink(file_name());
}

TEST(other_losses)
{
    brasa_graph *g = graph_of("x = input 4\n"
                              "y = dense 3 name=a\n"
                              "t = labels 3\n"
                              "one = cross_entropy $y $t smoothing=0.1\n"
                              "z = dense $x 3 name=b\n"
                              "two = mse $y $z\n"
                              "weighted_sum $one $two 1,0.5\n"
                              "loss\n");
    text t = explain(g);
    CHECK_HAS(t.data, "weighted_sum");
    free(t.data);
}

/* --- errors ----------------------------------------------------------------------------------------------------- */

TEST(refused)
{
    static const struct {
        const char *text;
        brasa_status status;
        const char *words[4]; /* the first is the line */
    } rows[] = {
        {"input 1 8 8\nconv 4 9x9 name=big\n", BRASA_BAD_SHAPE, {".net:2:", "conv2d", "'big'", "1x1x8x8"}},
        {"input 1 8 8\n\n# a comment\nrelu\ndense 5\n", BRASA_BAD_SHAPE, {".net:5:", "dense", "1x1x8x8"}},
        {"input 1 8 8\nconvv 4 3\n", BRASA_NOT_FOUND, {".net:2:", "convv", "did you mean 'conv'"}},
        {"input 1 8 8\nconv 4 3 strde=2\n", BRASA_BAD_ARGUMENT, {".net:2:", "strde", "did you mean 'stride'"}},
        {"input 1 8 8\nleft = relu\nadd $left $rihgt\n", BRASA_NOT_FOUND, {".net:3:", "'rihgt'"}},
        {"input 1 8 8\nleft = relu\nadd $lfet $left\n", BRASA_NOT_FOUND, {".net:3:", "did you mean 'left'"}},
        {"input 1 8 8\nadd $ $\n", BRASA_NOT_FOUND, {".net:2:", "''"}},
        {"a = input 1 8 8\nb = conv 2 3\nadd $a $b\n", BRASA_BAD_SHAPE, {".net:3:", "add", "1x1x8x8", "1x2x6x6"}},
        {"relu\n", BRASA_BAD_FILE, {".net:1:", "relu", "input"}},
        {"output x\n", BRASA_BAD_FILE, {".net:1:", "output"}},
        {"input 1 8\n", BRASA_BAD_ARGUMENT, {".net:1:", "input", "'1 8'"}},
        {"input\n", BRASA_BAD_ARGUMENT, {".net:1:", "input"}},
        {"input 1 8 8x\n", BRASA_BAD_ARGUMENT, {".net:1:", "8x"}},
        {"input 1 8 -8\n", BRASA_BAD_ARGUMENT, {".net:1:", "-8"}},
        {"input 1 8 99999999999999999999\n", BRASA_BAD_ARGUMENT, {".net:1:", "9999"}},
        {"input 4\nt = labels\n", BRASA_BAD_ARGUMENT, {".net:2:", "labels"}},
        {"input 1 8 8\nrelu\nloss\n", BRASA_BAD_SHAPE, {".net:3:", "scalar", "1x1x8x8"}},
        {"input 1 8 8\nrelu\noutput\n", BRASA_BAD_ARGUMENT, {".net:3:", "output"}},
        {"input 1 8 8\nrelu\noutput a\noutput b\n", BRASA_BAD_ARGUMENT, {".net:4:", "'b'"}},
        {"input 1 8 8\nconv 3 3 name=a\nconv 3 3 name=a\n", BRASA_BAD_ARGUMENT, {".net:3:", "'a.weight'"}},
        {"dialect pytorch\n", BRASA_NOT_FOUND, {".net:1:", "'pytorch'"}},
        {"dialect\n", BRASA_NOT_FOUND, {".net:1:", "''"}},
        {"input 1 8 8\nrelu\ndialect caffe\n", BRASA_WRONG_STATE, {".net:3:", "before"}},
        {"input 1 8 8\nclassify 10\n", BRASA_BAD_SHAPE, {".net:2:", "dense", "flatten"}},
        {"input 4\nclassify ten\n", BRASA_BAD_ARGUMENT, {".net:2:", "ten"}},
        {"input 4\nclassify ten\n", BRASA_BAD_ARGUMENT, {".net:2: classify:", "ten"}},
        {"input 4\nclassify 3\nclassify 3\n", BRASA_BAD_ARGUMENT, {".net:3:", "second classify"}},
        {"x = input 4\nclassify $x $x 3\n", BRASA_BAD_ARGUMENT, {".net:2:", "takes 1 input, got 2"}},
        {"input 4\nrelu\noutput a b\n", BRASA_BAD_ARGUMENT, {".net:3:", "one name", "'a b'"}},
        {"x = input 4\nrelu\noutput $x $x a\n", BRASA_BAD_ARGUMENT, {".net:3:", "one $input"}},
        {"input 4\nrelu\nloss 17\n", BRASA_BAD_ARGUMENT, {".net:3:", "no settings", "'17'"}},
        {"dialect keras2 torch\n", BRASA_NOT_FOUND, {".net:1:", "'keras2 torch'"}},
        {"input 4\ndense 3 name=\n", BRASA_BAD_ARGUMENT, {".net:2:", "no name"}},
        {"input 4\ndense 3 name=a name=b\n", BRASA_BAD_ARGUMENT, {".net:2:", "two names"}},
        {"x = input 4\ninput $x 4\n", BRASA_BAD_ARGUMENT, {".net:2:", "input"}},
        {"input 4\ninput 4\ninput 4\n", BRASA_BAD_ARGUMENT, {".net:3:", "'input' is taken"}},
        {"", BRASA_BAD_FILE, {".net: no layer"}},
        {"\n\n  # nothing\n", BRASA_BAD_FILE, {".net: no layer"}},
        {"input 1 8 8\n", BRASA_BAD_FILE, {".net: no layer"}},
        {"= = =\n", BRASA_BAD_FILE, {".net:1:"}},
        {"x =\n", BRASA_BAD_FILE, {".net:1:"}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        char line[64];
        snprintf(line, sizeof line, "%s", rows[r].text);
        for (char *c = line; *c; c++)
            *c = *c == '\n' ? '|' : *c;
        CASE("'%s'", line);
        OWNED(brasa_graph) *g = graph_of(rows[r].text);
        CHECK_STATUS(brasa_graph_status(g), rows[r].status);
        for (int w = 0; w < 4 && rows[r].words[w]; w++)
            CHECK_HAS(brasa_graph_error(g), rows[r].words[w]);
    }
}

static void check_file(const char *path, const char *word)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    CHECK_STATUS(brasa_model_build(g, path, 0), BRASA_BAD_FILE);
    CHECK_HAS(brasa_graph_error(g), word);
}

TEST(odd_files)
{
    enum { LONG = 3 << 20 };
    char *data = malloc(LONG);
    REQUIRE(data);
    CASE("no such file");
    check_file("/no/such/folder/a.net", "/no/such/folder/a.net: No such file");
    CASE("a folder");
    CHECK(mkdtemp(strcpy(data, "/tmp/brasa_test_XXXXXX")) != NULL);
    char folder[64];
    snprintf(folder, sizeof folder, "%s.net", data);
    CHECK(rename(data, folder) == 0);
    check_file(folder, folder);
    rmdir(folder);
    CASE("zero bytes");
    write_file("input 4\n\0relu\n", 14);
    check_file(file_name(), "zero byte");
    CASE("a very long line");
    memset(data, 'x', LONG);
    write_file(data, 10000);
    check_file(file_name(), ".net:1: a line of 10000");
    CASE("too large");
    write_file(data, LONG);
    check_file(file_name(), "larger than");
    CASE("bytes of no text");
    for (int i = 0; i < 1000; i++)
        data[i] = (char)(128 + i % 128);
    write_file(data, 300);
    brasa_graph *g = brasa_graph_new(NULL);
    CHECK(brasa_model_build(g, file_name(), 0) != BRASA_OK);
    CHECK_HAS(brasa_graph_error(g), ".net:1:");
    brasa_graph_free(g);
    CASE("no ending");
    g = brasa_graph_new(NULL);
    CHECK_STATUS(brasa_model_build(g, "mnist_cmn", 0), BRASA_NOT_FOUND);
    CHECK_HAS(brasa_graph_error(g), "did you mean 'mnist_cnn'");
    CHECK_HAS(brasa_graph_error(g), ".net");
    brasa_graph_free(g);
    g = brasa_graph_new(NULL);
    CHECK_STATUS(brasa_model_build(g, "mnist_cnn", -3), BRASA_BAD_ARGUMENT);
    brasa_graph_free(g);
    unlink(file_name());
    free(data);
}

/* Files of random words: most are refused, none does harm. */
TEST(random_files)
{
    static const char *const words[] = {
        "input",
        "conv",
        "relu",
        "add",
        "concat",
        "dense",
        "flatten",
        "classify",
        "maxpool",
        "$x",
        "$y",
        "$",
        "x",
        "y",
        "=",
        "x =",
        "y =",
        "1",
        "3x3",
        "8",
        "pad=same",
        "#",
        "output",
        "loss",
        "labels",
        "dialect",
        "name=a",
        "name=",
        "stride=2",
        "4 8 8",
        "reshape",
        "\t",
        "==",
        "-1",
        "0",
        "1e9",
        "268435456",
        "softmax",
        "$$",
        "mse",
        "batchnorm",
        "lrn",
        "=x",
        "groups=4",
        "99999999",
        "dropout",
        "weighted_sum",
        "1,2",
        "dilation=3",
        "avgpool",
    };
    enum { WORD_COUNT = sizeof words / sizeof words[0] };
    int good = 0;
    for (int seed = 0; seed < 3000; seed++) {
        const random_stream r = {.seed = (uint64_t)seed, .purpose = RANDOM_TEST};
        char text_of[1024] = "x = input 4 8 8\ny = relu\n";
        for (int i = 0; i < 20; i++) {
            strcat(text_of, words[(int)random_uniform(&r, (uint64_t)(2 * i), 0, WORD_COUNT)]);
            strcat(text_of, random_uniform(&r, (uint64_t)(2 * i + 1), 0, 1) < 0.5 ? "\n" : " ");
        }
        OWNED(brasa_graph) *g = graph_of(text_of);
        good += brasa_graph_status(g) == BRASA_OK;
        if (brasa_graph_status(g) != BRASA_OK && !strstr(brasa_graph_error(g), ".net:"))
            test_fail(__FILE__, __LINE__, "seed %d: no line in '%s'", seed, brasa_graph_error(g));
    }
    CHECK(good < 3000);
}

/* What shows only with the batch size, when the network is compiled, still has its line. */
TEST(errors_while_compiling_name_the_line)
{
    OWNED(brasa_graph) *g = graph_of("input 4\ndense 3\nbatchnorm\nclassify 2\n");
    CHECK_STATUS(brasa_graph_status(g), BRASA_OK);
    OWNED(brasa_session) *s = NULL;
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .batch = 1), &s), BRASA_BAD_SHAPE);
    CHECK_HAS(brasa_graph_error(g), ".net:3: batchnorm");
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .batch = 2), &s), BRASA_OK);
}
