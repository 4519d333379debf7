"""Trains mnist_cnn through the shared library with nothing but ctypes, on made-up digits: the loss must fall; and walks
through all that the library tells of itself, of the graph and of the session."""
import ctypes, os, random
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p

BUILD = os.environ.get("BRASA_BUILD", os.path.join(os.path.dirname(__file__), "..", "build"))
BATCH, STEPS = 8, 16


class Sized(ctypes.Structure):
    def __init__(self, **members):
        super().__init__(size=ctypes.sizeof(self), **members)


class SessionOptions(Sized):
    _fields_ = [("size", c_size_t), ("batch", c_int64), ("optimizer", c_char_p), ("schedule", c_char_p), ("clip_norm", c_double),
                ("seed", c_uint64), ("inference", c_bool), ("plan_only", c_bool), ("precision", c_int32), ("float64", c_bool),
                ("keep_gradients", c_bool), ("no_fusion", c_bool), ("no_inplace", c_bool), ("kernels", c_char_p),
                ("freeze", c_char_p), ("class_weights", c_void_p), ("class_weight_count", c_int32),
                ("micro_batches", c_int64), ("deterministic", c_bool), ("tuning", c_void_p)]


class Entry(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("help", c_char_p), ("alias", c_char_p), ("least", c_int32), ("most", c_int32)]


class Field(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("help", c_char_p), ("type", c_char_p), ("choices", POINTER(c_char_p)),
                ("required", c_bool), ("positional", c_bool), ("limited", c_bool), ("low", c_double), ("high", c_double),
                ("value", c_char * 96)]


class Device(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char * 16), ("about", c_char * 256)]


class Value(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("type", c_int32), ("rank", c_int32), ("shape", c_int64 * 6),
                ("classes", c_int32), ("trainable", c_bool)]


class Node(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("op", c_char_p), ("nin", c_int32), ("nout", c_int32),
                ("inputs", POINTER(c_int32)), ("outputs", POINTER(c_int32)), ("rank", c_int32), ("shape", c_int64 * 6),
                ("line", c_int32)]


def walk(call, struct, *before):
    """All that an index-until-false call tells, the names as text."""
    call.restype, found = c_bool, []
    while True:
        item = struct()
        if not call(*before, c_int32(len(found)), byref(item)):
            return found
        found.append(item)


def shape(item):
    return list(item.shape[:item.rank])


brasa = ctypes.CDLL(os.path.join(BUILD, "libbrasa.so"))
brasa.brasa_graph_new.restype = c_void_p
brasa.brasa_graph_error.restype = c_char_p
brasa.brasa_graph_param_total.restype = c_int64
graph, session, loss = c_void_p(brasa.brasa_graph_new(None)), c_void_p(), c_float()


def call(status):
    assert status == 0, brasa.brasa_graph_error(graph).decode()


call(brasa.brasa_model_build(graph, b"mnist_cnn", 0))
assert brasa.brasa_graph_param_total(graph) == 1199882
options = SessionOptions(batch=BATCH, optimizer=b"adam lr=0.002", seed=1)
call(brasa.brasa_session_new(graph, byref(options), byref(session)))

losses = []
for step in range(STEPS):
    labels = [(step * BATCH + i) % 10 for i in range(BATCH)]
    pixels = [float((x * 10 // 28 == label) != (y * 10 // 28 == label)) * random.uniform(0.5, 1)  # a cross
              for label in labels for y in range(28) for x in range(28)]
    call(brasa.brasa_train_step(session, (c_float * len(pixels))(*pixels), (c_int32 * BATCH)(*labels), byref(loss)))
    losses.append(loss.value)

lists = [{e.name.decode(): {f.name.decode(): f for f in walk(brasa.brasa_field_at, Field, c_int32(which), e.name, None)}
          for e in walk(brasa.brasa_entry_at, Entry, c_int32(which))} for which in range(4)]
layers, optimizers, schedules, dialects = lists
inputs, outputs = ({v.name.decode(): v for v in walk(call, Value, session)}
                   for call in (brasa.brasa_session_input_at, brasa.brasa_session_output_at))
nodes = walk(brasa.brasa_graph_node_at, Node, graph)
params = walk(brasa.brasa_graph_param_at, Value, graph)
devices = walk(brasa.brasa_device_at, Device)
checks = {
    "layers": len(layers) > 20 and layers["conv2d"]["channels"].required and layers["conv2d"]["stride"].value == b"1",
    "choices": layers["conv2d"]["init"].choices[0] == b"zero",
    "optimizers": list(optimizers) == ["sgd", "rmsprop", "adadelta", "adam", "adamw"]
                  and optimizers["adam"]["epsilon"].value == b"1e-8",
    "schedules": sorted(schedules["cosine"]) == ["floor", "steps", "warmup"],
    "dialects": list(dialects) == ["torch", "tfkeras", "keras2", "caffe"] and dialects["torch"]["lrn_size"].value == b"5",
    "devices": devices[0].name == b"cpu" and devices[0].about,
    "inputs": {name: shape(v) for name, v in inputs.items()} == {"image": [BATCH, 1, 28, 28], "label": [BATCH]}
              and inputs["label"].classes == 10,
    "outputs": shape(outputs["logits"]) == [BATCH, 10] and shape(outputs["loss"]) == [],
    "nodes": nodes[0].op == b"conv2d" and shape(nodes[0]) == [1, 32, 26, 26] and nodes[0].nin == 3,
    "parameters": sum(p.trainable for p in params) == len(params) == 8,
    "a size": not brasa.brasa_entry_at(0, 0, byref(Entry.from_buffer(bytearray(ctypes.sizeof(Entry))))),
    "the loss falls": sum(losses[-3:]) < 0.5 * sum(losses[:3]),
}
brasa.brasa_session_free(session)
brasa.brasa_graph_free(graph)
print("losses:", *("%.3f" % value for value in losses))
for name, ok in checks.items():
    if not ok:
        print("FAILED:", name)
failed = sum(not ok for ok in checks.values())
print("%d passed, %d failed" % (len(checks) - failed, failed))
raise SystemExit(1 if failed else 0)
