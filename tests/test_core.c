/* test_core.c - src/core: memory, errors, shapes, settings as text, hints, JSON, the processor's name. */
#define _POSIX_C_SOURCE 200809L /* fmemopen */
#include "test.h"

#include "core/cpu_name.h"
#include "core/numeric.h"
#include "core/fields.h"
#include "core/json_scan.h"
#include "core/nearest.h"
#include "core/pool.h"
#include "core/shape.h"
#include "core/storage.h"

#include <locale.h>
#include <stdint.h>
#include <stdlib.h>

/* --- contexts and errors ------------------------------------------------------------------------------------- */

static void *count_alloc(void *user, size_t bytes)
{
    ++*(int *)user;
    return malloc(bytes);
}

static void count_release(void *user, void *block)
{
    --*(int *)user;
    free(block);
}

/* A context whose live blocks are counted. */
static brasa_context *counted_context(int *live)
{
    brasa_context *ctx = NULL;
    brasa_context_options o = {
        .size = sizeof o, .threads = 1, .alloc = count_alloc, .release = count_release, .user = live};
    *live = 0;
    CHECK_STATUS(brasa_context_new(&o, &ctx), BRASA_OK);
    return ctx;
}

TEST(context_options)
{
    brasa_context *ctx = NULL;
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = -1), &ctx), BRASA_BAD_ARGUMENT);
    CHECK(!ctx);
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .alloc = count_alloc), &ctx), BRASA_BAD_ARGUMENT);
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .release = count_release), &ctx),
                 BRASA_BAD_ARGUMENT);
    CHECK_STATUS(brasa_context_new(NULL, &ctx), BRASA_OK);
    REQUIRE(ctx);
    CHECK(brasa_context_threads(ctx) >= 1);
    CHECK_TEXT(brasa_context_error(ctx), "");
    brasa_context_free(ctx);
    CHECK_STATUS(brasa_context_new(&SIZED(brasa_context_options, .threads = 3), &ctx), BRASA_OK);
    CHECK_INT(brasa_context_threads(ctx), 3);
    brasa_context_free(ctx);
}

TEST(free_of_nothing)
{
    brasa_context_free(NULL);
    brasa_graph_free(NULL);
    brasa_session_free(NULL);
}

TEST(every_status_has_a_text)
{
    for (int s = BRASA_OK; s <= BRASA_INTERNAL; s++) {
        CHECK(strlen(brasa_status_text((brasa_status)s)) > 0);
        CHECK(strcmp(brasa_status_text((brasa_status)s), "unknown status") != 0);
    }
    CHECK_TEXT(brasa_status_text((brasa_status)99), "unknown status");
}

TEST(error_texts)
{
    int live;
    brasa_context *ctx = counted_context(&live);
    REQUIRE(ctx);
    CHECK_STATUS(fail(ctx, BRASA_BAD_FILE, "line %d", 7), BRASA_BAD_FILE);
    CHECK_TEXT(brasa_context_error(ctx), "line 7");
    fail_prefix(ctx, "%s:%d", "a.net", 3);
    CHECK_TEXT(brasa_context_error(ctx), "a.net:3: line 7");
    CHECK_STATUS(fail_memory(ctx, 12), BRASA_OUT_OF_MEMORY);
    CHECK_HAS(brasa_context_error(ctx), "12 bytes");

    char long_text[4 * ERROR_TEXT_SIZE];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    fail(ctx, BRASA_BAD_FILE, "%s", long_text);
    CHECK_INT(strlen(brasa_context_error(ctx)), ERROR_TEXT_SIZE - 1);
    fail_prefix(ctx, "a.net:3");
    CHECK_HAS(brasa_context_error(ctx), "a.net:3: xxx");
    fail_prefix(ctx, "%s", long_text); /* no room for anything else: the text stays */
    CHECK_HAS(brasa_context_error(ctx), "a.net:3: xxx");
    brasa_context_free(ctx);
    CHECK_INT(live, 0);
}

/* --- pool ---------------------------------------------------------------------------------------------------- */

