/* predict.c - `brasa predict`: the likeliest classes of pictures. */
#include "device.h"
#include "tuning.h"

#include <stdlib.h>

enum { BAR = 20 };

typedef struct answer {
    const char *name;
    double probability;
    int class;
} answer;

static int by_probability(const void *a, const void *b)
{
    const answer *x = a, *y = b;
    if (x->probability != y->probability)
        return x->probability > y->probability ? -1 : 1;
    return x->class - y->class;
}

static void print_json(json *j, const char *path, const answer *list, int count)
{
    json_open(j, NULL, '{');
    json_text(j, "image", path);
    json_open(j, "classes", '[');
    for (int i = 0; i < count; i++) {
        json_open(j, NULL, '{');
        json_text(j, "name", list[i].name);
        json_real(j, "probability", list[i].probability);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void print_text(const char *path, const answer *list, int count)
{
    heading("%s", path);
    for (int i = 0; i < count; i++)
        printf("  %s %7s  %s\n", print_fitted(list[i].name, 24, false).text, print_percent(list[i].probability).text,
               print_bar(list[i].probability, BAR).text);
}

/* A picture that cannot be read does not keep the others from being told. */
static int predict_all(brasa_context *ctx, brasa_trainer *t, const options *o, int classes, const char *const *names,
                       double *probability, answer *list)
{
    const int shown = o->top < classes ? (int)o->top : classes;
    int code = DONE;
    for (int i = 1; i < o->words; i++) {
        if (brasa_trainer_predict_file(t, o->word[i], probability) != BRASA_OK) {
            code = complain(FAILED, "%s", brasa_context_error(ctx));
            continue;
        }
        for (int k = 0; k < classes; k++)
            list[k] = (answer){names[k], probability[k], k};
        qsort(list, (size_t)classes, sizeof *list, by_probability);
        json j = json_stdout();
        if (o->json)
            print_json(&j, o->word[i], list, shown);
        else
            print_text(o->word[i], list, shown);
    }
    return code;
}

static int predict(brasa_context *ctx, brasa_trainer *t, const options *o)
{
    int32_t classes;
    const char *const *names = brasa_trainer_classes(t, &classes);
    double *probability = calloc((size_t)classes, sizeof *probability);
    answer *list = calloc((size_t)classes, sizeof *list);
    int code = probability && list ? predict_all(ctx, t, o, classes, names, probability, list)
                                   : complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
    free(probability);
    free(list);
    return code;
}

int run_predict(const options *o)
{
    brasa_context *ctx = NULL;
    brasa_trainer *t = NULL;
    const brasa_context_options c = {.size = sizeof c, .threads = (int32_t)o->threads};
    const brasa_trainer_options wish = {.size = sizeof wish,
                                        .resume = o->word[0],
                                        .fold = o->fold,
                                        .batch = 1,
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
        code = status == BRASA_OK ? predict(ctx, t, o) : complain(FAILED, "%s", brasa_context_error(ctx));
    }
    brasa_trainer_free(t);
    brasa_context_free(ctx);
    return code;
}
