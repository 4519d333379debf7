"""The program from outside: every verb, its help, its JSON, and one clear line for everything that can be wrong."""
import json, os, pty, re, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, SOURCE, check, finish

VERBS = ["models", "train", "eval", "predict", "runs", "explain", "plan", "bench step", "bench ops", "bench peak", "data info", "data make",
         "data get", "lab peers", "lab install", "lab run", "lab report", "lab list", "lab reference", "lab runner", "dialects", "doctor", "help"]
NET = "input 1 8 8\nconv 4 3x3 name=c1\nrelu\nflatten\ndense 5\nrelu\nclassify 3\n"


def run(*words, env=None, **how):
    how.setdefault("stdout", subprocess.PIPE)
    environment = dict(os.environ, **(env or {}))
    return subprocess.run([BRASA, *words], stderr=subprocess.PIPE, text=True, timeout=500, env=environment, **how)


def works(*words):
    r = run(*words)
    check(" ".join(words), r.returncode == 0 and r.stdout and not r.stderr, (r.returncode, r.stdout, r.stderr))
    return r.stdout


def gives(*words):
    """What the verb says as JSON."""
    text = works(*words, "--json")
    try:
        return json.loads(text)
    except ValueError as error:
        check("JSON of " + " ".join(words), False, error)
        return {}


def refuses(code, part, *words):
    """One line on standard error that holds `part`, nothing on standard output."""
    r = run(*words)
    lines = r.stderr.splitlines()
    ok = r.returncode == code and not r.stdout and len(lines) == 1 and lines[0].startswith("brasa: ") and part in lines[0]
    check("refused: " + " ".join(words), ok, (r.returncode, r.stdout[:200], r.stderr))


def test_help():
    check("version", works("--version").startswith("brasa 0."))
    text = works("--help")
    check("all verbs are listed", all("  %s " % verb in text for verb in VERBS), text)
    check("help is --help", works("help") == text and works("-h") == text)
    for verb in VERBS:
        page = works(*verb.split(), "--help")
        check("page of " + verb, "usage: brasa " + verb in page and "examples:" in page, page)
        check("-h of " + verb, works(*verb.split(), "-h") == page)
        if verb != "models":  # `help models` is about the networks, not the verb
            check("help " + verb, works("help", *verb.split()) == page)
    for verb, text in (("lab install", "cpu or cuda (cuda where there is a GPU)"), ("lab run", "--out FILE"),
                       ("lab run", "--resume CAMPAIGN"), ("lab report", "--out FILE"), ("train", "--out DIR"),
                       ("train", "cuda:N")):
        check("%s says what it takes: %s" % (verb, text), text in " ".join(works(*verb.split(), "--help").split()))
    check("bench --help shows both", works("bench", "--help") == works("help", "bench"))
    layers = works("help", "layers")
    for word in ("conv2d or conv", "dense features", "maxpool", "batchnorm", "dropout", "concat", "classify classes"):
        check("layer " + word, "\n" + word in layers, layers)
    optimizers = works("help", "optimizers")
    for word in ("sgd", "rmsprop", "adadelta", "adam", "adamw"):
        check("optimizer " + word, "\n%s " % word in optimizers, optimizers)
    check("schedules", "cosine" in optimizers)
    check("model files", "classify 10" in works("help", "models"))
    for words in [["--help"], ["help", "layers"], ["help", "optimizers"], ["help", "models"], ["help", "data"],
                  ["help", "experiments"], ["help", "environment"], ["models"],
                  ["dialects"], ["doctor"]] + [["help", *verb.split()] for verb in VERBS]:
        wide = [line for line in works(*words).splitlines() if len(line) > 80 or line != line.rstrip()]
        if words == ["doctor"]:  # a compiler's or CPU's name is as long as it is
            wide = [line for line in wide if not line.startswith(("brasa", "cpu"))]
        check("80 columns, no blanks at the end: " + " ".join(words), not wide, wide)


def test_models():
    models = {m["name"]: m for m in gives("models")}
    known = {"mnist_cnn": (1199882, [1, 28, 28], 10, 4), "cifar10_cnn": (1250858, [3, 32, 32], 10, 6),
             "cifar100_cnn": (1297028, [3, 32, 32], 100, 6), "letter_mlp": (2570, [16], 26, 3)}
    for name, facts in known.items():
        m = models.get(name, {})
        check(name, (m.get("params"), m.get("input"), m.get("classes"), m.get("layers")) == facts, m)
    check("summaries", all(m["summary"] for m in models.values()))
    table = works("models")
    check("the table has them all", all(name in table for name in models) and "1,199,882" in table, table)


