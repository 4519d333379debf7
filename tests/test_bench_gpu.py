"""bench/gpu/measure.py beside stand-ins for the program, for PyTorch and for nvidia-smi, as no GPU is needed for its rules;
sanitize.py in the same way; torch_step.py on a CPU, where PyTorch is installed."""
import json, os, stat, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import SOURCE, check, finish, skip

FOLDER = os.path.join(SOURCE, "bench", "gpu")

# The program: FAKE_STEP seconds a step; FAKE_SLEEP makes an answer late, FAKE_FAIL says of which words it fails.
BRASA = """#!%s
import json, os, sys, time
words = " ".join(sys.argv[1:])
with open(os.environ["FAKE_LOG"], "a") as file:
    file.write(words + "\\n")
if os.environ.get("FAKE_FAIL") and os.environ["FAKE_FAIL"] in words:
    sys.exit("brasa: error: it was told to fail")
time.sleep(float(os.environ.get("FAKE_SLEEP", "0")))
batch = int(sys.argv[sys.argv.index("--batch") + 1])
place = {"device": "cuda:0 Fake", "device_about": "cuDNN 9.14.0", "versions": {"brasa": "1"}}
if "bench step" in words:
    step = float(os.environ.get("FAKE_STEP", "0.01"))
    print(json.dumps({"median_s": step, "spread_s": 0.001, "steps": 9, "plan_bytes": 500000000, "kernels": ["k"], **place}))
elif "--sum" in words:
    print(json.dumps({"sum_s": 0.009, "floor": {"floor_s": 0.005}, **place}))
elif "--profile" in words:
    node = {"op": "conv2d", "layer": "c", "role": "forward", "kernel": "conv2d_cudnn", "mean_us": 30.0, "traffic_bytes": 3000000,
            "flops": 6e9}
    view = {"op": "reshape", "layer": "r", "role": "forward", "kernel": None, "traffic_bytes": 0, "flops": 0}
    print(json.dumps({"nodes": [node, dict(node, layer="d", mean_us=60.0), view, dict(node, op="relu", kernel="relu_cuda",
                                                                                       mean_us=10.0)]}))
else:
    ways = [{"way": "alone", "engines": 9, "us": 12.0, "workspace": 1000000, "engine": "38", "taken": False},
            {"way": "bias relu", "engines": 4, "us": 10.5, "workspace": 0, "engine": "40 2=5", "taken": True},
            {"way": "none", "engines": 0, "us": None, "workspace": 0, "engine": "", "taken": False}]
    print(json.dumps({"engines": [{"problem": "conv2d forward bf16 1x3x8x8", "nodes": 2, "ways": ways}]}))
"""

# A Python that has torch: seconds a step by form; those that are left out fail.
TORCH = """#!%s
import json, sys
if sys.argv[1] == "-c":
    print("9.9.9")
    sys.exit()
script, network, batch, form = sys.argv[2 - 1:5]
took = %r.get(form)
print(json.dumps({"torch": "9.9.9", "cudnn": 91400}), flush=True)
for line in sys.stdin:
    if not took:
        sys.exit("OutOfMemoryError: CUDA out of memory")
    print(json.dumps({"median_s": took, "spread_s": 0.0, "steps": 9, "memory": 1000000000, "reserved": 1, "total": 100}), flush=True)
"""

SMI = """#!%s
import sys, time
if "-lms" not in sys.argv:
    print("Fake H200, 580.1, 143771, 1980, 3201, 700.00")
    sys.exit()
while True:
    print("1755, 3201, 512.50, 51", flush=True)
    time.sleep(0.05)
"""


# test_ops, and compute-sanitizer around it: SLOW is an op whose case takes long, BAD one with an error, BLIND no summary.
# With MEET nobody goes on before two are there at the same time.
OPS = """#!%s
import os, sys, time
ops = os.environ["BRASA_TEST_OP"]
if ops == "list":
    print("conv2d\\nrelu\\nrelu6\\nadd\\n1 passed, 0 failed")
    sys.exit()
for op in ops.split(","):
    if op == os.environ.get("SLOW"):
        time.sleep(30)
    if op == os.environ.get("BAD") and os.environ["FAKE_TOOL"] == "memcheck":
        print("========= Invalid __global__ write of size 4 bytes", flush=True)
    print("ok      kernels %%s 'x' on 1x1" %% op, flush=True)
print("%%d passed, 0 failed" %% len(ops.split(",")), flush=True)
"""

# Another test program: SLOW and BAD by its name.
PROGRAM = """#!%s
import os, sys, time
name = os.path.basename(sys.argv[0])
if name == os.environ.get("SLOW"):
    time.sleep(30)
print("FAILED  some case" if name == os.environ.get("BAD") else "ok      some case")
sys.exit(name == os.environ.get("BAD"))
"""

