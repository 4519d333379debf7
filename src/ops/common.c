/* common.c - what several ops share. */
#include "ops/op.h"
#include "core/threads.h"

/* Waking a second thread and waiting for it took 0.5 us while it was still looking out for work, 5 to 10 us where it
 * had gone to sleep (Zen 4, two virtual processors): a loop is split from about 16 us on, the time of so many
 * elements read or written. */
static const double worth_waking = 65536;
/* Multiplications and additions in the time of one element. */
static const double flops_an_element = 16;

int node_threads(const graph *g, const node *n)
{
    double work = n->op->cost ? n->op->cost(g, n).flops / flops_an_element : 0;
    for (int k = 0; k < n->nin; k++)
        work += (double)shape_count(&g->values[n->in[k]].shape);
    for (int k = 0; k < n->nout; k++)
        work += (double)shape_count(&g->values[n->out[k]].shape);
    return work < worth_waking ? 1 : g->ctx->threads;
}

typedef struct job {
    const step *s;
    void (*range)(const step *s, int64_t begin, int64_t end);
} job;

static void run_job(void *user, int64_t begin, int64_t end)
{
    const job *j = user;
    j->range(j->s, begin, end);
}

void step_for(const step *s, int64_t items, double work, void (*range)(const step *s, int64_t begin, int64_t end))
{
    threads_for(work < worth_waking ? 1 : s->threads, items, run_job, &(job){s, range});
}

brasa_status infer_same(infer_args *a)
{
    a->out[0] = a->in[0];
    return BRASA_OK;
}

brasa_status infer_all_same(infer_args *a)
{
    for (int i = 1; i < a->nin; i++)
        if (!shape_equal(&a->in[0], &a->in[i]))
            return infer_fail(a, "input %d has another shape than input 1", i + 1);
    return infer_same(a);
}

const op_case elementwise_cases[] = {
    {"1x1x1x1", ""},
    {"1x1x5x7", ""},
    {"2x3x8x8", ""},
    {"3x17x5x5", ""},
    {"1x513x2x3", ""},
    {"4x10", ""},
    {"7", ""},
    {"16x128x600x600", "", CASE_PLAN},                         /* 2.9 GB */
    {"1000000x1000000x1000x1000", "", CASE_FAILS | CASE_PLAN}, /* 4e18 bytes */
    {"2x0x4x4", "", CASE_FAILS},
    {0},
};
