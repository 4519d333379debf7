/* presets.h - the experiments of the studies, with their exact settings: rows of one table. */
#ifndef TRAIN_PRESETS_H
#define TRAIN_PRESETS_H

#include "train/settings.h"

typedef struct preset {
    const char *name, *summary;
    brasa_trainer_options settings; /* data is NULL where the user must say where the files are */
    const char *wants;              /* what to say then */
} preset;

/* The index-th, NULL past the last one. */
const preset *preset_at(int index);
/* By name; or an error with the nearest one. */
brasa_status preset_find(brasa_context *ctx, const char *name, const preset **out);

#endif
