/* parity.c - see parity.h.
 *
 * How close is the same? What a layer gives: mean and rms within 1e-4 of the rms, some hundred times what the order
 * of a sum makes. Losses: 1e-3. Parameters hardly change in a step, so that their changes are compared, by what they
 * do to mean and rms. These are sums with cancellation: a tensor that is off by half is an error of its own, but
 * where it is a twentieth, as with another learning rate, a quarter of all tensors must agree on it.
 */
#include "lab/parity.h"

#include "lab/line.h"
#include "lab/netjson.h"
#include "train/safetensors.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double OUTPUT_LIMIT = 1e-4, LOSS_LIMIT = 1e-3, SUM_LIMIT = 1e-5;
static const double OFF = 0.05, FAR_OFF = 0.5, OFF_SHARE = 0.25;

const char *parity_word(parity_status status)
{
    static const char *const words[] = {"same", "different", "refused", "failed"};
    return words[status];
}

/* --- accounts ------------------------------------------------------------------------------------------------ */

typedef struct account {
    lab_line *lines;
    int count, capacity;
} account;

typedef struct comparison {
    pool pool;
    netjson network;
    safetensors *weights;
    account ours, theirs;
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
    if (!known || difference > OUTPUT_LIMIT)
        return say(c, PARITY_DIFFERENT,
                   "the first layer that differs is '%s' (%s%s%s): mean %.6g and rms %.6g, not %.6g and %.6g",
                   a->node, op, *settings ? " " : "", settings, b->mean, b->rms, a->mean, a->rms);
    return true;
}

static bool compare_loss(comparison *c, int i)
{
    const lab_line *a = &c->ours.lines[i], *b;
    char what[64];
    snprintf(what, sizeof what, "the loss of step %lld", (long long)a->step + 1);
    if (!both(c, i, &b, what))
        return false;
    const double difference = fabs(a->loss - b->loss) / fmax(fabs(a->loss), 1e-6);
    if (!isnan(difference))
        note(c, difference);
    if (!(difference <= LOSS_LIMIT))
        return say(c, PARITY_DIFFERENT, "%s is %.6g, not %.6g%s", what, b->loss, a->loss,
                   a->step ? ", though all agreed up to the update before"
                           : ", though all layers agree: another loss");
    return true;
}

/* --- parameters ---------------------------------------------------------------------------------------------- */

/* Mean and rms of the initial weights. */
static brasa_status read_start(comparison *c, const char *name, double *mean, double *rms, double *count)
{
    const tensor_entry *t = safetensors_find(c->weights, name);
    if (!t || !t->type->decode || t->type->whole || shape_count(&t->shape) < 1)
        return fail(c->pool.ctx, BRASA_BAD_FILE, "%s: there is no '%s' in it", c->weights->path, name);
    number piece[PIECE];
    const int64_t all = shape_count(&t->shape);
    double sum = 0, squares = 0;
    for (int64_t first = 0; first < all; first += PIECE) {
        const int some = all - first < PIECE ? (int)(all - first) : PIECE;
        brasa_status status = safetensors_read(c->weights, t, first, some, piece);
        if (status != BRASA_OK)
            return status;
        for (int i = 0; i < some; i++) {
            sum += piece[i].real;
            squares += piece[i].real * piece[i].real;
        }
    }
    *count = (double)all;
    *mean = sum / *count;
    *rms = sqrt(squares / *count);
    return BRASA_OK;
}

/* How far a tensor's change is off, as a share of the change: what cannot be told from rounding is left out. */
static double off_by(const lab_line *a, const lab_line *b, double mean, double rms, double count)
{
    const double change = fmax(fabs(a->mean - mean), fabs(a->rms - rms));
    const double noise = (0.01 * sqrt(fabs(a->rms * a->rms - rms * rms)) + 3e-7 * rms) / sqrt(count) + 1e-12;
    const double difference = fmax(fabs(a->mean - b->mean), fabs(a->rms - b->rms));
    if (isnan(difference))
        return INFINITY;
    return difference <= noise ? 0 : (difference - noise) / (change + noise);
}

/* A bias before batch norm: it is taken off again, so its gradient is noise, which some optimizers make as large as
 * any other. */
