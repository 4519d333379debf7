/* cudnn_run.c - runs plans of the library that stands in for cuDNN: looks at the addresses they are given, and
 * computes when their stream comes to it.
 *
 * Each of the three products of a convolution is a product of matrices (product.h), whose rows and columns are places
 * in tensors: only strides say where these are. The gradient of the input is made for those positions at a time that
 * the same taps reach, so that with strides no zeros are multiplied.
 */
#include "product.h"
#include "soft_cudnn.h"

#include <math.h>
#include <stdio.h>

enum { N, C, H, W };
enum { WORKSPACE_ALIGN = 256 };

/* A plan with its addresses: all that a run needs. */
typedef struct task {
    problem problem;
    config config;
    void *x, *w, *y, *result; /* of the convolution, those that are in memory */
    void *second[MOST_STEPS]; /* of its steps */
    float *workspace;
} task;

/* --- places ---------------------------------------------------------------------------------------------------- */

/* So many steps, each of which goes so far. */
typedef struct loop {
    int64_t count, offset, y, x;
} loop;

typedef struct start {
    int64_t offset, y, x;
} start;

/* Three loops, one in the other, the last one innermost. NULL: there is no memory. */
static soft_place *make_places(start from, loop a, loop b, loop c)
{
    const int64_t count = a.count * b.count * c.count;
    soft_place *places = malloc((size_t)(count + 1) * sizeof *places), *to = places;
    for (int64_t i = 0; i < a.count && to; i++)
        for (int64_t j = 0; j < b.count; j++)
            for (int64_t k = 0; k < c.count; k++)
                *to++ = (soft_place){from.offset + i * a.offset + j * b.offset + k * c.offset,
                                     (int32_t)(from.y + i * a.y + j * b.y + k * c.y),
                                     (int32_t)(from.x + i * a.x + j * b.x + k * c.x)};
    return places;
}

static soft_place *make_line(int64_t first, int64_t count, int64_t step)
{
    const loop once = {.count = 1};
    return make_places((start){.offset = first}, once, once, (loop){.count = count, .offset = step});
}

/* One product of matrices, of one group and of those positions that see the same taps. */
enum { A_ROW, A_COL, B_ROW, B_COL, TO_ROW, TO_COL, STEPS, PLACES = STEPS + 2 * MOST_STEPS };
typedef struct work {
    const task *task;
    soft_product sums;
    soft_place *places[PLACES];
    bool careless;
} work;

/* --- what is done to sums -------------------------------------------------------------------------------------- */

static void activate(const operation *o, bool careless, int64_t count, float *sums)
{
    const float lower = (float)o->how.lower, upper = o->how.upper < 3.4e38 ? (float)o->how.upper : INFINITY;
    const float slope = (float)o->how.slope, alpha = (float)o->alpha;
    for (int64_t i = 0; i < count; i++) {
        const float v = alpha * sums[i];
        if (v > lower || (isnan(v) && o->how.keeps_nan && !careless))
            sums[i] = v > upper ? upper : v;
        else
            sums[i] = isnan(v) ? lower : lower + slope * (v - lower);
    }
}

static void store(const void *user, int64_t row, int64_t col, int64_t count, float *sums)
{
    const work *w = user;
    const problem *p = &w->task->problem;
    const soft_place *to = w->places[TO_COL] + col;
    const int64_t first = w->places[TO_ROW][row].offset;
    const float alpha = (float)p->sums.alpha, beta = (float)p->sums.beta;
    for (int64_t i = 0; i < count; i++) {
        sums[i] *= alpha;
        if (beta != 0)
            sums[i] += beta * soft_read(w->task->result, p->result.type, first + to[i].offset);
    }
    for (int k = 0; k < p->steps; k++) {
        const operation *o = &p->step[k];
        for (int64_t i = 0; i < count; i++)
            sums[i] = soft_round(sums[i], o->x.type);
        if (o->how.mode == CUDNN_POINTWISE_RELU_FWD) {
            activate(o, w->careless, count, sums);
            continue;
        }
        const soft_place *of = w->places[STEPS + 2 * k + 1] + col;
        const int64_t at = w->places[STEPS + 2 * k][row].offset;
        for (int64_t i = 0; i < count; i++)
            sums[i] = (float)o->alpha * sums[i] +
                      (float)o->beta * soft_read(w->task->second[k], o->w.type, at + of[i].offset);
    }
    for (int64_t i = 0; i < count; i++)
        soft_write(w->task->result, p->result.type, first + to[i].offset, sums[i]);
}

