"""`brasa plan` from outside: what it needs, what fits, sizes with their units, and one line for what is wrong."""
import json, os, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
import small_data
from checks import BRASA, check, finish


PERSISTENT = ("weights", "buffers", "optimizer", "sums")


def run(*words):
    return subprocess.run([BRASA, "plan", *words], capture_output=True, text=True, timeout=300)


def gives(*words):
    r = run(*words, "--json")
    check("plan " + " ".join(words), r.returncode == 0 and not r.stderr, r)
    return json.loads(r.stdout)


def total(rows):
    return sum(size for name, size in rows.items() if name != "total")


# Without a budget: what it needs, to the byte, and the same as `explain` says.
small = gives("mnist_cnn", "--batch", "8", "--optimizer", "adam")
explained = json.loads(subprocess.run([BRASA, "explain", "mnist_cnn", "--batch", "8", "--optimizer", "adam", "--json"],
                                      capture_output=True, text=True).stdout)["memory"]
check("the rows add up", total(small["needs"]) == small["needs"]["total"], small)
check("as explain says", all(small["needs"][k] == explained[k] for k in PERSISTENT)
      and small["needs"]["total"] - small["needs"]["loader"] == explained["total"], (small, explained))
check("a loader for the network's pictures: two batches that train and two that test",
      0 < small["needs"]["loader"] - 4 * 8 * 28 * 28 * 4 < 10000, small)
check("and says so", "for samples of 1x28x28 in files" in run("mnist_cnn").stdout)
check("no budget, no answer", "fits" not in small and "largest_batch" not in small, small)

# A network without batch norm can be split, one with it cannot.
vgg = gives("vgg16", "--batch", "100", "--mem", "2G", "--optimizer", "sgd")
check("vgg16 does not fit", not vgg["fits"] and vgg["needs"]["total"] > vgg["budget"] == 2 * 10**9, vgg)
check("a smaller batch does", 1 <= vgg["largest_batch"] < 100, vgg)
check("that one is within", vgg["needs_at_largest_batch"]["total"] <= 2 * 10**9, vgg)
check("parts are equal and within",
      100 % vgg["parts"] == 0 < vgg["parts"] and vgg["needs_in_parts"]["total"] <= 2 * 10**9, vgg)
check("their rows add up", total(vgg["needs_in_parts"]) == vgg["needs_in_parts"]["total"], vgg)
resnet = gives("resnet50", "--batch", "100", "--mem", "2G")
check("resnet50 cannot be split", resnet["parts"] == 0 and "batchnorm" in resnet["cannot_split"], resnet)
text = run("resnet50", "--batch", "100", "--mem", "2G").stdout
check("in words", "at batch 100: does not fit 2.00 GB" in text
      and "fits at batch %d: " % resnet["largest_batch"] in text and "cannot be split" in text, text)
