"""brasa train, eval, predict and runs from outside: what they print, leave behind and refuse."""
import fcntl, hashlib, json, os, pty, re, resource, shutil, signal, struct, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
import small_data
from checks import BRASA, check, finish


NET = "input 3 10 10\nconv 4 3x3 name=c\nbatchnorm name=n\nrelu\nflatten\nclassify 2 name=f\n"
LETTERS = ["letter_mlp", "--data", "synth:letter,n=1040", "--split", "70/30", "--threads", "1", "--optimizer", "adam lr=0.02"]


def run(*words, **how):
    how.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([BRASA, *words], stderr=subprocess.PIPE, text=True, timeout=500, **how)


def works(*words, said=""):
    """What it prints; standard error must hold `said`, or nothing."""
    r = run(*words)
    ok = r.returncode == 0 and (said in r.stderr if said else not r.stderr)
    check(" ".join(words), ok, (r.returncode, r.stdout[-500:], r.stderr))
    return r.stdout


def events(*words, said=""):
    text = works("train", *words, "--json", said=said)
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError as error:
        check("JSON of " + " ".join(words), False, error)
        return []


def refuses(code, part, *words):
    r = run(*words)
    lines = r.stderr.splitlines()
    check("refused: " + " ".join(words),
          r.returncode == code and len(lines) == 1 and lines[0].startswith("brasa: ") and part in lines[0],
          (r.returncode, r.stdout[:200], r.stderr))


