/* means.h - the kernels of average-pooling: the mean of the pixels under each window, and its gradient.
 *
 * An op includes this once for each type of its kernels. It sets NUMBER, the type of an element (a vector holds
 * channels side by side), SCALAR, that of a divisor, and NAME(f), and has said where its windows lie:
 *     pooling, with y and x of some in and out
 *     pooling_of(step, src, dst)
 *     pooling_rows(p, oy), pooling_columns(p, ox)     the pixels under a window
 *     pooling_pixels(p, oy, ox)                       the divisor
 */

/* in: src; out: dst; item: a plane, here and below */
static void NAME(means_range)(const step *s, int64_t begin, int64_t end)
{
    const pooling p = pooling_of(s, &s->in[0].shape, &s->out[0].shape);
    NUMBER *dst = (NUMBER *)s->out[0].data + begin * p.y.out * p.x.out;
    for (int64_t item = begin; item < end; item++) {
        const NUMBER *src = (const NUMBER *)s->in[0].data + item * p.y.in * p.x.in;
        for (int64_t oy = 0; oy < p.y.out; oy++) {
            const span rows = pooling_rows(&p, oy);
            for (int64_t ox = 0; ox < p.x.out; ox++) {
                const span columns = pooling_columns(&p, ox);
                NUMBER sum = {0};
                for (int64_t iy = rows.lo; iy < rows.hi; iy++)
                    for (int64_t ix = columns.lo; ix < columns.hi; ix++)
                        sum += src[iy * p.x.in + ix];
                *dst++ = sum / (SCALAR)pooling_pixels(&p, oy, ox);
            }
        }
    }
}

static void NAME(clear_rows)(NUMBER *dsrc, int64_t W, int64_t from, int64_t to)
{
    for (int64_t i = from * W; i < to * W; i++)
        dsrc[i] = (NUMBER){0};
}

/* What the windows of one output row hand back to their pixels. */
static void NAME(spread_row)(const pooling *p, int64_t oy, span rows, const NUMBER *ddst, NUMBER *dsrc)
{
    const int64_t W = p->x.in;
    for (int64_t ox = 0; ox < p->x.out; ox++) {
        const span columns = pooling_columns(p, ox);
        const NUMBER part = ddst[ox] / (SCALAR)pooling_pixels(p, oy, ox);
        for (int64_t row = rows.lo * W; row < rows.hi * W; row += W)
            for (int64_t ix = columns.lo; ix < columns.hi; ix++)
                dsrc[row + ix] += part;
    }
}

/* in: ddst; out: dsrc */
static void NAME(means_grad_range)(const step *s, int64_t begin, int64_t end)
{
    const pooling p = pooling_of(s, &s->out[0].shape, &s->in[0].shape);
    const NUMBER *ddst = (const NUMBER *)s->in[0].data + begin * p.y.out * p.x.out;
    const int64_t plane = p.y.in * p.x.in;
    /* A plane that fits the first cache is cleared at once, of another each row just before its first use. */
    const int64_t ahead = plane * (int64_t)sizeof(NUMBER) <= 16 << 10 ? p.y.in : 0;
    for (int64_t item = begin; item < end; item++) {
        NUMBER *dsrc = (NUMBER *)s->out[0].data + item * plane;
        int64_t clear = ahead; /* rows before it are begun */
        NAME(clear_rows)(dsrc, p.x.in, 0, ahead);
        for (int64_t oy = 0; oy < p.y.out; oy++, ddst += p.x.out) {
            const span rows = pooling_rows(&p, oy);
            if (rows.hi > clear) {
                NAME(clear_rows)(dsrc, p.x.in, clear, rows.hi);
                clear = rows.hi;
            }
            NAME(spread_row)(&p, oy, rows, ddst, dsrc);
        }
        NAME(clear_rows)(dsrc, p.x.in, clear, p.y.in);
    }
}
