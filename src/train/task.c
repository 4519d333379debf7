/* task.c - see task.h. */
#include "train/task.h"
#include "device/device.h"
#include "models/model.h"

#include <stdio.h>
#include <string.h>

/* --- data ---------------------------------------------------------------------------------------------------- */

static brasa_status check_classes(const task *t)
{
    const dataset *d = t->set;
    bool same = d->classes == t->classes;
    for (int k = 0; same && k < d->classes; k++)
        same = strcmp(d->class_name[k], t->class_name[k]) == 0;
    if (same)
        return BRASA_OK;
    return fail(t->ctx, BRASA_BAD_ARGUMENT, "%s has other classes (%d, from '%s' on) than the run (%d, from '%s' on)",
                d->spec, d->classes, d->class_name[0], t->classes, t->class_name[0]);
}

static brasa_status take_classes(task *t)
{
    if (t->class_name)
        return check_classes(t);
    t->classes = t->set->classes;
    t->class_name = t->set->class_name;
    return BRASA_OK;
}

brasa_status task_open_data(task *t, const char *spec)
{
    const brasa_status status = dataset_open(t->ctx, spec, &t->set);
    return status == BRASA_OK ? take_classes(t) : status;
}

brasa_status task_take_data(task *t, dataset *set)
{
    t->set = set;
    t->borrowed_set = true;
    if (set->ctx != t->ctx)
        return fail(t->ctx, BRASA_BAD_ARGUMENT, "the data were made in another context than the trainer");
    t->settings.data = set->spec;
    return take_classes(t);
}

/* --- the network --------------------------------------------------------------------------------------------- */

/* A classifier has one input of numbers, one of labels, and logits. */
static brasa_status find_inputs(task *t)
{
    const graph *g = t->graph;
    const value *input = NULL, *label = NULL;
    int inputs = 0;
    for (int v = 0; v < g->nvalues; v++) {
        const value *x = &g->values[v];
        inputs += x->kind == VALUE_INPUT;
        if (x->kind == VALUE_INPUT && x->classes)
            label = x;
        else if (x->kind == VALUE_INPUT)
            input = x;
    }
    const int logits = graph_find(g, "logits");
    if (inputs != 2 || !input || !label || logits < 0 || graph_find(g, "accuracy") < 0 || g->loss < 0)
        return fail(t->ctx, BRASA_BAD_ARGUMENT, "%s is no classifier: it must have one input and end with `classify`",
                    t->settings.model);
    if (label->classes != t->classes || shape_count(&g->values[logits].shape) != t->classes)
        return fail(t->ctx, BRASA_BAD_SHAPE, "%s has %d classes, the data have %d", t->settings.model, label->classes,
                    t->classes);
    t->input = input->name;
    t->label = label->name;
    for (int d = 0; d < 3; d++)
        t->shape[d] = d + 1 < input->shape.rank ? (int)input->shape.dim[d + 1] : 0;
    return BRASA_OK;
}

/* "3x224x224", or "16" for numbers. */
static shape_text print_sizes(const int sizes[3])
{
    const shape s = {.rank = sizes[1] ? 3 : 1, .dim = {sizes[0], sizes[1], sizes[2]}};
    return shape_print(&s);
}

/* Pictures that are as the network wants them stay; all others are treated as the first study did: the shorter side
 * to 8/7 of what is cut out of the middle (256 for 224), half of them mirrored, ImageNet's mean and deviation. */
static brasa_status choose_transform(task *t)
{
    const dataset *d = t->set;
    const bool fits = d->numbers || (!d->varied && d->height == t->shape[1] && d->width == t->shape[2]);
    const int least = t->shape[1] > t->shape[2] ? t->shape[1] : t->shape[2];
    char channels[32] = "", sizes[160] = "";
    if (!d->numbers && d->channels != t->shape[0])
        snprintf(channels, sizeof channels, "channels=%d ", t->shape[0]);
    if (!fits)
        snprintf(sizes, sizeof sizes, "resize=%d crop=%dx%d flip=horizontal%s", (least * 8 + 6) / 7, t->shape[1],
                 t->shape[2], t->shape[0] == 3 ? " mean=0.485,0.456,0.406 std=0.229,0.224,0.225" : "");
    t->settings.transform = pool_text(&t->pool, "%s%s", channels, sizes);
    return t->settings.transform ? BRASA_OK : fail_memory(t->ctx, sizeof sizes);
}

static brasa_status settle_transform(task *t)
{
    brasa_status status = BRASA_OK;
    if (t->set && !t->set->numbers && !t->shape[2])
        return fail(t->ctx, BRASA_BAD_SHAPE,
                    "%s takes %d numbers, but %s has pictures: its input must have channels, height and width",
                    t->settings.model, t->shape[0], t->set->spec);
    if (!t->settings.transform)
        status = choose_transform(t);
    if (status != BRASA_OK)
        return status;
    fields_set_defaults(transform_fields, &t->transform);
    status = fields_parse(t->ctx, "transform", transform_fields, &t->transform, t->settings.transform);
    if (t->settings.no_augment) {
        t->transform.flip = FLIP_NONE;
        t->transform.random_crop = false;
    }
    return status == BRASA_OK && t->set ? task_check_data(t) : status;
}

brasa_status task_check_data(const task *t)
{
    int given[3];
    brasa_status status = check_classes(t);
    if (status == BRASA_OK)
        status = transform_shape(t->ctx, &t->transform, t->set, given);
    if (status != BRASA_OK)
        return status;
    if (memcmp(given, t->shape, sizeof given) != 0)
        return fail(t->ctx, BRASA_BAD_SHAPE, "%s takes %s, but %s gives %s (transform '%s')", t->settings.model,
                    print_sizes(t->shape).text, t->set->spec, print_sizes(given).text, t->settings.transform);
    return BRASA_OK;
}

