/* trainings.h - for tests of whole trainings: folders for runs, someone who listens, and a small training to begin
 * from. Small networks and drawn data, on one thread. */
#ifndef TEST_TRAININGS_H
#define TEST_TRAININGS_H

#include "counted.h"

#include "train/record.h"
#include "train/train.h"
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
    int count[BRASA_ON_FOLD + 1];
    char alarms[4000], notes[2000];
    brasa_epoch last;
    int stop_at;                    /* steps; 0: never */
    int live[8];                    /* blocks of memory at the end of each fold */
    int calls;                      /* of the allocator, when the last step of this epoch was told */
    int greedy;                     /* steps that asked for memory */
    int64_t parts, session, loader; /* as planned: of a batch, and bytes */
    int64_t at_once;                /* samples that are evaluated */
    bool stop;
} heard;

static inline bool listen_to(void *user, const brasa_progress *p)
{
    heard *l = user;
    if (p->event == BRASA_ON_FOLD)
        l->live[l->count[BRASA_ON_FOLD] % 8] = memory.live;
    l->count[p->event]++;
    if (p->event == BRASA_ON_STEP && p->done > 1)
        l->greedy += memory.calls != l->calls;
    l->calls = memory.calls;
    if (p->event == BRASA_ON_BEGIN) {
        brasa_trainer_info i = {.size = sizeof i};
        brasa_memory m = {.size = sizeof m};
        CHECK_STATUS(brasa_session_memory(brasa_trainer_session(p->trainer), &m), BRASA_OK);
        CHECK_STATUS(brasa_trainer_describe(p->trainer, &i), BRASA_OK);
        l->parts = i.micro_batches;
        l->at_once = i.test_batch;
        l->session = (int64_t)m.total;
        l->loader = (int64_t)i.loader;
    }
    if (p->event == BRASA_ON_EPOCH)
        l->last = *p->epoch;
    if (p->event == BRASA_ON_WARNING)
        strcat(strcat(l->alarms, p->text), "\n");
    if (p->event == BRASA_ON_NOTE)
        strcat(strcat(l->notes, p->text), "\n");
    l->stop = l->stop || (p->event == BRASA_ON_STEP && l->count[BRASA_ON_STEP] == l->stop_at);
    return !l->stop;
}

/* A trainer from beginning to end. */
static inline brasa_status train(brasa_context *c, const brasa_trainer_options *o, brasa_trainer_result *r)
{
    brasa_trainer *t = NULL;
    brasa_trainer_options sized = *o;
    sized.size = sizeof sized;
    *r = (brasa_trainer_result){.size = sizeof *r};
    brasa_status status = brasa_trainer_new(c, &sized, &t);
    if (status == BRASA_OK)
        status = brasa_trainer_run(t, r);
    brasa_trainer_free(t);
    return status;
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

static inline brasa_trainer_options plain(heard *l, const char *out)
{
    *l = (heard){0};
    return (brasa_trainer_options){.model = "letter_mlp",
                                   .data = "synth:letter,n=520",
                                   .split = "70/30",
                                   .epochs = 3,
                                   .batch = 50,
                                   .optimizer = "sgd lr=0.05 momentum=0.9",
                                   .out = out,
                                   .progress = listen_to,
                                   .user = l};
}

/* To go on with a run. */
static inline brasa_trainer_options resumed(heard *l, const char *run)
{
    *l = (heard){0};
    return (brasa_trainer_options){.resume = run, .progress = listen_to, .user = l};
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
static inline brasa_trainer_options pictures(heard *l, const char *out, const char *model)
{
    brasa_trainer_options o = plain(l, out);
    o.model = model;
    o.data = "synth:digits,n=130";
    o.batch = 48;
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
