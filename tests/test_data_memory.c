/* test_data_memory.c - samples from arrays and from a callback: the same batches and the same hash as from files,
 * however they lie; and what is refused. */
#define _GNU_SOURCE
#include "test.h"

#include "core/array.h"
#include "heap.h"
#include "loader_rig.h"

enum { N = 24, TESTS = 4, TRAINS = N - TESTS, SIDE = 32, EACH = 3 * SIDE * SIDE };

/* Drawn images in every form; of floats, what a loader makes of their bytes. */
static struct {
    dataset *set;
    brasa_context *ctx;
    unsigned char hwc[N][SIDE][SIDE][3], chw[N][3][SIDE][SIDE], wide[N][SIDE][SIDE + 5][4];
    float f_chw[N][3][SIDE][SIDE], f_hwc[N][SIDE][SIDE][3];
    double d_chw[N][3][SIDE][SIDE];
    int32_t label[N];
    int64_t label64[N];
} drawn;

static dataset *draw(void)
{
    picture p = {0};
    if (drawn.set)
        return drawn.set;
    CHECK_STATUS(brasa_context_new(NULL, &drawn.ctx), BRASA_OK);
    CHECK_STATUS(brasa_data_open(drawn.ctx, "synth:cifar10,n=24", &drawn.set), BRASA_OK);
    for (int32_t i = 0; drawn.set && i < N; i++) {
        drawn.label64[i] = drawn.label[i] = drawn.set->label[i];
        CHECK_STATUS(dataset_read(drawn.set, drawn.ctx, i, &p), BRASA_OK);
        memcpy(drawn.hwc[i], p.pixels, EACH);
        for (int k = 0; k < EACH; k++) {
            const int y = k / 3 / SIDE, x = k / 3 % SIDE, c = k % 3;
            const unsigned char pixel = p.pixels[k];
            drawn.chw[i][c][y][x] = drawn.wide[i][y][x][c] = pixel;
            drawn.f_chw[i][c][y][x] = drawn.f_hwc[i][y][x][c] = (float)(pixel * 0.00392156862745098);
            drawn.d_chw[i][c][y][x] = (double)drawn.f_chw[i][c][y][x];
        }
    }
    picture_free(drawn.ctx, &p);
    return drawn.set;
}

/* An answer of the drawn images, from the callback's point of view. */
typedef struct asked {
    bool floats;
    int calls, largest; /* that were for data, and the most samples of one */
    int fail_at;        /* the call for data that fails, from 1 */
    int32_t bad_label;
} asked;

static int32_t answer(void *user, const int32_t *samples, int32_t count, void *data, int32_t *labels)
{
    asked *a = user;
    a->calls += data != NULL;
    if (data && a->calls == a->fail_at)
        return count - 1;
    a->largest = data && count > a->largest ? count : a->largest;
    for (int32_t i = 0; i < count; i++) {
        if (labels)
            labels[i] = samples[i] == 5 && a->bad_label ? a->bad_label : drawn.label[samples[i]];
        if (data && a->floats)
            memcpy((float *)data + i * EACH, drawn.f_chw[samples[i]], EACH * sizeof(float));
        else if (data)
            memcpy((unsigned char *)data + i * EACH, drawn.hwc[samples[i]], EACH);
    }
    return count;
}

static brasa_array array_of(void *data, int type, int rank, int64_t n, int64_t a, int64_t b, int64_t c)
{
    return (brasa_array){.data = data, .type = type, .rank = rank, .shape = {n, a, b, c}};
}

/* Each form; the last samples are to test on. */
enum { NHWC, NCHW, STRIDED, COPIED, ASKED, FLOATS, FLOATS_NHWC, DOUBLES, FLOATS_COPIED, FLOATS_ASKED, FORMS };
static const char *const form_names[] = {
    "u8 nhwc",  "u8 nchw", "u8 in larger memory", "u8 copied",    "u8 asked for", "f32",
    "f32 nhwc", "f64",     "f32 copied",          "f32 asked for"};

