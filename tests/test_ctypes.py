"""Trains mnist_cnn through the shared library with nothing but ctypes, on made-up digits: the loss must fall."""
import ctypes, os, random
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p

BUILD = os.environ.get("BRASA_BUILD", os.path.join(os.path.dirname(__file__), "..", "build"))
BATCH, STEPS = 8, 16


class SessionOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("batch", c_int64), ("optimizer", c_char_p), ("schedule", c_char_p), ("clip_norm", c_double),
                ("seed", c_uint64), ("inference", c_bool), ("plan_only", c_bool), ("precision", c_int32), ("float64", c_bool),
                ("keep_gradients", c_bool), ("no_fusion", c_bool), ("no_inplace", c_bool), ("kernels", c_char_p),
                ("freeze", c_char_p), ("class_weights", c_void_p), ("class_weight_count", c_int32),
                ("micro_batches", c_int64), ("deterministic", c_bool), ("tuning", c_void_p)]


brasa = ctypes.CDLL(os.path.join(BUILD, "libbrasa.so"))
brasa.brasa_graph_new.restype = c_void_p
brasa.brasa_graph_error.restype = c_char_p
brasa.brasa_graph_param_total.restype = c_int64
graph, session, loss = c_void_p(brasa.brasa_graph_new(None)), c_void_p(), c_float()


def call(status):
    assert status == 0, brasa.brasa_graph_error(graph).decode()


call(brasa.brasa_model_build(graph, b"mnist_cnn", 0))
assert brasa.brasa_graph_param_total(graph) == 1199882
options = SessionOptions(size=ctypes.sizeof(SessionOptions), batch=BATCH, optimizer=b"adam lr=0.002", seed=1)
call(brasa.brasa_session_new(graph, byref(options), byref(session)))

losses = []
for step in range(STEPS):
    labels = [(step * BATCH + i) % 10 for i in range(BATCH)]
    pixels = [float((x * 10 // 28 == label) != (y * 10 // 28 == label)) * random.uniform(0.5, 1)  # a cross
              for label in labels for y in range(28) for x in range(28)]
    call(brasa.brasa_train_step(session, (c_float * len(pixels))(*pixels), (c_int32 * BATCH)(*labels), byref(loss)))
    losses.append(loss.value)

brasa.brasa_session_free(session)
brasa.brasa_graph_free(graph)
ok = sum(losses[-3:]) < 0.5 * sum(losses[:3])
print("losses:", *("%.3f" % value for value in losses))
print("1 passed, 0 failed" if ok else "0 passed, 1 failed")
raise SystemExit(0 if ok else 1)