brasa_status task_build(task *t, const char *model)
{
    if (!(t->graph = brasa_graph_new(t->ctx)))
        return fail_memory(t->ctx, sizeof *t->graph);
    brasa_status status = brasa_graph_set_dialect(t->graph, t->settings.dialect);
    if (status == BRASA_OK && t->network)
        status = netfile_build_text(t->graph, model, t->network, t->classes);
    else if (status == BRASA_OK)
        status = brasa_model_build(t->graph, model, t->classes);
    if (status == BRASA_OK)
        status = find_inputs(t);
    return status == BRASA_OK ? settle_transform(t) : status;
}

brasa_status task_take_graph(task *t, brasa_graph *g)
{
    t->graph = g;
    t->borrowed = true;
    t->settings.dialect = g->dialect->name;
    brasa_status status = g->ctx == t->ctx ? brasa_graph_status(g) : BRASA_BAD_ARGUMENT;
    if (g->ctx != t->ctx)
        status = fail(t->ctx, status, "the graph was made in another context than the trainer");
    if (status == BRASA_OK)
        status = find_inputs(t);
    return status == BRASA_OK ? settle_transform(t) : status;
}

brasa_status task_send_bytes(task *t)
{
    const transform *f = &t->transform;
    pictures_attr *p = &t->pictures.attr;
    if (!t->ctx->device->takes_images || !t->set || t->set->numbers)
        return BRASA_OK;
    t->pictures.input = t->input;
    t->pictures.views = pool_text(&t->pool, "%s/views", t->input);
    if (!t->pictures.views)
        return fail_memory(t->ctx, strlen(t->input));
    *p = (pictures_attr){.channels = t->shape[0], .height = t->shape[1], .width = t->shape[2], .scale = f->scale};
    for (int c = 0; c < t->shape[0]; c++) {
        p->mean[c] = f->mean.value[f->mean.count > 1 ? c : 0];
        p->std[c] = f->std.value[f->std.count > 1 ? c : 0];
    }
    t->graph->pictures = &t->pictures;
    return BRASA_OK;
}

void task_close(task *t)
{
    if (t->borrowed)
        t->graph->pictures = NULL;
    else
        brasa_graph_free(t->graph);
    if (!t->borrowed_set)
        dataset_close(t->set);
    pool_free(&t->pool);
}

/* --- running it ---------------------------------------------------------------------------------------------- */

feeder_options task_feeding(const task *t, const brasa_session *s)
{
    return (feeder_options){.set = t->set,
                            .transform = &t->transform,
                            .layout = s ? session_input_layout(s, t->input) : (layout){0},
                            .budget = KEPT_BYTES,
                            .bytes = t->graph->pictures != NULL};
}

brasa_status task_next(const task *t, loader *l, const batch **out)
{
    brasa_status status = t->upload ? upload_wait(t->upload) : BRASA_OK;
    return status == BRASA_OK ? loader_next(l, out) : status;
}

static brasa_status feed_bytes(const task *t, brasa_session *s, const batch *b)
{
    const pictures_view *views;
    brasa_status status = upload_send(t->upload, b, &views);
    return status == BRASA_OK ? brasa_feed(s, t->pictures.views, views, (size_t)b->size * sizeof *views) : status;
}

brasa_status task_feed(const task *t, brasa_session *s, const batch *b)
{
    brasa_status status = t->upload ? feed_bytes(t, s, b) : session_feed(s, t->input, b->input, b->input_bytes);
    if (status == BRASA_OK && !s->options.inference)
        status = brasa_feed(s, t->label, b->labels, (size_t)b->size * sizeof *b->labels);
    return status;
}

/* Counts what was started, until only so many batches are left whose logits are awaited. */
static brasa_status count_batches(pending *a, int left, metrics *m)
{
    brasa_status status = BRASA_OK;
    while (pending_count(a) > left && status == BRASA_OK) {
        step_result one;
        if ((status = pending_take(a, &one)) == BRASA_OK)
            metrics_add(m, one.logits, one.labels, one.samples);
    }
    return status;
}

brasa_status task_measure(const task *t, brasa_session *s, loader *l, pending *a, metrics *m,
                          bool (*look)(void *user, int64_t done, int64_t total), void *user)
{
    const int64_t steps = loader_steps(l);
    metrics_reset(m);
    brasa_status status = loader_seek(l, 0, 0);
    for (int64_t i = 0; i < steps && status == BRASA_OK; i++) {
        const batch *b;
        if (look && !look(user, i, steps))
            status = fail(t->ctx, BRASA_WRONG_STATE, "stopped while measuring");
        else if ((status = task_next(t, l, &b)) == BRASA_OK)
            status = brasa_use(s, false, b->size);
        if (status == BRASA_OK)
            status = task_feed(t, s, b);
        if (status == BRASA_OK)
            status = session_step(s, false, NULL, NULL);
        if (status == BRASA_OK)
            status = pending_add(a, s, b);
        if (status == BRASA_OK)
            status = count_batches(a, i < steps - 1 ? pending_depth(a) : 0, m);
    }
    if (status != BRASA_OK)
        (void)pending_drop(a);
    return status;
}

static int add_kernels(const program *p, const char **names, int count, int most)
{
    for (int i = 0; i < p->nsteps && count < most; i++) {
        const char *name = p->steps[i].kernel->name;
        bool known = false;
        for (int k = 0; k < count && !known; k++)
            known = strcmp(names[k], name) == 0;
        if (!known)
            names[count++] = name;
    }
    return count;
}

int session_kernels(const brasa_session *s, const char **names, int most)
{
    const int count = add_kernels(s->current, names, 0, most);
    return s->current->graph.in_parts ? add_kernels(s->update, names, count, most) : count;
}