static brasa_data_arrays arrays_of(int form)
{
    brasa_data_arrays a = {.size = sizeof a, .classes = 10, .class_names = drawn.set->class_name};
    a.nhwc = form == NHWC || form == STRIDED || form == FLOATS_NHWC;
    a.copy = form == COPIED || form == FLOATS_COPIED;
    a.labels = array_of(drawn.label, BRASA_TYPE_I32, 1, N, 0, 0, 0);
    if (form == DOUBLES)
        a.labels = array_of(drawn.label64, BRASA_TYPE_I64, 1, N, 0, 0, 0);
    if (form == NHWC)
        a.samples = array_of(drawn.hwc, BRASA_TYPE_U8, 4, N, SIDE, SIDE, 3);
    else if (form == NCHW || form == COPIED)
        a.samples = array_of(drawn.chw, BRASA_TYPE_U8, 4, N, 3, SIDE, SIDE);
    else if (form == STRIDED)
        a.samples = (brasa_array){
            drawn.wide, BRASA_TYPE_U8, 4, {N, SIDE, SIDE, 3}, {SIDE * (SIDE + 5) * 4, (SIDE + 5) * 4, 4, 1}};
    else if (form == FLOATS_NHWC)
        a.samples = array_of(drawn.f_hwc, BRASA_TYPE_F32, 4, N, SIDE, SIDE, 3);
    else if (form == DOUBLES)
        a.samples = array_of(drawn.d_chw, BRASA_TYPE_F64, 4, N, 3, SIDE, SIDE);
    else
        a.samples = array_of(drawn.f_chw, BRASA_TYPE_F32, 4, N, 3, SIDE, SIDE);
    array_view v;
    CHECK_STATUS(array_view_of(drawn.ctx, "a", &a.samples, &v), BRASA_OK);
    a.test_samples = a.samples;
    a.test_labels = a.labels;
    a.samples.shape[0] = a.labels.shape[0] = TRAINS;
    a.test_samples.shape[0] = a.test_labels.shape[0] = TESTS;
    a.test_samples.data = (char *)a.samples.data + (size_t)(TRAINS * v.stride[0]) * array_type_size(v.type);
    a.test_labels.data = (char *)a.labels.data + (size_t)TRAINS * array_type_size(a.labels.type);
    return a;
}

static brasa_data_callback callback_of(asked *user)
{
    return (brasa_data_callback){.size = sizeof(brasa_data_callback),
                                 .read = answer,
                                 .user = user,
                                 .count = TRAINS,
                                 .test_count = TESTS,
                                 .type = user->floats ? BRASA_TYPE_F32 : BRASA_TYPE_U8,
                                 .channels = 3,
                                 .height = SIDE,
                                 .width = SIDE,
                                 .classes = 10,
                                 .class_names = drawn.set->class_name};
}

static brasa_status open_form(brasa_context *ctx, int form, asked *user, dataset **out)
{
    *user = (asked){.floats = form == FLOATS_ASKED};
    if (form == ASKED || form == FLOATS_ASKED) {
        const brasa_data_callback c = callback_of(user);
        return brasa_data_from_callback(ctx, &c, out);
    }
    const brasa_data_arrays a = arrays_of(form);
    const brasa_status status = brasa_data_from_arrays(ctx, &a, out);
    return status;
}

/* A hash of two epochs' batches. */
static uint64_t two_epochs(const dataset *d, const char *text, layout how, int64_t budget, bool bytes)
{
    uint64_t h = 14695981039346656037u;
    const transform t = parsed(text);
    const feeder_options o = {.set = d, .transform = &t, .layout = how, .budget = budget, .bytes = bytes};
    feeder *f = NULL;
    loader *l = NULL;
    int32_t list[N];
    for (int i = 0; i < N; i++)
        list[i] = i;
    CHECK_STATUS(feeder_new(d->ctx, &o, &f), BRASA_OK);
    if (f)
        CHECK_STATUS(loader_new(f, &(loader_options){list, N, 7, true, 3}, &l), BRASA_OK);
    for (int i = 0; l && i < 8; i++) {
        const batch *b;
        if (loader_next(l, &b) != BRASA_OK) {
            CHECK_TEXT(d->ctx->error, "");
            break;
        }
        const unsigned char *from = bytes && !d->numbers ? b->pixels : (const unsigned char *)b->input;
        for (size_t k = 0; k < (from == b->pixels ? b->pixel_bytes : b->input_bytes); k++)
            h = (h ^ from[k]) * 1099511628211u;
        for (int k = 0; k < b->size; k++)
            h = (h ^ (uint64_t)(b->samples[k] * 16 + b->labels[k])) * 1099511628211u;
    }
    loader_free(l);
    feeder_free(f);
    return h;
}