TEST(pool_pieces)
{
    int live;
    brasa_context *ctx = counted_context(&live);
    REQUIRE(ctx);
    pool p = {.ctx = ctx};
    char *last = NULL;
    for (size_t size = 1; size < 3000000; size = size * 3 + 1) {
        char *piece = pool_get(&p, size, 1);
        REQUIRE(piece);
        CHECK_INT((uintptr_t)piece % 16, 0);
        CHECK(piece[0] == 0 && piece[size / 2] == 0 && piece[size - 1] == 0);
        CHECK(piece != last);
        memset(piece, 0xAA, size);
        last = piece;
    }
    CHECK_TEXT(pool_text(&p, "%s-%d", "conv", 5), "conv-5");
#ifndef POOL_SEPARATE
    CHECK(live > 2 && live < 12); /* chunks, not pieces */
#endif
    CHECK(!pool_get(&p, SIZE_MAX / 2, 8));
    CHECK(pool_get(&p, 4, 4)); /* it stays usable */
    pool_free(&p);
    brasa_context_free(ctx);
    CHECK_INT(live, 0);
}

TEST(pool_grow_keeps_elements)
{
    OWNED(brasa_context) *ctx = context_of(0);
    pool p = {.ctx = ctx};
    int *array = NULL, capacity = 0;
    for (int i = 0; i < 1000; i++) {
        array = pool_grow(&p, array, i, &capacity, sizeof *array);
        REQUIRE(array);
        CHECK(capacity > i);
        array[i] = i;
    }
    for (int i = 0; i < 1000; i++)
        CHECK_INT(array[i], i);
    pool_free(&p);
}

/* --- shapes -------------------------------------------------------------------------------------------------- */

TEST(shape_sizes)
{
    const int64_t most = INT64_C(1) << 62;
    shape scalar = {0}, s = shape_4(16, 128, 600, 600);
    CHECK_INT(shape_count(&scalar), 1);
    CHECK_INT(shape_count(&s), INT64_C(737280000)); /* times 4 is beyond 2^31 */
    CHECK_INT(shape_span(&s, 1, 3), 128 * 600);
    s = shape_4(2, 0, 3, 3);
    CHECK_INT(shape_count(&s), -1);
    s = shape_4(2, -1, 3, 3);
    CHECK_INT(shape_count(&s), -1);
    s = shape_2(INT64_C(1) << 31, INT64_C(1) << 31);
    CHECK_INT(shape_count(&s), most);
    s = shape_2((INT64_C(1) << 31) + 1, INT64_C(1) << 31);
    CHECK_INT(shape_count(&s), -1);
    s = shape_4(INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX);
    CHECK_INT(shape_count(&s), -1);
}

TEST(shape_texts)
{
    shape s = shape_4(32, 3, 224, 224), scalar = {0}, large = {.rank = MAX_RANK};
    CHECK_TEXT(shape_print(&s).text, "32x3x224x224");
    CHECK_TEXT(shape_print(&scalar).text, "scalar");
    for (int i = 0; i < MAX_RANK; i++)
        large.dim[i] = INT64_MIN;
    CHECK_INT(strlen(shape_print(&large).text), MAX_RANK * 20 + MAX_RANK - 1);
}

TEST(shape_comparison)
{
    shape a = shape_2(3, 4), b = shape_2(3, 4), c = shape_2(4, 3), d = shape_1(3);
    CHECK(shape_equal(&a, &b));
    CHECK(!shape_equal(&a, &c));
    CHECK(!shape_equal(&a, &d));
    CHECK_INT(dtype_size(F32) + dtype_size(I32), 8);
    CHECK_INT(dtype_size(F64) + dtype_size(I64), 16);
    CHECK_TEXT(dtype_name(I64), "i64");
}

/* --- fields -------------------------------------------------------------------------------------------------- */

typedef struct attrs {
    int channels;
    double rate;
    bool bias;
    pair kernel;
    pads pad;
    reals weights;
    int mode;
} attrs;

static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
static const field fields[] = {
    {"channels", FIELD_INT, offsetof(attrs, channels), NULL, 1, 65536, NULL, true, "outputs"},
    {"kernel", FIELD_PAIR, offsetof(attrs, kernel), "3x3", 1, 99, NULL, true, "window"},
    {"rate", FIELD_REAL, offsetof(attrs, rate), "0.5", 0, 1e30, NULL, false, "speed"},
    {"bias", FIELD_BOOL, offsetof(attrs, bias), "yes", 0, 0, NULL, false, "constant"},
    {"pad", FIELD_PADS, offsetof(attrs, pad), "valid", 0, 0, NULL, false, "border"},
    {"weights", FIELD_REALS, offsetof(attrs, weights), "1", -9, 9, NULL, false, "factors"},
    {"mode", FIELD_WORD, offsetof(attrs, mode), "linear", 0, 0, modes, false, "kind"},
    {0},
};

