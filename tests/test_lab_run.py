"""`brasa lab run` from outside: Brasa alone, kill -9 and --resume, a peer whose runner only pretends, one that is not
here, and bad input."""
import json, os, resource, shutil, signal, sqlite3, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
from checks import BRASA, SOURCE, check, finish, skip

EXPERIMENT = """title     Letters
network   letter_mlp
data      synth:letter,n=5200
batch     %s
threads   1
optimizer sgd lr=0.01
split     70/30
epochs    20
repeats   2
limit     60
"""


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def run(*words, **environment):
    return subprocess.run([BRASA, "lab", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=120, env={**os.environ, **environment}, stdin=subprocess.DEVNULL)


def rows(store="lab.db"):
    db = sqlite3.connect(store)
    found = db.execute("select cell.batch, row.peer, row.repeat, row.status, row.epoch_s, row.peak_rss, row.id "
                       "from row join cell on cell.id = row.cell order by row.id").fetchall()
    db.close()
    return found


def test_alone():
    r = run("run", "letters.lab", "--peers", "brasa")
    check("runs", r.returncode == 0 and not r.stderr, (r.returncode, r.stderr))
    got = rows()
    check("a row for each batch and repeat", sorted(x[:4] for x in got) == [
        (batch, "brasa", repeat, "done") for batch in (32, 64) for repeat in (1, 2)], got)
    check("with times and memory", all(x[4] > 0 and x[5] > 1e6 for x in got), got)
    check("the gate, the rows and the verdict are told", all(text in r.stdout for text in (
        "gate  brasa", "[4/4]", "an image", "verdict: brasa is fastest in 2 of 2 cells")), r.stdout)
    page = r.stdout.split("report: ")[-1].strip()
    with open(page, encoding="utf-8") as file:
        check("the page is there", "<h1>Letters</h1>" in file.read(), page)
    listed = json.loads(run("list", "--json").stdout)
    check("lab list knows it", [(c["name"], c["cells"], c["done"]) for c in listed] == [("letters", 2, 4)], listed)


def test_resume():
    before = rows()
    r = run("run", "--resume", "letters", "--peers", "brasa")
    check("nothing is run again", r.returncode == 0 and rows() == before, (r.stderr, rows()))
    lab = subprocess.Popen([BRASA, "lab", "run", "letters.lab", "--peers", "brasa", "--store", "killed.db"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in lab.stdout:
        if line.startswith("[1/"):
            break
    lab.send_signal(signal.SIGKILL)
    lab.wait()
    lab.stdout.close()
    first = rows("killed.db")
    check("kill -9 leaves whole rows", 1 <= len(first) < 4 and all(x[3] == "done" for x in first), first)
    r = run("run", "--resume", "letters", "--peers", "brasa", "--store", "killed.db")
    after = rows("killed.db")
    check("the rest follows, what was there stays",
          r.returncode == 0 and after[:len(first)] == first and len(after) == 4, (r.stderr, after))
    nvml = os.path.join(os.path.dirname(BRASA), "tests", "fake", "libnvidia-ml.so.1")
    if os.path.exists(nvml):
        run("run", "one.lab", "--peers", "brasa", "--store", "gpus.db", BRASA_NVML=nvml)
        account = json.loads(run("report", "1", "--json", "--store", "gpus.db").stdout)["machine"]
        check("the GPUs that are here", account.get("gpu") == "Fake GPU" and account.get("gpu_driver") == "580.1", account)
    else:
        skip("the GPUs that are here", "no stand-in for NVML in this build")
    told = json.loads(run("report", "letters", "--json", "--store", "killed.db").stdout)["resumed"]
    check("where it went on is kept", len(told) == 1 and told[0]["machine"]["machine"]["cores"] >= 1, told)
    cores = os.sched_getaffinity(0)
    if len(cores) > 1:  # as another machine
        os.sched_setaffinity(0, {min(cores)})
        r = run("run", "--resume", "letters", "--peers", "brasa", "--store", "killed.db")
        os.sched_setaffinity(0, cores)
        check("but not with other processors", r.returncode == 1 and "as the number of threads tells: '%d' then, '1' now" % len(cores)
              in r.stderr and "start a new one" in r.stderr and rows("killed.db") == after, r.stderr)


def campaign(store):
    db = sqlite3.connect(store)
    found = db.execute("select id, peers, data, finished from campaign order by id").fetchall()
    db.close()
    return found


def stop_at_first_row(*words, **environment):
    """Ctrl-C, as soon as a row is there; what it said to standard error."""
    lab = subprocess.Popen([BRASA, "lab", "run", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    for line in lab.stdout:
        if line.startswith("[1/"):
            break
    lab.send_signal(signal.SIGINT)
    error = lab.communicate(timeout=60)[1]
    check("stopped", lab.returncode == 130, (lab.returncode, error))
    return error


def test_same_again():
    """What is gone on with is the campaign whose number is given, with its own peers and data."""
    peers = "brasa," + fake_pytorch()
    environment = {"BRASA_LAB": os.path.abspath("runners"), "BRASA_PEERS": os.path.abspath("none")}
    write("own.lab", (EXPERIMENT % "64").replace("data      ", "data      mine="))
    write("own.csv", "".join("%s,%s\n" % ("ab"[i % 2], ",".join(str((i * k) % 7) for k in range(1, 17)))
                             for i in range(2000)))
    words = ["own.lab", "--store", "own.db"]
    hints = [stop_at_first_row(*words, "--peers", peers, "--data", "mine=csv:own.csv,label=1", **environment),
             stop_at_first_row(*words, "--peers", "brasa")]
    check("how to go on", "`brasa lab run --resume 1 --store own.db`" in hints[0], hints)
    found = campaign("own.db")
    check("who takes part, and on what, is kept", [c[1:3] for c in found] ==
          [(peers, "mine=csv:own.csv,label=1"), ("brasa", None)], found)
    r = run("run", "--resume", "1", "--store", "own.db", "--data", "mine=synth:letter,n=64", **environment)
    check("on no other data", r.returncode == 2 and "--data cannot be given" in r.stderr, r.stderr)
    r = run("run", "--resume", "1", "--store", "own.db", **environment)
    db = sqlite3.connect("own.db")
    cells = db.execute("select campaign, data from cell order by id").fetchall()
    got = db.execute("select cell.campaign, row.peer, row.status from row join cell on cell.id = row.cell "
                     "order by 1, 2").fetchall()
    db.close()
    check("on its own data", r.returncode == 0 and cells == [(1, "csv:own.csv,label=1"), (2, "synth:letter,n=5200")],
          (r.stderr, cells))
    check("by its own peers", [x[1:] for x in got if x[0] == 1] ==
          [("brasa", "done")] * 2 + [("pytorch", "different")], got)
    found = campaign("own.db")
    check("the first one alone is finished", [bool(c[3]) for c in found] == [True, False], found)
    db = sqlite3.connect("own.db")  # as an older version has left it
    db.execute("update campaign set peers = null, data = null")
    db.commit()
    db.close()
    r = run("run", "--resume", "1", "--store", "own.db", "--peers", "brasa")
    check("an older campaign on other data", r.returncode == 2 and "give --data as it was then" in r.stderr, r.stderr)
    r = run("run", "--resume", "2", "--store", "own.db")
    check("an older campaign without its peers", r.returncode == 2 and "--peers says it" in r.stderr, r.stderr)


def test_changed():
    """Rows of two networks, or of two sets, do not come into one cell, though their files are called the same."""
    network = "input 16\ndense %d\nrelu\nclassify 2\n"
    lines = ["%s,%s\n" % ("ab"[i % 2], ",".join(str((i * k) % 7) for k in range(1, 17))) for i in range(2000)]
    write("my.net", network % 20)
    write("my.csv", "".join(lines))
    write("my.lab", (EXPERIMENT % "32 64").replace("letter_mlp", "./my.net").replace("synth:letter,n=5200",
                                                                                    "csv:my.csv,label=1"))
    stop_at_first_row("my.lab", "--peers", "brasa", "--store", "my.db")
    before = rows("my.db")
    for name, text, kept, said in (
            ("my.net", network % 30, network % 20, "network ./my.net is not what campaign 1 began with: start a new"),
            ("my.csv", "".join(lines[:-1]) + "a" + lines[-1][1:].replace("6", "5", 1), "".join(lines),
             "data csv:my.csv,label=1 is not what campaign 1 began with: start a new")):
        write(name, text)
        r = run("run", "--resume", "1", "--store", "my.db")
        check("another " + name, r.returncode == 1 and said in r.stderr and "goes on" not in r.stderr and
              rows("my.db") == before, (r.returncode, r.stderr, rows("my.db")))
        write(name, kept)
    write("my.net", network % 30)
    shutil.copy("my.db", "before.db")
    db = sqlite3.connect("before.db")  # as an older version has left it
    db.execute("update cell set network_hash = null, data_hash = null")
    db.commit()
    db.close()
    r = run("run", "--resume", "1", "--store", "before.db")
    check("of an older campaign nobody knows", r.returncode == 0 and len(rows("before.db")) == 4, r.stderr)
    write("my.net", network % 20)
    r = run("run", "--resume", "1", "--store", "my.db")
    check("what is as it was goes on", r.returncode == 0 and len(rows("my.db")) == 4 and
          [bool(c[3]) for c in campaign("my.db")] == [True], r.stderr)
    write("my.net", network % 30)
    r = run("run", "--resume", "1", "--store", "my.db")
    check("and stays finished", r.returncode == 1 and [bool(c[3]) for c in campaign("my.db")] == [True], r.stderr)


def fake_pytorch():
    """A runner that computes nothing, and a Python that has a torch: what --peers and BRASA_LAB need."""
    os.makedirs("runners", exist_ok=True)
    shutil.copy(os.path.join(SOURCE, "tests", "tools", "fake_peer.py"), "runners/pytorch.py")
    os.makedirs("packages/torch", exist_ok=True)
    write("packages/torch/__init__.py", "__version__ = '0'\n")
    write("python", "#!/bin/sh\nexport PYTHONPATH='%s'\n[ \"$1\" != -I ] || shift\nexec '%s' \"$@\"\n"
          % (os.path.abspath("packages"), sys.executable))
    os.chmod("python", 0o755)
    return "pytorch=" + os.path.abspath("python")


def test_peers():
    """Nothing that a peer says is believed, and who is missing keeps nobody from running."""
    r = run("run", "one.lab", "--peers", "brasa,caffe," + fake_pytorch(), "--store", "three.db", "--price-per-hour",
            "1.5", BRASA_LAB=os.path.abspath("runners"), BRASA_PEERS=os.path.abspath("none"))
    got = rows("three.db")
    check("it goes on with those who can", r.returncode == 0 and
          [x[3] for x in got if x[1] == "brasa"] == ["done"] * 2, (r.returncode, r.stderr, got))
    check("a peer that computes something else has one row that says so",
          [x[3] for x in got if x[1] == "pytorch"] == ["different"], (r.stdout, got))
    check("and one that is not here, too", [x[3] for x in got if x[1] == "caffe"] == ["absent"], (r.stdout, got))
    check("the terminal says why", "gate  pytorch" in r.stdout and ": different: " in r.stdout and
          "\nwithout caffe: " in r.stdout, r.stdout)
    none = run("run", "one.lab", "--peers", "brasa,pytorch=/bin/true", "--store", "true.db",
               BRASA_LAB=os.path.abspath("runners"))
    check("the reason, too, of a Python that is none", "\nwithout pytorch: /bin/true: " in none.stdout, none.stdout)
    check("rows are counted, those of the gate, too", [line.split("]")[0] for line in r.stdout.splitlines()
          if line.startswith("[")] in (["[1/4", "[2/3", "[3/3"], ["[1/3", "[2/3", "[3/3"]), r.stdout)
    report = json.loads(run("report", "--store", "three.db", "--json").stdout)
    costs = [x["epoch_cost"] / x["epoch_s"] for x in report["rows"] if x["status"] == "done"]
    check("costs", "  costs " in r.stdout and report["price_per_hour"] == 1.5 and len(costs) == 2 and
          all(abs(3600 * cost - 1.5) < 1e-6 for cost in costs), (r.stdout, report["price_per_hour"], costs))


def test_profile():
    r = run("run", "profile.lab", "--peers", "brasa", "--store", "profile.db")
    db = sqlite3.connect("profile.db")
    found = db.execute("select function.name, function.seconds, function.calls, row.profile_steps, row.profile_s "
                       "from function join row on row.id = function.row order by function.id").fetchall()
    db.close()
    check("the functions of a step", r.returncode == 0 and len(found) > 3 and any("dense" in f[0] for f in found) and
          all(f[1] >= 0 and f[2] % 8 == 0 and f[3] == 8 for f in found) and
          abs(sum(f[1] for f in found) - found[0][4]) < 1e-9 and found[0][1] >= found[1][1], (r.stderr, found))
    text = run("report", "--store", "profile.db", "--markdown").stdout
    check("are in the report", "Where the time of a training step goes" in text and found[0][0] in text, text[-2000:])


def test_gpu():
    """Without a GPU: a row of everybody, with the reason of its own where it has one."""
    r = run("run", "gpu.lab", "--peers", "brasa,caffe,pytorch=" + os.path.abspath("python"), "--store", "gpu.db",
            BRASA_LAB=os.path.abspath("runners"), BRASA_PEERS=os.path.abspath("none"), BRASA_BACKENDS=os.getcwd())
    db = sqlite3.connect("gpu.db")
    found = dict((peer, (status, reason)) for peer, status, reason in db.execute("select peer, status, reason from row"))
    db.close()
    check("nobody got through", r.returncode == 1 and "nobody got through" in r.stderr and "verdict: " in r.stdout,
          (r.returncode, r.stderr))
    check("why Brasa does not run", found["brasa"][0] == "refused" and
          "there is no brasa_cuda.so in" in found["brasa"][1], (r.stdout, r.stderr, found))
    check("and nobody can be compared", found["pytorch"][0] == "failed" and
          found["pytorch"][1].startswith("Brasa, which all are compared with: refused: "), found)


def test_full():
    """Neither a full disk nor a limit is anybody's fault: nobody's row says that it failed, and the rest follows."""
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (150000, resource.RLIM_INFINITY))
    words = [BRASA, "lab", "run", "one.lab", "--peers", "brasa", "--store", "full.db"]
    r = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                       stdin=subprocess.DEVNULL, preexec_fn=limited)
    check("files that cannot be written", r.returncode == 1 and "full-files/" in r.stderr and
          "File too large: `brasa lab run --resume 1 --store full.db` goes on" in r.stderr and
          r.stderr.count("\n") == 1 and rows("full.db") == [], (r.returncode, r.stdout, r.stderr))
    r = run("run", "--resume", "1", "--store", "full.db")
    check("are written later", r.returncode == 0 and [x[3] for x in rows("full.db")] == ["done"] * 2, r.stderr)


def test_folders():
    """Stores that are locked apart have folders and pages apart."""
    for store, folder, page in (("x.db", "x-files", "x-1-one.html"), ("x.lab2", "x.lab2.files", "x.lab2.1-one.html"),
                                ("x", "x.files", "x.1-one.html")):
        r = run("run", "one.lab", "--peers", "brasa", "--store", store)
        check("files of " + store, r.returncode == 0 and os.path.exists(folder + "/experiment.json"),
              (r.stderr, os.listdir(".")))
        check("page of " + store, r.stdout.endswith("report: %s\n" % page) and os.path.exists(page), r.stdout[-200:])


def test_unbalanced():
    """Nine of ten are of one class, and nothing else tells them apart: what is always answered is told as chance."""
    write("most.csv", "".join("%s,%s\n" % ("b" if i % 10 == 0 else "a", ",".join(["0"] * 16)) for i in range(1000)))
    write("most.lab", (EXPERIMENT % "64").replace("synth:letter,n=5200", "csv:most.csv,label=1").replace(
        "letter_mlp", "./my.net"))
    run("run", "most.lab", "--peers", "brasa", "--store", "most.db")
    report = json.loads(run("report", "--store", "most.db", "--json").stdout)
    check("the share of the commonest class", report["cells"][0]["most_frequent"] == 0.9, report["cells"])
    check("is chance", any(a["kind"] == "accuracy at chance level" and "commonest class gives 90" in a["text"]
                           for a in report["alarms"]), (report["alarms"], report["rows"][0]["accuracy"]))


def lives(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(what, seconds=20):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


def test_nobody_stays():
    """A lab that is killed, or whose terminal is closed, takes along what its runners have started."""
    write("hangs", "#!/bin/sh\ncase \"$*\" in *.json)\n  setsid sleep 1000 & a=$!\n  sh -c 'sleep 1000; :' & b=$!\n"
          "  echo $a $b $$ > pids.part; mv pids.part pids; wait;;\nesac\n" + open("python").read())
    os.chmod("hangs", 0o755)
    for how, code in ((signal.SIGKILL, -9), (signal.SIGHUP, 130)):
        lab = subprocess.Popen([BRASA, "lab", "run", "one.lab", "--peers", "pytorch=" + os.path.abspath("hangs"),
                                "--store", "hangs.db"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               stdin=subprocess.DEVNULL, env={**os.environ, "BRASA_LAB": os.path.abspath("runners")})
        there = wait_for(lambda: os.path.exists("pids"), 60)
        pids = [int(pid) for pid in open("pids").read().split()] if there else []
        lab.send_signal(how)
        error = lab.communicate(timeout=60)[1]
        check("its end by signal %d" % how, there and lab.returncode == code, (pids, lab.returncode, error))
        check("nobody stays behind after signal %d" % how, wait_for(lambda: not any(map(lives, pids))), pids)
        check("how to go on", how == signal.SIGKILL or "stopped: `brasa lab run --resume" in error, error)
        for pid in filter(lives, pids):
            os.kill(pid, signal.SIGKILL)
        os.remove("pids")


def test_bad_input():
    write("bad.lab", "network letter_mlp\ndata synth:letter\nbatch zero\n")
    for words, expected in (([], "which experiment"), (["nothing"], "there is no preset 'nothing'"),
                            (["bad.lab"], "bad.lab:3: batch"), (["missing.lab"], "missing.lab"),
                            (["letters.lab", "--scale", "huge"], "full or small"),
                            (["letters.lab", "--peers", "pytorhc"], "did you mean 'pytorch'"),
                            (["letters.lab", "--peers", "pytorch=/tmp"], "/tmp is no program"),
                            (["letters.lab", "--peers", "pytorch="], "is no program"),
                            (["letters.lab", "--seed", "1"], "unknown option '--seed'"),
                            (["--resume", "none"], "no campaign 'none'"),
                            (["--resume", "1", "letters.lab"], "unexpected 'letters.lab'"),
                            (["--resume", "1", "--scale", "small"], "--scale cannot be given"),
                            (["--resume", "1", "--price-per-hour", "2"], "the campaign's own price"),
                            (["letters.lab", "--price-per-hour", "much"], "--price-per-hour: expected a number")):
        r = run("run", *words)
        check("refused: lab run " + " ".join(words), r.returncode == 2 and not r.stdout and expected in r.stderr and
              r.stderr.count("\n") == 1, (r.returncode, r.stdout, r.stderr))
    for words in (["nothing"], ["--resume", "1"], ["letters.lab", "--peers", "pytorhc"]):
        r = run("run", *words, "--store", "never.db")
        check("makes no store: lab run " + " ".join(words), r.returncode == 2 and not os.path.exists("never.db") and
              not os.path.exists("never-files"), (r.returncode, r.stderr))
    r = run("report", "--csv", "--json")
    check("one form of a report", r.returncode == 2 and "expected one of them" in r.stderr and not r.stdout, r.stderr)
    write("red\x1b[31m.lab", EXPERIMENT.replace("title     Letters\n", "") % "64")
    r = run("run", "red\x1b[31m.lab", "--peers", "brasa", "--store", "red.db")
    check("a terminal gets no controls from outside", r.returncode == 0 and "\x1b" not in r.stdout and "red?[31m" in r.stdout,
          r.stdout)
    r = run("report", "1", "--csv", "--out", "rows.csv")
    check("no page of a report in CSV", r.returncode == 2 and "--out is the page's" in r.stderr and not r.stdout, r.stderr)
    write("nf-files", "")
    r = run("run", "one.lab", "--peers", "brasa", "--store", "nf.db")
    check("a file where the folder belongs", r.returncode != 0 and "nf-files: the lab's files belong there" in r.stderr and
          "goes on" not in r.stderr, (r.returncode, r.stderr))
    r = run("report", "1", "--out", "nowhere/page.html")
    check("the verdict without a page", r.returncode == 1 and r.stdout.startswith("verdict: ") and
          "report: " not in r.stdout and "nowhere/page.html" in r.stderr, (r.returncode, r.stdout, r.stderr))


def main():
    if "SQLite" in run("list", "--store", "/nonexistent/x.db").stderr:
        skip("lab run", "built without SQLite")
        return finish()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write("letters.lab", EXPERIMENT % "32 64")
        write("one.lab", EXPERIMENT % "64")
        write("profile.lab", (EXPERIMENT % "64").replace("repeats   2", "repeats   1") + "profile yes\n")
        write("gpu.lab", EXPERIMENT % "64" + "device cuda\nprecision bf16\n")
        for test in (test_alone, test_resume, test_same_again, test_changed, test_peers, test_profile, test_gpu,
                     test_full, test_folders, test_unbalanced, test_nobody_stays, test_bad_input):
            test()
        os.chdir("/")
    finish()


main()
