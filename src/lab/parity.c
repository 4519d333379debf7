/* parity.c - see parity.h.
 *
 * How close is the same? What a layer gives: mean and rms within 1e-4 of the rms, some hundred times what the order
 * of a sum makes. Losses: 1e-3, or ten times what the last bits of the weights make of them, up to 1e-2. Of a later
 * step's loss that rounding may move further nothing is known but that no more moved it: it is not compared, which is
 * said. (9 % of ResNet-50's third loss at batch 2 are rounding: no two frameworks agree better.) Parameters hardly
 * change in a step, so that their changes are compared, by what they do to mean and rms. That is a small difference
 * of sums, and before batch norm hardly more than rounding: single tensors tell nothing, so that the median of all is
 * what counts. Brasa and PyTorch differ by 2 % there with ResNet-50 at batch 2, by 0.001 % with AlexNet; another
 * learning rate shows in all of them. Where the last bits of the weights make much of an update, ten times that is
 * allowed, up to 30 %: it is measured of the first update, and of the last one, to which the differences of all
 * gradients add up. How far the peer was off in the first update tells nothing: it may be its fault.
 */
#include "lab/parity_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double SUM_LIMIT = 1e-5, CEILING = 1e-2;

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

/* They stand in nearly the same order. */
const lab_line *parity_find(const account *a, int near, const lab_line *l)
{
    for (int i = 0; i < a->count; i++) {
        const lab_line *x = &a->lines[(near + i) % a->count];
        if (x->event == l->event && x->step == l->step && same_text(x->node, l->node) && same_text(x->name, l->name))
            return x;
    }
    return NULL;
}

bool parity_say(comparison *c, parity_status status, const char *format, ...)
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
    *theirs = parity_find(&c->theirs, i, &c->ours.lines[i]);
    return *theirs || parity_say(c, PARITY_FAILED, "it did not tell %s", what);
}

/* --- what was built, what was fed ---------------------------------------------------------------------------- */

static bool compare_built(comparison *c, int i)
{
    const lab_line *a = &c->ours.lines[i], *b;
    if (!both(c, i, &b, "what it built"))
        return false;
    if (a->parameters != b->parameters)
        return parity_say(c, PARITY_DIFFERENT, "another network: it has %lld parameters, not %lld",
                          (long long)b->parameters, (long long)a->parameters);
    if (a->layers != b->layers)
        return parity_say(c, PARITY_DIFFERENT, "another network: it has %lld layers with weights, not %lld",
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
        return parity_say(c, PARITY_DIFFERENT,
                          "another batch order: batch %lld has the labels %s where %s were given", place,
                          print_labels(&c->pool, b), print_labels(&c->pool, a));
    if (!(fabs(a->sum - b->sum) <= SUM_LIMIT * fabs(a->sum)))
        return parity_say(
            c, PARITY_DIFFERENT,
            "another batch order, or other numbers: the elements of batch %lld add up to %.7g, given was %.7g", place,
            b->sum, a->sum);
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
        return parity_say(c, PARITY_DIFFERENT, "the layer '%s' (%s%s%s) gives %s, not %s", a->node, op,
                          *settings ? " " : "", settings, shape_print(&b->shape).text, shape_print(&a->shape).text);
    const double scale = a->rms > 0 ? a->rms : 1;
    const double difference = fmax(fabs(a->rms - b->rms), fabs(a->mean - b->mean)) / scale;
    const bool known = !isnan(a->rms) && !isnan(b->rms) && !isnan(a->mean) && !isnan(b->mean);
    if (known)
        note(c, difference);
    if (!known || difference > c->limits->output)
        return parity_say(c, PARITY_DIFFERENT,
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
        return parity_say(c, PARITY_DIFFERENT, "%s is %.6g, not %.6g%s", what, b->loss, a->loss,
                          a->step ? ", though all agreed up to the update before"
                                  : ", though all layers agree: another loss");
    return true;
}

/* --- all of it ----------------------------------------------------------------------------------------------- */

/* What agrees; behind a semicolon each, what was allowed beyond the usual, and what was not compared. */
static void say_same(comparison *c)
{
    static const char *const updates[UPDATES] = {"the first update", "later updates"};
    char allowed[100] = "", loss[100] = "", weights[100] = "", update[UPDATES][120] = {"", ""};
    const bool later = c->rounding <= c->limits->loss;
    if (c->out->worst > c->limits->loss)
        snprintf(allowed, sizeof allowed, "; up to %.1e is allowed, as rounding alone makes %.1e of a loss",
                 loss_limit(c), c->rounding);
    if (c->unknown)
        snprintf(loss, sizeof loss, "; the loss of step %lld is not compared: rounding alone makes %.1e of it",
                 (long long)c->unknown, c->rounding);
    for (int u = 0; u < UPDATES; u++)
        if (c->beyond[u] > 0)
            snprintf(update[u], sizeof update[u],
                     "; half of %s may differ by %.2g %%, as rounding alone makes %.2g %%", updates[u],
                     100 * c->beyond[u], 100 * fmax(c->shaken[u][WEIGHTS], c->shaken[u][VECTORS]));
    if (!isfinite(c->limits->update[WEIGHTS]))
        snprintf(weights, sizeof weights, "; updates of weights are not compared in %s", c->limits->precision);
    parity_say(c, PARITY_SAME,
               "layers and loss%s of %d step%s agree within %.1e, half of %s within %.2g %%%s%s%s%s%s%s",
               c->losses == 1 ? "" : "es", c->losses, c->losses == 1 ? "" : "s", c->out->worst,
               later ? "the updates" : updates[FIRST], 100 * c->update, allowed, loss, update[FIRST], update[LATER],
               later ? "" : "; later updates are not compared, being all rounding", weights);
}

static brasa_status compare_lines(comparison *c)
{
    bool go_on = true;
    brasa_status status = parity_find_shaken(c);
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
            status = parity_compare_params(c, i, &next, &go_on);
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
            return parity_say(c, l->event == LINE_REFUSED ? PARITY_REFUSED : PARITY_FAILED, "%s",
                              l->why ? l->why : "");
    }
    return c->theirs.count > 0 || parity_say(c, PARITY_FAILED, "it told nothing");
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
        parity_say(&c, PARITY_FAILED, "%s", brasa_context_error(ctx));
    else if (status == BRASA_OK && is_complete(&c))
        status = compare_lines(&c);
    netjson_free(&c.network);
    safetensors_close(c.weights);
    pool_free(&c.pool);
    return status;
}
