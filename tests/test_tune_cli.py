"""Kernels chosen by their times, from outside: what is kept where, and that a run computes as it began."""
import hashlib, json, os, shutil, signal, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, check, finish, skip

NET = "input 3 32 32\nconv 32 3x3 pad=1\nrelu\nconv 32 3x3 pad=1 name=b\nrelu\nmaxpool 4\nflatten\nclassify 10\n"
HEAD = "brasa choices 1"
TRAIN = ["train", "n.net", "--data", "synth:cifar10,n=100", "--keep", "last", "--threads", "2", "--json"]


def run(*words, cache="cache", **variables):
    env = {k: v for k, v in os.environ.items() if k not in ("BRASA_TUNE", "BRASA_CACHE", "XDG_CACHE_HOME")}
    env.update(variables)
    env = {k: v for k, v in env.items() if v is not None}
    if cache:
        env["BRASA_CACHE"] = cache
    return subprocess.run([BRASA, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=500, env=env)


def works(*words, said="", **variables):
    """What it prints; standard error must hold `said`, or nothing."""
    r = run(*words, **variables)
    check(" ".join(words), r.returncode == 0 and (said in r.stderr if said else not r.stderr),
          (r.returncode, r.stdout[-500:], r.stderr))
    return r.stdout


def events(*words, **how):
    """Without the alarm that so short a training may raise."""
    told = map(json.loads, works(*words, **how).splitlines())
    return [e for e in told if e["event"] != "alarm" or "guessing" not in e["text"]]


def kinds(told):
    return {e["event"] for e in told}


def digest(*path):
    with open(os.path.join(*path), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def choices(path):
    """Of each line: machine, node, and the kernels with their times; of a record, what is of the machine alone."""
    with open(path) as file:
        lines = file.read().splitlines()
    check("the head of " + path, lines[:1] == [HEAD], lines[:1])
    return [line.split("\t") for line in lines[1:] if line not in ("cpu\tchosen here\tyes", "end")]


def turn(path):
    """The other kernel of each line is the chosen one."""
    lines = choices(path)
    for line in lines:
        best = [k.startswith("*") for k in line[2:]].index(True)
        line[2:] = [k.lstrip("*") for k in line[2:]]
        other = next(i for i, k in enumerate(line[2:]) if i != best and not k.endswith(" 0"))
        line[2 + other] = "*" + line[2 + other]
    with open(path, "w") as file:
        file.write(HEAD + "\n" + "".join("\t".join(line) + "\n" for line in lines))


def kernel_of_b(**how):
    nodes = json.loads(works("explain", "n.net", "--json", "--threads", "2", **how))["nodes"]
    return next(n for n in nodes if n["layer"] == "b" and n["op"] == "conv2d")


def test_files():
    told = works("explain", "n.net", "--tuned", "--threads", "2")
    facts = json.loads(works("doctor", "--json"))["tuning"]
    check("doctor names the file", facts["on"] and facts["cache"] == "cache/kernels.txt", facts)
    check("doctor says where", "cache/kernels.txt" in works("doctor"))
    check("--tuned ends with a sum", "several kernels" in told.splitlines()[-1], told)
    for variables, place in (({"XDG_CACHE_HOME": os.path.abspath("xdg")}, "xdg/brasa"),
                             ({"HOME": os.path.abspath("home")}, "home/.cache/brasa")):
        works("explain", "n.net", "--tuned", cache=None, **variables)
        check("kept in " + place, os.path.exists(os.path.join(place, "kernels.txt")) or not os.path.exists("cache/kernels.txt"))
    before = sorted(os.listdir("."))
    refused = "brasa: note: BRASA_CACHE: expected a folder, or off, got '%s': times of kernels are not kept\n"
    for cache in ("off", "/proc/nowhere", "n.net", "long/" * 2000):
        r = run("explain", "n.net", "--tuned", cache=cache)
        check("cache " + cache[:20], r.returncode == 0 and r.stderr == (refused % cache[:200] if cache != "off" else ""), r)
    check("nothing is kept elsewhere", sorted(os.listdir(".")) == before, os.listdir("."))
    check("doctor knows off", json.loads(works("doctor", "--json", cache="off"))["tuning"]["cache"] is None)
    r = run("explain", "n.net", "--tuned", "--no-tune")
    check("--tuned --no-tune", r.returncode == 2 and "--tuned" in r.stderr, r)


NEWER = """typedef struct { int major, minor, patch; const char *hash; unsigned cpu, gpu; } version;
const version *dnnl_version(void) { static const version v = {98, 76, 54, "", 0, 0}; return &v; }
"""


def test_newer_library():
    """The library that runs counts, not the headers that were compiled with."""
    if not shutil.which("cc") or "libdnnl" not in subprocess.run(["ldd", BRASA], stdout=subprocess.PIPE, text=True).stdout:
        return skip("another oneDNN", "no compiler, or this build has no shared oneDNN", 2)
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", "newer.so"], input=NEWER, text=True, check=True)
    newer = {"LD_PRELOAD": os.path.abspath("newer.so")}
    check("doctor tells its version", json.loads(works("doctor", "--json", **newer))["onednn"] == "98.76.54")
    works("explain", "n.net", "--tuned", cache="newer", **newer)
    machines = {line[0] for line in choices("newer/kernels.txt")}
    check("times are of that version", machines and all(", oneDNN 98.76.54, " in m for m in machines), machines)


def test_instructions():
    """BRASA_ISA holds for oneDNN, too; and what oneDNN's own variable takes away belongs to the machine's name."""
    facts = json.loads(works("doctor", "--json"))
    if facts["isa"] != "avx512" or not facts["onednn"]:
        return skip("fewer instructions", "this machine has no AVX-512, or this build no oneDNN", 2)
    r = run("bench", "step", "n.net", "--steps", "1", "--no-tune", BRASA_ISA="avx2", DNNL_VERBOSE="1")
    check("BRASA_ISA", "onednn_verbose" in r.stdout.replace("dnnl_verbose", "onednn_verbose") and "jit:avx512" not in r.stdout, r.stdout)
    works("explain", "n.net", "--tuned", cache="narrow", DNNL_MAX_CPU_ISA="AVX2")
    machines = {line[0] for line in choices("narrow/kernels.txt")}
    said = ", oneDNN %s with AVX2, " % facts["onednn"]
    check("DNNL_MAX_CPU_ISA", machines and all(said in m for m in machines), machines)


def test_choices():
    """Words of a verb decide; files decide; nothing else does."""
    lines = choices("cache/kernels.txt")
    check("one choice for each node", len({tuple(l[:2]) for l in lines}) == len(lines) > 0, lines)
    chosen = kernel_of_b()
    check("explain shows what was tried", len(chosen["tried"]) >= 2 and all(k["us"] > 0 for k in chosen["tried"] if k["us"]), chosen)
    check("doctor counts", json.loads(works("doctor", "--json"))["tuning"]["choices"] <= len(lines))
    first = kernel_of_b(BRASA_TUNE="off")
    check("BRASA_TUNE=off", "tried" not in first and first["kernel"] == chosen["tried"][0]["kernel"], first)
    turn("cache/kernels.txt")
    turned = kernel_of_b()
    check("the file decides", turned["kernel"] != chosen["kernel"], (turned["kernel"], chosen["kernel"]))
    for words in (["bench", "step", "n.net", "--steps", "5"], ["plan", "n.net"], ["bench", "ops", "--sum", "n.net"]):
        for more in ([], ["--no-tune"]):
            result = json.loads(works(*words, "--threads", "2", "--json", *more))
            if words[1] == "step":
                check("bench step" + " ".join(more), ((turned if not more else first)["kernel"]) in result["kernels"], result["kernels"])
    turn("cache/kernels.txt")


def test_trainings():
    """A run that goes on takes the kernels that it began with, whatever the file says by then."""
    told = events(*TRAIN, "--epochs", "2", "--out", "whole")
    check("it is told", "tune" in kinds(told), kinds(told))
    check("the record", choices("whole/kernels.txt"))
    told = events(*TRAIN, "--epochs", "2", "--out", "again")
    check("nothing is timed again", "tune" not in kinds(told), kinds(told))
    check("the same choices, the same bits", digest("again", "weights.safetensors") == digest("whole", "weights.safetensors"))
    events(*TRAIN, "--epochs", "1", "--out", "half")
    record = digest("half", "kernels.txt")
    turn("cache/kernels.txt")
    for name, how in (("turned", {}), ("without", {"cache": "off"}), ("untuned", {"BRASA_TUNE": "off"})):
        subprocess.run(["cp", "-r", "half", name], check=True)
        told = events("train", "--resume", name, "--epochs", "2", "--json", **how)
        check("%s: no alarm, nothing timed" % name, not kinds(told) & {"tune", "note", "alarm"}, kinds(told))
        check("%s: the same bits" % name, digest(name, "weights.safetensors") == digest("whole", "weights.safetensors"))
        check("%s: the record stays" % name, digest(name, "kernels.txt") == record)
    events(*TRAIN, "--epochs", "2", "--out", "other")
    check("other kernels, other bits", digest("other", "weights.safetensors") != digest("whole", "weights.safetensors"))
    os.remove("half/kernels.txt")
    r = run("train", "--resume", "half", "--epochs", "2")
    first = kernel_of_b(BRASA_TUNE="off")["kernel"]
    if first not in open("whole/run.json").read():
        check("a lost record is told", r.returncode == 0 and "other kernels" in r.stderr, r)
    result = json.loads(works("eval", "whole", "--json"))
    with open("whole/result.json") as file:
        check("eval agrees", result["accuracy"] == json.load(file)["accuracy"])
    turn("cache/kernels.txt")


def test_no_tune():
    told = events(*TRAIN, "--epochs", "1", "--no-tune", "--out", "plain")
    check("--no-tune times nothing", "tune" not in kinds(told) and not choices("plain/kernels.txt"))
    with open("plain/run.json") as file:
        check("--no-tune is a setting", json.load(file)["settings"]["no_tune"] is True)
    check("it stays so", "tune" not in kinds(events("train", "--resume", "plain", "--epochs", "2", "--json")))
    r = run("train", "--resume", "plain", "--no-tune")
    check("not when it goes on", r.returncode == 2 and "--no-tune" in r.stderr, r)


def test_nowhere():
    """A choice that cannot be kept is not made: runs repeat."""
    events(*TRAIN, "--epochs", "1", "--no-tune", "--out", "first")
    for name, how, noted in (("off", {"cache": "off"}, 0), ("unusable", {"cache": "/proc/nowhere", "said": "note: BRASA_CACHE"}, 0),
                             ("homeless", {"cache": None, "HOME": None, "said": "note: times of kernels are not kept"}, 0),
                             ("unwritable", {"cache": None, "XDG_CACHE_HOME": "/proc/nowhere"}, 1)):
        told = events(*TRAIN, "--epochs", "1", "--out", name, **how)
        notes = [e["text"] for e in told if e["event"] == "note"]
        check(name + ": nothing is timed", "tune" not in kinds(told), kinds(told))
        check(name + ": one note says so, unless it was wished", len(notes) == noted and all("/proc/nowhere" in n for n in notes), notes)
        check(name + ": the first kernels", digest(name, "weights.safetensors") == digest("first", "weights.safetensors"))


def test_spoilt():
    def write(text):
        with open("cache/kernels.txt", "w") as file:
            file.write(text)

    write(HEAD + "\nsomething else\n")
    works("explain", "n.net", "--tuned", said="note: cache/kernels.txt")
    check("written anew", len(choices("cache/kernels.txt")) > 0)
    works("explain", "n.net", "--tuned")
    write("my own\n")
    works("explain", "n.net", "--tuned", said="times of kernels are not kept")
    told = events(*TRAIN, "--epochs", "1", "--out", "foreign")
    notes = [e["text"] for e in told if e["event"] == "note"]
    check("a training times nothing", "tune" not in kinds(told) and any("cannot be written" in n for n in notes), notes)
    with open("cache/kernels.txt") as file:
        check("another's file stays", file.read() == "my own\n")
    check("doctor says so", "which cannot be written" in works("doctor") and not json.loads(works("doctor", "--json"))["tuning"]["writable"])
    os.remove("cache/kernels.txt")
    check("doctor says what is missing", "HOME name no folder" in works("doctor", cache=None, HOME=None))


def test_stopped():
    """A Ctrl-C or a kill leaves what was timed before."""
    with open("long.net", "w") as file:  # ten seconds and more
        file.write("input 3 96 96\n" + "".join("conv %d 3x3 pad=1\nrelu\n" % (32 + 8 * i) for i in range(12)) +
                   "avgpool 96\nflatten\nclassify 10\n")
    path = os.path.join("killed", "kernels.txt")
    env = dict(os.environ, BRASA_CACHE="killed", BRASA_TUNE="on")
    p = subprocess.Popen([BRASA, "explain", "long.net", "--tuned", "--batch", "4", "--threads", "1"], env=env, stdout=subprocess.DEVNULL)
    while p.poll() is None and not os.path.exists(path):
        time.sleep(0.05)
    p.kill()
    check("killed while it timed", p.wait() == -signal.SIGKILL, p.returncode)
    killed = len(choices(path))
    check("what was timed is kept", killed > 0, killed)
    p = subprocess.Popen([BRASA, "train", "long.net", "--data", "synth:cifar10,n=100", "--transform", "resize=96", "--batch", "4",
                          "--threads", "1", "--epochs", "1", "--out", "stopped", "--json"], env=env, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True)
    nodes = (line for line in p.stdout if json.loads(line)["event"] == "tune")
    next(nodes), next(nodes)  # the second is told when one was timed
    p.send_signal(signal.SIGINT)
    p.stdout.read()
    check("a training stops", p.wait() == 130, p.returncode)
    check("and keeps what it has timed", len(choices(path)) > killed, killed)


def test_at_once():
    """Processes that write at the same time lose nothing of each other."""
    env = dict(os.environ, BRASA_CACHE="shared", BRASA_TUNE="on")
    all_of = [subprocess.Popen([BRASA, "explain", "n.net", "--tuned", "--threads", "1", "--batch", str(b)], env=env,
                               stdout=subprocess.DEVNULL) for b in (3, 4, 5, 6)]
    check("all end well", [p.wait() for p in all_of] == [0] * 4)
    nodes = [line[1] for line in choices("shared/kernels.txt")]
    for batch in (3, 4, 5, 6):
        check("batch %d is kept" % batch, any(" %dx32x32x32 " % batch in node for node in nodes), nodes)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open("n.net", "w") as file:
        file.write(NET)
    test_files()
    if os.path.exists("cache/kernels.txt"):
        for test in (test_newer_library, test_instructions, test_choices, test_trainings, test_no_tune, test_nowhere, test_spoilt, test_stopped, test_at_once):
            test()
    else:
        skip("choices by time", "this build has one fast kernel for a convolution", 8)
    os.chdir("/")
finish()
