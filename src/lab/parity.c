/* parity.c - see parity.h.
 *
 * How close is the same? What a layer gives: mean and rms within 1e-4 of the rms, some hundred times what the order
 * of a sum makes. Losses: 1e-3, or ten times what the last bits of the weights make of them, up to 1e-2. Of a later
 * step's loss that rounding may move further nothing is known but that no more moved it: it is not compared, which is
 * said. (9 % of ResNet-50's third loss at batch 2 are rounding: no two frameworks agree better.) Parameters hardly
 * change in a step, so that their changes are compared, by what they do to mean and rms. That is a small difference
 * of sums, and before batch norm hardly more than rounding: single tensors tell nothing, so that the median of all is
 * what counts. Brasa and PyTorch differ by 2 % there with ResNet-50 at batch 2, by 0.001 % with AlexNet; another
 * learning rate shows in all of them. Where the last bits of the weights make much of the first update, ten times
 * that is allowed, up to 30 %. Later updates add differences of their gradients, the more the noisier the first was:
 * 20 % with ResNet-50 after the third.
 */
#include "lab/parity.h"

#include "lab/line.h"
#include "lab/netjson.h"
#include "lab/results.h"
#include "train/safetensors.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double SUM_LIMIT = 1e-5, NOISE = 10, CEILING = 1e-2, UPDATE_CEILING = 0.3, LATER = 50;

/* Of weights, and of biases with all that batch norm learns: frameworks treat them differently. */
enum { WEIGHTS, VECTORS, GROUPS };

/* PyTorch's and JAX' bf16 differ from PyTorch's f32, with four networks at batch 2, by 1.5 % of a layer's rms, 3 % of
 * the first loss and 12 % of the vectors' changes, at most; changes of weights before batch norm are all rounding,
 * and tell nothing. Two that round differ by more. tf32 keeps eight times as much of a factor. */
typedef struct limits {
    const char *precision;
    double output, loss, update[GROUPS];
} limits;
static const limits known_limits[] = {
    {"f32", 1e-4, 1e-3, {0.05, 0.05}}, {"tf32", 5e-3, 1e-2, {0.4, 0.1}}, {"bf16", 3e-2, 5e-2, {INFINITY, 0.3}}};
enum { PRECISIONS = sizeof known_limits / sizeof known_limits[0] };

const char *parity_word(parity_status status)
{
    static const char *const words[] = {"same", "different", "refused", "failed"};
    return words[status];
}

const char *parity_notes(const char *detail)
{
    return detail ? strchr(detail, ';') : NULL;
}

/* --- accounts ------------------------------------------------------------------------------------------------ */

typedef struct account {
    lab_line *lines;
    int count, capacity;
} account;

/* A parameter before the first step. */
typedef struct start {
    const char *name;
    double mean, rms, count;
    int group;
} start;

typedef struct comparison {
    pool pool;
    netjson network;
    safetensors *weights;
    account ours, theirs;
    start *starts; /* of those that were asked for */
    int nstarts, capacity;
    const limits *limits;
    double noise;          /* the median difference of the first update */
    double rounding;       /* the largest share of a loss that rounding alone makes */
    double shaken[GROUPS]; /* the median share of a first update that it makes */
    double beyond; /* what was allowed of a group's first update, where more than the usual was needed; 0: nowhere */
    int losses;    /* that agree */
    int64_t unknown; /* the first step whose loss was not compared, from 1; 0: none */
    parity *out;
} comparison;

static brasa_status read_account(pool *p, const parity_account *from, account *out)
{
    const char *end = from->text + from->length;
    int line = 0;
    for (const char *at = from->text, *stop; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        line++;
        if (stop == at)
            continue;
        lab_line *grown = pool_grow(p, out->lines, out->count, &out->capacity, sizeof *grown);
        if (!grown)
            return fail_memory(p->ctx, sizeof *grown);
        out->lines = grown;
        brasa_status status = lab_line_read(p, at, (size_t)(stop - at), &out->lines[out->count++]);
        if (status != BRASA_OK) {
            fail_prefix(p->ctx, "line %d", line);
            return status;
        }
    }
    return BRASA_OK;
}

