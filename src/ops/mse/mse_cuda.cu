/* mse_cuda.cu - the mean of the squared differences, and its gradient, on an NVIDIA GPU. Prediction and target are
 * read in the types that they are stored in; the sum is taken in double. */
#include "device/cuda/quads.cuh"
#include "device/cuda/totals.cuh"

enum { MSE_THREADS = 256 };

/* Prediction and target, in the same order. */
typedef struct operands {
    const void *x, *y;
    bool x_half, y_half;
    int64_t count;
} operands;

static operands operands_of(const step *s)
{
    operands p = {};
    p.x = s->in[0].data;
    p.y = s->in[1].data;
    p.x_half = s->in[0].format.storage == BF16;
    p.y_half = s->in[1].format.storage == BF16;
    p.count = s->in[0].count;
    return p;
}

/* The differences of elements i .. i + 3, zero behind the end. */
static __device__ __forceinline__ void differences(const operands &p, int64_t i, float *d)
{
    const quad<float> from_x = quad_load_any(p.x, p.x_half, i, p.count);
    const quad<float> from_y = quad_load_any(p.y, p.y_half, i, p.count);
    float x[4], y[4];
    quad_floats_any(from_x, p.x_half, x);
    quad_floats_any(from_y, p.y_half, y);
    for (int e = 0; e < 4; e++)
        d[e] = x[e] - y[e];
}

static __global__ void __launch_bounds__(MSE_THREADS)
    mse_kernel(const operands p, float *loss, double *parts, unsigned *counter)
{
    double sum = 0, total;
    GRID_FOR(q, (p.count + 3) / 4)
    {
        float d[4];
        differences(p, q * 4, d);
        for (int e = 0; e < 4; e++)
            sum += (double)d[e] * (double)d[e];
    }
    if (grid_total(sum, parts, counter, &total) && threadIdx.x == 0)
        *loss = (float)(total / (double)p.count);
}

/* in: prediction, target; out: loss; workspace: a sum for each block */
static brasa_status mse_run(const step *s)
{
    const operands p = operands_of(s);
    const int wanted = blocks_for(s, (p.count + 3) / 4, MSE_THREADS),
              blocks = wanted < MOST_TOTALS ? wanted : MOST_TOTALS;
    mse_kernel<<<blocks, MSE_THREADS, 0, stream_of(s)>>>(p, (float *)s->out[0].data, (double *)s->workspace,
                                                         (unsigned *)s->state);
    return cuda_started(s);
}

static __global__ void __launch_bounds__(MSE_THREADS)
    mse_grad_kernel(const operands p, const float *dloss, void *dx, bool dx_half)
{
    const float factor = (float)(2. * (double)*dloss / (double)p.count);
    GRID_FOR(q, (p.count + 3) / 4)
    {
        float d[4];
        differences(p, q * 4, d);
        for (int e = 0; e < 4; e++)
            d[e] *= factor;
        quad_store_any(dx, dx_half, q * 4, p.count, d);
    }
}

/* in: x, y, dloss; out: dx = 2 dloss (x - y) / count. May lie over x or y. */
static brasa_status mse_grad_run(const step *s)
{
    const operands p = operands_of(s);
    mse_grad_kernel<<<blocks_for(s, (p.count + 3) / 4, MSE_THREADS), MSE_THREADS, 0, stream_of(s)>>>(
        p, (const float *)s->in[2].data, s->out[0].data, s->out[0].format.storage == BF16);
    return cuda_started(s);
}

/* In the order of the first that is settled, in the types that they have. */
static void mse_formats(const graph *g, const node *n, format *in, format *out)
{
    const value *x = &g->values[n->in[0]], *y = &g->values[n->in[1]];
    const layout common = x->settled ? x->format.layout : y->format.layout;
    in[0] = {storage_view(x->format.storage), common};
    in[1] = {storage_view(y->format.storage), common};
    if (n->nin > 2) /* the gradient */
        out[0] = {precision_storage(g, n->out[0]), common};
}

CUDA_KERNELS(mse) = {
    {"mse",
     {.name = "mse_cuda",
      .real = F32,
      .formats = mse_formats,
      .open = counter_open,
      .close = cuda_counters_close,
      .workspace = totals_workspace,
      .run = mse_run}},
    CUDA_ROW("mse_grad", mse_grad_run, mse_formats),
    CUDA_END,
};