TEST(the_same_batches)
{
    static const char crops[] = "crop=28 random_crop flip=horizontal mean=0.4,0.5,0.6";
    const layout plain = {0}, blocks = layout_in_blocks(1, 16), last = {.permuted = 1, .order = {0, 2, 3, 1}};
    const layout layouts[] = {plain, blocks, last};
    REQUIRE(draw());
    for (int form = 0; form < FORMS; form++) {
        CASE("%s", form_names[form]);
        asked user;
        dataset *d = NULL;
        dataset_report there = {0}, made = {0};
        REQUIRE(open_form(drawn.ctx, form, &user, &d) == BRASA_OK);
        CHECK_INT(d->numbers, form >= FLOATS);
        if (form == COPIED || form == FLOATS_COPIED) { /* what the caller does with the memory is no matter now */
            memset(drawn.chw, 1, sizeof drawn.chw);
            memset(drawn.f_chw, 1, sizeof drawn.f_chw);
        }
        for (int i = 0; i < 3; i++) {
            const char *text = form >= FLOATS ? "" : crops;
            CHECK(two_epochs(d, text, layouts[i], 0, false) == two_epochs(drawn.set, text, layouts[i], 0, false));
        }
        CHECK(two_epochs(d, "", plain, 1 << 20, true) == two_epochs(drawn.set, "", plain, 1 << 20, form < FLOATS));
        CHECK(form != ASKED || user.largest == 7);
        CHECK_STATUS(dataset_identify(d, false, NULL, NULL, &made), BRASA_OK);
        CHECK_STATUS(dataset_examine(drawn.set, false, NULL, NULL, &there), BRASA_OK);
        CHECK_INT(strcmp(made.hash, there.hash) == 0, form < FLOATS); /* as of files with these images */
        dataset_report_free(&there);
        dataset_report_free(&made);
        brasa_data_free(d);
        brasa_data_free(drawn.set);
        drawn.set = NULL;
        brasa_context_free(drawn.ctx);
        REQUIRE(draw());
    }
}

/* What is kept is not asked for again; an identity spares reading all samples, and tells data apart. */
TEST(identity)
{
    char hashes[3][HASH_TEXT_SIZE];
    const char *const texts[] = {"version 1", "version 2", "version 1"};
    REQUIRE(draw());
    for (int i = 0; i < 3; i++) {
        asked user = {0};
        dataset *d = NULL;
        dataset_report r;
        brasa_data_callback c = callback_of(&user);
        c.identity = texts[i];
        REQUIRE(brasa_data_from_callback(drawn.ctx, &c, &d) == BRASA_OK);
        CHECK_STATUS(dataset_identify(d, true, NULL, NULL, &r), BRASA_OK);
        CHECK(r.defined);
        CHECK_INT(user.calls, 0);
        two_epochs(d, "", (layout){0}, 1 << 20, false);
        CHECK_INT(user.calls, 4); /* batches in the first epoch */
        memcpy(hashes[i], r.hash, sizeof hashes[i]);
        dataset_report_free(&r);
        brasa_data_free(d);
    }
    CHECK(strcmp(hashes[0], hashes[1]) != 0);
    CHECK_TEXT(hashes[0], hashes[2]);
}

