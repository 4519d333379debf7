/* test_plan.c - the memory plan, on random blocks, random graphs and every network.
 *
 * Whether two values may lie in the same bytes is worked out here from the nodes alone, pair by pair, and not with
 * the planner's blocks: only a view and what it shows, or an output and the input that it is allowed to replace, may.
 * A part has its place in the whole, which is alive wherever one of its parts is.
 */
#include "test.h"
#include "proof.h"
#include "session/session.h"

/* --- random choices ------------------------------------------------------------------------------------------- */

typedef struct dice {
    random_stream stream;
    uint64_t thrown;
} dice;

static dice dice_of(int seed)
{
    return (dice){.stream = {.seed = (uint64_t)seed, .purpose = RANDOM_TEST}};
}

/* A number from 0 to n - 1. */
static int throw_dice(dice *d, int n)
{
    return (int)random_uniform(&d->stream, d->thrown++, 0, n);
}

/* --- blocks --------------------------------------------------------------------------------------------------- */

enum { MOST_BLOCKS = 60, STEPS = 40 };

static int random_blocks(dice *d, plan_block *blocks)
{
    int count = throw_dice(d, MOST_BLOCKS + 1);
    for (int i = 0; i < count; i++) {
        int first = throw_dice(d, STEPS), length = throw_dice(d, throw_dice(d, 4) ? 6 : STEPS);
        int64_t units = throw_dice(d, 8) ? throw_dice(d, 20) : throw_dice(d, 2000);
        blocks[i] = (plan_block){
            .bytes = units * PLAN_ALIGN, .first = first, .last = first + length < STEPS ? first + length : STEPS - 1};
    }
    return count;
}

static bool ranges_meet(int64_t a, int64_t a_end, int64_t b, int64_t b_end)
{
    return a < b_end && b < a_end;
}

/* Counts pairs that are alive at a common step and share bytes, and blocks outside of the arena. */
static int collisions(const plan_block *b, int count, int64_t arena)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        found += b[i].offset < 0 || b[i].offset + b[i].bytes > arena || b[i].offset % PLAN_ALIGN != 0;
        for (int j = 0; j < i; j++)
            found += b[i].first <= b[j].last && b[j].first <= b[i].last &&
                     ranges_meet(b[i].offset, b[i].offset + b[i].bytes, b[j].offset, b[j].offset + b[j].bytes);
    }
    return found;
}

TEST(random_blocks)
{
    OWNED(brasa_context) *ctx = context_of(0);
    double arenas = 0, bounds = 0;
    for (int seed = 0; seed < 10000; seed++) {
        plan_block blocks[MOST_BLOCKS];
        dice d = dice_of(seed);
        int count = random_blocks(&d, blocks);
        int64_t arena = plan_layout(ctx, blocks, count), bound = plan_lower_bound(blocks, count, STEPS);
        int64_t most = 0;
        for (int t = 0; t < STEPS; t++) {
            int64_t alive = 0;
            for (int i = 0; i < count; i++)
                alive += blocks[i].first <= t && t <= blocks[i].last ? blocks[i].bytes : 0;
            most = alive > most ? alive : most;
        }
        if (bound != most || arena < bound || collisions(blocks, count, arena) != 0)
            test_fail(__FILE__, __LINE__, "seed %d: arena %lld, bound %lld, expected %lld, %d collisions", seed,
                      (long long)arena, (long long)bound, (long long)most, collisions(blocks, count, arena));
        arenas += (double)arena;
        bounds += (double)bound;
    }
    CHECK(arenas / bounds < 1.05); /* 1.02 when this was written */
}

/* --- a plan, checked value by value --------------------------------------------------------------------------- */

typedef struct life {
    bool transient; /* the plan gave it a place of its own */
    int first, last;
    int root; /* the value whose bytes it shows, itself where it is neither view nor part */
} life;

