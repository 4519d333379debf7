/* accuracy_cuda.cu - the share of rows whose label is among the largest logits, on an NVIDIA GPU, in one launch. */
#include "device/cuda/rows.cuh"

extern "C" {
#include "ops/accuracy/accuracy.h"
}

template <class T, int ROW>
static __global__ void __launch_bounds__(ROWS_THREADS)
    accuracy_kernel(const T *src, const int32_t *labels, int64_t N, int64_t C, int top, float *share, double *parts,
                    unsigned *counter)
{
    const int lane = threadIdx.x % ROW;
    double hits = 0, all; /* of this thread; counts are exact in double */
    for (int64_t n = rows_first<ROW>(); n < N; n += rows_step<ROW>()) {
        const T *row = src + n * C;
        const int64_t label = labels[n];
        if (label < 0 || label >= C || isnan(to_float(row[label])))
            continue;
        const float own = to_float(row[label]);
        double larger = 0;
        for (int64_t c = lane; c < C; c += ROW)
            larger += !(to_float(row[c]) <= own);
        larger = row_total<ROW>(larger);
        hits += lane == 0 && larger < top;
    }
    if (grid_total(hits, parts, counter, &all) && threadIdx.x == 0)
        *share = (float)all / (float)N;
}

/* in: logits N x C, labels N; out: scalar; workspace: the hits of each block */
template <class T> static void accuracy_start(const step *s)
{
    const int64_t N = s->in[0].shape.dim[0], C = s->in[0].shape.dim[1];
    ROWS_START(accuracy_kernel, T, s, N, C)
    ((const T *)s->in[0].data, (const int32_t *)s->in[1].data, N, C, ((const accuracy_attr *)s->attr)->top,
     (float *)s->out[0].data, (double *)s->workspace, (unsigned *)s->state);
}

CUDA_RUN(accuracy_run, s->in[0].format.storage, accuracy_start)

static void accuracy_formats(const graph *g, const node *n, format *in, format *out)
{
    (void)out;
    in[0] = rows_stored(g, n->in[0]);
}

CUDA_KERNELS(accuracy) = {
    {"accuracy",
     {.name = "accuracy_cuda",
      .real = F32,
      .formats = accuracy_formats,
      .open = counter_open,
      .close = cuda_counters_close,
      .workspace = totals_workspace,
      .run = accuracy_run}},
    CUDA_END,
};