SANITIZER = """#!%s
import os, subprocess, sys, time
if "--help" in sys.argv:
    print("--racecheck-num-workers arg")
    sys.exit()
tool = sys.argv[sys.argv.index("--tool") + 1]
program = sys.argv[sys.argv.index("--show-backtrace") + 2:]
if "--racecheck-num-workers" in program:
    program = program[2:]
ops = os.environ.get("BRASA_TEST_OP", "-")
found = os.environ.get("BAD") in ops.split(",") and tool == "memcheck"
with open("asked", "a") as file:
    file.write(" ".join([tool, os.environ["BRASA_TEST_PRECISION"], ops, os.environ.get("BRASA_TEST_SHARE", "-"),
                         os.environ.get("BRASA_CUDNN", "on"), os.path.basename(program[0]), *program[1:]]) + "\\n")
if os.environ.get("MEET"):
    open("here-%%d" %% os.getpid(), "w").close()
    for _ in range(300):
        if len([name for name in os.listdir() if name.startswith("here-")]) > 1:
            break
        time.sleep(0.1)
    else:
        sys.exit("alone")
code = subprocess.run(program, env=dict(os.environ, FAKE_TOOL=tool)).returncode
if not os.environ.get("BLIND"):
    print("========= ERROR SUMMARY: %%d errors" %% found if tool == "memcheck" else "========= RACECHECK SUMMARY: 0 hazards displayed")
sys.exit(int(sys.argv[sys.argv.index("--error-exitcode") + 1]) if found else code)
"""


def script(name, text):
    with open(name, "w") as file:
        file.write(text)
    os.chmod(name, stat.S_IRWXU)
    return os.path.abspath(name)


def measure(*words, **environment):
    folder = os.getcwd()
    command = [sys.executable, os.path.join(FOLDER, "measure.py"), "--brasa", os.path.join(folder, "brasa"), "--torch-python",
               os.path.join(folder, "torch"), "--seconds", "0.01", "--out", "rows.jsonl", *words]
    env = dict(os.environ, PATH=folder + "/bin:" + os.environ["PATH"], FAKE_LOG=os.path.join(folder, "log"), **environment)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)


def rows(name="rows.jsonl"):
    with open(name) as file:
        return [json.loads(line) for line in file]


def asked():
    with open("log") as file:
        return file.read().splitlines()


def set_up(**forms):
    for name in ("rows.jsonl", "log"):
        if os.path.exists(name):
            os.remove(name)
    script("brasa", BRASA % sys.executable)
    script("torch", TORCH % (sys.executable, forms))


def test_row():
    set_up(eager=0.04, graph=0.02)
    r = measure("--networks", "resnet50", "--batches", "1")
    check("a cell", r.returncode == 0 and not r.stderr, (r.returncode, r.stdout, r.stderr))
    check("is told", "resnet50, batch 1: Brasa 100 images/s, PyTorch 25 eager, 50 graph; floor 200" in r.stdout, r.stdout)
    row = rows()[0]
    check("three rounds of each side", [len(row["sides"][s]) for s in ("brasa", "eager", "graph")] == [3, 3, 3], row["sides"])
    check("the machine", row["gpu"]["name"] == "Fake H200" and row["gpu"]["clocks.max.sm"] == 1980, row["gpu"])
    check("its clocks", row["clocks"]["clocks.sm"] == {"min": 1755, "median": 1755, "max": 1755}, row["clocks"])
    check("versions", row["torch"] == {"torch": "9.9.9", "cudnn": 91400} and row["brasa"]["about"] == "cuDNN 9.14.0", row)
    common = "--classes 3 --batch 1 --device cuda --precision bf16 --json --quiet"
    check("what Brasa is asked", [w.replace(common, "").strip() for w in asked()] == [
        "bench step resnet50 --steps 3", *["bench step resnet50 --seconds 0.01"] * 3, "bench ops --sum resnet50",
        "explain resnet50 --profile 10", "explain resnet50 --tuned"], asked())
    r = measure("--table")
    check("the table", "| resnet50 | 1 | 25 | 50 | 50 | 200 | 100 | 10 % | 2.00 | 4.00 | 50 % | 500 | 1,000 | 0.50 |" in r.stdout
          and "SM clock 1755 to 1755 MHz" in r.stdout and "Below the bar" not in r.stdout, r.stdout)
    r = measure("--profile")
    check("the profile, by kernel", "| conv2d_cudnn | 2 | 90.0 | 90 % | 67 | 133.3 |" in r.stdout, r.stdout)
    check("and by node", "| conv2d d | conv2d_cudnn | 60.0 | 60 % |" in r.stdout and "nodes one by one 100 us" in r.stdout, r.stdout)
    r = measure("--fusion-table")
    check("the fusions", "| conv2d forward bf16 1x3x8x8 | 2 | bias relu | 4 | 10.5 | 0.0 | 40 2=5 |" in r.stdout
          and "| none | 0 | - | - |  |" in r.stdout, r.stdout)


