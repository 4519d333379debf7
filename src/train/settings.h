/* settings.h - the settings of a training: the first part of brasa_trainer_options, and one list of its members.
 *
 * run.json is written and read through the list, so that a run that is resumed, evaluated or repeated has the same
 * settings as the one that was started. */
#ifndef TRAIN_SETTINGS_H
#define TRAIN_SETTINGS_H

#include "brasa.h"
#include "core/json.h"
#include "core/json_scan.h"
#include "core/pool.h"

/* settings.split of a training on lists of the caller. */
#define LISTS            "lists"
#define TRAIN_OPTIMIZER  "sgd lr=0.01 momentum=0.9"
#define TRAIN_SAVE_EVERY 300.0

/* Copies all texts of the settings into the pool. */
brasa_status settings_copy(pool *p, brasa_trainer_options *s);
/* Fills in the defaults that depend on nothing else, and checks the ranges of numbers. */
brasa_status settings_complete(brasa_context *ctx, brasa_trainer_options *s);

/* BRASA_F32, ... of a word; NULL: BRASA_F32. Refused where the context computes on the CPU, which has but that one.
 */
brasa_status precision_read(brasa_context *ctx, const char *word, int32_t *out);
/* The word of one. Static. */
const char *precision_word(int32_t precision);

/* Whether the learning rate's schedule ends with the last epoch: a cosine that does not say when. */
bool settings_schedule_ends(const brasa_trainer_options *s);

/* The members of an open object. */
void settings_json(json *j, const brasa_trainer_options *s);
/* The index-th: its name, and its value as a text; false past the last one. */
bool settings_at(const brasa_trainer_options *s, int index, const char **name, char *text, size_t size);
/* The value of one member, into `out`, texts into the pool; what is not known is passed over. */
typedef struct settings_reader {
    brasa_trainer_options *out;
    pool *pool;
} settings_reader;
brasa_status settings_read(json_scan *s, char *key, void *reader);

/* A number for all settings that decide what is learned: equal settings, equal numbers. */
uint64_t settings_digest(const brasa_trainer_options *s);

#endif
