/* runner_profile.c - which kernels take the time of a training step: see runner.h. */
#include "lab/runner.h"

#include "session/spent.h"

static void tell(runner *r, const spent *list, int count, int64_t steps)
{
    double all = 0;
    for (int i = 0; i < count; i++)
        all += 1e-9 * list[i].nanoseconds;
    runner_begin(r, "profile");
    json_int(&r->lines, "steps", steps);
    json_exact(&r->lines, "seconds", all);
    runner_end(r);
    for (int i = 0; i < count; i++) {
        runner_begin(r, "function");
        json_text(&r->lines, "name", list[i].kernel->name);
        json_exact(&r->lines, "seconds", 1e-9 * list[i].nanoseconds);
        json_int(&r->lines, "calls", list[i].runs);
        runner_end(r);
    }
}

brasa_status runner_tell_profile(runner *r, const brasa_session *s, int64_t steps)
{
    const size_t bytes = (size_t)spent_most(s) * sizeof(spent);
    spent *list = mem_get(r->ctx, bytes);
    if (!list)
        return fail_memory(r->ctx, bytes);
    const int count = spent_by_kernel(list, spent_add_all(s, list, 0));
    spent_sort(list, count);
    tell(r, list, count, steps);
    mem_put(r->ctx, list);
    return BRASA_OK;
}
