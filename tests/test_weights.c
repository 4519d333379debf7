/* test_weights.c - sessions to files and back: nothing is lost, nothing is half taken, and everything that does not
 * fit is told by name. pread is defined here, so that the library calls this one, which fails when told to. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "test.h"
#include "files.h"
#include "heap.h"

#include "core/random.h"
#include "session/session.h"

#include <errno.h>
#include <sys/syscall.h>

enum { BATCH = 4, CLASSES = 10, PIXELS = 3 * 32 * 32 };
static float images[BATCH * PIXELS];
static const int32_t labels[BATCH] = {1, 7, 3, 0};

static int reads, read_fails_at; /* from 1; 0: none */

ssize_t pread(int fd, void *to, size_t bytes, off_t place)
{
    if (++reads != read_fails_at)
        return syscall(SYS_pread64, fd, to, bytes, place);
    errno = EIO;
    return -1;
}

/* --- sessions ------------------------------------------------------------------------------------------------ */

typedef struct net {
    heap memory;
    brasa_context *ctx;
    brasa_graph *g;
    brasa_session *s;
} net;

static void net_start(net *n)
{
    *n = (net){{0}, NULL, NULL, NULL};
    brasa_context_options c = {
        .size = sizeof c, .threads = 1, .alloc = heap_alloc, .release = heap_release, .user = &n->memory};
    if (brasa_context_new(&c, &n->ctx) != BRASA_OK || !(n->g = brasa_graph_new(n->ctx)))
        exit(1);
}

static void net_compile(net *n, const brasa_session_options *o)
{
    if (brasa_session_new(n->g, o, &n->s) == BRASA_OK)
        return;
    printf("%s\n", brasa_graph_error(n->g));
    exit(1);
}

/* tiny_resnet, whose batch norms have running statistics, after `steps` steps. */
static void resnet(net *n, int classes, const brasa_session_options *o, int steps)
{
    const random_stream r = {.seed = 1, .purpose = RANDOM_TEST};
    for (int i = 0; i < BATCH * PIXELS; i++)
        images[i] = (float)random_uniform(&r, (uint64_t)i, -1, 1);
    net_start(n);
    brasa_model_build(n->g, "tiny_resnet", classes);
    net_compile(n, o);
    for (int i = 0; i < steps; i++)
        CHECK_STATUS(brasa_train_step(n->s, images, labels, NULL), BRASA_OK);
}

static void net_stop(net *n)
{
    brasa_session_free(n->s);
    brasa_graph_free(n->g);
    brasa_context_free(n->ctx);
    CHECK_INT(n->memory.live, 0);
}

static const brasa_session_options momentum = {
    .size = sizeof momentum, .batch = BATCH, .optimizer = "sgd lr=0.05 momentum=0.9", .seed = 1};
static const brasa_session_options other_start = {
    .size = sizeof other_start, .batch = BATCH, .optimizer = "sgd lr=0.05 momentum=0.9", .seed = 2};

static const brasa_load_options checkpoint = {.size = sizeof checkpoint, .what = BRASA_CHECKPOINT};

/* The state of two sessions of one network, byte by byte. */
static bool equal_state(const brasa_session *a, const brasa_session *b)
{
    return a->persistent == b->persistent && memcmp(a->arena, b->arena, (size_t)a->persistent) == 0;
}

static int parameters(const net *n)
{
    brasa_value_info info = {.size = sizeof info};
    int count = 0;
    while (brasa_graph_param_at(n->g, count, &info))
        count++;
    return count;
}

/* --- there and back ------------------------------------------------------------------------------------------ */

