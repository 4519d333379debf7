/* explain.c - `brasa explain`: every node of a compiled network. The library writes the account; this file builds
 * the network and, for times, runs it. */
#include "network.h"

#include "core/context.h"

#include <stdio.h>

static int explain(network *n, const options *o)
{
    const bool training = !o->eval;
    brasa_status status = brasa_use(n->session, training, o->batch);
    if (status == BRASA_OK && o->profile) {
        int code = network_make_data(n, o->batch, (uint64_t)o->seed);
        if (code != DONE)
            return code;
        progress p = progress_start(o->quiet);
        status = network_step(n, training); /* the first step touches new memory: not a time to remember */
        brasa_session_profile(n->session, true);
        for (int64_t i = 0; i < o->profile && status == BRASA_OK; i++) {
            status = network_step(n, training);
            progress_show(&p, "step %lld of %lld", (long long)i + 1, (long long)o->profile);
        }
        progress_end(&p);
    }
    if (status == BRASA_OK) {
        int32_t form = o->json ? BRASA_EXPLAIN_JSON : o->tuned ? BRASA_EXPLAIN_TUNING : BRASA_EXPLAIN_TEXT;
        status = brasa_session_explain(n->session, form, write_stdout, NULL);
        if (status == BRASA_OK && o->profile && form == BRASA_EXPLAIN_TEXT && printf("\n") > 0)
            status = brasa_session_explain(n->session, BRASA_EXPLAIN_PROFILE, write_stdout, NULL);
    }
    return status == BRASA_OK ? DONE : complain(FAILED, "%s", brasa_session_error(n->session));
}

int run_explain(const options *o)
{
    brasa_session_options s = {
        .size = sizeof s,
        .batch = o->batch,
        .optimizer = o->optimizer ? o->optimizer : TRAIN_OPTIMIZER,
        .seed = (uint64_t)o->seed,
        .inference = o->eval,
        .no_fusion = o->no_fusion,
        .plan_only = !o->profile && !o->tuned,
    };
    network n;
    if (o->tuned && tuning_off(o))
        return complain(MISUSED, "--tuned: kernels are not to be timed (%s)",
                        o->no_tune ? "--no-tune" : "BRASA_TUNE");
    int code = network_start(&n, o);
    if (code == DONE)
        code = network_build(&n, o);
    if (code == DONE)
        code = network_compile(&n, o, s);
    if (code == DONE)
        code = explain(&n, o);
    network_close(&n);
    return code;
}