/* --- the three products ---------------------------------------------------------------------------------------- */

static soft_matrix matrix_of(const void *at, const tensor *t, soft_place *row, soft_place *col, bool plane)
{
    return (soft_matrix){.at = at,
                         .type = t->type,
                         .height = plane ? (int32_t)t->dim[H] : 0,
                         .width = plane ? (int32_t)t->dim[W] : 0,
                         .row = row,
                         .col = col};
}

/* Makes the product whose places are set, and lets these go. */
static void multiply(work *w, int64_t m, int64_t n, int64_t k, soft_matrix a, soft_matrix b)
{
    const task *t = w->task;
    bool good = true;
    for (int i = 0; i < STEPS + 2 * t->problem.steps; i++)
        good = good && (w->places[i] || i >= STEPS);
    w->sums = (soft_product){.m = m,
                             .n = n,
                             .k = k,
                             .a = a,
                             .b = b,
                             .tf32 = soft_engines[t->config.engine].tensor_cores,
                             .rounded = soft_engines[t->config.engine].rounded,
                             .piece = soft_piece(&t->config),
                             .splits = soft_splits(&t->config),
                             .workspace = t->workspace,
                             .store = store,
                             .user = w};
    if (!good) {
        fprintf(stderr, "softgpu: no memory for a convolution\n");
        abort();
    }
    soft_multiply(&w->sums);
    for (int i = 0; i < PLACES; i++) {
        free(w->places[i]);
        w->places[i] = NULL;
    }
}

/* All positions of a tensor's plane, of all pictures. */
static soft_place *make_positions(const tensor *t)
{
    return make_places((start){0}, (loop){t->dim[N], t->stride[N], 0, 0}, (loop){t->dim[H], t->stride[H], 0, 0},
                       (loop){t->dim[W], t->stride[W], 0, 0});
}

/* What the window begins with at each position of the output. */
static soft_place *make_windows(const operation *o, int64_t channel)
{
    const tensor *x = &o->x;
    const window *v = &o->window;
    const start from = {channel * x->stride[C] - v->before[0] * x->stride[H] - v->before[1] * x->stride[W],
                        -v->before[0], -v->before[1]};
    return make_places(from, (loop){x->dim[N], x->stride[N], 0, 0},
                       (loop){o->y.dim[H], v->stride[0] * x->stride[H], v->stride[0], 0},
                       (loop){o->y.dim[W], v->stride[1] * x->stride[W], 0, v->stride[1]});
}

/* And the taps in it. */
static soft_place *make_taps(const operation *o)
{
    const tensor *x = &o->x, *w = &o->w;
    const window *v = &o->window;
    return make_places((start){0}, (loop){w->dim[H], v->dilation[0] * x->stride[H], v->dilation[0], 0},
                       (loop){w->dim[W], v->dilation[1] * x->stride[W], 0, v->dilation[1]},
                       (loop){w->dim[C], x->stride[C], 0, 0});
}

/* The same taps in the weights. */
static soft_place *make_weights(const tensor *w)
{
    return make_places((start){0}, (loop){w->dim[H], w->stride[H], 0, 0}, (loop){w->dim[W], w->stride[W], 0, 0},
                       (loop){w->dim[C], w->stride[C], 0, 0});
}