static bool same_text(const char *a, const char *b)
{
    return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

/* The line of the same event, step, node and name; NULL: there is none. They stand in nearly the same order. */
static const lab_line *find_line(const account *a, int near, const lab_line *l)
{
    for (int i = 0; i < a->count; i++) {
        const lab_line *x = &a->lines[(near + i) % a->count];
        if (x->event == l->event && x->step == l->step && same_text(x->node, l->node) && same_text(x->name, l->name))
            return x;
    }
    return NULL;
}

static bool say(comparison *c, parity_status status, const char *format, ...) BRASA_PRINTF(3, 4);
static bool say(comparison *c, parity_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    c->out->status = status;
    vsnprintf(c->out->detail, sizeof c->out->detail, format, args);
    va_end(args);
    return false;
}

/* Of one kind of line: ours and theirs; false: the peer's is missing, and that was told. */
static bool both(comparison *c, int i, const lab_line **theirs, const char *what)
{
    *theirs = find_line(&c->theirs, i, &c->ours.lines[i]);
    return *theirs || say(c, PARITY_FAILED, "it did not tell %s", what);
}

/* --- what was built, what was fed ---------------------------------------------------------------------------- */

static bool compare_built(comparison *c, int i)
{
    const lab_line *a = &c->ours.lines[i], *b;
    if (!both(c, i, &b, "what it built"))
        return false;
    if (a->parameters != b->parameters)
        return say(c, PARITY_DIFFERENT, "another network: it has %lld parameters, not %lld", (long long)b->parameters,
                   (long long)a->parameters);
    if (a->layers != b->layers)
        return say(c, PARITY_DIFFERENT, "another network: it has %lld layers with weights, not %lld",
                   (long long)b->layers, (long long)a->layers);
    return true;
}

static const char *print_labels(pool *p, const lab_line *l)
{
    const char *text = "";
    for (int i = 0; i < l->nlabels && i < 8 && text; i++)
        text = pool_text(p, "%s%s%d", text, i ? ", " : "", (int)l->labels[i]);
    return !text ? "..." : l->nlabels > 8 ? pool_text(p, "%s, ...", text) : text;
}

static bool compare_batch(comparison *c, int i)
{
    const lab_line *a = &c->ours.lines[i], *b;
    const long long place = (long long)a->step + 1;
    if (!both(c, i, &b, "what it was fed"))
        return false;
    if (a->nlabels != b->nlabels || memcmp(a->labels, b->labels, (size_t)a->nlabels * sizeof *a->labels) != 0)
        return say(c, PARITY_DIFFERENT, "another batch order: batch %lld has the labels %s where %s were given",
                   place, print_labels(&c->pool, b), print_labels(&c->pool, a));
    if (!(fabs(a->sum - b->sum) <= SUM_LIMIT * fabs(a->sum)))
        return say(c, PARITY_DIFFERENT,
                   "another batch order, or other numbers: the elements of batch %lld add up to %.7g, given was %.7g",
                   place, b->sum, a->sum);
    return true;
}

/* --- what layers give, and losses ---------------------------------------------------------------------------- */

static void note(comparison *c, double difference)
{
    if (!(difference <= c->out->worst))
        c->out->worst = difference;
}

static bool compare_output(comparison *c, int i)
{
    const lab_line *a = &c->ours.lines[i], *b;
    char what[200];
    snprintf(what, sizeof what, "what the layer '%.150s' gives", a->node ? a->node : "");
    if (!both(c, i, &b, what))
        return false;
    const netjson_node *n = netjson_find(&c->network, a->node);
    const char *op = n ? n->op : "?", *settings = n ? n->settings : "";
    if (b->shape.rank && a->shape.rank && !shape_equal(&a->shape, &b->shape))
        return say(c, PARITY_DIFFERENT, "the layer '%s' (%s%s%s) gives %s, not %s", a->node, op, *settings ? " " : "",
                   settings, shape_print(&b->shape).text, shape_print(&a->shape).text);
    const double scale = a->rms > 0 ? a->rms : 1;
    const double difference = fmax(fabs(a->rms - b->rms), fabs(a->mean - b->mean)) / scale;
    const bool known = !isnan(a->rms) && !isnan(b->rms) && !isnan(a->mean) && !isnan(b->mean);
    if (known)
        note(c, difference);
    if (!known || difference > c->limits->output)
        return say(c, PARITY_DIFFERENT,
                   "the first layer that differs is '%s' (%s%s%s): mean %.6g and rms %.6g, not %.6g and %.6g",
                   a->node, op, *settings ? " " : "", settings, b->mean, b->rms, a->mean, a->rms);
    return true;
}

/* How far the losses up to this step move where the weights differ in their last bits, as a share. */
static double rounding_of(const comparison *c, int64_t step)
{
    double most = 0;
    for (int i = 0; i < c->ours.count; i++) {
        const lab_line *n = &c->ours.lines[i];
        for (int k = 0; k < c->ours.count && n->event == LINE_NOISE && n->step <= step; k++) {
            const lab_line *l = &c->ours.lines[k];
            if (l->event == LINE_LOSS && l->step == n->step)
                most = fmax(most, fabs(n->loss - l->loss) / fmax(fabs(l->loss), 1e-6));
        }
    }
    return most;
}

/* What losses may differ by, where they are compared. */
static double loss_limit(const comparison *c)
{
    return fmax(c->limits->loss, fmin(NOISE * c->rounding, CEILING));
}

static bool compare_loss(comparison *c, int i)
{
    const lab_line *a = &c->ours.lines[i], *b;
    char what[64];
    snprintf(what, sizeof what, "the loss of step %lld", (long long)a->step + 1);
    if (!both(c, i, &b, what))
        return false;
    const double scale = fmax(fabs(a->loss), 1e-6), difference = fabs(a->loss - b->loss) / scale;
    c->rounding = rounding_of(c, a->step);
    if (a->step && difference > loss_limit(c) && difference <= NOISE * c->rounding) {
        c->unknown = c->unknown ? c->unknown : a->step + 1;
        return true;
    }
    if (!isnan(difference))
        note(c, difference);
    c->losses++;
    if (!(difference <= loss_limit(c)))
        return say(c, PARITY_DIFFERENT, "%s is %.6g, not %.6g%s", what, b->loss, a->loss,
                   a->step ? ", though all agreed up to the update before"
                           : ", though all layers agree: another loss");
    return true;
}

/* --- parameters ---------------------------------------------------------------------------------------------- */

static brasa_status read_start(comparison *c, const char *name, start *out)
{
    const tensor_entry *t = safetensors_find(c->weights, name);
    if (!t || !t->type->decode || t->type->whole || shape_count(&t->shape) < 1)
        return fail(c->pool.ctx, BRASA_BAD_FILE, "%s: there is no '%s' in it", c->weights->path, name);
    float piece[PIECE];
    const int64_t all = shape_count(&t->shape);
    double sum = 0, squares = 0;
    for (int64_t first = 0; first < all; first += PIECE) {
        const int some = all - first < PIECE ? (int)(all - first) : PIECE;
        brasa_status status = safetensors_read_floats(c->weights, t, first, some, piece);
        if (status != BRASA_OK)
            return status;
        for (int i = 0; i < some; i++) {
            sum += (double)piece[i];
            squares += (double)piece[i] * (double)piece[i];
        }
    }
    *out = (start){.name = name,
                   .count = (double)all,
                   .mean = sum / (double)all,
                   .rms = sqrt(squares / (double)all),
                   .group = t->shape.rank > 1 ? WEIGHTS : VECTORS};
    return BRASA_OK;
}

/* Read once, as they may be hundreds of megabytes. */
static brasa_status find_start(comparison *c, const char *name, start *out)
{
    for (int i = 0; i < c->nstarts; i++)
        if (strcmp(c->starts[i].name, name) == 0) {
            *out = c->starts[i];
            return BRASA_OK;
        }
    start *grown = pool_grow(&c->pool, c->starts, c->nstarts, &c->capacity, sizeof *grown);
    if (!grown)
        return fail_memory(c->pool.ctx, sizeof *grown);
    c->starts = grown;
    brasa_status status = read_start(c, name, out);
    if (status == BRASA_OK)
        grown[c->nstarts++] = *out;
    return status;
}

static const double NO_NUMBER = 1e9; /* off by more than anything, and yet in a median */

/* How far a tensor's change is off, as a share of the change; what may be rounding is left out. */
static double off_by(const lab_line *a, const lab_line *b, const start *s)
{
    const double change = fmax(fabs(a->mean - s->mean), fabs(a->rms - s->rms));
    const double noise = 3e-7 * s->rms / sqrt(s->count) + 1e-12;
    const double difference = fmax(fabs(a->mean - b->mean), fabs(a->rms - b->rms));
    if (!isfinite(difference))
        return NO_NUMBER;
    return difference <= noise ? 0 : (difference - noise) / (change + noise);
}

typedef struct changes {
    double *off[GROUPS];
    int count[GROUPS], capacity[GROUPS];
    const lab_line *first[GROUPS], *theirs[GROUPS]; /* the first that is off by more than the limit */
} changes;

/* How far the median of a group's changes may be off after this step. */
static double limit_of(const comparison *c, int64_t step, int group)
{
    const double first = fmax(c->limits->update[group], fmin(NOISE * c->shaken[group], UPDATE_CEILING));
    return !step ? first : c->rounding > c->limits->loss ? INFINITY : fmax(first, LATER * c->noise);
}

static brasa_status add_change(comparison *c, changes *x, const lab_line *a, const lab_line *b)
{
    start s;
    brasa_status status = find_start(c, a->name, &s);
    if (status != BRASA_OK)
        return status;
    const int group = s.group;
    double *grown = pool_grow(&c->pool, x->off[group], x->count[group], &x->capacity[group], sizeof *grown);
    if (!grown)
        return fail_memory(c->pool.ctx, sizeof *grown);
    x->off[group] = grown;
    const double off = grown[x->count[group]++] = off_by(a, b, &s);
    if (off > limit_of(c, a->step, group) && !x->first[group]) {
        x->first[group] = a;
        x->theirs[group] = b;
    }
    return BRASA_OK;
}

static double median_of(const changes *x, int group)
{
    return x->count[group] ? spread_of(x->off[group], x->count[group]).median : 0;
}

/* What rounding alone makes of the first update, which Brasa's account tells of: see c->shaken. */
static brasa_status find_shaken(comparison *c)
{
    changes x = {0};
    for (int i = 0; i < c->ours.count; i++) {
        const lab_line *shaken = &c->ours.lines[i];
        lab_line plain = *shaken;
        plain.event = LINE_PARAM;
        const lab_line *a = shaken->event == LINE_NOISE_PARAM && shaken->name ? find_line(&c->ours, i, &plain) : NULL;
        brasa_status status = a ? add_change(c, &x, a, shaken) : BRASA_OK;
        if (status != BRASA_OK)
            return status;
    }
    for (int g = 0; g < GROUPS; g++)
        c->shaken[g] = median_of(&x, g);
    return BRASA_OK;
}

static bool judge_changes(comparison *c, changes *x, int64_t step)
{
    double limit[GROUPS];
    for (int g = 0; g < GROUPS; g++)
        limit[g] = limit_of(c, step, g);
    for (int g = 0; g < GROUPS; g++) {
        const double off = median_of(x, g);
        const lab_line *a = x->first[g], *b = x->theirs[g];
        c->noise = fmax(c->noise, off);
        if (off > limit[g] && a)
            return say(
                c, PARITY_DIFFERENT,
                "the optimizer's equation or its settings: all agrees up to the update of step %lld, then '%s' "
                "has mean %.9g and rms %.9g, not %.9g and %.9g (half of the %s change by %.2g %% too much or "
                "too little, or more)",
                (long long)a->step + 1, a->name, b->mean, b->rms, a->mean, a->rms,
                g == WEIGHTS ? "weights" : "biases", 100 * off);
        if (!step && off > c->limits->update[g])
            c->beyond = fmax(c->beyond, limit[g]);
    }
    return true;
}

/* All parameters after the update that line i begins to tell of. *next: the line behind them. */
static brasa_status compare_params(comparison *c, int i, int *next, bool *go_on)
{
    changes x = {0};
    const int64_t step = c->ours.lines[i].step;
    for (*next = i; *next < c->ours.count; ++*next) {
        const lab_line *a = &c->ours.lines[*next], *b;
        if (a->event != LINE_PARAM || a->step != step)
            break;
        if (!a->name || !(b = find_line(&c->theirs, *next, a))) {
            *go_on = say(c, PARITY_FAILED, "it did not tell of the parameter '%s' after step %lld",
                         a->name ? a->name : "", (long long)step + 1);
            return BRASA_OK;
        }
        brasa_status status = add_change(c, &x, a, b);
        if (status != BRASA_OK)
            return status;
    }
    *go_on = judge_changes(c, &x, step);
    return BRASA_OK;
}

/* --- all of it ----------------------------------------------------------------------------------------------- */

/* What agrees; behind a semicolon each, what was allowed beyond the usual, and what was not compared. */
static void say_same(comparison *c)
{
    char allowed[100] = "", loss[100] = "", weights[100] = "", update[100] = "";
    const bool later = c->rounding <= c->limits->loss;
    if (c->out->worst > c->limits->loss)
        snprintf(allowed, sizeof allowed, "; up to %.1e is allowed, as rounding alone makes %.1e of a loss",
                 loss_limit(c), c->rounding);
    if (c->unknown)
        snprintf(loss, sizeof loss, "; the loss of step %lld is not compared: rounding alone makes %.1e of it",
                 (long long)c->unknown, c->rounding);
    if (c->beyond > 0)
        snprintf(update, sizeof update,
                 "; half of the first update may differ by %.2g %%, as rounding alone makes %.2g %%", 100 * c->beyond,
                 100 * fmax(c->shaken[WEIGHTS], c->shaken[VECTORS]));
    if (!isfinite(c->limits->update[WEIGHTS]))
        snprintf(weights, sizeof weights, "; updates of weights are not compared in %s", c->limits->precision);
    say(c, PARITY_SAME, "layers, loss%s of %d step%s and %s agree within %.1e%s%s%s%s%s", c->losses == 1 ? "" : "es",
        c->losses, c->losses == 1 ? "" : "s", later ? "updates" : "the first update", c->out->worst, allowed, loss,
        update, later ? "" : "; later updates are not compared, being all rounding", weights);
}

static brasa_status compare_lines(comparison *c)
{
    bool go_on = true;
    brasa_status status = find_shaken(c);
    for (int i = 0, next; i < c->ours.count && go_on && status == BRASA_OK; i = next) {
        const line_event event = c->ours.lines[i].event;
        next = i + 1;
        if (event == LINE_BUILT)
            go_on = compare_built(c, i);
        else if (event == LINE_BATCH)
            go_on = compare_batch(c, i);
        else if (event == LINE_OUTPUT)
            go_on = compare_output(c, i);
        else if (event == LINE_LOSS)
            go_on = compare_loss(c, i);
        else if (event == LINE_PARAM)
            status = compare_params(c, i, &next, &go_on);
    }
    if (status == BRASA_OK && go_on && c->losses == 0)
        return fail(c->pool.ctx, BRASA_BAD_FILE, "Brasa's own account holds nothing to compare");
    if (status == BRASA_OK && go_on)
        say_same(c);
    return status;
}

/* Whether the account came to its end. */
static bool is_complete(comparison *c)
{
    for (int i = 0; i < c->theirs.count; i++) {
        const lab_line *l = &c->theirs.lines[i];
        if (l->event == LINE_REFUSED || l->event == LINE_FAILED)
            return say(c, l->event == LINE_REFUSED ? PARITY_REFUSED : PARITY_FAILED, "%s", l->why ? l->why : "");
    }
    return c->theirs.count > 0 || say(c, PARITY_FAILED, "it told nothing");
}

/* A precision that is not known is held to what the finest one can do. */
static const limits *limits_of(const char *precision)
{
    for (int i = 0; i < PRECISIONS; i++)
        if (strcmp(known_limits[i].precision, precision) == 0)
            return &known_limits[i];
    return &known_limits[0];
}

brasa_status parity_compare(brasa_context *ctx, const parity_terms *terms, const parity_account *brasa,
                            const parity_account *peer, parity *out)
{
    comparison c = {.pool = {.ctx = ctx}, .out = out, .limits = limits_of(terms->precision)};
    *out = (parity){.worst = NAN};
    brasa_status status = netjson_read(ctx, terms->graph, &c.network);
    if (status == BRASA_OK)
        status = safetensors_open(ctx, terms->weights, &c.weights);
    if (status == BRASA_OK)
        status = read_account(&c.pool, brasa, &c.ours);
    if (status == BRASA_OK && read_account(&c.pool, peer, &c.theirs) != BRASA_OK)
        say(&c, PARITY_FAILED, "%s", brasa_context_error(ctx));
    else if (status == BRASA_OK && is_complete(&c))
        status = compare_lines(&c);
    netjson_free(&c.network);
    safetensors_close(c.weights);
    pool_free(&c.pool);
    return status;
}
