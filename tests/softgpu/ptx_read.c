/* ptx_read.c - from PTX's text to instructions: see ptx.h.
 *
 * A module is looked through for its kernels when it is opened; a kernel's body is read when it is first started.
 * Functions that it calls are put in where they are called. What goes to them and comes back passes through memory of
 * each lane, as it is written.
 */
#define _GNU_SOURCE
#include "ptx_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- instructions ---------------------------------------------------------------------------------------------- */

static instruction *new_instruction(reader *r, instruction_kind kind, lane_work *work)
{
    ptx_kernel *k = r->k;
    if (k->count == k->room) {
        const int room = k->room ? 2 * k->room : 256;
        instruction *more = realloc(k->code, (size_t)room * sizeof *more);
        if (!more) {
            wrong(&r->t, "there is no memory");
            return NULL;
        }
        k->code = more;
        k->room = room;
    }
    instruction *i = &k->code[k->count++];
    *i = (instruction){
        .kind = kind, .work = work, .guard = NO_PLACE, .a = NO_PLACE, .b = NO_PLACE, .c = NO_PLACE, .d = NO_PLACE};
    return i;
}

static void note(reader *r, label **list, int *count, int *room, token name, int at)
{
    if (*count == *room) {
        *room = *room ? 2 * *room : 64;
        label *more = realloc(*list, (size_t)*room * sizeof *more);
        if (!more) {
            wrong(&r->t, "there is no memory");
            return;
        }
        *list = more;
    }
    (*list)[(*count)++] = (label){name, r->instance, at};
}

static void read_memory(reader *r, token name, bool store, instruction *i)
{
    const int size = type_bytes(last_part(name));
    i->space = has_part(name, "shared")  ? SHARED
               : has_part(name, "local") ? LOCAL
               : has_part(name, "param") ? PARAMETER
                                         : GLOBAL;
    if (size < 1) {
        wrong(&r->t, "'%.*s' is not known", name.n, name.s);
        return;
    }
    const int count = has_part(name, "v4") ? 4 : has_part(name, "v2") ? 2 : 1;
    i->count = (uint8_t)count;
    i->size = (uint8_t)size;
    if (store) {
        address(r, i);
        expect(&r->t, ",");
    }
    if (count == 1 && !store)
        i->wide = is_wide(r) && size < 8;
    if (count == 1)
        i->list[0] = operand(r, i->wide ? 8 : size);
    else if (operands(r, i->list, size) != count)
        wrong(&r->t, "a list of another length");
    if (!store) {
        expect(&r->t, ",");
        address(r, i);
    }
    i->spreads = !store && last_part(name).s[1] == 's' && (size < 4 || i->wide);
    if (i->space == SHARED) {
        r->k->moves_shared = true;
        if (size < r->k->cell)
            r->k->cell = size;
    }
    i->work = ptx_memory_work(store, (memory_space)i->space, size);
}

static void read_atomic(reader *r, token name, instruction *i)
{
    i->space = GLOBAL;
    i->size = 4;
    i->count = 1;
    i->work = has_part(name, "global") ? ptx_atomic_work(has_part(name, "add")   ? "add"
                                                         : has_part(name, "inc") ? "inc"
                                                                                 : "")
                                       : NULL;
    if (!i->work || !has_part(name, "u32")) {
        wrong(&r->t, "'%.*s' is not known", name.n, name.s);
        return;
    }
    i->d = operand(r, 4);
    expect(&r->t, ",");
    address(r, i);
    expect(&r->t, ",");
    i->b = operand(r, 4);
}

static void read_shuffle(reader *r, instruction *i)
{
    i->kind = MEET;
    i->work = ptx_shuffle_work;
    i->d = operand(r, 4);
    i->list[0] = take_if(&r->t, "|") ? operand(r, 0) : NO_PLACE;
    expect(&r->t, ",");
    i->b = operand(r, 4);
    expect(&r->t, ",");
    i->c = operand(r, 4);
    expect(&r->t, ",");
    i->list[1] = operand(r, 4);
    expect(&r->t, ",");
    i->a = operand(r, 4);
}