/* A line of text, and what the fields are afterwards, as JSON. */
static const struct {
    const char *text, *json;
} readable[] = {
    {"8", "{\"channels\":8,\"kernel\":\"3x3\",\"rate\":0.5,\"bias\":true,\"pad\":\"0,0,0,0\",\"weights\":[1],"
          "\"mode\":\"linear\"}\n"},
    {" 8\t5  ", "\"kernel\":\"5x5\""},
    {"8 5x1", "\"kernel\":\"5x1\""},
    {"kernel=2 8", "\"channels\":8,\"kernel\":\"2x2\""},
    {"8 rate=1e-3", "\"rate\":0.001"},
    {"8 rate=0", "\"rate\":0,"},
    {"8 bias=no", "\"bias\":false"},
    {"8 bias", "\"bias\":true"},
    {"8 bias=0", "\"bias\":false"},
    {"8 pad=2", "\"pad\":\"2,2,2,2\""},
    {"8 pad=1x2", "\"pad\":\"1,2,1,2\""},
    {"8 pad=0x3", "\"pad\":\"0,3,0,3\""},
    {"8 pad=0,1,2,3", "\"pad\":\"0,1,2,3\""},
    {"8 weights=1,-0.5,2", "\"weights\":[1,-0.5,2]"},
    {"8 weights=1,2,3,4,5,6,7,8", "[1,2,3,4,5,6,7,8]"},
    {"8 mode=cubic", "\"mode\":\"cubic\""},
    {"65536", "\"channels\":65536"},
};

/* A line that is refused, and what the message must say. */
static const struct {
    const char *text, *message;
} refused[] = {
    {"", "conv: channels is missing: outputs"},
    {"0", "conv: channels: expected a whole number from 1 to 65536, got '0'"},
    {"65537", "from 1 to 65536"},
    {"99999999999", "from 1 to 65536"},
    {"-3", "got '-3'"},
    {"2.5", "got '2.5'"},
    {"8x8", "got '8x8'"},
    {"nan", "got 'nan'"},
    {"0x10", "got '0x10'"},
    {"8 rate=inf", "got 'inf'"},
    {"8 rate=1e400", "rate"},
    {"8 rate=-1", "rate: expected a number of at least 0, got '-1'"},
    {"8 rate=", "rate: expected"},
    {"8 rate=1,5", "got '1,5'"},
    {"8 bias=maybe", "bias: expected yes or no, got 'maybe'"},
    {"8 3x", "kernel"},
    {"8 3x3x3", "kernel"},
    {"8 0x3", "kernel: expected a size such as 3 or 3x5 from 1 to 99, got '0x3'"},
    {"8 3x1e1", "kernel"},
    {"8 3x9999999999", "kernel"},
    {"8 pad=-1", "pad: expected valid, same"},
    {"8 pad=1,2,3", "pad"},
    {"8 pad=1,2,3,4,5", "pad"},
    {"8 pad=sane", "pad"},
    {"8 pad=9999999", "pad"},
    {"8 weights=", "weights"},
    {"8 weights=1,", "weights"},
    {"8 weights=10", "weights"},
    {"8 weights=1,2,3,4,5,6,7,8,9", "weights"},
    {"8 mode=bilinear", "mode: expected one of nearest, linear, cubic, got 'bilinear'"},
    {"8 3 3", "unknown setting '3'"},
    {"8 chanels=3", "unknown setting 'chanels', did you mean 'channels'?"},
    {"8 kern=3", "did you mean 'kernel'?"},
    {"8 xyzzy=3", "unknown setting 'xyzzy'"},
    {"8 channels=9", "channels is given twice"},
    {"8 bias bias=no", "bias is given twice"},
    {"=5", "unknown setting ''"},
};

static bool append(void *user, const char *text, size_t length)
{
    strncat(user, text, length);
    return true;
}

TEST(fields_read)
{
    OWNED(brasa_context) *ctx = context_of(0);
    for (size_t i = 0; i < sizeof readable / sizeof readable[0]; i++) {
        CASE("'%s'", readable[i].text);
        attrs a = {0};
        char text[500] = "";
        json j = {.write = append, .user = text};
        fields_set_defaults(fields, &a);
        CHECK_STATUS(fields_parse(ctx, "conv", fields, &a, readable[i].text), BRASA_OK);
        json_open(&j, NULL, '{');
        fields_to_json(&j, fields, &a);
        json_close(&j, '}');
        CHECK_HAS(text, readable[i].json);
    }
}

