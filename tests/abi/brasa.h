/* brasa.h - the interface as of 0.1, frozen, without its comments: what programs in use were compiled against. */
#ifndef BRASA_H
#define BRASA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#define BRASA_API              __attribute__((visibility("default")))
#define BRASA_PRINTF(fmt, arg) __attribute__((format(printf, fmt, arg)))
#else
#define BRASA_API
#define BRASA_PRINTF(fmt, arg)
#endif
typedef enum brasa_status {
    BRASA_OK = 0,
    BRASA_OUT_OF_MEMORY = 1,
    BRASA_BAD_ARGUMENT = 2,
    BRASA_BAD_SHAPE = 3,
    BRASA_BAD_FILE = 4,
    BRASA_NOT_FOUND = 5,
    BRASA_NO_KERNEL = 6,
    BRASA_WRONG_STATE = 7,
    BRASA_INTERNAL = 8
} brasa_status;
typedef struct brasa_context brasa_context;
typedef struct brasa_graph brasa_graph;
typedef struct brasa_session brasa_session;
typedef struct brasa_data brasa_data;
typedef struct brasa_tensor {
    brasa_graph *graph;
    int32_t id;
} brasa_tensor;
BRASA_API const char *brasa_version(void);
BRASA_API const char *brasa_status_text(brasa_status status);
typedef struct brasa_context_options {
    size_t size;
    int32_t threads;
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
} brasa_context_options;
BRASA_API brasa_status brasa_context_new(const brasa_context_options *options, brasa_context **out);
BRASA_API void brasa_context_free(brasa_context *context);
BRASA_API const char *brasa_context_error(const brasa_context *context);
BRASA_API int32_t brasa_context_threads(const brasa_context *context);
BRASA_API brasa_status brasa_context_use(brasa_context *context, const char *device);
BRASA_API brasa_graph *brasa_graph_new(brasa_context *context);
BRASA_API void brasa_graph_free(brasa_graph *graph);
BRASA_API brasa_status brasa_graph_status(const brasa_graph *graph);
BRASA_API const char *brasa_graph_error(const brasa_graph *graph);
BRASA_API brasa_status brasa_graph_set_dialect(brasa_graph *graph, const char *name);
BRASA_API brasa_tensor brasa_input(brasa_graph *graph, const char *name, int32_t channels, int32_t height,
                                   int32_t width);
BRASA_API brasa_tensor brasa_input_vector(brasa_graph *graph, const char *name, int32_t features);
BRASA_API brasa_tensor brasa_labels(brasa_graph *graph, const char *name, int32_t classes);
BRASA_API brasa_tensor brasa_apply(brasa_tensor x, const char *format, ...) BRASA_PRINTF(2, 3);
BRASA_API brasa_tensor brasa_apply_n(brasa_graph *graph, const brasa_tensor *inputs, int32_t count,
                                     const char *format, ...) BRASA_PRINTF(4, 5);
