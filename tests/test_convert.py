"""Weights to and from PyTorch: tools/convert_torchvision.py, and the same logits on both sides for every network that
torchvision has too, with running statistics that are not those of the start.

Needs PyTorch and torchvision: in this Python, or in the one that BRASA_TORCH_PYTHON names.
"""
import ctypes, importlib.util, os, subprocess, sys, tempfile, warnings
from ctypes import byref, c_bool, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint64, c_void_p

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BUILD, SOURCE, check, finish, skip

TOOL = os.path.join(SOURCE, "tools", "convert_torchvision.py")

try:
    import numpy, torch, torchvision
except ImportError:
    other = os.environ.pop("BRASA_TORCH_PYTHON", None)
    if other:
        os.execv(other, [other, *sys.argv])
    skip("test_convert", "no PyTorch with torchvision; BRASA_TORCH_PYTHON may name a Python that has it")
    finish()

# Brasa's name of a network: torchvision's, and what it must be told.
NETWORKS = {"alexnet": ("alexnet", {}), "vgg16": ("vgg16", {}), "resnet18": ("resnet18", {}), "resnet50": ("resnet50", {}),
            "mobilenet_v2": ("mobilenet_v2", {}), "googlenet": ("googlenet", {"aux_logits": False}),
            "googlenet_aux": ("googlenet", {"aux_logits": True})}
CLASSES, BATCH, TOLERANCE = 7, 2, 1e-4


def tool(*words):
    return subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True)


# --- the library, through ctypes ------------------------------------------------------------------------------


class SessionOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("batch", c_int64), ("optimizer", c_char_p), ("schedule", c_char_p), ("clip_norm", c_double),
                ("seed", c_uint64), ("inference", c_bool), ("plan_only", c_bool), ("float64", c_bool),
                ("keep_gradients", c_bool), ("no_fusion", c_bool), ("no_inplace", c_bool), ("kernels", c_char_p),
                ("freeze", c_char_p), ("class_weights", c_void_p), ("class_weight_count", c_int32),
                ("micro_batches", c_int64), ("deterministic", c_bool), ("tuning", c_void_p)]


class ModelInfo(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("summary", c_char_p), ("classes", c_int32), ("input", c_int32 * 3)]


class ParamInfo(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("rank", c_int32), ("shape", c_int64 * 6), ("trainable", c_bool)]


brasa = ctypes.CDLL(os.path.join(BUILD, "libbrasa.so"))
brasa.brasa_graph_new.restype = c_void_p
brasa.brasa_graph_error.restype = c_char_p
brasa.brasa_model_at.restype = brasa.brasa_graph_param_at.restype = c_bool
brasa.brasa_fetch.argtypes = brasa.brasa_feed.argtypes = [c_void_p, c_char_p, c_void_p, ctypes.c_size_t]
brasa.brasa_param_set.argtypes = [c_void_p, c_char_p, c_void_p, c_int64]


def models():
    info, index = ModelInfo(), 0
    while brasa.brasa_model_at(c_int32(index), byref(info)):
        yield info.name.decode()
        index += 1


class Session:
    """A network of Brasa's, for evaluation."""

    def __init__(self, name, seed=0):
        self.graph, self.session = c_void_p(brasa.brasa_graph_new(None)), c_void_p()
        self.call(brasa.brasa_model_build(self.graph, name.encode(), CLASSES))
        options = SessionOptions(size=ctypes.sizeof(SessionOptions), batch=BATCH, seed=seed, inference=True)
        self.call(brasa.brasa_session_new(self.graph, byref(options), byref(self.session)))

    def call(self, status):
        if status != 0:
            raise RuntimeError(brasa.brasa_graph_error(self.graph).decode(errors="replace"))

    def load(self, path):
        self.call(brasa.brasa_session_load(self.session, path.encode(), None, None))

    def save(self, path):
        self.call(brasa.brasa_session_save(self.session, path.encode(), c_int32(0)))

    def buffers(self):
        info, index = ParamInfo(), 0
        while brasa.brasa_graph_param_at(self.graph, c_int32(index), byref(info)):
            if not info.trainable:
                yield info.name, tuple(info.shape[: info.rank])
            index += 1

    def set(self, name, values):
        values = numpy.ascontiguousarray(values, numpy.float32)
        self.call(brasa.brasa_param_set(self.session, name, values.ctypes.data, values.size))

    def logits(self, images):
        out = numpy.zeros((BATCH, CLASSES), numpy.float32)
        self.call(brasa.brasa_feed(self.session, b"image", images.ctypes.data, images.nbytes))
        self.call(brasa.brasa_evaluate(self.session))
        self.call(brasa.brasa_fetch(self.session, b"logits", out.ctypes.data, out.nbytes))
        return out

    def close(self):
        brasa.brasa_session_free(self.session)
        brasa.brasa_graph_free(self.graph)


# --- the tests --------------------------------------------------------------------------------------------------


def same(a, b):
    return a.keys() == b.keys() and all(
        a[key].dtype == b[key].dtype and a[key].shape == b[key].shape and torch.equal(a[key], b[key]) for key in a)


