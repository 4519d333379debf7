/* test_gradients.c - the gradient of every op, on its own cases, against signed finite differences; and the proof
 * that the check finds wrong ones. */
#include "test.h"
#include "each_case.h"
#include "gradient.h"

/* A gradient that is zero but for rounding proves little; each parameter of an op must be larger in some case. */
static struct {
    char name[64];
    bool large;
} seen[256];
static int seen_count;

static void note_seen(const op_def *op, const char *param, bool large)
{
    char name[64];
    snprintf(name, sizeof name, "%s: %s", op->name, param);
    int i = 0;
    while (i < seen_count && strcmp(seen[i].name, name) != 0)
        i++;
    if (i == seen_count && seen_count < 256)
        snprintf(seen[seen_count++].name, sizeof seen[0].name, "%s", name);
    if (i < 256)
        seen[i].large = seen[i].large || large;
}

/* Lets a second real output of the layer (probabilities, say) matter to the loss. */
static void add_second_output(graph *g, const op_def *op)
{
    int n = 0;
    while (n < g->nnodes && g->nodes[n].op != op)
        n++;
    if (n == g->nnodes || g->nodes[n].nout < 2 || g->values[g->nodes[n].out[1]].type != g->real)
        return;
    const int second = g->nodes[n].out[1], first = g->loss;
    shape s = g->values[second].shape;
    int target = graph_value(g, VALUE_BUFFER, g->real, &s, "target1");
    g->values[target].start = (initializer){START_UNIFORM, -1, 1};
    int distance = case_layer(g, op_find("mse"), &(op_case){.layer = ""}, 2, (int[]){second, target});
    g->loss = case_layer(g, op_find("weighted_sum"), &(op_case){.layer = "1,3"}, 2, (int[]){first, distance});
}

static void check_params(checker *k, const op_def *op)
{
    double loss = loss_of(k);
    CHECK_CLOSE(direction_error(k, loss), 0, 1);
    for (int v = 0; v < k->backward.program.graph.nvalues; v++) {
        if (!is_param(k, v))
            continue;
        const char *name = k->backward.program.graph.values[v].name;
        double error = element_error(k, v, loss);
        if (!(error <= 1))
            test_fail(__FILE__, __LINE__, "the gradient of %s is off by %.3g times what is allowed", name, error);
        note_seen(op, name, checker_scale(k, v) > 1e-6 * fabs(loss));
    }
}

static void check_gradients(brasa_context *ctx, const op_def *op, const op_case *c)
{
    if (exempt(op, "gradient"))
        return;
    OWNED(graph) g = {0};
    checker k;
    graph_init(&g, ctx);
    CHECK_STATUS(case_build(&g, op, c), BRASA_OK);
    add_second_output(&g, op);
    brasa_status status = checker_make(&k, &g);
    CHECK_STATUS(status, BRASA_OK);
    if (status == BRASA_OK)
        check_params(&k, op);
    checker_free(&k);
}

TEST(gradients)
{
    each_case(1, CASE_PLAN | CASE_FAILS | CASE_NO_GRAD, 0, check_gradients);
    CASE("every parameter was seen to matter");
    for (int i = 0; i < seen_count; i++)
        if (!seen[i].large)
            test_fail(__FILE__, __LINE__, "%s: no case where its gradient is not zero", seen[i].name);
}

/* The checker itself: right gradients pass, and each of these wrong ones does not. */
static void spoil(checker *c, int param, const char *how)
{
    double *grad = c->grad[param];
    const int64_t count = proof_count(&c->backward, param);
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(how, "sign") == 0)
            grad[i] = -grad[i];
        else if (strcmp(how, "factor") == 0)
            grad[i] *= 1.001;
        else if (strcmp(how, "missing") == 0)
            grad[i] = 0;
        else if (strcmp(how, "offset") == 0)
            grad[i] += 1e-4;
    }
    if (strcmp(how, "order") == 0) { /* as swapped axes would */
        for (int64_t i = 0; i < count / 2; i++) {
            double kept = grad[i];
            grad[i] = grad[count - 1 - i];
            grad[count - 1 - i] = kept;
        }
    } else if (strcmp(how, "element") == 0) {
        grad[count - 1] = 0;
    }
}

TEST(gradient_checker)
{
    static const char *const ways[] = {"", "sign", "factor", "missing", "offset", "order", "element"};
    OWNED(brasa_context) *ctx = context_of(1);
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        for (int p = 0; p < 3; p++) {
            CASE("%s, parameter %d", ways[w][0] ? ways[w] : "as it is", p);
            OWNED(graph) g = {0};
            checker c;
            graph_init(&g, ctx);
            CHECK_STATUS(case_build(&g, op_find("dense"), &(op_case){"5x7", "11"}), BRASA_OK);
            CHECK_STATUS(checker_make(&c, &g), BRASA_OK);
            static const char *const names[] = {"x0", "dense.weight", "dense.bias"};
            int param = graph_find(&c.backward.program.graph, names[p]);
            spoil(&c, param, ways[w]);
            double loss = loss_of(&c);
            if (ways[w][0]) {
                CHECK(element_error(&c, param, loss) > 1 || strcmp(ways[w], "element") == 0);
                CHECK(direction_error(&c, loss) > 1);
            } else {
                CHECK(checker_error(&c) <= 1);
            }
            checker_free(&c);
        }
    }
}