TEST(fields_refuse)
{
    OWNED(brasa_context) *ctx = context_of(0);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        CASE("'%s'", refused[i].text);
        attrs a = {0};
        fields_set_defaults(fields, &a);
        CHECK_STATUS(fields_parse(ctx, "conv", fields, &a, refused[i].text), BRASA_BAD_ARGUMENT);
        CHECK_HAS(brasa_context_error(ctx), refused[i].message);
    }
    CASE("a word of 5000 letters");
    char word[5001];
    memset(word, '7', sizeof word);
    word[sizeof word - 1] = '\0';
    attrs a = {0};
    CHECK_STATUS(fields_parse(ctx, "conv", fields, &a, word), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(ctx), "too long");
}

TEST(fields_same_padding)
{
    OWNED(brasa_context) *ctx = context_of(0);
    attrs a = {0};
    CHECK_STATUS(fields_parse(ctx, "conv", fields, &a, "8 pad=same"), BRASA_OK);
    CHECK(a.pad.same);
    CHECK_STATUS(fields_parse(ctx, "conv", fields, &a, "8 pad=valid"), BRASA_OK);
    CHECK(!a.pad.same);
}

TEST(fields_compare)
{
    attrs a = {0}, b = {0};
    fields_set_defaults(fields, &a);
    fields_set_defaults(fields, &b);
    CHECK(fields_equal(fields, &a, &b));
    b.kernel.w++;
    CHECK(!fields_equal(fields, &a, &b));
    b.kernel.w--;
    b.weights.value[0] = 2;
    CHECK(!fields_equal(fields, &a, &b));
}

/* --- hints --------------------------------------------------------------------------------------------------- */

static const char *suggest(const char *word)
{
    static const char *const known[] = {"conv2d", "dense", "maxpool", "avgpool", "relu", "relu6"};
    nearest n = {.word = word};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        nearest_offer(&n, known[i]);
    const char *found = nearest_found(&n);
    return found ? found : "";
}

TEST(nearest_words)
{
    CHECK_TEXT(suggest("dense"), "dense");
    CHECK_TEXT(suggest("desne"), "dense");
    CHECK_TEXT(suggest("conv2"), "conv2d");
    CHECK_TEXT(suggest("con"), "conv2d");
    CHECK_TEXT(suggest("maxpol"), "maxpool");
    CHECK_TEXT(suggest("batchnorm"), "");
    CHECK_TEXT(suggest("x"), "");
    CHECK_TEXT(suggest(""), "");
    CHECK_TEXT(suggest("a word far longer than any that could be known here"), "");
    nearest n = {.word = "rely"};
    CHECK_TEXT(nearest_hint(&n).text, "");
    nearest_offer(&n, "relu");
    CHECK_TEXT(nearest_hint(&n).text, ", did you mean 'relu'?");
}

/* --- JSON ---------------------------------------------------------------------------------------------------- */

TEST(json_nesting_and_escapes)
{
    char text[500] = "";
    json j = {.write = append, .user = text};
    json_open(&j, NULL, '{');
    json_text(&j, "a\"b", "line\nquote\" back\\ tab\t \x01 \xc3\xa9");
    json_text(&j, "none", NULL);
    json_text(&j, "bytes", "a\xff\xe2\x82 \xe2\x82\xac\xc3");
    json_open(&j, "list", '[');
    json_int(&j, NULL, INT64_MIN);
    json_open(&j, NULL, '[');
    json_close(&j, ']');
    json_open(&j, NULL, '{');
    json_bool(&j, "yes", true);
    json_bool(&j, "no", false);
    json_close(&j, '}');
    json_close(&j, ']');
    json_real(&j, "x", 0.1);
    json_real(&j, "nan", NAN);
    json_real(&j, "inf", -INFINITY);
    json_close(&j, '}');
    CHECK_TEXT(text, "{\"a\\\"b\":\"line\\u000aquote\\\" back\\\\ tab\\u0009 \\u0001 \xc3\xa9\",\"none\":null,"
                     "\"bytes\":\"a\\ufffd\\ufffd\\ufffd \xe2\x82\xac\\ufffd\","
                     "\"list\":[-9223372036854775808,[],{\"yes\":true,\"no\":false}],\"x\":0.1,\"nan\":null,"
                     "\"inf\":null}\n");
}