TEST(parts_and_facts)
{
    static float vectors[6] = {0, 1, 2, 3, 4, 5};
    static unsigned char labels[3] = {0, 2, 1};
    brasa_data_info i = {.size = sizeof i};
    float got[4];
    dataset *d = NULL;
    REQUIRE(draw());
    brasa_data_arrays a = {.size = sizeof a,
                           .samples = array_of(vectors, BRASA_TYPE_F32, 2, 2, 2, 0, 0),
                           .labels = array_of(labels, BRASA_TYPE_U8, 1, 2, 0, 0, 0),
                           .test_samples = array_of(vectors + 4, BRASA_TYPE_F32, 2, 1, 2, 0, 0),
                           .test_labels = array_of(labels + 2, BRASA_TYPE_U8, 1, 1, 0, 0, 0)};
    REQUIRE(brasa_data_from_arrays(drawn.ctx, &a, &d) == BRASA_OK);
    CHECK_STATUS(brasa_data_describe(d, &i), BRASA_OK);
    CHECK(i.samples == 2 && i.test_samples == 1 && i.classes == 3 && i.channels == 2 && !i.height && !i.images);
    CHECK_TEXT(brasa_data_class(d, 2), "2");
    CHECK(!brasa_data_class(d, 3) && !brasa_data_class(d, -1));
    CHECK_STATUS(dataset_read_numbers(d, drawn.ctx, (int32_t[]){2, 0}, 2, got), BRASA_OK);
    CHECK(memcmp(got, (float[]){4, 5, 0, 1}, sizeof got) == 0);
    CHECK_TEXT(dataset_name(d, 2).text, "test_samples[0]");
    brasa_data_free(d);

    asked user = {0};
    brasa_data_callback c = callback_of(&user);
    REQUIRE(brasa_data_from_callback(drawn.ctx, &c, &d) == BRASA_OK);
    CHECK_STATUS(brasa_data_describe(d, &i), BRASA_OK);
    CHECK(i.samples == TRAINS && i.test_samples == TESTS && i.images && i.width == SIDE);
    i.size = 1;
    CHECK_STATUS(brasa_data_describe(d, &i), BRASA_BAD_ARGUMENT);
    brasa_data_free(d);
}

/* Every type and order of an array's axes, element by element. */
TEST(array_reads)
{
    static const struct {
        int type, as;
    } rows[] = {
        {BRASA_TYPE_F32, BRASA_TYPE_F32},   {BRASA_TYPE_F64, BRASA_TYPE_F32}, {BRASA_TYPE_BF16, BRASA_TYPE_F32},
        {BRASA_TYPE_I32, BRASA_TYPE_I64},   {BRASA_TYPE_I64, BRASA_TYPE_F64}, {BRASA_TYPE_U8, BRASA_TYPE_F32},
        {BRASA_TYPE_BF16, BRASA_TYPE_BF16}, {BRASA_TYPE_F64, BRASA_TYPE_F64}, {BRASA_TYPE_U8, BRASA_TYPE_U8},
        {BRASA_TYPE_I64, BRASA_TYPE_I64},   {BRASA_TYPE_F32, BRASA_TYPE_I64}, {BRASA_TYPE_U8, BRASA_TYPE_F64}};
    brasa_context *ctx = NULL;
    brasa_context_new(NULL, &ctx);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        CASE("%d as %d", rows[r].type, rows[r].as);
        double memory[120], read[24]; /* 4 x 2 x 3 of them, 3 with 5 elements between them */
        const size_t size = array_type_size(rows[r].type), to = array_type_size(rows[r].as);
        for (int i = 0; i < 120; i++) {
            char *at = (char *)memory + (size_t)i * size;
            const float x = (float)i;
            const uint16_t upper = (uint16_t)(((union {
                                                  float f;
                                                  uint32_t bits;
                                              }){x})
                                                  .bits >>
                                              16);
            const void *from = rows[r].type == BRASA_TYPE_F32    ? (const void *)&x
                               : rows[r].type == BRASA_TYPE_F64  ? (const void *)&(double){i}
                               : rows[r].type == BRASA_TYPE_BF16 ? (const void *)&upper
                               : rows[r].type == BRASA_TYPE_I32  ? (const void *)&(int32_t){i}
                               : rows[r].type == BRASA_TYPE_I64  ? (const void *)&(int64_t){i}
                                                                 : (const void *)&(unsigned char){(unsigned char)i};
            memcpy(at, from, size);
        }
        const brasa_array a = {memory, rows[r].type, 3, {4, 2, 3}, {30, 15, 5}};
        array_view v;
        CHECK_STATUS(array_view_of(ctx, "a", &a, &v), BRASA_OK);
        array_move_axis(&v, 2, 1); /* 4 x 3 x 2 */
        array_read(&v, 1, 3, rows[r].as, read);
        for (int i = 0; i < 18; i++) {
            const int value = (i / 6 + 1) * 30 + i % 6 / 2 * 5 + i % 2 * 15;
            float x = 0;
            const char *at = (char *)read + (size_t)i * to;
            if (rows[r].as == BRASA_TYPE_BF16)
                memcpy((char *)&x + 2, at, 2);
            CHECK(rows[r].as == BRASA_TYPE_F32    ? ((float *)(void *)read)[i] == (float)value
                  : rows[r].as == BRASA_TYPE_F64  ? read[i] == value
                  : rows[r].as == BRASA_TYPE_I64  ? ((int64_t *)(void *)read)[i] == value
                  : rows[r].as == BRASA_TYPE_BF16 ? x == (float)value
                                                  : ((unsigned char *)read)[i] == value);
        }
    }
    brasa_context_free(ctx);
}

