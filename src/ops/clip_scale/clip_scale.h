/* clip_scale.h - what the kernels of clip_scale share. */
#ifndef OPS_CLIP_SCALE_H
#define OPS_CLIP_SCALE_H

#include "core/on_device.h"
#include "ops/optimizer.h"

/* limit / norm, in the dialect's form, at most 1; NaN where the norm is. */
static inline ON_DEVICE double clip_scale_of(const clip_attr *t, double norm)
{
    const double scale = t->limit / (t->form == CLIP_TORCH ? norm + 1e-6 : norm);
    return scale > 1 ? 1 : scale;
}

#endif
