/* lab_reference.c - `brasa lab reference`: the studies' published numbers, as they print them, with their faults. */
#include "cli.h"

#include "core/nearest.h"
#include "lab/alarms.h"
#include "lab/lab_export.h"
#include "lab/reference.h"
#include "lab/reference_tables.h"

#include <math.h>
#include <string.h>

enum { MOST_COLUMNS = 8 };

/* --- text ---------------------------------------------------------------------------------------------------- */

static void print_table(const lab_table *t)
{
    int width[MOST_COLUMNS] = {0};
    heading("\n%s", t->title);
    for (int k = 0; k < t->column_count; k++) {
        width[k] = (int)strlen(t->columns[k].title);
        for (int i = 0; i < t->row_count; i++) {
            const int length = (int)strlen(t->cells[i * t->column_count + k].text);
            width[k] = length > width[k] ? length : width[k];
        }
    }
    for (int i = -1; i < t->row_count; i++) {
        for (int k = 0; k < t->column_count; k++) {
            const char *text = i < 0 ? t->columns[k].title : t->cells[i * t->column_count + k].text;
            const bool last = k + 1 == t->column_count;
            printf("%-*s%s", last ? 0 : width[k], text, last ? "\n" : "  ");
        }
    }
    for (int i = 0; i < t->note_count; i++)
        wrapped(0, 4, t->notes[i]);
}

static void print_study(const reference_study *s, const lab_table *tables, int count, const lab_alarms *alarms)
{
    heading("%s", s->name);
    wrapped(0, 0, s->title);
    printf("machine: ");
    wrapped(9, 9, s->machine);
    printf("method:  ");
    wrapped(9, 9, s->method);
    for (int i = 0; i < count; i++)
        print_table(&tables[i]);
    heading("\nFindings");
    for (int i = 0; reference_finding_at(i); i++) {
        const reference_finding *f = reference_finding_at(i);
        if (strcmp(f->study, s->name) != 0)
            continue;
        const int used = printf("- %s%s%s:", f->peer ? f->peer : "", f->peer ? ", " : "", f->what);
        putchar(' ');
        wrapped(used + 1, 2, f->value);
    }
    if (alarms->count)
        heading("\nAlarms that the lab raises over these numbers");
    for (int i = 0; i < alarms->count; i++) {
        printf("- ");
        wrapped(2, 2, alarms->list[i].text);
    }
}

/* --- Markdown and JSON --------------------------------------------------------------------------------------- */

static void print_markdown(const reference_study *s, const lab_table *tables, int count, const lab_alarms *alarms)
{
    printf("# %s\n\n%s.\n\nMachine: %s.\nMethod: %s.\n", s->name, s->title, s->machine, s->method);
    for (int i = 0; i < count; i++)
        lab_export_table(&tables[i], write_stdout, NULL);
    printf("\n## Findings\n\n");
    for (int i = 0; reference_finding_at(i); i++) {
        const reference_finding *f = reference_finding_at(i);
        if (strcmp(f->study, s->name) == 0)
            printf("- %s%s%s (%s): %s\n", f->peer ? f->peer : "", f->peer ? ", " : "", f->what, f->source, f->value);
    }
    if (alarms->count)
        printf("\n## Alarms that the lab raises over these numbers\n\n");
    for (int i = 0; i < alarms->count; i++)
        printf("- %s\n", alarms->list[i].text);
    printf("\n");
}

static void json_values(json *j, const char *study)
{
    json_open(j, "values", '[');
    for (int i = 0; reference_at(i); i++) {
        const reference_row *r = reference_at(i);
        if (strcmp(r->study, study) != 0 || !isfinite(r->value))
            continue;
        json_open(j, NULL, '{');
        json_text(j, "source", r->source);
        json_text(j, "device", r->device);
        json_text(j, "framework", r->peer);
        json_text(j, "network", r->network);
        json_text(j, "data", r->data);
        json_text(j, "split", r->split);
        json_int(j, "folds", r->folds);
        json_int(j, "batch", r->batch);
        json_int(j, "images", r->images);
        json_int(j, "epochs", r->epochs);
        json_real(j, "value", r->value);
        json_text(j, "unit", r->unit);
        json_text(j, "note", reference_note(r));
        json_close(j, '}');
    }
    json_close(j, ']');
}

