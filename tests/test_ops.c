/* test_ops.c - every op and every kernel, proved on the op's own cases; with BRASA_TEST_DEVICE those of a device, see
 * device.h, against the same reference.
 *
 * Nothing here knows a particular op: what is in the registry is tested, and an op without enough cases fails. The
 * gradients are test_gradients.c's. BRASA_TEST_ONCE=yes runs each kernel once in a case, and not again with other
 * rubbish in memory and with parts, for tools under which a run takes long.
 */
#define _GNU_SOURCE /* readlink, setenv */
#include "test.h"
#include "device.h"
#include "each_case.h"
#include "ops/conv2d/conv2d.h"

/* --- refused, and planned ------------------------------------------------------------------------------------- */

static void check_refused(brasa_context *ctx, const op_def *op, const op_case *c)
{
    OWNED(graph) g = {0};
    graph_init(&g, ctx);
    int in[CASE_MAX_IN], nin = case_inputs(&g, c, in);
    const char *named = nin < 0 ? "'x" : op->name; /* an input that cannot be is refused before the op sees it */
    if (nin >= 0)
        case_loss(&g, case_layer(&g, op, c, nin, in));
    brasa_status status = g.status;
    if (status == BRASA_OK) { /* not by the builder, but when the program is made: not in training, or too large */
        proof p;
        status = proof_compile(&p, &g, (proof_options){.gradients = true});
        proof_free(&p);
        if (strstr(ctx->error, "too large for any machine")) /* which the planner says of any shape */
            named = "shape";
    }
    CHECK(status == BRASA_BAD_SHAPE || status == BRASA_BAD_ARGUMENT);
    CHECK_HAS(ctx->error, named);
}

TEST(refused)
{
    HOST_OR_SKIP();
    each_case(1, CASE_FAILS, CASE_FAILS, check_refused);
}

/* a * b as two 64-bit halves: does not share the code, or the limits, that it checks. */
static void multiply_exactly(uint64_t high_low[2], uint64_t b)
{
    uint64_t a = high_low[1], mask = 0xFFFFFFFF;
    uint64_t low = (a & mask) * (b & mask), cross = (a >> 32) * (b & mask) + (low >> 32);
    uint64_t other = (a & mask) * (b >> 32) + (cross & mask);
    high_low[0] = high_low[0] * b + (a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32);
    high_low[1] = other << 32 | (low & mask);
}

static void check_sizes(brasa_context *ctx, const op_def *op, const op_case *c)
{
    OWNED(graph) g = {0};
    OWNED(proof) p = {0};
    graph_init(&g, ctx);
    CHECK_STATUS(case_build(&g, op, c), BRASA_OK);
    brasa_status status = proof_compile(&p, &g, (proof_options){.gradients = !exempt(op, "gradient")});
    CHECK_STATUS(status, BRASA_OK);
    int64_t most = 0;
    for (int v = 0; status == BRASA_OK && v < p.program.graph.nvalues; v++) {
        const value *x = &p.program.graph.values[v];
        uint64_t exact[2] = {0, dtype_size(x->type)};
        for (int d = 0; d < x->shape.rank; d++)
            multiply_exactly(exact, (uint64_t)x->shape.dim[d]);
        CHECK(exact[0] == 0);
        if (layout_plain(&x->format.layout))
            CHECK_INT(x->bytes, exact[1]);
        else
            CHECK((uint64_t)x->bytes >= exact[1]); /* and what its blocks pad */
        most = x->bytes > most ? x->bytes : most;
        if (x->kind == VALUE_TEMP && proof_made(&p.program.graph, v))
            CHECK(x->offset >= 0 && x->offset + x->bytes <= p.program.plan.bytes);
    }
    CHECK(most > INT64_C(1) << 31); /* what such a case is there for */
}

TEST(sizes)
{
    HOST_OR_SKIP();
    each_case(1, CASE_PLAN | CASE_FAILS, CASE_PLAN, check_sizes);
}

/* --- parts ---------------------------------------------------------------------------------------------------- */

enum {
    GAP = 192,
    GAP_BYTE = 0xFF,
    MOST_ARGS = 32,
    MOST_TAKERS = 100
}; /* the byte makes NaN, should a kernel read it */

static struct {
    const kernel *of[MOST_TAKERS];
    int count;
} takers; /* kernels that were given a part */

static bool took(const kernel *k)
{
    bool found = false;
    for (int i = 0; i < takers.count; i++)
        found = found || takers.of[i] == k;
    return found;
}

