/* run_report.h - the page of a training run: what it reached, its curves, its mistakes, its memory, and all that is
 * needed to know what was run.
 *
 * Whoever trains fills the struct; nothing here knows of graphs or sessions. Parts that are not there are left out.
 */
#ifndef REPORT_RUN_REPORT_H
#define REPORT_RUN_REPORT_H

#include "core/context.h"
#include "report/page.h"

/* NAN: not measured. Accuracies are shares, 0 ... 1. */
typedef struct report_epoch {
    double epoch; /* from 1 */
    double train_loss, train_accuracy;
    double val_loss, val_accuracy;
    double images_per_second, seconds; /* of training alone */
    double learning_rate;              /* at its end */
} report_epoch;

typedef struct report_fold {
    int fold; /* from 1 */
    double val_loss, val_accuracy, seconds;
} report_fold;

typedef struct report_notice {
    page_kind kind;
    const char *text;
} report_notice;

typedef struct report_run {
    const char *title;    /* "mnist_cnn on mnist" */
    const char *subtitle; /* when, where, by which command; or NULL */

    const report_notice *notices;
    int notice_count;
    const report_epoch *epochs; /* with folds: of the last one */
    int epoch_count;
    const report_fold *folds; /* in their order */
    int fold_count;

    int classes;                    /* 0: no labels */
    const char *const *class_names; /* NULL, or one of them NULL: the number */
    const int64_t *confusion;       /* [classes: true][classes: predicted], of the validation set; or NULL */

    const page_bar *memory; /* the plan: a bar for weights, gradients, activations, ..., in bytes */
    int memory_count;
    int64_t memory_budget; /* 0: none was given */
    int64_t memory_peak;   /* that was measured; 0: not */

    const page_fact *settings; /* every hyper-parameter, defaults too */
    int setting_count;
    const page_fact *environment; /* versions, kernels, hardware, the hash of the data */
    int environment_count;
} report_run;

/* Writes the page to a sink that returns false when it cannot take more, with the text on the context: BRASA_BAD_FILE
 * then, and what was written is half a page, so a file should get its name when all is well. */
brasa_status run_report_write(brasa_context *ctx, const report_run *run,
                              bool (*write)(void *user, const char *text, size_t length), void *user);

#endif
