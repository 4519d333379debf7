"""Trainings that are killed, at random moments or right before a write, sync or rename, and resumed until they end:
the weights must have the bits of a training that nobody disturbed. test_resume.py, test_resume_long.py and
test_resume_cuda.py say how often."""
import hashlib, json, os, random, shutil, subprocess, sys, tempfile, time

import small_data
from checks import BRASA, DATA, SOURCE, check, finish, skip

IDX_NET = "input 1 8 8\nconv 6 3x3 name=c\nbatchnorm name=n\nrelu\ndropout 0.3\nflatten\nclassify 10 name=f\n"
PICTURE_NET = "input 3 10 10\nconv 6 3x3 name=c\nbatchnorm name=n\nrelu\nflatten\ndropout 0.3\nclassify 2 name=f\n"
AUGMENT = "resize=13 crop=10 random_crop flip=horizontal"


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def build_shim(folder):
    """The library that kills, or None."""
    shim = os.path.join(folder, "kill_at.so")
    try:
        r = subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o", shim,
                            os.path.join(SOURCE, "tests", "tools", "kill_at.c"), "-ldl"], capture_output=True)
    except OSError:
        return None
    return shim if r.returncode == 0 else None


def attempt(words, draw, length, shim):
    """Runs it and kills it; returns what subprocess says."""
    env = dict(os.environ)
    by_call = shim is not None and draw.random() < 0.5
    if by_call:
        env.update(LD_PRELOAD=shim, KILL_AT=str(draw.randint(1, 150)))
    p = subprocess.Popen([BRASA, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
    if not by_call:
        try:
            p.wait(draw.uniform(0, 1.2 * length))
        except subprocess.TimeoutExpired:
            p.kill()
    err = p.communicate(timeout=300)[1]
    return p.returncode, err.decode()


def disturb(name, words, kills, draw, shim):
    begin = time.time()
    r = subprocess.run([BRASA, "train", *words, "--quiet", "--out", name + "-whole"], capture_output=True, text=True)
    length = time.time() - begin
    check(name + ": undisturbed", r.returncode == 0, r)
    wanted = digest(name + "-whole/weights.safetensors")
    cut, killed, runs, torn = name + "-cut", 0, 0, 0
    while killed < kills or os.path.exists(cut):
        fresh = not os.path.exists(cut + "/run.json")
        call = ["train", *words, "--out", cut] if fresh else ["train", "--resume", cut]
        code, said = attempt(call + ["--quiet"], draw, length if killed < kills else 1000, shim if killed < kills else None)
        if code == -9:
            killed += 1
            torn += any(n.endswith(".tmp") for n in os.listdir(cut)) if os.path.exists(cut) else 0
            continue
        check(name + ": goes on after a kill", code == 0, (code, said))
        if code != 0:
            return
        runs += 1
        check("%s: the same bits, %d kills so far" % (name, killed), digest(cut + "/weights.safetensors") == wanted)
        check(name + ": nothing is left over", not any(n.endswith(".tmp") for n in os.listdir(cut)), os.listdir(cut))
        check(name + ": all epochs are told once", open(cut + "/epochs.jsonl").read().count("\n") ==
              open(name + "-whole/epochs.jsonl").read().count("\n"))
        shutil.rmtree(cut)
    print("%s: %d kills, %d of them in the middle of a file, %d trainings ended with the same bits" %
          (name, killed, torn, runs))


def begin(name, words, shim):
    """Killed before each call up to the first checkpoint, one after the other; then it begins, or goes on, to its end."""
    train = ["train", *words, "--quiet", "--out"]
    r = subprocess.run([BRASA, *train, name + "-whole"], capture_output=True, text=True)
    check(name + ": undisturbed", r.returncode == 0, r)
    unit = "/fold-01/" if "--folds" in words else "/"
    wanted, cut, at, saved = digest(name + "-whole" + unit + "weights.safetensors"), name + "-cut", 0, False
    while not saved and at < 60:
        at += 1
        r = subprocess.run([BRASA, *train, cut], capture_output=True, env=dict(os.environ, LD_PRELOAD=shim, KILL_AT=str(at)))
        check("%s: killed before call %d" % (name, at), r.returncode == -9, r)
        saved = os.path.exists(cut + unit + "checkpoint.safetensors")
        again = ["train", "--resume", cut] if os.path.exists(cut + "/run.json") else train + [cut]
        r = subprocess.run([BRASA, *again], capture_output=True, text=True)
        check("%s: goes on after a kill before call %d" % (name, at), r.returncode == 0, r)
        check("%s: the same bits, killed before call %d" % (name, at), r.returncode == 0 and
              digest(cut + unit + "weights.safetensors") == wanted)
        shutil.rmtree(cut)
    check(name + ": there was a checkpoint", saved, at)
    print("%s: killed before each of the first %d calls" % (name, at))


def find_device():
    """Whether there is a GPU, and what is missing."""
    r = subprocess.run([BRASA, "doctor", "--json"], capture_output=True, text=True)
    cuda = json.loads(r.stdout)["cuda"] if r.returncode == 0 else {"devices": [], "missing": r.stderr.strip()}
    return bool(cuda["devices"]), cuda["missing"]


def on_gpu(kills):
    """A network on drawn digits, in floats and in 16 bits."""
    there, missing = find_device()
    if not there:
        skip("the kills on a GPU", "no CUDA device: %s" % missing)
        return finish()
    draw = random.Random(11)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shim = build_shim(folder)
        for precision, share in (("f32", kills // 2), ("bf16", kills - kills // 2)):
            disturb(precision, ["mnist_cnn", "--data", "synth:digits,n=1500", "--epochs", "20", "--batch", "64", "--save-every",
                                "0.01", "--seed", "3", "--device", "cuda", "--precision", precision], share, draw, shim)
        os.chdir("/")
    finish()


def main(kills, mnist=0):
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shim = build_shim(folder)
        if not shim:
            skip("the kills in system calls", "no C compiler")
        small_data.idx("digits", 300)
        small_data.pictures("photos", 48)
        for name, text in (("idx.net", IDX_NET), ("pictures.net", PICTURE_NET)):
            with open(name, "w") as file:
                file.write(text)
        common = ["--batch", "16", "--save-every", "0.01", "--optimizer", "adam", "--seed", "3"]
        if shim:
            begin("begin", ["idx.net", "--data", "idx:digits", "--epochs", "1", "--threads", "1", "--no-tune", "--folds", "2"],
                  shim)
        disturb("idx", ["idx.net", "--data", "idx:digits", "--epochs", "25", "--threads", "2", *common], kills, draw, shim)
        disturb("pictures", ["pictures.net", "--data", "images:photos", "--epochs", "25", "--threads", "1", "--split", "70/30",
                             "--transform", AUGMENT, *common], kills, draw, shim)
        if mnist and DATA:
            disturb("mnist", ["mnist_cnn", "--data", "idx:" + os.path.join(DATA, "mnist"), "--epochs", "1", "--batch", "128",
                              "--save-every", "1", "--seed", "3"], mnist, draw, shim)
        elif mnist:
            skip("the kills on MNIST", "BRASA_DATA names no data")
        os.chdir("/")
    finish()
