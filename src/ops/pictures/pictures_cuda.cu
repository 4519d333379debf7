/* pictures_cuda.cu - numbers of the bytes of pictures, on GPUs: NHWC, as pictures lie anyway.
 *
 * A warp has a row. What a byte becomes is looked up in a table that every block makes for itself, so that it is
 * computed in doubles, as on the host, 256 times a channel and not for every pixel. */
#include "device/cuda/cuda.cuh"

extern "C" {
#include "core/pixel.h"
#include "ops/pictures/pictures.h"
}

enum { THREADS = 256, WARPS = THREADS / 32 };

template <class T, int C>
static __global__ void __launch_bounds__(THREADS)
    pictures_kernel(const pictures_view *views, T *out, int64_t rows, const pictures_attr t)
{
    __shared__ T table[C][256];
    for (int c = 0; c < C; c++)
        table[c][threadIdx.x] = from_float<T>(pixel_number((int)threadIdx.x, t.scale, t.mean[c], t.std[c]));
    __syncthreads();
    const int lane = threadIdx.x % 32, width = t.width * C;
    for (int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; row < rows;
         row += (int64_t)gridDim.x * WARPS) {
        const pictures_view v = views[row / t.height];
        const int y = (int)(row % t.height);
        const unsigned char *from =
            (const unsigned char *)v.pixels + (v.mirrored == PICTURES_DOWN ? t.height - 1 - y : y) * v.row;
        T *to = out + row * width;
        for (int e = lane; e < width; e += 32) {
            const int x = e / C, c = e % C, at = v.mirrored == PICTURES_ACROSS ? t.width - 1 - x : x;
            to[e] = table[c][from[at * C + c]];
        }
    }
}

template <class T> static void start(const step *s)
{
    const pictures_attr *t = (const pictures_attr *)s->attr;
    const pictures_view *views = (const pictures_view *)s->in[0].data;
    const int64_t rows = s->out[0].shape.dim[0] * t->height;
    const int64_t wanted = (rows + WARPS - 1) / WARPS, most = queue_of(s)->processors * (2048 / THREADS);
    const int blocks = (int)(wanted < most ? wanted : most);
    if (t->channels == 1)
        pictures_kernel<T, 1><<<blocks, THREADS, 0, stream_of(s)>>>(views, (T *)s->out[0].data, rows, *t);
    else
        pictures_kernel<T, 3><<<blocks, THREADS, 0, stream_of(s)>>>(views, (T *)s->out[0].data, rows, *t);
}

CUDA_RUN(run, s->out[0].format.storage, start)

/* A view is three numbers of 64 bits, aligned to them; 256 threads make the table's 256 rows. */
static_assert(sizeof(pictures_view) == 24 && THREADS == 256, "pictures_kernel");

CUDA_KERNELS(pictures) = {
    CUDA_ROW("pictures", run, cuda_formats),
    CUDA_END,
};
