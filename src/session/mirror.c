/* mirror.c - the host's copy of a device's state: what is read from a session and written to it, in files too.
 *
 * It is floats, in the order in which the device has them. There, a parameter may be in halves and an optimizer's
 * memory in bf16: what comes over is made floats of, and the other way round, a piece at a time.
 */
#include "device/device.h"
#include "session/session.h"

#include <string.h>

enum { PIECE = 1 << 20 }; /* elements */

static int64_t align_up(int64_t bytes)
{
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

brasa_status session_make_mirror(brasa_session *s)
{
    int64_t bytes = 0;
    bool converts = false;
    if (s->ctx->device->host_memory || s->mirror)
        return BRASA_OK;
    s->mirror_offset = pool_get(&s->pool, (size_t)s->nstates + 1, sizeof *s->mirror_offset);
    if (!s->mirror_offset)
        return fail_memory(s->ctx, (size_t)s->nstates * sizeof *s->mirror_offset);
    for (int i = 0; i < s->nstates; i++) {
        s->mirror_offset[i] = bytes;
        bytes += align_up(s->states[i].bytes);
        converts = converts || s->states[i].layout.bf16;
    }
    s->pieces = converts ? mem_get(s->ctx, 2 * PIECE * sizeof *s->pieces) : NULL;
    if (converts && !s->pieces)
        return fail_memory(s->ctx, 2 * PIECE * sizeof *s->pieces);
    s->mirror = mem_get_large(s->ctx, (size_t)bytes);
    if (!s->mirror) {
        mem_put(s->ctx, s->pieces);
        s->pieces = NULL;
        return fail_memory(s->ctx, (size_t)bytes);
    }
    memset(s->mirror, 0, (size_t)bytes); /* padding stays zero */
    return BRASA_OK;
}

void session_free_mirror(brasa_session *s)
{
    mem_put_large(s->ctx, s->mirror);
    mem_put(s->ctx, s->pieces);
}

void *session_state_data(const brasa_session *s, const state *st)
{
    const int i = (int)(st - s->states);
    return s->mirror ? s->mirror + s->mirror_offset[i] : s->arena + s->state_offset[i];
}

/* The elements of a piece, of a state that is in 16 bits or in halves: between their planes, side by side in
 * s->pieces, and floats. */
static void join(const uint16_t *piece, bool halves, int64_t count, float *to)
{
    for (int64_t i = 0; i < count && halves; i++)
        to[i] = halves_get(piece, PIECE, i);
    for (int64_t i = 0; i < count && !halves; i++) {
        const uint32_t bits = (uint32_t)piece[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* To bf16 as the device does it: to nearest, to even where two are as near. */
static uint16_t round_even(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = halves_whole(bits);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

static void split(const float *from, bool halves, int64_t count, uint16_t *piece)
{
    for (int64_t i = 0; i < count && halves; i++)
        halves_set(piece, PIECE, i, from[i]);
    for (int64_t i = 0; i < count && !halves; i++)
        piece[i] = round_even(from[i]);
}

/* A plane of a piece, from the device or to it. */
static brasa_status move_plane(const brasa_session *s, uint16_t *there, uint16_t *here, int64_t count, bool in)
{
    const size_t bytes = (size_t)count * sizeof *here;
    return in ? device_copy_in(s->ctx, there, here, bytes) : device_copy_out(s->ctx, here, there, bytes);
}

static brasa_status move_pieces(const brasa_session *s, const state *st, bool in)
{
    const int64_t all = layout_count(&st->layout, &st->stored), plane = halves_plane(all);
    const bool halves = st->layout.halves;
    uint16_t *there = (uint16_t *)(s->arena + s->state_offset[st - s->states]);
    float *here = session_state_data(s, st);
    brasa_status status = BRASA_OK;
    for (int64_t first = 0, count; first < all && status == BRASA_OK; first += count) {
        count = all - first < PIECE ? all - first : PIECE;
        if (in)
            split(here + first, halves, count, s->pieces);
        status = move_plane(s, there + first, s->pieces, count, in);
        if (status == BRASA_OK && halves)
            status = move_plane(s, there + plane + first, s->pieces + PIECE, count, in);
        if (status == BRASA_OK && !in)
            join(s->pieces, halves, count, here + first);
    }
    return status;
}

brasa_status session_pull(const brasa_session *s, const state *st)
{
    if (!s->mirror)
        return BRASA_OK;
    const brasa_status status = session_check_memory(s);
    if (status != BRASA_OK)
        return status;
    if (st->layout.bf16)
        return move_pieces(s, st, false);
    return device_copy_out(s->ctx, session_state_data(s, st), s->arena + s->state_offset[st - s->states],
                           (size_t)st->bytes);
}

brasa_status session_push(const brasa_session *s, const state *st)
{
    if (!s->mirror)
        return BRASA_OK;
    const brasa_status status = session_check_memory(s);
    if (status != BRASA_OK)
        return status;
    if (st->layout.bf16)
        return move_pieces(s, st, true);
    return device_copy_in(s->ctx, s->arena + s->state_offset[st - s->states], session_state_data(s, st),
                          (size_t)st->bytes);
}