def digest(*path):
    with open(os.path.join(*path), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def test_events():
    told = events(*LETTERS, "--epochs", "3", "--out", "a", "--schedule", "step every=23 gamma=0.5")
    kinds = [e["event"] for e in told]
    check("the order of events", [k for k in kinds if k not in ("read", "step", "saved", "alarm")] ==
          ["begin", "epoch", "epoch", "epoch", "end", "finished"], kinds)
    begin, epochs = told[kinds.index("begin")], [e for e in told if e["event"] == "epoch"]
    check("begin", begin["train"] == 728 and begin["test"] == 312 and begin["steps"] == 23 and begin["classes"] == 26
          and begin["settings"]["optimizer"] and begin["settings"]["keep"] == "best" and begin["plan_bytes"] > 0, begin)
    check("epochs", [e["epoch"] for e in epochs] == [1, 2, 3] and all(e["test_accuracy"] is not None for e in epochs))
    end = told[kinds.index("end")]
    check("end", len(end["confusion"]) == 26 and sum(map(sum, end["confusion"])) == 312 and len(end["classes"]) == 26)
    check("finished", told[-1]["folder"] == "a" and told[-1]["accuracy"] == max(e["test_accuracy"] for e in epochs))
    with open("a/epochs.jsonl") as file:
        lines = [json.loads(line) for line in file]
    check("epochs.jsonl", [line["test_accuracy"] for line in lines] == [e["test_accuracy"] for e in epochs], lines)
    check("learning rates", [e["learning_rate"] for e in epochs] == [0.02, 0.01, 0.005], epochs)
    with open("a/run.json") as file:
        record = json.load(file)
    check("run.json", record["settings"] == begin["settings"] and record["kernels"] and len(record["data"]["hash"]) == 64
          and record["data"]["hash_of"] == "definition" and record["machine"]["threads"] >= 1 and record["optimizer"]["lr"] == 0.02 and record["plan"]["total"] > 0, record)
    with open("a/report.html") as file:
        page = file.read()
    check("report.html", "letter_mlp" in page and page.rstrip().endswith("</html>"), page[:200])


def test_failed():
    """JSON ends with an event, whatever happens, and every line of it is JSON: also where a file's name is no UTF-8."""
    os.makedirs("odd/x")
    os.makedirs("odd/y")
    for name in b"odd/x/\xff.png", b"odd/y/a.png":
        with open(name, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\nrubbish")
    with open("odd.net", "w") as file:
        file.write(NET)
    for words in (["odd.net", "--data", "images:odd", "--epochs", "1"],
                  [*LETTERS[:-1], "sgd lr=1e30", "--epochs", "2", "--out", "odd-run"]):
        r = subprocess.run([BRASA, "train", *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        last = json.loads(r.stdout.splitlines()[-1].decode())
        said = r.stderr.decode(errors="replace").splitlines()
        check("failed is the last event", r.returncode == 1 and last["event"] == "failed" and len(said) == 1 and
              said[0] == "brasa: " + last["text"], (r, last))


def test_save_every():
    for every, most in ("0", 3), ("0.000001", 100):
        saved = [e for e in events(*LETTERS, "--epochs", "2", "--save-every", every, "--out", "every" + every) if e["event"] == "saved"]
        check("--save-every " + every, 3 <= len(saved) <= most and (len(saved) == 3) == (every == "0"), len(saved))
    with open("every0/run.json") as file:
        check("it is recorded", json.load(file)["settings"]["save_every"] == -1)


def test_text():
    text = works("train", *LETTERS, "--epochs", "2", "--out", "b")
    check("a log has a line an epoch", text.count("\nepoch ") == 2 and "\033" not in text and "\r" not in text and
          text.splitlines()[-1] == "saved b/ (weights.safetensors, report.html)", text)
    quiet = works("train", *LETTERS, "--epochs", "2", "--quiet", "--out", "c")
    check("quiet", quiet.startswith("accuracy ") and len(quiet.splitlines()) == 2, quiet)
    refuses(1, "/nope: No such file", "train", *LETTERS, "--weights", "/nope")
    check("no run, no folder", not os.path.exists("runs"))
    check("quiet changes nothing", digest("b", "weights.safetensors") == digest("c", "weights.safetensors"))
    master, slave = pty.openpty()
    r = run("train", *LETTERS, "--epochs", "2", "--out", "d", stdout=slave, env=dict(os.environ, TERM="xterm"))
    os.close(slave)
    shown = os.read(master, 100000).decode()
    os.close(master)
    check("a live line on a terminal", r.returncode == 0 and "\r\033[K" in shown and "epoch 2/2" in shown, shown)
    works("train", *LETTERS, "--epochs", "1")
    works("train", *LETTERS, "--epochs", "1")
    names = sorted(os.listdir("runs"))
    check("runs are numbered", len(names) == 2 and names[0].endswith("letter_mlp-1") and names[1].endswith("letter_mlp-2"), names)


def test_folds():
    told = events("letter_mlp", "--data", "synth:letter,n=260", "--folds", "3", "--epochs", "1", "--out", "folds")
    check("three folds", [e["fold"] for e in told if e["event"] == "begin"] == [1, 2, 3], told)
    ends = [e["accuracy"] for e in told if e["event"] == "end"]
    check("their mean", len(ends) == 3 and abs(told[-1]["accuracy"] - sum(ends) / 3) < 1e-8 and told[-1]["spread"] is not None)
    check("each has its report", all(os.path.exists("folds/fold-0%d/report.html" % k) for k in (1, 2, 3))
          and os.path.exists("folds/report.html"))
    refuses(1, "has 3 folds: say which", "eval", "folds")
    words = ["letter_mlp", "--data", "synth:letter,n=260", "--folds", "3", "--epochs", "1"]
    events(*words, "--fold", "3", "--out", "third")
    with open("third/result.json") as file:
        check("the only fold keeps its number", [f["fold"] for f in json.load(file)["folds"]] == [3])
    with open("third/report.html") as file:
        page = file.read()
    check("in the report, too", re.search(r"Figures of each fold.*<tr>.{0,40}>3</", page, re.S), page[:100])
    refuses(1, "fold: expected a number from 1 to 3, got 4", "train", *words, "--fold", "4")
    one = json.loads(works("eval", "folds", "--fold", "2", "--json"))
    check("eval of a fold", abs(one["accuracy"] - ends[1]) < 0.02, (one["accuracy"], ends))


def wait_for(path, process):
    """Until the file is there; then nothing more happens until the process is told to go on."""
    while not os.path.exists(path) and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGSTOP)


def interrupt(process):
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)


def test_interrupt():
    works("train", *LETTERS, "--epochs", "100", "--out", "whole", "--quiet")
    p = subprocess.Popen([BRASA, "train", *LETTERS, "--epochs", "100", "--out", "cut"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    wait_for("cut/epochs.jsonl", p)
    with open("/proc/%d/status" % p.pid) as file:
        threads = int(file.read().split("Threads:")[1].split()[0])
    check("no more threads than --threads, and the loader's", threads <= 2, threads)
    refuses(1, "another process is at work there", "train", "--resume", "cut")
    states = {r["folder"]: r["state"] for r in json.loads(works("runs", ".", "--json"))}
    check("a run at work", states.get("./cut") == "running", states)
    interrupt(p)
    out, err = p.communicate(timeout=100)
    check("Ctrl-C", p.returncode == 130 and "--resume cut" in out and not err, (p.returncode, out[-300:], err))
    states = {r["folder"]: r["state"] for r in json.loads(works("runs", ".", "--json"))}
    check("a stopped run", states.get("./cut") == "stopped", states)
    text = works("train", "--resume", "cut/")
    check("it goes on", "goes on after epoch" in text and "saved cut/ (" in text, text)
    check("to the same end", digest("cut", "weights.safetensors") == digest("whole", "weights.safetensors"))
    text = works("train", "--resume", "cut")
    check("a finished run is left alone", len(text.splitlines()) == 2 and "nothing was left to train, accuracy" in text, text)


def limited():
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))


def test_full_disk():
    """What cannot be written is told, and what was there survives; with room it goes on to the same end."""
    r = run("train", *LETTERS, "--epochs", "100", "--out", "full", preexec_fn=limited)
    check("no room from the beginning", r.returncode == 1 and "File too large" in r.stderr and len(r.stderr.splitlines()) == 1, r)
    check("nothing is left", not os.path.exists("full"))
    p = subprocess.Popen([BRASA, "train", *LETTERS, "--epochs", "100", "--out", "full2", "--quiet"], stdout=subprocess.DEVNULL)
    wait_for("full2/epochs.jsonl", p)
    interrupt(p)
    p.wait(100)
    before = digest("full2", "checkpoint.safetensors")
    r = run("train", "--resume", "full2", preexec_fn=limited)
    check("no room later", r.returncode == 1 and "File too large" in r.stderr, r)
    check("the last checkpoint survives", digest("full2", "checkpoint.safetensors") == before)
    check("nothing is left over", not [n for n in os.listdir("full2") if n.endswith(".tmp")], os.listdir("full2"))
    works("train", "--resume", "full2", "--quiet")
    check("with room", digest("full2", "weights.safetensors") == digest("whole", "weights.safetensors"))


def names(folder):
    return sorted(os.listdir(folder))


def test_folder_of_others():
    """Only an empty folder is taken, and that is told before the data are read."""
    os.mkdir("mine")
    for name in ("notes.tmp", "weights.safetensors", "epochs.jsonl"):
        with open("mine/" + name, "w") as file:
            file.write(name)
    before = names("mine")
    refuses(1, "mine: the folder is not empty", "train", "letter_mlp", "--data", "csv:nowhere", "--out", "mine/")
    check("nothing of it is touched", names("mine") == before and open("mine/epochs.jsonl").read() == "epochs.jsonl")
    refuses(1, "mine/notes.tmp: Not a directory", "train", "letter_mlp", "--data", "csv:nowhere", "--out", "mine/notes.tmp")
    for name in ("checkpoint.safetensors", "model.net"):
        os.mkdir("only")
        os.link("my.net" if name == "model.net" else "a/" + name, "only/" + name)
        refuses(1, "only: the folder is not empty", "train", *LETTERS, "--out", "only")
        os.remove("only/" + name)
        os.rmdir("only")
    os.mkdir("killed")  # before run.json was there
    for name in ("run.json.12-0.tmp", "model.net.12-0.tmp", "model.net"):
        open("killed/" + name, "w").close()
    works("train", *LETTERS, "--epochs", "1", "--out", "killed", "--quiet")
    check("begun anew", names("killed") == names("a"), names("killed"))
    for name in ("notes.tmp", "run.json.tmp", "run.json.x-0.tmp", "run.json.12-0.tmp"):
        open("killed/" + name, "w").close()
    works("train", "--resume", "killed", "--epochs", "2", "--quiet")
    check("only its own are removed", names("killed") ==
          sorted(names("a") + ["notes.tmp", "run.json.tmp", "run.json.x-0.tmp"]), names("killed"))


def test_torn_split():
    """Without a checkpoint the lists on file are not believed: they are made again."""
    os.mkdir("torn")
    shutil.copy("c/run.json", "torn")
    with open("c/split.txt") as whole, open("torn/split.txt", "w") as file:
        file.write(whole.read()[:1000])
    works("train", "--resume", "torn", "--quiet")
    check("the same lists and weights", all(digest("torn", n) == digest("c", n) for n in ("split.txt", "weights.safetensors")))


def test_look_at_lock():
    """`brasa runs` looks at the lock by taking it for a moment: that keeps nobody from going on."""
    fd = os.open("a", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    p = subprocess.Popen([BRASA, "train", "--resume", "a"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(0.15)
    os.close(fd)
    check("waits for the lock", p.communicate(timeout=100)[1] == b"" and p.returncode == 0, p.returncode)


def test_changed_data():
    """A run's lists are numbers of samples: in other data they would be other samples."""
    small_data.pictures("changing", 20)
    words = ["my.net", "--data", "images:changing", "--split", "70/30", "--transform", "resize=10 crop=10", "--epochs", "1"]
    events(*words, "--out", "changed")
    works("eval", "changed")
    some = names("changing")[0]
    os.rename("changing/%s/%s" % (some, names("changing/" + some)[0]), "moved.png")
    refuses(1, "images:changing: the data are not those that changed was trained on", "eval", "changed")
    refuses(1, "images:changing: the data are not those", "eval", "changed", "--split", "50/50")
    other = json.loads(works("eval", "changed", "--data", "images:changing", "--json"))
    check("other data are taken whole", sum(map(sum, other["confusion"])) == 19, other)


def test_report_too_large():
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (16000, 16000))
    with open("little.net", "w") as file:
        file.write("input 16\nclassify 26\n")
    r = run("train", "little.net", *LETTERS[1:], "--epochs", "2", "--out", "large", preexec_fn=small_files)
    check("which file, and why", r.returncode == 1 and "large/report.html: File too large" in r.stderr, r)


def change_notes(path, **notes):
    """The weights of run p with other metadata: a key without its "brasa.", and its text or None."""
    with open("p/weights.safetensors", "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    for key, text in notes.items():
        header["__metadata__"]["brasa." + key] = text
    header["__metadata__"] = {key: text for key, text in header["__metadata__"].items() if text is not None}
    header = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data[8 + length:])


def weights_alone(answer, result):
    """The weights file of run p, a network from a file, tells all that predicting needs."""
    os.rename("p", "elsewhere")
    os.mkdir("p")
    shutil.copy("elsewhere/weights.safetensors", "p")
    file = "p/weights.safetensors"
    same = [json.loads(line) for line in works("predict", file, "photos/red/000.png", "photos/blue/001.png", "--json").splitlines()]
    check("predict by the weights alone", same == answer, (same, answer))
    got = json.loads(works("eval", file, "--data", "images:photos", "--split", "70/30", "--json"))
    check("eval by the weights alone", got["accuracy"] == result["accuracy"] and got["run"] == file, got)
    refuses(1, "names no data: say which, with --data", "eval", file)
    refuses(1, "has no folds", "eval", file, "--data", "images:photos", "--fold", "1")
    for name, part, notes in [
            ("a note that nobody needs", "", {"input": None, "network": NET, "more": "text"}),
            ("no model", "no 'brasa.model' in its metadata", {"model": None}),
            ("no classes", "no 'brasa.classes'", {"classes": None}),
            ("no transform", "no 'brasa.transform'", {"transform": None}),
            ("no dialect", "no 'brasa.dialect'", {"dialect": None}),
            ("no text of the network", "no 'brasa.network'", {"network": None}),
            ("a file of its own choice", "no 'brasa.network'", {"model": "/etc/other.net", "network": None}),
            ("a model that is not", "there is no model 'mnist_cn'", {"model": "mnist_cn"}),
            ("another model", "does not fit the network", {"model": "letter_mlp"}),
            ("a broken network", "my.net:1: ", {"network": "inptu 3 10 10"}),
            ("no network", "no layer in it", {"network": ""}),
            ("a dialect that is not", "dialect", {"dialect": "torhc"}),
            ("classes that are no list", "byte 0 of brasa.classes", {"classes": "red"}),
            ("more than a list", "expected one list of names", {"classes": '["red", "blue"]]'}),
            ("no class", "expected one list of names", {"classes": "[]"}),
            ("a name of two lines", "of brasa.classes: too many classes, or a name", {"classes": '["a\\nb"]'}),
            ("other classes", "does not fit the network", {"classes": '["a", "b", "c"]'}),
            ("a transform that is not", "transform", {"transform": "resize=x"})]:
        change_notes("changed.safetensors", **notes)
        words = "predict", "changed.safetensors", "photos/red/000.png"
        if part:
            refuses(1, part, *words)
        else:
            works(*words)
    shutil.rmtree("p")
    os.rename("elsewhere", "p")


def test_pictures():
    small_data.pictures("photos", 40)
    with open("my.net", "w") as file:
        file.write(NET)
    words = ["my.net", "--data", "images:photos", "--epochs", "4", "--split", "70/30", "--threads", "1", "--batch", "8"]
    told = events(*words, "--out", "p")
    check("pictures are resized, cropped and mirrored", told and "resize=12 crop=10x10 flip=horizontal" in
          next(e for e in told if e["event"] == "begin")["settings"]["transform"], told[:2])
    check("red and blue are told apart", told[-1]["accuracy"] > 0.9, told[-1])
    cut = events(*words, "--transform", "resize=12 crop=10 random_crop", "--out", "crops")
    begin = next((e for e in cut if e["event"] == "begin"), {"plan_bytes": 0})
    check("what is kept is planned by its size", 0 < begin["plan_bytes"] < 1000000, begin)
    with open("p/run.json") as file:
        check("files are known by what they hold", '"hash_of":"samples"' in file.read())
    answer = [json.loads(line) for line in works("predict", "p", "photos/red/000.png", "photos/blue/001.png", "--json").splitlines()]
    check("predict", [a["classes"][0]["name"] for a in answer] == ["red", "blue"] and
          all(abs(sum(c["probability"] for c in a["classes"]) - 1) < 1e-6 for a in answer), answer)
    text = works("predict", "p", "photos/red/000.png", "--top", "1")
    check("predict as text", len(text.splitlines()) == 2 and "red" in text and "%" in text, text)
    os.remove("my.net")
    check("the network is in the run", "accuracy" in works("eval", "p"))
    result = json.loads(works("eval", "p", "--json"))
    check("eval is the result", result["samples"] == 12 and result["accuracy"] == told[-1]["accuracy"], result)
    check("and within a budget", json.loads(works("eval", "p", "--json", "--mem", "100K"))["accuracy"] == result["accuracy"])
    refuses(1, "not even one sample fits", "eval", "p", "--mem", "1K")
    small_data.pictures("others", 10, seed=1)
    check("eval on other data", json.loads(works("eval", "p", "--data", "images:others", "--json"))["samples"] == 10)
    refuses(1, "has other classes", "eval", "p", "--data", "synth:fire,n=6")
    weights_alone(answer, result)
    with open("photos/red/zzz.png", "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\nrubbish")
    r = run("predict", "p", "photos/red/zzz.png", "photos/red/000.png")
    check("a broken picture does not stop the others", r.returncode == 1 and "zzz.png" in r.stderr and "red" in r.stdout, r)
    with open("my.net", "w") as file:
        file.write(NET)
    r = run("train", *words, "--quiet", "--out", "q")
    check("a broken picture stops a training", r.returncode == 1 and "zzz.png" in r.stderr, r)
    told = events(*words, "--skip-bad", "--out", "r")
    check("unless told to pass over it", [e for e in told if e["event"] == "note" and "zzz.png" in e["text"]]
          and told[-1]["event"] == "finished", told[:3])


def test_crops():
    """Pictures of any size are predicted: what is too small for the crop grows."""
    for name, shape, words in (("square", "24 24", "crop=24"), ("one side", "24 28", "crop=24x0")):
        with open("crop.net", "w") as file:
            file.write("input 1 %s\nflatten\nclassify 10\n" % shape)
        out = "crop-" + name[0]
        run("train", "crop.net", "--data", "synth:digits,n=40", "--transform", words, "--split", "all", "--epochs", "1",
            "--quiet", "--out", out)
        for width, height in ((10, 10), (400, 4), (28, 28), (300, 200)):
            small_data.png("crop.png", height, width, lambda y, x: (9 * x % 256, y % 256, 7))
            check("%s, %d x %d" % (name, width, height), "%" in works("predict", out, "crop.png"))


def test_names():
    """Tables are in columns, whatever alphabet the names are in."""
    small_data.pictures("photos-names", 20)
    long_name = "gr\u00fcn und \u03b1\u03b2\u03b3\u03b4 und noch viel mehr"
    os.rename("photos-names/red", "photos-names/" + long_name)
    os.rename("photos-names/blue", "photos-names/\u0441\u0438\u043d\u0438\u0439")
    with open("my.net", "w") as file:
        file.write(NET)
    works("train", "my.net", "--data", "images:photos-names", "--epochs", "6", "--quiet", "--out", "n\u00e4mes", "--batch", "4")
    lines = run("eval", "n\u00e4mes").stdout.splitlines()
    table = lines[lines.index(next(l for l in lines if l.startswith("class "))):]
    check("a class a row, its name cut to 24 letters", sorted(len(l) for l in table[:3]) == [54] * 3 and
          table[1].startswith(long_name[:24] + " "), table)
    check("the matrix", len({len(l) for l in table[-3:]}) == 1 and long_name[:6] in table[-3], table)
    picture = "photos-names/" + long_name + "/000.png"
    rows = works("predict", "n\u00e4mes", picture).splitlines()[1:]
    check("predict", len(rows) == 2 and len({l.index("%") for l in rows}) == 1, rows)
    rows = run("runs", ".").stdout.splitlines()
    row = next(l for l in rows if l.startswith("./n\u00e4mes "))
    check("runs", row[35:49] == "my.net" + 8 * " " and row[50:70] == "images:photos-names ", row)


def test_reading():
    """A log is not silent while many files are read: after two seconds there is a line."""
    small_data.pictures("large", 4)
    for i in range(8):
        with open("large/red/large%d.png" % i, "wb") as file:
            file.truncate(20000000)
    with open("my.net", "w") as file:
        file.write(NET)
    for quiet in [], ["--quiet"]:
        p = subprocess.Popen([BRASA, "train", "my.net", "--data", "images:large", "--epochs", "1", "--out", "l%d" % len(quiet), *quiet],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while p.poll() is None:
            with open("/proc/%d/io" % p.pid) as file:
                if int(file.read().split()[1]) > 30000000:
                    break
            time.sleep(0.002)
        p.send_signal(signal.SIGSTOP)
        time.sleep(2.1)
        p.send_signal(signal.SIGCONT)
        out, err = p.communicate(timeout=100)
        check("reading is told" if not quiet else "but not with --quiet", ("reading the data  " in out) == (not quiet) and
              "large/red/large" in err, (out, err))


def test_deterministic():
    words = ["mnist_cnn", "--data", "synth:digits,n=300", "--split", "70/30", "--deterministic", "--quiet", "--keep", "last",
             "--optimizer", "adam lr=0.002"]
    for threads in "123":
        works("train", *words, "--epochs", "4", "--threads", threads, "--out", "det" + threads)
    same = {digest("det" + threads, "weights.safetensors") for threads in "123"}
    check("the same bits with 1, 2 and 3 threads", len(same) == 1, same)
    works("train", *words, "--epochs", "2", "--threads", "2", "--out", "det")
    works("train", "--resume", "det", "--epochs", "4", "--threads", "3", "--quiet")
    check("and when the number changes in between, without a warning", digest("det", "weights.safetensors") in same)


def test_profile():
    """Steps that are timed are as others are, and tell where the time goes by kernel and by node."""
    plain, timed = (works("train", *LETTERS, "--epochs", "1", "--out", name, *more)
                    for name, more in (("plain", []), ("timed", ["--profile", "5"])))
    check("the same weights", digest("plain", "weights.safetensors") == digest("timed", "weights.safetensors"))
    check("nothing without it", not os.path.exists("plain/profile.txt") and "GFLOP/s" not in plain, plain)
    check("a table by kernel", "mean of 5" in timed and "kernel, nodes" in timed and "node, kernel" not in timed, timed)
    with open("timed/profile.txt") as file:
        text = file.read()
    kernels, nodes = text.split("\n\n")
    check("the same in the file", kernels.splitlines()[1:] and all(line in timed for line in kernels.splitlines()), (timed, text))
    shares = [[float(line.split("%")[0].split()[-1]) for line in part.splitlines()[start:]]
              for part, start in ((kernels, 2), (nodes, 1))]
    check("all of it, twice", all(abs(sum(s) - 100) < 0.06 * len(s) and s == sorted(s, reverse=True) for s in shares), shares)
    check("every node", len(shares[1]) > len(shares[0]) and "softmax_cross_entropy" in nodes, text)
    told = events(*LETTERS, "--epochs", "1", "--out", "bare", "--profile")
    check("without a number it is 10", any(e["event"] == "profile" and "mean of 10" in e["text"] for e in told), told)
    works("train", *LETTERS, "--epochs", "1", "--batch", "400", "--out", "few", "--profile", "--quiet", said="too few steps")
    refuses(2, "--profile: expected a number from 1", "train", *LETTERS, "--profile", "0")


def test_device():
    works("train", *LETTERS, "--epochs", "1", "--device", "cpu", "--quiet", "--out", "moved")
    with open("moved/run.json") as file:
        record = json.load(file)
    check("the device is recorded", record["settings"]["device"] == "cpu" and record["settings"]["precision"] == "f32", record)
    record["settings"].update(device="cuda:9999 NVIDIA None", precision="bf16")
    with open("moved/run.json", "w") as file:
        json.dump(record, file)
    refuses(1, "cuda", "train", "--resume", "moved", "--epochs", "2")
    works("train", "--resume", "moved", "--epochs", "2", "--device", "cpu", "--quiet")
    with open("moved/run.json") as file:
        later = json.load(file)
    check("a run moves to the CPU, in f32 then", later["settings"]["device"] == "cpu"
          and later["settings"]["precision"] == "f32" and later["created"] == record["created"], later["settings"])
    check("and is evaluated there", "accuracy" in works("eval", "moved", "--device", "cpu", "--precision", "f32"))
    refuses(2, "--precision tf32 is for GPUs", "eval", "moved", "--precision", "tf32")
    refuses(2, "--precision bf16 is for GPUs", "train", *LETTERS, "--precision", "bf16")
    refuses(2, "--device: expected cpu, cuda or cuda:1, got 'cuda:-1'", "train", *LETTERS, "--device", "cuda:-1")


def test_memory():
    with open("plain.net", "w") as file:
        file.write("input 1 28 28\nconv 8 3x3\nrelu\nmaxpool 2\nflatten\nclassify 10\n")
    with open("norm.net", "w") as file:
        file.write("input 1 28 28\nconv 8 3x3\nbatchnorm name=n\nrelu\nmaxpool 2\nflatten\nclassify 10\n")
    words = ["--data", "synth:digits,n=100", "--batch", "48", "--epochs", "5", "--split", "all", "--optimizer", "adam"]
    text = works("train", "plain.net", *words, "--mem", "2M", "--out", "mem")
    check("parts are told", re.search(r"\nbatch 48 as (\d+) x (\d+) · peak ", text), text)
    with open("mem/run.json") as file:
        record = json.load(file)
    check("and recorded", record["settings"]["mem"] == 2000000 and record["plan"]["parts"] > 1
          and record["plan"]["total"] <= 2000000, record["plan"])
    works("train", "--resume", "mem", "--mem", "4M", "--epochs", "6", "--quiet")
    with open("mem/run.json") as file:
        later = json.load(file)
    check("another budget, the same parts", later["settings"]["mem"] == 4000000
          and later["plan"]["parts"] == record["plan"]["parts"], later["plan"])
    r = run("train", "norm.net", *words, "--mem", "1.5M", "--out", "norm")
    check("batch norm refuses", r.returncode == 1 and len(r.stderr.splitlines()) == 1 and not os.path.exists("norm")
          and "does not fit 1.50 MB; the largest batch that fits is " in r.stderr and "batchnorm_train 'n'" in r.stderr, r)


def test_presets():
    wanted = {"mnist": ("synth:digits,n=60", "mnist_cnn", "adadelta", 128, "keras2", "70/30"),
              "cifar10": ("synth:cifar10,n=60", "cifar10_cnn", "rmsprop lr=0.0001 decay=1e-6", 128, "keras2", "70/30"),
              "letter": ("synth:letter,n=260", "letter_mlp", "sgd lr=0.001 decay=1e-7", 128, "keras2", "70/30"),
              "fire-small": ("synth:fire,n=6", "mobilenet_v2", "sgd lr=0.001 momentum=0.9", 1, "torch", "all")}
    for name, (data, *settings) in wanted.items():
        told = events("--preset", name, "--data", data, "--epochs", "1", "--out", "preset-" + name)
        s = next((e["settings"] for e in told if e["event"] == "begin"), {})
        check("preset " + name, [s.get(k) for k in ("model", "optimizer", "batch", "dialect", "split")] == settings, s)
    refuses(2, "did you mean 'mnist'", "train", "--preset", "mnits")
    refuses(2, "--data is missing: idx:DIR", "train", "--preset", "mnist")


def test_refusals():
    refuses(2, "MODEL|FILE.net is missing", "train", "--data", "synth:letter")
    refuses(2, "--data is missing", "train", "letter_mlp")
    refuses(2, "--fold needs --folds", "train", *LETTERS, "--fold", "2")
    refuses(2, "--batch cannot be given", "train", "--resume", "a", "--batch", "3")
    for option in (["--freeze", "fc1.*"], ["--class-weights", "balanced"], ["--deterministic"]):
        refuses(2, option[0] + " cannot be given", "train", "--resume", "a", *option)
    refuses(2, "unexpected 'letter_mlp'", "train", "letter_mlp", "--resume", "a")
    refuses(2, "--epochs: expected a number from 1", "train", *LETTERS, "--epochs", "0")
    refuses(1, "did you mean 'letter_mlp'", "train", "leter_mlp", "--data", "synth:letter")
    refuses(1, "mnist_cnn takes 1x28x28, but synth:letter gives 16", "train", "mnist_cnn", "--data", "synth:letter")
    with open("lin.net", "w") as file:
        file.write("input 16\nclassify 10\n")
    refuses(1, "lin.net takes 16 numbers, but synth:digits,n=70 has pictures", "train", "lin.net", "--data", "synth:digits,n=70")
    with open("two.csv", "w") as file:
        file.write("a,1\nb,2\n")
    with open("two.net", "w") as file:
        file.write("input 1\nclassify 2\n")
    refuses(1, "70/30 leaves no sample to test on: there are 2 samples", "train", "two.net", "--data", "csv:two.csv", "--split", "70/30")
    refuses(1, "there is a run already", "train", *LETTERS, "--out", "a")
    refuses(1, "No such file", "train", *LETTERS, "--out", "no/such/folder")
    refuses(1, "No such file", "train", "--resume", "nothing")
    refuses(1, "No such file", "eval", "nothing")
    refuses(1, "learned from numbers", "predict", "a", "x.png")
    refuses(2, "RUN IMAGE... is missing", "predict", "a")
    with open("a/weights.safetensors", "r+b") as file:
        file.truncate(1000)
    refuses(1, "a/weights.safetensors", "eval", "a")
    with open("b/run.json", "r+b") as file:
        file.truncate(100)
    refuses(1, "b/run.json: byte ", "eval", "b")
    r = run("runs", ".")
    check("a broken run does not hide the others", r.returncode == 1 and "b/run.json" in r.stderr and "./a " in r.stdout, r)
    check("no runs", json.loads(works("runs", "photos", "--json")) == [])
    refuses(1, "No such file", "runs", "nothing")


with tempfile.TemporaryDirectory() as temporary:
    os.chdir(temporary)
    for test in (test_events, test_failed, test_save_every, test_text, test_folds, test_interrupt, test_full_disk,
                 test_pictures, test_names, test_crops, test_folder_of_others, test_torn_split, test_look_at_lock,
                 test_changed_data, test_report_too_large, test_reading, test_deterministic, test_profile, test_device, test_memory, test_presets,
                 test_refusals):
        test()
    os.chdir("/")
finish()