TEST(weights)
{
    net a, b;
    float logits[2][BATCH * CLASSES];
    const char *path = in_folder("weights.safetensors");
    brasa_load_report report = {.size = sizeof report};
    resnet(&a, CLASSES, &momentum, 3);
    resnet(&b, CLASSES, &other_start, 0);
    CHECK_STATUS(brasa_session_save(a.s, path, BRASA_WEIGHTS), BRASA_OK);
    CHECK_STATUS(brasa_session_load(b.s, path, NULL, &report), BRASA_OK);
    CHECK_INT(report.loaded, parameters(&a));
    CHECK_INT(report.missing + report.unknown + report.mismatched, 0);
    CHECK_TEXT(report.names, "");
    CHECK_INT(brasa_session_steps(b.s), 0);
    net *both[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(brasa_eval_step(both[i]->s, images, labels, BATCH, NULL, NULL), BRASA_OK);
        CHECK_STATUS(brasa_fetch(both[i]->s, "logits", logits[i], sizeof logits[i]), BRASA_OK);
    }
    CHECK(memcmp(logits[0], logits[1], sizeof logits[0]) == 0);

    /* As PyTorch names them, with the counter of each batch norm behind its running statistics. */
    size_t bytes;
    char *file = read_file(path, &bytes);
    REQUIRE(file);
    for (int i = 0; i < parameters(&a); i++) {
        brasa_value_info info = {.size = sizeof info};
        char key[200];
        brasa_graph_param_at(a.g, i, &info);
        snprintf(key, sizeof key, "\"%s\":{\"dtype\":\"F32\"", info.name);
        CHECK_HAS(file + 8, key);
    }
    CHECK_HAS(file + 8, "num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}");
    const char *mean = strstr(file + 8, ".running_mean\""), *count = strstr(file + 8, ".num_batches_tracked\"");
    CHECK(mean && count && mean < count);
    free(file);

    CASE("an inference session");
    net c;
    resnet(&c, CLASSES, &SIZED(brasa_session_options, .batch = BATCH, .inference = true), 0);
    CHECK_STATUS(brasa_session_load(c.s, path, NULL, NULL), BRASA_OK);
    CHECK_STATUS(brasa_feed(c.s, "image", images, sizeof images), BRASA_OK);
    CHECK_STATUS(brasa_evaluate(c.s), BRASA_OK);
    CHECK_STATUS(brasa_fetch(c.s, "logits", logits[1], sizeof logits[1]), BRASA_OK);
    CHECK(memcmp(logits[0], logits[1], sizeof logits[0]) == 0);
    net_stop(&a);
    net_stop(&b);
    net_stop(&c);
}

/* Training goes on from a checkpoint as if it had never stopped. */
TEST(checkpoint)
{
    static const char *const optimizers[] = {"sgd lr=0.05 momentum=0.9", "adam", "adadelta", "rmsprop", "sgd lr=0.1"};
    const char *path = in_folder("checkpoint.safetensors");
    for (int k = 0; k < 10; k++) {
        const int i = k / 2;
        const bool fresh = k % 2;
        CASE("%s%s", optimizers[i], fresh ? ", into a session that has nothing to lose" : "");
        net a, b;
        const brasa_session_options o = {.size = sizeof o, .batch = BATCH, .optimizer = optimizers[i], .seed = 1},
                                    other = {
                                        .size = sizeof other, .batch = BATCH, .optimizer = optimizers[i], .seed = 2};
        resnet(&a, CLASSES, &o, 2);
        resnet(&b, CLASSES, &other, 0); /* another start; tiny_resnet draws no numbers later */
        CHECK_STATUS(brasa_session_save(a.s, path, BRASA_CHECKPOINT), BRASA_OK);
        CHECK_STATUS((fresh ? session_load_fresh : brasa_session_load)(b.s, path, &checkpoint, NULL), BRASA_OK);
        CHECK(equal_state(a.s, b.s));
        CHECK_INT(brasa_session_steps(b.s), 2);
        for (int more = 0; more < 2; more++) {
            CHECK_STATUS(brasa_train_step(a.s, images, labels, NULL), BRASA_OK);
            CHECK_STATUS(brasa_train_step(b.s, images, labels, NULL), BRASA_OK);
        }
        CHECK(equal_state(a.s, b.s));
        net_stop(&a);
        net_stop(&b);
    }
}