/* --- what is refused ------------------------------------------------------------------------------------------- */

typedef struct refused {
    const char *name, *text;
    void (*spoil)(brasa_data_arrays *a);
} refused;

#define SPOIL(id, statement)                                                                                         \
    static void id(brasa_data_arrays *a)                                                                             \
    {                                                                                                                \
        statement;                                                                                                   \
    }
SPOIL(no_size, a->size = 0)
SPOIL(no_data, a->samples.data = NULL)
SPOIL(no_labels, a->labels.data = NULL)
SPOIL(on_device, a->samples.device = "cuda:1")
SPOIL(no_type, a->samples.type = 0)
SPOIL(odd_type, a->labels.type = 77)
SPOIL(unaligned, a->labels.data = (char *)a->labels.data + 1)
SPOIL(rank_7, a->samples.rank = 7)
SPOIL(rank_1, a->samples.rank = 1)
SPOIL(rank_5, (a->samples.rank = 5, a->samples.shape[4] = 1))
SPOIL(empty, a->samples.shape[0] = 0)
SPOIL(beyond, (a->samples.shape[0] = INT64_MAX / 4, a->samples.shape[1] = 3))
SPOIL(backwards, (a->samples.strides[0] = -EACH, a->samples.strides[1] = 1))
SPOIL(overlap,
      (a->samples.strides[0] = 4, a->samples.strides[1] = 96, a->samples.strides[2] = 3, a->samples.strides[3] = 1))
SPOIL(far, (a->samples.strides[0] = INT64_MAX / 2, a->samples.strides[1] = 96, a->samples.strides[2] = 3,
            a->samples.strides[3] = 1))
SPOIL(planar, a->nhwc = false)
SPOIL(long_side,
      (a->samples.shape[0] = 1, a->samples.shape[1] = 20000, a->samples.shape[2] = 1, a->labels.shape[0] = 1))
SPOIL(few_labels, a->labels.shape[0]--)
SPOIL(real_labels, a->labels.type = BRASA_TYPE_F32)
SPOIL(few_classes, a->classes = 9; a->class_names = NULL)
SPOIL(names_alone, a->classes = 0)
SPOIL(odd_classes, a->classes = -1)
SPOIL(half_a_test, a->test_samples.data = NULL)
SPOIL(other_test, a->test_samples = array_of(drawn.f_hwc, BRASA_TYPE_F32, 4, TESTS, SIDE, SIDE, 3))

static const char *odd_names[10] = {"a", "b\n", "c", "d", "e", "f", "g", "h", "i", "j"};
SPOIL(bad_names, a->class_names = odd_names)

