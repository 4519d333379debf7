"""brasa lab runner from outside: lines of JSON and nothing else on standard output, exit codes, what it refuses."""
import json, os, struct, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, BUILD, check, finish, skip

NODES = [{"name": "a", "op": "dense", "inputs": ["image"], "output": "a", "shape": [3],
          "settings": {"features": 3, "bias": True}, "params": {"weight": "a.weight", "bias": "a.bias"}},
         {"name": "r", "op": "relu", "inputs": ["a"], "output": "r", "shape": [3], "settings": {}, "params": {}},
         {"name": "b", "op": "dense", "inputs": ["r"], "output": "logits", "shape": [2],
          "settings": {"features": 2, "bias": False}, "params": {"weight": "b.weight"}}]
NETWORK = {"name": "hand", "dialect": "torch", "classes": 2, "parameters": 15, "input": [2], "nodes": NODES}
A, A_BIAS, B = [1.0, 2.0, -1.0, 1.0, 0.5, -0.5], [0.0, 1.0, 0.25], [1.0, 0.0, 2.0, -1.0, 1.0, 0.5]
X, Y = [1.0, 2.0, -1.0, 0.5], [0, 1]


def write_tensors(path, tensors):
    """name -> (type, shape, numbers)"""
    header, data = {}, b""
    for name, (kind, shape, numbers) in tensors.items():
        piece = struct.pack("<%d%s" % (len(numbers), {"F32": "f", "I32": "i"}[kind]), *numbers)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write_experiment(**changes):
    with open("network.json", "w") as file:
        json.dump(NETWORK, file)
    write_tensors("weights.safetensors", {"a.weight": ("F32", [3, 2], A), "a.bias": ("F32", [3], A_BIAS),
                                          "b.weight": ("F32", [2, 3], B)})
    write_tensors("batches.safetensors", {"%s.%d" % (what, k): (kind, shape, numbers) for k in range(3) for
                                          what, kind, shape, numbers in
                                          [("samples", "F32", [2, 2], X), ("labels", "I32", [2], Y)]})
    e = {"format": 1, "mode": "check", "peer": "brasa", "variant": "", "network": "hand",
         "graph": os.path.abspath("network.json"), "weights": os.path.abspath("weights.safetensors"), "batch": 2,
         "epochs": 1, "threads": 1, "device": "cpu", "precision": "f32", "seed": 1, "steps": 3,
         "optimizer": {"name": "sgd", "dialect": "torch", "lr": 0.5, "momentum": 0, "nesterov": False},
         "batches": os.path.abspath("batches.safetensors")}
    e.update(changes)
    with open("experiment.json", "w") as file:
        json.dump(e, file)