/* Rows are positions of the output, columns its channels; sums are over taps. */
static void run_forward(work *w, int64_t group)
{
    const task *t = w->task;
    const operation *o = &t->problem.sums;
    const int64_t depth = o->w.dim[C], width = o->w.dim[N] * depth / o->x.dim[C], first = group * width;
    const tensor *y = &t->problem.result;
    w->places[A_ROW] = make_windows(o, group * depth);
    w->places[A_COL] = make_taps(o);
    w->places[B_ROW] = make_weights(&o->w);
    w->places[B_COL] = make_line(first * o->w.stride[N], width, o->w.stride[N]);
    w->places[TO_ROW] = make_positions(y);
    w->places[TO_COL] = make_line(first * y->stride[C], width, y->stride[C]);
    for (int k = 0; k < t->problem.steps; k++)
        if (t->problem.step[k].has_w) {
            tensor second = t->problem.step[k].w; /* one element may be for all */
            for (int i = 0; i < PICTURE; i++) {
                second.stride[i] = second.dim[i] == 1 ? 0 : second.stride[i];
                second.dim[i] = y->dim[i];
            }
            w->places[STEPS + 2 * k] = make_positions(&second);
            w->places[STEPS + 2 * k + 1] = make_line(first * second.stride[C], width, second.stride[C]);
        }
    multiply(w, y->dim[N] * y->dim[H] * y->dim[W], width, o->w.dim[H] * o->w.dim[W] * depth,
             matrix_of(t->x, &o->x, w->places[A_ROW], w->places[A_COL], true),
             matrix_of(t->w, &o->w, w->places[B_ROW], w->places[B_COL], false));
}

/* Rows are channels of the output, columns taps; sums are over positions. */
static void run_weights(work *w, int64_t group)
{
    const task *t = w->task;
    const operation *o = &t->problem.sums;
    const int64_t depth = o->w.dim[C], width = o->w.dim[N] * depth / o->x.dim[C], first = group * width;
    w->places[A_ROW] = make_line(first * o->y.stride[C], width, o->y.stride[C]);
    w->places[A_COL] = make_positions(&o->y);
    w->places[B_ROW] = make_windows(o, group * depth);
    w->places[B_COL] = make_taps(o);
    w->places[TO_ROW] = make_line(first * o->w.stride[N], width, o->w.stride[N]);
    w->places[TO_COL] = make_weights(&o->w);
    multiply(w, width, o->w.dim[H] * o->w.dim[W] * depth, o->y.dim[N] * o->y.dim[H] * o->y.dim[W],
             matrix_of(t->y, &o->y, w->places[A_ROW], w->places[A_COL], false),
             matrix_of(t->x, &o->x, w->places[B_ROW], w->places[B_COL], true));
}

/* Along one axis: the positions of the input that are so far from where a window may begin, every `stride` of them,
 * and the taps that reach them. Position number i sees, by tap number k, position seen + i - k * back of the output.
 */
typedef struct class_of {
    int64_t first, count; /* positions */
    int64_t tap, taps, apart, seen, back;
} class_of;

static class_of make_class(const operation *o, int axis, int64_t remainder)
{
    const int64_t stride = o->window.stride[axis], before = o->window.before[axis];
    const int64_t dilation = o->window.dilation[axis], size = o->w.dim[H + axis], all = o->x.dim[H + axis];
    class_of c = {.first = ((remainder - before) % stride + stride) % stride, .apart = 1};
    c.count = c.first < all ? (all - c.first - 1) / stride + 1 : 0;
    while (c.tap < size && c.tap * dilation % stride != remainder)
        c.tap++;
    while (c.apart * dilation % stride)
        c.apart++;
    c.taps = c.tap < size ? (size - c.tap - 1) / c.apart + 1 : 0;
    c.seen = (c.first + before - c.tap * dilation) / stride; /* a multiple of it, if there are taps */
    c.back = c.apart * dilation / stride;
    return c;
}