TEST(arrays_are_refused)
{
    static const refused rows[] = {
        {"no size", "size", no_size},
        {"no samples", "samples: data is NULL", no_data},
        {"no labels", "labels: data is NULL", no_labels},
        {"on a device", "samples: on cuda:1", on_device},
        {"no type", "samples: type", no_type},
        {"another type", "labels: type: expected BRASA_TYPE_F32 or another one, got 77", odd_type},
        {"not aligned", "labels: data is not aligned", unaligned},
        {"seven axes", "rank: expected 0 to 6, got 7", rank_7},
        {"one axis", "got 1 axes", rank_1},
        {"five axes", "got 5 axes", rank_5},
        {"no samples in it", "axis 0: expected at least 1 entry, got 0", empty},
        {"beyond memory", "more elements than any memory", beyond},
        {"backwards", "stride -3072 of axis 0: elements overlap", backwards},
        {"overlap", "stride 4 of axis 0: elements overlap, expected a stride of at least", overlap},
        {"far apart", "axis 0: larger than any memory", far},
        {"the wrong order", "8-bit images with 32 channels, expected 1 or 3; is `nhwc` right?", planar},
        {"a long side", "too large", long_side},
        {"fewer labels", "labels: expected 20 whole numbers", few_labels},
        {"labels that are no whole numbers", "labels: expected 20 whole numbers", real_labels},
        {"a label too large", "is 9, expected 0 to 8", few_classes},
        {"names without a count", "classes: expected 1 to 65536, got 0", names_alone},
        {"fewer classes than none", "classes: expected 1 to 65536, got -1", odd_classes},
        {"labels to test alone", "test_samples: data is NULL", half_a_test},
        {"other samples to test", "test_samples: numbers of 3x32x32, but the samples to train on are 8-bit",
         other_test},
        {"a name of two lines", "class_names[1]", bad_names},
    };
    REQUIRE(draw());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].name);
        brasa_data *d = drawn.set;
        brasa_data_arrays a = arrays_of(NHWC);
        rows[i].spoil(&a);
        CHECK(brasa_data_from_arrays(drawn.ctx, &a, &d) != BRASA_OK);
        CHECK(!d);
        CHECK_HAS(brasa_context_error(drawn.ctx), rows[i].text);
    }
}

TEST(callbacks_are_refused)
{
    static const struct {
        const char *text;
        brasa_data_callback with; /* what differs: 0 is as it should be, -9 is 0 */
        int32_t bad_label;
    } rows[] = {
        {"count 0", {.count = -9}},
        {"test_count 2147483647", {.test_count = INT32_MAX}},
        {"test_count -1", {.test_count = -1}},
        {"type: expected BRASA_TYPE_U8 or BRASA_TYPE_F32", {.type = BRASA_TYPE_F64}},
        {"channels 2", {.channels = 2}},
        {"channels 20000000", {.channels = 20000000, .type = BRASA_TYPE_F32}},
        {"height 0", {.height = -9}},
        {"width 20000", {.width = 20000}},
        {"classes: expected 1 to 65536, got 0", {.classes = -9}},
        {"label 10 of sample 5: expected 0 to 9", {0}, 10},
        {"label -1 of sample 5", {0}, -1},
    };
#define CHANGE(member) c.member = rows[i].with.member == -9 ? 0 : rows[i].with.member ? rows[i].with.member : c.member
    brasa_data *d = NULL;
    REQUIRE(draw());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", rows[i].text);
        asked user = {.bad_label = rows[i].bad_label};
        brasa_data_callback c = callback_of(&user);
        CHANGE(count), CHANGE(test_count), CHANGE(type), CHANGE(channels), CHANGE(height), CHANGE(width);
        CHANGE(classes);
        CHECK(brasa_data_from_callback(drawn.ctx, &c, &d) != BRASA_OK);
        CHECK(!d);
        CHECK_HAS(brasa_context_error(drawn.ctx), rows[i].text);
    }
    CASE("NULL");
    CHECK_STATUS(brasa_data_from_callback(drawn.ctx, NULL, &d), BRASA_BAD_ARGUMENT);
    CHECK_HAS(brasa_context_error(drawn.ctx), "read is NULL");
    CHECK_STATUS(brasa_data_from_arrays(drawn.ctx, NULL, &d), BRASA_BAD_ARGUMENT);
    CHECK_STATUS(brasa_data_from_arrays(drawn.ctx, NULL, NULL), BRASA_BAD_ARGUMENT);
    CHECK_STATUS(brasa_data_open(drawn.ctx, NULL, &d), BRASA_BAD_ARGUMENT);
    CHECK_STATUS(brasa_data_describe(NULL, NULL), BRASA_BAD_ARGUMENT);
    brasa_data_free(NULL);
}

