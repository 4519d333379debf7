/* program.c - uses the interface as the header beside it declares it: trains on arrays, saves, loads, asks. It may be
 * compiled as C or as C++. */
#include <brasa.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 8, SIZE = 6, STEPS = 20 };

#define REQUIRE(cond)                                                                                                \
    do {                                                                                                             \
        if (!(cond))                                                                                                 \
            return printf("FAILED: %s: %s\n", #cond, brasa_graph_error(g)), 1;                                       \
    } while (0)

int main(int argc, char **argv)
{
    static float images[BATCH * SIZE * SIZE];
    int32_t labels[BATCH];
    float first = 0, last = 0, loss = 0, accuracy = 0;
    const char *path = argc > 1 ? argv[1] : "weights.safetensors";
    brasa_context_options c;
    brasa_session_options o;
    brasa_memory m;
    brasa_load_options load;
    brasa_load_report report;
    brasa_model_info model;
    brasa_value_info value;
    brasa_entry entry;
    brasa_field field;
    brasa_node_info node;
    brasa_device_info device;
#define CLEAR(x) (memset(&(x), 0, sizeof(x)), (x).size = sizeof(x))
    CLEAR(c), CLEAR(o), CLEAR(m), CLEAR(load), CLEAR(report), CLEAR(model), CLEAR(value), CLEAR(entry), CLEAR(field);
    CLEAR(node), CLEAR(device);
    for (int i = 0; i < BATCH * SIZE * SIZE; i++)
        images[i] = i % SIZE == i / (SIZE * SIZE) % 4 ? 1.0f : 0.0f;
    for (int i = 0; i < BATCH; i++)
        labels[i] = i % 4;

    brasa_context *ctx = NULL;
    brasa_graph *g = NULL;
    c.threads = 1;
    REQUIRE(brasa_context_new(&c, &ctx) == BRASA_OK && (g = brasa_graph_new(ctx)) != NULL);
    brasa_tensor x = brasa_relu(brasa_conv2d(brasa_input(g, "image", 1, SIZE, SIZE), 4, 3, BRASA_SAME));
    brasa_classify(brasa_flatten(x), 4);
    brasa_session *s = NULL, *other = NULL;
    o.batch = BATCH;
    o.optimizer = "sgd lr=0.5 momentum=0.9";
    o.micro_batches = 2;
    o.seed = 3;
    REQUIRE(brasa_session_new(g, &o, &s) == BRASA_OK);
    for (int i = 0; i < STEPS; i++)
        REQUIRE(brasa_train_step(s, images, labels, i ? &last : &first) == BRASA_OK);
    REQUIRE(last < first / 2 && brasa_session_steps(s) == STEPS);
    REQUIRE(brasa_session_memory(s, &m) == BRASA_OK && m.accumulated > 0 && m.size == sizeof m);
    REQUIRE(m.total >= m.weights + m.optimizer + m.accumulated + m.transient && m.host_copy == 0);

    o.micro_batches = 0;
    o.seed = 4;
    REQUIRE(brasa_session_new(g, &o, &other) == BRASA_OK);
    REQUIRE(brasa_session_save(s, path, BRASA_CHECKPOINT) == BRASA_OK);
    load.what = BRASA_WEIGHTS;
    REQUIRE(brasa_session_load(other, path, &load, &report) == BRASA_OK && report.loaded == 4 && !report.names[0]);
    REQUIRE(brasa_eval_step(s, images, labels, BATCH, &last, NULL) == BRASA_OK);
    REQUIRE(brasa_eval_step(other, images, labels, BATCH, &loss, &accuracy) == BRASA_OK);
    REQUIRE(fabsf(loss - last) < 1e-6f && accuracy == 1);

    REQUIRE(brasa_session_input_at(s, 0, &value) && strcmp(value.name, "image") == 0 && value.rank == 4);
    REQUIRE(brasa_session_input_at(s, 1, &value) && value.type == BRASA_TYPE_I32 && value.classes == 4);
    REQUIRE(brasa_session_output_at(s, 0, &value) && value.shape[0] == BATCH);
    REQUIRE(brasa_graph_param_at(g, 0, &value) && value.trainable && value.shape[0] == 4);
    REQUIRE(brasa_graph_node_at(g, 0, &node) && strcmp(node.op, "conv2d") == 0 && node.shape[3] == SIZE);
    REQUIRE(brasa_model_at(0, &model) && model.name && brasa_device_at(0, &device) && !strcmp(device.name, "cpu"));
    REQUIRE(brasa_entry_at(BRASA_OPTIMIZERS, 0, &entry) && strcmp(entry.name, "sgd") == 0);
    REQUIRE(brasa_field_at(BRASA_OPTIMIZERS, "sgd", "tfkeras", 0, &field) && strcmp(field.value, "0.01") == 0);
    brasa_session_free(other);
    brasa_session_free(s);
    brasa_graph_free(g);
    brasa_context_free(ctx);
    return 0;
}