/* Rows are positions of the input, columns its channels; sums are over taps and channels of the output. */
static void run_class(work *w, int64_t group, class_of v, class_of u)
{
    const task *t = w->task;
    const operation *o = &t->problem.sums;
    const tensor *x = &o->x, *y = &o->y;
    const int64_t depth = o->w.dim[C], width = o->w.dim[N] * depth / x->dim[C], first = group * width;
    const int64_t stride_y = o->window.stride[0], stride_x = o->window.stride[1];
    const start from = {first * y->stride[C] + v.seen * y->stride[H] + u.seen * y->stride[W], v.seen, u.seen};
    w->places[A_ROW] = make_places(from, (loop){x->dim[N], y->stride[N], 0, 0}, (loop){v.count, y->stride[H], 1, 0},
                                   (loop){u.count, y->stride[W], 0, 1});
    w->places[A_COL] =
        make_places((start){0}, (loop){v.taps, -v.back * y->stride[H], -v.back, 0},
                    (loop){u.taps, -u.back * y->stride[W], 0, -u.back}, (loop){width, y->stride[C], 0, 0});
    w->places[B_ROW] =
        make_places((start){first * o->w.stride[N] + v.tap * o->w.stride[H] + u.tap * o->w.stride[W], 0, 0},
                    (loop){v.taps, v.apart * o->w.stride[H], 0, 0}, (loop){u.taps, u.apart * o->w.stride[W], 0, 0},
                    (loop){width, o->w.stride[N], 0, 0});
    w->places[B_COL] = make_line(0, depth, o->w.stride[C]);
    w->places[TO_ROW] = make_places(
        (start){v.first * x->stride[H] + u.first * x->stride[W], 0, 0}, (loop){x->dim[N], x->stride[N], 0, 0},
        (loop){v.count, stride_y * x->stride[H], 0, 0}, (loop){u.count, stride_x * x->stride[W], 0, 0});
    w->places[TO_COL] = make_line(group * depth * x->stride[C], depth, x->stride[C]);
    multiply(w, x->dim[N] * v.count * u.count, depth, v.taps * u.taps * width,
             matrix_of(t->y, y, w->places[A_ROW], w->places[A_COL], true),
             matrix_of(t->w, &o->w, w->places[B_ROW], w->places[B_COL], false));
}

static void run_data(work *w, int64_t group)
{
    const operation *o = &w->task->problem.sums;
    for (int64_t y = 0; y < o->window.stride[0]; y++)
        for (int64_t x = 0; x < o->window.stride[1]; x++)
            run_class(w, group, make_class(o, 0, y), make_class(o, 1, x));
}

static void run(void *user)
{
    const task *t = user;
    const operation *o = &t->problem.sums;
    work w = {.task = t, .careless = soft_engines[t->config.engine].careless};
    for (int64_t group = 0; group < o->x.dim[C] / o->w.dim[C]; group++)
        (o->product == FORWARD ? run_forward : o->product == DATA ? run_data : run_weights)(&w, group);
}

/* --- starting -------------------------------------------------------------------------------------------------- */

enum { MOST_SPANS = 4 + MOST_STEPS };

/* What is looked at before a plan is started: the result is the first of the spans. */
typedef struct look {
    const body *pack;
    int count;
    soft_span span[MOST_SPANS];
} look;

