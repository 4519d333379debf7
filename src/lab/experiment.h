/* experiment.h - experiments as text: a field a line, lists make a grid, the grid's points are cells (lab.h).
 *
 *     # comments start with #
 *     title      AlexNet and VGG-16, one picture at a time
 *     network    alexnet vgg16                 # names of models, or paths of .net files
 *     data       synth:fire,n=791 big=synth:fire,n=6003       # specs; a name before one lets --data replace it
 *     batch      1 10..100/10                  # numbers; FIRST..LAST doubles, with /STEP it adds
 *     threads    1..all
 *     optimizer  sgd lr=0.001 momentum=0.9     # the rest of the line
 *     small.data synth:fire,n=48               # with --scale small this counts in place of `data`
 *     experiment NAME                          # begins a block; what stands before the first one holds for all
 * Words with blanks in them stand in "quotes". `brasa help experiments` lists all fields. The presets are such texts,
 * too. A text can name networks, data and numbers; nothing in it is run.
 */
#ifndef LAB_EXPERIMENT_H
#define LAB_EXPERIMENT_H

#include "lab/lab.h"

typedef struct experiment {
    brasa_context *ctx;
    pool pool;
    const char *where; /* the preset's name, or the file's path */
    const char *name;  /* the same without folder and ending */
    const char *title; /* that stands before the first block, and so heads all of them; NULL: none */
    const char *text;  /* as it was written */
    bool small;
    lab_cell *cells; /* in the order in which they are run: by block, network, data, batch, ... */
    int count;
    struct experiment_block *blocks; /* the rest is experiment.c's and experiment_cells.c's own */
    int nblocks;
    struct experiment_origin *origins; /* of each cell */
} experiment;

typedef struct experiment_options {
    bool small;
    const char *data; /* "mnist=idx:DIR letter=csv:FILE": in place of what the text says; NULL: nothing */
} experiment_options;

/* From a preset's name or a file's path. All of it is checked before anything is run: words and numbers by line, then
 * each network with each of its data sets, which are opened for that. Errors name file, line and field. */
brasa_status experiment_open(brasa_context *ctx, const char *name, const experiment_options *o, experiment **out);
void experiment_close(experiment *e);

/* The first half: reads the text, opens no file. `where` is for messages. */
brasa_status experiment_read(brasa_context *ctx, const char *where, const char *text, const experiment_options *o,
                             experiment **out);
/* The second half. */
brasa_status experiment_check(experiment *e);

/* Samples that train in an epoch of the cell, once the experiment was checked. */
int64_t experiment_images(const experiment *e, const lab_cell *c);
/* What comes after `c`, a cell that says `doubling`: the same with twice the batch. *more is false where a batch
 * holds all samples already. The key lives as long as the experiment. */
brasa_status experiment_doubled(experiment *e, const lab_cell *c, lab_cell *out, bool *more);

/* The fields there are, for help: name and what it takes; false past the last one. */
bool experiment_field_at(int index, const char **name, const char **takes);

/* presets.c: the experiments that come with the program; NULL past the last one. */
typedef struct lab_preset {
    const char *name, *summary, *text;
} lab_preset;
const lab_preset *lab_preset_at(int index);

#endif