def shown_kernel(n):
    """A kernel's name without the words of its op that it begins with."""
    words = (n["kernel"] or "view").split("_")
    while len(words) > 1 and words[0] in n["op"].split("_"):
        words.pop(0)
    return "_".join(words)


def test_table(*words):
    """The text of explain: narrow, and with every step that the JSON has."""
    lines = works("explain", *words).splitlines()
    wide = [line for line in lines if len(line) > 100 or line != line.rstrip()]
    check("100 columns, no blanks at the end: " + " ".join(words), not wide, wide)
    text = " ".join(" ".join(lines).split())  # a long name stands on a line of its own
    missing = []
    for n in gives("explain", *words).get("nodes", []):
        out = n["outputs"][0]
        cells = (n["step"], n["op"], "+" + n["activation"] if n["activation"] else "", n["layer"],
                 "x".join(map(str, out["shape"])) or "scalar", shown_kernel(n), n["layout"])
        place = "=" * n["in_place"] + "<" * ("part_of" in out) + str(n["offset"])
        place = "state" if out["memory"] == "state" else place
        row = "%d %s%s %s %s %s %s " % cells
        if row not in text or text.split(row)[1].split()[2] != place:
            missing.append((row, place))
    check("all steps: " + " ".join(words), not missing, missing)


def test_explain():
    test_table("mnist_cnn", "--batch", "4")
    test_table("letter_mlp", "--eval")
    test_table("tiny_resnet", "--optimizer", "adam")
    test_table("tiny_resnet", "--profile", "1")
    test_table("googlenet", "--batch", "1")
    inception = gives("explain", "googlenet", "--batch", "1", "--eval").get("nodes", [])
    check("branches in their place", sum("part_of" in n["outputs"][0] for n in inception) == 36 and
          not any(n["op"] == "concat" for n in inception))
    plan = gives("explain", "mnist_cnn", "--batch=4")
    nodes = plan.get("nodes", [])
    check("batch", plan.get("batch") == 4)
    check("every node has kernel, layout, offset and bytes",
          nodes and all({"kernel", "layout", "offset", "bytes"} <= set(n) for n in nodes), nodes[:1])
    check("forward, gradients and updates are nodes", {n["role"] for n in nodes} == {"forward", "gradient", "update"})
    classes = gives("explain", "mnist_cnn", "--classes", "7", "--optimizer", "adam lr=0.01").get("nodes", [])
    check("--classes", any([o["shape"] for o in n["outputs"]][:1] == [[32, 7]] for n in classes))
    check("--optimizer", any(n["op"] == "adam" for n in classes))
    plain = gives("explain", "mnist_cnn", "--no-fusion").get("nodes", [])
    check("--no-fusion", any(n["op"] == "relu" for n in plain) and not any(n["activation"] for n in plain))
    evaluation = gives("explain", "letter_mlp", "--eval")
    check("--eval", evaluation.get("mode") == "evaluation" and all(n["role"] == "forward" for n in evaluation["nodes"]))
    profile = gives("explain", "letter_mlp", "--profile", "3", "--threads", "1")
    check("--profile", all(n["runs"] == 3 for n in profile.get("nodes", []) if n["kernel"]), profile)
    text = works("explain", "letter_mlp", "--eval", "--profile", "2")
    check("--profile --eval", "GFLOP/s" in text and "mean of 2" in text and "kernel, nodes" in text, text)
    check("--profile without a number", "mean of 10" in works("explain", "--profile", "letter_mlp", "--eval", "--batch", "1"))
    check("--dialect", gives("explain", "letter_mlp", "--dialect", "keras2").get("dialect") == "keras2")


def test_reorders():
    """The sums of explain are those of its nodes, and text and JSON agree."""
    for words in (("tiny_resnet", "--batch", "4"), ("tiny_resnet", "--batch", "4", "--eval")):
        plan = gives("explain", *words)
        for kind in ("activations", "weights"):
            nodes = [n for n in plan["nodes"] if n["op"] == "reorder" and kind == (
                "weights" if n["inputs"][0]["memory"] == "state" or n["role"] == "update" else "activations")]
            check("reorders of %s: %s" % (kind, " ".join(words)), plan["reorders"][kind] == {
                "count": len(nodes), "bytes": sum(n["bytes"] for n in nodes)}, plan["reorders"])
        line = "reorders: %d of activations, " % plan["reorders"]["activations"]["count"]
        check("reorders in the text: " + " ".join(words), line in works("explain", *words), line)


