/* models.c - `brasa models`: the networks that come with the library. */
#include "cli.h"

#include <stdio.h>

typedef struct model_size {
    int64_t params;
    int layers; /* convolutions and dense layers, as the papers count */
} model_size;

/* Builds the network as a user would; nothing is written down twice. */
static int measure(const brasa_model_info *m, model_size *out)
{
    brasa_graph *g = brasa_graph_new(NULL);
    if (!g)
        return complain(FAILED, "%s", brasa_status_text(BRASA_OUT_OF_MEMORY));
    int code = DONE;
    if (brasa_model_build(g, m->name, 0) != BRASA_OK)
        code = complain(FAILED, "%s", brasa_graph_error(g));
    *out = (model_size){.params = brasa_graph_param_total(g)};
    brasa_value_info p = {.size = sizeof p};
    for (int32_t i = 0; brasa_graph_param_at(g, i, &p); i++)
        out->layers += p.trainable && p.rank >= 2;
    brasa_graph_free(g);
    return code;
}

static int input_rank(const brasa_model_info *m)
{
    return m->input[1] ? 3 : 1;
}

static void print_json(json *j, const brasa_model_info *m, const model_size *size)
{
    json_open(j, NULL, '{');
    json_text(j, "name", m->name);
    json_int(j, "params", size->params);
    json_open(j, "input", '[');
    for (int i = 0; i < input_rank(m); i++)
        json_int(j, NULL, m->input[i]);
    json_close(j, ']');
    json_int(j, "classes", m->classes);
    json_int(j, "layers", size->layers);
    json_text(j, "summary", m->summary);
    json_close(j, '}');
}

static void print_row(const brasa_model_info *m, const model_size *size)
{
    char input[48];
    if (input_rank(m) == 3)
        snprintf(input, sizeof input, "%dx%dx%d", m->input[0], m->input[1], m->input[2]);
    else
        snprintf(input, sizeof input, "%d", m->input[0]);
    printf("%-20s %11s  %-9s %8d %7d\n", m->name, print_count(size->params).text, input, m->classes, size->layers);
    printf("  ");
    wrapped(2, 2, m->summary);
}

int run_models(const options *o)
{
    json j = json_stdout();
    if (o->json)
        json_open(&j, NULL, '[');
    else
        heading("%-20s %11s  %-9s %8s %7s", "model", "parameters", "input", "classes", "layers");
    brasa_model_info m = {.size = sizeof m};
    for (int32_t i = 0; brasa_model_at(i, &m); i++) {
        model_size size = {0};
        int code = measure(&m, &size);
        if (code != DONE)
            return code;
        if (o->json)
            print_json(&j, &m, &size);
        else
            print_row(&m, &size);
    }
    if (o->json)
        json_close(&j, ']');
    return DONE;
}