/* Whether it might be a part of a larger tensor, see graph/parts.c: it fills its blocks of channels. */
static bool may_be_part(const arg *a)
{
    bool fits =
        a->shape.rank > 1 && (a->shape.dim[0] > 1 || a->format.layout.permuted) && a->count == shape_count(&a->shape);
    for (int b = 0; b < a->format.layout.nblocks; b++)
        fits = fits && a->format.layout.axis[b] == 1;
    return fits;
}

/* Memory where the steps of a proof run, filled from here, and back. */
static void *memory_get(const proof *p, const void *from, int64_t bytes)
{
    brasa_context *ctx = p->program.graph.ctx;
    void *to = p->arena_there ? ctx->device->get(ctx->device, (size_t)bytes)
                              : aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    if (p->arena_there)
        CHECK_STATUS(device_copy_in(ctx, to, from, (size_t)bytes), BRASA_OK);
    else
        memcpy(to, from, (size_t)bytes);
    return to;
}

static void memory_put(const proof *p, void *data)
{
    device *d = p->program.graph.ctx->device;
    if (p->arena_there)
        d->put(d, data);
    else
        free(data);
}

static char *memory_read(const proof *p, const void *from, int64_t bytes)
{
    char *to = malloc((size_t)bytes + 1);
    if (p->arena_there)
        CHECK_STATUS(device_copy_out(p->program.graph.ctx, to, from, (size_t)bytes), BRASA_OK);
    else
        memcpy(to, from, (size_t)bytes);
    return to;
}

/* A tensor in so many pieces, samples, pixels or one, with a gap behind each. */
typedef struct spread {
    arg arg;
    int64_t pieces, bytes, far; /* of a piece; from one to the next */
} spread;

static spread spread_out(const proof *p, const arg *a, bool part, bool elements)
{
    spread s = {.arg = *a, .pieces = 1};
    const int64_t size = (int64_t)dtype_size(a->format.storage);
    if (part)
        s.pieces = a->format.layout.permuted ? a->count / a->shape.dim[1] : a->shape.dim[0];
    s.bytes = a->count / s.pieces * size;
    s.far = (s.bytes + 63) / 64 * 64 + GAP;
    if (part) {
        s.arg.sample = s.pieces / a->shape.dim[0] * s.far / size;
        s.arg.pixel = s.far / size;
    }
    char *room = malloc((size_t)(s.pieces * s.far)), *from = memory_read(p, a->data, elements ? a->count * size : 0);
    memset(room, GAP_BYTE, (size_t)(s.pieces * s.far));
    for (int64_t n = 0; elements && n < s.pieces; n++)
        memcpy(room + n * s.far, from + n * s.bytes, (size_t)s.bytes);
    s.arg.data = memory_get(p, room, s.pieces * s.far);
    free(room);
    free(from);
    return s;
}

/* Whether it has the bits of `want`, and nothing in the gaps. */
static bool is_same(const proof *p, const spread *s, const arg *want)
{
    bool same = true;
    char *got = memory_read(p, s->arg.data, s->pieces * s->far);
    char *wanted = memory_read(p, want->data, s->pieces * s->bytes);
    for (int64_t n = 0; n < s->pieces; n++) {
        const char *piece = got + n * s->far;
        same = same && memcmp(piece, wanted + n * s->bytes, (size_t)s->bytes) == 0;
        for (int64_t i = s->bytes; i < s->far; i++)
            same = same && piece[i] == (char)GAP_BYTE;
    }
    free(got);
    free(wanted);
    return same;
}

/* Step i, which just ran, once more with parts for all tensors that its kernel takes as such: the bits are the same.
 */
static void check_parts(proof *p, int i)
{
    const step before = p->program.steps[i];
    const kernel *k = before.kernel;
    const int nin = before.nin, count = nin + before.nout;
    spread spreads[MOST_ARGS];
    arg args[MOST_ARGS];
    bool any = false;
    if ((!k->parts_in && !k->parts_out) || count > MOST_ARGS)
        return;
    for (int a = 0; a < count; a++) {
        const arg *from = a < nin ? &before.in[a] : &before.out[a - nin];
        const bool taken = (a < nin ? k->parts_in >> a : k->parts_out >> (a - nin)) & 1;
        spreads[a] = spread_out(p, from, taken && may_be_part(from), a < nin);
        args[a] = spreads[a].arg;
        any = any || (taken && may_be_part(from));
    }
    p->program.steps[i].in = args;
    p->program.steps[i].out = args + nin;
    CHECK_STATUS(proof_step(p, i, 255), BRASA_OK);
    p->program.steps[i] = before;
    for (int a = 0; a < count; a++) {
        if (a >= nin && !is_same(p, &spreads[a], &before.out[a - nin]))
            test_fail(__FILE__, __LINE__, "%s, given parts, makes another output %d", k->name, a - nin);
        memory_put(p, spreads[a].arg.data);
    }
    if (any && !took(k) && takers.count < MOST_TAKERS)
        takers.of[takers.count++] = k;
}