def run(*words):
    """Exit code and lines; anything that is no JSON on standard output fails."""
    r = subprocess.run([BRASA, "lab", "runner", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    try:
        lines = [json.loads(line) for line in r.stdout.splitlines()]
    except ValueError as error:
        check("lines of " + " ".join(words), False, (error, r.stdout))
        lines = []
    check("every line has its event and time", all("event" in l and l["at"] > 0 for l in lines) and lines, r.stdout)
    return r.returncode, lines, r.stderr


def test_check():
    write_experiment()
    code, lines, said = run("experiment.json")
    events = [l["event"] for l in lines]
    check("check mode", code == 0 and not said and events[:3] == ["start", "imported", "built"] and events[-1] == "done",
          (code, events, said))
    built = lines[events.index("built")]
    check("built", built["parameters"] == 15 and built["layers"] == 2, built)
    check("the order of a step", events[3:9] == ["batch", "output", "output", "output", "loss", "param"], events)
    check("outputs", [(l["node"], l["shape"]) for l in lines if l["event"] == "output"] ==
          [("a", [3]), ("r", [3]), ("b", [2])], lines)
    rows = [[sum(A[2 * i + k] * x[k] for k in range(2)) + A_BIAS[i] for i in range(3)] for x in (X[:2], X[2:])]
    hidden = [[max(0, v) for v in row] for row in rows]
    logits = [[sum(B[3 * i + k] * h[k] for k in range(3)) for i in range(2)] for h in hidden]
    flat = [v for row in logits for v in row]
    last = [l for l in lines if l["event"] == "output"][-1]
    check("the numbers of an output", abs(last["mean"] - sum(flat) / 4) < 1e-6 and
          abs(last["rms"] - (sum(v * v for v in flat) / 4) ** 0.5) < 1e-6, (last, flat))
    check("the batch", lines[3]["labels"] == Y and abs(lines[3]["sum"] - sum(map(abs, X))) < 1e-9, lines[3])
    losses = [l["loss"] for l in lines if l["event"] == "loss"]
    check("it learns", len(losses) == 3 and losses[2] < losses[0], losses)
    check("parameters of the first and the last step", [(l["step"], l["name"]) for l in lines if l["event"] == "param"] ==
          [(k, n) for k in (0, 2) for n in ("a.weight", "a.bias", "b.weight")], lines)


def test_refusals():
    os.environ["BRASA_BACKENDS"] = os.getcwd()  # where there is none, whatever the machine has
    for change, why in [({"device": "cuda"}, "there is no brasa_cuda.so in"), ({"precision": "bf16"}, "is for GPUs"),
                        ({"device": "tpu"}, "tpu"), ({"variant": "channels_last"}, "no such variant")]:
        write_experiment(**change)
        code, lines, said = run("experiment.json")
        check("refused: %s" % change, code == 0 and lines[-1]["event"] == "refused" and why in lines[-1]["why"],
              (code, lines, said))
    del os.environ["BRASA_BACKENDS"]


def test_variants():
    for variant, kernels, pictures in [("plain", "", "decoded once"), ("untuned", "the first that fit", "decoded once"),
                                       ("decoding", "", "decoded in every epoch")]:
        write_experiment(variant=variant)
        code, lines, said = run("experiment.json")
        detail = next((line["detail"] for line in lines if line["event"] == "imported"), {})
        check(variant, code == 0 and kernels in detail["kernels"] and pictures in detail["pictures"], (code, detail, said))


def test_failures():
    rows = [({"graph": "/nowhere/network.json"}, "/nowhere/network.json"), ({"weights": ""}, "No such file"),
            ({"optimizer": {"name": "sgdd", "lr": 1}}, "did you mean 'sgd'"), ({"steps": 4}, "samples.3"),
            ({"mode": "look"}, "expected check or train"), ({"threads": 5000}, "out of range"),
            ({"mode": "train", "split": "x", "data": {"source": "synth:leter"}}, "there is no 'leter'")]
    for change, why in rows:
        write_experiment(**change)
        code, lines, said = run("experiment.json")
        check("failed: %s" % change, code == 1 and lines[-1]["event"] == "failed" and lines[-1]["kind"] == "error" and
              why in lines[-1]["why"], (code, lines[-1:], said))
    code, lines, said = run("nowhere.json")
    check("no file", code == 1 and lines[-1]["event"] == "failed" and "nowhere.json" in lines[-1]["why"], (lines, said))
    with open("half.json", "w") as file:
        file.write('{"format":1,"mode":"check","pe')
    code, lines, said = run("half.json")
    check("half a file", code == 1 and lines[-1]["event"] == "failed" and "half.json" in lines[-1]["why"], (lines, said))


DIGITS = {"name": "digits", "dialect": "torch", "classes": 10, "parameters": 7850, "input": [1, 28, 28],
          "nodes": [{"name": "f", "op": "flatten", "inputs": ["image"], "output": "f", "shape": [784], "settings": {}, "params": {}},
                    {"name": "b", "op": "dense", "inputs": ["f"], "output": "logits", "shape": [10],
                     "settings": {"features": 10, "bias": True}, "params": {"weight": "b.weight", "bias": "b.bias"}}]}


def train(device, **changes):
    """The lines of a training on pictures: 90 to train on, 40 to test on."""
    write_experiment(mode="train", device=device, graph=os.path.abspath("digits.json"), weights=os.path.abspath("start.safetensors"),
                     split=os.path.abspath("split.safetensors"), batch=20, epochs=3, profile=True,
                     data={"source": "synth:digits,n=130", "transform": "flip=horizontal mean=0.2 std=0.4"},
                     optimizer={"name": "sgd", "dialect": "torch", "lr": 0.01, "momentum": 0.9, "nesterov": False}, **changes)
    code, lines, said = run("experiment.json")
    check("trained on %s" % device, code == 0 and lines[-1]["event"] == "done", (code, lines[-1:], said))
    return {name: [l for l in lines if l["event"] == name] for name in ("epoch", "evaluation", "first_step", "function", "phase")}


def test_train():
    """On the CPU, and on a device that does everything as late as it may: what is told is the same."""
    with open("digits.json", "w") as file:
        json.dump(DIGITS, file)
    write_tensors("start.safetensors", {"b.weight": ("F32", [10, 784], [0.001 * (i % 17 - 8) for i in range(7840)]),
                                        "b.bias": ("F32", [10], [0.0] * 10)})
    write_tensors("split.safetensors", {"train": ("I32", [90], list(range(90))), "test": ("I32", [40], list(range(90, 130)))})
    os.environ["BRASA_ISA"] = "ref"
    for warmup in (0, 3):
        here = train("cpu", warmup_steps=warmup)
        check("epochs", [(e["images"], e["steps"]) for e in here["epoch"]] == [(90, 5)] * 3 and
              here["epoch"][2]["loss"] < here["epoch"][0]["loss"] and "device_peak" not in here["epoch"][0], here["epoch"])
        check("evaluations", [e["images"] for e in here["evaluation"]] == [40] * 3, here["evaluation"])
        check("one first step, and which functions took the time", len(here["first_step"]) == 1 and here["function"], here)
        if not os.path.exists(os.path.join(BUILD, "tests", "fake", "brasa_cuda.so")):
            skip("training on a device", "this build has no stand-in for one")
            continue
        for copies in ("late", "early"):
            os.environ.update(BRASA_BACKENDS=os.path.join(BUILD, "tests", "fake"), FAKE_CUDA_COPIES=copies)
            there = train("cuda", warmup_steps=warmup)
            for what in ("epoch", "evaluation"):
                check("%s figures on a device, copied %s" % (what, copies), len(there[what]) == 3 and
                      all(a["images"] == b["images"] and abs(a["loss"] - b["loss"]) < 1e-4 and a["accuracy"] == b["accuracy"]
                          for a, b in zip(here[what], there[what])), (here[what], there[what]))
            check("phases", [l["phase"] for l in there["phase"]] == [l["phase"] for l in here["phase"]], there["phase"])
            check("pictures are in its memory", there["epoch"][0]["device_peak"] > (130 + 2 * 20) * 784 + 2 * 4 * 7850, there["epoch"])
            del os.environ["BRASA_BACKENDS"], os.environ["FAKE_CUDA_COPIES"]
    del os.environ["BRASA_ISA"]


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    test_check()
    test_refusals()
    test_variants()
    test_failures()
    test_train()
    os.chdir("/")
finish()