def test_bench():
    result = gives("bench", "step", "letter_mlp", "--batch", "16", "--threads", "2", "--steps", "9")
    keys = {"median_s", "first_step_s", "spread_s", "min_s", "images_per_s", "peak_rss_bytes", "plan_bytes", "kernels", "versions",
            "threads", "batch", "model", "steps"}
    check("keys", keys <= set(result), keys - set(result))
    check("figures", result and result["steps"] == 9 and result["threads"] == 2 and result["batch"] == 16
          and 0 < result["min_s"] <= result["median_s"] and result["first_step_s"] > result["min_s"] and result["spread_s"] >= 0
          and abs(result["images_per_s"] * result["median_s"] / 16 - 1) < 1e-6
          and result["peak_rss_bytes"] > result["plan_bytes"] > 0, result)
    check("kernels", result and any(k.startswith("dense_") for k in result["kernels"]) and len(set(result["kernels"])) == len(result["kernels"]))
    check("versions", result and {"brasa", "compiler", "openmp"} <= set(result["versions"]))
    check("at least 3 steps", gives("bench", "step", "letter_mlp", "--seconds", "0").get("steps") == 3)
    check("work and speed", result and result["gflop"] > 0
          and abs(result["gflop"] / result["median_s"] / result["gflop_per_s"] - 1) < 1e-6, result)
    plain = gives("bench", "step", "letter_mlp", "--steps", "1", "--kernels", "_ref")
    check("with the kernels named", plain and all(k.endswith("_ref") for k in plain["kernels"]), plain)
    peak = gives("bench", "peak", "--threads", "1", "--seconds", "0")
    check("peak", peak and peak["threads"] == 1 and peak["samples"] == 5 and peak["machine"]["isa"] == peak["isa"]
          and 0.1 < peak["worst_gflop_per_s"] <= peak["median_gflop_per_s"] <= peak["best_gflop_per_s"] < 1e5, peak)
    check("peak as text", "GFLOP/s at best" in works("bench", "peak", "--seconds", "0"))
    check("text", "images/s" in works("bench", "step", "letter_mlp", "--seconds", "0.1"))
    rows = gives("bench", "ops", "--seconds", "0").get("rows", [])
    check("rows", rows and all({"op", "case", "kernel", "median_us", "gflop_per_s", "gb_per_s"} <= set(r) for r in rows))
    for op in ("batchnorm", "conv2d", "softmax_cross_entropy"):
        check(op + " forward and backward", {r["part"] for r in rows if r["op"] == op} == {"forward", "backward"})
    ops = {r["op"] for r in rows}
    check("every layer was measured", {"add", "batchnorm", "conv2d", "dense", "maxpool", "softmax"} <= ops, ops)
    check("one op", {r["op"] for r in gives("bench", "ops", "relu", "--seconds", "0").get("rows", [])} == {"relu"})
    rows = gives("bench", "ops", "conv2d", "2x16x9x9", "32 3x3 pad=1", "--seconds", "0").get("rows", [])
    check("a given case", {(r["case"], r["layer"]) for r in rows} == {("2x16x9x9", "32 3x3 pad=1")})
    check("the fastest run", all(0 < r["fastest_us"] <= r["median_us"] for r in rows))
    check("each kernel once", len({r["kernel"] for r in rows if r["part"] != "update"}) == len([r for r in rows if r["part"] != "update"]), rows)
    name = rows[0]["kernel"] if rows else ""
    rows = gives("bench", "ops", "conv2d", "2x16x9x9", "32 3x3 pad=1", "--seconds", "0", "--kernels", name).get("rows", [])
    check("kernels of a name", rows and all(name in r["kernel"] for r in rows), rows)
    refuses(2, "--batch goes with --sum alone", "bench", "ops", "relu", "--batch", "2")
    rows = gives("bench", "ops", "dense", "2x64", "32 bias=no", "--seconds", "0").get("rows", [])
    check("what is one node with its update is timed apart, too", any("dense_update" in r["kernel"] and not r["apart"] for r in rows)
          and {r["kernel"].rsplit("_", 1)[0] for r in rows if r["apart"]} >= {"sgd", "dense_grad_weights"}
          and [r["part"] for r in rows if "sgd" in r["kernel"]] == ["update"], rows)
    check("text of ops", "GFLOP/s" in works("bench", "ops", "dense", "--seconds", "0"))
    total = gives("bench", "ops", "--sum", "letter_mlp", "--batch", "16")
    check("--sum", total and abs(sum(k["alone_s"] for k in total["kernels"]) / total["sum_s"] - 1) < 1e-6
          and total["step_s"] > 0 and sum(k["nodes"] for k in total["kernels"] if "sgd" in k["kernel"] or "update" in k["kernel"]) == 6, total)
    few = gives("bench", "ops", "--sum", "mnist_cnn", "--batch", "4", "--kernels", "_ref", "--steps", "1")
    check("--sum of some kernels", few and few["repeats"] == 1 and few["only"] == "_ref"
          and all(k["kernel"].endswith("_ref") for k in few["kernels"]), few)
    best = gives("bench", "ops", "--sum", "mnist_cnn", "--batch", "4", "--kernels", "conv2d", "--steps", "2")
    check("--sum takes the fastest of several", best and sum(k["nodes"] for k in best["kernels"]) > 10, best)
    check("--sum as text", "times the sum" in works("bench", "ops", "--sum", "letter_mlp"))


