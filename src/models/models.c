/* models.c - networks by name. */
#include "core/nearest.h"
#include "graph/graph.h"
#include "models/model.h"

#include <string.h>

static const struct model {
    brasa_model_info info;
    void (*build)(brasa_graph *g, int classes);
} models[] = {
#define MODEL(name, classes, c, h, w, summary)                                                                       \
    {{sizeof(brasa_model_info), #name, summary, classes, {c, h, w}}, build_##name},
#include "models/models.def"
#undef MODEL
};
enum { MODELS = sizeof models / sizeof models[0] };

bool brasa_model_at(int32_t index, brasa_model_info *out)
{
    if (index < 0 || index >= MODELS)
        return false;
    return options_give(NULL, out, &models[index].info, sizeof models[index].info, "brasa_model_info") == BRASA_OK;
}

static bool is_file(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".net") == 0;
}

brasa_status brasa_model_build(brasa_graph *g, const char *name, int32_t classes)
{
    if (!g || !name)
        return fail_null(g ? g->ctx : NULL, __func__, "a graph and a name");
    if (g->status != BRASA_OK)
        return g->status;
    if (classes < 0) {
        graph_stick(g, fail(g->ctx, BRASA_BAD_ARGUMENT, "classes: expected a number of at least 1, got %d", classes));
        return g->status;
    }
    if (is_file(name))
        return netfile_build(g, name, classes);
    nearest n = {.word = name};
    for (int i = 0; i < MODELS; i++) {
        if (strcmp(models[i].info.name, name) == 0) {
            models[i].build(g, classes ? classes : models[i].info.classes);
            return g->status;
        }
        nearest_offer(&n, models[i].info.name);
    }
    graph_stick(g, fail(g->ctx, BRASA_NOT_FOUND, "there is no model '%s'%s (a file's name must end in .net)", name,
                        nearest_hint(&n).text));
    return g->status;
}
