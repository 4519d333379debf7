/* letter_mlp.c - a multilayer perceptron for the UCI Letter Recognition data: 2,570 parameters. */
#include "models/model.h"

void build_letter_mlp(brasa_graph *g, int classes)
{
    brasa_tensor x = brasa_input_vector(g, "features", 16);
    x = brasa_dropout(brasa_relu(brasa_apply(x, "dense 50 name=fc1")), 0.2f);
    x = brasa_dropout(brasa_relu(brasa_apply(x, "dense 22 name=fc2")), 0.2f);
    brasa_apply(x, "classify %d name=fc3", classes);
}