/* --- kernels in float against the reference in double --------------------------------------------------------- */

/* Whether a proof came about; what is wrong is told. */
static bool proved(const proof *p, brasa_status status)
{
    const graph *g = &p->program.graph;
    if (status != BRASA_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", brasa_status_text(status),
                  g->status != BRASA_OK ? g->error : g->ctx->error);
    return status == BRASA_OK;
}

/* How a proof is made for a row of device.h. bf16 starts from numbers that it can hold: what an op makes of them is
 * to be proved, not how well it was asked. */
static proof_options options_on(const device_row *r, proof_options o)
{
    o.on = device_context();
    o.precision = r->precision;
    o.coarse = r->precision == BRASA_BF16;
    return o;
}

static double largest(const proof *p, int v)
{
    double most = 0, *numbers = proof_numbers(p, v);
    for (int64_t i = 0, count = proof_count(p, v); i < count; i++)
        most = fabs(numbers[i]) > most ? fabs(numbers[i]) : most;
    free(numbers);
    return most;
}

static void compare_value(const proof *p, const proof *ref, int v, double tolerance, double floor_of_scale)
{
    const value *x = &p->program.graph.values[v];
    const double scale = fmax(largest(ref, v), floor_of_scale);
    double *got = proof_numbers(p, v), *want = proof_numbers(ref, v);
    int64_t i = 0, count = proof_count(p, v);
    if (x->type == I32 || x->type == I64) /* places and labels are exact */
        tolerance = 0;
    while (i < count && fabs(got[i] - want[i]) <= tolerance * scale) /* not so NaN */
        i++;
    if (i < count)
        test_fail(__FILE__, __LINE__,
                  "element %lld of %s (%s, by %s in %s) is %.9g, expected %.9g within %.3g; the largest is %.3g",
                  (long long)i, x->name ? x->name : "a value", shape_print(&x->shape).text,
                  x->producer >= 0 ? p->program.graph.nodes[x->producer].kernel->name : "nobody",
                  device_rows[p->options.precision].name, got[i], want[i], tolerance * scale, scale);
    free(got);
    free(want);
}

/* Both programs ran. What cancels to nothing is judged by the size of what it came from. */
static void compare_proofs(const proof *p, const proof *ref, double tolerance)
{
    double scale = 0;
    for (int v = 0; v < ref->program.graph.nvalues; v++)
        if (proof_readable(ref, v) && ref->program.graph.values[v].state < 0)
            scale = fmax(scale, largest(ref, v));
    for (int v = 0; v < ref->program.graph.nvalues; v++)
        if (proof_readable(p, v) && proof_readable(ref, v))
            compare_value(p, ref, v, tolerance, 1e-4 * scale);
}

/* Elements that no shape knows, at the end of a block: zero, as layout.h promises. */
static bool padding_is_zero(const proof *p, int v)
{
    const value *x = &p->program.graph.values[v];
    const int64_t size = (int64_t)dtype_size(x->format.storage), stored = x->bytes / size;
    const int64_t count = proof_count(p, v);
    if (stored == count || x->type == I32)
        return true; /* places and labels in the padding say nothing */
    const char *data = proof_data(p, v);
    bool *used = calloc((size_t)stored, sizeof *used), zero = true;
    int64_t *places = proof_places(x);
    for (int64_t i = 0; i < count; i++)
        used[places[i]] = true;
    for (int64_t i = 0; i < stored; i++)
        for (int64_t k = 0; !used[i] && k < size; k++)
            zero = zero && data[i * size + k] == 0;
    free(used);
    free(places);
    return zero;
}

/* Every element is written, and nothing unwritten is read: other rubbish in the arena changes no bit. Nor do parts.
 */