text = run("vgg16", "--batch", "100", "--mem", "2G", "--optimizer", "sgd").stdout
check("parts in words", "fits as %d micro-batches of %d" % (vgg["parts"], 100 // vgg["parts"]) in text, text)
text = run("letter_mlp", "--mem", "1G").stdout
check("all fits", "fits 1.00 GB" in text and "parts" not in text, text)
text = run("vgg16", "--mem", "1M").stdout
check("nothing fits", "no batch fits" in text and "does not fit in micro-batches either" in text, text)


def trains(folder, *words):
    """What run.json says that a training takes; where it is refused, what it says."""
    r = subprocess.run([BRASA, "train", *words, "--epochs", "1", "--quiet", "--out", folder], capture_output=True, text=True)
    if r.returncode:
        return r.stderr
    with open(folder + "/run.json") as file:
        return json.load(file)["plan"]


def agrees(folder, *words):
    """The plan of a set, and a training with the same options."""
    p, t = gives(*words), trains(folder, *words)
    check("train takes what plan says: " + " ".join(words), isinstance(t, dict) and t["parts"] == p.get("parts", 1)
          and p["needs" if t["parts"] == 1 else "needs_in_parts"]["total"] == t["total"], (p, t))
    return p


def refused(folder, *words):
    p, t = gives(*words), trains(folder, *words)
    check("both refuse: " + " ".join(words), not p["fits"] and p["parts"] == 0 and isinstance(t, str)
          and "largest batch that fits is %d," % p["largest_batch"] in t, (p, t))
    return p


SPLIT = "input 1 28 28\nconv 4 3x3\nrelu\nflatten\nclassify 10\n"
NORM = SPLIT.replace("relu", "batchnorm\nrelu")
with tempfile.TemporaryDirectory() as home:
    os.chdir(home)
    for name, text in (("split.net", SPLIT), ("norm.net", NORM)):
        with open(name, "w") as file:
            file.write(text)
    small_data.pictures("photos", 30)
    digits, size = ["--data", "synth:digits,n=300"], ["--transform", "channels=1 resize=28 crop=28"]
    whole = agrees("a", "norm.net", *digits, "--batch", "60")
    check("drawn pictures are kept", whole["needs"]["kept"] > 0 and total(whole["needs"]) == whole["needs"]["total"], whole)
    agrees("b", "norm.net", *digits, "--batch", "60", "--split", "70/30", "--optimizer", "adam", "--mem", "1G")
    agrees("c", "norm.net", *digits, "--batch", "70", "--folds", "3", "--deterministic", "--clip-norm", "1")
    agrees("d", "letter_mlp", "--data", "synth:letter,n=260", "--batch", "1000", "--class-weights", "balanced")
    least = whole["needs"]["total"] - whole["needs"]["kept"]
    tight = refused("e", "norm.net", *digits, "--batch", "60", "--mem", str(least * 2 // 3))
    most = str(tight["largest_batch"])
    check("the largest batch fits", agrees("f", "norm.net", *digits, "--batch", most, "--mem", str(tight["budget"]))["fits"])
    refused("g", "norm.net", *digits, "--batch", str(int(most) + 1), "--mem", str(tight["budget"]))
    parts = agrees("h", "split.net", *digits, "--batch", "60", "--mem", str(least * 2 // 3))
    check("in parts", parts["parts"] > 1, parts)
    other = SPLIT.replace("classify 10", "classify 2")
    with open("two.net", "w") as file:
        file.write(other)
    agrees("i", "two.net", "--data", "images:photos", *size, "--split", "70/30", "--batch", "8")
    os.chdir("/")
r = run("mnist_cnn", "--split", "70/30")
check("--split needs --data", r.returncode == 2 and "--split needs --data" in r.stderr, r)
r = run("mnist_cnn", "--classes", "3", "--data", "synth:digits")
check("classes are the data's", r.returncode == 2 and "--classes" in r.stderr, r)

# On a GPU a budget is at most what is free there, less some for libraries.
gpu = dict(BRASA_BACKENDS=os.path.join(os.environ["BRASA_BUILD"], "tests", "fake"), FAKE_CUDA_MEMORY="400000000")
os.environ.update(gpu)
most = gives("mnist_cnn", "--batch", "500", "--device", "cuda")["budget"]
check("less than there is", 100 * 10**6 < most < 200 * 10**6, most)
check("more than there is is not to be had", gives("mnist_cnn", "--device", "cuda", "--mem", "10G")["budget"] == most)
check("less is", gives("mnist_cnn", "--device", "cuda", "--mem", "10M")["budget"] == 10**7)
os.environ["FAKE_CUDA_MEMORY"] = "20000000"
r = run("mnist_cnn", "--batch", "1", "--device", "cuda", "--mem", "10G")
check("nothing is left", r.returncode == 0 and "does not fit what libraries leave of cuda:0" in r.stdout, r)
for name in gpu:
    del os.environ[name]

for size, count in (("1000000", 10**6), ("1M", 10**6), ("1MB", 10**6), ("1Mi", 2**20), ("1MiB", 2**20),
                    ("1.5K", 1500), ("0.5Gi", 2**29), ("2T", 2 * 10**12), ("1Ti", 2**40)):
    check("size " + size, gives("letter_mlp", "--mem", size)["budget"] == count)
for size in ("", "0", "-1", "M", "1X", "1m", "1 G", "1GG", "1Gib", "nan", "inf", "1e3", "1.2.3G", "9999999999T"):
    r = run("letter_mlp", "--mem=" + size)
    check("refused size '%s'" % size, r.returncode == 2 and not r.stdout and len(r.stderr.splitlines()) == 1
          and "--mem: expected a size such as 800M, 2G or 2Gi" in r.stderr, r)
r = run("resnet5", "--mem", "1G")
check("no such model", r.returncode == 1 and "did you mean" in r.stderr and not r.stdout, r)
r = run("mnist_cnn", "--optimizer", "sdg")
check("no such optimizer", r.returncode == 1 and "did you mean 'sgd'" in r.stderr and not r.stdout, r)

finish()