/* Double precision is kept. */
TEST(checkpoint_float64)
{
    const char *path = in_folder("double.safetensors");
    net a, b;
    resnet(&a, CLASSES, &SIZED(brasa_session_options, .float64 = true, .seed = 1, .optimizer = "adam"), 0);
    resnet(&b, CLASSES, &SIZED(brasa_session_options, .float64 = true, .seed = 2, .optimizer = "adam"), 0);
    CHECK(!equal_state(a.s, b.s));
    CHECK_STATUS(brasa_session_save(a.s, path, BRASA_CHECKPOINT), BRASA_OK);
    CHECK_STATUS(brasa_session_load(b.s, path, &checkpoint, NULL), BRASA_OK);
    CHECK(equal_state(a.s, b.s));
    net_stop(&a);
    net_stop(&b);
}

/* The wrong kind of file, or of session. */
TEST(checkpoint_or_weights)
{
    const char *path = in_folder("checkpoint.safetensors");
    brasa_load_report report = {.size = sizeof report};
    net a, b, adam;
    resnet(&a, CLASSES, &momentum, 1);
    resnet(&b, CLASSES, &SIZED(brasa_session_options, .batch = BATCH, .inference = true), 0);
    resnet(&adam, CLASSES, &SIZED(brasa_session_options, .batch = BATCH, .optimizer = "adam"), 0);
    CHECK_STATUS(brasa_session_save(a.s, path, BRASA_CHECKPOINT), BRASA_OK);
    CASE("weights of a checkpoint");
    CHECK_STATUS(brasa_session_load(b.s, path, NULL, &report), BRASA_OK);
    CHECK_INT(report.loaded, parameters(&a));
    CHECK_INT(report.unknown, 0);
    CASE("another optimizer");
    CHECK_STATUS(brasa_session_load(adam.s, path, &checkpoint, &report), BRASA_BAD_FILE);
    CHECK(report.missing > 0 && report.unknown > 0 && !report.mismatched && !report.loaded);
    CHECK_HAS(brasa_session_error(adam.s), "missing: '");
    CASE("a checkpoint out of weights");
    CHECK_STATUS(brasa_session_save(a.s, path, BRASA_WEIGHTS), BRASA_OK);
    CHECK_STATUS(brasa_session_load(a.s, path, &checkpoint, &report), BRASA_BAD_FILE);
    CHECK_HAS(brasa_session_error(a.s), "missing: 'steps', '");
    CHECK(!report.unknown && !report.mismatched);
    CASE("neither");
    CHECK_STATUS(brasa_session_save(a.s, path, 7), BRASA_BAD_ARGUMENT);
    CHECK_STATUS(brasa_session_load(a.s, path, &SIZED(brasa_load_options, .what = -1), NULL), BRASA_BAD_ARGUMENT);
    net_stop(&a);
    net_stop(&b);
    net_stop(&adam);
}

/* --- what does not fit --------------------------------------------------------------------------------------- */

/* Fine-tuning: a file for ten classes, a network for three. */
TEST(another_head)
{
    net a, b, untouched;
    const char *path = in_folder("ten.safetensors");
    brasa_load_report report = {.size = sizeof report};
    brasa_load_options options = {.size = sizeof options};
    resnet(&a, CLASSES, &momentum, 0);
    resnet(&b, 9, &other_start, 0);
    resnet(&untouched, 9, &other_start, 0);
    CHECK_STATUS(brasa_session_save(a.s, path, BRASA_WEIGHTS), BRASA_OK);
    CHECK_STATUS(brasa_session_load(b.s, path, &options, &report), BRASA_BAD_FILE);
    CHECK(equal_state(b.s, untouched.s));
    CHECK_INT(report.loaded, 0);
    CHECK_INT(report.mismatched, 2);
    CHECK_HAS(brasa_session_error(b.s), path);
    CHECK_HAS(brasa_session_error(b.s),
              "0 missing, 0 unknown, 2 of another shape or type; of another shape or type: '");
    CHECK_HAS(brasa_session_error(b.s), " (10 F32, not 9 F32)");
    options.allow_mismatched = true;
    CHECK_STATUS(brasa_session_load(b.s, path, &options, &report), BRASA_OK);
    CHECK_INT(report.loaded, parameters(&a) - 2);
    CHECK_INT(report.mismatched, 2);
    CHECK_HAS(report.names, "of another shape or type: '");
    CHECK(!equal_state(b.s, untouched.s));
    net_stop(&a);
    net_stop(&b);
    net_stop(&untouched);
}

