/* window.c - output sizes and padding of sliding windows. */
#include "ops/window.h"

/* Taps and the gaps between them. */
static int64_t reach(int size, int dilation)
{
    return (int64_t)dilation * (size - 1) + 1;
}

/* What 'same' adds before and after one axis. */
static void pad_same(same_form form, int64_t in, int64_t covers, int stride, int *before, int *after)
{
    int64_t total = covers - 1;
    if (form == SAME_CEIL) {
        total = ((in + stride - 1) / stride - 1) * stride + covers - in;
        total = total > 0 ? total : 0;
    }
    *before = (int)(total / 2);
    *after = (int)(form == SAME_MIRROR ? total / 2 : total - total / 2);
}

/* 0 where not one window fits. */
static int64_t outputs(int64_t in, int before, int after, int64_t covers, int stride, bool ceil)
{
    int64_t room = in + before + after - covers + (ceil ? stride - 1 : 0);
    if (room < 0)
        return 0;
    int64_t out = room / stride + 1;
    return ceil && (out - 1) * stride >= in + before ? out - 1 : out;
}

brasa_status window_infer(infer_args *a, window_attr *t, int64_t channels)
{
    const int64_t H = a->in[0].dim[2], W = a->in[0].dim[3];
    const int64_t high = reach(t->size.h, t->dilation.h), wide = reach(t->size.w, t->dilation.w);
    pads *p = &t->pad;
    if (p->same) {
        const same_form form = (same_form)a->g->dialect->same;
        if (form == SAME_EVEN && (t->stride.h > 1 || t->stride.w > 1))
            return infer_fail(a,
                              "pad=same needs stride 1 in the dialect '%s', got %dx%d: give the padding in numbers",
                              a->g->dialect->name, t->stride.h, t->stride.w);
        pad_same(form, H, high, t->stride.h, &p->top, &p->bottom);
        pad_same(form, W, wide, t->stride.w, &p->left, &p->right);
    }
    const int64_t OH = outputs(H, p->top, p->bottom, high, t->stride.h, t->ceil);
    const int64_t OW = outputs(W, p->left, p->right, wide, t->stride.w, t->ceil);
    if (OH < 1 || OW < 1)
        return infer_fail(a, "the output would be empty: the window covers %lldx%lld, the padded input is %lldx%lld",
                          (long long)high, (long long)wide, (long long)(H + p->top + p->bottom),
                          (long long)(W + p->left + p->right));
    a->out[0] = shape_4(a->in[0].dim[0], channels, OH, OW);
    return BRASA_OK;
}

brasa_status window_infer_pool(infer_args *a, window_attr *t)
{
    brasa_status status = infer_rank(a, 0, 4);
    if (status != BRASA_OK)
        return status;
    t->dilation = (pair){1, 1};
    t->stride.h = t->stride.h ? t->stride.h : t->size.h;
    t->stride.w = t->stride.w ? t->stride.w : t->size.w;
    const pads *p = &t->pad;
    if (!p->same &&
        (p->top > t->size.h / 2 || p->bottom > t->size.h / 2 || p->left > t->size.w / 2 || p->right > t->size.w / 2))
        return infer_fail(a, "padding of %d,%d,%d,%d is more than half of the window of %dx%d", p->top, p->left,
                          p->bottom, p->right, t->size.h, t->size.w);
    return window_infer(a, t, a->in[0].dim[1]);
}
