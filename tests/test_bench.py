"""`./run bench` without PyTorch, beside a made-up one, and killed in a full run; and its rules."""
import json, os, stat, subprocess, sys, tempfile, time, types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, SOURCE, check, finish

sys.path.insert(0, os.path.join(SOURCE, "tools"))
sys.dont_write_bytecode = True
import bench as benchmark

BENCH = [sys.executable, os.path.join(SOURCE, "tools", "bench.py"), "--brasa", BRASA, "--turn", "0.02"]

# In the place of a Python that has torch.
FAKE = """#!%s
import json, sys
if sys.argv[1] == "-c":
    print("9.9.9")
    sys.exit()
network, batch, threads, *form = sys.argv[2:]
took = %r.get(" ".join(form)) or sys.exit("no compiler")
print(json.dumps({"version": "9.9.9", "step_s": took}), flush=True)
for line in sys.stdin:
    print(json.dumps({"median_s": took, "spread_s": 0.1, "min_s": took, "max_s": took, "steps": 3, "peak_rss_bytes": 10**9}),
          flush=True)
"""


def fake(folder, *steps):
    """Forms that take so many seconds a step, in the order in which they are tried; those that are left out fail."""
    return script(folder, "fake", FAKE % (sys.executable, dict(zip(benchmark.FORMS, steps))))


def bench(*words, **environment):
    clean = {k: v for k, v in os.environ.items() if k != "BRASA_TORCH_PYTHON"}
    return subprocess.run([*BENCH, *words], capture_output=True, text=True, timeout=500, env={**clean, **environment})