/* Two dense layers, `a` and `b`, of 2x2; names and inputs as the test wants. */
static void dense_net(net *n, const char *first, const brasa_session_options *o)
{
    net_start(n);
    brasa_tensor x = brasa_apply(brasa_input_vector(n->g, "x", 2), "dense 2 name=%s", first);
    brasa_output(brasa_apply(x, "dense 2 name=b"), "y");
    net_compile(n, o);
}

static const brasa_session_options inference = {.size = sizeof inference, .inference = true};

#define A "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}"
#define T(name, type, shape, begin, end)                                                                             \
    ",\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

TEST(names_them)
{
    static const struct {
        const char *what, *header;
        int bytes, taken, missing, unknown, misfit;
        const char *said;
    } rows[] = {
        {"one is missing", "{" A T("b.weight", "F32", "2,2", 16, 32) T("b.bias", "F32", "2", 32, 40) "}", 40, 3, 1, 0,
         0, "1 missing, 0 unknown, 0 of another shape or type; missing: 'a.bias'"},
        {"all but one", "{" A "}", 16, 1, 3, 0, 0, "missing: 'a.bias', 'b.weight', 'b.bias'"},
        {"everything", "{}", 0, 0, 4, 0, 0, "missing: 'a.weight', 'a.bias', 'b.weight', 'b.bias'"},
        {"one is unknown",
         "{" A T("a.bias", "F32", "2", 16, 24) T("b.weight", "F32", "2,2", 24, 40) T("b.bias", "F32", "2", 40, 48)
             T("c.bias", "F32", "2", 48, 56) "}",
         56, 4, 0, 1, 0, "unknown: 'c.bias'"},
        {"of each",
         "{" A T("a.bias", "I64", "2", 16, 32) T("b.weight", "F32", "4", 32, 48) T("b.biass", "F32", "2", 48, 56) "}",
         56, 1, 1, 1, 2,
         "1 missing, 1 unknown, 2 of another shape or type; missing: 'b.bias'; of another shape or type: "
         "'a.bias' (2 I64, not 2 F32), 'b.weight' (4 F32, not 2x2 F32); unknown: 'b.biass'"},
        {"other types",
         "{" A T("a.bias", "U8", "2", 16, 18) T("b.weight", "F32", "2,2", 18, 34) T("b.bias", "I32", "2", 34, 42) "}",
         42, 2, 0, 0, 2, "of another shape or type: 'a.bias' (2 U8, not 2 F32), 'b.bias' (2 I32, not 2 F32)"},
    };
    const char *path = in_folder("named.safetensors");
    const brasa_load_options allow = {
        .size = sizeof allow, .allow_missing = true, .allow_unknown = true, .allow_mismatched = true};
    static const char zeros[64];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].what);
        net n, untouched;
        brasa_load_report report = {.size = sizeof report};
        dense_net(&n, "a", &inference);
        dense_net(&untouched, "a", &inference);
        write_tensors(path, rows[i].header, strlen(rows[i].header), zeros, (size_t)rows[i].bytes);
        for (int allowed = 0; allowed < 2; allowed++) {
            CHECK_STATUS(brasa_session_load(n.s, path, allowed ? &allow : NULL, &report),
                         allowed ? BRASA_OK : BRASA_BAD_FILE);
            CHECK(equal_state(n.s, untouched.s) == (!allowed || !rows[i].taken));
            CHECK_INT(report.loaded, allowed ? rows[i].taken : 0);
            CHECK_INT(report.missing, rows[i].missing);
            CHECK_INT(report.unknown, rows[i].unknown);
            CHECK_INT(report.mismatched, rows[i].misfit);
            CHECK_HAS(brasa_session_error(n.s), rows[i].said);
            CHECK_HAS(rows[i].said, report.names);
        }
        net_stop(&n);
        net_stop(&untouched);
    }
}

