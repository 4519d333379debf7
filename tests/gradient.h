/* gradient.h - gradients against signed central differences of the loss, in double.
 *
 * Every element of a small parameter and a random choice of a large one are moved on their own; then all of them at
 * once along one random direction, so that no element is left out. What comes back is the worst error over what
 * rounding excuses: at most 1 where the gradients are right. A missing gradient counts as a claim that it is zero.
 */
#ifndef TEST_GRADIENT_H
#define TEST_GRADIENT_H

#include "proof.h"

/* Small enough that a kink is rarely stepped over, large enough that 1e-16 of the loss is nothing beside it. */
static const double step_size = 1e-6;

typedef struct checker {
    proof forward;  /* computes the loss */
    proof backward; /* computes the gradients */
    double **grad;  /* by value of `backward`, for parameters: copies that a test may spoil */
    int elements;   /* to look at in each parameter */
} checker;

static inline double loss_of(checker *c)
{
    return proof_run(&c->forward, 255) == BRASA_OK ? proof_get(&c->forward, c->forward.program.graph.loss, 0) : NAN;
}

/* The parameter in the forward program: the same numbers under the same name. */
static inline int forward_of(const checker *c, int param)
{
    return graph_find(&c->forward.program.graph, c->backward.program.graph.values[param].name);
}

static inline void move_element(checker *c, int param, int64_t i, double distance)
{
    proof_set_start(&c->forward, param, i, proof_start(&c->forward, param, i) + distance);
}

static inline bool is_param(const checker *c, int v)
{
    return c->backward.program.graph.values[v].kind == VALUE_PARAM;
}

static inline brasa_status checker_make(checker *c, const graph *g)
{
    *c = (checker){.elements = 40};
    brasa_status forward = proof_make(&c->forward, g, (proof_options){.real = F64});
    brasa_status backward = proof_make(&c->backward, g, (proof_options){.real = F64, .gradients = true});
    if (forward != BRASA_OK || backward != BRASA_OK)
        return forward != BRASA_OK ? forward : backward;
    c->grad = calloc((size_t)c->backward.program.graph.nvalues, sizeof *c->grad);
    for (int v = 0; v < c->backward.program.graph.nvalues; v++) {
        if (!is_param(c, v))
            continue;
        int64_t count = proof_count(&c->backward, v);
        c->grad[v] = calloc((size_t)count, sizeof **c->grad); /* no gradient: claimed to be zero */
        for (int64_t i = 0; c->backward.grad[v] >= 0 && i < count; i++)
            c->grad[v][i] = proof_get(&c->backward, c->backward.grad[v], i);
    }
    double flops = 0;
    const graph *f = &c->forward.program.graph;
    for (int i = 0; i < f->nnodes; i++)
        flops += f->nodes[i].op->cost ? f->nodes[i].op->cost(f, &f->nodes[i]).flops
                                      : (double)shape_count(&f->values[f->nodes[i].out[0]].shape);
    if (40 * flops > 4e8) /* keeps the largest cases to a fraction of a second */
        c->elements = (int)fmax(4, 4e8 / flops);
    return BRASA_OK;
}

static inline void checker_free(checker *c)
{
    for (int v = 0; c->grad && v < c->backward.program.graph.nvalues; v++)
        free(c->grad[v]);
    free(c->grad);
    proof_free(&c->forward);
    proof_free(&c->backward);
}

/* The difference that is allowed between a slope of size `scale` and its measurement. */
static inline double allowed(double loss, double scale)
{
    return 1e-6 * scale + 3e-9 * fabs(loss) + 1e-12;
}

/* NaN counts as the worst of all. */
static inline double worse(double a, double b)
{
    return a <= b ? b : isnan(b) ? b : a;
}

static inline double checker_scale(const checker *c, int param)
{
    double scale = 0;
    for (int64_t i = 0, count = proof_count(&c->backward, param); i < count; i++)
        scale = fmax(scale, fabs(c->grad[param][i]));
    return scale;
}

/* Element i of parameter v in the random direction. */
static inline double direction(int v, int64_t i)
{
    const random_stream r = {.seed = 3, .purpose = RANDOM_TEST, .stream = (uint32_t)v};
    return random_uniform(&r, (uint64_t)i, -1, 1);
}

static inline double element_error(checker *c, int param, double loss)
{
    const double limit = allowed(loss, checker_scale(c, param));
    const random_stream r = {.seed = 2, .purpose = RANDOM_TEST, .stream = (uint32_t)param};
    const int64_t count = proof_count(&c->backward, param);
    const int moved = forward_of(c, param);
    double worst = 0;
    for (int e = 0; e < c->elements && e < count; e++) {
        /* all of a small parameter, a random choice of a large one */
        int64_t i = count <= c->elements ? e : (int64_t)random_uniform(&r, (uint64_t)e, 0, (double)count);
        move_element(c, moved, i, step_size);
        double above = loss_of(c);
        move_element(c, moved, i, -2 * step_size);
        double below = loss_of(c);
        move_element(c, moved, i, step_size);
        double slope = (above - below) / (2 * step_size); /* signed, and stays so */
        worst = worse(worst, fabs(slope - c->grad[param][i]) / limit);
    }
    return worst;
}

/* Moves all parameters by `distance` along the random direction. */
static inline void move_along(checker *c, double distance)
{
    const graph *g = &c->backward.program.graph;
    for (int v = 0; v < g->nvalues; v++) {
        if (!is_param(c, v))
            continue;
        const int moved = forward_of(c, v);
        for (int64_t i = 0, count = proof_count(&c->backward, v); i < count; i++)
            move_element(c, moved, i, distance * direction(v, i));
    }
}

static inline double direction_error(checker *c, double loss)
{
    double claimed = 0, squares = 0;
    const graph *g = &c->backward.program.graph;
    for (int v = 0; v < g->nvalues; v++) {
        for (int64_t i = 0, count = proof_count(&c->backward, v); is_param(c, v) && i < count; i++) {
            double part = direction(v, i) * c->grad[v][i];
            claimed += part;
            squares += part * part;
        }
    }
    move_along(c, step_size);
    double above = loss_of(c);
    move_along(c, -2 * step_size);
    double below = loss_of(c);
    move_along(c, step_size);
    return fabs((above - below) / (2 * step_size) - claimed) / allowed(loss, sqrt(squares));
}

static inline double checker_error(checker *c)
{
    double loss = loss_of(c), worst = direction_error(c, loss);
    for (int v = 0; v < c->backward.program.graph.nvalues; v++)
        if (is_param(c, v))
            worst = worse(worst, element_error(c, v, loss));
    return worst;
}

#endif
