/* mirror.c - the host's copy of a device's state: what is read from a session and written to it, in files too.
 *
 * It is floats, in the order in which the device has them. There, a parameter may be SPLIT_F32 and an optimizer's
 * memory BF16: both are converted on their way, a piece at a time.
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
        converts = converts || s->states[i].format.storage != s->states[i].type;
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

/* A plane of a piece, from the device or to it. */
static brasa_status move_plane(const brasa_session *s, char *there, char *here, size_t bytes, bool in)
{
    return in ? device_copy_in(s->ctx, there, here, bytes) : device_copy_out(s->ctx, here, there, bytes);
}

/* Of a state that the device stores as another type: the planes of a piece lie side by side in s->pieces. */
static brasa_status move_pieces(const brasa_session *s, const state *st, bool in)
{
    const dtype type = st->format.storage;
    const int64_t all = layout_count(&st->format.layout, &st->stored), plane = storage_plane(type, all);
    const int64_t size = (int64_t)dtype_size(type) / (plane ? 2 : 1); /* of an element in one plane */
    char *there = s->arena + s->state_offset[st - s->states], *here = session_state_data(s, st);
    char *pieces = (char *)s->pieces;
    brasa_status status = BRASA_OK;
    for (int64_t first = 0, count; first < all && status == BRASA_OK; first += count) {
        count = all - first < PIECE ? all - first : PIECE;
        char *host = here + first * (int64_t)dtype_size(st->type);
        if (in)
            storage_store_many(type, pieces, PIECE, 0, count, st->type, host);
        status = move_plane(s, there + first * size, pieces, (size_t)(count * size), in);
        if (status == BRASA_OK && plane)
            status = move_plane(s, there + (plane + first) * size, pieces + PIECE * size, (size_t)(count * size), in);
        if (status == BRASA_OK && !in)
            storage_load_many(type, pieces, PIECE, 0, count, st->type, host);
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
    if (st->format.storage != st->type)
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
    if (st->format.storage != st->type)
        return move_pieces(s, st, true);
    return device_copy_in(s->ctx, s->arena + s->state_offset[st - s->states], session_state_data(s, st),
                          (size_t)st->bytes);
}