def test_bar():
    """What is below the bar is named."""
    set_up(eager=0.02, graph=0.009)
    measure("--networks", "vgg16", "--batches", "1", "512")
    r = measure("--table")
    check("below the bar", "Below the bar: vgg16, batch 1: 0.90 of PyTorch's best; vgg16, batch 1: 2.00 times eager." in r.stdout,
          r.stdout)


def test_goes_on():
    """It stops in time, and goes on in the next call, with each cell once."""
    set_up(eager=0.04, graph=0.02)
    words = ["--networks", "alexnet", "vgg16", "googlenet", "--batches", "1", "--minutes", "0.09", "--no-torch"]
    before = time.monotonic()
    r = measure(*words, FAKE_SLEEP="0.4")
    took = time.monotonic() - before
    check("cells are left", r.returncode == 3 and "cells are left" in r.stdout, (r.returncode, r.stdout, r.stderr))
    check("it stopped in time", took < 0.09 * 60 + 2, took)
    there = len(rows())
    check("some are there", 0 < there < 3, there)
    with open("rows.jsonl", "a") as file:
        file.write('{"network": "alexnet", "bat')  # as if killed in the middle of a row
    r = measure(*words)
    check("it goes on", r.returncode == 0 and f"{there} of 3 cells are in" in r.stderr, (r.returncode, r.stderr))
    r = measure(*words)
    check("and there is nothing left", r.returncode == 0 and "3 of 3 cells" in r.stderr and not r.stdout, (r.returncode, r.stdout))
    r = measure("--table")
    check("each is in the table once", all(r.stdout.count(f"| {n} | 1 |") == 1 for n in ("alexnet", "vgg16", "googlenet")), r.stdout)
    r = measure(*words[:-3], "--no-torch", "--minutes", "0.02", "--precision", "f32", FAKE_SLEEP="3")
    check("no time for a single one", r.returncode == 3 and "give more --minutes" in r.stdout, (r.returncode, r.stdout))
    check("another precision is another cell", "3 of 3 cells are left" in r.stdout, r.stdout)
    r = measure("--networks", "alexnet", "--batches", "1")
    check("so is one with PyTorch", r.returncode == 0 and rows_of("alexnet")[-1]["sides"]["graph"], (r.returncode, r.stderr))


def rows_of(network):
    found = []
    with open("rows.jsonl") as file:
        for line in file:
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
    return [row for row in found if row["network"] == network]


def test_failures():
    set_up(eager=0.04)
    r = measure("--networks", "alexnet", "--batches", "512")
    check("a form that fails is told", r.returncode == 1 and "alexnet, batch 512: graph: OutOfMemoryError" in r.stderr, r.stderr)
    check("the others are measured", len(rows()[0]["sides"]["eager"]) == 3 and len(rows()[0]["sides"]["brasa"]) == 3, rows()[0])
    r = measure("--table")
    check("and it is in the table", "| alexnet | 512 | 12,800 | - | 12,800 |" in r.stdout
          and "graph: OutOfMemoryError: CUDA out of memory" in r.stdout, r.stdout)
    size = os.path.getsize("rows.jsonl")
    r = measure("--networks", "alexnet", "--batches", "512")
    check("it counts as measured", r.returncode == 0 and os.path.getsize("rows.jsonl") == size, (r.returncode, r.stderr))
    set_up(eager=0.04, graph=0.02)
    r = measure("--networks", "alexnet", "--batches", "512", FAKE_FAIL="--tuned")
    check("a part of the account", r.returncode == 1 and "engines: brasa: error: it was told to fail" in r.stderr, r.stderr)
    r = measure("--networks", "alexnet", "--batches", "512", "--retry")
    check("once more", r.returncode == 0 and len(rows()) == 2, (r.returncode, r.stderr))
    set_up(eager=0.04, graph=0.02)
    r = measure("--networks", "alexnet", "--batches", "512", FAKE_FAIL="bench step")
    check("the program", r.returncode == 1 and "brasa: brasa: error: it was told to fail" in r.stderr, r.stderr)
    r = measure("--networks", "alexnet", "--batches", "512", "--limit", "0.5", "--no-torch", "--retry", FAKE_SLEEP="5")
    check("one that never answers", r.returncode == 1 and "took more than 0.5 s" in r.stderr, r.stderr)
    r = measure("--table", "--out", "nothing.jsonl")
    check("no rows", r.returncode == 1 and "nothing is in nothing.jsonl" in r.stderr, (r.returncode, r.stderr))
    r = measure("--out", "nowhere/rows.jsonl")
    check("a file that cannot be written", r.returncode == 1 and "nowhere" in r.stderr and "Traceback" not in r.stderr, r.stderr)