BRASA_API void brasa_graph_scope(brasa_graph *graph, const char *prefix);
enum { BRASA_VALID = 0, BRASA_SAME = -1 };
BRASA_API brasa_tensor brasa_conv2d(brasa_tensor x, int32_t channels, int32_t size, int32_t padding);
BRASA_API brasa_tensor brasa_dense(brasa_tensor x, int32_t features);
BRASA_API brasa_tensor brasa_batchnorm(brasa_tensor x);
BRASA_API brasa_tensor brasa_relu(brasa_tensor x);
BRASA_API brasa_tensor brasa_maxpool(brasa_tensor x, int32_t size);
BRASA_API brasa_tensor brasa_avgpool(brasa_tensor x, int32_t size);
BRASA_API brasa_tensor brasa_global_avgpool(brasa_tensor x);
BRASA_API brasa_tensor brasa_dropout(brasa_tensor x, float probability);
BRASA_API brasa_tensor brasa_flatten(brasa_tensor x);
BRASA_API brasa_tensor brasa_add(brasa_tensor a, brasa_tensor b);
BRASA_API brasa_tensor brasa_concat(brasa_graph *graph, const brasa_tensor *inputs, int32_t count);
BRASA_API brasa_tensor brasa_classify(brasa_tensor x, int32_t classes);
BRASA_API void brasa_set_loss(brasa_tensor scalar);
BRASA_API void brasa_output(brasa_tensor x, const char *name);
BRASA_API int32_t brasa_tensor_shape(brasa_tensor x, int64_t shape[6]);
typedef struct brasa_model_info {
    size_t size;
    const char *name, *summary;
    int32_t classes;
    int32_t input[3];
} brasa_model_info;
BRASA_API bool brasa_model_at(int32_t index, brasa_model_info *out);
BRASA_API brasa_status brasa_model_build(brasa_graph *graph, const char *name, int32_t classes);
typedef struct brasa_value_info {
    size_t size;
    const char *name;
    int32_t type, rank;
    int64_t shape[6];
    int32_t classes;
    bool trainable;
} brasa_value_info;
BRASA_API bool brasa_graph_param_at(const brasa_graph *graph, int32_t index, brasa_value_info *out);
BRASA_API int64_t brasa_graph_param_total(const brasa_graph *graph);
typedef enum brasa_type {
    BRASA_TYPE_F32 = 1,
    BRASA_TYPE_F64 = 2,
    BRASA_TYPE_BF16 = 3,
    BRASA_TYPE_I32 = 4,
    BRASA_TYPE_I64 = 5,
    BRASA_TYPE_U8 = 6
} brasa_type;
typedef struct brasa_array {
    void *data;
    int32_t type;
    int32_t rank;
    int64_t shape[6];
    int64_t strides[6];
    const char *device;
    void *stream;
} brasa_array;
BRASA_API brasa_status brasa_data_open(brasa_context *context, const char *spec, brasa_data **out);
BRASA_API void brasa_data_free(brasa_data *data);
typedef struct brasa_data_arrays {
    size_t size;
    brasa_array samples, labels;
    brasa_array test_samples, test_labels;
    bool nhwc;
    bool copy;
    int32_t classes;
    const char *const *class_names;
} brasa_data_arrays;
BRASA_API brasa_status brasa_data_from_arrays(brasa_context *context, const brasa_data_arrays *arrays,
                                              brasa_data **out);
typedef struct brasa_data_callback {
    size_t size;
    int32_t (*read)(void *user, const int32_t *samples, int32_t count, void *data, int32_t *labels);
    void *user;
    int32_t count, test_count;
    int32_t type;
    int32_t channels, height, width;
    int32_t classes;
    const char *const *class_names;
    const char *identity;
} brasa_data_callback;
BRASA_API brasa_status brasa_data_from_callback(brasa_context *context, const brasa_data_callback *callback,
                                                brasa_data **out);
typedef struct brasa_data_info {
    size_t size;
    int32_t samples, test_samples, classes;
    int32_t channels, height, width;
    bool images;
} brasa_data_info;
BRASA_API brasa_status brasa_data_describe(const brasa_data *data, brasa_data_info *out);
BRASA_API const char *brasa_data_class(const brasa_data *data, int32_t index);
typedef struct brasa_tuning {
    size_t size;
    bool measure;
    const char *cache;
    const char *record;
    uint64_t memory_limit;
    bool (*watch)(void *user, int64_t done, int64_t total, const char *note);
    void *user;
} brasa_tuning;
enum { BRASA_F32 = 0, BRASA_TF32 = 1, BRASA_BF16 = 2 };
typedef struct brasa_session_options {
    size_t size;
    int64_t batch;
    const char *optimizer;
    const char *schedule;
    double clip_norm;
    uint64_t seed;
    bool inference;
    bool plan_only;
    int32_t precision;
    bool float64;
    bool keep_gradients;
    bool no_fusion;
    bool no_inplace;
    const char *kernels;
    const char *freeze;
    const float *class_weights;
    int32_t class_weight_count;
    int64_t micro_batches;
    bool deterministic;
    const brasa_tuning *tuning;
} brasa_session_options;
BRASA_API brasa_status brasa_session_new(brasa_graph *graph, const brasa_session_options *options,
                                         brasa_session **out);
