/* reference_tables.c - see reference_tables.h. */
#include "lab/reference_tables.h"
#include "lab/reference.h"
#include "lab/table_writer.h"

#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TABLES = 8, MOST_FOOTNOTES = 26 };

/* Footnotes of one table, each text once: [a], [b], ... */
typedef struct footnotes {
    const char *text[MOST_FOOTNOTES];
    int count;
} footnotes;

/* " [a]" for what is wrong with a row, or "". */
static shown mark_of(footnotes *f, const reference_row *row)
{
    shown mark = {""};
    const char *note = reference_note(row);
    if (!note)
        return mark;
    int i = 0;
    while (i < f->count && strcmp(f->text[i], note) != 0)
        i++;
    if (i == f->count && f->count < MOST_FOOTNOTES)
        f->text[f->count++] = note;
    snprintf(mark.text, sizeof mark.text, " [%c]", 'a' + i);
    return mark;
}

static void put_footnotes(table_writer *w, const footnotes *f)
{
    for (int i = 0; i < f->count; i++)
        table_note(w, "[%c] %s.", 'a' + i, f->text[i]);
}

static const reference_row *find(const char *study, reference_what what, const char *device, const char *peer,
                                 const char *network, int folds, int64_t images)
{
    for (int i = 0; reference_at(i); i++) {
        const reference_row *r = reference_at(i);
        if (strcmp(r->study, study) == 0 && r->what == what && strcmp(r->device, device) == 0 &&
            strcmp(r->peer, peer) == 0 && strcmp(r->network, network) == 0 && r->folds == folds &&
            (!images || r->images == images))
            return r;
    }
    return NULL;
}

/* --- study 1: small / big ------------------------------------------------------------------------------------- */

static void put_pair(table_writer *w, footnotes *f, const char *device, const char *peer, const char *network)
{
    const reference_row *small = find("study1", REFERENCE_TIME, device, peer, network, 0, 791);
    const reference_row *big = find("study1", REFERENCE_TIME, device, peer, network, 0, 6003);
    const shown mark = mark_of(f, small);
    if (isfinite(big->value))
        table_put(w, "%.0f / %.0f%s", small->value, big->value, mark.text);
    else
        table_put(w, "%.0f / -%s", small->value, mark.text);
}

static void make_study1(table_writer *w, lab_table *out, const char *device, const char *title)
{
    static const char *const peers[] = {"mxnet", "paddle", "pytorch", "singa", "tensorflow"};
    static const char *const networks[] = {"alexnet", "mobilenet_v2", "resnet50", "vgg16"};
    static const page_column columns[] = {
        {"framework", true}, {"alexnet"}, {"mobilenet_v2"}, {"resnet50"}, {"vgg16"}};
    footnotes f = {0};
    table_begin(w, out, title, columns, 5);
    for (int i = 0; i < 5; i++) {
        table_put(w, "%s", peers[i]);
        for (int k = 0; k < 4; k++)
            put_pair(w, &f, device, peers[i], networks[k]);
    }
    put_footnotes(w, &f);
    table_end(w);
}

/* --- study 2: kernels ----------------------------------------------------------------------------------------- */

static void put_kernel(table_writer *w, double seconds, int calls)
{
    if (isfinite(seconds))
        table_put(w, "%.6g s / %s", seconds, show_count(calls).text);
    else
        table_put(w, "%s", "-");
}

static void make_study2(table_writer *w, lab_table *out)
{
    static const page_column columns[] = {{"kernel", true}, {"caffe"}, {"tensorflow"}, {"tensorflow, batched"}};
    table_begin(w, out, "Table 1: time and calls of GPU kernels for matrix products (SGEMM)", columns, 4);
    for (int i = 0; reference_kernel_at(i); i++) {
        const reference_kernel *k = reference_kernel_at(i);
        table_put(w, "%s", k->name);
        put_kernel(w, k->caffe.seconds, k->caffe.calls);
        put_kernel(w, k->tensorflow.seconds, k->tensorflow.calls);
        put_kernel(w, k->tensorflow_batched.seconds, k->tensorflow_batched.calls);
    }
    table_end(w);
}

/* --- study 3: time or accuracy --------------------------------------------------------------------------------- */

static void make_study3(table_writer *w, lab_table *out, reference_what what, const char *device, int folds)
{
    static const char *const peers[] = {"tensorflow", "theano", "pytorch"};
    static const char *const networks[] = {"mnist_cnn", "cifar10_cnn", "cifar100_cnn", "letter_mlp"};
    static const page_column columns[] = {{"network", true}, {"tensorflow"}, {"theano"}, {"pytorch"}};
    const char *title = pool_text(w->pool, "%s, %s, %s", what == REFERENCE_TIME ? "Seconds" : "Accuracy, %",
                                  strcmp(device, "cpu") == 0 ? "CPU" : "GPU", folds ? "10 folds" : "70/30");
    footnotes f = {0};
    w->failed |= !title;
    table_begin(w, out, title, columns, 4);
    for (int i = 0; i < 4; i++) {
        table_put(w, "%s", networks[i]);
        for (int k = 0; k < 3; k++) {
            const reference_row *r = find("study3", what, device, peers[k], networks[i], folds, 0);
            table_put(w, "%.*f%s", r->decimals, r->value, mark_of(&f, r).text);
        }
    }
    put_footnotes(w, &f);
    table_end(w);
}

brasa_status reference_tables(pool *p, const char *study, lab_table **out, int *count)
{
    table_writer w = {.pool = p};
    lab_table *list = pool_get(p, MOST_TABLES, sizeof *list);
    *out = list;
    *count = 0;
    if (!list)
        return BRASA_OUT_OF_MEMORY;
    if (strcmp(study, "study1") == 0) {
        make_study1(&w, &list[(*count)++], "cpu", "Table 1: seconds an epoch of 791 / 6,003 photos, CPU, batch 1");
        make_study1(&w, &list[(*count)++], "gpu", "Table 2: seconds an epoch of 791 / 6,003 photos, GPU, batch 1");
    } else if (strcmp(study, "study2") == 0) {
        make_study2(&w, &list[(*count)++]);
    } else if (strcmp(study, "study3") == 0) {
        for (int gpu = 0; gpu < 2; gpu++)
            for (int folds = 10; folds >= 0; folds -= 10)
                for (int what = 0; what < 2; what++)
                    make_study3(&w, &list[(*count)++], (reference_what)what, gpu ? "gpu" : "cpu", folds);
    }
    return w.failed ? BRASA_OUT_OF_MEMORY : BRASA_OK;
}
