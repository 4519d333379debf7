/* concat_cuda.cu - tensors one behind the other along an axis, and the slices that are its gradient, on GPUs.
 *
 * Seen from the axis, in the order in which elements lie, every tensor is rows, and a row of the whole is the rows of
 * the parts one after the other. (In NHWC, along the channels, a row is a pixel.) Both ops copy pieces of rows, in
 * units of up to 16 bytes, whatever is stored there.
 */
#include "device/cuda/elementwise.cuh"
#include "ops/concat/concat.h"

enum { THREADS = 256, MOST = 32 /* pieces of one start */, AT_ONCE = 4 };

/* Columns `first` and on of what is copied; sizes are in bytes, and then in units. */
typedef struct piece {
    const char *src;
    char *dst;
    int64_t src_row, dst_row; /* from one row to the next */
    int64_t first;
} piece;

typedef struct pieces {
    int count;
    int64_t columns, rows;
    piece x[MOST];
} pieces;

/* A column of threads has its piece, and goes down the rows with several loads under way. */
template <class U> static __global__ void __launch_bounds__(THREADS) copy_kernel(const __grid_constant__ pieces p)
{
    const int64_t grid = (int64_t)gridDim.x * blockDim.y;
    for (int64_t column = blockIdx.y * (int64_t)blockDim.x + threadIdx.x; column < p.columns;
         column += (int64_t)gridDim.y * blockDim.x) {
        int k = 0;
        while (k + 1 < p.count && p.x[k + 1].first <= column)
            k++;
        const U *src = (const U *)p.x[k].src + (column - p.x[k].first);
        U *dst = (U *)p.x[k].dst + (column - p.x[k].first);
        const int64_t src_row = p.x[k].src_row, dst_row = p.x[k].dst_row;
        for (int64_t row = blockIdx.x * (int64_t)blockDim.y + threadIdx.y; row < p.rows; row += AT_ONCE * grid) {
            U x[AT_ONCE];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
                if (row + u * grid < p.rows)
                    x[u] = src[(row + u * grid) * src_row];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
                if (row + u * grid < p.rows)
                    dst[(row + u * grid) * dst_row] = x[u];
        }
    }
}

template <class U> static void copy_start(const step *s, const pieces *p)
{
    int x = 1;
    while (x < THREADS && x < p->columns)
        x *= 2;
    const int64_t y = THREADS / x, across = (p->columns + x - 1) / x, down = (p->rows + y - 1) / y;
    const int64_t column_blocks = across < 65535 ? across : 65535;
    const int64_t most = blocks_for(s, MOST_ELEMENTS, THREADS) / column_blocks;
    const int64_t row_blocks = most < 1 ? 1 : down < most ? down : most;
    copy_kernel<U>
        <<<dim3((unsigned)row_blocks, (unsigned)column_blocks), dim3((unsigned)x, (unsigned)y), 0, stream_of(s)>>>(
            *p);
}

/* Takes the largest unit that divides all sizes and addresses. */
static void copy_pieces(const step *s, pieces *p)
{
    uint64_t all = 16 | (uint64_t)p->columns;
    for (int k = 0; k < p->count; k++)
        all |= (uintptr_t)p->x[k].src | (uintptr_t)p->x[k].dst | (uint64_t)p->x[k].src_row |
               (uint64_t)p->x[k].dst_row | (uint64_t)p->x[k].first;
    const int64_t unit = (int64_t)(all & -all);
    for (int k = 0; k < p->count; k++) {
        p->x[k].src_row /= unit;
        p->x[k].dst_row /= unit;
        p->x[k].first /= unit;
    }
    p->columns /= unit;
    if (unit == 16)
        copy_start<uint4>(s, p);
    else if (unit == 8)
        copy_start<uint2>(s, p);
    else if (unit == 4)
        copy_start<uint32_t>(s, p);
    else
        copy_start<uint16_t>(s, p);
}

/* Elements of a tensor from one index of the axis to the next, and of a row. */
typedef struct span {
    int64_t inner, row;
} span;

static span span_of(const arg *a, int axis)
{
    span out = {1, 1};
    for (int i = a->shape.rank - 1; i >= 0; i--) {
        const int d = a->format.layout.permuted ? a->format.layout.order[i] : i;
        out.row = out.inner * a->shape.dim[d];
        if (d == axis)
            break;
        out.inner = out.row;
    }
    return out;
}

static brasa_status run_concat(const step *s)
{
    const int axis = ((const concat_attr *)s->attr)->axis;
    const arg *dst = &s->out[0];
    const int64_t size = (int64_t)dtype_size(dst->format.storage), row = span_of(dst, axis).row * size;
    char *to = (char *)dst->data;
    for (int done = 0; done < s->nin;) {
        pieces p = {.rows = dst->count * size / row};
        for (; done < s->nin && p.count < MOST; done++) {
            const int64_t part = span_of(&s->in[done], axis).row * size;
            p.x[p.count++] = piece{(const char *)s->in[done].data, to, part, row, p.columns};
            p.columns += part;
            to += part;
        }
        copy_pieces(s, &p);
    }
    return cuda_started(s);
}

static brasa_status run_slice(const step *s)
{
    const slice_attr *t = (const slice_attr *)s->attr;
    const arg *src = &s->in[0], *dst = &s->out[0];
    const span whole = span_of(src, t->axis), part = span_of(dst, t->axis);
    const int64_t size = (int64_t)dtype_size(dst->format.storage);
    pieces p = {.count = 1, .columns = part.row * size, .rows = dst->count / part.row};
    p.x[0] = piece{(const char *)src->data + t->start * whole.inner * size, (char *)dst->data, whole.row * size,
                   part.row * size, 0};
    copy_pieces(s, &p);
    return cuda_started(s);
}

/* As cuda_formats, in one type. */
static void formats(const graph *g, const node *n, format *in, format *out)
{
    cuda_formats(g, n, in, out);
    for (int k = 0; k < n->nin; k++)
        in[k].storage = out[0].storage;
}

CUDA_KERNELS(concat) = {
    CUDA_ROW("concat", run_concat, formats),
    CUDA_ROW("slice", run_slice, formats),
    CUDA_END,
};