static void json_kernel(json *j, const char *kernel, const char *framework, bool batched, double seconds, int calls)
{
    if (!isfinite(seconds))
        return;
    json_open(j, NULL, '{');
    json_text(j, "kernel", kernel);
    json_text(j, "framework", framework);
    json_bool(j, "batched", batched);
    json_real(j, "seconds", seconds);
    json_int(j, "calls", calls);
    json_close(j, '}');
}

static void json_study(json *j, const reference_study *s, const lab_alarms *alarms)
{
    json_open(j, NULL, '{');
    json_text(j, "study", s->name);
    json_text(j, "title", s->title);
    json_text(j, "machine", s->machine);
    json_text(j, "method", s->method);
    json_values(j, s->name);
    json_open(j, "kernels", '[');
    for (int i = 0; strcmp(s->name, "study2") == 0 && reference_kernel_at(i); i++) {
        const reference_kernel *k = reference_kernel_at(i);
        json_kernel(j, k->name, "caffe", false, k->caffe.seconds, k->caffe.calls);
        json_kernel(j, k->name, "tensorflow", false, k->tensorflow.seconds, k->tensorflow.calls);
        json_kernel(j, k->name, "tensorflow", true, k->tensorflow_batched.seconds, k->tensorflow_batched.calls);
    }
    json_close(j, ']');
    json_open(j, "findings", '[');
    for (int i = 0; reference_finding_at(i); i++) {
        const reference_finding *f = reference_finding_at(i);
        if (strcmp(f->study, s->name) != 0)
            continue;
        json_open(j, NULL, '{');
        json_text(j, "source", f->source);
        json_text(j, "framework", f->peer);
        json_text(j, "what", f->what);
        json_text(j, "value", f->value);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_open(j, "alarms", '[');
    for (int i = 0; i < alarms->count; i++)
        json_text(j, NULL, alarms->list[i].text);
    json_close(j, ']');
    json_close(j, '}');
}

/* --- the verb ------------------------------------------------------------------------------------------------ */

static brasa_status show_study(pool *p, const reference_study *s, const options *o, json *j, bool first)
{
    lab_results results;
    lab_alarms alarms;
    lab_table *tables;
    int count;
    brasa_status status = reference_results(p, s->name, &results);
    if (status == BRASA_OK)
        status = alarms_find(p, &results, &alarms);
    if (status == BRASA_OK)
        status = reference_tables(p, s->name, &tables, &count);
    if (status != BRASA_OK)
        return status;
    if (o->json) {
        json_study(j, s, &alarms);
    } else if (o->markdown) {
        print_markdown(s, tables, count, &alarms);
    } else {
        printf("%s", first ? "" : "\n");
        print_study(s, tables, count, &alarms);
    }
    return BRASA_OK;
}

static int refuse_study(const char *word)
{
    nearest n = {.word = word};
    for (int i = 0; reference_study_at(i); i++)
        nearest_offer(&n, reference_study_at(i)->name);
    const nearest_text hint = nearest_hint(&n);
    return complain(MISUSED, "no study '%s'%s", word,
                    hint.text[0] ? hint.text : ", expected study1, study2 or study3");
}

int run_lab_reference(const options *o)
{
    brasa_context *ctx = NULL;
    brasa_status status = brasa_context_new(&SIZED(brasa_context_options, .threads = 1), &ctx);
    if (status != BRASA_OK)
        return complain(FAILED, "%s", brasa_status_text(status));
    pool p = {.ctx = ctx};
    json j = json_stdout();
    int shown_studies = 0;
    if (o->json)
        json_open(&j, NULL, '[');
    for (int i = 0; status == BRASA_OK && reference_study_at(i); i++) {
        const reference_study *s = reference_study_at(i);
        if (!o->words || strcmp(o->word[0], s->name) == 0)
            status = show_study(&p, s, o, &j, shown_studies++ == 0);
    }
    int code = status == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_context_error(ctx));
    if (code == DONE && !shown_studies)
        code = refuse_study(o->word[0]);
    else if (o->json)
        json_close(&j, ']');
    pool_free(&p);
    brasa_context_free(ctx);
    return code;
}