/* More names than a message has room for: the counts are all there, and how many are not. */
TEST(many_names)
{
    net a, b;
    const char *path =
        in_folder("many-with-a-long-name-that-takes-room-in-the-message-but-not-all-of-it.safetensors");
    brasa_load_report report = {.size = sizeof report};
    resnet(&a, CLASSES, &momentum, 0);
    dense_net(&b, "a", &inference);
    CHECK_STATUS(brasa_session_save(a.s, path, BRASA_CHECKPOINT), BRASA_OK);
    CHECK_STATUS(brasa_session_load(b.s, path, &checkpoint, &report), BRASA_BAD_FILE);
    char counts[100], end[100];
    snprintf(counts, sizeof counts, "4 missing, %d unknown, 0 of", report.unknown);
    CHECK_HAS(brasa_session_error(b.s), counts);
    int told = 0, untold = 0;
    for (const char *c = strstr(brasa_session_error(b.s), "unknown: "); c && *c; c++)
        told += *c == '\'';
    const char *and = strstr(report.names, " and ");
    REQUIRE(and&&sscanf(and, " and %d more", &untold) == 1);
    CHECK_INT(told / 2 + untold, report.unknown);
    snprintf(end, sizeof end, " and %d more", untold);
    CHECK(strcmp(brasa_session_error(b.s) + strlen(brasa_session_error(b.s)) - strlen(end), end) == 0);
    net_stop(&a);
    net_stop(&b);
}

/* --- numbers ------------------------------------------------------------------------------------------------- */

TEST(converts)
{
    static const struct {
        const char *type;
        int bytes;
        unsigned char data[32];
    } rows[] = {/* 1, -2.5, 0.15625, 65504 */
                {"F16", 2, {0, 0x3c, 0, 0xc1, 0, 0x31, 0xff, 0x7b}},
                {"F32", 4, {0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0, 0, 0, 0x20, 0x3e, 0, 0xe0, 0x7f, 0x47}},
                {"F64", 8, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0,    4,    0xc0,
                            0, 0, 0, 0, 0, 0, 0xc4, 0x3f, 0, 0, 0, 0, 0, 0xfc, 0xef, 0x40}},
                {"BF16", 2, {0x80, 0x3f, 0x20, 0xc0, 0x20, 0x3e, 0x80, 0x47}}}; /* the last one is 65536 */
    const char *path = in_folder("types.safetensors");
    for (int i = 0; i < 4; i++) {
        for (int wide = 0; wide < 2; wide++) {
            CASE("%s into %s", rows[i].type, wide ? "double" : "float");
            net n;
            float got[4];
            char header[200];
            snprintf(header, sizeof header,
                     "{\"a.weight\":{\"dtype\":\"%s\",\"shape\":[2,2],\"data_offsets\":[0,%d]}}", rows[i].type,
                     4 * rows[i].bytes);
            write_tensors(path, header, strlen(header), rows[i].data, 4 * (size_t)rows[i].bytes);
            dense_net(&n, "a", &SIZED(brasa_session_options, .inference = true, .float64 = wide));
            CHECK_STATUS(brasa_session_load(n.s, path, &SIZED(brasa_load_options, .allow_missing = true), NULL),
                         BRASA_OK);
            CHECK_STATUS(brasa_param_get(n.s, "a.weight", got, 4), BRASA_OK);
            CHECK(got[0] == 1 && got[1] == -2.5f && got[2] == 0.15625f && got[3] == (i == 3 ? 65536 : 65504));
            net_stop(&n);
        }
    }
}

