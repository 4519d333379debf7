/* test_reorder.c - every kernel of the reorder, between all layouts that kernels and libraries use, on shapes that
 * fill no block; and which layouts are the same bytes.
 *
 * The elements are numbers of any bits, NaN among them, all different and none of them zero: what lies where is known
 * by what it is, and zero is padding.
 */
#include "test.h"

#include "ops/op.h"

#include <stdlib.h>

static const struct {
    int rank;
    layout layout;
} known[] = {
    {1, {0}},
    {2, {0}},
    {2, {.permuted = 1, .order = {1, 0}}},
    {2, {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}}},
    {2, {.nblocks = 2, .axis = {1, 0}, .block = {16, 32}}},
    {2, {.nblocks = 2, .axis = {1, 0}, .block = {16, 64}}},
    {4, {0}},
    {4, {.permuted = 1, .order = {0, 2, 3, 1}}},                                           /* nhwc */
    {4, {.permuted = 1, .order = {2, 3, 1, 0}}},                                           /* hwio */
    {4, {.nblocks = 1, .axis = {1}, .block = {16}}},                                       /* nChw16c */
    {4, {.nblocks = 1, .axis = {1}, .block = {8}}},                                        /* nChw8c */
    {4, {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}}},                                /* OIhw16i16o */
    {4, {.nblocks = 2, .axis = {0, 1}, .block = {16, 16}}},                                /* OIhw16o16i */
    {4, {.nblocks = 2, .axis = {1, 0}, .block = {8, 8}}},                                  /* OIhw8i8o */
    {4, {.nblocks = 2, .axis = {0, 1}, .block = {8, 8}}},                                  /* OIhw8o8i */
    {4, {.nblocks = 3, .axis = {1, 0, 1}, .block = {4, 16, 4}}},                           /* OIhw4i16o4i */
    {4, {.nblocks = 1, .axis = {0}, .block = {16}}},                                       /* Oihw16o */
    {4, {.nblocks = 1, .axis = {0}, .block = {8}}},                                        /* Oihw8o */
    {4, {.permuted = 1, .order = {0, 2, 3, 1}, .nblocks = 1, .axis = {0}, .block = {16}}}, /* Ohwi16o */
    {4, {.permuted = 1, .order = {0, 2, 3, 1}, .nblocks = 1, .axis = {0}, .block = {8}}},  /* Ohwi8o */
};
enum { KNOWN = sizeof known / sizeof known[0] };

