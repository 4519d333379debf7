/* tune.c - which kernels a node can choose from, and what is known about them: see tune.h. */
#include "graph/tune.h"

#include "core/cpu_name.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A node of fewer operations is over before it matters, and its time is mostly noise. */
static const double least_flops = 1e5;
/* Of kernels that are as fast the first one is taken, so that noise does not decide: within 3 %, or where times
 * cannot be believed, up to twice as long. */
static const double margin = 1.03, wide_margin = 2;

/* --- keys ------------------------------------------------------------------------------------------------------ */

typedef struct text {
    char *at;
    size_t length, size;
    bool cut;
} text;

static bool add_to_key(void *user, const char *piece, size_t length)
{
    text *x = user;
    if (x->cut || length >= x->size - x->length) {
        x->cut = true;
        return false;
    }
    for (size_t i = 0; i < length; i++) /* a key is a part of a line */
        x->at[x->length++] = piece[i] == '\n' || piece[i] == '\t' ? ' ' : piece[i];
    x->at[x->length] = '\0';
    return true;
}

static void print(text *x, const char *pattern, ...) BRASA_PRINTF(2, 3);
static void print(text *x, const char *pattern, ...)
{
    char piece[256];
    va_list args;
    va_start(args, pattern);
    const int length = vsnprintf(piece, sizeof piece, pattern, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof piece)
        x->cut = true;
    else
        add_to_key(x, piece, (size_t)length);
}

/* A node and where its tensors lie. */
typedef struct place {
    const graph *g;
    const node *n;
    const format *usual, *first; /* of inputs and outputs: those that cost nothing, and those of the first kernel */
} place;

/* Everything that the time of a node depends on, in words: "conv2d f32 32x64x56x56 64x64x3x3 64 > 32x64x56x56 relu
 * ...". Inputs that lie otherwise than the first kernel wants them have their layout behind the shape, so that
 * programs share a choice wherever they can. `starts`: with the settings of initial weights, as the keys of older
 * records have them. False where there are too many words. */
static bool describe(const place *p, bool starts, char key[CHOICE_KEY_SIZE])
{
    const graph *g = p->g;
    const node *n = p->n;
    static const char *const acts[] = {[ACT_NONE] = "", [ACT_RELU] = " relu", [ACT_RELU6] = " relu6"};
    text x = {.at = key, .size = CHOICE_KEY_SIZE};
    print(&x, "%s %s", n->op->name, dtype_name(g->real));
    for (int k = 0; k < n->nin; k++) {
        const value *v = &g->values[n->in[k]];
        print(&x, " %s", shape_print(&v->shape).text);
        if (!format_equal(&p->usual[k], &p->first[k]))
            print(&x, ":%s", layout_print(&p->usual[k].layout, v->shape.rank, "abcdef").text);
    }
    for (int k = 0; k < n->nout; k++)
        print(&x, "%s%s", k ? " " : " > ", shape_print(&g->values[n->out[k]].shape).text);
    print(&x, "%s", acts[n->act]);
    if (n->op->fields && n->attr) {
        json j = {.write = add_to_key, .user = &x, .depth = 1}; /* a line does not end here */
        add_to_key(&x, " ", 1);
        for (const field *f = n->op->fields; f->name; f++)
            if (starts || !f->starts)
                field_to_json(&j, f, n->attr);
    }
    return !x.cut;
}

/* Raised when times that were taken before say nothing any more: those of small nodes were of all threads at first,
 * then keys told initial weights apart. Lines of before are nobody's, and give way as the oldest. */
enum { TIMES = 3 };

const char *tuner_machine(pool *p)
{
    const char *onednn = library_onednn();
    return pool_text(p, "%s, %s, brasa %s, times %d, oneDNN %s, %d thread%s", cpu_name().text, isa_name(p->ctx->isa),
                     brasa_version(), TIMES, onednn ? onednn : "none", p->ctx->threads,
                     p->ctx->threads == 1 ? "" : "s");
}

/* --- what is known --------------------------------------------------------------------------------------------- */

static bool same_kernels(const choice *a, const choice *b)
{
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++)
        same = strcmp(a->tried[i].kernel, b->tried[i].kernel) == 0;
    return same;
}

/* A run's own choice, whatever machine it was made on. */
static choice *find_recorded(const tuner *t, const char *key)
{
    for (int i = 0; i < t->count && t->recorded; i++)
        if (t->choices[i]->recorded && strcmp(t->choices[i]->problem, key) == 0)
            return t->choices[i];
    return NULL;
}

/* A run's own choice stands. Another one holds for this machine, and while the same kernels are to choose from. */
static choice *find(const tuner *t, const place *p, const choice *wanted)
{
    char old[CHOICE_KEY_SIZE];
    choice *found = t->recorded && describe(p, true, old) ? find_recorded(t, old) : NULL;
    if (!found)
        found = find_recorded(t, wanted->problem);
    if (found)
        return found;
    found = choices_find(t, t->machine, wanted->problem);
    return found && same_kernels(found, wanted) ? found : NULL;
}

