/* inception.h - what the two GoogLeNets have in common: the widths of their modules, and the end of a classifier with
 * auxiliary heads. */
#ifndef MODELS_INCEPTION_H
#define MODELS_INCEPTION_H

#include "brasa.h"

/* Output channels of a module's four branches: 1 x 1; 1 x 1 to reduce, then 3 x 3; 1 x 1 to reduce, then 5 x 5;
 * pooling, then 1 x 1. */
typedef struct inception {
    const char *name;
    int one, reduce_three, three, reduce_five, five, pooled;
} inception;

/* Table 1 of "Going deeper with convolutions" (Szegedy et al., 2014). */
enum { INCEPTION_3A, INCEPTION_3B, INCEPTION_4A, INCEPTION_4D = 5, INCEPTION_4E, INCEPTIONS = 9 };
extern const inception inceptions[INCEPTIONS];

/* As brasa_classify ends a network, for one with two auxiliary heads: logits of the network, then of the heads. The
 * loss is that of the network plus 0.3 times each of the others, in training and in evaluation; the parts are the
 * outputs "loss_main", "loss_aux1" and "loss_aux2". The heads are not needed for the logits, so that inference does
 * not run them. */
void end_with_heads(brasa_graph *g, const brasa_tensor logits[3], int classes);

#endif
