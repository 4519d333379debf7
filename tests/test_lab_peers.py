"""The lab's runners: the same outputs of every layer and the same losses in all frameworks that are there, data that
is learnt, and lines that say why where something cannot be done. And the fake peer, which the lab's tests use.

A framework is looked for in the Python that BRASA_NAME_PYTHON names (BRASA_TORCH_PYTHON for PyTorch), in the lab's
own environment (BRASA_PEERS/NAME/bin/python) and in this Python. What is not there is skipped. With words, only the
peers of these names and PyTorch, which the others are compared with.
"""
import json, os, signal, subprocess, sys, tempfile

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools")
sys.path.insert(0, TOOLS)
from checks import SOURCE, check, finish, skip

PEERS = os.path.join(SOURCE, "lab", "peers")
MODULES = {"pytorch": ("torch", "torchvision"), "tensorflow": ("tensorflow", "keras"), "jax": ("jax", "PIL"),
           "mxnet": ("mxnet",), "paddle": ("paddle", "PIL"), "aesara": ("aesara", "PIL"), "singa": ("singa", "PIL"),
           "caffe": ("caffe", "PIL")}
CLASSES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "jax": "Jax", "mxnet": "MXNet", "paddle": "Paddle",
           "aesara": "Aesara", "singa": "Singa", "caffe": "Caffe"}
NAMED = {peer: "BRASA_%s_PYTHON" % (peer.upper() if peer != "pytorch" else "TORCH") for peer in MODULES}
VARIANTS = {"pytorch": ["channels_last"], "mxnet": ["imperative"], "paddle": ["static"]}  # that are compared, too
PARTIAL = ("singa", "caffe")  # lack layers and equations, and say so
TIES = [("aesara", "wide")]  # its gradients of max pooling go to all equal pixels, which pools of pools have

# Many experiments in one process, since importing a framework takes seconds.
MANY = """
import json, runpy, sys
sys.path.insert(0, %r)
import runner
kind = runpy.run_path(%r)[%r]
lines = runner.Lines()
for path in sys.argv[1:]:
    lines.say("start")
    peer = kind()
    if path.endswith("cold.json"):
        peer.warm_test = lambda batches, rest: None
    try:
        runner.run(peer, json.load(open(path)), lines)
    except runner.Refused as why:
        lines.say("refused", why=str(why))
"""

# A peer without a framework: a matrix that learns nothing.
TINY = """
import sys
sys.path.insert(0, %r)
import runner, numpy

class Tiny(runner.Peer):
    framework, variants = "Tiny", ("good", "chatter", "refused", "memory", "text", "error", "nan", "absent")
    epsilon_below_root = True

    def setup(self, e):
        self.e = e
        if e["variant"] == "absent":
            import no_such_framework
        if e["variant"] == "refused":
            raise runner.Refused("no such\\n device")
        if e["variant"] == "chatter":
            print("printed by Python", flush=True)
            import os
            os.system("echo printed by a child")
        return "1", {"threads": e["threads"]}

    def build(self, e, net):
        errors = {"memory": MemoryError(), "text": RuntimeError("DefaultCPUAllocator: can't allocate memory"),
                  "error": ValueError("wrong\\nlines")}
        if e["variant"] in errors:
            raise errors[e["variant"]]
        return 1, 1, 1

    def outputs(self, x, see):
        see("logits", numpy.float32([[3, -1]] * len(x)))

    def params(self):
        return [("conv1.weight", numpy.float32([3, 4]))]

    def loader(self, part):
        return runner.Loader(part, self.e["batch"], self.e["seed"], self.e["threads"])

    def step(self, x, y):
        print("step", len(y), end=";")
        return float("nan") if self.e["variant"] == "nan" else float(len(y))

    def test(self, x, y):
        print("test", len(y), end=";")
        return x.mean(), (y == 0).sum()

    def device_peak(self):
        return 5000 if self.e["device"] == "cuda" else None

    def functions(self, batches):
        if self.e["profile"] == "none":
            return super().functions(batches)
        if self.e["profile"] == "breaks":
            raise KeyError("what")
        return 2, [("short", 0.25, 4), ("never", 0, 0), ("long", 0.75, 2)]

runner.main(Tiny())
"""