def rows(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def script(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, stat.S_IRWXU)
    return path


def test_alone(folder):
    out, bare = os.path.join(folder, "alone.jsonl"), script(folder, "bare", "#!/bin/sh\nexit 1\n")
    r = bench("--networks", "letter_mlp", "--out", out, BRASA_TORCH_PYTHON=bare)
    check("without torch", r.returncode == 0 and "note: Brasa alone: " + bare in r.stderr, (r.returncode, r.stderr))
    check("a table", "images/s" in r.stdout and "letter_mlp" in r.stdout, r.stdout)
    row = rows(out)[0]
    check("the row", row["network"] == "letter_mlp" and row["batch"] == 128 and row["pytorch"] is None and row["gflop"] > 0
          and 0 < row["brasa"]["low_s"] <= row["brasa"]["median_s"] <= row["brasa"]["high_s"]
          and row["brasa"]["kernels"] and row["brasa"]["peak_rss_bytes"] > 1e6 and row["peak"]["best_gflop_per_s"] > 0
          and row["machine"]["versions"]["brasa"], row)
    check("oneDNN's sum, where there is oneDNN", bool(row["onednn"]) == bool(row["machine"]["onednn"]), row["onednn"])
    r = bench("--networks", "letter_mlp", "--out", out, "--torch-python", os.path.join(folder, "nothing"))
    check("a Python that is not there", r.returncode == 0 and "Brasa alone" in r.stderr, r.stderr)
    r = bench("--networks", "letter_mlp", "--out", out, "--no-torch", "--minutes", "0")
    check("no time", r.returncode == 1 and "no time was left" in r.stderr and not os.path.exists(out), r.stderr)
    for nowhere in os.path.join(folder, "nowhere", "out.jsonl"), folder:
        r = bench("--networks", "letter_mlp", "--out", nowhere, "--brasa", script(folder, "unasked", "#!/bin/sh\necho asked >&2\nexit 1\n"))
        check("what cannot be written is told at once", r.returncode == 1 and not r.stdout and r.stderr.startswith("bench: ")
              and r.stderr.count("\n") == 1 and nowhere in r.stderr, (r.returncode, r.stdout, r.stderr))
    r = bench("--brasa", os.path.join(folder, "nothing"))
    check("no program", r.returncode == 1 and "nothing" in r.stderr and "Traceback" not in r.stderr, r.stderr)


def test_beside_torch(folder):
    out, torch = os.path.join(folder, "beside.jsonl"), fake(folder, 1.0, 0.5, 1.0)
    r = bench("--networks", "mnist_cnn", "--threads", "1", "--full", "--out", out, "--torch-python", torch)
    check("beside torch", r.returncode == 0 and not r.stderr, (r.returncode, r.stderr))
    row = rows(out)[0]
    theirs = row["pytorch"]
    check("the fastest form", theirs["form"] == "channels_last compiled" and theirs["median_s"] == 0.5, theirs)
    check("all forms", set(theirs["forms"]) == {"channels_last eager", "channels_last compiled", "contiguous eager"}, theirs)
    check("and why one is missing", theirs["not_tried"] == {"contiguous compiled": "no compiler"}, theirs)
    check("in turn", len(theirs["rounds"]) == 3 and len(row["brasa"]["rounds"]) == 3, row)
    ratio = "%.2f" % (0.5 / row["brasa"]["median_s"])
    check("ratio", ratio in r.stdout and row["torch"] == "9.9.9", (ratio, r.stdout))
    r = bench("--markdown", "--out", out, "--brasa", os.path.join(folder, "nothing"))  # which is not asked
    check("as Markdown", r.returncode == 0 and "| mnist_cnn | 128 | 1 |" in r.stdout and f"| {ratio} |" in r.stdout
          and "PyTorch 9.9.9" in r.stdout, r.stdout)
    r = bench("--networks", "letter_mlp", "--out", out, "--no-torch")
    check("a quick run leaves a full one's file alone", r.returncode == 1 and "no file of a quick run" in r.stderr
          and rows(out)[0] == row, (r.returncode, r.stderr))
    r = bench("--networks", "letter_mlp", "--out", out + "2", "--torch-python", fake(folder))
    check("a torch that fails is told", r.returncode == 1 and "PyTorch: no compiler" in r.stderr, (r.returncode, r.stderr))


def test_later_alone(folder):
    """What was measured beside PyTorch stays, and is not measured anew, where the same is asked for without it."""
    out = os.path.join(folder, "later.jsonl")
    words = ["--full", "--networks", "letter_mlp", "--threads", "1", "--out", out]
    beside = [*words, "--torch-python", fake(folder, 1.0, 0.5, 1.0)]
    bench(*beside)
    row = rows(out)[0]
    for name, again in ("--no-torch", [*words, "--no-torch"]), ("not found", [*words, "--torch-python", "nothing"]), ("beside", beside):
        r = bench(*again)
        check("a row beside PyTorch has what one without it has: " + name, r.returncode == 0 and "1 of 1 cells" in r.stderr
              and rows(out) == [row], (r.stderr, len(rows(out))))
    benchmark.append_row(out, {**row, "pytorch": None, "torch": None})
    r = bench("--markdown", "--out", out)
    check("the table shows the one beside PyTorch", "contiguous eager" in r.stdout and "PyTorch 9.9.9" in r.stdout, r.stdout)
    r = bench(*beside)
    check("which need not be measured again", "1 of 1 cells" in r.stderr and len(rows(out)) == 2, r.stderr)
    benchmark.append_row(out, {**row, "pytorch": None, "torch": None, "program": "newer"})
    r = bench("--markdown", "--out", out)
    check("a newer program is shown as it was measured", "contiguous eager" not in r.stdout and "letter_mlp" in r.stdout, r.stdout)


def test_tried_again(folder):
    """What failed or was cut short in a full run is told, and measured again by the next one."""
    out = os.path.join(folder, "again.jsonl")
    words = ["--full", "--networks", "letter_mlp", "--threads", "1", "--out", out, "--torch-python"]
    for i in 1, 2:
        r = bench(*words, fake(folder))
        check("a PyTorch that fails, time %d" % i, r.returncode == 1 and "PyTorch: no compiler; the same command tries it again" in r.stderr
              and len(rows(out)) == i, (r.returncode, r.stderr))
    working = fake(folder, 1.0, 0.5, 1.0)
    r = bench(*words, working)
    check("and works at last", r.returncode == 0 and len(rows(out)) == 3 and rows(out)[2]["pytorch"], (r.returncode, r.stderr))
    r = bench(*words, working)
    check("and is there then", r.returncode == 0 and "1 of 1 cells" in r.stderr and len(rows(out)) == 3, r.stderr)
    row = rows(out)[2]
    with open(out, "w") as file:
        file.write(json.dumps({**row, "cut_short": "it was told to"}) + "\n")
    # oneDNN's sum fails, after both sides had their turns
    failing = script(folder, "failing", "#!/bin/sh\nfor w; do test $w = --sum && { echo no sum >&2; exit 1; }; done\nexec %s \"$@\"\n" % BRASA)
    if row["onednn"]:
        r = bench(*words, working, "--brasa", failing)
        check("cut short", r.returncode == 1 and "cut short: no sum" in r.stderr and rows(out)[-1]["cut_short"] == "no sum",
              (r.returncode, r.stderr))
    r = bench(*words, working)
    check("what was cut short is measured again", r.returncode == 0 and "cells" not in r.stderr and not rows(out)[-1].get("cut_short"),
          (r.returncode, r.stderr))


def test_bad_input(folder):
    """One line says what is wrong, before anything is measured; what is no row in a file does no harm."""
    for name, text in ("silent", "exit 0"), ("no JSON", "echo hello"), ("other JSON", "echo '[1]'"), ("bytes", "printf '\\377{'"), (
            "little", "echo '{\"machine\": {}}'"):
        r = bench("--networks", "letter_mlp", "--out", os.path.join(folder, "bad.jsonl"), "--brasa", script(folder, "bad", "#!/bin/sh\n" + text))
        check("a program that is not Brasa: " + name, r.returncode == 1 and not r.stdout and r.stderr.count("\n") == 1
              and r.stderr.startswith("bench: ") and "is it Brasa" in r.stderr, (r.returncode, r.stderr))
    for words in (["--turn", "-1"], ["--turn", "nan"], ["--turn", "0"], ["--minutes", "nan"], ["--minutes", "-1"], ["--minutes", "inf"]):
        r = bench("--networks", "letter_mlp", "--no-torch", *words)
        check("refused: " + " ".join(words), r.returncode == 2 and not r.stdout and "expected a number from" in r.stderr, r.stderr)
    r = bench("--networks", "letter_mlp", "--out", os.path.join(folder, "garbled.jsonl"), "--torch-python",
              script(folder, "garbled", "#!/bin/sh\ntest $1 = -c && echo 9 || printf 'no\\377\\n'\n"))
    check("a torch that says something else", r.returncode == 1 and "PyTorch: says 'no" in r.stderr and "Traceback" not in r.stderr, r.stderr)

    out = os.path.join(folder, "rows.jsonl")
    words = ["--full", "--no-torch", "--networks", "letter_mlp", "--threads", "1", "--out", out]
    bench(*words)
    row = rows(out)[0]
    odd = [{**row, "network": "unheard_of"}, {**row, "brasa": None}, {**row, "peak": {}}, {**row, "gflop": "x"}, {**row, "batch": [1]},
           {**row, "machine": 3}, {k: v for k, v in row.items() if k != "pytorch"}, {**row, "brasa": {**row["brasa"], "median_s": 0}}]
    with open(out, "wb") as file:
        file.write(b"\xff\xfe\n[1]\n7\n" + b"".join(json.dumps(o).encode() + b"\n" for o in odd))
    r = bench("--markdown", "--out", out)
    check("a table of odd rows", r.returncode == 0 and r.stdout == "nothing was measured yet\n"
          and "note: 8 of 8 rows in" in r.stderr and "Traceback" not in r.stderr, (r.stdout, r.stderr))
    r = bench(*words)
    check("a full run goes on behind them", r.returncode == 0 and not r.stderr and "letter_mlp" in r.stdout, (r.returncode, r.stderr))
    r = bench("--markdown", "--out", out)
    check("and its row is shown", r.stdout.count("| letter_mlp |") == 1 and "note: 8 of 9" in r.stderr, (r.stdout, r.stderr))


def test_memory():
    """A process is as large as itself: what started it does not count, which the kernel's ru_maxrss does."""
    ballast = b"x" * (200 << 20)
    r = subprocess.run([BRASA, "bench", "step", "letter_mlp", "--steps", "1", "--no-tune", "--json"], capture_output=True, text=True)
    told = json.loads(r.stdout)["peak_rss_bytes"] if r.returncode == 0 else r.stderr
    check("Brasa, started by a large process", r.returncode == 0 and 1e6 < told < 100e6, told)
    asks = ("import sys, types; sys.modules['torch'] = types.SimpleNamespace(nn=None); sys.path.insert(0, sys.argv[1])\n"
            "import bench_torch; print(bench_torch.peak_rss_bytes())")
    r = subprocess.run([sys.executable, "-B", "-c", asks, os.path.join(SOURCE, "tools")], capture_output=True, text=True)
    check("PyTorch's side as well", r.returncode == 0 and 1e6 < int(r.stdout) < 100e6, (r.stdout, r.stderr))
    del ballast


class FakeBrasa:
    """Steps of so many seconds, which nobody waits for."""

    def __init__(self, step):
        self.seconds, self.machine = step, {"onednn": None}

    def peak(self, threads):
        return {}

    def step(self, *words):
        return {"median_s": self.seconds, "peak_rss_bytes": 0}


def measured(folder, full, ours, *theirs):
    """A cell after its rounds, with steps of so many seconds."""
    run = types.SimpleNamespace(full=full, turn=0.02, python=fake(folder, *theirs), brasa=FakeBrasa(ours),
                                known_form=lambda cell: None, show=lambda text: None, end=time.monotonic() + 500)
    m = benchmark.Measurement(run, benchmark.Cell("mnist_cnn", 128, 1), 500)
    try:
        m.brasa_turn()
        m.try_forms()
        m.rounds()
    finally:
        for worker in m.workers.values():
            worker.close()
    return m


def test_rules(folder):
    """Which forms are measured further, and how often."""
    m = measured(folder, True, 6, 10, 13.9, 14.1, 9)
    check("far behind", m.refused == {"contiguous eager": "far slower: 14.1 s to warm up"}, m.refused)
    check("not so far", len(m.theirs["channels_last compiled"]) == 1, m.theirs)
    check("long steps have two rounds", len(m.ours) == 2 and len(m.theirs["contiguous compiled"]) == 2, m.theirs)
    m = measured(folder, True, 0.1, 1, 4.9, 2, 1.05)
    check("with short steps each form is measured", not m.refused and len(m.theirs) == 4, m.refused)
    check("the close ones in all rounds", [len(m.theirs[form]) for form in benchmark.FORMS] == [3, 1, 1, 3], m.theirs)
    for full, step, rounds in (True, 0.49, 7), (True, 0.51, 3), (False, 0.49, 3), (True, 5.1, 2), (False, 5.1, 1):
        m = measured(folder, full, step, 0.2)
        check(f"rounds with steps of {step} s{', all of it' * full}", len(m.ours) == rounds, len(m.ours))
    m = measured(folder, True, 0.1, 0.51)
    check("and where those of PyTorch are longer", len(m.ours) == 3, len(m.ours))


def test_operations():
    """The time is shared out by what `bench step` counts, which is what `explain` tells of the nodes."""
    for network, gflop in {**benchmark.SMALL, **benchmark.LARGE}.items():
        r = subprocess.run([BRASA, "explain", network, "--batch", "1", "--json"], capture_output=True, text=True)
        counted = sum(node["flops"] for node in json.loads(r.stdout)["nodes"]) * 1e-9
        check("operations of " + network, abs(gflop / counted - 1) < 0.02, (gflop, counted))
    r = subprocess.run([BRASA, "bench", "step", "cifar10_cnn", "--batch", "1", "--steps", "1", "--no-tune", "--json"], capture_output=True, text=True)
    check("which counts the same", abs(json.loads(r.stdout)["gflop"] / benchmark.SMALL["cifar10_cnn"] - 1) < 0.02, r.stdout)


def test_goes_on(folder):
    out = os.path.join(folder, "full.jsonl")
    words = ["--full", "--no-torch", "--networks", "letter_mlp", "mnist_cnn", "--threads", "1", "2", "--out", out]
    p = subprocess.Popen([*BENCH, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while p.poll() is None and not (os.path.exists(out) and os.path.getsize(out)):
        time.sleep(0.01)
    p.kill()
    p.communicate()
    before = rows(out)
    check("killed in time", 0 < len(before) < 4, len(before))
    with open(out, "a") as file:
        file.write('{"network": "mnist_cnn", "batch"')  # as if in the middle of a row
    r = bench(*words)
    check("it goes on", r.returncode == 0 and "%d of 4 cells are in" % len(before) in r.stderr, r.stderr)
    with open(out) as file:
        lines = file.read().splitlines()
    check("the rows before are kept", [json.loads(line) for line in lines[:len(before)]] == before, lines)
    cells = [(row["network"], row["threads"]) for row in map(json.loads, lines[:len(before)] + lines[len(before) + 1:])]
    check("each cell once", sorted(cells) == [("letter_mlp", 1), ("letter_mlp", 2), ("mnist_cnn", 1), ("mnist_cnn", 2)], cells)
    size = os.path.getsize(out)
    r = bench(*words)
    check("and there is nothing left", r.returncode == 0 and "4 of 4 cells" in r.stderr and os.path.getsize(out) == size, r.stderr)
    r = bench("--markdown", "--out", out)
    check("a table of them", r.stdout.count("| letter_mlp |") == 2 and r.stdout.count("| mnist_cnn |") == 2, r.stdout)


with tempfile.TemporaryDirectory() as folder:
    test_alone(folder)
    test_beside_torch(folder)
    test_later_alone(folder)
    test_tried_again(folder)
    test_bad_input(folder)
    test_memory()
    test_rules(folder)
    test_operations()
    test_goes_on(folder)
finish()