BRASA_API void brasa_session_free(brasa_session *session);
BRASA_API const char *brasa_session_error(const brasa_session *session);
BRASA_API brasa_status brasa_session_prepare(brasa_session *session, bool training, int64_t batch);
BRASA_API brasa_status brasa_use(brasa_session *session, bool training, int64_t batch);
BRASA_API brasa_status brasa_feed(brasa_session *session, const char *input, const void *data, size_t bytes);
BRASA_API brasa_status brasa_train(brasa_session *session);
BRASA_API brasa_status brasa_evaluate(brasa_session *session);
BRASA_API brasa_status brasa_fetch(brasa_session *session, const char *output, void *data, size_t bytes);
BRASA_API brasa_status brasa_train_step(brasa_session *session, const float *images, const int32_t *labels,
                                        float *loss);
BRASA_API brasa_status brasa_eval_step(brasa_session *session, const float *images, const int32_t *labels,
                                       int64_t batch, float *loss, float *accuracy);
BRASA_API brasa_status brasa_param_get(brasa_session *session, const char *name, float *data, int64_t count);
BRASA_API brasa_status brasa_param_set(brasa_session *session, const char *name, const float *data, int64_t count);
BRASA_API int64_t brasa_session_steps(const brasa_session *session);
typedef struct brasa_memory {
    size_t size;
    uint64_t weights, buffers, optimizer;
    uint64_t accumulated;
    uint64_t transient;
    uint64_t activations, gradients, workspace;
    uint64_t lower_bound;
    uint64_t total;
    uint64_t host_copy;
} brasa_memory;
BRASA_API brasa_status brasa_session_memory(const brasa_session *session, brasa_memory *out);
BRASA_API brasa_status brasa_session_save_tuning(const brasa_session *session, const char *path);
BRASA_API void brasa_session_profile(brasa_session *session, bool on);
enum { BRASA_EXPLAIN_TEXT = 0, BRASA_EXPLAIN_JSON = 1, BRASA_EXPLAIN_TUNING = 2, BRASA_EXPLAIN_PROFILE = 3 };
BRASA_API brasa_status brasa_session_explain(brasa_session *session, int32_t format,
                                             bool (*write)(void *user, const char *text, size_t length), void *user);
enum {
    BRASA_WEIGHTS = 0,
    BRASA_CHECKPOINT = 1,
};
BRASA_API brasa_status brasa_session_save(brasa_session *session, const char *path, int32_t what);
typedef struct brasa_load_options {
    size_t size;
    int32_t what;
    bool allow_missing;
    bool allow_unknown;
    bool allow_mismatched;
} brasa_load_options;
typedef struct brasa_load_report {
    size_t size;
    int32_t loaded;
    int32_t missing, unknown, mismatched;
    char names[800];
} brasa_load_report;
BRASA_API brasa_status brasa_session_load(brasa_session *session, const char *path, const brasa_load_options *options,
                                          brasa_load_report *report);
typedef enum brasa_list {
    BRASA_LAYERS = 0,
    BRASA_OPTIMIZERS = 1,
    BRASA_SCHEDULES = 2,
    BRASA_DIALECTS = 3
} brasa_list;
typedef struct brasa_entry {
    size_t size;
    const char *name, *help;
    const char *alias;
    int32_t min_inputs, max_inputs;
} brasa_entry;
BRASA_API bool brasa_entry_at(brasa_list list, int32_t index, brasa_entry *out);
typedef struct brasa_field {
    size_t size;
    const char *name, *help;
    const char *type;
    const char *const *choices;
    bool required;
    bool positional;
    bool limited;
    double low, high;
    char value[96];
} brasa_field;
BRASA_API bool brasa_field_at(brasa_list list, const char *entry, const char *dialect, int32_t index,
                              brasa_field *out);
typedef struct brasa_device_info {
    size_t size;
    char name[16];
    char about[256];
} brasa_device_info;
BRASA_API bool brasa_device_at(int32_t index, brasa_device_info *out);
BRASA_API bool brasa_session_input_at(const brasa_session *session, int32_t index, brasa_value_info *out);
BRASA_API bool brasa_session_output_at(const brasa_session *session, int32_t index, brasa_value_info *out);
typedef struct brasa_node_info {
    size_t size;
    const char *name, *op;
    int32_t input_count, output_count;
    const int32_t *inputs, *outputs;
    int32_t rank;
    int64_t shape[6];
    int32_t line;
} brasa_node_info;
BRASA_API bool brasa_graph_node_at(const brasa_graph *graph, int32_t index, brasa_node_info *out);
#ifdef __cplusplus
}
#endif
#endif