# What reading arrays takes at most, beside what it gives; and how far that is from the formula.
ARRAYS = """
import json, sys, tracemalloc
sys.path.insert(0, %r)
import runner, numpy
e = json.load(open(sys.argv[1]))
raw, split = runner.safetensors(e["data"]["file"])["samples"], runner.safetensors(e["split"])
runner.PIECE = 4000
tracemalloc.start()
data = runner.Data(e)
parts = {which: data.part(which).samples() for which in ("train", "test")}
most, kept = tracemalloc.get_traced_memory()[1], sum(part.nbytes for part in parts.values())
mean, std = (numpy.float32(e["data"].get(word, [other])) for word, other in (("mean", 0), ("std", 1)))
wide = (-1,) + (1,) * (raw.ndim - 2)
far = [float(abs((raw[split[which]] * numpy.float32(e["data"].get("scale", 1)) - mean.reshape(wide)) /
                 std.reshape(wide) - part).max()) for which, part in parts.items()]
last = data.part("test").samples(channels_last=True)
far.append(float(abs((last.transpose(0, 3, 1, 2) if last.ndim == 4 else last) - parts["test"]).max()))
print(json.dumps({"event": "read", "share": most / kept, "far": max(far), "type": str(parts["test"].dtype)}))
"""


# What a network that computes layer by layer still holds after each node, and what it must: what a later node reads.
HELD = """
import json, sys
sys.path.insert(0, %r)
import runner
nodes = runner.Network(json.load(open(sys.argv[1]))).nodes
values, wrong, most = {"image": "image"}, [], 0
for i, node in enumerate(nodes):
    read = [values[name] for name in node.inputs]
    given = runner.inputs_of(node, values)
    values[node.output] = node.output
    needed = {name for later in nodes[i + 1:] for name in later.inputs} & ({n.output for n in nodes[:i + 1]} | {"image"})
    wrong += [node.name] if given != read or set(values) - {nodes[-1].output} != needed else []
    most = max(most, len(values))
print(json.dumps({"event": "held", "wrong": wrong, "most": most, "nodes": len(nodes)}))
"""


