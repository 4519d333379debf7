/* precision.c - which values are stored in 16 bits under BRASA_BF16, on every device that computes in it. All
 * arithmetic is in floats whatever the storage is: a product sums what it reads as BF16 in floats.
 */
#include "graph/graph.h"

/* By value.kind, for values of rank 2 and more; vectors and scalars are floats, and so is all else. */
static const struct rule {
    dtype step;    /* as kernels write it within a step */
    dtype product; /* as products and windows read and write it */
    dtype kept;    /* as it is stored from outside of the step where its first reader asks for BF16 */
} rules[] = {
    [VALUE_TEMP] = {BF16, BF16, F32},        /* activations, their gradients, gradients of weights */
    [VALUE_INPUT] = {BF16, BF16, F32},       /* fed exactly; converted for kernels that take BF16 */
    [VALUE_PARAM] = {F32, BF16, SPLIT_F32},  /* master weights, whose first plane products read */
    [VALUE_BUFFER] = {F32, BF16, SPLIT_F32}, /* a parameter that is frozen */
    [VALUE_SLOT] = {F32, F32, BF16},         /* rounding is little beside the noise of gradients */
    [VALUE_COUNTER] = {F32, F32, F32},       [VALUE_SUM] = {F32, F32, F32},
};

static const struct rule *rule_of(const value *v)
{
    return v->type == F32 && v->shape.rank >= 2 ? &rules[v->kind] : &rules[VALUE_COUNTER];
}

dtype precision_storage(const graph *g, int v)
{
    return g->precision == BRASA_BF16 && rule_of(&g->values[v])->step == BF16 ? BF16 : g->values[v].type;
}

dtype precision_product(const graph *g, int v)
{
    return g->precision == BRASA_BF16 && rule_of(&g->values[v])->product == BF16 ? BF16 : g->values[v].type;
}

dtype precision_kept(const value *v, dtype asked)
{
    return asked == BF16 ? rule_of(v)->kept : asked;
}

dtype precision_slot(dtype parameter)
{
    return parameter == SPLIT_F32 ? rules[VALUE_SLOT].kept : F32;
}