/* The whole lives as long as its parts do: from the first that is written to the last that is read. */
static void join_parts(const graph *g, life *l)
{
    for (int v = 0; v < g->nvalues; v++) {
        const int w = g->values[v].whole;
        if (w < 0)
            continue;
        if (l[v].transient)
            l[w].first = l[w].transient && l[w].first < l[v].first ? l[w].first : l[v].first;
        l[w].transient = l[w].transient || l[v].transient;
        l[w].last = l[w].last > l[v].last ? l[w].last : l[v].last;
        l[v].transient = false;
        l[v].root = l[w].root;
    }
}

static life *lives_of(const graph *g, const memory_plan *plan)
{
    life *l = calloc((size_t)g->nvalues + 1, sizeof *l);
    for (int v = 0; v < g->nvalues; v++)
        l[v] = (life){.transient = g->values[v].kind == VALUE_INPUT, .first = -1, .root = v};
    for (int i = 0; i < g->nnodes; i++) {
        const node *n = &g->nodes[i];
        for (int k = 0; k < n->nin; k++)
            l[n->in[k]].last = i;
        for (int k = 0; k < n->nout; k++)
            if (g->values[n->out[k]].kind == VALUE_TEMP)
                l[n->out[k]] = (life){.transient = true, .first = i, .last = i, .root = n->out[k]};
        if (n->op->view && plan->in_place[i])
            l[n->out[0]].root = l[n->in[0]].root;
    }
    for (int v = 0; v < g->nvalues; v++)
        if (g->values[v].output)
            l[v].last = g->nnodes;
    join_parts(g, l);
    return l;
}

/* May `late` lie where `early` lies, though both are alive in the step that makes `late`? */
static bool may_replace(const graph *g, const memory_plan *plan, const life *l, int early, int late)
{
    const int i = l[late].first;
    const node *n = &g->nodes[i];
    if (l[early].last != i || !plan->in_place[i] || n->out[0] != late ||
        g->values[early].bytes != g->values[late].bytes)
        return false;
    int reads = 0, allowed = 0;
    for (int k = 0; k < n->nin; k++) {
        reads += l[n->in[k]].root == l[early].root;
        allowed += n->in[k] == early && k < 32 && n->op->in_place & 1u << k;
    }
    return reads == 1 && allowed == 1;
}

static bool pair_allowed(const graph *g, const memory_plan *plan, const life *l, int a, int b)
{
    const value *x = &g->values[a], *y = &g->values[b];
    if (l[a].last < l[b].first || l[b].last < l[a].first)
        return true;
    if (l[a].root == l[b].root)
        return x->offset == y->offset && x->bytes == y->bytes;
    if (!ranges_meet(x->offset, x->offset + x->bytes, y->offset, y->offset + y->bytes))
        return true;
    return x->offset == y->offset &&
           (l[a].first < l[b].first ? may_replace(g, plan, l, a, b) : may_replace(g, plan, l, b, a));
}

