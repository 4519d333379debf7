/* metrics.c - see metrics.h. */
#include "train/metrics.h"

#include <math.h>
#include <string.h>

brasa_status metrics_init(metrics *m, pool *p, int classes)
{
    const size_t cells = classes <= MOST_CONFUSED ? (size_t)classes * (size_t)classes : 0;
    *m = (metrics){.classes = classes, .confusion = cells ? pool_get(p, cells, sizeof *m->confusion) : NULL};
    return cells && !m->confusion ? fail_memory(p->ctx, cells * sizeof *m->confusion) : BRASA_OK;
}

void metrics_reset(metrics *m)
{
    m->count = m->top1 = m->top5 = 0;
    m->loss = 0;
    if (m->confusion)
        memset(m->confusion, 0, (size_t)m->classes * (size_t)m->classes * sizeof *m->confusion);
}

/* Logits of which one is not a number have no order: the sample is wrong, and taken for a class that it is not. */
static void add_one(metrics *m, const float *logits, int32_t label)
{
    int best = 0, before = 0; /* classes that come before the label in the order of their logits */
    bool numbers = true;
    for (int k = 0; k < m->classes; k++) {
        numbers = numbers && !isnan(logits[k]);
        if (logits[k] > logits[best])
            best = k;
        before += logits[k] > logits[label] || (logits[k] == logits[label] && k < label);
    }
    double sum = 0;
    for (int k = 0; k < m->classes; k++)
        sum += exp((double)logits[k] - (double)logits[best]);
    m->loss += log(sum) - ((double)logits[label] - (double)logits[best]);
    m->count++;
    if (!numbers)
        best = label == 0 ? m->classes - 1 : 0;
    m->top1 += numbers && best == label;
    m->top5 += numbers && before < TOP;
    if (m->confusion)
        m->confusion[(size_t)label * (size_t)m->classes + (size_t)best]++;
}

void metrics_add(metrics *m, const float *logits, const int32_t *labels, int64_t count)
{
    if (m->logits)
        memcpy(m->logits + m->count * m->classes, logits, (size_t)(count * m->classes) * sizeof *logits);
    for (int64_t i = 0; i < count; i++)
        add_one(m, logits + i * m->classes, labels[i]);
}

double metrics_loss(const metrics *m)
{
    return m->count ? m->loss / (double)m->count : NAN;
}

double metrics_top1(const metrics *m)
{
    return m->count ? (double)m->top1 / (double)m->count : NAN;
}

double metrics_top5(const metrics *m)
{
    return m->count ? (double)m->top5 / (double)m->count : NAN;
}

brasa_metrics metrics_figures(const metrics *m, int64_t epoch)
{
    return (brasa_metrics){.size = sizeof(brasa_metrics),
                           .epoch = epoch,
                           .samples = m->count,
                           .loss = metrics_loss(m),
                           .accuracy = metrics_top1(m),
                           .top5 = metrics_top5(m),
                           .classes = m->classes,
                           .confusion = m->confusion};
}

class_metrics metrics_class(const brasa_metrics *m, int class)
{
    class_metrics c = {.right = m->confusion[(size_t) class * (size_t)m->classes + (size_t) class]};
    for (int k = 0; k < m->classes; k++) {
        c.samples += m->confusion[(size_t) class * (size_t)m->classes + (size_t)k];
        c.predicted += m->confusion[(size_t)k * (size_t)m->classes + (size_t) class];
    }
    c.precision = c.predicted ? (double)c.right / (double)c.predicted : NAN;
    c.recall = c.samples ? (double)c.right / (double)c.samples : NAN;
    return c;
}

static void matrix_json(json *j, const brasa_metrics *m, const char *const *class_name)
{
    json_open(j, "classes", '[');
    for (int k = 0; k < m->classes; k++) {
        const class_metrics c = metrics_class(m, k);
        json_open(j, NULL, '{');
        json_text(j, "name", class_name[k]);
        json_int(j, "samples", c.samples);
        json_real(j, "precision", c.precision);
        json_real(j, "recall", c.recall);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_open(j, "confusion", '[');
    for (int truth = 0; truth < m->classes; truth++) {
        json_open(j, NULL, '[');
        for (int k = 0; k < m->classes; k++)
            json_int(j, NULL, m->confusion[(size_t)truth * (size_t)m->classes + (size_t)k]);
        json_close(j, ']');
    }
    json_close(j, ']');
}

void metrics_json(json *j, const brasa_metrics *m, const char *const *class_name)
{
    json_int(j, "samples", m->samples);
    json_real(j, "loss", m->loss);
    json_real(j, "accuracy", m->accuracy);
    json_real(j, "top5", m->top5);
    if (m->confusion && m->samples)
        matrix_json(j, m, class_name);
}