def test_compile():
    set_up(eager=0.04, graph=0.02, compiled=0.01)
    r = measure("--networks", "alexnet", "--batches", "1", "100")
    check("without torch.compile", r.returncode == 0 and len(rows()) == 2, (r.returncode, r.stderr))
    r = measure("--networks", "alexnet", "--batches", "1", "100", "--compile")
    check("with it", r.returncode == 0 and "1 of 2 cells" in r.stderr and len(rows()) == 3, (r.returncode, r.stderr))
    r = measure("--table")
    check("the best of three", "| alexnet | 100 | 2,500 | 5,000 | 10,000 | 10,000 |" in r.stdout
          and "| alexnet | 1 | 25 | 50 | - | 50 |" in r.stdout, r.stdout)


def sanitize(*words, **environment):
    return subprocess.run([sys.executable, os.path.join(FOLDER, "sanitize.py"), "--tests", os.path.abspath("test_ops"), "--logs", "logs",
                           "--sanitizer", os.path.abspath("compute-sanitizer"), *words], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, **environment))


def read_lines(name):
    with open(name) as file:
        return file.read().splitlines()


def test_sanitize():
    script("test_ops", OPS % sys.executable)
    script("compute-sanitizer", SANITIZER % sys.executable)
    r = sanitize("--precisions", "f32")
    check("programs that are not built", r.returncode == 1 and "test_device_updates, test_parts, test_pictures: not beside" in r.stderr,
          (r.returncode, r.stderr))
    for name in ("test_device_updates", "test_parts", "test_pictures"):
        script(name, PROGRAM % sys.executable)
    # In f32 memcheck has 13: two programs, eight shares of conv2d, three ops; racecheck 29, with three times the shares. The tests of updates know bf16 alone.
    r = sanitize("--seconds", "10", "--least", "1", "--precisions", "f32", "--tools", "memcheck", "--jobs", "1", SLOW="add")
    check("stopped in time", r.returncode == 3 and "left: memcheck f32 add" in r.stdout, (r.returncode, r.stdout, r.stderr))
    check("what was covered", all(f"memcheck f32 {unit}: clean" in r.stdout for unit in ("test_parts", "conv2d 1/8", "conv2d 8/8"))
          and "memcheck f32 relu: clean" in r.stdout, r.stdout)
    check("and what is left", "sanitizer: 11 of 13 looked at, 0 processes with findings, 2 left" in r.stdout, r.stdout)
    r = sanitize("--precisions", "f32", "--jobs", "4", BAD="add")
    check("it goes on with what is left", r.returncode == 1 and "memcheck f32 conv2d" not in r.stdout, (r.returncode, r.stdout))
    check("an error is told", "memcheck f32 relu6, add: FAILED: Invalid __global__ write of size 4 bytes, case kernels add 'x' on 1x1; "
          "see logs/sanitize-memcheck-f32-relu6-and-1.log" in r.stdout, r.stdout)
    check("the other tool is clean", "racecheck f32 relu, relu6, add: clean" in r.stdout, r.stdout)
    r = sanitize("--precisions", "f32")
    check("what failed is done again", r.returncode == 0 and "memcheck f32 relu6, add: clean" in r.stdout
          and "42 of 42 looked at, 0 processes with findings, 0 left" in r.stdout, (r.returncode, r.stdout))
    covered = read_lines("logs/sanitized.txt")[2:]
    check("each is on record once", len(covered) == len(set(covered)) == 42 and "racecheck f32 conv2d 3/24" in covered, covered)
    r = sanitize("--precisions", "f32")
    check("what is covered is not done again", r.returncode == 0 and "clean" not in r.stdout, (r.returncode, r.stdout))
    lines = read_lines("asked")
    check("racecheck without libraries", "racecheck f32 conv2d 2/24 off test_ops -v kernels" in lines
          and "memcheck f32 conv2d 2/8 on test_ops -v kernels" in lines and "racecheck f32 - - off test_parts -v" in lines, lines)
    check("no updates in floats", not any("test_device_updates" in line for line in lines), lines)
    r = sanitize("--tools", "memcheck", "--sources", "others", "--jobs", "2", MEET="yes")
    check("with other sources all is, two at once", r.returncode == 0 and "memcheck f32 conv2d 1/8: clean" in r.stdout
          and "memcheck bf16 test_device_updates: clean" in r.stdout, (r.returncode, r.stdout))
    r = sanitize("--precisions", "bf16", "--tools", "racecheck", "--sources", "others", BAD="test_parts")
    check("a program that fails", r.returncode == 1 and "racecheck bf16 test_parts: FAILED: FAILED  some case" in r.stdout
          and "29 processes" not in r.stdout, (r.returncode, r.stdout))
    check("one that takes long is shared out", "racecheck bf16 test_device_updates 14/14: clean" in r.stdout
          and "racecheck bf16 - 14/14 off test_device_updates -v" in read_lines("asked"), (r.stdout, read_lines("asked")))
    r = sanitize("--precisions", "bf16", "--tools", "racecheck", "--sources", "blind", BLIND="yes")
    check("one that looks at nothing", r.returncode == 1 and "racecheck did not look at it" in r.stdout, (r.returncode, r.stdout))
    r = sanitize("--jobs", "0")
    check("no jobs", r.returncode == 2 and "expected 1 or more, got 0" in r.stderr, (r.returncode, r.stderr))
    script("test_ops", "#!/bin/sh\necho conv2d\nexit 9\n")
    r = sanitize("--precisions", "bf16", "--tools", "memcheck")
    check("a test that fails", r.returncode == 1 and "memcheck bf16 conv2d 1/8: FAILED: ended with 9" in r.stdout, (r.returncode, r.stdout))