/* A made-up session whose state lies in blocks: plain in the file, zeros in the padding. */
TEST(layouts)
{
    static const layout layouts[] = {{0},
                                     {.permuted = 1, .order = {0, 2, 3, 1}},
                                     {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}},
                                     {.nblocks = 3, .axis = {1, 0, 1}, .block = {4, 16, 4}}};
    enum { LAYOUTS = 4, ROOM = 32 * 48 * 6 };
    static float there[LAYOUTS][ROOM], back[LAYOUTS][ROOM];
    state states[LAYOUTS + 1] = {{0}};
    int64_t offsets[LAYOUTS + 1] = {0};
    const char *path = in_folder("blocks.safetensors");
    net n;
    net_start(&n);
    brasa_session s = {.ctx = n.ctx, .states = states, .state_offset = offsets, .nstates = LAYOUTS + 1};
    for (int i = 0; i < LAYOUTS; i++) {
        static const char *const names[] = {"plain", "last", "blocks", "blocks in blocks"};
        state *st = &states[i];
        *st = (state){.name = names[i], .kind = VALUE_PARAM, .type = F32, .shape = shape_4(20, 33, 3, 2)};
        st->stored = st->shape;
        st->format.layout = layouts[i];
        st->bytes = layout_count(&st->format.layout, &st->shape) * 4;
        offsets[i] = i * (int64_t)sizeof there[0];
        int64_t index[MAX_RANK] = {0};
        for (int k = 0; k < 20 * 33 * 3 * 2; k++, index_next(&st->shape, index))
            there[i][layout_offset(&st->format.layout, &st->shape, index)] = (float)k;
    }
    states[LAYOUTS] = (state){.name = "steps", .kind = VALUE_COUNTER, .type = I64, .bytes = 8};
    s.arena = (char *)there;
    CHECK_STATUS(brasa_session_save(&s, path, BRASA_WEIGHTS), BRASA_OK);
    size_t bytes;
    char *file = read_file(path, &bytes);
    REQUIRE(file && bytes > LAYOUTS * 3960 * sizeof(float));
    const float *data = (const float *)(const void *)(file + bytes - LAYOUTS * 3960 * sizeof(float));
    for (int i = 0; i < LAYOUTS * 3960; i++)
        CHECK(data[i] == (float)(i % 3960));
    free(file);

    memset(back, 0x33, sizeof back);
    s.arena = (char *)back;
    CHECK_STATUS(brasa_session_load(&s, path, NULL, NULL), BRASA_OK);
    for (int i = 0; i < LAYOUTS; i++) {
        CASE("%s", states[i].name);
        CHECK(memcmp(there[i], back[i], (size_t)states[i].bytes) == 0);
    }
    net_stop(&n);
}

/* --- what goes wrong ----------------------------------------------------------------------------------------- */

/* The session is as it was, whatever byte of the file is cut off or changed. */
TEST(damaged)
{
    const char *path = in_folder("damaged.safetensors");
    net a, n, untouched;
    dense_net(&a, "a", &SIZED(brasa_session_options, .inference = true, .seed = 3));
    dense_net(&n, "a", &inference);
    dense_net(&untouched, "a", &inference);
    CHECK_STATUS(brasa_session_save(a.s, path, BRASA_CHECKPOINT), BRASA_OK);
    size_t bytes;
    char *file = read_file(path, &bytes);
    REQUIRE(file);
    CASE("cut off");
    for (size_t cut = 0; cut < bytes; cut++) {
        write_file(path, file, cut);
        CHECK_STATUS(brasa_session_load(n.s, path, &checkpoint, NULL), BRASA_BAD_FILE);
    }
    CASE("something behind it");
    write_file(path, file, bytes + 1);
    CHECK_STATUS(brasa_session_load(n.s, path, &checkpoint, NULL), BRASA_BAD_FILE);
    CASE("a bit of the length");
    for (int bit = 0; bit < 64; bit++) {
        file[bit / 8] ^= (char)(1 << bit % 8);
        write_file(path, file, bytes);
        CHECK_STATUS(brasa_session_load(n.s, path, &checkpoint, NULL), BRASA_BAD_FILE);
        file[bit / 8] ^= (char)(1 << bit % 8);
    }
    CASE("the state");
    CHECK(equal_state(n.s, untouched.s));
    CASE("steps below zero");
    file[bytes - 12 * 4 - 1] = (char)0x80; /* the highest byte of the only I64, the data's first element */
    write_file(path, file, bytes);
    CHECK_STATUS(brasa_session_load(n.s, path, &checkpoint, NULL), BRASA_BAD_FILE);
    CHECK_HAS(brasa_session_error(n.s), "'steps'");
    CHECK(equal_state(n.s, untouched.s));
    free(file);
    net_stop(&a);
    net_stop(&n);
    net_stop(&untouched);
}