/* The last of each rank are large enough to be shared by threads. */
static const shape shapes[] = {
    {1, {1}},
    {1, {40000}},
    {2, {1, 1}},
    {2, {3, 17}},
    {2, {33, 16}},
    {2, {10, 1000}},
    {2, {257, 131}},
    {4, {1, 1, 1, 1}},
    {4, {2, 3, 4, 5}},
    {4, {16, 16, 1, 1}},
    {4, {17, 33, 2, 3}},
    {4, {24, 8, 3, 3}},
    {4, {1, 513, 1, 2}},
    {4, {33, 5, 7, 7}},
    {4, {1, 20, 57, 31}},
    {4, {40, 56, 3, 3}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* --- tensors ---------------------------------------------------------------------------------------------------- */

static void *room(int64_t bytes)
{
    char *data = aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
    memset(data, 255, (size_t)bytes);
    return data;
}

/* The numbered tensor in a layout. */
static void *packed(const layout *l, const shape *s, dtype type)
{
    const int64_t bytes = layout_count(l, s) * (int64_t)dtype_size(type);
    int64_t index[MAX_RANK] = {0}, i = 0;
    char *data = room(bytes);
    memset(data, 0, (size_t)bytes);
    do {
        const uint64_t number =
            (uint64_t)++i * UINT64_C(0x9E3779B97F4A7C15); /* odd: its low half is one to one too */
        memcpy(data + layout_offset(l, s, index) * (int64_t)dtype_size(type), &number, dtype_size(type));
    } while (index_next(s, index));
    return data;
}

/* --- kernels ---------------------------------------------------------------------------------------------------- */

/* A graph of one reorder; the node's number, or -1. */
static int build_way(graph *g, const kernel *k, const shape *s, int from, int to)
{
    g->real = k->real;
    int v = graph_value(g, VALUE_INPUT, k->real, s, "x");
    int n = v < 0 ? -1 : emit_like(g, &reorder_op, "reorder", NULL, 1, &v, 1, &v);
    CHECK_STATUS(g->status, BRASA_OK);
    if (n < 0)
        return -1;
    g->values[v].format.layout = known[from].layout;
    g->values[g->nodes[n].out[0]].format.layout = known[to].layout;
    g->nodes[n].kernel = k;
    brasa_status status = k->open ? k->open(g, &g->nodes[n]) : BRASA_OK;
    CHECK_STATUS(status, BRASA_OK);
    return status == BRASA_OK ? n : -1;
}

static void check_way(brasa_context *ctx, const kernel *k, const shape *s, int from, int to, void *const *tensors)
{
    graph g;
    graph_init(&g, ctx);
    int n = build_way(&g, k, s, from, to);
    arg in = {.data = tensors[from], .shape = *s, .format.storage = k->real, .format.layout = known[from].layout};
    arg out = {.shape = *s, .format.storage = k->real, .format.layout = known[to].layout};
    in.count = layout_count(&in.format.layout, s);
    out.count = layout_count(&out.format.layout, s);
    const size_t bytes = (size_t)out.count * dtype_size(k->real);
    for (int threads = 1; threads <= 3 && n >= 0; threads++) {
        step one = {.nin = 1, .nout = 1, .in = &in, .out = &out, .threads = threads, .state = g.nodes[n].state};
        out.data = room((int64_t)bytes);
        CHECK_STATUS(k->run(&one), BRASA_OK);
        if (memcmp(out.data, tensors[to], bytes) != 0)
            test_fail(__FILE__, __LINE__, "to %s, %d threads: wrong",
                      layout_print(&out.format.layout, s->rank, "oihw").text, threads);
        free(out.data);
    }
    graph_clear(&g);
}

static void check_kernel(brasa_context *ctx, const kernel *k, const shape *s)
{
    void *tensors[KNOWN] = {NULL};
    for (int l = 0; l < KNOWN; l++)
        if (known[l].rank == s->rank)
            tensors[l] = packed(&known[l].layout, s, k->real);
    for (int from = 0; from < KNOWN; from++) {
        if (!tensors[from])
            continue;
        CASE("%s of %s from %s", k->name, shape_print(s).text,
             layout_print(&known[from].layout, s->rank, "oihw").text);
        for (int to = 0; to < KNOWN; to++)
            if (tensors[to])
                check_way(ctx, k, s, from, to, tensors);
    }
    for (int l = 0; l < KNOWN; l++)
        free(tensors[l]);
}

/* Both ways between every two layouts: what is right in both is a round trip, to the bit. */
TEST(all_ways)
{
    OWNED(brasa_context) *ctx = context_of(0);
    for (dtype real = F32; ctx && real <= F64; real++)
        for (const kernel *k = NULL; (k = kernel_next(ctx, &reorder_op, real, k)) != NULL;)
            for (int s = 0; s < SHAPES && k->isa <= ctx->isa; s++)
                check_kernel(ctx, k, &shapes[s]);
}

/* --- the same bytes --------------------------------------------------------------------------------------- */

static const layout plain = {0}, nchw16c = {.nblocks = 1, .axis = {1}, .block = {16}};

TEST(same_bytes)
{
    static const layout nhwc = {.permuted = 1, .order = {0, 2, 3, 1}}, ba = {.permuted = 1, .order = {1, 0}};
    static const layout oihw16o = {.nblocks = 1, .axis = {0}, .block = {16}};
    static const layout oihw16o16i = {.nblocks = 2, .axis = {0, 1}, .block = {16, 16}};
    static const layout oihw16i16o = {.nblocks = 2, .axis = {1, 0}, .block = {16, 16}};
    static const struct {
        const layout *a, *b;
        shape s;
        bool same;
    } rows[] = {
        {&plain, &nchw16c, {4, {32, 2048, 1, 1}}, true},  /* behind a global pooling: flatten costs nothing */
        {&plain, &nchw16c, {4, {32, 2040, 1, 1}}, false}, /* padding, between the images */
        {&plain, &nchw16c, {4, {1, 2040, 1, 1}}, false},  /* and at the end */
        {&plain, &nchw16c, {4, {1, 16, 2, 1}}, false},
        {&plain, &nhwc, {4, {8, 64, 1, 1}}, true},
        {&plain, &nhwc, {4, {8, 1, 28, 28}}, true},
        {&nchw16c, &nhwc, {4, {8, 16, 28, 28}}, true}, /* a single full block */
        {&nchw16c, &nhwc, {4, {8, 32, 28, 28}}, false},
        {&plain, &oihw16o, {4, {32, 1, 3, 3}}, false},
        {&plain, &oihw16o, {4, {16, 1, 1, 1}}, true},
        {&oihw16o16i, &oihw16i16o, {4, {16, 16, 1, 1}}, false},
        {&oihw16o16i, &oihw16i16o, {4, {1, 16, 3, 3}}, false}, /* the one is 16 apart in the other */
        {&plain, &ba, {2, {1, 100}}, true},
        {&plain, &ba, {2, {2, 100}}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CASE("%s", shape_print(&rows[i].s).text);
        CHECK(layout_same_bytes(rows[i].a, rows[i].b, &rows[i].s) == rows[i].same);
        CHECK(layout_same_bytes(rows[i].b, rows[i].a, &rows[i].s) == rows[i].same);
    }
}

/* As it is in memory: all elements are different, so tensors are the same if and only if their layouts are. */
TEST(same_bytes_in_memory)
{
    int same = 0;
    for (int s = 0; s < SHAPES; s++) {
        CASE("%s", shape_print(&shapes[s]).text);
        for (int a = 0; a < KNOWN; a++) {
            for (int b = 0; b < KNOWN; b++) {
                const layout *la = &known[a].layout, *lb = &known[b].layout;
                if (known[a].rank != shapes[s].rank || known[b].rank != shapes[s].rank)
                    continue;
                void *x = packed(la, &shapes[s], F32), *y = packed(lb, &shapes[s], F32);
                const int64_t count = layout_count(la, &shapes[s]);
                bool equal =
                    count == layout_count(lb, &shapes[s]) && memcmp(x, y, (size_t)count * sizeof(float)) == 0;
                CHECK(layout_same_bytes(la, lb, &shapes[s]) == equal);
                same += equal && a != b;
                free(x);
                free(y);
            }
        }
    }
    CHECK(same > 10);
}