/* Too few samples fail the batch; the next call asks again. */
TEST(a_callback_that_fails)
{
    const transform t = parsed("");
    const int32_t list[] = {3, 1, 2, 0};
    REQUIRE(draw());
    for (int floats = 0; floats < 2; floats++) {
        CASE("%s", floats ? "f32" : "u8");
        asked user = {.floats = floats, .fail_at = 2};
        const brasa_data_callback c = callback_of(&user);
        dataset *d = NULL;
        feeder *f = NULL;
        loader *l = NULL;
        const batch *b = NULL;
        CHECK_STATUS(brasa_data_from_callback(drawn.ctx, &c, &d), BRASA_OK);
        CHECK_STATUS(feeder_new(drawn.ctx, &(feeder_options){.set = d, .transform = &t}, &f), BRASA_OK);
        REQUIRE(f && loader_new(f, &(loader_options){.list = list, .count = 4, .batch = 2}, &l) == BRASA_OK);
        CHECK_STATUS(loader_next(l, &b), BRASA_OK);
        CHECK_STATUS(loader_next(l, &b), BRASA_BAD_FILE);
        CHECK_TEXT(brasa_context_error(drawn.ctx), "the data callback read 1 of 2 samples, from sample 0 on");
        CHECK_STATUS(loader_next(l, &b), BRASA_OK);
        CHECK_INT(b->samples[0], 2);
        loader_free(l);
        feeder_free(f);
        brasa_data_free(d);
    }
}

/* The n-th allocation fails, for n = 1, 2, ...: a status and a text, and everything is given back. */
static brasa_status use_form(heap *h, int form)
{
    brasa_context *ctx = NULL;
    dataset *d = NULL;
    feeder *f = NULL;
    loader *l = NULL;
    const batch *b;
    dataset_report r = {0};
    asked user;
    const int32_t list[] = {1, 0, 2};
    const transform t = parsed("");
    brasa_context_options c = {.size = sizeof c, .threads = 1};
    c.alloc = heap_alloc;
    c.release = heap_release;
    c.user = h;
    brasa_status status = brasa_context_new(&c, &ctx);
    if (status == BRASA_OK)
        status = open_form(ctx, form, &user, &d);
    if (status == BRASA_OK)
        status = dataset_identify(d, false, NULL, NULL, &r);
    if (status == BRASA_OK)
        status = feeder_new(ctx, &(feeder_options){.set = d, .transform = &t, .budget = 1 << 20}, &f);
    if (status == BRASA_OK)
        status = loader_new(f, &(loader_options){.list = list, .count = 3, .batch = 2}, &l);
    if (status == BRASA_OK)
        status = loader_next(l, &b);
    CHECK(!ctx || status == BRASA_OK || strstr(brasa_context_error(ctx), "out of memory"));
    loader_free(l);
    feeder_free(f);
    dataset_report_free(&r);
    brasa_data_free(d);
    brasa_context_free(ctx);
    return status;
}

TEST(each_allocation_fails)
{
    REQUIRE(draw());
    for (int form = COPIED; form < FORMS; form++) {
        CASE("%s", form_names[form]);
        for (int n = 1; n < 1000 && !tests.failed; n++) {
            heap h = {.fail_at = n};
            const brasa_status status = use_form(&h, form);
            CHECK_INT(h.live, 0);
            if (h.calls < n) {
                CHECK_STATUS(status, BRASA_OK);
                CHECK(n > 5);
                break;
            }
            CHECK_STATUS(status, BRASA_OUT_OF_MEMORY);
        }
    }
    brasa_data_free(drawn.set);
    brasa_context_free(drawn.ctx);
    drawn.set = NULL;
}