static void check_written(proof *p)
{
    const graph *g = &p->program.graph;
    char *before = malloc((size_t)p->program.plan.bytes + 1);
    memcpy(before, p->arena, (size_t)p->program.plan.bytes);
    proof_begin(p, 60); /* small numbers everywhere, where NaN was */
    for (int i = 0; i < p->program.nsteps; i++) {
        CHECK_STATUS(proof_step(p, i, 60), BRASA_OK);
        check_parts(p, i);
    }
    proof_end(p);
    for (int v = 0; v < g->nvalues; v++) {
        const value *x = &g->values[v];
        if (!proof_readable(p, v) || x->state >= 0)
            continue;
        const char *name = g->nodes[x->producer].kernel->name;
        if (memcmp(before + x->offset, p->arena + x->offset, (size_t)x->bytes) != 0)
            test_fail(__FILE__, __LINE__, "%s leaves elements of %s unwritten", name, shape_print(&x->shape).text);
        if (!padding_is_zero(p, v))
            test_fail(__FILE__, __LINE__, "%s leaves something in the padding of %s", name,
                      shape_print(&x->shape).text);
    }
    free(before);
}

/* The best kernels; then every other one, each in a program where the rest is as good as can be. */
static void check_mode(const graph *g, const op_case *c, const device_row *r, proof_options o)
{
    const char *names[PROOF_KERNELS];
    proof ref, p;
    proof_options exact = o;
    exact.real = F64;
    exact.coarse = options_on(r, o).coarse;
    o = options_on(r, o);
    o.real = F32;
    bool good = proved(&ref, proof_make(&ref, g, exact));
    for (int k = -1, count = 0; good && k < count; k++) {
        o.kernels = k < 0 ? NULL : names[k];
        good = proved(&p, proof_make(&p, g, o));
        if (good) {
            compare_proofs(&p, &ref, device_tolerance(r, c->tolerance > 0 ? c->tolerance : 2e-5));
            if (!run_once())
                check_written(&p);
        }
        if (k < 0)
            count = proof_other_kernels(&p, names);
        proof_free(&p);
    }
    proof_free(&ref);
}

static void check_kernels(brasa_context *ctx, const op_def *op, const op_case *c)
{
    OWNED(graph) g = {0};
    graph_init(&g, ctx);
    CHECK_STATUS(case_build(&g, op, c), BRASA_OK);
    for (const device_row *r = device_wanted_rows(); r->name; r++)
        for (int evaluation = 0; evaluation < 2 && g.status == BRASA_OK; evaluation++)
            check_mode(&g, c, r,
                       (proof_options){.evaluation = evaluation,
                                       .gradients = !evaluation && !exempt(op, "gradient"),
                                       .keep_all = true});
}

/* Made by fusion with an optimizer's node, which no case has: test_dense_update.c gives it parts. */
static bool without_case(const kernel *k)
{
    return k->op == &conv2d_update_op;
}

TEST(kernels)
{
    DEVICE_OR_SKIP();
    each_case(2, CASE_PLAN | CASE_FAILS, 0, check_kernels);
    CASE("each that takes parts was given one");
    const brasa_context *on = device_context();
    const isa best = on ? ISA_ANY : isa_available();
    for (int i = 0; op_at(i) && !some_ops(); i++)
        for (const kernel *k = kernel_next(on, op_at(i), F32, NULL); k; k = kernel_next(on, op_at(i), F32, k))
            if ((k->parts_in || k->parts_out) && k->isa == best && !took(k) && !without_case(k))
                test_fail(__FILE__, __LINE__, "%s was not", k->name);
}

/* --- references on operands of every storage ------------------------------------------------------------------ */

/* All real numbers stored so, and references on them; or, where select has them converted, inputs and parameters
 * alone and the best kernels. What may be off, as in device_rows: BF16 has 7 bits of fraction, F16 has 10. It is more
 * than on a device, as vectors are rounded too: a variance, by whose root all is divided. */
static const struct {
    dtype storage;
    bool converts;
    device_row row;
} storages[] = {
    {BF16, false, {"bf16", BRASA_F32, 4, 8e-2}},
    {SPLIT_F32, false, {"split", BRASA_F32, 1, 0}},
    {F16, false, {"f16", BRASA_F32, 4, 2e-2}},
    {BF16, true, {"bf16 converted", BRASA_F32, 1, 0}},
};