/* mov with {} on one side; false: there is none. */
static bool read_list(reader *r, token name, instruction *i)
{
    const int bytes = type_bytes(last_part(name));
    if (is(peek(&r->t), "{")) {
        i->count = (uint8_t)operands(r, i->list, bytes / 2);
        expect(&r->t, ",");
        i->a = operand(r, bytes);
        i->work = ptx_split_work(bytes / 2);
    } else {
        const char *start = r->t.at;
        const token to = take(&r->t);
        if (!take_if(&r->t, ",") || !is(peek(&r->t), "{")) {
            r->t.at = start;
            return false;
        }
        i->d = operand_of(r, to, bytes);
        i->count = (uint8_t)operands(r, i->list, bytes / 2);
        i->work = ptx_join_work(bytes / 2);
    }
    if (i->count != 2 || !i->work)
        wrong(&r->t, "'%.*s' of such a list is not known", name.n, name.s);
    return true;
}

static int width_of(char c)
{
    return c == 'p' ? 0 : c - '0';
}

static void read_converted(reader *r, const char *name, instruction *i)
{
    const known_instruction *known = ptx_known(name);
    if (!known)
        wrong(&r->t, "'%s' is not known", name);
    else
        i->work = known->work;
    i->a = operand(r, 8);
}

static void read_plain(reader *r, token name, instruction *i)
{
    char words[64];
    snprintf(words, sizeof words, "%.*s", name.n, name.s);
    const known_instruction *known = ptx_known(words);
    if (!known) {
        wrong(&r->t, "'%s' is not known", words);
        return;
    }
    if (is(name, "mov.u64")) { /* of the clock, which no register holds */
        const char *start = r->t.at;
        i->d = operand(r, 8);
        i->work = ptx_clock_work;
        if (take_if(&r->t, ",") && take_if(&r->t, "%globaltimer"))
            return;
        r->t.at = start;
    }
    place *const to[4] = {&i->d, &i->a, &i->b, &i->c};
    i->work = known->work;
    for (int n = 0; known->operands[n] && !r->t.failed; n++) {
        if (n)
            expect(&r->t, ",");
        if (n == 1 && is(part(name, 0), "cvt") && known->operands[1] == '4' && is_wide(r)) {
            strcat(words, " of 64"); /* bits, the lower half of which counts */
            read_converted(r, words, i);
            return;
        }
        const token t = take(&r->t);
        *to[n] = operand_of(r, t, width_of(known->operands[n]));
        if (n == 0 && (i->d & IN_CONSTANTS))
            wrong(&r->t, "a result that is no register");
    }
}

static void read_call(reader *r);

static void read_instruction(reader *r)
{
    token guard = {0};
    bool negated = false;
    if (take_if(&r->t, "@")) {
        negated = take_if(&r->t, "!");
        guard = take(&r->t);
    }
    const token name = take(&r->t), kind = part(name, 0);
    if (is(kind, "call")) {
        if (guard.n)
            wrong(&r->t, "a call for some lanes is not known");
        read_call(r);
        return;
    }
    instruction *i = new_instruction(r, PLAIN, NULL);
    if (!i)
        return;
    i->line = text_line(&r->t);
    if (guard.n) {
        i->guarded = true;
        i->negated = negated;
        i->guard = operand_of(r, guard, 0);
    }
    if (is(kind, "ld") || is(kind, "st"))
        read_memory(r, name, is(kind, "st"), i);
    else if (is(kind, "atom"))
        read_atomic(r, name, i);
    else if (is(name, "shfl.sync.bfly.b32"))
        read_shuffle(r, i);
    else if (is(kind, "bra")) {
        i->kind = BRANCH;
        note(r, &r->jumps, &r->njumps, &r->jump_room, take(&r->t), r->k->count - 1);
    } else if (is(kind, "ret") && r->instance) {
        i->kind = BRANCH;
        note(r, &r->jumps, &r->njumps, &r->jump_room, (token){"ret", 3}, r->k->count - 1);
    } else if (is(kind, "ret") || is(kind, "exit"))
        i->kind = RETURN;
    else if (is(name, "bar.sync") || is(name, "barrier.sync")) {
        i->kind = BARRIER;
        if (!is(take(&r->t), "0"))
            wrong(&r->t, "a barrier of its own number is not known");
    } else if (!(is(kind, "mov") && (is(part(name, 1), "b32") || is(part(name, 1), "b64")) && read_list(r, name, i)))
        read_plain(r, name, i);
    expect(&r->t, ";");
}

