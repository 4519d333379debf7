/* eval.c - `brasa eval`: a run's weights on the samples it tested on, or on others. */
#include "device.h"

#include "train/trained.h"

#include <stdlib.h>

enum { MOST_SHOWN = 26 }; /* classes of a confusion matrix on a terminal */

/* The samples: those of --data that test, or those that the run kept for it; all of them where none test. */
static brasa_status choose(const trained *t, const options *o, split *out)
{
    const dataset *d = t->task.set;
    split_options s = {.kind = d->parts == 2 ? SPLIT_PARTS : SPLIT_ALL,
                       .no_stratify = t->run.settings.no_stratify,
                       .no_shuffle = t->run.settings.no_shuffle,
                       .seed = (uint64_t)t->run.settings.seed};
    if (o->split) {
        brasa_status status = split_parse(t->task.ctx, o->split, &s);
        if (status != BRASA_OK)
            return status;
    }
    if (o->data || o->split)
        return split_make(d, &s, out);
    pool p = {.ctx = t->task.ctx};
    const char *path = run_path(&p, t->folder, SPLIT_FILE);
    brasa_status status = path ? split_read(d, path, out) : BRASA_OUT_OF_MEMORY;
    pool_free(&p);
    return status;
}

static void print_matrix(const metrics *m, const char *const *names)
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

static void print_text(const metrics *m, const char *const *names)
{
    printf("accuracy  %s of %s samples\n", print_percent(metrics_top1(m)).text, print_count(m->count).text);
    printf("top 5     %s\n", print_percent(metrics_top5(m)).text);
    printf("loss      %.4f\n", metrics_loss(m));
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

static int evaluate(trained *t, const options *o)
{
    split s = {0};
    metrics m = {0};
    pool p = {.ctx = t->task.ctx};
    brasa_status status = choose(t, o, &s);
    const bool tests = s.tests > 0;
    if (status == BRASA_OK)
        status = metrics_init(&m, &p, t->task.classes);
    if (status == BRASA_OK)
        status = trained_measure(t, tests ? s.test : s.train, tests ? s.tests : s.trains, &m);
    if (status == BRASA_OK && !tests && !o->data)
        complain(DONE, "note: no samples were kept to test on: these are the ones it was trained on");
    if (status == BRASA_OK && o->json) {
        json j = json_stdout();
        json_open(&j, NULL, '{');
        json_text(&j, "run", t->folder);
        json_text(&j, "data", t->task.set->spec);
        json_bool(&j, "trained_on", !tests && !o->data);
        metrics_json(&j, &m, t->task.class_name);
        json_close(&j, '}');
    } else if (status == BRASA_OK) {
        print_text(&m, t->task.class_name);
    }
    split_free(&s);
    pool_free(&p);
    return status == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_context_error(t->task.ctx));
}

int run_eval(const options *o)
{
    brasa_context *ctx = NULL;
    brasa_context_options c = {.size = sizeof c, .threads = (int32_t)o->threads};
    brasa_status status = brasa_context_new(&c, &ctx);
    if (status != BRASA_OK)
        return complain(FAILED, "%s", brasa_status_text(status));
    const trained_options wish = {.fold = (int)o->fold,
                                  .spec = o->data ? o->data : "",
                                  .most = o->batch,
                                  .mem = o->mem,
                                  .precision = o->precision};
    int code = device_use(ctx, o->device);
    if (code == DONE)
        code = device_precision(ctx, o->precision, &(int32_t){0});
    if (code == DONE) {
        trained t;
        status = trained_open(ctx, o->word[0], &wish, &t);
        device_tell(ctx);
        code = status == BRASA_OK ? evaluate(&t, o) : complain(FAILED, "%s", brasa_context_error(ctx));
        trained_close(&t);
    }
    brasa_context_free(ctx);
    return code;
}