def test_devices():
    for words in (["explain", "letter_mlp"], ["plan", "letter_mlp"], ["bench", "step", "letter_mlp", "--steps", "1"],
                  ["bench", "ops", "relu", "--seconds", "0"], ["bench", "ops", "--sum", "letter_mlp"]):
        facts = gives(*words, "--device", "cpu", "--precision", "f32")
        check("the CPU by its name: " + " ".join(words), facts.get("device") == "cpu", facts)
        refuses(2, "--device: expected cpu, cuda or cuda:1, got 'gpu'", *words, "--device", "gpu")
        refuses(2, "--device: expected cpu, cuda or cuda:1, got 'cuda:x'", *words, "--device=cuda:x")
        refuses(2, "--precision: expected f32, tf32 or bf16, got 'f16'", *words, "--precision", "f16")
        refuses(2, "--precision bf16 is for GPUs", *words, "--precision", "bf16")
        refuses(1, "cuda", *words, "--device", "cuda:9999")  # what is missing first, or how many there are
    refuses(2, "unknown option '--device'", "models", "--device", "cpu")


def test_doctor():
    facts = gives("doctor")
    cuda = facts["cuda"]
    check("GPUs, or what is missing", cuda["devices"] or cuda["missing"], cuda)
    check("the same in words", "\nCUDA  " in works("doctor"))
    check("facts", facts and facts["threads"] >= 1 and facts["cores"] >= facts["affinity"] >= 1 and facts["kernels"] > 0
          and facts["versions"]["brasa"] == works("--version").split()[1], facts)
    check("text", "threads" in works("doctor"))
    reason = "cuda:0 a GPU: cannot be used: " + "why " * 80 + "and what to do"
    fake = {"BRASA_BACKENDS": os.path.join(os.path.dirname(BRASA), "tests", "fake"), "FAKE_CUDA_LINE": reason}
    devices = json.loads(run("doctor", "--json", env=fake).stdout)["cuda"]["devices"]
    check("a reason is told whole", devices == [reason], devices)


def variables_read():
    """Those that the program and its libraries ask for, by their source."""
    names = set()
    for top in ("src", "cli"):
        for folder, _, files in os.walk(os.path.join(SOURCE, top)):
            for file in files:
                with open(os.path.join(folder, file), encoding="utf-8") as text:
                    names.update(re.findall(r'"(BRASA_[A-Z_]+)"', text.read()))
    return names