/* .reg, .shared and the like; false: no directive. */
static bool read_directive(reader *r)
{
    const token t = peek(&r->t);
    if (!begins(t, "."))
        return false;
    take(&r->t);
    if (is(t, ".reg"))
        declare_registers(r);
    else if (is(t, ".shared"))
        declare_memory(r, SHARED);
    else if (is(t, ".local") || is(t, ".param"))
        declare_memory(r, LOCAL);
    else if (is(t, ".pragma"))
        while (!r->t.failed && peek(&r->t).n && !is(take(&r->t), ";"))
            continue;
    else
        wrong(&r->t, "'%.*s' is not known", t.n, t.s);
    return true;
}

/* The statements up to the } that belongs to the { before. */
static void read_body(reader *r)
{
    const int outside = r->depth++;
    while (!r->t.failed && r->depth > outside) {
        if (take_if(&r->t, "{"))
            r->depth++;
        else if (take_if(&r->t, "}"))
            leave_scope(r);
        else if (take_if(&r->t, ";") || read_directive(r))
            continue;
        else if (r->t.at >= r->t.end)
            wrong(&r->t, "the text ends within a kernel");
        else {
            const char *start = r->t.at;
            const token t = take(&r->t);
            if (take_if(&r->t, ":"))
                note(r, &r->labels, &r->nlabels, &r->label_room, t, r->k->count);
            else {
                r->t.at = start;
                read_instruction(r);
            }
        }
    }
}

/* Where the body of a function begins, with its parameters' names; its result is the first. */
static const char *find_function(const reader *r, token name, token formal[8], int *count)
{
    char ignored[80];
    for (const char *at = r->module->text; (at = strstr(at, ".func")) != NULL; at++) {
        text t = text_of(r->module, at + 5, ignored, sizeof ignored);
        bool here = false;
        int64_t align, bytes;
        for (*count = 0; !t.failed && peek(&t).n;) {
            const token got = take(&t);
            if (is(got, ".param") && *count < 8)
                formal[(*count)++] = declared(&t, &align, &bytes);
            else if (same(got, name))
                here = true;
            else if (is(got, "{") && here)
                return got.s;
            else if (is(got, ";") || is(got, "{"))
                break;
        }
    }
    return NULL;
}

/* (result), name, (arguments); what is called stands here from now on. */
static void read_call(reader *r)
{
    token actual[8], formal[8];
    int given = 0, taken = 0;
    expect(&r->t, "(");
    actual[given++] = take(&r->t);
    expect(&r->t, ")");
    expect(&r->t, ",");
    const token name = take(&r->t);
    expect(&r->t, ",");
    expect(&r->t, "(");
    do
        actual[given++] = take(&r->t);
    while (given < 8 && take_if(&r->t, ","));
    expect(&r->t, ")");
    expect(&r->t, ";");
    const char *body = find_function(r, name, formal, &taken), *after = r->t.at;
    if (!r->t.failed && (!body || taken != given || r->instances == MOST_INLINED))
        wrong(&r->t, "a call of '%.*s' that is not understood", name.n, name.s);
    if (r->t.failed)
        return;
    const int instance = r->instance;
    r->depth++;
    for (int i = 0; i < given; i++) {
        const symbol *s = find_symbol(r, actual[i]);
        if (s)
            add_symbol(r, formal[i], s->space, s->at, s->bytes);
        else
            wrong(&r->t, "'%.*s' is not known", actual[i].n, actual[i].s);
    }
    r->instance = ++r->instances;
    r->t.at = body;
    expect(&r->t, "{");
    read_body(r);
    note(r, &r->labels, &r->nlabels, &r->label_room, (token){"ret", 3}, r->k->count);
    r->instance = instance;
    leave_scope(r);
    r->t.at = after;
}