def test_tool(folder):
    """Every type there and back; what is wrong gets one line."""
    path = lambda name: os.path.join(folder, name)
    floats = {"f32": torch.randn(3, 4), "f64": torch.randn(5, dtype=torch.float64), "f16": torch.randn(7).half(),
              "bf16": torch.randn(3, 3).bfloat16(), "scalar": torch.tensor(2.5), "bf16 scalar": torch.tensor(2.5).bfloat16(),
              "empty": torch.zeros(3, 0), "turned": torch.randn(4, 6).t(), "n.num_batches_tracked": torch.tensor(12),
              "last": torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last), "n\u00e4me \"x\"": torch.ones(1)}
    wholes = {"bool": torch.tensor([True, False]), "i32": torch.arange(5, dtype=torch.int32), "u8": torch.ones(2).byte()}
    torch.save({**floats, **wholes}, path("all.pth"))
    first, back = tool(path("all.pth"), path("all.safetensors")), tool(path("all.safetensors"), path("back.pth"))
    check("the tool runs", first.returncode == 0 and back.returncode == 0, first.stderr + back.stderr)
    expected = {**floats, **{key: value.to(torch.int64) for key, value in wholes.items()}}
    got = torch.load(path("back.pth"), weights_only=True)
    check("every type, there and back", same(got, expected), got)
    check("names in their order", list(got) == list(expected), list(got))
    again = tool(path("back.pth"), path("again.safetensors"))
    files = [open(path(name), "rb").read() for name in ("all.safetensors", "again.safetensors")]
    check("the same file again", again.returncode == 0 and files[0] == files[1])

    torch.save({"model": {"w": torch.ones(2)}, "epoch": 3}, path("script.pth"))
    check("a training script's file", tool(path("script.pth"), path("s.safetensors")).returncode == 0)
    open(path("bad.safetensors"), "wb").write(b"\xff" * 20)
    open(path("bad.pth"), "wb").write(b"nothing")
    torch.save({"a": [1, 2]}, path("list.pth"))
    for name in ("bad.safetensors", "bad.pth", "none.pth", "list.pth"):
        r = tool(path(name), path("x.safetensors"))
        check("refused: " + name, r.returncode == 1 and len(r.stderr.splitlines()) == 1 and name in r.stderr, r.stderr)
    check("refused: nothing to read", tool(path("x.safetensors")).returncode == 2)
    check("nothing is left behind", not [f for f in os.listdir(folder) if f.endswith(".tmp") or f.startswith("x.")])


def build(name, seed):
    """torchvision's network with statistics of a batch, and scales and shifts that are not 1 and 0."""
    torch.manual_seed(seed)
    word, options = NETWORKS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(torchvision.models, word)(weights=None, num_classes=CLASSES, **options)
    with torch.no_grad():
        if any(isinstance(m, torch.nn.BatchNorm2d) for m in model.modules()):
            model.train()(torch.randn(BATCH, 3, 224, 224))
        for m in model.modules():
            if isinstance(m, torch.nn.BatchNorm2d):
                m.weight.uniform_(0.5, 1.5)
                m.bias.uniform_(-0.2, 0.2)
    return model.eval()


def torch_logits(model, images):
    with torch.no_grad():
        return model(torch.from_numpy(images)).numpy()


def check_logits(name, got, expected):
    distance = float(numpy.abs(got - expected).max() / numpy.abs(expected).max())
    check(name, distance < TOLERANCE, "off by %g of the largest logit; %s, expected %s" % (distance, got, expected))
    print("%-32s off by %.1e" % (name, distance), flush=True)


def test_network(name, folder):
    random = numpy.random.default_rng(1)
    images = random.standard_normal((BATCH, 3, 224, 224)).astype(numpy.float32)
    pth, st = os.path.join(folder, name + ".pth"), os.path.join(folder, name + ".safetensors")
    model = build(name, 3)

    torch.save(model.state_dict(), pth)
    r = tool(pth, st)
    check("%s: to safetensors" % name, r.returncode == 0, r.stderr)
    session = Session(name)
    session.load(st)
    check_logits("%s from PyTorch" % name, session.logits(images), torch_logits(model, images))
    session.save(st)
    r = tool(st, pth)
    got, expected = torch.load(pth, weights_only=True), model.state_dict()
    for key in expected:
        if key.endswith("num_batches_tracked"):
            expected[key] = torch.tensor(0)  # the steps of a session that has not trained
    check("%s: the same state dict comes back" % name, r.returncode == 0 and same(got, expected), r.stderr)
    session.close()

    session = Session(name, seed=5)
    for buffer, shape in session.buffers():
        low, high = (0.5, 1.5) if buffer.endswith(b"running_var") else (-0.2, 0.2)
        session.set(buffer, random.uniform(low, high, shape))
    session.save(st)
    r = tool(st, pth)
    check("%s: to a state dict" % name, r.returncode == 0, r.stderr)
    model.load_state_dict(torch.load(pth, weights_only=True))  # strict: every name and shape
    check_logits("%s to PyTorch" % name, session.logits(images), torch_logits(model, images))
    session.close()
    os.remove(pth), os.remove(st)


with tempfile.TemporaryDirectory() as folder:
    test_tool(folder)
    for name in [name for name in models() if name in NETWORKS and (len(sys.argv) < 2 or name in sys.argv)]:
        try:
            test_network(name, folder)
        except Exception as error:
            check(name, False, error)
finish()
