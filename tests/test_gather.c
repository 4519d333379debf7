/* test_gather.c - updates go to the end of a program and copies of weights to its beginning, but none past a node
 * that must see what was there before it, or after.
 */
#include "test.h"
#include "ops/sgd/sgd.h"

static brasa_status run_none(const step *const *steps, int count)
{
    (void)steps;
    (void)count;
    return BRASA_OK;
}

static const kernel many = {.name = "many", .run_many = run_none}, single = {.name = "single"};

/* Two weights, the rate and the count of steps, all of them state. */
typedef struct example {
    brasa_context *ctx;
    graph g;
    int wei[2], rate, steps;
} example;

static void example_init(example *e)
{
    const shape s = shape_2(2, 3), scalar = {0};
    CHECK_STATUS(brasa_context_new(NULL, &e->ctx), BRASA_OK);
    graph_init(&e->g, e->ctx);
    e->wei[0] = graph_value(&e->g, VALUE_PARAM, F32, &s, "a");
    e->wei[1] = graph_value(&e->g, VALUE_PARAM, F32, &s, "b");
    e->rate = graph_value(&e->g, VALUE_BUFFER, F32, &scalar, "rate");
    e->steps = graph_counter(&e->g);
}

static void example_free(example *e)
{
    graph_clear(&e->g);
    brasa_context_free(e->ctx);
}

/* A node of one input and one output of its shape; returns the output. */
static int add_node(example *e, const op_def *op, const kernel *k, int in)
{
    const int n = emit_like(&e->g, op, "node", NULL, 1, &in, 1, &in);
    e->g.nodes[n].kernel = k;
    return e->g.nodes[n].out[0];
}

static void add_update(example *e, int wei, int grad)
{
    const int in[UPDATE_SLOTS] = {wei, grad, e->rate, e->steps};
    const int n = emit_into(&e->g, sgd_optimizer.op, "update", &(sgd_attr){0}, UPDATE_SLOTS, in, 1, &wei);
    e->g.nodes[n].kernel = &many;
    e->g.nodes[n].role = ROLE_UPDATE;
}

static void add_count(example *e)
{
    const int n = emit_into(&e->g, &count_step_op, "steps", NULL, 1, &e->steps, 1, &e->steps);
    e->g.nodes[n].kernel = &single;
    e->g.nodes[n].role = ROLE_UPDATE;
}

/* c a copy of weights, r another node, u an update, s the count of steps */
static const char *order_of(example *e)
{
    static char text[32];
    CHECK_STATUS(pass_gather(&e->g), BRASA_OK);
    for (int i = 0; i < e->g.nnodes; i++) {
        const node *n = &e->g.nodes[i];
        text[i] = n->op == &reorder_op ? 'c' : n->op == &relu_op ? 'r' : n->op == &count_step_op ? 's' : 'u';
        for (int k = 0; k < n->nout; k++)
            CHECK(e->g.values[n->out[k]].kind != VALUE_TEMP || e->g.values[n->out[k]].producer == i);
    }
    text[e->g.nnodes] = 0;
    return text;
}

/* The layers: for each weight a reader, a copy, a reader of the copy, and an update by what that makes. */
static void add_layers(example *e)
{
    for (int k = 0; k < 2; k++) {
        add_node(e, &relu_op, &single, e->wei[k]);
        add_update(e, e->wei[k], add_node(e, &relu_op, &single, add_node(e, &reorder_op, &many, e->wei[k])));
    }
}

TEST(all_together)
{
    example e;
    example_init(&e);
    add_layers(&e);
    add_count(&e);
    CHECK_TEXT(order_of(&e), "ccrrrruus");
    CHECK_INT(e.g.nodes[0].in[0], e.wei[0]);
    CHECK_INT(e.g.nodes[1].in[0], e.wei[1]);
    CHECK_INT(e.g.nodes[6].out[0], e.wei[0]);
    CHECK_INT(e.g.nodes[7].out[0], e.wei[1]);
    example_free(&e);
}

/* Of weights that were updated, a copy is made after the update, and a reader stays behind it. */
TEST(new_weights)
{
    example e;
    example_init(&e);
    add_layers(&e);
    add_node(&e, &reorder_op, &many, e.wei[0]);
    add_count(&e);
    CHECK_TEXT(order_of(&e), "ccrrrruucs");
    example_free(&e);

    example_init(&e);
    add_update(&e, e.wei[0], add_node(&e, &relu_op, &single, e.wei[0]));
    add_node(&e, &relu_op, &single, e.wei[0]);
    add_update(&e, e.wei[1], add_node(&e, &relu_op, &single, e.wei[1]));
    CHECK_TEXT(order_of(&e), "rurru");
    example_free(&e);
}

/* Gradients of many bytes do not wait for the end. */
TEST(large_ones)
{
    static const struct row {
        int64_t rows;
        const char *order;
    } rows[] = {{1024, "rrrruuuus"},
                {2047, "rrrruuuus"},
                {2048, "rrrruuuus"},
                {2731, "rrruuurus"},
                {4096, "rruurruus"},
                {8192, "rurururus"},
                {0, NULL}};
    for (const struct row *row = rows; row->order; row++) {
        const shape s = shape_2(row->rows, 1024);
        example e;
        CASE("%lld KB each", (long long)row->rows * 4);
        example_init(&e);
        for (int k = 0; k < 4; k++) {
            static const char *const names[] = {"p", "q", "r", "s"};
            const int wei = graph_value(&e.g, VALUE_PARAM, F32, &s, names[k]);
            add_update(&e, wei, add_node(&e, &relu_op, &single, wei));
        }
        add_count(&e);
        CHECK_TEXT(order_of(&e), row->order);
        example_free(&e);
    }
}

/* Kernels that take one step at a time are left where they are. */
TEST(one_by_one)
{
    example e;
    example_init(&e);
    add_layers(&e);
    add_count(&e);
    for (int i = 0; i < e.g.nnodes; i++)
        e.g.nodes[i].kernel = &single;
    CHECK_TEXT(order_of(&e), "rcrurcrus");
    example_free(&e);
}

/* What a step makes and is fed with is not copied ahead. */
TEST(not_state)
{
    example e;
    example_init(&e);
    const shape s = shape_2(2, 3);
    const int fed = graph_value(&e.g, VALUE_INPUT, F32, &s, "x");
    add_node(&e, &relu_op, &single, e.wei[0]);
    add_node(&e, &reorder_op, &many, add_node(&e, &relu_op, &single, fed));
    add_node(&e, &reorder_op, &many, fed);
    CHECK_TEXT(order_of(&e), "rrcc");
    example_free(&e);
}