/* A disk that breaks in the middle of a file. */
TEST(each_read_fails)
{
    const char *path = in_folder("unreadable.safetensors");
    net a, b, untouched;
    resnet(&a, CLASSES, &momentum, 0);
    resnet(&b, CLASSES, &other_start, 0);
    resnet(&untouched, CLASSES, &other_start, 0);
    CHECK_STATUS(brasa_session_save(a.s, path, BRASA_CHECKPOINT), BRASA_OK);
    brasa_status status = BRASA_BAD_FILE;
    for (read_fails_at = 1; read_fails_at < 1000; read_fails_at++) {
        reads = 0;
        if ((status = brasa_session_load(b.s, path, &checkpoint, NULL)) == BRASA_OK)
            break;
        CHECK_STATUS(status, BRASA_BAD_FILE);
        CHECK_HAS(brasa_session_error(b.s), strerror(EIO));
        CHECK(equal_state(b.s, untouched.s));
    }
    CHECK(read_fails_at > 20);
    read_fails_at = 0;
    CHECK(equal_state(a.s, b.s));
    net_stop(&a);
    net_stop(&b);
    net_stop(&untouched);
}

/* The n-th allocation fails, for every n, in saving and in loading. */
TEST(each_allocation_fails)
{
    const char *path = in_folder("alloc.safetensors"), *copy = in_folder("copy.safetensors");
    net a, b, untouched;
    resnet(&a, CLASSES, &momentum, 1);
    resnet(&b, CLASSES, &other_start, 0);
    resnet(&untouched, CLASSES, &other_start, 0);
    CHECK_STATUS(brasa_session_save(a.s, path, BRASA_CHECKPOINT), BRASA_OK);
    CHECK_STATUS(brasa_session_save(a.s, copy, BRASA_CHECKPOINT), BRASA_OK);
    const int files = files_there();
    for (int loads = 0; loads < 2; loads++) {
        net *n = loads ? &b : &a;
        brasa_status status = BRASA_OUT_OF_MEMORY;
        int at = 0;
        const int live = n->memory.live;
        CASE("%s", loads ? "load" : "save");
        while (status != BRASA_OK && at++ < 10000) {
            n->memory.calls = 0;
            n->memory.fail_at = at;
            status = loads ? brasa_session_load(b.s, path, &checkpoint, NULL)
                           : brasa_session_save(a.s, copy, BRASA_WEIGHTS);
            CHECK_INT(n->memory.live, live);
            if (status == BRASA_OK)
                break;
            CHECK_STATUS(status, BRASA_OUT_OF_MEMORY);
            CHECK_HAS(brasa_session_error(n->s), "out of memory");
            CHECK(equal_state(b.s, untouched.s));
            CHECK_INT(files_there(), files);
        }
        n->memory.fail_at = 0;
        CHECK_STATUS(status, BRASA_OK);
        CHECK(at > 3);
    }
    CHECK(equal_state(a.s, b.s));
    net_stop(&a);
    net_stop(&b);
    net_stop(&untouched);
}

/* Names that JSON must escape, that mean something elsewhere, or are long. */
TEST(odd_names)
{
    static const char *const names[] = {"\"quoted\"\\", "gr\xc3\xbc\xc3\x9f", "a/b", "__metadata__",
                                        "a-very-long-name-a-very-long-name-a-very-long-name-a-very-long-name-end"};
    const char *path = in_folder("odd.safetensors");
    for (int i = 0; i < 5; i++) {
        CASE("%s", names[i]);
        net n, m;
        dense_net(&n, names[i], &SIZED(brasa_session_options, .inference = true, .seed = 4));
        dense_net(&m, names[i], &inference);
        CHECK_STATUS(brasa_session_save(n.s, path, BRASA_WEIGHTS), BRASA_OK);
        CHECK_STATUS(brasa_session_load(m.s, path, NULL, NULL), BRASA_OK);
        CHECK(equal_state(n.s, m.s));
        net_stop(&n);
        net_stop(&m);
    }
}