/* Bytes in use while node t runs: values of one place count once, the scratch memory counts too. */
static int64_t in_use(const graph *g, const life *l, int t)
{
    int64_t sum = 0;
    if (t < g->nnodes && g->nodes[t].kernel->workspace)
        sum = (g->nodes[t].kernel->workspace(g, &g->nodes[t]) + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    for (int v = 0; v < g->nvalues; v++) {
        bool counted = !l[v].transient || l[v].first > t || l[v].last < t;
        for (int u = 0; u < v && !counted; u++)
            counted =
                l[u].transient && l[u].first <= t && l[u].last >= t && g->values[u].offset == g->values[v].offset;
        if (!counted)
            sum += (g->values[v].bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    }
    return sum;
}

/* The number of things that are wrong with a part: its place, or that it meets another one that is written. */
static int part_faults(const graph *g, int v)
{
    const value *p = &g->values[v], *w = &g->values[p->whole];
    const int64_t size = (int64_t)dtype_size(p->type), N = p->shape.dim[0];
    const int64_t begin = p->first * size, end = begin + p->bytes / N;
    int faults = p->output || w->whole >= 0 || begin < 0 || end > w->bytes / N || p->offset != w->offset + begin ||
                 !layout_equal(&p->format.layout, &w->format.layout) || w->shape.dim[0] != N;
    for (int u = 0; u < v; u++) {
        const value *q = &g->values[u];
        faults += q->whole == p->whole && q->producer >= 0 && p->producer >= 0 &&
                  ranges_meet(begin, end, q->first * size, q->first * size + q->bytes / N);
    }
    return faults;
}

/* The number of things that are wrong with a plan. */
static int plan_faults(const graph *g, const memory_plan *plan)
{
    life *l = lives_of(g, plan);
    int faults = 0;
    for (int a = 0; a < g->nvalues; a++) {
        const value *x = &g->values[a];
        if (x->whole >= 0)
            faults += part_faults(g, a);
        if (!l[a].transient)
            continue;
        faults += x->offset < 0 || x->offset % PLAN_ALIGN != 0 || x->offset + x->bytes > plan->bytes;
        for (int b = 0; b < a; b++)
            faults += l[b].transient && !pair_allowed(g, plan, l, a, b);
        for (int i = l[a].first < 0 ? 0 : l[a].first; i <= l[a].last && i < g->nnodes; i++) {
            const kernel *k = g->nodes[i].kernel;
            int64_t at = plan->workspace[i], bytes = k->workspace ? k->workspace(g, &g->nodes[i]) : 0;
            faults += bytes && (at < 0 || at + bytes > plan->bytes ||
                                ranges_meet(at, at + bytes, x->offset, x->offset + x->bytes));
        }
    }
    int64_t most = 0;
    for (int t = 0; t <= g->nnodes; t++) {
        int64_t sum = in_use(g, l, t);
        most = sum > most ? sum : most;
    }
    faults += most != plan->lower_bound || plan->bytes < plan->lower_bound;
    free(l);
    return faults;
}

/* --- random graphs -------------------------------------------------------------------------------------------- */

enum { MOST_TENSORS = 40 };

typedef struct soup {
    brasa_graph *g;
    dice d;
    brasa_tensor tensor[MOST_TENSORS];
    int count;
} soup;

static void soup_add(soup *s, brasa_tensor t)
{
    if (t.id >= 0 && s->count < MOST_TENSORS)
        s->tensor[s->count++] = t;
}

static const shape *shape_of(brasa_tensor t)
{
    return &t.graph->values[t.id].shape;
}

/* A random tensor with that rank and, where it is given, exactly the shape of `like`; none: id -1. Later ones are
 * more likely, so that the graphs are deep as well as wide. */
static brasa_tensor soup_pick(soup *s, int rank, const shape *like)
{
    int start = throw_dice(&s->d, s->count), other = throw_dice(&s->d, s->count);
    start = other > start ? other : start;
    for (int i = 0; i < s->count; i++) {
        brasa_tensor t = s->tensor[(start + i) % s->count];
        if (shape_of(t)->rank == rank && (!like || shape_equal(shape_of(t), like)))
            return t;
    }
    return (brasa_tensor){s->g, -1};
}

/* Of a fixed size, so that state may stand where an input may. */
static void soup_source(soup *s, value_kind kind, int samples, int channels, const char *name)
{
    shape size = shape_4(samples, channels, 4, 4);
    int v = graph_value(s->g, kind, F32, &size, name);
    s->g->values[v].start = (initializer){START_UNIFORM, -1, 1};
    soup_add(s, (brasa_tensor){s->g, v});
}

static void soup_layer(soup *s)
{
    static const char *const same[] = {"relu", "relu6", "sigmoid", "tanh", "gelu", "dropout 0.3"};
    static const char *const image[] = {
        "conv 3 3 pad=1",           "conv 2 1",   "flatten",   "maxpool 3 stride=1 pad=1",
        "avgpool 3 stride=1 pad=1", "lrn size=3", "batchnorm", "reshape %d 2 8"};
    brasa_tensor a = soup_pick(s, 4, NULL), none = {s->g, -1}, b = none;
    switch (throw_dice(&s->d, 6)) {
    case 0:
        if (throw_dice(&s->d, 3) == 0)
            a = soup_pick(s, 2, NULL);
        soup_add(s, a.id < 0 ? none : brasa_apply(a, "%s", same[throw_dice(&s->d, 6)]));
        break;
    case 1:
    case 2: { /* an input twice is allowed too */
        b = soup_pick(s, 4, shape_of(a));
        const brasa_tensor both[] = {a, b, soup_pick(s, 4, shape_of(a))};
        if (throw_dice(&s->d, 3))
            soup_add(s, brasa_apply_n(s->g, both, 2 + throw_dice(&s->d, 2), "add"));
        else
            soup_add(s, brasa_apply_n(s->g, both, 2, "multiply"));
        break;
    }
    case 3: {
        const brasa_tensor both[] = {a, soup_pick(s, 4, shape_of(a))};
        if (shape_of(a)->dim[1] < 12)
            soup_add(s, brasa_apply_n(s->g, both, 2, "concat"));
        break;
    }
    case 4: {
        char text[32];
        snprintf(text, sizeof text, image[throw_dice(&s->d, 8)], (int)shape_of(a)->dim[1]);
        soup_add(s, brasa_apply(a, "%s", text));
        break;
    }
    case 5:
        b = soup_pick(s, 2, NULL);
        soup_add(s, b.id < 0 ? none : brasa_apply(b, throw_dice(&s->d, 2) ? "dense 5" : "softmax"));
        break;
    }
}

/* The loss: how far a few tensors are from their own sigmoid, so that much of the graph is reached. */
static void soup_loss(soup *s)
{
    brasa_tensor parts[3];
    for (int i = 0; i < 3; i++) {
        brasa_tensor t = i == 0 ? s->tensor[s->count - 1] : s->tensor[throw_dice(&s->d, s->count)];
        const brasa_tensor both[] = {t, brasa_apply(t, "sigmoid")};
        parts[i] = brasa_apply_n(s->g, both, 2, "mse");
    }
    /* The parameter must matter, or there would be nothing to train. */
    const brasa_tensor more[] = {s->tensor[0], s->tensor[1]};
    const brasa_tensor all[] = {parts[0], parts[1], parts[2], brasa_apply_n(s->g, more, 2, "mse")};
    brasa_set_loss(brasa_apply_n(s->g, all, 4, "weighted_sum 1,0.5,0.25,0.1"));
    for (int i = 3; i < s->count; i++)
        if (throw_dice(&s->d, 10) == 0 && !s->g->values[s->tensor[i].id].name) {
            char name[16];
            snprintf(name, sizeof name, "out%d", i);
            brasa_output(s->tensor[i], name);
        }
}

static brasa_graph *random_graph(brasa_context *ctx, int seed)
{
    soup s = {.g = brasa_graph_new(ctx), .d = dice_of(seed)};
    const int samples = seed % 5 < 2 ? 1 : 2; /* of one sample nearly everything may be part of something */
    soup_source(&s, VALUE_PARAM, samples, 3, "param");
    soup_source(&s, VALUE_INPUT, samples, 3, "image");
    soup_source(&s, VALUE_INPUT, samples, 2, "other");
    int layers = 1 + throw_dice(&s.d, MOST_TENSORS - 4);
    for (int i = 0; i < layers && s.g->status == BRASA_OK; i++)
        soup_layer(&s);
    soup_loss(&s);
    return s.g;
}

/* What stays readable in the plain program must be there in the other too, with the same bits. */
static int different_values(const proof *a, const proof *b)
{
    int different = 0;
    for (int v = 0; v < a->program.graph.nvalues; v++)
        different += proof_readable(a, v) && !(proof_readable(b, v) && proof_same(a, b, v));
    return different;
}

static bool parts_somewhere(const proof *p)
{
    for (int v = 0; v < p->program.graph.nvalues; v++)
        if (p->program.graph.values[v].whole >= 0)
            return true;
    return false;
}

static bool in_place_somewhere(const proof *p)
{
    for (int i = 0; i < p->program.graph.nnodes; i++)
        if (p->program.plan.in_place[i] && !p->program.graph.nodes[i].op->view)
            return true;
    return false;
}

TEST(random_graphs)
{
    enum { GRAPHS = 4000 };
    OWNED(brasa_context) *ctx = context_of(1);
    int reused = 0, parted = 0;
    for (int seed = 0; seed < GRAPHS; seed++) {
        OWNED(brasa_graph) *g = random_graph(ctx, seed);
        proof plain, p;
        /* A library may take another kernel for a fused node: bits are compared with the reference kernels, or with
         * the fastest ones unfused. */
        const bool fastest = seed % 3 == 0;
        proof_options o = {
            .gradients = seed % 4 != 3, .evaluation = seed % 4 == 3, .kernels = fastest ? NULL : "_ref"};
        brasa_status status = g->status, second = status;
        if (status == BRASA_OK)
            status = proof_make(&plain, g, o);
        o.in_place = true;
        o.fuse = !fastest && seed % 2;
        if (status == BRASA_OK)
            second = proof_make(&p, g, o);
        if (status != BRASA_OK || second != BRASA_OK) {
            test_fail(__FILE__, __LINE__, "seed %d: %s", seed, ctx->error);
            break;
        }
        int faults =
            plan_faults(&p.program.graph, &p.program.plan) + plan_faults(&plain.program.graph, &plain.program.plan);
        int different = different_values(&plain, &p);
        if (faults || different || in_place_somewhere(&plain))
            test_fail(__FILE__, __LINE__, "seed %d: %d faults in the plans, %d values differ", seed, faults,
                      different);
        reused += in_place_somewhere(&p);
        parted += parts_somewhere(&p);
        proof_free(&plain);
        proof_free(&p);
    }
    CHECK(reused > GRAPHS * 9 / 10);
    CHECK(parted > GRAPHS / 20);
}

/* The check itself: a plan that was spoiled in any one place is not accepted. */
TEST(plan_checker)
{
    OWNED(brasa_context) *ctx = context_of(0);
    OWNED(brasa_graph) *g = brasa_graph_new(ctx);
    CHECK_STATUS(brasa_model_build(g, "tiny_resnet", 0), BRASA_OK);
    OWNED(proof) p = {0};
    CHECK_STATUS(proof_compile(&p, g, (proof_options){.gradients = true, .fuse = true, .in_place = true}), BRASA_OK);
    graph *made = &p.program.graph;
    memory_plan *plan = &p.program.plan;
    CHECK_INT(plan_faults(made, plan), 0);
    life *l = lives_of(made, plan);
    int spoiled = 0, noticed = 0;
    for (int v = 0; v < made->nvalues; v++) {
        if (!l[v].transient || l[v].first == l[v].last)
            continue;
        for (int u = 0; u < v; u++) { /* onto another one that is alive for a while at the same time */
            int from = l[u].first > l[v].first ? l[u].first : l[v].first;
            int to = l[u].last < l[v].last ? l[u].last : l[v].last;
            if (!l[u].transient || from >= to || l[u].root == l[v].root)
                continue;
            int64_t kept = made->values[v].offset;
            made->values[v].offset = made->values[u].offset;
            spoiled++;
            noticed += plan_faults(made, plan) > 0;
            made->values[v].offset = kept;
            break;
        }
    }
    CHECK(spoiled > 20);
    CHECK_INT(noticed, spoiled);
    plan->bytes -= PLAN_ALIGN;
    CHECK(plan_faults(made, plan) > 0);
    free(l);
}

/* A part that lies elsewhere, or that another one lies over, is not accepted either. */
TEST(plan_checker_parts)
{
    OWNED(brasa_context) *ctx = context_of(0);
    OWNED(brasa_graph) *g = brasa_graph_new(ctx);
    CHECK_STATUS(brasa_model_build(g, "tiny_inception", 0), BRASA_OK);
    OWNED(proof) p = {0};
    const proof_options o = {.gradients = true, .fuse = true, .in_place = true, .kernels = "_ref"};
    CHECK_STATUS(proof_compile(&p, g, o), BRASA_OK);
    graph *made = &p.program.graph;
    int parts = 0;
    for (int v = 0; v < made->nvalues; v++) {
        value *x = &made->values[v];
        if (x->whole < 0)
            continue;
        x->offset += PLAN_ALIGN;
        CHECK(plan_faults(made, &p.program.plan) > 0);
        x->offset -= PLAN_ALIGN;
        const value kept = *x;
        if (x->producer >= 0) { /* to the beginning, or to the end of the first one */
            x->first = x->first ? 0 : x->bytes / (int64_t)dtype_size(x->type) - PLAN_ALIGN;
            x->offset = made->values[x->whole].offset + x->first * (int64_t)dtype_size(x->type);
            CHECK(plan_faults(made, &p.program.plan) > 0);
        }
        *x = kept;
        CHECK_INT(plan_faults(made, &p.program.plan), 0);
        parts++;
    }
    CHECK(parts >= 4);
}

/* --- every network -------------------------------------------------------------------------------------------- */

/* Transient bytes of a training step of 32 with SGD and momentum on the reference kernels, which every machine has. A
 * change of a pass or a kernel that changes a figure is meant to be seen here; if it is for the better, write the new
 * one down. */
static const struct {
    const char *model;
    int64_t bytes;
} figures[] = {
    {"mnist_cnn", 10433472},
    {"cifar10_cnn", 12573632},
    {"cifar100_cnn", 12596672},
    {"letter_mlp", 24640},
    {"tiny_resnet", 20321856},
    {"tiny_inception", 6556928},
    {"alexnet", 67054784},
    {"alexnet_caffe", 146794048},
    {"alexnet_v2", 159688896},
    {"vgg16", 1416229056},
    {"resnet18", 504262336},
    {"resnet50", 2139186880},
    {"mobilenet_v2", 1569259072},
    {"googlenet", 917732672},
    {"googlenet_aux", 943824256},
    {"googlenet_caffe", 731144896},
    {"googlenet_caffe_aux", 734317440},
};

static int64_t figure_of(const char *model)
{
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        if (strcmp(figures[i].model, model) == 0)
            return figures[i].bytes;
    return -1; /* a new network: fails until its figure is written down */
}

/* figure 0: none is known. */
static void check_arena(brasa_graph *g, int64_t batch, const char *kernels, int64_t figure)
{
    OWNED(brasa_session) *s = NULL;
    brasa_session_options o = {.size = sizeof o,
                               .batch = batch,
                               .optimizer = "sgd lr=0.001 momentum=0.9",
                               .kernels = kernels,
                               .plan_only = true};
    brasa_memory m = {.size = sizeof m};
    CHECK_STATUS(brasa_session_new(g, &o, &s), BRASA_OK);
    if (!s)
        return;
    CHECK_STATUS(brasa_session_memory(s, &m), BRASA_OK);
    double ratio = (double)m.transient / (double)m.lower_bound;
    if (!(ratio >= 1 && ratio <= 1.10))
        test_fail(__FILE__, __LINE__, "the arena is %.3f times the lower bound", ratio);
    if (figure)
        CHECK_INT(m.transient, figure);
    CHECK_INT(plan_faults(&s->current->graph, &s->current->plan), 0); /* updates included */
}

static void check_model(const char *name, int64_t batch)
{
    OWNED(brasa_graph) *g = brasa_graph_new(NULL);
    CHECK_STATUS(brasa_model_build(g, name, 0), BRASA_OK);
    check_arena(g, batch, NULL, 0);
    check_arena(g, batch, "ref", batch == 32 ? figure_of(name) : 0);

    proof p;
    for (int evaluation = 0; evaluation < 2; evaluation++) {
        proof_options plan = {
            .batch = batch, .evaluation = evaluation, .gradients = !evaluation, .fuse = true, .in_place = true};
        CHECK_STATUS(proof_compile(&p, g, plan), BRASA_OK);
        CHECK_INT(plan_faults(&p.program.graph, &p.program.plan), 0);
        proof_free(&p);
    }
}

TEST(every_network)
{
    brasa_model_info info = {.size = sizeof info};
    for (int i = 0; brasa_model_at(i, &info); i++) {
        for (int64_t batch = 1; batch <= 32; batch += 31) {
            CASE("%s at batch %d", info.name, (int)batch);
            check_model(info.name, batch);
        }
    }
}
