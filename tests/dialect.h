/* dialect.h - the small problems on which a dialect is watched; all of it runs in double.
 *
 * An optimizer is watched on least squares, loss = mean((x w + b - t)^2): its gradient is known, the columns of x are
 * scaled so that gradients lie on both sides of every epsilon, and the weights are read exactly, as the predictions
 * for the rows of a unit matrix (w_c + b) and for a row of zeros (b). A layer is evaluated on random numbers. Batch
 * norm is trained by plain SGD on mean((y - t)^2).
 *
 * tests/tools/dialect_cases.py states the same problems for the scripts that ask the frameworks.
 */
#ifndef TEST_DIALECT_H
#define TEST_DIALECT_H

#include "test.h"
#include "fixture.h"
#include "graph/graph.h"

enum { FEATURES = 6, ROWS = 7, STEPS = 5, BATCHNORM_STEPS = 3, MAX_ELEMENTS = 256 };
static const uint64_t seed = 77;
static const double batchnorm_rate = 0.1, exact = 1e-11;
static const double scales[FEATURES] = {1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10};

static inline double any(int stream, int64_t i)
{
    return draw(seed, (uint32_t)stream, i, -1, 1);
}

/* A session in double, or NULL with the reason told. */
static inline brasa_session *open_session(brasa_graph *g, const brasa_session_options *o)
{
    brasa_session_options wide = *o;
    brasa_session *s = NULL;
    wide.float64 = true;
    if (brasa_session_new(g, &wide, &s) != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s", brasa_graph_error(g));
    return s;
}

static inline brasa_graph *open_graph(const char *dialect_name)
{
    brasa_graph *g = brasa_graph_new(NULL);
    CHECK_STATUS(brasa_graph_set_dialect(g, dialect_name), BRASA_OK);
    return g;
}

/* Parameter i is stream i. */
static inline void set_params(brasa_graph *g, brasa_session *s)
{
    brasa_value_info info = {.size = sizeof info};
    float data[MAX_ELEMENTS];
    for (int i = 0; brasa_graph_param_at(g, i, &info) && info.trainable; i++) {
        int64_t count = 1;
        for (int k = 0; k < info.rank; k++)
            count *= info.shape[k];
        for (int64_t e = 0; e < count && e < MAX_ELEMENTS; e++)
            data[e] = (float)any(i, e);
        CHECK_STATUS(brasa_param_set(s, info.name, data, count), BRASA_OK);
    }
}

/* --- optimizers ------------------------------------------------------------------------------------------------ */

typedef struct trainer {
    brasa_graph *g;
    brasa_session *s;
} trainer;

static inline trainer open_trainer(const char *dialect_name, const char *optimizer, const char *schedule, double clip)
{
    trainer t = {.g = open_graph(dialect_name)};
    brasa_tensor x = brasa_input_vector(t.g, "x", FEATURES), target = brasa_input_vector(t.g, "t", 1);
    brasa_tensor y = brasa_apply(x, "dense 1 name=p");
    brasa_output(y, "y");
    brasa_set_loss(brasa_apply_n(t.g, (brasa_tensor[]){y, target}, 2, "mse"));
    t.s = open_session(t.g, &SIZED(brasa_session_options, .batch = ROWS, .optimizer = optimizer,
                                   .schedule = schedule && *schedule ? schedule : NULL, .clip_norm = clip));
    if (t.s)
        set_params(t.g, t.s);
    return t;
}

static inline void close_trainer(trainer *t)
{
    brasa_session_free(t->s);
    brasa_graph_free(t->g);
}

/* Inputs and targets of a step. */
static inline void regression(int step, double x[ROWS][FEATURES], double t[ROWS])
{
    for (int n = 0; n < ROWS; n++) {
        t[n] = any(STREAM_LABEL + step, n);
        for (int c = 0; c < FEATURES; c++)
            x[n][c] = any(STREAM_INPUT + step, n * FEATURES + c) * scales[c];
    }
}

/* One step, then the predictions w_0 + b, ..., w_5 + b, b. */
static inline void train_and_probe(trainer *r, int step, double y[ROWS])
{
    double x[ROWS][FEATURES], t[ROWS];
    regression(step, x, t);
    CHECK_STATUS(brasa_use(r->s, true, ROWS), BRASA_OK);
    CHECK_STATUS(brasa_feed(r->s, "x", x, sizeof x), BRASA_OK);
    CHECK_STATUS(brasa_feed(r->s, "t", t, sizeof t), BRASA_OK);
    CHECK_STATUS(brasa_train(r->s), BRASA_OK);
    memset(x, 0, sizeof x);
    for (int c = 0; c < FEATURES; c++)
        x[c][c] = 1;
    CHECK_STATUS(brasa_use(r->s, false, ROWS), BRASA_OK);
    CHECK_STATUS(brasa_feed(r->s, "x", x, sizeof x), BRASA_OK);
    CHECK_STATUS(brasa_feed(r->s, "t", t, sizeof t), BRASA_OK);
    CHECK_STATUS(brasa_evaluate(r->s), BRASA_OK);
    CHECK_STATUS(brasa_fetch(r->s, "y", y, ROWS * sizeof *y), BRASA_OK);
}

/* --- layers ---------------------------------------------------------------------------------------------------- */

/* Evaluates one layer on random numbers; returns the number of elements in y, 0 where it failed. */
static inline int64_t run_layer(const char *dialect_name, const char *layer, const int64_t size[4], double *y)
{
    int64_t dim[6] = {0}, count = size[0];
    double x[MAX_ELEMENTS];
    brasa_graph *g = open_graph(dialect_name);
    brasa_tensor out =
        brasa_apply(brasa_input(g, "x", (int32_t)size[1], (int32_t)size[2], (int32_t)size[3]), "%s", layer);
    brasa_output(out, "y");
    int rank = brasa_tensor_shape(out, dim);
    for (int i = 1; i < rank; i++)
        count *= dim[i];
    const int64_t inputs = size[0] * size[1] * size[2] * size[3];
    for (int64_t i = 0; i < inputs; i++)
        x[i] = any(STREAM_INPUT, i);
    brasa_session *s = open_session(g, &SIZED(brasa_session_options, .batch = size[0], .inference = true));
    if (!s) {
        count = 0;
    } else {
        set_params(g, s);
        CHECK_STATUS(brasa_feed(s, "x", x, (size_t)inputs * sizeof *x), BRASA_OK);
        CHECK_STATUS(brasa_evaluate(s), BRASA_OK);
        CHECK_STATUS(brasa_fetch(s, "y", y, (size_t)count * sizeof *y), BRASA_OK);
    }
    brasa_session_free(s);
    brasa_graph_free(g);
    return count;
}

/* The weights and biases of a layer start uniform within these bounds. */
static inline void check_bounds(const char *dialect_name, const char *layer, const int64_t *size, int rank,
                                const double *bound, double tolerance)
{
    OWNED(brasa_graph) *g = open_graph(dialect_name);
    brasa_tensor x = rank == 2 ? brasa_input_vector(g, "x", (int32_t)size[1])
                               : brasa_input(g, "x", (int32_t)size[1], (int32_t)size[2], (int32_t)size[3]);
    brasa_apply(x, "%s", layer);
    for (int i = 0; i < 2; i++) {
        brasa_value_info info = {.size = sizeof info};
        if (!CHECK(brasa_graph_param_at(g, i, &info)))
            break;
        const initializer *start = &g->values[graph_find(g, info.name)].start;
        if (bound[i] == 0) {
            CHECK(start->form == START_CONSTANT && start->a == 0);
            continue;
        }
        CHECK(start->form == START_UNIFORM && start->a == -start->b);
        CHECK_CLOSE(start->b, bound[i], tolerance * bound[i]);
    }
}

/* --- batch norm ------------------------------------------------------------------------------------------------ */

/* A layer that is trained by plain SGD on mean((y - t)^2). */
typedef struct normalizer {
    brasa_graph *g;
    brasa_session *s;
    int64_t size[6], channels, plane, count; /* plane: values of a channel in one picture */
} normalizer;

static inline normalizer open_normalizer(const char *dialect_name, const char *layer, const int64_t *size)
{
    normalizer n = {.g = open_graph(dialect_name), .channels = size[1], .plane = size[2] * size[3]};
    memcpy(n.size, size, 4 * sizeof *size);
    n.count = size[0] * size[1] * n.plane;
    brasa_tensor x = brasa_input(n.g, "x", (int32_t)size[1], (int32_t)size[2], (int32_t)size[3]);
    brasa_tensor t = brasa_input(n.g, "t", (int32_t)size[1], (int32_t)size[2], (int32_t)size[3]);
    brasa_tensor y = brasa_apply(x, "%s name=bn", layer);
    brasa_output(y, "y");
    brasa_set_loss(brasa_apply_n(n.g, (brasa_tensor[]){y, t}, 2, "mse"));
    n.s = open_session(n.g, &SIZED(brasa_session_options, .batch = size[0], .optimizer = "sgd lr=0.1"));
    return n;
}

static inline void close_normalizer(normalizer *n)
{
    brasa_session_free(n->s);
    brasa_graph_free(n->g);
}

/* One step on the step's numbers, or an evaluation on those of step 0. */
static inline void run_normalizer(normalizer *n, bool training, int step, double *y)
{
    double x[MAX_ELEMENTS], t[MAX_ELEMENTS];
    for (int64_t i = 0; i < n->count; i++) {
        x[i] = any(STREAM_INPUT + step, i);
        t[i] = any(STREAM_LABEL + step, i);
    }
    const size_t bytes = (size_t)n->count * sizeof *x;
    CHECK_STATUS(brasa_use(n->s, training, n->size[0]), BRASA_OK);
    CHECK_STATUS(brasa_feed(n->s, "x", x, bytes), BRASA_OK);
    CHECK_STATUS(brasa_feed(n->s, "t", t, bytes), BRASA_OK);
    CHECK_STATUS(training ? brasa_train(n->s) : brasa_evaluate(n->s), BRASA_OK);
    CHECK_STATUS(brasa_fetch(n->s, "y", y, bytes), BRASA_OK);
}

/* --- defaults -------------------------------------------------------------------------------------------------- */

static inline void check_default(const char *dialect_name, const char *name, double want)
{
    const char *d = (const char *)dialect_find(dialect_name);
    for (const field *f = dialect_fields; f->name; f++) {
        if (strcmp(f->name, name) != 0)
            continue;
        double got = f->type == FIELD_REAL   ? *(const double *)(d + f->offset)
                     : f->type == FIELD_BOOL ? *(const bool *)(d + f->offset)
                                             : *(const int *)(d + f->offset);
        if (!(fabs(got - want) <= 1e-12))
            test_fail(__FILE__, __LINE__, "%s of %s is %g, expected %g", name, dialect_name, got, want);
        return;
    }
    test_fail(__FILE__, __LINE__, "a dialect has no field '%s'", name);
}

#endif