static void check_storages(brasa_context *ctx, const op_def *op, const op_case *c)
{
    graph g;
    graph_init(&g, ctx);
    CHECK_STATUS(case_build(&g, op, c), BRASA_OK);
    for (int i = 0; i < 8 && g.status == BRASA_OK; i++) {
        proof p, ref;
        const bool train = i & 1;
        const device_row *r = &storages[i / 2].row;
        proof_options o = {.evaluation = !train, .gradients = train && !exempt(op, "gradient"), .keep_all = true};
        o.kernels = storages[i / 2].converts ? NULL : "_ref";
        o.coarse = true;
        o.storage = storages[i / 2].storage;
        CASE("%s", r->name);
        bool good = proved(&p, proof_make(&p, &g, o));
        o.real = F64;
        o.storage = F32;
        good = proved(&ref, proof_make(&ref, &g, o)) && good;
        if (good)
            compare_proofs(&p, &ref, device_tolerance(r, c->tolerance > 0 ? c->tolerance : 2e-5));
        proof_free(&p);
        proof_free(&ref);
    }
    graph_clear(&g);
}

TEST(storages)
{
    HOST_OR_SKIP();
    each_case(1, CASE_PLAN | CASE_FAILS, 0, check_storages);
    for (int i = 0; op_at(i); i++)
        for (const kernel *k = kernel_next(NULL, op_at(i), F32, NULL), *next; k; k = next) {
            next = kernel_next(NULL, op_at(i), F32, k);
            CASE("%s, the last of its list, is a reference", k->name);
            CHECK(next || k->any_storage);
        }
}

/* --- the passes change no bit --------------------------------------------------------------------------------- */

static void compare_bits(const proof *a, const proof *b)
{
    for (int v = 0; v < a->program.graph.nvalues; v++) {
        const value *x = &a->program.graph.values[v];
        if (proof_readable(a, v) && proof_readable(b, v) && !proof_same(a, b, v))
            test_fail(__FILE__, __LINE__, "%s (%s) differs with fuse %d, in place %d", x->name ? x->name : "a value",
                      shape_print(&x->shape).text, b->options.fuse, b->options.in_place);
    }
}

/* What the passes could do in the layer's nodes, and what they did: a test that tests nothing is to be noticed. */
typedef struct effects {
    bool may_write_over, wrote_over, may_fuse, fused;
} effects;

/* Where both are stored in as many bits: on a device that need not be so. */
static bool could_write_over(const graph *g, const node *n)
{
    for (int k = 0; k < n->nin; k++)
        if (n->op->in_place >> k & 1 && g->values[n->in[k]].format.storage == g->values[n->out[0]].format.storage)
            return true;
    return false;
}

static void note_effects(const proof *p, const op_def *op, effects *e)
{
    for (int i = 0; i < p->program.graph.nnodes; i++) {
        const node *n = &p->program.graph.nodes[i];
        if (strcmp(n->name, op->name) == 0 && n->role == ROLE_FORWARD) { /* lower may have put another op there */
            e->may_write_over = e->may_write_over || could_write_over(&p->program.graph, n);
            e->may_fuse = e->may_fuse || n->op->takes_activation;
            e->wrote_over = e->wrote_over || p->program.plan.in_place[i];
            e->fused = e->fused || n->act != ACT_NONE;
        }
    }
}

/* Reference kernels keep every bit; a library may take another kernel for the fused node, so there only closely. */
static void check_passes(const graph *g, const op_def *op, bool evaluation, const char *kernels, const device_row *r,
                         effects *e)
{
    proof plain, p;
    proof_options o = options_on(r, (proof_options){.evaluation = evaluation,
                                                    .gradients = !evaluation && !exempt(op, "gradient"),
                                                    .kernels = kernels});
    bool good = proved(&plain, proof_make(&plain, g, o));
    for (int way = 1; way < 4 && good; way++) {
        o.fuse = way & 1;
        o.in_place = way & 2;
        good = proved(&p, proof_make(&p, g, o));
        if (good) {
            if (kernels)
                compare_bits(&plain, &p);
            else
                compare_proofs(&p, &plain, device_tolerance(r, 2e-5));
            note_effects(&p, op, e);
        }
        proof_free(&p);
    }
    proof_free(&plain);
}

static void check_modes(const graph *g, const op_def *op, const device_row *r, effects *e)
{
    for (int evaluation = 0; evaluation < 2; evaluation++) {
        if (!device_wanted())
            check_passes(g, op, evaluation, "_ref", r, e);
        check_passes(g, op, evaluation, NULL, r, e);
    }
}

