/* inception.c - what the two GoogLeNets have in common. */
#include "models/inception.h"

const inception inceptions[INCEPTIONS] = {
    {"3a", 64, 96, 128, 16, 32, 32},     {"3b", 128, 128, 192, 32, 96, 64},   {"4a", 192, 96, 208, 16, 48, 64},
    {"4b", 160, 112, 224, 24, 64, 64},   {"4c", 128, 128, 256, 24, 64, 64},   {"4d", 112, 144, 288, 32, 64, 64},
    {"4e", 256, 160, 320, 32, 128, 128}, {"5a", 256, 160, 320, 32, 128, 128}, {"5b", 384, 192, 384, 48, 128, 128},
};

void end_with_heads(brasa_graph *g, const brasa_tensor logits[3], int classes)
{
    static const char *const names[] = {"loss_main", "loss_aux1", "loss_aux2"};
    const brasa_tensor label = brasa_labels(g, "label", classes);
    brasa_tensor loss[3];
    for (int i = 0; i < 3; i++) {
        loss[i] = brasa_apply_n(g, (brasa_tensor[]){logits[i], label}, 2, "softmax_cross_entropy name=%s", names[i]);
        brasa_output(loss[i], names[i]);
    }
    brasa_set_loss(brasa_apply_n(g, loss, 3, "weighted_sum 1,0.3,0.3 name=loss"));
    brasa_output(logits[0], "logits");
    brasa_output(brasa_apply(logits[0], "softmax name=probs"), "probs");
    brasa_output(brasa_apply_n(g, (brasa_tensor[]){logits[0], label}, 2, "accuracy name=accuracy"), "accuracy");
}