/* Where jumps go to, now that all places are known. */
static void settle_jumps(reader *r)
{
    for (int i = 0; i < r->njumps && !r->t.failed; i++) {
        const label *jump = &r->jumps[i];
        int n = 0;
        while (n < r->nlabels && !(same(r->labels[n].name, jump->name) && r->labels[n].instance == jump->instance))
            n++;
        if (n == r->nlabels)
            wrong(&r->t, "there is no place '%.*s'", jump->name.n, jump->name.s);
        else
            r->k->code[jump->at].target = r->labels[n].at;
    }
}

/* --- kernels and modules --------------------------------------------------------------------------------------- */

/* Of .maxntid and its like, up to the body. */
static void read_limits(reader *r)
{
    while (!r->t.failed && !is(peek(&r->t), "{")) {
        const token t = take(&r->t);
        int64_t n, all = 1;
        const bool threads = is(t, ".maxntid") || is(t, ".reqntid");
        if (!begins(t, "."))
            wrong(&r->t, "'%.*s' is not known", t.n, t.s);
        do {
            if (!number(take(&r->t), &n))
                wrong(&r->t, "expected a number");
            all *= n;
        } while (take_if(&r->t, ","));
        if (threads)
            r->k->most_threads = (int)all;
    }
}

static void read_parameters(reader *r)
{
    ptx_kernel *k = r->k;
    expect(&r->t, "(");
    while (!r->t.failed && !take_if(&r->t, ")")) {
        int64_t align = 1, bytes = 0;
        expect(&r->t, ".param");
        const token name = declared(&r->t, &align, &bytes);
        const int64_t at = aligned(k->param_total, align);
        if (k->params == 64)
            wrong(&r->t, "too many arguments");
        if (r->t.failed)
            return;
        k->param_at[k->params] = (int)at;
        k->param_bytes[k->params++] = (int)bytes;
        k->param_total = (int)(at + bytes);
        add_symbol(r, name, PARAMETER, at, bytes);
        take_if(&r->t, ",");
    }
}

static bool make_room(reader *r)
{
    r->hash = calloc(3 * CONSTANT_SLOTS, sizeof *r->hash);
    r->k->constants = aligned_alloc(64, MOST_CONSTANTS);
    return r->hash && r->k->constants;
}

static void read_kernel(reader *r)
{
    ptx_kernel *k = r->k;
    for (int i = 0; i < SPECIALS; i++)
        k->special[i] = NO_PLACE;
    for (int i = 0; i < k->module->nglobals; i++) {
        const ptx_symbol *g = &k->module->globals[i];
        add_symbol(r, (token){g->name, (int)strlen(g->name)}, (memory_space)g->space, g->at, g->bytes);
    }
    k->cell = 8;
    k->shared = k->module->shared;
    if (is(peek(&r->t), "("))
        read_parameters(r);
    read_limits(r);
    expect(&r->t, "{");
    read_body(r);
    settle_jumps(r);
    new_instruction(r, RETURN, NULL); /* where the body ends */
    if (k->shared > PLAIN_SHARED)
        wrong(&r->t, "more shared memory than a kernel can have");
    k->most_dynamic = PLAIN_SHARED - k->shared;
    k->local = aligned(k->local, 16); /* of each lane, one behind the other */
}

bool ptx_read(ptx_kernel *k, char *why, size_t size)
{
    reader *r = calloc(1, sizeof *r);
    if (!r)
        return false;
    r->k = k;
    r->module = k->module;
    r->t = text_of(k->module, k->from, why, size);
    if (make_room(r))
        read_kernel(r);
    else
        wrong(&r->t, "there is no memory to read it");
    const bool good = !r->t.failed;
    free(r->labels);
    free(r->jumps);
    free(r->hash);
    free(r);
    return good;
}
