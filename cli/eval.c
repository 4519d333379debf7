/* eval.c - `brasa eval`: a run's weights on the samples it tested on, or on others. */
#include "device.h"
#include "tuning.h"

#include "train/metrics.h"

#include <stdlib.h>

enum { MOST_SHOWN = 26 }; /* classes of a confusion matrix on a terminal */

static void print_matrix(const brasa_metrics *m, const char *const *names)
{
    printf("\ntrue class, and what it was taken for:\n%-16s", "");
    for (int k = 0; k < m->classes; k++)
        printf(" %s", print_fitted(names[k], 6, true).text);
    printf("\n");
    for (int truth = 0; truth < m->classes; truth++) {
        printf("%s", print_fitted(names[truth], 16, false).text);
        for (int k = 0; k < m->classes; k++)
            printf(" %6lld", (long long)m->confusion[(size_t)truth * (size_t)m->classes + (size_t)k]);
        printf("\n");
    }
}

static void print_text(const brasa_metrics *m, const char *const *names)
{
    printf("accuracy  %s of %s samples\n", print_percent(m->accuracy).text, print_count(m->samples).text);
    printf("top 5     %s\n", print_percent(m->top5).text);
    printf("loss      %.4f\n", m->loss);
    if (!m->confusion)
        return;
    printf("\n");
    heading("%-24s %9s %10s %8s", "class", "samples", "precision", "recall");
    for (int k = 0; k < m->classes; k++) {
        const class_metrics c = metrics_class(m, k);
        printf("%s %9s %10s %8s\n", print_fitted(names[k], 24, false).text, print_count(c.samples).text,
               print_percent(c.precision).text, print_percent(c.recall).text);
    }
    if (m->classes <= MOST_SHOWN)
        print_matrix(m, names);
}

/* A fold's folder is in the run's. */
static void json_folder(json *j, const brasa_trainer_options *s, const options *o)
{
    char path[1024];
    const int fold = (int)(s->fold ? s->fold : o->fold);
    snprintf(path, sizeof path, s->folds ? "%s/fold-%02d" : "%s", o->word[0], fold);
    json_text(j, "run", path);
}

static int evaluate(brasa_context *ctx, brasa_trainer *t, const options *o)
{
    brasa_metrics m = {.size = sizeof m};
    if (brasa_trainer_evaluate(t, NULL, o->split, &m) != BRASA_OK)
        return complain(FAILED, "%s", brasa_context_error(ctx));
    if (m.trained_on)
        complain(DONE, "note: no samples were kept to test on: these are the ones it was trained on");
    if (o->json) {
        json j = json_stdout();
        json_open(&j, NULL, '{');
        json_folder(&j, brasa_trainer_settings(t), o);
        json_text(&j, "data", o->data ? o->data : brasa_trainer_settings(t)->data);
        json_bool(&j, "trained_on", m.trained_on);
        metrics_json(&j, &m, brasa_trainer_classes(t, NULL));
        json_close(&j, '}');
    } else {
        print_text(&m, brasa_trainer_classes(t, NULL));
    }
    return DONE;
}

int run_eval(const options *o)
{
    brasa_context *ctx = NULL;
    brasa_trainer *t = NULL;
    const brasa_context_options c = {.size = sizeof c, .threads = (int32_t)o->threads};
    const brasa_trainer_options wish = {.size = sizeof wish,
                                        .resume = o->word[0],
                                        .fold = o->fold,
                                        .data = o->data ? o->data : "",
                                        .batch = o->batch,
                                        .memory_limit = o->mem,
                                        .precision = o->precision,
                                        .progress = tuning_tell};
    brasa_status status = brasa_context_new(&c, &ctx);
    if (status != BRASA_OK)
        return complain(FAILED, "%s", brasa_status_text(status));
    int code = device_use(ctx, o->device);
    if (code == DONE)
        code = device_precision(ctx, o->precision, &(int32_t){0});
    if (code == DONE) {
        status = brasa_trainer_open(ctx, &wish, &t);
        device_tell(ctx);
        code = status == BRASA_OK ? evaluate(ctx, t, o) : complain(FAILED, "%s", brasa_context_error(ctx));
    }
    brasa_trainer_free(t);
    brasa_context_free(ctx);
    return code;
}