static void check_all_passes(brasa_context *ctx, const op_def *op, const op_case *c)
{
    const op_def *const acts[] = {NULL, &relu_op, &relu6_op};
    effects e = {0};
    bool activated = false;
    for (int a = 0; a < 3; a++) {
        OWNED(graph) g = {0};
        graph_init(&g, ctx);
        brasa_status status = build_wrapped(&g, op, c, acts[a]);
        CHECK_STATUS(status, BRASA_OK);
        /* Where what is multiplied is rounded, two ways to a number may end on either side of an activation's kink.
         */
        for (const device_row *r = device_wanted_rows(); r->name && status == BRASA_OK; r++)
            if (r->precision == BRASA_F32 || !acts[a]) {
                check_modes(&g, op, r, &e);
                activated = activated || acts[a];
            }
    }
    CHECK(e.fused == e.may_fuse || !activated);
    CHECK(e.wrote_over || !e.may_write_over);
}

TEST(passes_keep_bits)
{
    DEVICE_OR_SKIP();
    each_case(1, CASE_PLAN | CASE_FAILS, 0, check_all_passes);
}

/* --- enough cases --------------------------------------------------------------------------------------------- */

static const void *setting(const op_def *op, const void *attr, const char *name)
{
    for (const field *f = op->fields; f && f->name; f++)
        if (strcmp(f->name, name) == 0)
            return (const char *)attr + f->offset;
    return NULL;
}

/* The window of an op that slides one over the picture, or NULL. */
static const pair *window_size(const op_def *op, const void *attr)
{
    const pair *size = setting(op, attr, "kernel");
    return !setting(op, attr, "stride") ? NULL : size ? size : setting(op, attr, "size");
}

/* What the cases of an op, taken together, reach. */
typedef struct reach {
    bool batch_1, channels[4], refused, beyond_2_31, kernel_over_input, stride_over_kernel;
} reach;

static const int64_t wanted_channels[4] = {1, 3, 17, 513};

/* Sliding windows have two more corners. */
static void note_window(const op_def *op, const op_case *c, const shape *in, reach *r)
{
    double memory[64] = {0}; /* attribute structs are smaller */
    OWNED(brasa_context) *ctx = context_of(1);
    const pair *size = window_size(op, memory), *stride = setting(op, memory, "stride");
    if (size && stride && op->attr_size <= sizeof memory && in->rank == 4) {
        fields_set_defaults(op->fields, memory);
        CHECK_STATUS(fields_parse(ctx, op->name, op->fields, memory, c->layer), BRASA_OK);
        r->kernel_over_input = r->kernel_over_input || (size->h > in->dim[2] && size->w > in->dim[3]);
        r->stride_over_kernel = r->stride_over_kernel || (stride->h > size->h && stride->w > size->w);
    }
}

static void note_case(const op_def *op, const op_case *c, reach *r)
{
    shape s;
    int labels;
    const char *text = c->in;
    if (c->flags & CASE_FAILS) {
        r->refused = true;
        return;
    }
    r->beyond_2_31 = r->beyond_2_31 || c->flags & CASE_PLAN; /* `sizes` checks that it is */
    if (c->flags & CASE_PLAN || !case_next_shape(&text, &s, &labels) || s.rank < 2)
        return;
    r->batch_1 = r->batch_1 || s.dim[0] == 1;
    note_window(op, c, &s, r);
    do
        for (int i = 0; i < 4; i++)
            r->channels[i] = r->channels[i] || (s.rank > 1 && s.dim[1] == wanted_channels[i]);
    while (case_next_shape(&text, &s, &labels));
}

TEST(cases_reach_the_corners)
{
    HOST_OR_SKIP();
    for (int i = 0; op_at(i); i++) {
        const op_def *op = op_at(i);
        if (!op->help)
            continue;
        reach r = {0};
        CASE("%s", op->name);
        for (const op_case *c = op->cases; c && c->in; c++)
            note_case(op, c, &r);
        CHECK(r.refused);
        if (exempt(op, "shapes"))
            continue;
        CHECK(r.batch_1);
        for (int k = 0; k < 4; k++)
            if (!r.channels[k])
                test_fail(__FILE__, __LINE__, "no case with %d channels", (int)wanted_channels[k]);
        CHECK(r.beyond_2_31);
        const double memory[64] = {0}; /* attribute structs are smaller */
        if (window_size(op, memory)) {
            CHECK(r.kernel_over_input);
            CHECK(r.stride_over_kernel);
        }
    }
}
