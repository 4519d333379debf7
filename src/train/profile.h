/* profile.h - `train --profile`: the times of nodes and kernels in some steps of a training, for its record. */
#ifndef TRAIN_PROFILE_H
#define TRAIN_PROFILE_H

#include "train/train.h"

/* After each step of a unit was started. The first ones warm up; then as many as options->profile says are timed,
 * node by node, which changes no bit of them, and profile.txt is written. */
brasa_status profile_step(training *t);
/* At the end of a unit: tells where the time went (BRASA_ON_PROFILE), also where there were fewer steps than that. */
brasa_status profile_end(training *t);

#endif
