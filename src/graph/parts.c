/* parts.c - concatenated tensors are written and read in their place.
 *
 * Within a sample the inputs of a concat along the channels lie one behind the other in its output, as long as a
 * layout keeps samples apart and no block of channels holds two inputs. So an input may be a part of the output: it
 * begins value.first elements into the whole, and its samples are as far from each other as the whole's. Kernels say
 * which of their tensors may be parts. Those of a single sample always may, for there is no next one to step to.
 * Where channels lie side by side, as on GPUs, the same holds for pixels.
 *
 *     concat   goes away where every input can be written to its place by the node that makes it;
 *     concat   copies, but what is read again after it is read in the whole, where that holds for every input: then
 *              only one of the two has to be kept for the gradients;
 *     slice    the gradient of concat, goes away where all that read it can read a part.
 *
 * So all of GoogLeNet's go away in training with batch norm. oneDNN's fast convolutions know no gaps between samples:
 * what they write is copied where there are several. (To run them sample by sample instead takes about as long as
 * with the copy, which is 0.2 % of a step of googlenet_caffe at batch 8.) What cuDNN's write is copied too: its
 * engines are chosen for the tensors as they are before this pass.
 *
 * A part is not an output and has no parts of its own. One of a concat is written by its producer, as other values
 * are; the whole is then written by no node. One that is only read has no producer.
 */
#include "graph/plan.h"
#include "ops/concat/concat.h"

/* --- what may be a part --------------------------------------------------------------------------------------- */

/* A thread of a GPU reads and writes up to so many bytes at once. */
enum { PIXEL_ALIGN = 16 };

/* Whether channels lie side by side. */
static bool has_pixels(const value *v)
{
    const layout *l = &v->format.layout;
    return l->permuted && !l->nblocks && l->order[0] == 0 && l->order[v->shape.rank - 1] == 1;
}

/* Where channel `start` of the whole begins, if a tensor of so many channels may lie there; else -1. */
static int64_t place_of(const graph *g, int whole, int part, int64_t start)
{
    const value *w = &g->values[whole], *p = &g->values[part];
    const int64_t size = (int64_t)dtype_size(w->format.storage), index[MAX_RANK] = {0, start};
    int64_t block = 1;
    if (!format_equal(&w->format, &p->format) || storage_plane(w->format.storage, 1))
        return -1;
    if (w->format.layout.permuted) {
        const bool aligned = start * size % PIXEL_ALIGN == 0 && w->shape.dim[1] * size % PIXEL_ALIGN == 0;
        return has_pixels(w) && aligned ? start : -1;
    }
    for (int b = 0; b < w->format.layout.nblocks; b++) {
        if (w->format.layout.axis[b] != 1)
            return -1;
        block *= w->format.layout.block[b];
    }
    const int64_t first = layout_offset(&w->format.layout, &w->shape, index);
    const int64_t sample = layout_count(&w->format.layout, &w->shape) / w->shape.dim[0];
    /* kernels find a part aligned as they find other tensors */
    if (p->shape.dim[1] % block || start % block || first * size % PLAN_ALIGN || sample * size % PLAN_ALIGN)
        return -1;
    return first;
}

static bool has_parts(const graph *g, int v)
{
    bool found = false;
    for (int p = 0; p < g->nvalues && !found; p++)
        found = g->values[p].whole == v;
    return found;
}

/* A value of a step that nobody fetches, neither part nor whole. */
static bool is_free(const graph *g, int v)
{
    return g->values[v].kind == VALUE_TEMP && !g->values[v].output && g->values[v].whole < 0 && !has_parts(g, v);
}

static bool takes(const node *n, unsigned mask, int k, const value *v)
{
    const bool single = v->shape.dim[0] == 1 && !v->format.layout.permuted;
    return !n->op->view && (single || (k < 32 && mask & 1u << k));
}

/* Whether all nodes from `first` on that read v, apart from `but`, take parts; *readers is how many times they do. */
static bool readers_take(const graph *g, int v, int first, int but, int *readers)
{
    *readers = 0;
    for (int i = first; i < g->nnodes; i++) {
        const node *n = &g->nodes[i];
        for (int k = 0; k < n->nin; k++) {
            if (n->in[k] != v || i == but)
                continue;
            if (!takes(n, n->kernel->parts_in, k, &g->values[v]))
                return false;
            ++*readers;
        }
    }
    return true;
}

