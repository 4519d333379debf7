/* fuzz_model.c - libFuzzer's target for model files: any text as a network, built with its own classes and with
 * others, and planned where it can be built. What holds: it is refused in one line that names the file, or its plan
 * is made, with numbers that add up, or refused in one line. */
#define _GNU_SOURCE
#include "data.h"

#include "graph/graph.h"

enum { MOST_NODES = 60 }; /* of what is planned: plans of more take long, and show nothing new */

static void check_error(const brasa_graph *g)
{
    require(brasa_graph_error(g)[0] && !strchr(brasa_graph_error(g), '\n'), "no clear error");
}

/* Reference kernels: what libraries make of strange shapes is not looked at here. */
static void plan(brasa_graph *g)
{
    brasa_session *s = NULL;
    brasa_memory m = {.size = sizeof m};
    const brasa_session_options o = {.size = sizeof o, .batch = 3, .kernels = "_ref", .plan_only = true};
    const brasa_status status = brasa_session_new(g, &o, &s);
    require(status != BRASA_OUT_OF_MEMORY && status != BRASA_INTERNAL, "an unexpected status");
    if (status != BRASA_OK) {
        check_error(g);
        return;
    }
    require(brasa_session_memory(s, &m) == BRASA_OK && m.total >= m.weights + m.buffers + m.optimizer + m.transient,
            "a plan that does not add up");
    brasa_session_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[200];
    start();
    it.most = 4 << 20; /* the text's buffer has a fixed size */
    const size_t live = it.live;
    put_file("m.net", data, size);
    snprintf(path, sizeof path, "%s/m.net", it.folder);
    for (int classes = 0; classes <= 7; classes += 7) {
        brasa_graph *g = brasa_graph_new(it.ctx);
        const brasa_status status = brasa_model_build(g, path, classes);
        require(status != BRASA_OUT_OF_MEMORY && status != BRASA_INTERNAL, "an unexpected status");
        if (status != BRASA_OK) {
            check_error(g);
            require(strstr(brasa_graph_error(g), path) != NULL, "an error that does not name the file");
        } else if (g->nnodes <= MOST_NODES) {
            plan(g);
        }
        brasa_graph_free(g);
    }
    require(it.live == live, "memory that is not given back");
    return 0;
}