def test_environment(folder):
    """A value that means nothing is told once, with those that do; the verb runs all the same."""
    page = works("help", "environment")
    check("its page has all that are read", set(re.findall(r"^(BRASA_\w+)=", page, re.M)) == variables_read(), page)
    check("with the value that is set", "\n  now: avx2\n" in run("help", "environment", env={"BRASA_ISA": "avx2"}).stdout)
    bad = {"BRASA_ISA": ("avx99", "BRASA_ISA: expected ref, avx2 or avx512, got 'avx99': it is passed over"),
           "BRASA_TUNE": ("0", "BRASA_TUNE: expected on or off, got '0': it is passed over"),
           "BRASA_BACKENDS": ("/nowhere", "BRASA_BACKENDS: expected a folder, got '/nowhere': no GPU will be found")}
    for name, (value, said) in bad.items():
        r = run("explain", "letter_mlp", "--json", env={name: value, "BRASA_CACHE": "off"})
        check("%s=%s" % (name, value), r.returncode == 0 and r.stderr == "brasa: note: %s\n" % said and json.loads(r.stdout), r)
    r = run("models", env={name: value for name, (value, _) in bad.items()})
    check("each once", r.returncode == 0 and r.stderr.count("\n") == 3, r.stderr)
    check("--help is no use of them", not run("models", "--help", env={"BRASA_ISA": "avx99"}).stderr)
    for name, values in (("BRASA_ISA", ("ref", "avx2", "avx512", "")), ("BRASA_TUNE", ("on", "off", "")),
                         ("BRASA_BACKENDS", (folder, ""))):
        for value in values:
            r = run("models", env={name: value})
            check("%s=%s" % (name, value), r.returncode == 0 and not r.stderr, r.stderr)
    r = run("explain", "letter_mlp", "--device", "cuda", env={"BRASA_BACKENDS": folder})
    check("an empty folder of backends", r.returncode == 1 and "no brasa_cuda.so in %s, where BRASA_BACKENDS" % folder in r.stderr, r)


def test_openmp():
    """Where OpenMP gives fewer threads than are asked for, it computes with those: it waited for the others for good."""
    if gives("doctor")["versions"]["openmp"] == "none":
        return
    words = ("bench", "step", "cifar10_cnn", "--batch", "8", "--steps", "1", "--no-tune", "--json")
    many = str((os.cpu_count() or 1) + 1)
    for limit, asked, used in (({"OMP_THREAD_LIMIT": "1"}, "2", 1), ({"OMP_MAX_ACTIVE_LEVELS": "0"}, "2", 1),
                               ({"OMP_THREAD_LIMIT": "2"}, "3", 2), ({"OMP_DYNAMIC": "true"}, many, int(many))):
        r = run(*words, "--threads", asked, env=limit)
        said = "brasa: note: --threads %s: OpenMP grants %d (OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS)\n" % (asked, used)
        check("with %s" % limit, r.returncode == 0 and json.loads(r.stdout)["threads"] == used
              and r.stderr == (said if used < int(asked) else ""), r)
    doctor = json.loads(run("doctor", "--json", env={"OMP_THREAD_LIMIT": "1"}).stdout)
    check("doctor tells of it", doctor["threads"] == 1, doctor)


def test_dialects():
    rows = gives("dialects")
    rates = {d["name"]: d["adadelta_rate"] for d in rows}
    check("the famous difference", rates.get("tfkeras") == 0.001 and rates.get("keras2") == 1, rates)
    check("text", "fan_in_uniform" in works("dialects"))
    page = works("dialects", "--markdown")
    with open(os.path.join(SOURCE, "docs", "dialects.md")) as file:
        check("docs/dialects.md is up to date: brasa dialects --markdown >docs/dialects.md", file.read() == page)


