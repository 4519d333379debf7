/* kernels.cu - kernels for test_softgpu_kernels.c: right ones, and others with one mistake each, which the software
 * GPU must find. Each is started by a function of the same name, whose result is that of the start alone. */
#include "kernels.h"

#include <cuda_bf16.h>

/* --- right ones ------------------------------------------------------------------------------------------------ */

static __host__ __device__ uint32_t choose(bool holds, uint32_t number)
{
    return holds ? number : 0;
}

/* What is computed once by the GPU and once by the compiler of the host, from the same words. */
static __host__ __device__ void compute(const operands *o, uint64_t to[RESULTS])
{
    const uint32_t a = o->a, b = o->b;
    const int32_t sa = (int32_t)a, sb = (int32_t)b;
    const uint64_t wide = a * UINT64_C(0x9e3779b97f4a7c15) + b;
    const float f = o->f, g = o->g;
    const double x = o->x, y = o->y;
    int n = 0;
    to[n++] = a + b;
    to[n++] = a - b;
    to[n++] = a * b;
    to[n++] = (uint64_t)a * b;
    to[n++] = (uint64_t)((int64_t)sa * sb);
    to[n++] = (uint64_t)a * b >> 32;
    to[n++] = b ? a / b : 0;
    to[n++] = b ? a % b : 0;
    to[n++] = sb && sb != -1 ? (uint32_t)(sa / sb) : 0;
    to[n++] = sb && sb != -1 ? (uint32_t)(sa % sb) : 0;
    to[n++] = a << (b & 31);
    to[n++] = a >> (b & 31);
    to[n++] = (uint32_t)(sa >> (b & 31));
    to[n++] = wide >> (a & 63);
    to[n++] = (uint64_t)((int64_t)wide >> (a & 63));
    to[n++] = (a & b) | (a ^ ~b) << 1;
    to[n++] = choose(sa < sb, 1) + choose(a < b, 10) + choose(sa >= sb, 100) + choose(a == b, 1000);
    to[n++] = (uint16_t)(a * 3 + b);
    to[n++] = bits_of_f32(f + g);
    to[n++] = bits_of_f32(f - g);
    to[n++] = bits_of_f32(f * g);
    to[n++] = bits_of_f32(f / g);
    to[n++] = bits_of_f32(fmaf(f, g, 1.5f));
    to[n++] = bits_of_f32(sqrtf(fabsf(f)));
    to[n++] = bits_of_f32(fminf(f, g) + 0);
    to[n++] = bits_of_f32(fmaxf(f, g) + 0);
    to[n++] = bits_of_f32(floorf(f));
    to[n++] = bits_of_f32(truncf(g));
    to[n++] = bits_of_f32(rintf(f));
    to[n++] = bits_of_f32((float)sa);
    to[n++] = bits_of_f32((float)a);
    to[n++] =
        choose(f < g, 1) + choose(f <= g, 10) + choose(f == g, 100) + choose(f != g, 1000) + choose(!(f >= g), 10000);
    to[n++] = f > -1e9f && f < 1e9f ? (uint32_t)(int32_t)f : 0;
    to[n++] = bits_of_f64(x + y);
    to[n++] = bits_of_f64(x - y);
    to[n++] = bits_of_f64(x * y);
    to[n++] = bits_of_f64(x / y);
    to[n++] = bits_of_f64(fma(x, y, 0.3));
    to[n++] = bits_of_f64(sqrt(fabs(x)));
    to[n++] = bits_of_f64((double)f);
    to[n++] = bits_of_f32((float)x);
    to[n++] = bits_of_f64((double)sa);
    to[n++] =
        choose(x < y, 1) + choose(x <= y, 10) + choose(x == y, 100) + choose(x != y, 1000) + choose(!(x > y), 10000);
    to[n++] = __bfloat16_as_ushort(__float2bfloat16_rn(f));
    to[n++] = bits_of_f32(__bfloat162float(__ushort_as_bfloat16((unsigned short)a)));
    for (; n < RESULTS; n++)
        to[n] = 0;
}

__global__ void run_arithmetic(const operands *o, uint64_t *to, int count)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count)
        compute(&o[i], to + (int64_t)i * RESULTS);
}

static __device__ float warp_sum(float x)
{
    for (int d = 16; d; d >>= 1)
        x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* Of each block, by shuffles and by shared memory whose size the start tells. */
__global__ void run_sums(const float *from, float *to, int count)
{
    extern __shared__ float room[];
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), warps = (int)blockDim.x / 32;
    const float x = warp_sum(i < count ? from[i] : 0);
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < warps; w++)
        sum += room[w];
    if (threadIdx.x == 0)
        to[blockIdx.x] = sum;
}

/* Each block writes, waits for all others, and reads what its neighbour wrote. */
__global__ void run_together(unsigned *arrived, volatile int *room, int *to)
{
    if (threadIdx.x == 0) {
        room[blockIdx.x] = (int)(blockIdx.x * blockIdx.x);
        __threadfence();
        atomicAdd(arrived, 1);
        while (*(volatile unsigned *)arrived < gridDim.x)
            continue;
        __threadfence();
        to[blockIdx.x] = room[(blockIdx.x + 1) % gridDim.x];
    }
}

/* Ways that part and meet again: loops of another length in every thread. */
__global__ void run_loops(int *to)
{
    int sum = 0;
    for (int i = 0; i < (int)threadIdx.x; i++) {
        if ((i + threadIdx.x) % 3 == 0)
            continue;
        sum += i;
        if (sum > 1000)
            break;
    }
    to[threadIdx.x] = sum;
}