def has(python, modules):
    ask = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, %r)))" % (modules,)
    try:
        return subprocess.run([python, "-c", ask], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def find(peer):
    """A Python that has the framework, or None."""
    lab = os.environ.get("BRASA_PEERS")
    places = [os.environ.get(NAMED[peer]), lab and os.path.join(lab, peer, "bin", "python"), sys.executable]
    return next((p for p in places if p and has(p, MODULES[peer] + ("numpy",))), None)


def run(python, *words, seconds=300):
    """Exit status, lines, standard error. What is no line of JSON comes as {"event": None}."""
    process = subprocess.Popen([python, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    return process.returncode, [read(line) for line in out.splitlines()], err.decode(errors="replace")[-1500:]


def read(line):
    try:
        made = json.loads(line.decode(), parse_constant=lambda word: 1 / 0)
        return made if isinstance(made, dict) else {"event": None}
    except (ValueError, ZeroDivisionError):
        return {"event": None}


def of(lines, event):
    return [line for line in lines if line["event"] == event]


def last(lines):
    return lines[-1]["event"] if lines else ""


# --- the fake peer --------------------------------------------------------------------------------------------------


def fake(folder, variant, mode="train", **more):
    path = os.path.join(folder, "fake.json")
    with open(path, "w") as file:
        json.dump(dict(more, mode=mode, variant=variant), file)
    return run(sys.executable, os.path.join(TOOLS, "fake_peer.py"), path, seconds=0.7 if variant == "hang" else 60)


def test_fake(folder):
    status, lines, _ = fake(folder, "good", epochs=3)
    check("fake: good", status == 0 and last(lines) == "done" and len(of(lines, "epoch")) == 3, lines)
    status, lines, _ = fake(folder, "good", mode="check")
    check("fake: check", status == 0 and len(of(lines, "loss")) == 3 and of(lines, "output"), lines)
    for variant, expected, end in (("refused", 0, "refused"), ("failed", 1, "failed"), ("memory_failed", 1, "failed"),
                                   ("exit3", 3, "done"), ("early", 0, "built"), ("nothing", 0, ""),
                                   ("garbage", 0, None), ("halfline", 0, None), ("crash", -signal.SIGSEGV, "built"),
                                   ("killed", -signal.SIGKILL, "built"), ("hang", -signal.SIGKILL, "built"),
                                   ("stderr", 0, "done")):
        status, lines, said = fake(folder, variant)
        check("fake: " + variant, status == expected and last(lines) == end, (status, lines[-2:], said))
    check("fake: nan", None in [line["event"] for line in fake(folder, "nan")[1]])


# --- what runners share ---------------------------------------------------------------------------------------------


def test_protocol(python, folder, exchange):
    script = os.path.join(folder, "tiny.py")
    with open(script, "w") as file:
        file.write(TINY % PEERS)

    def tiny(mode="check", **more):
        return run(python, script, exchange.experiment(mode, **more))

    status, lines, said = tiny()
    kinds = [line["event"] for line in lines]
    check("check: order", status == 0 and kinds == ["start", "imported", "built", "batch", "output", "loss", "param",
                                                    "batch", "loss", "batch", "loss", "param", "done"], (kinds, said))
    check("nothing is said of an epsilon", "epsilon" not in of(lines, "imported")[0]["detail"], lines)
    for dialect, told in (("keras2", "1e-14 below the root, for 1e-07 added to it"), ("tfkeras", None)):
        rmsprop = {"name": "rmsprop", "dialect": dialect, "epsilon": 1e-7}
        _, said_of, _ = tiny(optimizer=rmsprop)
        check("epsilon of " + dialect, of(said_of, "imported")[0]["detail"].get("epsilon") == told, said_of)
    check("check: clock", all(a["at"] <= b["at"] for a, b in zip(lines, lines[1:])))
    out, param = of(lines, "output")[0], of(lines, "param")[0]
    check("mean and rms", out["mean"] == 1 and abs(out["rms"] - 5 ** 0.5) < 1e-12 and out["shape"] == [2]
          and param["mean"] == 3.5 and abs(param["rms"] - 12.5 ** 0.5) < 1e-12, (out, param))
    first = of(lines, "batch")[0]
    check("the batch as fed", first["labels"] == exchange.batches["labels.0"].tolist()
          and abs(first["sum"] - float(abs(exchange.batches["samples.0"].astype("float64")).sum())) < 1e-9, first)
    status, lines, said = tiny(variant="chatter")
    check("lines alone", status == 0 and None not in [line["event"] for line in lines] and "printed by Python" in said
          and "printed by a child" in said, (lines, said))
    for variant, expected, event, why, kind in (
            ("refused", 0, "refused", "no such device", None), ("memory", 1, "failed", "MemoryError", "memory"),
            ("text", 1, "failed", "can't allocate", "memory"),
            ("error", 1, "failed", "ValueError: wrong lines", "error"),
            ("absent", 0, "refused", "no_such_framework", None), ("other", 0, "refused", "no variant 'other'", None)):
        status, lines, said = tiny(variant=variant)
        check("tells: " + variant, status == expected and last(lines) == event and why in lines[-1]["why"]
              and lines[-1].get("kind") == kind, (status, lines, said))
    check("tells: precision", last(tiny(precision="bf16")[1]) == "refused")
    status, lines, said = run(python, script, os.path.join(folder, "no such file"))
    check("tells: no file", status == 1 and [line["event"] for line in lines] == ["start", "failed"], (status, lines))
    losses = [line["loss"] for line in of(tiny(variant="nan")[1], "loss")]
    check("no NaN in JSON", losses == [None] * 3, losses)
    test_loop(tiny, exchange)


def test_arrays(python, *exchanges):
    """Every sample once, as a float: the peak of a run must not be what the runner copies."""
    for exchange in exchanges:
        path = exchange.experiment("train", data=exchange.arrays(2000, 900))
        status, lines, said = run(python, "-c", ARRAYS % PEERS, path)
        read = (of(lines, "read") or [{}])[0]
        check("arrays of " + exchange.name, read and read["far"] < 1e-5 and read["type"] == "float32", (read, said))
        check("memory of " + exchange.name, read and read["share"] < 1.8, (read, said))


def test_held(python, *exchanges):
    """Values are let go where a network that is written by hand lets them go: held longer, they cost Paddle 7 %."""
    for exchange in exchanges:
        status, lines, said = run(python, "-c", HELD % PEERS, exchange.experiment("check"))
        held = (of(lines, "held") or [{}])[0]
        check("values that are held in " + exchange.name,
              held and not held["wrong"] and held["most"] < held["nodes"], (held, said))


def test_loop(tiny, exchange):
    status, lines, said = tiny("train", data=exchange.arrays(10, 5), warmup_steps=3, epochs=2)
    phases = [(line["phase"], line["epoch"]) for line in of(lines, "phase")]
    check("phases", phases == [("load", 0), ("first_step", 0), ("warmup", 0), ("epoch", 1), ("evaluation", 1),
                               ("epoch", 2), ("evaluation", 2)], (status, phases, said))
    epoch, test = of(lines, "epoch"), of(lines, "evaluation")
    check("epochs", [(e["epoch"], e["images"], e["steps"]) for e in epoch] == [(1, 10, 3), (2, 10, 3)], epoch)
    check("the mean loss counts images", abs(epoch[0]["loss"] - (4 * 4 + 4 * 4 + 2 * 2) / 10) < 1e-9, epoch[0])
    check("evaluation", [t["images"] for t in test] == [5, 5] and test[0]["loss"] == test[1]["loss"], test)
    warm, epoch_of = "test 4;test 1;", "step 4;step 4;step 2;test 4;test 1;"
    check("an evaluation before they are timed", "step 4;" * 3 + warm + epoch_of * 2 in said, said)
    _, lines, said = tiny("train", data=exchange.arrays(10, 5), epochs=1)
    phases = [line["phase"] for line in of(lines, "phase")]
    check("also without a warm-up", warm + epoch_of in said and phases == ["load", "warmup", "epoch", "evaluation"],
          (phases, said))
    check("of the only batch", "test 3;step 4" in tiny("train", data=exchange.arrays(10, 3), epochs=1)[2])
    _, lines, _ = tiny("train", data=exchange.arrays(10, 0), epochs=1)
    check("no test part, no warm-up", not of(lines, "evaluation") and not of(lines, "first_step")
          and last(lines) == "done", lines)
    check("no memory of a GPU, no profile", "device_peak" not in of(lines, "epoch")[0] and not of(lines, "profile"), lines)
    _, lines, said = tiny("train", data=exchange.arrays(10, 0), epochs=1, device="cuda", profile="told")
    check("memory of a GPU", of(lines, "epoch")[0].get("device_peak") == 5000, (lines, said))
    check("functions, the longest first", of(lines, "profile")[0]["steps"] == 2 and of(lines, "profile")[0]["seconds"] == 1
          and [(f["name"], f["seconds"], f["calls"]) for f in of(lines, "function")] ==
          [("long", 0.75, 2), ("short", 0.25, 4)] and of(lines, "phase")[-1]["phase"] == "profile", (lines, said))
    for kind, why in (("none", "this runner has no profile of Tiny"), ("breaks", "KeyError: 'what'")):
        _, lines, said = tiny("train", data=exchange.arrays(10, 0), epochs=1, profile=kind)
        check("no profile: " + kind, of(lines, "profile")[0].get("why") == why and last(lines) == "done", (lines, said))


# --- frameworks -----------------------------------------------------------------------------------------------------

O = {"name": "sgd", "dialect": "torch", "lr": 0.1, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0,
     "decay": 0.0}
M = dict(O, name="rmsprop", lr=0.01, rho=0.9, epsilon=1e-3)
A = dict(O, name="adam", lr=0.02, beta1=0.8, beta2=0.9, epsilon=1e-2)
D = dict(O, name="adadelta", lr=1, rho=0.9, epsilon=1e-3)
OPTIMIZERS = [  # settings, and who refuses them
    (O, ""), (dict(O, momentum=0.9), ""), (dict(O, momentum=0.9, dialect="keras2"), ""),
    (dict(O, momentum=0.9, nesterov=True), ""), (dict(O, momentum=0.9, nesterov=True, dialect="keras2"), ""),
    (dict(O, decay=0.5), ""), (dict(O, momentum=0.9, decay=0.5), "tensorflow mxnet"),
    (dict(O, momentum=0.9, decay=0.5, dialect="keras2"), "pytorch paddle"),
    (dict(O, momentum=0.9, nesterov=True, decay=0.5), "tensorflow mxnet"),
    (dict(O, momentum=0.9, nesterov=True, decay=0.5, dialect="keras2"), "pytorch paddle"),
    (dict(O, weight_decay=0.1, momentum=0.5), "tensorflow"),
    (dict(O, weight_decay=0.1, momentum=0.5, dialect="tfkeras"), "pytorch mxnet paddle"),
    (M, "mxnet paddle"), (dict(M, dialect="keras2", momentum=0.5), "mxnet paddle"),
    (dict(M, dialect="keras2", epsilon=1e-7), ""), (dict(M, dialect="keras2", epsilon=1e-7, momentum=0.5), "mxnet"),
    (dict(M, dialect="tfkeras"), "pytorch"), (dict(M, dialect="tfkeras", momentum=0.5), "pytorch mxnet"),
    (D, ""), (dict(D, dialect="keras2"), ""),
    (A, ""), (dict(A, dialect="keras2"), ""), (dict(A, dialect="tfkeras"), ""),
    (dict(A, name="adamw", weight_decay=0.1), "mxnet"),
    (dict(A, name="adamw", weight_decay=0.1, dialect="tfkeras"), "mxnet"),
]


def many(peer, python, paths):
    """The lines of each experiment, all in one process."""
    status, lines, said = run(python, "-c", MANY % (PEERS, os.path.join(PEERS, peer + ".py"), CLASSES[peer]), *paths)
    groups = []
    for line in lines:
        if line["event"] == "start":
            groups.append([])
        groups[-1].append(line)
    check("%s: %d experiments" % (peer, len(paths)), status == 0 and len(groups) == len(paths),
          (status, lines[-1:], said))
    return groups + [[]] * (len(paths) - len(groups))


def test_optimizers(peer, python, exchange):
    from lab_oracle import losses
    paths = [exchange.experiment("check", "o%d.json" % i, optimizer=o) for i, (o, _) in enumerate(OPTIMIZERS)]
    for (o, refused), lines in zip(OPTIMIZERS, many(peer, python, paths)):
        name = "%s: %s" % (peer, " ".join("%s=%s" % pair for pair in sorted(o.items()) if pair[1]))
        if peer in PARTIAL and last(lines) == "refused":
            continue
        if peer in refused.split():
            check(name, last(lines) == "refused" and o["dialect"] in lines[-1]["why"], lines[-1:])
            continue
        got, expected = [line["loss"] for line in of(lines, "loss")], losses(exchange, o)
        near = len(got) == 3 and all(abs(a - b) < 2e-5 * b for a, b in zip(got, expected))
        check(name, near, (got, expected, lines[-1:]))


# Of three steps; PyTorch 2.15, TensorFlow 2.21 and JAX 0.10 agreed on them, PyTorch and Caffe 1.0 on the last.
LOSSES = {"wide": [1.02769, 1.78116, 1.57306], "small": [2.00117, 1.56896, 2.23387],
          "classic": [2.01577, 2.18380, 2.48891]}


def compare(name, network, lines, reference, steps=3):
    """Lines against what the network says, and against another peer's."""
    out = of(lines, "output")
    shapes = [(line["node"], line["shape"]) for line in out]
    check(name + ": nodes", shapes == [(node["name"], node["shape"]) for node in network.net.nodes], shapes)
    count = sum(a.size for what, a in network.net.weights.items() if "running" not in what)
    layers = sum(node["op"] in ("conv2d", "dense") for node in network.net.nodes)
    built = (of(lines, "built") or [{}])[0]
    check(name + ": size", (built.get("parameters"), built.get("layers")) == (count, layers), (built, count, layers))
    names = {line["name"] for line in of(lines, "param")}
    check(name + ": parameters", names == {what for what in network.net.weights if "running" not in what}, names)
    for mine, theirs in zip(out, of(reference, "output")):
        far = max(abs(mine[key] - theirs[key]) for key in ("mean", "rms")) / (theirs["rms"] + 1e-9)
        check("%s: %s" % (name, mine["node"]), far < 1e-4, (mine, theirs))
    pairs = list(zip(of(lines, "loss"), of(reference, "loss")))
    check(name + ": losses", len(pairs) == 3 and all(
        abs(a["loss"] - b["loss"]) < 1e-3 * b["loss"] for a, b in pairs[:steps]), pairs)
    known = LOSSES[network.name]
    near = all(abs(mine["loss"] - loss) < 1e-4 * loss for (mine, _), loss in zip(pairs[:steps], known))
    check(name + ": known losses", near, (pairs, known))


def test_precisions(peer, python, network, plain):
    """bf16 is near to what f32 gives, and not the same; a processor has no tf32; what is not there is told."""
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE"  # some virtual machines name instructions that they do not have
    lines, tf32, cuda = many(peer, python, [network.experiment("check", "p%d.json" % i, **change) for i, change in enumerate(
        ({"precision": "bf16"}, {"precision": "tf32"}, {"device": "cuda"}))])
    del os.environ["ONEDNN_MAX_CPU_ISA"]
    far = [max(abs(a[key] - b[key]) for key in ("mean", "rms")) / (b["rms"] + 1e-9)
           for a, b in zip(of(lines, "output"), of(plain, "output"))]
    check(peer + ": layers in bf16", far and 1e-4 < max(far) < 3e-2, (far, lines[-1:]))
    losses = [(a["loss"], b["loss"]) for a, b in zip(of(lines, "loss"), of(plain, "loss"))]
    check(peer + ": losses in bf16", len(losses) == 3 and abs(losses[0][0] - losses[0][1]) < 2e-2 * losses[0][1], losses)
    check(peer + ": says how", "float32" in (of(lines, "imported") or [{"detail": {}}])[0]["detail"].get("precision", ""),
          lines[:2])
    check(peer + ": no tf32 here", last(tf32) == "refused" and "tf32 is for GPUs" in tf32[-1]["why"], tf32[-1:])
    if last(cuda) == "refused":
        check(peer + ": why there is no GPU", any(
            text in cuda[-1]["why"] for text in ("is a CPU build: ", "sees no GPU")), cuda[-1:])
    else:
        compare(peer + " on the GPU", network, cuda, plain)


def test_profile(peer, python, small):
    path = small.experiment("train", "f.json", data=small.arrays(40, 0), epochs=1, batch=8, profile=True)
    status, lines, said = run(python, os.path.join(PEERS, peer + ".py"), path)
    told, found = of(lines, "profile"), of(lines, "function")
    if peer == "pytorch":
        check("pytorch: functions", status == 0 and told[0]["steps"] == 5 and len(found) > 5 and any(
            "convolution" in f["name"] for f in found) and sum(f["seconds"] for f in found) <= told[0]["seconds"] + 1e-9,
              (status, lines[-3:], said))
    else:
        check(peer + ": why there is no profile", status == 0 and told[0].get("why") and not found, (status, lines[-3:], said))


def test_evaluation(peer, python, network):
    """The evaluation that is not timed changes no weights, no running statistics, and nothing that is drawn."""
    e = dict(data=network.arrays(40, 11), epochs=2, optimizer=O)
    warm, cold = many(peer, python, [network.experiment("train", name, **e) for name in ("warm.json", "cold.json")])
    if peer in PARTIAL and last(warm) == "refused":
        return
    figures = [[line["loss"] for line in of(lines, "epoch") + of(lines, "evaluation")] for lines in (warm, cold)]
    check(peer + ": a warm evaluation", len(figures[0]) == len(figures[1]) == 4 and all(
        abs(a - b) < 1e-4 * abs(b) for a, b in zip(*figures)), (figures, warm[-1:], cold[-1:]))


def test_learning(peer, python, small, table):
    from small_data import png
    e = dict(optimizer=dict(O, lr=0.02, momentum=0.9), batch=8)
    paths = [small.experiment("train", "a.json", data=small.arrays(200, 61), epochs=4, warmup_steps=2, **e)]
    paths.append(table.experiment("train", "t.json", data=table.arrays(200, 61), epochs=4, **e))
    for name, lines in zip(("arrays", "numbers"), many(peer, python, paths)):
        epochs, tests = of(lines, "epoch"), of(lines, "evaluation")
        check("%s: %s are learnt" % (peer, name), len(epochs) == len(tests) == 4 and tests[-1]["accuracy"] > 0.8
              and epochs[-1]["loss"] < epochs[0]["loss"] and (epochs[0]["images"], epochs[0]["steps"]) == (200, 25)
              and tests[0]["images"] == 61, (epochs, tests, lines[-1:]))
    data = small.pictures(11, 4, png)
    status, lines, said = run(python, os.path.join(PEERS, peer + ".py"),
                              small.experiment("train", "p.json", data=data, epochs=1, warmup_steps=1, **e))
    epochs, tests = of(lines, "epoch"), of(lines, "evaluation")
    check(peer + ": pictures", status == 0 and last(lines) == "done" and epochs[0]["images"] == 11
          and epochs[0]["steps"] == 2 and tests[0]["images"] == 4 and of(lines, "first_step"), (status, lines, said))


def test_flags(python, table):
    """Without a compiler Aesara would be refused: the user's flags are not among the runner's."""
    os.environ["AESARA_FLAGS"] = "cxx="
    lines = many("aesara", python, [table.experiment("check", "g.json")])[0]
    del os.environ["AESARA_FLAGS"]
    check("aesara: no flags of the user", last(lines) == "done", lines[-1:])


def test_frameworks(folder):
    from lab_exchange import Exchange
    networks = {name: Exchange(os.path.join(folder, name), name) for name in ("small", "wide", "classic", "table")}
    test_protocol(sys.executable, folder, networks["small"])
    test_arrays(sys.executable, networks["small"], networks["table"])
    test_held(sys.executable, *networks.values())
    reference, asked = {}, [peer for peer in MODULES if peer == "pytorch" or peer in (sys.argv[1:] or MODULES)]
    for peer in asked:
        python = find(peer)
        if not python:
            skip(peer, "not in this Python, nor in the lab's; %s may name one that has it" % NAMED[peer])
            continue
        runs = [(name, "") for name in ("wide", "small", "classic")]
        runs += [("wide", variant) for variant in VARIANTS.get(peer, [])]
        paths = [networks[name].experiment("check", "c%s.json" % variant, variant=variant) for name, variant in runs]
        for (name, variant), lines in zip(runs, many(peer, python, paths)):
            title, known = " ".join([peer, name, variant]).rstrip(), reference.setdefault(name, lines)
            if peer in PARTIAL and last(lines) == "refused":
                skip(title, lines[-1]["why"])
                continue
            compare(title, networks[name], lines, known, 1 if (peer, name) in TIES else 3)
        if peer in ("pytorch", "tensorflow", "jax"):
            test_precisions(peer, python, networks["wide"], reference["wide"])
            test_profile(peer, python, networks["small"])
        if peer == "aesara":
            test_flags(python, networks["table"])
        test_optimizers(peer, python, networks["table"])
        test_evaluation(peer, python, networks["wide"])
        test_learning(peer, python, networks["small"], networks["table"])


def main():
    with tempfile.TemporaryDirectory() as folder:
        if has(sys.executable, ("numpy",)):
            test_frameworks(folder)
        test_fake(folder)


if __name__ == "__main__":
    if not has(sys.executable, ("numpy",)):
        other = os.environ.pop(NAMED["pytorch"], None)
        if other:
            os.execv(other, [other] + sys.argv)
        skip("the runners", "no numpy in this Python; BRASA_TORCH_PYTHON may name one with PyTorch")
    main()
    finish()