static bool producer_takes(const graph *g, int v)
{
    const int i = g->values[v].producer;
    for (int k = 0; i >= 0 && k < g->nodes[i].nout; k++)
        if (g->nodes[i].out[k] == v)
            return takes(&g->nodes[i], g->nodes[i].kernel->parts_out, k, &g->values[v]);
    return false;
}

static bool is_twice(const node *n, int k)
{
    bool found = false;
    for (int j = 0; j < n->nin; j++)
        found = found || (j != k && n->in[j] == n->in[k]);
    return found;
}

/* --- the three rules ------------------------------------------------------------------------------------------ */

static void make_part(graph *g, int part, int whole, int64_t start)
{
    g->values[part].first = place_of(g, whole, part, start);
    g->values[part].whole = whole;
}

/* Whether all inputs of a concat fit into its output, and may be written there or, with `copied`, be read there. */
static bool all_fit(const graph *g, int i, bool copied)
{
    const node *n = &g->nodes[i];
    int64_t start = 0;
    for (int k = 0; k < n->nin; k++) {
        const int v = n->in[k];
        int readers;
        if (!is_free(g, v) || is_twice(n, k) || place_of(g, n->out[0], v, start) < 0 ||
            !readers_take(g, v, copied ? i + 1 : 0, i, &readers) || (copied ? readers == 0 : !producer_takes(g, v)))
            return false;
        start += g->values[v].shape.dim[1];
    }
    return g->values[n->out[0]].whole < 0;
}

static void write_in_place(graph *g, int i)
{
    const node *n = &g->nodes[i];
    int64_t start = 0;
    for (int k = 0; k < n->nin; k++) {
        make_part(g, n->in[k], n->out[0], start);
        start += g->values[n->in[k]].shape.dim[1];
    }
    g->values[n->out[0]].producer = -1;
    g->nodes[i].dead = true;
}

/* From the concat on, its inputs are read in its output. */
static brasa_status read_in_place(graph *g, int i)
{
    const int nin = g->nodes[i].nin, whole = g->nodes[i].out[0];
    int64_t start = 0;
    for (int k = 0; k < nin; k++) {
        const int v = g->nodes[i].in[k];
        const int part = graph_value(g, VALUE_TEMP, g->values[v].type, &g->values[v].shape, NULL);
        if (part < 0)
            return g->status;
        g->values[part].format = g->values[v].format;
        g->values[part].settled = true;
        make_part(g, part, whole, start);
        start += g->values[v].shape.dim[1];
        for (int r = i + 1; r < g->nnodes; r++)
            for (int j = 0; j < g->nodes[r].nin; j++)
                if (g->nodes[r].in[j] == v)
                    g->nodes[r].in[j] = part;
    }
    return BRASA_OK;
}

static void read_slice(graph *g, int i)
{
    const int whole = g->nodes[i].in[0], part = g->nodes[i].out[0];
    const int64_t start = ((const slice_attr *)g->nodes[i].attr)->start;
    int readers;
    if (g->values[whole].kind != VALUE_TEMP || g->values[whole].whole >= 0 || !is_free(g, part) ||
        place_of(g, whole, part, start) < 0 || !readers_take(g, part, 0, -1, &readers))
        return;
    make_part(g, part, whole, start);
    g->values[part].producer = -1;
    g->nodes[i].dead = true;
}

brasa_status pass_parts(graph *g)
{
    brasa_status status = BRASA_OK;
    for (int i = 0; i < g->nnodes && g->fuse & FUSE_PARTS && status == BRASA_OK; i++) {
        const node *n = &g->nodes[i];
        if (n->op == &slice_op && ((const slice_attr *)n->attr)->axis == 1)
            read_slice(g, i);
        else if (n->op == &concat_op && ((const concat_attr *)n->attr)->axis == 1 && all_fit(g, i, false))
            write_in_place(g, i);
        else if (n->op == &concat_op && ((const concat_attr *)n->attr)->axis == 1 && all_fit(g, i, true))
            status = read_in_place(g, i);
    }
    graph_sweep(g);
    return status;
}