__global__ void run_add(int *to, const int *from)
{
    to[threadIdx.x] += from[threadIdx.x];
}

/* --- those with a mistake -------------------------------------------------------------------------------------- */

__global__ void run_behind(int *to)
{
    to[threadIdx.x + 1] = 1; /* the last one is behind the end */
}

__global__ void run_crooked(const float *from, float *to)
{
    const float4 four = *(const float4 *)(from + 1); /* wants 16 bytes */
    to[threadIdx.x] = four.x + four.w;
}

__global__ void run_shared_behind(int *to, int at)
{
    __shared__ int room[64];
    room[threadIdx.x + at] = 1;
    __syncthreads();
    to[threadIdx.x] = room[threadIdx.x];
}

__global__ void run_race_of_reader(int *to)
{
    __shared__ int room[64];
    room[threadIdx.x] = (int)threadIdx.x;
    to[threadIdx.x] = room[(threadIdx.x + 1) % 64]; /* no barrier before */
}

__global__ void run_race_of_writer(int *to)
{
    __shared__ int room[64];
    room[threadIdx.x] = (int)threadIdx.x;
    __syncthreads();
    const int got = room[63 - threadIdx.x];
    room[threadIdx.x] = 2 * got; /* no barrier before */
    __syncthreads();
    to[threadIdx.x] = room[threadIdx.x];
}

__global__ void run_race_of_writers(int *to)
{
    __shared__ int room[64];
    room[threadIdx.x / 2] = (int)threadIdx.x;
    __syncthreads();
    to[threadIdx.x] = room[threadIdx.x];
}

__global__ void run_parted(float *to)
{
    float x = (float)threadIdx.x;
    if (threadIdx.x % 2)
        x += __shfl_xor_sync(0xffffffffu, x, 1); /* the others do not come */
    else
        __syncthreads();
    to[threadIdx.x] = x;
}

__global__ void run_unread(float *to)
{
    __shared__ float room[32];
    volatile float *any = room;
    to[threadIdx.x] = any[threadIdx.x]; /* that nobody wrote */
}

/* Of each thread's own memory. */
__global__ void run_own_crooked(int *to, int at)
{
    __align__(16) volatile char own[64];
    for (int i = 0; i < 64; i++)
        own[i] = (char)i;
    to[threadIdx.x] = *(volatile int *)(own + at);
}

__global__ void run_own_unread(float *to, int at)
{
    volatile float own[64];
    own[at] = 1;
    to[threadIdx.x] = own[at + 1];
}

__global__ void run_masked(float *to)
{
    to[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, (float)threadIdx.x, 1); /* all come */
}

__global__ void run_unknown(unsigned *to)
{
    unsigned x;
    asm volatile("bfind.u32 %0, %1;" : "=r"(x) : "r"(to[0])); /* none of our kernels has it */
    to[0] = x;
}

/* --- their starts ---------------------------------------------------------------------------------------------- */

void compute_on_host(const operands *o, uint64_t *to)
{
    compute(o, to);
}

static cudaError_t started()
{
    return cudaGetLastError();
}

cudaError_t arithmetic(const operands *o, uint64_t *to, int count, cudaStream_t s)
{
    run_arithmetic<<<(count + 63) / 64, 64, 0, s>>>(o, to, count);
    return started();
}

cudaError_t sums(const float *from, float *to, int count, int threads, cudaStream_t s)
{
    run_sums<<<(count + threads - 1) / threads, threads, threads / 32 * sizeof(float), s>>>(from, to, count);
    return started();
}

cudaError_t together(unsigned *arrived, int *room, int *to, int blocks, cudaStream_t s)
{
    cudaLaunchAttribute all = {};
    all.id = cudaLaunchAttributeCooperative;
    all.val.cooperative = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(blocks);
    how.blockDim = dim3(64);
    how.stream = s;
    how.attrs = &all;
    how.numAttrs = 1;
    const cudaError_t error = cudaLaunchKernelEx(&how, run_together, arrived, (volatile int *)room, to);
    return error == cudaSuccess ? started() : error;
}

cudaError_t loops(int *to, cudaStream_t s)
{
    run_loops<<<1, 128, 0, s>>>(to);
    return started();
}

cudaError_t add(int *to, const int *from, int count, cudaStream_t s)
{
    run_add<<<1, count, 0, s>>>(to, from);
    return started();
}

#define WRONG(name, type, threads, ...)                                                                              \
    cudaError_t name(void *memory, int at, cudaStream_t s)                                                           \
    {                                                                                                                \
        type *to = (type *)memory;                                                                                   \
        (void)at;                                                                                                    \
        run_##name<<<1, threads, 0, s>>>(__VA_ARGS__);                                                               \
        return started();                                                                                            \
    }
WRONG(behind, int, at, to)
WRONG(crooked, float, 1, to, to + 8)
WRONG(shared_behind, int, 64, to, at)
WRONG(race_of_reader, int, 64, to)
WRONG(race_of_writer, int, 64, to)
WRONG(race_of_writers, int, 64, to)
WRONG(parted, float, 32, to)
WRONG(unread, float, 32, to)
WRONG(own_crooked, int, 32, to, at)
WRONG(own_unread, float, 32, to, at)
WRONG(masked, float, 32, to)
WRONG(unknown, unsigned, 1, to)