/* The address of a tensor, that must be in the pack. */
static cudnnStatus_t find(look *l, const tensor *t, void **to)
{
    const attribute *uids = soft_attribute(l->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                    *data = soft_attribute(l->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    int64_t at = 0, elements = 1;
    if (t->inside)
        return CUDNN_STATUS_SUCCESS;
    while (at < uids->count && ((const int64_t *)uids->values)[at] != t->uid)
        at++;
    if (at == uids->count)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "tensor %lld is not in the pack", (long long)t->uid);
    *to = ((void *const *)data->values)[at];
    if (!*to)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "tensor %lld is nowhere", (long long)t->uid);
    if ((uintptr_t)*to % (uintptr_t)t->alignment)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "tensor %lld is not aligned to %lld bytes",
                           (long long)t->uid, (long long)t->alignment);
    for (int64_t i = 0; i < t->dims; i++)
        elements += (t->dim[i] - 1) * t->stride[i];
    l->span[l->count++] = (soft_span){*to, (size_t)elements * soft_size(t->type)};
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t find_all(look *l, task *t)
{
    const operation *o = &t->problem.sums;
    cudnnStatus_t status = find(l, &t->problem.result, &t->result);
    if (status == CUDNN_STATUS_SUCCESS && o->product != DATA)
        status = find(l, &o->x, &t->x);
    if (status == CUDNN_STATUS_SUCCESS && o->product != WEIGHTS)
        status = find(l, &o->w, &t->w);
    if (status == CUDNN_STATUS_SUCCESS && o->product != FORWARD)
        status = find(l, &o->y, &t->y);
    for (int i = 0; i < t->problem.steps && status == CUDNN_STATUS_SUCCESS; i++)
        if (t->problem.step[i].has_w)
            status = find(l, &t->problem.step[i].w, &t->second[i]);
    return status;
}

static cudnnStatus_t find_workspace(look *l, task *t)
{
    const int64_t bytes = soft_workspace(&t->problem, &t->config);
    const attribute *a = soft_attribute(l->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    void *at = a && bytes ? *(void *const *)a->values : NULL;
    if (bytes && !at)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no workspace, of %lld bytes",
                           (long long)bytes);
    if ((uintptr_t)at % WORKSPACE_ALIGN)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "the workspace is not aligned");
    t->workspace = at;
    l->span[l->count++] = (soft_span){at, (size_t)bytes};
    return CUDNN_STATUS_SUCCESS;
}

/* What is written lies in nothing else, and all is the GPU's. */
static cudnnStatus_t check_spans(const look *l)
{
    const soft_span *workspace = &l->span[l->count - 1];
    for (int i = 0; i < l->count; i++) {
        if ((i && soft_overlap(l->span[0], l->span[i])) || (i < l->count - 1 && soft_overlap(*workspace, l->span[i])))
            return soft_refuse(CUDNN_STATUS_BAD_PARAM, "a result or the workspace lies in another tensor");
        if (!soft_owned(l->span[i]))
            return soft_refuse(CUDNN_STATUS_EXECUTION_FAILED, "%zu bytes are not in the GPU's memory",
                               l->span[i].bytes);
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t library, cudnnBackendDescriptor_t of, cudnnBackendDescriptor_t with)
{
    handle *h = soft_handle(library);
    const body *plan = soft_finished(of, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    look l = {.pack = soft_finished(with, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)};
    enum cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
    if (!h || !plan || !l.pack)
        return soft_refuse(CUDNN_STATUS_BAD_PARAM, "this is no handle, no plan, or no pack that is finalized");
    task t;
    memset(&t, 0, sizeof t);
    t.problem = plan->problem;
    t.config = plan->config;
    cudnnStatus_t status = find_all(&l, &t);
    if (status == CUDNN_STATUS_SUCCESS)
        status = find_workspace(&l, &t);
    if (status == CUDNN_STATUS_SUCCESS)
        status = check_spans(&l);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (cudaStreamIsCapturing(h->stream, &captured) != cudaSuccess)
        return soft_refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream does not answer");
    if (soft_engines[t.config.engine].unrecordable && captured != cudaStreamCaptureStatusNone)
        return soft_refuse(CUDNN_STATUS_NOT_SUPPORTED, "engine %d cannot be captured", t.config.engine);
    if (soft_setting("SOFTGPU_CUDNN_FAILS") == t.config.engine)
        return soft_refuse(CUDNN_STATUS_EXECUTION_FAILED, "engine %d fails", t.config.engine);
    void *kept = soft_keep(&h->tasks, &t, sizeof t);
    if (!kept)
        return soft_refuse(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
    if (cudaLaunchHostFunc(h->stream, run, kept) != cudaSuccess)
        return soft_refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream takes nothing");
    return CUDNN_STATUS_SUCCESS;
}