static bool is_idle(const comparison *c, const char *param)
{
    const netjson *n = &c->network;
    const char *dot = strrchr(param, '.');
    const netjson_node *owner = NULL;
    int readers = 0, norms = 0;
    for (int i = 0; i < n->count && dot; i++)
        if (strlen(n->nodes[i].name) == (size_t)(dot - param) &&
            memcmp(n->nodes[i].name, param, (size_t)(dot - param)) == 0)
            owner = &n->nodes[i];
    if (!owner || strcmp(dot, ".bias") != 0 || strcmp(owner->op, "batchnorm") == 0)
        return false;
    for (int i = 0; i < n->count; i++)
        for (int k = 0; k < n->nodes[i].ninputs; k++)
            if (strcmp(n->nodes[i].inputs[k], owner->output) == 0) {
                readers++;
                norms += strcmp(n->nodes[i].op, "batchnorm") == 0;
            }
    return readers > 0 && readers == norms;
}

typedef struct changes {
    int tensors, off;
    const lab_line *first; /* of ours, that is off */
    const lab_line *theirs;
    double by;
    bool far;
} changes;

static bool say_changes(comparison *c, const changes *x)
{
    return say(
        c, PARITY_DIFFERENT,
        "the optimizer's equation or its settings: all agrees up to the update of step %lld, then '%s' has mean "
        "%.9g and rms %.9g, not %.9g and %.9g (%d of %d parameters are off)",
        (long long)x->first->step + 1, x->first->name, x->theirs->mean, x->theirs->rms, x->first->mean, x->first->rms,
        x->off, x->tensors);
}

/* All parameters after the update that line i begins to tell of. *next: the line behind them. Small differences count
 * after the first update only: later ones are those of different gradients, too. */
static brasa_status compare_params(comparison *c, int i, int *next, bool *go_on)
{
    changes x = {0};
    const int64_t step = c->ours.lines[i].step;
    for (*next = i; *next < c->ours.count; ++*next) {
        const lab_line *a = &c->ours.lines[*next], *b;
        double mean, rms, count;
        if (a->event != LINE_PARAM || a->step != step)
            break;
        if (!a->name || !(b = find_line(&c->theirs, *next, a))) {
            *go_on = say(c, PARITY_FAILED, "it did not tell of the parameter '%s' after step %lld",
                         a->name ? a->name : "", (long long)step + 1);
            return BRASA_OK;
        }
        brasa_status status = read_start(c, a->name, &mean, &rms, &count);
        if (status != BRASA_OK)
            return status;
        const double by = is_idle(c, a->name) ? 0 : off_by(a, b, mean, rms, count);
        x.tensors++;
        x.off += by > OFF;
        if (by > (x.far ? INFINITY : x.first ? FAR_OFF : OFF)) {
            x.first = a;
            x.theirs = b;
            x.far = by > FAR_OFF;
        }
    }
    if (x.far || (step == 0 && x.off > OFF_SHARE * x.tensors))
        *go_on = say_changes(c, &x);
    return BRASA_OK;
}

/* --- all of it ----------------------------------------------------------------------------------------------- */

static brasa_status compare_lines(comparison *c)
{
    bool go_on = true;
    brasa_status status = BRASA_OK;
    int losses = 0;
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
        losses += event == LINE_LOSS;
    }
    if (status == BRASA_OK && go_on && losses == 0)
        return fail(c->pool.ctx, BRASA_BAD_FILE, "Brasa's own account holds nothing to compare");
    if (status == BRASA_OK && go_on)
        say(c, PARITY_SAME, "layers, losses of %d steps and updates agree within %.1e", losses, c->out->worst);
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

brasa_status parity_compare(brasa_context *ctx, const char *graph, const char *weights, const parity_account *brasa,
                            const parity_account *peer, parity *out)
{
    comparison c = {.pool = {.ctx = ctx}, .out = out};
    *out = (parity){.worst = NAN};
    brasa_status status = netjson_read(ctx, graph, &c.network);
    if (status == BRASA_OK)
        status = safetensors_open(ctx, weights, &c.weights);
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