def test_sources():
    """Comments and blanks do not count, words in quotes and lines of the preprocessor do."""
    sys.path.insert(0, FOLDER)
    from sources import hash_sources

    def of(text, name="src/a.c"):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "src"))
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
            return hash_sources(("src",), folder)

    plain = of('#define A 1\nint a = A;\nchar *b = "x  // y";\n')
    check("comments and blanks do not count",
          plain == of('// head\n#define A 1 /* one\ntwo */\n\n\nint  a = A;   // end\n\tchar *b = "x  // y";'))
    check("words in quotes do", plain != of('#define A 1\nint a = A;\nchar *b = "x // y";\n'))
    check("what is in them is no comment", of('char *a = "/*"; int b; char *c = "*/";') != of('char *a = "/*"; int d; char *c = "*/";'))
    check("quotes in a comment open nothing", of("int a; // don't\nint b;") == of("int a;\nint b;"))
    check("code does", plain != of('#define A 2\nint a = A;\nchar *b = "x  // y";\n'))
    check("so do lines", of("#define A 1\nint a;\n") != of("#define A 1 int a;\n"))
    check("and names", of("int a;", "src/a.c") != of("int a;", "src/b.c"))
    check("in other files all counts", of("a # b\n", "src/a.txt") != of("a  # b\n", "src/a.txt"))


def find_torch():
    for python in (os.environ.get("BRASA_TORCH_PYTHON"), sys.executable,
                   os.path.expanduser("~/.local/share/brasa/peers/pytorch/bin/python")):
        if python and os.path.exists(python) and subprocess.run([python, "-c", "import torch, torchvision"],
                                                                capture_output=True).returncode == 0:
            return python
    return None


def test_torch_step():
    python = find_torch()
    if not python:
        return skip("torch_step.py", "no PyTorch")
    command = [python, os.path.join(FOLDER, "torch_step.py"), "alexnet", "1"]
    r = subprocess.run([*command, "eager", "--device", "cpu"], input="0 1\n0 2\n", capture_output=True, text=True, timeout=300)
    answers = [json.loads(line) for line in r.stdout.splitlines()]
    check("steps of PyTorch", r.returncode == 0 and len(answers) == 3 and answers[0]["torch"]
          and [a["steps"] for a in answers[1:]] == [5, 10] and answers[2]["median_s"] > 0, (r.returncode, r.stdout, r.stderr))
    r = subprocess.run([*command, "graph", "--device", "cpu"], input="", capture_output=True, text=True, timeout=300)
    check("no graph on a CPU", r.returncode == 1 and "records no graphs" in r.stderr, r.stderr)


with tempfile.TemporaryDirectory() as work:
    os.chdir(work)
    os.mkdir("bin")
    script("bin/nvidia-smi", SMI % sys.executable)
    test_row()
    test_bar()
    test_goes_on()
    test_failures()
    test_compile()
    test_sanitize()
    test_sources()
    test_torch_step()
    os.chdir("/")
finish()