static bool refuse_all(void *user, const char *text, size_t length)
{
    (void)text;
    (void)length;
    ++*(int *)user;
    return false;
}

TEST(json_stops_when_refused)
{
    int calls = 0;
    json j = {.write = refuse_all, .user = &calls};
    json_open(&j, NULL, '[');
    json_int(&j, NULL, 1);
    json_close(&j, ']');
    CHECK_INT(calls, 1);
    CHECK(j.failed);
}

/* --- the processor ---------------------------------------------------------------------------------------------- */

TEST(cpu_names)
{
    static const struct {
        const char *info, *name;
    } rows[] = {
        {"processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
         "CPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\nprocessor\t: 1\nCPU part\t: 0xd40\n",
         "0x41/0x3/0xd0c/1"},
        {"model name\t: Some  board rev 1 \nCPU implementer\t: 0x51\nCPU part\t: 0x800\n",
         "Some board rev 1 0x51/0x800"},
        {"hart\t: 0\nuarch\t: sifive,u74-mc\n", "sifive,u74-mc"},
        {"cpu family\t: 6\ncpu\t: POWER9\n", "POWER9"},
        {"CPU part\t: 0x8\twith\001\xff\n", "0x8 with"},
        {"model name", "unknown"},
        {"\n", "unknown"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        FILE *info = fmemopen((void *)(uintptr_t)rows[i].info, strlen(rows[i].info), "r");
        REQUIRE(info);
        CHECK_TEXT(cpu_name_read(info).text, rows[i].name);
        fclose(info);
    }
    CASE("a long one");
    char text[4000];
    memset(text, 'x', sizeof text);
    memcpy(text, "cpu:", 4);
    FILE *info = fmemopen(text, sizeof text, "r");
    REQUIRE(info);
    CHECK(strlen(cpu_name_read(info).text) > 10);
    fclose(info);
}

/* Of all machines that call themselves "AMD EPYC", this one. */
TEST(cpu_numbers)
{
#ifdef __x86_64__
    if (getenv("BRASA_TEST_VALGRIND"))
        SKIP("valgrind plays another processor than the one in /proc/cpuinfo");
    int family = -1, model = -1, stepping = -1;
    char line[8192], end[64];
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (stepping < 0 && info && fgets(line, sizeof line, info))
        if (sscanf(line, "cpu family : %d", &family) != 1 && sscanf(line, "model : %d", &model) != 1)
            (void)sscanf(line, "stepping : %d", &stepping);
    if (info)
        fclose(info);
    if (stepping < 0)
        SKIP("/proc/cpuinfo does not tell");
    const cpu_text name = cpu_name();
    snprintf(end, sizeof end, "%d/%d/%d", family, model, stepping);
    CHECK(strlen(name.text) >= strlen(end));
    CHECK_TEXT(name.text + strlen(name.text) - strlen(end), end);
    CHECK(strlen(name.text) > strlen(end) + 1 && name.text[strlen(name.text) - strlen(end) - 1] == ' ');
#else
    SKIP("another processor");
#endif
}

/* --- locales ---------------------------------------------------------------------------------------------------- */

static bool keep_text(void *user, const char *text, size_t length)
{
    strncat(user, text, length);
    return true;
}

TEST(bytes_for_people)
{
    static const struct {
        double bytes;
        const char *text;
    } rows[] = {{0, "0 B"},          {999, "999 B"},     {1000, "1.00 KB"},  {9994, "9.99 KB"},
                {9996, "10.0 KB"},   {99960, "100 KB"},  {999400, "999 KB"}, {999600, "1.00 MB"},
                {13.7e6, "13.7 MB"}, {1.5e9, "1.50 GB"}, {2e15, "2.00 PB"},  {2e18, "2000 PB"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_TEXT(numeric_bytes(rows[i].bytes).text, rows[i].text);
}

/* Sizes and times in explain's table. */
static void check_explained(brasa_graph *g)
{
    static char text[8192];
    OWNED(brasa_session) *s = NULL;
    CHECK_STATUS(brasa_session_new(g, &SIZED(brasa_session_options, .batch = 512), &s), BRASA_OK);
    brasa_session_profile(s, true);
    const float data[512 * 4] = {0};
    const int32_t labels[512] = {0};
    CHECK_STATUS(brasa_train_step(s, data, labels, NULL), BRASA_OK);
    CHECK_STATUS(brasa_session_explain(s, BRASA_EXPLAIN_TEXT, keep_text, text), BRASA_OK);
    CHECK_HAS(text, "8.19 KB");
    for (const char *c = text; (c = strchr(c, ',')); c++)
        CHECK(c[1] == ' '); /* between words, not digits */
}

/* A program that uses us may have called setlocale: numbers keep their point, and its locale stays as it is. */
TEST(numbers_in_a_locale_with_commas)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "pt_BR.UTF-8", "pl_PL.UTF-8"};
    const char *found = NULL;
    for (int i = 0; i < 5 && !found; i++)
        found = setlocale(LC_ALL, names[i]);
    if (!found)
        SKIP("no locale with a decimal comma is installed; test_locale.sh makes one");
    char comma[8];
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    CHECK_TEXT(comma, "0,5");
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    brasa_tensor x = brasa_dropout(brasa_input_vector(g, "x", 4), 0.25f);
    x = brasa_apply(x, "leaky_relu %g", 0.125);
    brasa_classify(x, 3);
    CHECK_STATUS(brasa_graph_status(g), BRASA_OK);
    char text[256] = "";
    json j = {.write = keep_text, .user = text};
    json_real(&j, NULL, 0.25);
    CHECK_TEXT(text, "0.25");
    check_explained(g);
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    CHECK_TEXT(comma, "0,5");
    setlocale(LC_ALL, "C");
}

/* What is there, as it is read: a text for each value. */
static brasa_status read_any(json_scan *s, char *key, void *user)
{
    char *out = user, *text;
    double real;
    bool yes;
    uint64_t whole;
    brasa_status status = BRASA_OK;
    if (strcmp(key, "real") == 0 && (status = json_read_real(s, &real)) == BRASA_OK)
        sprintf(out + strlen(out), "%g ", real);
    else if (strcmp(key, "bool") == 0 && (status = json_read_bool(s, &yes)) == BRASA_OK)
        strcat(out, yes ? "yes " : "no ");
    else if (strcmp(key, "whole") == 0 && (status = json_read_number(s, &whole)) == BRASA_OK)
        sprintf(out + strlen(out), "%llu ", (unsigned long long)whole);
    else if (strcmp(key, "text") == 0 && (status = json_read_text(s, &text)) == BRASA_OK)
        strcat(strcat(out, text), " ");
    else if (strcmp(key, "skip") == 0)
        status = json_skip(s);
    return status;
}

TEST(json_reading)
{
    static const struct {
        const char *text, *read; /* NULL: refused */
        const char *said;
    } rows[] = {
        {"{}", ""},
        {" { \"real\" : -1.5e3 , \"whole\":7,\"bool\":true,\"bool\": false, \"text\":\"a\\u00e9\"} ",
         "-1500 7 yes no a\u00e9 "},
        {"{\"skip\":{\"a\":[1,[2,-3.5],{}],\"b\":null,\"c\":[]},\"real\":0}", "0 "},
        {"{\"skip\":[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]],\"whole\":1}", "1 "},
        {"{\"skip\":[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}", NULL, "too deep"},
        {"{\"real\":nan}", NULL, "byte 8: expected a number"},
        {"{\"real\":0x10}", NULL, "expected"},
        {"{\"real\":1e999}", NULL, "expected a number"},
        {"{\"real\":1-2}", NULL, "expected a number"},
        {"{\"real\":}", NULL, "expected a number"},
        {"{\"bool\":yes}", NULL, "true or false"},
        {"{\"bool\":tru", NULL, "true or false"},
        {"{\"skip\":[1,]}", NULL, "expected a number"},
        {"{\"skip\":[1 2]}", NULL, "expected ']'"},
        {"{\"skip\":", NULL, "expected a number"},
        {"{\"skip\":\"abc", NULL, "does not end"},
    };
    OWNED(brasa_context) *ctx = context_of(0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200], out[200] = "";
        CASE("%s", rows[i].text);
        strcpy(text, rows[i].text);
        json_scan s = {.ctx = ctx, .path = "x.json", .text = text, .at = text, .end = text + strlen(text)};
        brasa_status status = json_read_object(&s, read_any, out);
        CHECK_STATUS(status, rows[i].read ? BRASA_OK : BRASA_BAD_FILE);
        if (rows[i].read)
            CHECK_TEXT(out, rows[i].read);
        else
            CHECK_HAS(brasa_context_error(ctx), rows[i].said);
    }
}
