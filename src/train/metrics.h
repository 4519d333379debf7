/* metrics.h - how well a network does on a list of samples, from its logits: loss, top-1, top-5, confusion matrix.
 *
 * Sums are made in double, sample after sample, so that the figures do not depend on threads or batch size. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include "brasa.h"
#include "core/json.h"
#include "core/pool.h"

enum {
    MOST_CONFUSED = 1000,
    TOP = 5
}; /* with more classes there is no matrix: it would be larger than the network */

typedef struct metrics {
    int classes;
    int64_t count, top1, top5;
    double loss;        /* the sum of softmax cross-entropies */
    float *logits;      /* where those of all samples are kept, in their order; NULL: they are not */
    int64_t *confusion; /* classes x classes: [true class][predicted class]; NULL: too many classes */
} metrics;

/* Memory from the pool. */
brasa_status metrics_init(metrics *m, pool *p, int classes);
void metrics_reset(metrics *m);
/* logits: count x classes. Where several are the largest, the first of them is the prediction. */
void metrics_add(metrics *m, const float *logits, const int32_t *labels, int64_t count);

/* NAN where nothing was counted. */
double metrics_loss(const metrics *m);
double metrics_top1(const metrics *m);
double metrics_top5(const metrics *m);

/* The same for the caller, of weights after this epoch. */
brasa_metrics metrics_figures(const metrics *m, int64_t epoch);

/* Of one class: samples that are of it, that were taken for it, and both. There must be a matrix. */
typedef struct class_metrics {
    int64_t samples, predicted, right;
    double precision, recall; /* right / predicted, right / samples; NAN for 0 / 0 */
} class_metrics;
class_metrics metrics_class(const brasa_metrics *m, int class);

/* The members samples, loss, accuracy, top5, classes and confusion of an open object. */
void metrics_json(json *j, const brasa_metrics *m, const char *const *class_name);

#endif
