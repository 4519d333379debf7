/* test_kernels.c - which kernels are taken, and those of the optimizers, which have no cases for test_ops.c. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"
#include "each_case.h"
#include "task.h"
#include "session/session.h"

typedef struct run {
    brasa_context *ctx;
    brasa_graph *g;
    brasa_session *s; /* NULL: it failed, and the case with it */
    task t;
} run;

static run run_start(const char *model, int threads, brasa_session_options o)
{
    brasa_model_info info = {.size = sizeof info};
    for (int i = 0; brasa_model_at(i, &info) && strcmp(info.name, model) != 0; i++)
        continue;
    run r = {.ctx = context_of(threads)};
    r.g = brasa_graph_new(r.ctx);
    r.t = task_new(info.classes, info.input[0] * info.input[1] * info.input[2], (int)o.batch, 0.3);
    CHECK_STATUS(brasa_model_build(r.g, model, 0), BRASA_OK);
    CHECK_STATUS(brasa_session_new(r.g, &o, &r.s), BRASA_OK);
    return r;
}

static void run_steps(run *r, int steps)
{
    for (int i = 0; r->s && i < steps; i++) {
        task_fill(&r->t, i * r->t.batch);
        CHECK_STATUS(brasa_train_step(r->s, r->t.images, r->t.labels, NULL), BRASA_OK);
    }
}

static void run_end(run *r)
{
    brasa_session_free(r->s);
    brasa_graph_free(r->g);
    brasa_context_free(r->ctx);
    task_free(&r->t);
}

static bool is_reference(const kernel *k)
{
    return strcmp(k->name + strlen(k->name) - 4, "_ref") == 0;
}

/* --- updates ---------------------------------------------------------------------------------------------------- */

/* Whether a kernel of this name runs in the program. */
static bool takes(const run *r, const char *name)
{
    const program *p = r->s->current;
    for (int i = 0; i < p->nsteps; i++)
        if (strcmp(p->steps[i].kernel->name, name) == 0)
            return true;
    return false;
}

static void compare_state(const run *a, const run *b)
{
    for (int i = 0; i < a->s->nstates; i++) {
        const state *x = &a->s->states[i], *y = session_state(b->s, x->name);
        if (!y || x->bytes != y->bytes ||
            memcmp(session_state_data(a->s, x), session_state_data(b->s, y), (size_t)x->bytes) != 0)
            test_fail(__FILE__, __LINE__, "%s is another than with the reference", x->name);
    }
}

/* The same code for other vectors: the same bits, slots included, whatever the sizes of the tensors are. */
TEST(updates_keep_bits)
{
    static const struct row {
        const char *optimizer, *function;
    } rows[] = {
        {"sgd lr=0.01", "sgd"},
        {"sgd lr=0.01 weight_decay=0.1", "sgd"},
        {"sgd lr=0.01 momentum=0.9", "sgd"},
        {"sgd lr=0.01 momentum=0.9 nesterov=yes weight_decay=0.1", "sgd"},
        {"rmsprop weight_decay=0.1", "rmsprop"},
        {"rmsprop momentum=0.5", "rmsprop"},
        {"adadelta weight_decay=0.1", "adadelta"},
        {"adam weight_decay=0.1", "adam"},
        {"adamw", "adam"},
        {"sgd lr=0.01", "clip_scale"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char wide[32], plain[32];
        CASE("%s of %s", rows[i].function, rows[i].optimizer);
        snprintf(wide, sizeof wide, "%s_avx2", rows[i].function);
        snprintf(plain, sizeof plain, "%s_ref", rows[i].function);
        brasa_session_options o = {.size = sizeof o, .batch = 3, .optimizer = rows[i].optimizer, .clip_norm = 0.01};
        run a = run_start("mnist_cnn", 1, o);
        o.kernels = plain;
        run b = run_start("mnist_cnn", 1, o);
        run_steps(&a, 3);
        run_steps(&b, 3);
        if (a.s && b.s) {
            CHECK(takes(&a, a.ctx->isa == ISA_ANY ? plain : wide));
            CHECK(takes(&b, plain));
            compare_state(&a, &b);
        }
        run_end(&a);
        run_end(&b);
    }
}

/* --- which are taken -------------------------------------------------------------------------------------------- */

/* Records of choices name them: a name stands for one kernel of an op. */
TEST(found_by_their_names)
{
    for (int i = 0; op_at(i); i++)
        for (dtype real = F32; real <= F64; real++) {
            for (const kernel *k = NULL; (k = kernel_next(NULL, op_at(i), real, k)) != NULL;) {
                CASE("%s", k->name);
                CHECK(kernel_find(NULL, op_at(i), real, k->name) == k);
            }
            CASE("none of %s", op_at(i)->name);
            CHECK(!kernel_find(NULL, op_at(i), real, "of_no_such_name"));
        }
}

TEST(restricted_by_the_environment)
{
    const isa best = isa_available();
    const char *given = getenv("BRASA_ISA");
    char kept[16];
    snprintf(kept, sizeof kept, "%s", given ? given : "");
    for (isa limit = ISA_ANY; limit <= best; limit++) {
        CASE("BRASA_ISA=%s", isa_name(limit));
        CHECK(setenv("BRASA_ISA", isa_name(limit), 1) == 0);
        run r = run_start("mobilenet_v2", 1, SIZED(brasa_session_options, .batch = 1, .plan_only = true));
        CHECK(given ? setenv("BRASA_ISA", kept, 1) == 0 : unsetenv("BRASA_ISA") == 0);
        isa used = ISA_ANY;
        for (int i = 0; r.s && i < r.s->current->nsteps; i++) {
            const kernel *k = r.s->current->steps[i].kernel;
            used = k->isa > used ? k->isa : used;
            if (limit == ISA_ANY && !is_reference(k))
                test_fail(__FILE__, __LINE__, "%s", k->name);
        }
        CHECK_INT(used, limit);
        run_end(&r);
    }
}

/* At most 1 % of a step in each. The fastest of three runs counts, for other programs may be busy. */
TEST(no_reference_where_time_is_spent)
{
    static const char *const models[] = {"alexnet", "vgg16", "resnet50", "mobilenet_v2", "googlenet"};
    for (int m = 0; m < 5; m++) {
        CASE("%s", models[m]);
        if (!library_onednn() || isa_available() == ISA_ANY)
            SKIP("needs oneDNN and AVX2");
        brasa_session_options o = {.size = sizeof o, .batch = 1, .optimizer = "sgd lr=0.001 momentum=0.9"};
        run r = run_start(models[m], 0, o);
        run_steps(&r, 1);
        if (r.s)
            brasa_session_profile(r.s, true);
        run_steps(&r, 3);
        const program *p = r.s ? r.s->current : NULL;
        double total = 0;
        for (int i = 0; p && i < p->nsteps; i++)
            total += (double)p->steps[i].fastest;
        for (int i = 0; p && i < p->nsteps; i++) {
            const step *s = &p->steps[i];
            if (is_reference(s->kernel) && (double)s->fastest > 0.01 * total)
                test_fail(__FILE__, __LINE__, "%s of %s takes %.1f %% of the time", s->kernel->name, s->node->name,
                          100 * (double)s->fastest / total);
        }
        run_end(&r);
    }
}