/* --- choosing -------------------------------------------------------------------------------------------------- */

/* Reference kernels, plain C, would take minutes. */
static bool is_candidate(const graph *g, const node *n, const kernel *k)
{
    return k->isa != ISA_ANY && k->isa <= g->ctx->isa && (!k->supports || k->supports(g, n));
}

/* The node's kernel, those after it that support the node, and those before it that were not taken unseen. */
static void list_candidates(const graph *g, const node *n, choice *c)
{
    const kernel *k;
    for (k = n->kernel; k && c->count < MOST_TRIED; k = kernel_next(g->ctx, n->op, g->real, k))
        if (k == n->kernel || is_candidate(g, n, k))
            c->tried[c->count++] = (tried){.kernel = k->name};
    for (k = NULL; (k = kernel_next(g->ctx, n->op, g->real, k)) != n->kernel && c->count < MOST_TRIED;)
        if (k->pays && !k->pays(g, n) && is_candidate(g, n, k))
            c->tried[c->count++] = (tried){.kernel = k->name};
}

static double flops_of(const graph *g, const node *n)
{
    return n->op->cost ? n->op->cost(g, n).flops : (double)shape_count(&g->values[n->out[0]].shape);
}

static int best_of(const choice *c)
{
    const double limit = c->unsettled ? wide_margin : margin;
    int64_t least = 0;
    for (int i = 0; i < c->count; i++)
        if (c->tried[i].nanoseconds && (!least || c->tried[i].nanoseconds < least))
            least = c->tried[i].nanoseconds;
    for (int i = 0; i < c->count; i++)
        if (c->tried[i].nanoseconds && (double)c->tried[i].nanoseconds <= (double)least * limit)
            return i;
    return 0;
}

/* Measures, and puts the result into the list; *out NULL: it could not be measured here. */
static brasa_status time_node(tuner *t, graph *g, int i, const format *usual, choice *c, choice **out)
{
    *out = NULL;
    brasa_status status = tuner_begin(t);
    if (status == BRASA_OK)
        status = tuner_measure(t, g, i, usual, c);
    if (status == BRASA_NO_KERNEL) {
        t->open++;
        return BRASA_OK;
    }
    if (status != BRASA_OK)
        return status;
    c->best = best_of(c);
    return tuner_put(t, c, out);
}

/* The layouts that cost nothing: those that tensors have, or will have by the first kernel of the list. */
static void find_usual(const graph *g, const node *n, const format *first, format *usual)
{
    for (int k = 0; k < n->nin + n->nout; k++) {
        const value *v = &g->values[k < n->nin ? n->in[k] : n->out[k - n->nin]];
        usual[k] = v->settled || v->kind == VALUE_INPUT ? v->format : first[k];
    }
}

/* The kernel that was chosen, or the fastest that is left: this build may not have all those of a record. */
static const kernel *fastest_here(const graph *g, const node *n, const choice *c)
{
    const kernel *best = kernel_find(g->ctx, n->op, g->real, c->tried[c->best].kernel);
    int64_t least = INT64_MAX;
    if (best)
        return best;
    for (int i = 0; i < c->count; i++) {
        const tried *t = &c->tried[i];
        const kernel *k = kernel_find(g->ctx, n->op, g->real, t->kernel);
        if (!k || t->nanoseconds <= 0 || t->nanoseconds >= least)
            continue;
        least = t->nanoseconds;
        best = k;
    }
    return best;
}

brasa_status tuner_choose(tuner *t, graph *g, int i, const kernel **best)
{
    node *n = &g->nodes[i];
    char key[CHOICE_KEY_SIZE];
    tried list[MOST_TRIED];
    choice wanted = {.machine = t->machine, .problem = key, .tried = list};
    *best = NULL;
    if (!t->asks || n->kernel->isa == ISA_ANY)
        return BRASA_OK;
    list_candidates(g, n, &wanted);
    if (wanted.count < 2 || flops_of(g, n) < least_flops)
        return BRASA_OK;
    const size_t count = (size_t)(n->nin + n->nout);
    format *first = pool_get(&g->pool, 2 * count, sizeof *first), *usual = first + count;
    if (!first)
        return fail_memory(g->ctx, 2 * count * sizeof *first);
    select_formats(g, n, first, first + n->nin);
    find_usual(g, n, first, usual);
    const place p = {g, n, usual, first};
    if (!describe(&p, false, key))
        return BRASA_OK;
    choice *c = find(t, &p, &wanted);
    if (!c && t->measure) {
        brasa_status status = time_node(t, g, i, usual, &wanted, &c);
        if (status != BRASA_OK)
            return status;
    } else if (!c) {
        t->open++;
    }
    if (!c)
        return BRASA_OK;
    c->used = true;
    n->choice = c;
    *best = fastest_here(g, n, c);
    if (!*best)
        n->choice = NULL;
    return BRASA_OK;
}