def test_files(folder):
    def write(name, text):
        path = os.path.join(folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    good = write("good.net", NET)
    check("a file of one's own", gives("explain", good, "--batch", "2").get("batch") == 2)
    check("bench of a file", gives("bench", "step", good, "--steps", "5").get("model") == good)
    bad = write("bad.net", "input 1 8 8\nconv 4 9x9\n")
    refuses(1, bad + ":2: ", "explain", bad)
    refuses(1, "did you mean 'conv'", "explain", write("word.net", "input 1 8 8\ncnov 4 3x3\n"))
    refuses(1, ":3: ", "bench", "step", write("rank.net", "input 1 8 8\nrelu\ndense 4\n"))
    refuses(1, "no layer", "explain", write("empty.net", "# nothing\n"))
    refuses(1, "loss", "bench", "step", write("noloss.net", "input 1 8 8\nflatten\ndense 4\n"))
    refuses(1, "No such file", "explain", os.path.join(folder, "missing.net"))


def test_refusals():
    refuses(2, "did you mean 'models'", "modles")
    refuses(2, "unknown verb 'xyzzy', see `brasa --help`", "xyzzy")
    refuses(2, "did you mean '--version'", "--versoin")
    refuses(2, "did you mean 'bench step'", "bench", "stpe")
    refuses(2, "one more word", "bench")
    refuses(2, "MODEL|FILE.net is missing", "explain")
    refuses(2, "unexpected 'extra'", "models", "extra")
    refuses(2, "did you mean '--batch'?", "explain", "mnist_cnn", "--bacth", "3")
    refuses(2, "unknown option '--batch'", "models", "--batch", "3")
    refuses(2, "unknown option '-x'", "models", "-x")
    refuses(2, "no page", "help", "xyzzy")
    for wrong in ("0", "-1", "65537", "three", "3x", "", "1e3", "99999999999999999999", " 3", "0x10"):
        refuses(2, "--batch: expected a number from 1 to 65536, got " + (wrong or "nothing"),
                "explain", "mnist_cnn", "--batch", wrong)
        refuses(2, "--batch: expected a number from 1 to 65536, got ", "bench", "step", "mnist_cnn", "--batch=" + wrong)
    refuses(2, "got nothing", "explain", "mnist_cnn", "--batch")
    refuses(2, "--seconds: expected a number from 0 to 3600, got nan", "bench", "ops", "--seconds", "nan")
    refuses(2, "--steps: expected a number from 1", "bench", "step", "mnist_cnn", "--steps", "0")
    refuses(2, "--json: expected no value", "models", "--json=yes")
    refuses(2, "--seed: expected a number of at least 0, got -1", "explain", "mnist_cnn", "--seed", "-1")
    refuses(1, "did you mean 'mnist_cnn'", "explain", "mnist_cn")
    refuses(1, "no dialect 'torhc', did you mean 'torch'", "explain", "mnist_cnn", "--dialect", "torhc")
    refuses(1, "did you mean 'adam'", "explain", "mnist_cnn", "--optimizer", "adma lr=1")
    refuses(1, "lr", "explain", "mnist_cnn", "--optimizer", "sgd lr=-1")
    refuses(2, "--sum takes no --seconds", "bench", "ops", "--sum", "letter_mlp", "--seconds", "1")
    refuses(2, "--sum takes no op", "bench", "ops", "relu", "--sum", "letter_mlp")
    refuses(1, "there is no model", "bench", "ops", "--sum", "nope")
    refuses(1, "conv2d", "bench", "ops", "conv2d", "2x16x9x9", "32 30x30")
    refuses(1, "not a shape", "bench", "ops", "conv2d", "2xq", "32 3x3")
    refuses(1, "there is no op 'conv3d', did you mean 'conv2d'", "bench", "ops", "conv3d")
    refuses(1, "brasa: ", "explain", "mnist\ncnn")
    r = run()
    check("no verb", r.returncode == 2 and not r.stdout and r.stderr.count("usage: brasa") == 1, r)


def test_output():
    """What cannot be written is an error; escape codes are for terminals."""
    for words in (["--version"], ["models"], ["doctor", "--json"], ["explain", "mnist_cnn", "--json"], ["explain", "mnist_cnn"],
                  ["help", "layers"], ["dialects"], ["bench", "step", "letter_mlp", "--seconds", "0"]):
        with open("/dev/full", "w") as full:
            r = run(*words, stdout=full)
        lines = r.stderr.splitlines()
        check("full disk: " + " ".join(words),
              r.returncode == 1 and len(lines) == 1 and lines[0].startswith("brasa: standard output: No space"), r)
        reading, writing = os.pipe()
        os.close(reading)
        r = run(*words, stdout=writing)
        os.close(writing)
        check("closed pipe: " + " ".join(words), r.returncode == 1 and not r.stderr, r)
    check("no colours in a pipe", "\033" not in works("models"))
    for env, expected in (({"TERM": "xterm", "NO_COLOR": ""}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                          ({"TERM": "dumb", "NO_COLOR": ""}, False)):
        master, slave = pty.openpty()
        r = run("models", env=env, stdout=slave)
        os.close(slave)
        shown = os.read(master, 100000)
        os.close(master)
        check("colours on a terminal with %s" % env, r.returncode == 0 and (b"\033[1m" in shown) == expected, shown)


test_help()
test_models()
test_explain()
test_reorders()
test_bench()
test_devices()
test_doctor()
test_openmp()
test_dialects()
with tempfile.TemporaryDirectory() as temporary:
    test_environment(temporary)
    test_files(temporary)
test_refusals()
test_output()
finish()
