/* trainings.h - for tests of whole trainings: folders for runs, someone who listens, and a small training to begin
 * from. Small networks and drawn data, on one thread. */
#ifndef TEST_TRAININGS_H
#define TEST_TRAININGS_H

#include "counted.h"

#include "train/record.h"
#include "train/trained.h"

/* An empty place for a run. The text stays: one for each name. */
static inline const char *run_folder(const char *name)
{
    static char paths[32][300];
    int i = 0;
    const char *path = in_folder(name);
    while (paths[i][0] && strcmp(paths[i], path) != 0)
        i++;
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return strcpy(paths[i], path);
}

/* What was told, and a wish to stop after so many steps or at the n-th test. */
typedef struct heard {
    int count[TRAIN_FOLD + 1];
    char alarms[4000], notes[2000];
    train_figures last;
    int stop_at;                    /* steps; 0: never */
    int live[8];                    /* blocks of memory at the end of each fold */
    int calls;                      /* of the allocator, when the last step of this epoch was told */
    int greedy;                     /* steps that asked for memory */
    int64_t parts, session, loader; /* as planned: of a batch, and bytes */
    int64_t at_once;                /* samples that are evaluated */
    volatile sig_atomic_t stop;
} heard;

static inline void listen_to(void *user, const train_event *e)
{
    heard *l = user;
    if (e->kind == TRAIN_FOLD)
        l->live[l->count[TRAIN_FOLD] % 8] = memory.live;
    l->count[e->kind]++;
    if (e->kind == TRAIN_STEP && e->training->unit.place.done > 1)
        l->greedy += memory.calls != l->calls;
    l->calls = memory.calls;
    if (e->kind == TRAIN_BEGIN) {
        l->parts = e->training->unit.parts;
        l->at_once = e->training->unit.at_once;
        l->session = (int64_t)e->training->unit.memory.total;
        l->loader = e->training->unit.loader_bytes;
    }
    if (e->kind == TRAIN_EPOCH)
        l->last = *e->figures;
    if (e->kind == TRAIN_ALARM)
        strcat(strcat(l->alarms, e->text), "\n");
    if (e->kind == TRAIN_NOTE)
        strcat(strcat(l->notes, e->text), "\n");
    if (e->kind == TRAIN_STEP && l->count[TRAIN_STEP] == l->stop_at)
        l->stop = 1;
}

static const char net_text[] = "input 16\n"
                               "dense 24 name=a\n"
                               "relu\n"
                               "dropout 0.1\n"
                               "classify 26 name=b\n";

static inline const char *net(void)
{
    static char path[300];
    strcpy(path, in_folder("test.net"));
    write_file(path, net_text, sizeof net_text - 1);
    return path;
}

static inline train_options plain(heard *l, const char *out)
{
    *l = (heard){0};
    return (train_options){.settings = {.model = "letter_mlp",
                                        .data = "synth:letter,n=520",
                                        .split = "70/30",
                                        .epochs = 3,
                                        .batch = 50,
                                        .optimizer = "sgd lr=0.05 momentum=0.9"},
                           .out = out,
                           .watch = listen_to,
                           .user = l,
                           .stop = &l->stop};
}

/* To go on with a run. */
static inline train_options resumed(heard *l, const char *run)
{
    *l = (heard){0};
    return (train_options){.resume = run, .watch = listen_to, .user = l, .stop = &l->stop};
}

/* For 28 x 28 pictures; `norm`: a line more, or "". */
static inline const char *picture_net(char path[300], const char *name, const char *norm)
{
    char text[300];
    snprintf(text, sizeof text,
             "input 1 28 28\nconv 8 3x3 name=a\n%srelu\nmaxpool 2\nflatten\ndropout 0.2\nclassify 10 name=b\n", norm);
    strcpy(path, in_folder(name));
    write_file(path, text, strlen(text));
    return path;
}

/* 91 samples: a batch of 48 and one of 43, which 4 parts of 12 do not divide. */
static inline train_options pictures(heard *l, const char *out, const char *model)
{
    train_options o = plain(l, out);
    o.settings.model = model;
    o.settings.data = "synth:digits,n=130";
    o.settings.batch = 48;
    return o;
}

static inline char *file_of(const char *run, const char *name, size_t *bytes)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", run, name);
    return read_file(path, bytes);
}

static inline bool same_file(const char *a, const char *b, const char *name)
{
    size_t x = 0, y = 0;
    char *first = file_of(a, name, &x), *second = file_of(b, name, &y);
    const bool same = first && second && x == y && memcmp(first, second, x) == 0;
    free(first);
    free(second);
    return same;
}

/* All that a run has learned of one parameter; to be freed. */
static inline float *learned(const char *run, const char *name, int64_t count)
{
    trained t;
    float *data = calloc((size_t)count, sizeof *data);
    CHECK_STATUS(trained_open(ctx, run, &(trained_options){.most = 1}, &t), BRASA_OK);
    if (t.session)
        CHECK_STATUS(brasa_param_get(t.session, name, data, count), BRASA_OK);
    trained_close(&t);
    return data;
}

static inline double most_apart(const char *a, const char *b, const char *name, int64_t count)
{
    float *x = learned(a, name, count), *y = learned(b, name, count);
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)x[i] - (double)y[i]));
    free(x);
    free(y);
    return most;
}

#endif
